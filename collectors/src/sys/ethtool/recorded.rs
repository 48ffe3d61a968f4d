//! The file `ethtool/<interface>` below the root of a recording, in the kernel's place: what `ethtool -S` prints.

use std::path::{Path, PathBuf};

use nix::errno::Errno;

use super::{Ethtool, NAME};
use crate::sys::root;
use crate::{Env, Error};

/// The folder in the root of a recording. A step lays the next answers over it like any other file.
const FOLDER: &str = "ethtool";

/// A name with its value.
type Statistic = ([u8; NAME], u64);

/// Looks whether the recording's statistics can be read. Nothing to say where there are none, or the node is live.
///
/// # Errors
/// The line that cannot be read, with what was expected.
pub(crate) fn check(env: &Env) -> Result<(), Error> {
    if env.is_live() {
        return Ok(());
    }
    let folder = env.sysroot.join(FOLDER);
    for name in root::list(&folder)?.unwrap_or_default() {
        read(&folder.join(name))?;
    }
    Ok(())
}

/// Answers what was recorded. An interface that was not recorded has no statistics.
pub(super) struct RecordedEthtool {
    folder: PathBuf,
}

impl RecordedEthtool {
    pub(super) fn new(root: &Path) -> Self {
        Self {
            folder: root.join(FOLDER),
        }
    }

    fn all(&self, netdev: &str) -> Result<Vec<Statistic>, Errno> {
        let found = read(&self.folder.join(netdev)).map_err(|error| {
            tracing::error!(%error, "a recording that cannot be read");
            Errno::EIO
        })?;
        found.ok_or(Errno::EOPNOTSUPP)
    }
}

/// `Ok(None)`: there is no such file.
fn read(file: &Path) -> Result<Option<Vec<Statistic>>, Error> {
    let text = root::read_text(file)?;
    text.map(|text| parse(&file.display().to_string(), &text))
        .transpose()
}

/// Reads what `ethtool -S` has printed. `file` is for errors.
pub(super) fn parse(file: &str, text: &str) -> Result<Vec<Statistic>, Error> {
    let mut all = Vec::new();
    for (line, at) in text.lines().zip(1..) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') || line == "NIC statistics:" {
            continue;
        }
        let wrong = || {
            Error::parse(
                format!("{file}:{at}"),
                line,
                "`name: number`, the name up to 31 bytes",
            )
        };
        let (name, value) = line.rsplit_once(": ").ok_or_else(wrong)?;
        let mut bytes = [0; NAME];
        if name.is_empty() || name.starts_with('\0') || name.len() >= NAME {
            return Err(wrong());
        }
        for (to, byte) in bytes.iter_mut().zip(name.bytes()) {
            *to = byte;
        }
        all.push((bytes, value.parse().map_err(|_| wrong())?));
    }
    Ok(all)
}

/// Reads any bytes as a recording and checks what must hold for any, for fuzzing.
pub(crate) fn fuzz(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Ok(all) = parse("", &text) {
        assert!(all.len() <= text.lines().count());
        // A name begins with something and ends with a zero.
        let is_name = |name: &[u8; NAME]| name.first() != Some(&0) && name.last() == Some(&0);
        assert!(all.iter().all(|(name, _)| is_name(name)));
    }
}

impl Ethtool for RecordedEthtool {
    fn count(&mut self, netdev: &str) -> Result<u32, Errno> {
        u32::try_from(self.all(netdev)?.len()).map_err(|_| Errno::E2BIG)
    }

    fn names(&mut self, netdev: &str, _: u32, names: &mut Vec<[u8; NAME]>) -> Result<(), Errno> {
        names.clear();
        names.extend(self.all(netdev)?.into_iter().map(|(name, _)| name));
        Ok(())
    }

    fn values(&mut self, netdev: &str, _: u32, values: &mut Vec<u64>) -> Result<(), Errno> {
        values.clear();
        values.extend(self.all(netdev)?.into_iter().map(|(_, value)| value));
        Ok(())
    }
}
