//! Opens files in folders that other users may write to. A file is believed only as an expected user's own: never through
//! a link, and never waiting for the other end of a FIFO.

use std::collections::BTreeSet;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::files;

/// Write permission of group and others.
const SHARED: u32 = 0o022;

/// Why a file was not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another file than expected has this name.
    #[error("{}: found {found}, expected {expected}", path.display())]
    Unexpected {
        /// The path.
        path: PathBuf,
        /// The file.
        found: String,
        /// What it should be.
        expected: String,
    },
    /// A system call failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
}

impl From<OpenError> for io::Error {
    fn from(error: OpenError) -> Self {
        let kind = match &error {
            OpenError::Unexpected { .. } => ErrorKind::InvalidData,
            OpenError::Io { source, .. } => source.kind(),
        };
        Self::new(kind, error)
    }
}

/// What a file must be.
#[derive(Clone, Copy, Debug)]
pub struct Expected<'a> {
    /// Its owner is one of these.
    pub owners: &'a [u32],
    /// Limit of its size, in bytes.
    pub most: u64,
    /// Only its owner may write to it.
    pub private: bool,
}

impl Expected<'_> {
    fn check(&self, path: &Path, found: &Metadata) -> Result<(), OpenError> {
        let wrong = |found: String, expected: String| {
            Err(OpenError::Unexpected {
                path: path.to_owned(),
                found,
                expected,
            })
        };
        if !found.is_file() {
            return wrong(kind(found).to_owned(), "a regular file".to_owned());
        }
        // 0: replaced since it was opened. Its content is whole.
        if found.nlink() > 1 {
            return wrong(format!("{} hard links", found.nlink()), "1".to_owned());
        }
        if !self.owners.contains(&found.uid()) {
            let owners: BTreeSet<u32> = self.owners.iter().copied().collect();
            let owners: Vec<String> = owners.iter().map(u32::to_string).collect();
            return wrong(
                format!("a file of uid {}", found.uid()),
                format!("uid {}", owners.join(" or ")),
            );
        }
        if self.private && found.mode() & SHARED != 0 {
            let mode = found.mode() & 0o7777;
            return wrong(
                format!("mode {mode:04o}"),
                "no write permission for group and others".to_owned(),
            );
        }
        if found.len() > self.most {
            return wrong(format!("{} bytes", found.len()), format!("at most {}", self.most));
        }
        Ok(())
    }
}

/// What a file is that is no regular one.
pub(crate) fn kind(found: &Metadata) -> &'static str {
    let kind = found.file_type();
    if kind.is_symlink() {
        "a symbolic link"
    } else if kind.is_dir() {
        "a folder"
    } else if kind.is_fifo() {
        "a FIFO"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}

/// The users whose files this process believes where it expects its own: itself and root.
pub fn own() -> [u32; 2] {
    [nix::unistd::geteuid().as_raw(), 0]
}

/// Opens a file with `options`; a missing one is created if they say so. `Ok(None)`: it does not exist.
///
/// # Errors
/// When it is not as expected, or of lstat(2), open(2) and fstat(2).
pub fn open(
    path: &Path,
    expected: &Expected<'_>,
    options: &mut OpenOptions,
) -> Result<Option<File>, OpenError> {
    let failed = |source| OpenError::Io {
        path: path.to_owned(),
        source,
    };
    // First by name: to open a device may already have an effect.
    match fs::symlink_metadata(path) {
        Ok(found) => expected.check(path, &found)?,
        Err(e) if e.kind() == ErrorKind::NotFound => {}
        Err(e) => return Err(failed(e)),
    }
    // Another file may have taken the name since: no link is followed, no FIFO is waited for, and the open file counts.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC | libc::O_NOCTTY;
    let file = match options.custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(failed(e)),
    };
    expected.check(path, &file.metadata().map_err(failed)?)?;
    Ok(Some(file))
}

/// Reads a file. `Ok(None)`: it does not exist.
///
/// # Errors
/// Like [`open`], and of read(2).
pub fn read(path: &Path, expected: &Expected<'_>) -> Result<Option<Vec<u8>>, OpenError> {
    let Some(file) = open(path, expected, OpenOptions::new().read(true))? else {
        return Ok(None);
    };
    let mut bytes = Vec::new();
    let done = file.take(expected.most).read_to_end(&mut bytes);
    done.map_err(|source| OpenError::Io {
        path: path.to_owned(),
        source,
    })?;
    Ok(Some(bytes))
}

/// Reads a text. `Ok(None)`: the file does not exist.
///
/// # Errors
/// Like [`read`], and when it is not UTF-8.
pub fn read_text(path: &Path, expected: &Expected<'_>) -> Result<Option<String>, OpenError> {
    let Some(bytes) = read(path, expected)? else {
        return Ok(None);
    };
    let text = String::from_utf8(bytes).map_err(|e| OpenError::Io {
        path: path.to_owned(),
        source: io::Error::new(ErrorKind::InvalidData, e.utf8_error()),
    })?;
    Ok(Some(text))
}

/// Reads a file that the site's configuration names. Programs that renew certificates replace links (certbot, Kubernetes), so
/// links are followed; the link, the file, its folder and the folder of the name must be writable for root or the own user only.
/// `Ok(None)`: it does not exist, or its link leads nowhere.
///
/// # Errors
/// Like [`read`], and when others could have written it.
pub fn read_linked(path: &Path, most: u64) -> io::Result<Option<Vec<u8>>> {
    let target = match fs::canonicalize(path) {
        Ok(target) => target,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(source) => {
            let path = path.to_owned();
            return Err(OpenError::Io { path, source }.into());
        }
    };
    files::is_trusted_link(path)?;
    for name in [path, &target] {
        files::is_trusted(name)?;
    }
    let expected = Expected {
        owners: &own(),
        most,
        private: true,
    };
    Ok(read(&target, &expected)?)
}

#[cfg(test)]
mod tests;
