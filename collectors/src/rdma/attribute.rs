//! One file of a port: kept open, and left alone for a while where its driver keeps refusing it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::errno::Errno;

use super::text::{LONGEST, Reason};
use crate::Env;
use crate::sys::kept::{DescriptorBudget, Kept};
use crate::sys::statfs::{self, Replacement};

/// Refusals in a row after which a file is given a rest.
const PATIENCE: u32 = 3;
/// The first rest, doubled with each further refusal.
const FIRST_REST: Duration = Duration::from_secs(15);
/// The longest rest.
const LONGEST_REST: Duration = Duration::from_secs(600);

/// One file.
pub(super) struct Attribute {
    kept: Kept,
    /// `None` since the last answer, as for nearly all: a write at each reading would be one for every file.
    patience: Option<Box<RefusalBackoff>>,
}

/// Leaves alone for a while what keeps refusing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RefusalBackoff(Option<Refused>);

/// Refusals in a row. A refusal costs the firmware a command and often the kernel log a line.
#[derive(Clone, Copy, Debug)]
struct Refused {
    reason: Reason,
    times: u32,
    rests_until: Option<Instant>,
}

/// Where files are, and how many may stay open.
#[derive(Clone)]
pub(super) struct AttributeFiles {
    pub(super) budget: Arc<DescriptorBudget>,
    /// A tree in place of sysfs: a removed file stays readable.
    pub(super) on_disk: bool,
}

impl AttributeFiles {
    /// The files of a node or of a tree.
    pub(super) fn new(env: &Env) -> Self {
        // A container sees its host's sysfs at another place.
        let folders = ["/sys/class/infiniband", "/sys"].map(|folder| env.path(folder));
        let there = folders.iter().find(|folder| folder.exists());
        let replacement = match there {
            _ if !env.is_tree() => Replacement::Error,
            Some(folder) => statfs::replacement(folder),
            None => Replacement::Nothing,
        };
        Self {
            budget: match replacement {
                Replacement::Event => DescriptorBudget::of_tree(),
                Replacement::Error | Replacement::Nothing => DescriptorBudget::of_process(),
            },
            on_disk: replacement != Replacement::Error,
        }
    }

    pub(super) fn attribute(&self, path: PathBuf) -> Attribute {
        Attribute {
            kept: Kept::new(path, &self.budget, self.on_disk),
            patience: None,
        }
    }
}

impl Attribute {
    /// Reads it, unless it has a rest; then the last reason holds.
    #[inline]
    pub(super) fn read<T>(
        &mut self,
        now: Instant,
        parse: impl FnOnce(&[u8]) -> Result<T, Reason>,
    ) -> Result<T, Reason> {
        if let Some(reason) = self.patience.as_ref().and_then(|patience| patience.rests(now)) {
            return Err(reason);
        }
        let mut buffer = [0; LONGEST];
        let read = self.kept.read(&mut buffer).map_err(reason).and_then(parse);
        match read {
            Err(reason) if reason.is_refusal() => self.refused(now, reason),
            _ if self.patience.is_some() => self.patience = None,
            _ => {}
        }
        read
    }

    #[cold]
    fn refused(&mut self, now: Instant, reason: Reason) {
        let patience = self.patience.get_or_insert_default();
        if patience.refused(now, reason) {
            tracing::debug!(file = %self.kept.path().display(), reason = reason.word(), "left out");
        }
    }
}

impl RefusalBackoff {
    /// Why it is to be left alone now.
    pub(crate) fn rests(&self, now: Instant) -> Option<Reason> {
        let refused = self.0?;
        let rests = refused.rests_until.is_some_and(|until| now < until);
        rests.then_some(refused.reason)
    }

    /// It has refused. Whether for the first time.
    pub(crate) fn refused(&mut self, now: Instant, reason: Reason) -> bool {
        let times = self.0.map_or(0, |r| r.times).saturating_add(1);
        let rests_until = times.checked_sub(PATIENCE).map(|over| {
            let rest = FIRST_REST.saturating_mul(1 << over.min(16));
            now + rest.min(LONGEST_REST)
        });
        self.0 = Some(Refused {
            reason,
            times,
            rests_until,
        });
        times == 1
    }
}

/// The word for an error of the kernel.
pub(crate) fn reason(error: Errno) -> Reason {
    match error {
        Errno::EACCES | Errno::EPERM => Reason::Denied,
        Errno::ENOENT | Errno::ENODEV | Errno::ENXIO | Errno::ESTALE | Errno::ENOTDIR => Reason::Gone,
        Errno::EINVAL => Reason::Rejected,
        Errno::EOPNOTSUPP | Errno::ENOSYS => Reason::Unsupported,
        _ => Reason::Io,
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests make the files that they read")]
mod tests {
    use super::*;
    use crate::rdma::text::number;
    use crate::sys::kept::count;

    fn files() -> AttributeFiles {
        AttributeFiles {
            budget: DescriptorBudget::new(10),
            on_disk: false,
        }
    }

    #[test]
    fn a_file_that_its_driver_refuses_is_asked_ever_more_rarely() {
        let mut file = files().attribute("/sys/class/net/lo/speed".into());
        let start = Instant::now();
        let mut ask = |after: u64| {
            count::take();
            let read = file.read(start + Duration::from_secs(after), number);
            assert_eq!(read, Err(Reason::Rejected));
            count::take().1
        };
        assert_eq!([0, 1, 2].map(&mut ask), [1, 1, 1]);
        assert_eq!([3, 10, 16, 17].map(&mut ask), [0, 0, 0, 1], "15 seconds of rest");
        assert_eq!([18, 46, 47].map(&mut ask), [0, 0, 1], "then 30");
        let mut asked = 0;
        for second in 48..48 + 24 * 3600 {
            asked += ask(second);
        }
        assert!((140..160).contains(&asked), "{asked} times in a day");
    }

    #[test]
    fn a_file_that_answers_again_is_read_as_before() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rate");
        // Reading a folder is refused too.
        std::fs::create_dir(&path).unwrap();
        let mut file = AttributeFiles {
            on_disk: true,
            ..files()
        }
        .attribute(path.clone());
        let start = Instant::now();
        for _ in 0..PATIENCE {
            assert_eq!(file.read(start, number), Err(Reason::Io));
        }
        std::fs::remove_dir(&path).unwrap();
        std::fs::write(&path, "7\n").unwrap();
        assert_eq!(file.read(start, number), Err(Reason::Io), "its rest is not over");
        assert_eq!(file.read(start + FIRST_REST, number), Ok(7));
        assert_eq!(file.read(start + FIRST_REST, number), Ok(7));
    }

    #[test]
    fn what_is_malformed_or_gone_is_looked_at_each_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("symbol_error");
        std::fs::write(&path, "-1\n").unwrap();
        let mut file = AttributeFiles {
            on_disk: true,
            ..files()
        }
        .attribute(path.clone());
        let now = Instant::now();
        for _ in 0..10 {
            assert_eq!(file.read(now, number), Err(Reason::Malformed));
        }
        std::fs::remove_file(&path).unwrap();
        for _ in 0..10 {
            assert_eq!(file.read(now, number), Err(Reason::Gone));
        }
        std::fs::write(&path, "1\n").unwrap();
        assert_eq!(file.read(now, number), Ok(1));
    }

    #[test]
    fn errors_of_the_kernel_have_their_words() {
        for (error, word) in [
            (Errno::EACCES, "denied"),
            (Errno::ENODEV, "gone"),
            (Errno::EINVAL, "rejected"),
            (Errno::EOPNOTSUPP, "unsupported"),
            (Errno::ETIMEDOUT, "io"),
        ] {
            assert_eq!(reason(error).word(), word);
        }
    }
}
