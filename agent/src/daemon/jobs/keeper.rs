//! The threads that write the usage of jobs, one for each file. Disks hang: each queue is bounded, and the totals in
//! memory do not wait for a disk.

use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

use model::jobs::Line;

use crate::daemon::lines::Lines;

/// Limit of queued lines; a line has about 1 kB.
const MOST: usize = 4096;
/// Limit of queued lines that are stored with the totals, the oldest.
const BESIDE: usize = 1024;

/// The totals to be written next; only the newest ones are queued.
#[derive(Debug, Default)]
struct Totals {
    waiting: Mutex<Option<String>>,
    filled: Condvar,
}

/// Takes lines and totals without waiting for the disk.
#[derive(Clone, Debug)]
pub struct Keeper {
    lines: Lines<Line>,
    book: Arc<Totals>,
}

impl Keeper {
    /// Starts the threads, which end with the process. One writes lines of ended jobs, the other the totals of
    /// running ones.
    pub(super) fn start(
        write_line: impl FnMut(&Line) + Send + 'static,
        mut write_book: impl FnMut(&str) + Send + 'static,
    ) -> io::Result<Self> {
        let keeper = Self {
            lines: Lines::start("jobs", "lines of ended jobs", MOST, write_line)?,
            book: Arc::default(),
        };
        let book = Arc::clone(&keeper.book);
        thread::Builder::new()
            .name("job-sums".to_owned())
            .spawn(move || {
                loop {
                    write_book(&book.next());
                }
            })?;
        Ok(keeper)
    }

    /// Queues the line of an ended job.
    pub fn line(&self, line: Arc<Line>) {
        self.lines.add(line);
    }

    /// Lines that are not written yet, oldest first.
    pub fn unwritten(&self) -> Vec<Arc<Line>> {
        self.lines.unwritten(BESIDE)
    }

    /// Queues the totals of running jobs, in place of older ones.
    pub fn book(&self, text: String) {
        *self.book.waiting.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
        self.book.filled.notify_one();
    }

    /// Number of lines lost since the start.
    pub fn dropped(&self) -> u64 {
        self.lines.dropped()
    }
}

impl Totals {
    fn next(&self) -> String {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(book) = waiting.take() {
                return book;
            }
            let woken = self.filled.wait(waiting);
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

    #[test]
    fn while_the_disk_of_lines_hangs_the_sums_do_not_wait() {
        let ((wrote, written), (go, disk)) = (channel(), channel::<()>());
        let (summed, sums) = channel();
        let keeper = Keeper::start(
            move |_| {
                sys::ignore(wrote.send(()));
                // It hangs until the other end is dropped.
                sys::ignore(disk.recv());
            },
            move |book| sys::ignore(summed.send(book.to_owned())),
        );
        let keeper = keeper.unwrap();
        keeper.line(Arc::default());
        written.recv_timeout(PATIENCE).unwrap();
        for n in ["1", "2"] {
            keeper.book(n.to_owned());
            assert_eq!(sums.recv_timeout(PATIENCE).unwrap(), n);
        }
        drop(go);
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
