//! Reads the files of [`super::sources`], wherever this release has them, and records why one cannot be read.

use std::collections::BTreeMap;
use std::path::Path;

use nix::errno::Errno;

use super::metrics;
use super::sources::{LustreSource, Root};
use crate::sys::helper::{self, Client, DebugFile, Question};
use crate::sys::lprocfs;
use crate::{Block, Env, Error, domain};

/// Why there is no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reason {
    /// In none of the folders.
    Absent,
    /// Content of another form.
    Malformed,
    /// The kernel failed to read it.
    Io,
    /// Only root may read it.
    Denied,
    /// The kernel is locked down (Secure Boot): root may not read it either.
    Lockdown,
}

impl Reason {
    /// The value of the label `reason`.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Malformed => "malformed",
            Self::Io => "io",
            Self::Denied => "denied",
            Self::Lockdown => "lockdown",
        }
    }

    const fn of(errno: Errno) -> Self {
        match errno {
            Errno::ENOENT | Errno::ENOTDIR | Errno::ENODEV | Errno::ENXIO => Self::Absent,
            Errno::EACCES => Self::Denied,
            // debugfs_locked_down() in fs/debugfs/file.c
            Errno::EPERM => Self::Lockdown,
            Errno::EFBIG => Self::Malformed,
            _ => Self::Io,
        }
    }
}

/// A file's place below a root: `osc` and the device, both empty for a file of the root.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    pub(super) subsystem: &'a str,
    pub(super) device: &'a str,
}

impl Place<'_> {
    /// A root itself.
    pub(super) const ROOT: Self = Self {
        subsystem: "",
        device: "",
    };
}

/// Reads files, and knows which folder had them last.
#[derive(Debug)]
pub(super) struct LustreFiles {
    env: Env,
    found: BTreeMap<&'static str, Root>,
    /// Files without a value in this reading.
    failed: BTreeMap<(&'static str, Reason), u64>,
    buffer: Vec<u8>,
    /// Reads what only root may. Only where files are those of the kernel.
    helper: Option<&'static Client>,
}

impl LustreFiles {
    pub(super) fn new(env: &Env) -> Self {
        let is_kernels = env.is_live() && !env.is_tree();
        Self {
            env: env.clone(),
            found: BTreeMap::new(),
            failed: BTreeMap::new(),
            buffer: Vec::new(),
            helper: is_kernels.then(|| helper::of(&domain::DEBUGFS)).flatten(),
        }
    }

    /// Reads and parses a file. `None`: it has no value, which is recorded.
    pub(super) fn read<T>(
        &mut self,
        source: &'static LustreSource,
        place: Place<'_>,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        let value = self.try_read(source, place).and_then(|()| {
            let text = String::from_utf8_lossy(&self.buffer);
            parse(&text).ok_or(Reason::Malformed)
        });
        match value {
            Ok(value) => Some(value),
            Err(reason) => {
                self.fail(source, reason);
                None
            }
        }
    }

    /// Records that a file has no value, or not its whole one.
    pub(super) fn fail(&mut self, source: &'static LustreSource, reason: Reason) {
        let is_missing = matches!(reason, Reason::Absent | Reason::Denied | Reason::Lockdown);
        if !(source.is_optional && is_missing) {
            *self.failed.entry((source.name, reason)).or_default() += 1;
        }
    }

    /// Where the last such file was comes first.
    fn try_read(&mut self, source: &'static LustreSource, place: Place<'_>) -> Result<(), Reason> {
        let last = self.found.get(source.name).copied();
        let others = source.roots.iter().copied().filter(|root| Some(*root) != last);
        let mut reason = Reason::Absent;
        for root in last.into_iter().chain(others) {
            match self.open(root, source, place) {
                Ok(()) => {
                    self.found.insert(source.name, root);
                    return Ok(());
                }
                Err(errno) => reason = reason.max(Reason::of(errno)),
            }
        }
        self.found.remove(source.name);
        Err(reason)
    }

    fn open(&mut self, root: Root, source: &LustreSource, place: Place<'_>) -> Result<(), Errno> {
        let folder = self.env.path(root.path());
        let path = folder.join(place.subsystem).join(place.device).join(source.file);
        match (lprocfs::read(&path, &mut self.buffer), self.helper) {
            (Err(Errno::EACCES), Some(helper)) if root.is_debugfs() => {
                let file = DebugFile::new(place.subsystem, place.device, source.file).ok_or(Errno::EACCES)?;
                self.buffer = helper.ask(Question::Debug(file), None)?;
                Ok(())
            }
            (read, _) => read,
        }
    }

    /// Starts a reading.
    pub(super) fn begin(&mut self) {
        self.failed.clear();
    }

    /// Names the files without a value, and the folders of the others.
    pub(super) fn push(&self, fs: &str, out: &mut Block) {
        for ((source, reason), count) in &self.failed {
            out.u64(&metrics::UNREADABLE, &[fs, source, reason.word()], *count);
        }
        for (source, root) in &self.found {
            out.info(&metrics::SOURCE_PLACE, &[fs, source, root.path()]);
        }
    }
}

/// The names in a folder of a subsystem, in all roots together, sorted.
///
/// # Errors
/// When a folder exists and cannot be listed.
pub(super) fn devices(env: &Env, subsystem: &str) -> Result<Vec<String>, Error> {
    let mut all = Vec::new();
    for root in [Root::Proc, Root::Sys] {
        let folder = env.path(root.path()).join(subsystem);
        all.extend(crate::sys::root::list(Path::new(&folder))?.unwrap_or_default());
    }
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests make the files that they read")]
mod tests {
    use super::super::sources::{IMPORT, IO_LATENCY};
    use super::*;

    const PLACE: Place<'_> = Place {
        subsystem: "osc",
        device: "scratch-OST0000-osc-ffff880812345678",
    };

    fn reasons(files: &LustreFiles) -> Vec<(&'static str, &'static str, u64)> {
        let failed = files.failed.iter();
        failed
            .map(|((source, reason), n)| (*source, reason.word(), *n))
            .collect()
    }

    #[test]
    fn a_file_is_found_wherever_its_release_has_it_also_after_it_moved() {
        let dir = tempfile::tempdir().unwrap();
        let mut files = LustreFiles::new(&Env::with_sysroot(dir.path()));
        for root in [Root::Proc, Root::Debug, Root::Sys] {
            let folder = dir
                .path()
                .join(&root.path()[1..])
                .join(PLACE.subsystem)
                .join(PLACE.device);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("import"), root.path()).unwrap();
            let read = files.read(&IMPORT, PLACE, |text| Some(text.to_owned()));
            assert_eq!(read.as_deref(), Some(root.path()));
            assert_eq!(files.found[IMPORT.name], root);
            std::fs::remove_file(folder.join("import")).unwrap();
        }
        assert_eq!(reasons(&files), []);
    }

    #[test]
    fn absent_malformed_and_io_are_told_apart_and_an_optional_file_may_be_absent() {
        let dir = tempfile::tempdir().unwrap();
        let mut files = LustreFiles::new(&Env::with_sysroot(dir.path()));
        let mut read = |source| files.read(source, PLACE, |_| None::<()>);
        assert_eq!((read(&IMPORT), read(&IO_LATENCY)), (None, None));
        let folder = dir.path().join("proc/fs/lustre/osc").join(PLACE.device);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("import"), "?").unwrap();
        assert_eq!(read(&IMPORT), None);
        std::fs::remove_file(folder.join("import")).unwrap();
        std::fs::create_dir(folder.join("import")).unwrap();
        assert_eq!(read(&IMPORT), None);
        let expected = [
            ("import", "absent", 1),
            ("import", "malformed", 1),
            ("import", "io", 1),
        ];
        assert_eq!(reasons(&files), expected);
        files.begin();
        assert_eq!(reasons(&files), []);
    }

    #[test]
    fn permission_and_lockdown_are_different_reasons() {
        let words = [Errno::EACCES, Errno::EPERM, Errno::ENOENT, Errno::EIO].map(|e| Reason::of(e).word());
        assert_eq!(words, ["denied", "lockdown", "absent", "io"]);
        assert!(
            Reason::Absent < Reason::Denied && Reason::Denied < Reason::Lockdown,
            "the strongest is shown"
        );
    }
}
