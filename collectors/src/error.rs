//! Why an existing source could not be read. The reason becomes a label.

use std::path::{Path, PathBuf};
use std::time::Duration;

/// A source exists and fails. An absent source is `Ok(None)` or [`crate::Value::Absent`], not an error.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be opened or read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        source: std::io::Error,
    },
    /// A file or a reply has unexpected content.
    #[error("{what}: found {found:?}, expected {expected}")]
    Parse {
        /// The file or reply, with its line if known.
        what: String,
        /// The content found, cut to a readable length.
        found: String,
        /// The expected content.
        expected: &'static str,
    },
    /// A privilege is missing.
    #[error("{what}: {missing} missing")]
    Denied {
        /// The operation.
        what: String,
        /// The missing privilege.
        missing: &'static str,
    },
    /// The configuration of this collector is wrong.
    #[error("{0}")]
    Settings(String),
    /// The collector itself panicked.
    #[error("{0}: the collector panicked")]
    Panic(String),
    /// The read took longer than its limit, so its values are stale.
    #[error("{}: took {} s", path.display(), took.as_secs())]
    Slow {
        /// The path that was read.
        path: PathBuf,
        /// The duration of the read.
        took: Duration,
    },
    /// The state of a device, which its other values do not replace.
    #[error("{what}")]
    State {
        /// What could not be read, and why.
        what: String,
        /// The value of the `reason` label.
        reason: &'static str,
    },
    /// The driver as a whole does not work.
    #[error("{what}; {advice}")]
    Driver {
        /// The driver, and its error.
        what: String,
        /// The value of the `reason` label.
        reason: &'static str,
        /// What an administrator should do.
        advice: &'static str,
    },
    /// The recorded environment holds no answer for this live source.
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

    /// The value of the `reason` label: few, stable words.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Io { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => "denied",
            // A device that was removed while it was read.
            Self::Io { source, .. } if source.raw_os_error() == Some(libc::ENODEV) => "gone",
            Self::Io { .. } => "io",
            Self::Parse { .. } => "parse",
            Self::Denied { .. } => "denied",
            Self::Settings(_) => "settings",
            Self::Panic(_) => "panic",
            Self::Slow { .. } => "slow",
            Self::State { reason, .. } | Self::Driver { reason, .. } => reason,
            Self::NotRecorded(_) => "not_recorded",
        }
    }
}
