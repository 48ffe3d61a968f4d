//! The thread that writes what jobs have used. Disks hang: what waits for one is bounded.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use super::line::Line;

/// So many lines wait; a line has about a kilobyte.
const MOST: usize = 4096;

/// What is to be kept.
#[derive(Debug, PartialEq)]
pub(super) enum Kept {
    /// A job has ended.
    Line(Arc<Line>),
    /// The sums of those that run.
    Book(String),
}

#[derive(Debug, Default)]
struct Waiting {
    lines: VecDeque<Arc<Line>>,
    /// The newest takes the place of one that still waits.
    book: Option<String>,
    dropped: u64,
    /// Since lines were dropped, none was written.
    is_full: bool,
}

/// Takes what is to be kept, without waiting for the disk.
#[derive(Clone, Debug, Default)]
pub struct Keeper(Arc<(Mutex<Waiting>, Condvar)>);

impl Keeper {
    /// Starts the thread, which ends with the process.
    pub(super) fn start(mut write: impl FnMut(&Kept) + Send + 'static) -> io::Result<Self> {
        let keeper = Self::default();
        let kept = keeper.clone();
        thread::Builder::new().name("jobs".to_owned()).spawn(move || {
            loop {
                write(&kept.next());
            }
        })?;
        Ok(keeper)
    }

    /// Has the line of a job that has ended written, after those before it.
    pub fn line(&self, line: Arc<Line>) {
        let mut waiting = self.lock();
        if waiting.lines.len() < MOST {
            waiting.lines.push_back(line);
        } else {
            waiting.dropped = waiting.dropped.saturating_add(1);
            if !std::mem::replace(&mut waiting.is_full, true) {
                tracing::error!(
                    waiting = MOST,
                    "the disk does not take lines of jobs; those of jobs that end from now on are lost"
                );
            }
        }
        drop(waiting);
        self.0.1.notify_one();
    }

    /// Has the sums of the jobs that run written, in the place of older ones.
    pub fn book(&self, text: String) {
        self.lock().book = Some(text);
        self.0.1.notify_one();
    }

    /// How many lines were lost since the start.
    pub fn dropped(&self) -> u64 {
        self.lock().dropped
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for something to write: lines first, so that a job that is no more among the sums has its line.
    fn next(&self) -> Kept {
        let mut waiting = self.lock();
        loop {
            if let Some(line) = waiting.lines.pop_front() {
                if std::mem::take(&mut waiting.is_full) {
                    let dropped = waiting.dropped;
                    tracing::warn!(dropped, "the disk takes lines of jobs again; so many were lost");
                }
                return Kept::Line(line);
            }
            if let Some(book) = waiting.book.take() {
                return Kept::Book(book);
            }
            waiting = self.0.1.wait(waiting).unwrap_or_else(PoisonError::into_inner);
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
    fn while_the_disk_hangs_lines_wait_up_to_a_bound_and_of_the_sums_the_newest() {
        let ((wrote, written), (go, disk)) = (channel(), channel::<()>());
        let keeper = Keeper::start(move |kept| {
            let kept = match kept {
                Kept::Line(line) => Kept::Line(Arc::clone(line)),
                Kept::Book(text) => Kept::Book(text.clone()),
            };
            crate::ignore(wrote.send(kept));
            // It hangs until the other end is dropped.
            crate::ignore(disk.recv());
        });
        let keeper = keeper.unwrap();
        keeper.book("first".to_owned());
        assert_eq!(
            written.recv_timeout(PATIENCE).unwrap(),
            Kept::Book("first".to_owned())
        );
        for n in 0..MOST + 10 {
            keeper.line(line(n));
            keeper.book(n.to_string());
        }
        assert_eq!(keeper.dropped(), 10);
        assert_eq!(keeper.lock().lines.len(), MOST);
        drop(go);
        let rest: Vec<Kept> = (0..=MOST)
            .map(|_| written.recv_timeout(PATIENCE).unwrap())
            .collect();
        let lines = (0..MOST).map(|n| Kept::Line(line(n)));
        let newest = Kept::Book((MOST + 9).to_string());
        assert_eq!(rest, lines.chain([newest]).collect::<Vec<_>>());
        // It is in order again.
        keeper.line(line(1));
        assert_eq!(written.recv_timeout(PATIENCE).unwrap(), Kept::Line(line(1)));
        assert_eq!(keeper.dropped(), 10);
    }
}
