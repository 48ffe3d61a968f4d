//! The audit trail: `audit.jsonl` in the state directory, and which entries the site's command gets.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use health::audit::{Entry, Kind};
use model::scheduler::IncidentId;
use sys::store;

use super::lines::{Lines, Target};
use crate::audit::Line;
use crate::own::AuditCounts;

/// Limit of the file, in bytes; a line has about 1 kB.
const MOST: u64 = 1 << 20;
/// Number of older files that are kept.
const OLDER: usize = 4;
/// Limit of entries that wait for the disk.
const WAITING: usize = 256;
/// Time for the last entries to be written when the daemon ends.
const FINISH: Duration = Duration::from_secs(2);
/// The incidents that are known to have been held.
const HELD: usize = 64;

/// The file.
pub fn trail_path(state_dir: &Path) -> PathBuf {
    state_dir.join("audit.jsonl")
}

#[derive(Debug, Default)]
struct Outcomes {
    written: AtomicU64,
    failed: AtomicU64,
}

/// Takes entries without waiting for the disk.
#[derive(Clone, Debug)]
pub struct Trail {
    entries: Lines<Entry>,
    outcomes: Arc<Outcomes>,
}

impl Trail {
    /// Starts the thread that writes. Without a state directory, entries are lost.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(state_dir: Option<&Path>) -> io::Result<Self> {
        let what = "the audit trail";
        let mut target = state_dir.map(|dir| Target::new(trail_path(dir), what));
        let outcomes = Arc::<Outcomes>::default();
        let counts = Arc::clone(&outcomes);
        let write = move |entry: &Entry| {
            let append = |target: &mut Target| target.write(|path| append(path, entry, MOST));
            let done = if target.as_mut().is_some_and(append) {
                &counts.written
            } else {
                &counts.failed
            };
            done.fetch_add(1, Ordering::Relaxed);
        };
        Ok(Self {
            entries: Lines::start("audit", what, WAITING, write)?,
            outcomes,
        })
    }

    /// Queues an entry.
    pub fn add(&self, entry: Entry) {
        self.entries.add(Arc::new(entry));
    }

    /// Entries written and lost since the start.
    pub fn counts(&self) -> AuditCounts {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        AuditCounts {
            written: of(&self.outcomes.written),
            lost: of(&self.outcomes.failed) + self.entries.dropped(),
            ..AuditCounts::default()
        }
    }

    /// Waits a moment for entries that are not written yet. The process ends.
    pub fn finish(&self) {
        self.entries.finish(FINISH);
    }
}

fn append(path: &Path, entry: &Entry, most: u64) -> io::Result<()> {
    let mut text = serde_json::to_string(&Line::of(entry))?;
    text.push('\n');
    // Evidence may name users and their processes: for the readers of the daemon's other records.
    store::append(path, text.as_bytes(), 0o640, (most, OLDER))
}

/// Which entries the site's command gets.
#[derive(Debug, Default)]
pub struct Notices {
    held: VecDeque<IncidentId>,
}

impl Notices {
    /// Whether this one is to be sent. That an incident is held is sent once.
    pub fn take(&mut self, entry: &Entry) -> bool {
        let Some(incident) = entry.incident.as_ref().filter(|_| entry.kind == Kind::Held) else {
            return entry.kind.notifies();
        };
        if self.held.contains(incident) {
            return false;
        }
        if self.held.len() >= HELD {
            self.held.pop_front();
        }
        self.held.push_back(incident.clone());
        true
    }
}

#[cfg(test)]
#[allow(
    clippy::disallowed_methods,
    reason = "tests look at the files and put others in their place"
)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn entry(at: i64) -> Entry {
        Entry::new(Kind::Written, at)
    }

    fn of(id: &str, kind: Kind) -> Entry {
        Entry {
            incident: IncidentId::parse(id),
            ..Entry::new(kind, 0)
        }
    }

    /// The times of the lines; -1 for one that is no JSON.
    fn times(path: &Path) -> Vec<i64> {
        let text = fs::read_to_string(path).unwrap();
        let time = |line: &str| -> Option<i64> {
            serde_json::from_str::<serde_json::Value>(line).ok()?["timestamp"].as_i64()
        };
        text.lines().map(|line| time(line).unwrap_or(-1)).collect()
    }

    /// Adds an entry and waits for its outcome.
    fn add(trail: &Trail, at: i64) -> (u64, u64) {
        trail.add(entry(at));
        trail.entries.finish(Duration::from_secs(60));
        let counts = trail.counts();
        (counts.written, counts.lost)
    }

    #[test]
    fn each_entry_is_a_line_that_only_the_daemon_and_its_group_read_and_a_restart_goes_on() {
        let dir = tempfile::tempdir().unwrap();
        let path = trail_path(dir.path());
        for at in 0..3 {
            let trail = Trail::start(Some(dir.path())).unwrap();
            assert_eq!(add(&trail, at), (1, 0));
        }
        assert_eq!(times(&path), [0, 1, 2]);
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o640);
    }

    #[test]
    fn long_files_are_rotated_and_four_older_ones_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = trail_path(dir.path());
        let most = serde_json::to_string(&Line::of(&entry(0))).unwrap().len() as u64 * 3;
        for at in 0..13 {
            append(&path, &entry(at), most).unwrap();
        }
        let older = |n| times(&dir.path().join(format!("audit.jsonl.{n}")));
        assert_eq!(times(&path), [12]);
        assert_eq!((older(1), older(4)), (vec![10, 11], vec![4, 5]));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 5);
    }

    #[test]
    fn a_line_that_a_crash_cut_does_not_spoil_the_next_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = trail_path(dir.path());
        let trail = Trail::start(Some(dir.path())).unwrap();
        add(&trail, 1);
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() - 9]).unwrap();
        assert_eq!(add(&trail, 2), (2, 0));
        assert_eq!(times(&path), [-1, 2]);
    }

    #[test]
    fn what_cannot_be_written_is_counted_and_writing_goes_on_when_it_can() {
        let dir = tempfile::tempdir().unwrap();
        let path = trail_path(dir.path());
        let trail = Trail::start(Some(dir.path())).unwrap();
        // It must not be written through, and a FIFO without a reader must not be waited for.
        let victim = dir.path().join("victim");
        fs::write(&victim, "precious").unwrap();
        std::os::unix::fs::symlink(&victim, &path).unwrap();
        assert_eq!(add(&trail, 1), (0, 1));
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        fs::remove_file(&path).unwrap();
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(add(&trail, 2), (0, 2));
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/full", &path).unwrap();
        assert_eq!(add(&trail, 3), (0, 3));
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert_eq!(add(&trail, 4), (0, 4));
        fs::remove_dir(&path).unwrap();
        assert_eq!(add(&trail, 5), (1, 4));
        assert_eq!(times(&path), [5]);
        let nowhere = Trail::start(None).unwrap();
        assert_eq!(add(&nowhere, 6), (0, 1));
    }

    #[test]
    fn that_an_incident_is_held_is_sent_once_and_intents_and_refused_orders_never() {
        let mut notices = Notices::default();
        let mut takes = |id, kind| notices.take(&of(id, kind));
        assert!(takes("aaaaaaaa", Kind::Held) && !takes("aaaaaaaa", Kind::Held));
        assert!(takes("bbbbbbbb", Kind::Held) && !takes("aaaaaaaa", Kind::Held));
        for kind in [Kind::Written, Kind::Refused, Kind::Ack, Kind::Release] {
            assert!(takes("aaaaaaaa", kind) && takes("aaaaaaaa", kind), "{kind:?}");
        }
        for kind in [Kind::Wanted, Kind::Withdrawn, Kind::RefusedOrder] {
            assert!(!takes("aaaaaaaa", kind), "{kind:?}");
        }
    }
}
