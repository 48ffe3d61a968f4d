//! The threads that write the usage of jobs, one for each file. Disks hang: each queue is bounded, and the totals in
//! memory do not wait for a disk.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use model::jobs::Line;

/// Limit of queued lines; a line has about 1 kB.
const MOST: usize = 4096;
/// Limit of queued lines that are stored with the totals, the oldest.
const BESIDE: usize = 1024;

#[derive(Debug, Default)]
struct Waiting {
    lines: VecDeque<Arc<Line>>,
    /// Dequeued, and not on the disk yet.
    writing: Option<Arc<Line>>,
    /// Only the newest one is queued.
    book: Option<String>,
    dropped: u64,
    /// Since lines were dropped, none was written.
    is_full: bool,
}

#[derive(Debug, Default)]
struct KeeperState {
    waiting: Mutex<Waiting>,
    line: Condvar,
    book: Condvar,
}

/// Takes lines and totals without waiting for the disk.
#[derive(Clone, Debug, Default)]
pub struct Keeper(Arc<KeeperState>);

impl Keeper {
    /// Starts the threads, which end with the process. One writes lines of ended jobs, the other the totals of
    /// running ones.
    pub(super) fn start(
        mut write_line: impl FnMut(&Line) + Send + 'static,
        mut write_book: impl FnMut(&str) + Send + 'static,
    ) -> io::Result<Self> {
        let keeper = Self::default();
        let lines = keeper.clone();
        thread::Builder::new().name("jobs".to_owned()).spawn(move || {
            loop {
                write_line(&lines.next_line());
            }
        })?;
        let books = keeper.clone();
        thread::Builder::new()
            .name("job-sums".to_owned())
            .spawn(move || {
                loop {
                    write_book(&books.next_book());
                }
            })?;
        Ok(keeper)
    }

    /// Queues the line of an ended job.
    pub fn line(&self, line: Arc<Line>) {
        let mut waiting = self.lock();
        if waiting.lines.len() < MOST {
            waiting.lines.push_back(line);
        } else {
            waiting.dropped = waiting.dropped.saturating_add(1);
            if !std::mem::replace(&mut waiting.is_full, true) {
                tracing::error!(
                    waiting = MOST,
                    "the disk does not accept lines of ended jobs; lines of jobs that end from now on are lost"
                );
            }
        }
        drop(waiting);
        self.0.line.notify_one();
    }

    /// Lines that are not written yet, oldest first.
    pub fn unwritten(&self) -> Vec<Arc<Line>> {
        let waiting = self.lock();
        let all = waiting.writing.iter().chain(&waiting.lines);
        all.take(BESIDE).cloned().collect()
    }

    /// Queues the totals of running jobs, in place of older ones.
    pub fn book(&self, text: String) {
        self.lock().book = Some(text);
        self.0.book.notify_one();
    }

    /// Number of lines lost since the start.
    pub fn dropped(&self) -> u64 {
        self.lock().dropped
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_line(&self) -> Arc<Line> {
        let mut waiting = self.lock();
        waiting.writing = None;
        loop {
            if let Some(line) = waiting.lines.pop_front() {
                if std::mem::take(&mut waiting.is_full) {
                    let dropped = waiting.dropped;
                    tracing::warn!(
                        dropped,
                        "the disk accepts lines of ended jobs again; `dropped` lines were lost"
                    );
                }
                waiting.writing = Some(Arc::clone(&line));
                return line;
            }
            let woken = self.0.line.wait(waiting);
            waiting = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn next_book(&self) -> String {
        let mut waiting = self.lock();
        loop {
            if let Some(book) = waiting.book.take() {
                return book;
            }
            let woken = self.0.book.wait(waiting);
            waiting = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    fn line(job: usize) -> Arc<Line> {
        Arc::new(Line {
            job: job.to_string(),
            ..Line::default()
        })
    }

    #[test]
    fn while_the_disk_hangs_lines_wait_up_to_a_bound_and_the_sums_do_not() {
        let ((wrote, written), (go, disk)) = (channel(), channel::<()>());
        let (summed, sums) = channel();
        let keeper = Keeper::start(
            move |line| {
                sys::ignore(wrote.send(line.job.clone()));
                // It hangs until the other end is dropped.
                sys::ignore(disk.recv());
            },
            move |book| sys::ignore(summed.send(book.to_owned())),
        );
        let keeper = keeper.unwrap();
        keeper.line(line(0));
        assert_eq!(written.recv_timeout(PATIENCE).unwrap(), "0");
        for n in 1..=MOST + 10 {
            keeper.line(line(n));
        }
        assert_eq!((keeper.dropped(), keeper.lock().lines.len()), (10, MOST));
        let unwritten: Vec<_> = (0..BESIDE).map(line).collect();
        assert_eq!(keeper.unwritten(), unwritten, "with the one that hangs");
        for n in ["1", "2"] {
            keeper.book(n.to_owned());
            assert_eq!(sums.recv_timeout(PATIENCE).unwrap(), n);
        }
        drop(go);
        let rest: Vec<String> = (1..=MOST)
            .map(|_| written.recv_timeout(PATIENCE).unwrap())
            .collect();
        assert_eq!(rest, (1..=MOST).map(|n| n.to_string()).collect::<Vec<_>>());
        // The disk works again.
        keeper.line(line(1));
        assert_eq!(written.recv_timeout(PATIENCE).unwrap(), "1");
        let all = || Ok(keeper.unwritten().is_empty().then_some(()));
        testkit::wait::until("everything to be written", PATIENCE, all).unwrap();
        assert_eq!(keeper.dropped(), 10);
    }

    #[test]
    fn of_sums_that_wait_the_newest_is_written() {
        let ((wrote, written), (go, disk)) = (channel(), channel::<()>());
        let keeper = Keeper::start(
            |_| {},
            move |book| {
                sys::ignore(wrote.send(book.to_owned()));
                sys::ignore(disk.recv());
            },
        );
        let keeper = keeper.unwrap();
        keeper.book("first".to_owned());
        assert_eq!(written.recv_timeout(PATIENCE).unwrap(), "first");
        for n in 0..10 {
            keeper.book(n.to_string());
        }
        drop(go);
        assert_eq!(written.recv_timeout(PATIENCE).unwrap(), "9");
    }
}
