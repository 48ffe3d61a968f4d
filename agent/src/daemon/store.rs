//! The threads that write files: one for records, flushed to the disk, and one for the verdict. A full, read-only or hung
//! disk stops the first and nothing else.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::{io, thread};

use health::Record;
use sys::{files, store};

/// A record's fate.
#[derive(Debug)]
pub struct Stored {
    /// Its number.
    pub number: u64,
    /// Why it is not on the disk, where it is not.
    pub result: Result<(), String>,
}

/// Where a daemon keeps its record.
pub fn record_path(state_dir: &Path) -> PathBuf {
    state_dir.join("state.json")
}

/// Where a daemon publishes its verdict.
pub fn verdict_path(run_dir: &Path) -> PathBuf {
    run_dir.join(health::verdict::FILE)
}

/// Starts the thread that keeps records. `answer` is called on it. Without a directory no record is kept.
///
/// # Errors
/// When the thread cannot be started.
pub fn start(
    state_dir: Option<&Path>,
    answer: impl Fn(Stored) + Send + 'static,
) -> io::Result<Sender<Record>> {
    let (to, records) = channel::<Record>();
    let path = state_dir.map(record_path);
    thread::Builder::new().name("store".to_owned()).spawn(move || {
        for Record { number, json } in records {
            let result = match &path {
                Some(path) => store::replace(path, json.as_bytes(), 0o600, true)
                    .map_err(|e| format!("{}: {e}", path.display())),
                None => {
                    Err("the state directory is not used, the log of the start has the reason".to_owned())
                }
            };
            answer(Stored { number, result });
        }
    })?;
    Ok(to)
}

/// Writes the verdict. Where the folder is full, the one before must go: it would be believed until it expires, and a
/// missing one is unknown.
fn put(path: &Path, text: &str) -> io::Result<()> {
    store::replace(path, text.as_bytes(), 0o644, false).inspect_err(|_| sys::ignore(files::remove(path)))
}

/// The verdict that is to be published next; a newer one takes the place of one that still waits.
#[derive(Debug, Default)]
struct PendingVerdict {
    line: Mutex<Option<String>>,
    filled: Condvar,
}

/// Publishes verdicts, on a thread of its own: the run directory is memory, and does not wait for the state's disk.
#[derive(Clone, Debug, Default)]
pub struct Publisher(Arc<PendingVerdict>);

impl Publisher {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn start(run_dir: &Path) -> io::Result<Self> {
        let publisher = Self::default();
        let (slot, path) = (Arc::clone(&publisher.0), verdict_path(run_dir));
        thread::Builder::new().name("verdict".to_owned()).spawn(move || {
            let mut failed = false;
            loop {
                let mut line = slot.line.lock().unwrap_or_else(PoisonError::into_inner);
                let text = loop {
                    match line.take() {
                        Some(text) => break text,
                        None => line = slot.filled.wait(line).unwrap_or_else(PoisonError::into_inner),
                    }
                };
                drop(line);
                let result = put(&path, &text);
                if let Err(e) = &result
                    && !failed
                {
                    tracing::error!(path = %path.display(), error = %e, "cannot write the verdict");
                }
                failed = result.is_err();
            }
        })?;
        Ok(publisher)
    }

    /// Hands a line over. The lock is held for the move of a pointer only.
    pub fn publish(&self, line: String) {
        *self.0.line.lock().unwrap_or_else(PoisonError::into_inner) = Some(line);
        self.0.filled.notify_one();
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests read and block files")]
mod tests {
    use std::fs;

    use super::*;
    use crate::daemon::audit::trail_path;
    use crate::http::control::SOCKET;

    #[test]
    fn a_verdict_that_cannot_be_written_does_not_leave_the_one_before() {
        let dir = tempfile::tempdir().unwrap();
        let path = verdict_path(dir.path());
        put(&path, "healthy").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "healthy");
        // As in a full folder: no new file, and an old one can be removed.
        let block = dir.path().join(".verdict.new");
        fs::create_dir(&block).unwrap();
        put(&path, "unhealthy").unwrap_err();
        assert!(!path.exists());
        fs::remove_dir(&block).unwrap();
        put(&path, "unhealthy").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "unhealthy");
    }

    /// Otherwise a directory whose lock was removed is refused.
    #[test]
    fn the_directories_know_the_files_of_the_daemon() {
        let dir = Path::new("/d");
        for path in [
            record_path(dir),
            verdict_path(dir),
            trail_path(dir),
            dir.join(SOCKET),
        ] {
            assert!(sys::dirs::is_own_name(path.file_name().unwrap()), "{path:?}");
        }
    }
}
