//! Why something that is there could not be read. The reason becomes a label.

use std::path::{Path, PathBuf};
use std::time::Duration;

/// There and broken. "Not there" is `Ok(None)` or [`crate::Value::Absent`], not an error.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be opened or read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// A file or a reply did not hold what it should.
    #[error("{what}: found {found:?}, expected {expected}")]
    Parse {
        /// The file or reply, with its line where there is one.
        what: String,
        /// What was there, cut to a readable length.
        found: String,
        /// What should have been there.
        expected: &'static str,
    },
    /// A privilege is missing.
    #[error("{what}: {missing} missing")]
    Denied {
        /// What was tried.
        what: String,
        /// The privilege.
        missing: &'static str,
    },
    /// The configuration of this collector is wrong.
    #[error("{0}")]
    Settings(String),
    /// The collector itself panicked.
    #[error("{0}: the collector panicked")]
    Panic(String),
    /// What was read after so long would be shown as new and is not.
    #[error("{}: took {} s", path.display(), took.as_secs())]
    Slow {
        /// What was read.
        path: PathBuf,
        /// For how long.
        took: Duration,
    },
    /// A driver does not work at all.
    #[error("{what}; {advice}")]
    Driver {
        /// The driver, and what it said.
        what: String,
        /// The word for the `reason` label.
        reason: &'static str,
        /// What a person should do.
        advice: &'static str,
    },
    /// A recorded environment holds no answer for this live source.
    #[error("{0}: not in the recording")]
    NotRecorded(&'static str),
}

impl Error {
    /// An [`Error::Io`] for `path`.
    pub fn io(path: &Path, source: std::io::Error) -> Self {
        Self::Io {
            path: path.to_owned(),
            source,
        }
    }

    /// An [`Error::Parse`]; `found` is cut to 80 characters.
    pub fn parse(what: impl Into<String>, found: &str, expected: &'static str) -> Self {
        Self::Parse {
            what: what.into(),
            found: found.chars().take(80).collect(),
            expected,
        }
    }

    /// A word for the `reason` label: few, stable values.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Io { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => "denied",
            // A device that left while it was read.
            Self::Io { source, .. } if source.raw_os_error() == Some(libc::ENODEV) => "gone",
            Self::Io { .. } => "io",
            Self::Parse { .. } => "parse",
            Self::Denied { .. } => "denied",
            Self::Settings(_) => "settings",
            Self::Panic(_) => "panic",
            Self::Slow { .. } => "slow",
            Self::Driver { reason, .. } => reason,
            Self::NotRecorded(_) => "not_recorded",
        }
    }
}
