//! Lines for a file, written by a thread. Disks hang: the queue is bounded, and adding a line waits for no disk.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

#[derive(Debug)]
struct Waiting<T> {
    lines: VecDeque<Arc<T>>,
    /// Dequeued, and not written yet.
    writing: Option<Arc<T>>,
    dropped: u64,
    /// Since lines were dropped, none was written.
    is_full: bool,
}

#[derive(Debug)]
struct LinesState<T> {
    /// Names them in the log.
    what: &'static str,
    /// Limit of queued lines.
    most: usize,
    waiting: Mutex<Waiting<T>>,
    added: Condvar,
    written: Condvar,
}

/// Takes lines without waiting for the disk.
#[derive(Clone, Debug)]
pub struct Lines<T>(Arc<LinesState<T>>);

impl<T: Send + Sync + 'static> Lines<T> {
    /// Starts the thread of this name, which ends with the process.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(
        thread: &str,
        what: &'static str,
        most: usize,
        mut write: impl FnMut(&T) + Send + 'static,
    ) -> io::Result<Self> {
        let lines = Self(Arc::new(LinesState {
            what,
            most,
            waiting: Mutex::new(Waiting {
                lines: VecDeque::new(),
                writing: None,
                dropped: 0,
                is_full: false,
            }),
            added: Condvar::new(),
            written: Condvar::new(),
        }));
        let own = Self(Arc::clone(&lines.0));
        thread::Builder::new().name(thread.to_owned()).spawn(move || {
            loop {
                write(&own.next());
            }
        })?;
        Ok(lines)
    }

    /// Queues a line.
    pub fn add(&self, line: Arc<T>) {
        let mut waiting = self.lock();
        if waiting.lines.len() < self.0.most {
            waiting.lines.push_back(line);
        } else {
            waiting.dropped = waiting.dropped.saturating_add(1);
            if !std::mem::replace(&mut waiting.is_full, true) {
                let (what, most) = (self.0.what, self.0.most);
                tracing::error!(
                    waiting = most,
                    "the disk does not accept {what}; further ones are lost"
                );
            }
        }
        drop(waiting);
        self.0.added.notify_one();
    }

    /// The first lines that are not written yet, oldest first.
    pub fn unwritten(&self, most: usize) -> Vec<Arc<T>> {
        let waiting = self.lock();
        let all = waiting.writing.iter().chain(&waiting.lines);
        all.take(most).cloned().collect()
    }

    /// Number of lines that the queue had no room for, since the start.
    pub fn dropped(&self) -> u64 {
        self.lock().dropped
    }

    /// Waits until all lines are written, at most this time.
    pub fn finish(&self, patience: Duration) {
        let is_busy = |w: &mut Waiting<T>| w.writing.is_some() || !w.lines.is_empty();
        let woken = self.0.written.wait_timeout_while(self.lock(), patience, is_busy);
        drop(woken);
    }

    fn lock(&self) -> MutexGuard<'_, Waiting<T>> {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> Arc<T> {
        let mut waiting = self.lock();
        waiting.writing = None;
        loop {
            if let Some(line) = waiting.lines.pop_front() {
                if std::mem::take(&mut waiting.is_full) {
                    let (what, dropped) = (self.0.what, waiting.dropped);
                    tracing::warn!(dropped, "the disk accepts {what} again; `dropped` were lost");
                }
                waiting.writing = Some(Arc::clone(&line));
                return line;
            }
            self.0.written.notify_all();
            let woken = self.0.added.wait(waiting);
            waiting = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A file, and whether the last write failed: that is logged once.
#[derive(Debug)]
pub struct Target {
    path: PathBuf,
    what: &'static str,
    is_failing: bool,
}

impl Target {
    /// A file; `what` names its content in the log.
    pub fn new(path: PathBuf, what: &'static str) -> Self {
        let is_failing = false;
        Self {
            path,
            what,
            is_failing,
        }
    }

    /// Writes to it. Whether that succeeded.
    pub fn write(&mut self, write: impl FnOnce(&Path) -> io::Result<()>) -> bool {
        let (path, what) = (self.path.display(), self.what);
        let done = write(&self.path);
        match &done {
            Err(error) if !self.is_failing => tracing::error!(%path, %error, "cannot write {what}"),
            Ok(()) if self.is_failing => tracing::info!(%path, "{what} can be written again"),
            _ => {}
        }
        self.is_failing = done.is_err();
        !self.is_failing
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    #[test]
    fn while_the_disk_hangs_lines_wait_up_to_a_bound() {
        const MOST: usize = 100;
        let ((wrote, written), (go, disk)) = (channel(), channel::<()>());
        let lines = Lines::start("test", "lines", MOST, move |line: &usize| {
            sys::ignore(wrote.send(*line));
            // It hangs until the other end is dropped.
            sys::ignore(disk.recv());
        });
        let lines = lines.unwrap();
        lines.add(Arc::new(0));
        assert_eq!(written.recv_timeout(PATIENCE).unwrap(), 0);
        (1..=MOST + 10).for_each(|n| lines.add(Arc::new(n)));
        assert_eq!(lines.dropped(), 10);
        let unwritten: Vec<_> = (0..50).map(Arc::new).collect();
        assert_eq!(lines.unwritten(50), unwritten, "with the one that hangs");
        lines.finish(Duration::ZERO);
        drop(go);
        let rest: Vec<usize> = (1..=MOST)
            .map(|_| written.recv_timeout(PATIENCE).unwrap())
            .collect();
        assert_eq!(rest, (1..=MOST).collect::<Vec<_>>());
        // The disk works again.
        lines.add(Arc::new(1));
        lines.finish(PATIENCE);
        assert_eq!(written.try_recv(), Ok(1));
        assert_eq!((lines.dropped(), lines.unwritten(1).len()), (10, 0));
    }
}
