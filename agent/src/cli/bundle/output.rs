//! The file of a bundle: new, for its owner only, and whole or not there.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use sys::store;

use crate::screen;

/// Where a bundle goes.
#[derive(Debug)]
pub(super) enum Output {
    File(PathBuf),
    Stdout,
}

impl Output {
    /// The named file, standard output for `-`, or a file of the current folder named after the time.
    ///
    /// # Errors
    /// When the file exists, its folder does not, or standard output is a terminal.
    pub(super) fn new(named: Option<PathBuf>, now: Timestamp) -> anyhow::Result<Self> {
        let path = match named {
            Some(path) if path.as_os_str() == "-" => {
                if io::stdout().is_terminal() {
                    anyhow::bail!("standard output is a terminal, expected a file or a pipe");
                }
                return Ok(Self::Stdout);
            }
            Some(path) => path,
            None => default_name(now),
        };
        // A link counts, wherever it leads.
        match path.symlink_metadata() {
            Ok(_) => anyhow::bail!("{}: exists already, expected a new file", path.display()),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(e).with_context(|| path.display().to_string()),
        }
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        if !folder.is_dir() {
            anyhow::bail!("{}: no such folder {}", path.display(), folder.display());
        }
        Ok(Self::File(path))
    }

    /// Writes the bundle. A file has its name only when it is whole.
    ///
    /// # Errors
    /// When the file has appeared meanwhile, or of open, write, fsync or rename, with the file's name.
    pub(super) fn write(&self, bytes: &[u8]) -> anyhow::Result<()> {
        match self {
            Self::File(path) => {
                store::create(path, bytes, 0o600)
                    .with_context(|| format!("cannot write {}", path.display()))?;
                screen::write(&format!("{}\n", path.display()))?;
            }
            Self::Stdout => {
                let mut out = io::stdout().lock();
                let written = out.write_all(bytes).and_then(|()| out.flush());
                written.context("cannot write to standard output")?;
            }
        }
        Ok(())
    }
}

/// `nodewarden-bundle-20260102T030405Z.tar.gz`: without the node's name.
fn default_name(now: Timestamp) -> PathBuf {
    let time = now.to_zoned(TimeZone::UTC).strftime("%Y%m%dT%H%M%SZ");
    format!("nodewarden-bundle-{time}.tar.gz").into()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_default_name_has_the_time_in_utc_only() {
        let now = Timestamp::from_second(1_767_323_045).unwrap();
        assert_eq!(
            default_name(now),
            Path::new("nodewarden-bundle-20260102T030405Z.tar.gz")
        );
    }

    #[test]
    fn the_file_is_new_and_for_its_owner_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("b.tar.gz");
        let output = Output::new(Some(path.clone()), Timestamp::UNIX_EPOCH).unwrap();
        output.write(b"x").unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o7777, 0o600);
        let again = Output::new(Some(path.clone()), Timestamp::UNIX_EPOCH).unwrap_err();
        assert!(again.to_string().contains("b.tar.gz: exists already"), "{again}");
        // It may also appear after the check.
        let late = output.write(b"y").unwrap_err();
        assert!(format!("{late:#}").contains("b.tar.gz"), "{late:#}");
        assert_eq!(dir.path().read_dir().unwrap().count(), 1, "no part is left");
        assert_eq!(path.metadata().unwrap().len(), 1);
    }

    #[test]
    fn a_link_is_not_followed_and_a_folder_must_exist() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(dir.path().join("target"), &link).unwrap();
        assert!(Output::new(Some(link.clone()), Timestamp::UNIX_EPOCH).is_err());
        assert!(Output::File(link).write(b"x").is_err());
        assert!(!dir.path().join("target").exists());
        let error = Output::new(Some(dir.path().join("no/b.tar.gz")), Timestamp::UNIX_EPOCH).unwrap_err();
        assert!(error.to_string().contains("no such folder"), "{error}");
    }
}
