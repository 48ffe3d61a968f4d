//! Files of ended jobs' lines, and of running jobs' totals.

use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use collectors::BootId;
use collectors::slurm::hook::RecordId;
use serde::{Deserialize, Serialize};

use model::jobs::{Book, Line};
use sys::store;

use super::keeper::Keeper;
use crate::daemon::lines::Target;

/// Limit of a file of lines, in bytes; a line has about 1 kB.
const MOST: u64 = 16 << 20;
/// Number of older files of lines that are kept.
const OLDER: usize = 3;
/// Limit of bytes read back from the end of a file.
const TAIL: u64 = 1 << 20;
/// After this time a line that could not be written, as on a full disk, is tried again.
const AGAIN: Duration = Duration::from_secs(1);

/// The file of lines.
fn lines_path(state_dir: &Path) -> PathBuf {
    state_dir.join("jobs.jsonl")
}

/// The file of totals: no job outlives a boot.
fn book_path(run_dir: &Path) -> PathBuf {
    run_dir.join("jobs.json")
}

/// Starts the threads that write both files. Without a state directory lines are lost. `written` is called with the
/// record of each written line.
///
/// # Errors
/// When one cannot be started.
pub fn start(
    state_dir: Option<&Path>,
    run_dir: &Path,
    written: impl Fn(RecordId) + Send + 'static,
) -> io::Result<Keeper> {
    let what = "the usage of jobs";
    let mut lines = state_dir.map(|dir| Target::new(lines_path(dir), what));
    let mut book = Target::new(book_path(run_dir), what);
    Keeper::start(
        move |line| {
            let Some(lines) = &mut lines else { return };
            // The lines after it wait, too.
            while !lines.write(|path| append(path, line)) {
                thread::sleep(AGAIN);
            }
            line.record.map(&written);
        },
        move |text| {
            book.write(|path| store::replace(path, text.as_bytes(), 0o600, false));
        },
    )
}

fn append(path: &Path, line: &Line) -> io::Result<()> {
    let mut text = serde_json::to_string(line)?;
    text.push('\n');
    // Users and their work: for the readers of the daemon's other records.
    store::append(path, text.as_bytes(), 0o640, (MOST, OLDER))
}

/// The last written lines, oldest first. Unreadable lines are logged and skipped.
pub fn recall(state_dir: &Path) -> Vec<Line> {
    let path = lines_path(state_dir);
    // The newest file may be almost empty.
    let older = path.with_extension("jsonl.1");
    [older, path].iter().flat_map(|path| recall_of(path)).collect()
}

fn recall_of(path: &Path) -> Vec<Line> {
    let text = match store::tail(path, TAIL) {
        Ok(text) => text.unwrap_or_default(),
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "cannot read back the lines of ended jobs");
            return Vec::new();
        }
    };
    let mut lines = Vec::new();
    for (number, line) in text.lines().enumerate() {
        match serde_json::from_str(line) {
            Ok(line) => lines.push(line),
            Err(error) => tracing::warn!(
                path = %path.display(),
                line = number + 1,
                "cannot parse a line of the file's end: {error}; expected a job as JSON; skipped"
            ),
        }
    }
    lines
}

#[derive(Serialize, Deserialize)]
struct OfBoot<T> {
    boot: BootId,
    book: T,
}

/// Totals as stored.
pub fn kept(book: &Book, boot: &BootId) -> Option<String> {
    let boot = boot.clone();
    serde_json::to_string(&OfBoot { boot, book }).ok()
}

/// The totals of jobs that ran when the last daemon ended, of this boot.
pub fn restore(run_dir: &Path, boot: &BootId) -> Book {
    let path = book_path(run_dir);
    let read = store::load(&path).map_err(|e| e.to_string());
    let parsed = read.and_then(|text| {
        let parse = |text: String| serde_json::from_str::<OfBoot<Book>>(&text);
        text.map(parse).transpose().map_err(|e| e.to_string())
    });
    match parsed {
        Ok(kept) => kept
            .filter(|kept| kept.boot == *boot)
            .map(|kept| kept.book)
            .unwrap_or_default(),
        Err(error) => {
            tracing::warn!(path = %path.display(), "cannot read back totals of running jobs: {error}; they start at 0");
            Book::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise a directory whose lock was removed is refused.
    #[test]
    fn the_directories_know_these_files() {
        for path in [lines_path(Path::new("/d")), book_path(Path::new("/d"))] {
            assert!(sys::dirs::is_own_name(path.file_name().unwrap()), "{path:?}");
        }
    }

    fn line(job: u32) -> Line {
        Line {
            job: job.to_string(),
            ..Line::default()
        }
    }

    #[test]
    fn lines_are_read_back_and_a_broken_one_costs_no_other() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(recall(dir.path()), []);
        let path = lines_path(dir.path());
        append(&path, &line(7)).unwrap();
        // As left by a daemon that is killed while it writes.
        store::append(&path, b"{\"job\":\"8", 0o640, (MOST, OLDER)).unwrap();
        append(&path, &line(9)).unwrap();
        assert_eq!(recall(dir.path()), [line(7), line(9)]);
        // The next one begins a new file.
        store::append(&path, b"{\"job\":\"10\"}\n", 0o640, (1, OLDER)).unwrap();
        assert_eq!(recall(dir.path()), [line(7), line(9), line(10)]);
    }

    /// A full disk, or a folder that is not mounted yet.
    #[test]
    fn a_line_that_cannot_be_written_is_tried_again_and_reported_once_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        let (wrote, written) = std::sync::mpsc::channel();
        let keeper = start(Some(&state), dir.path(), move |record| {
            sys::ignore(wrote.send(record))
        })
        .unwrap();
        let record = |job| RecordId { ended_us: 1, job };
        for job in [7, 8, 9] {
            // One without a record in between.
            let record = Some(record(job)).filter(|record| record.job != 8);
            keeper.line(Line { record, ..line(job) }.into());
        }
        assert!(written.recv_timeout(AGAIN * 2).is_err());
        sys::files::folder(&state).unwrap();
        let next = || written.recv_timeout(Duration::from_secs(60)).unwrap();
        assert_eq!([next(), next()], [record(7), record(9)]);
        assert_eq!(recall(&state), [line(7), line(8), line(9)]);
    }

    #[test]
    fn sums_are_of_one_boot_and_broken_ones_are_left() {
        let dir = tempfile::tempdir().unwrap();
        let (boot, other) = (BootId("a".to_owned()), BootId("b".to_owned()));
        let mut book = Book::default();
        book.began("job_7", None, 1.0);
        let text = kept(&book, &boot).unwrap();
        store::replace(&book_path(dir.path()), text.as_bytes(), 0o600, false).unwrap();
        assert_eq!(restore(dir.path(), &boot).view(), book.view());
        assert_eq!(restore(dir.path(), &other).view(), Book::default().view());
        store::replace(&book_path(dir.path()), b"{", 0o600, false).unwrap();
        assert_eq!(restore(dir.path(), &boot).view(), Book::default().view());
    }
}
