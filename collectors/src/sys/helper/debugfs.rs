//! Files of Lustre in debugfs, whose root folder only root may enter. A request names one by numbers, so that no path comes
//! from a process that parses.

use std::fmt::Write as _;

/// Limit of a filesystem's name, in bytes.
const NAME: usize = 8;
/// Words of a request that name a file.
pub(super) const WORDS: usize = 6;

/// A folder of debugfs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Folder {
    /// Mounts: `llite/<fs>-<instance>`.
    Mounts,
    /// Connections to targets that hold objects: `osc/<fs>-OST0003-osc-<instance>`.
    Osts,
    /// Connections to targets that hold metadata: `mdc/<fs>-MDT0000-mdc-<instance>`.
    Mdts,
    /// LNet, which has no devices.
    Network,
}

/// Every file that the helper opens. The place in the list is its number in a request.
#[rustfmt::skip]
static FILES: [(Folder, &str); 20] = [
    (Folder::Mounts, "stats"),
    (Folder::Mounts, "read_ahead_stats"),
    (Folder::Mounts, "max_cached_mb"),
    (Folder::Mounts, "unstable_stats"),
    (Folder::Mounts, "statahead_stats"),
    (Folder::Osts, "state"),
    (Folder::Osts, "import"),
    (Folder::Osts, "timeouts"),
    (Folder::Osts, "rpc_stats"),
    (Folder::Osts, "stats"),
    (Folder::Osts, "io_latency_stats"),
    (Folder::Mdts, "state"),
    (Folder::Mdts, "import"),
    (Folder::Mdts, "timeouts"),
    (Folder::Mdts, "rpc_stats"),
    (Folder::Mdts, "stats"),
    (Folder::Mdts, "md_stats"),
    (Folder::Network, "stats"),
    (Folder::Network, "nis"),
    (Folder::Network, "peers"),
];

/// One file of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DebugFile {
    file: u32,
    /// Padded with zeros.
    fs: [u8; NAME],
    target: u32,
    instance: u64,
}

impl DebugFile {
    /// The file of a device: `osc`, `scratch-OST0003-osc-ffff880812345678`, `state`. Both names are empty for LNet. `None`:
    /// not in the list.
    pub(crate) fn new(subsystem: &str, device: &str, file: &str) -> Option<Self> {
        let is_it = |(folder, name): &(Folder, &str)| folder.subsystem() == subsystem && *name == file;
        let number = u32::try_from(FILES.iter().position(is_it)?).ok()?;
        let (folder, _) = FILES.get(number as usize)?;
        let mut found = Self {
            file: number,
            fs: [0; NAME],
            target: 0,
            instance: 0,
        };
        if *folder != Folder::Network {
            let (rest, instance) = device.rsplit_once('-')?;
            found.instance = u64::from_str_radix(instance, 16).ok()?;
            let fs = match folder.target() {
                Some((kind, of)) => {
                    let (fs, target) = rest.strip_suffix(of)?.strip_suffix('-')?.rsplit_once('-')?;
                    found.target = u32::from_str_radix(target.strip_prefix(kind)?, 16).ok()?;
                    fs
                }
                None => rest,
            };
            found.fs.get_mut(..fs.len())?.copy_from_slice(fs.as_bytes());
        }
        // Only what the helper names alike.
        (found.device()? == device).then_some(found)
    }

    pub(super) fn encode(self) -> [u32; WORDS] {
        let fs = u64::from_le_bytes(self.fs);
        let halves = |number: u64| [number as u32, (number >> 32) as u32];
        let ([a, b], [c, d]) = (halves(fs), halves(self.instance));
        [self.file, a, b, self.target, c, d]
    }

    pub(super) fn decode([file, a, b, target, c, d]: [u32; WORDS]) -> Self {
        let whole = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        Self {
            file,
            fs: whole(a, b).to_le_bytes(),
            target,
            instance: whole(c, d),
        }
    }

    /// The device's name. `None`: no name of a filesystem.
    fn device(self) -> Option<String> {
        let (folder, _) = FILES.get(self.file as usize)?;
        let end = self.fs.iter().rposition(|b| *b != 0).map_or(0, |at| at + 1);
        let fs = std::str::from_utf8(self.fs.get(..end)?).ok()?;
        let is_plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
        if *folder == Folder::Network {
            return (fs.is_empty() && self.target == 0 && self.instance == 0).then(String::new);
        }
        if fs.is_empty() || !fs.bytes().all(is_plain) {
            return None;
        }
        let mut name = fs.to_owned();
        if let Some((kind, of)) = folder.target() {
            write!(name, "-{kind}{:04x}-{of}", self.target).ok()?;
        }
        write!(name, "-{:016x}", self.instance).ok()?;
        Some(name)
    }

    /// The path. `None`: not in the list.
    pub(super) fn path(self) -> Option<String> {
        let (folder, file) = FILES.get(self.file as usize)?;
        let device = self.device()?;
        Some(match folder {
            Folder::Network => format!("/sys/kernel/debug/lnet/{file}"),
            folder => format!("/sys/kernel/debug/lustre/{}/{device}/{file}", folder.subsystem()),
        })
    }
}

impl Folder {
    const fn subsystem(self) -> &'static str {
        match self {
            Self::Mounts => "llite",
            Self::Osts => "osc",
            Self::Mdts => "mdc",
            Self::Network => "",
        }
    }

    /// The words in the name of a target's device.
    const fn target(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Osts => Some(("OST", "osc")),
            Self::Mdts => Some(("MDT", "mdc")),
            Self::Mounts | Self::Network => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_file_is_named_by_numbers_and_has_the_path_that_was_asked_for() {
        for (subsystem, device, file) in [
            ("llite", "scratch-ffff880812345678", "stats"),
            ("osc", "my-fs-OST001f-osc-00ff880812345678", "rpc_stats"),
            ("mdc", "s-MDT0000-mdc-ffff880812345678", "import"),
        ] {
            let found = DebugFile::new(subsystem, device, file).unwrap();
            let path = format!("/sys/kernel/debug/lustre/{subsystem}/{device}/{file}");
            assert_eq!(DebugFile::decode(found.encode()).path(), Some(path));
        }
        let found = DebugFile::new("", "", "nis").unwrap();
        assert_eq!(found.path().as_deref(), Some("/sys/kernel/debug/lnet/nis"));
    }

    #[test]
    fn no_other_file_has_numbers() {
        for (subsystem, device, file) in [
            ("osc", "scratch-OST0003-osc-ffff880812345678", "ping"),
            ("llite", "scratch-ffff880812345678", "kbytesfree"),
            ("llite", "scratch-ffff880812345678", "extents_stats"),
            ("llite", "../../x-ffff880812345678", "stats"),
            ("llite", "scratch.x-ffff880812345678", "stats"),
            ("llite", "scratch99-ffff880812345678", "stats"),
            ("llite", "scratch-FFFF880812345678", "stats"),
            ("llite", "-ffff880812345678", "stats"),
            ("osc", "scratch-OST0003-osc-MDT0000", "state"),
            ("ost", "scratch-OST0003-osc-ffff880812345678", "state"),
            ("", "x", "nis"),
            ("", "", "routes"),
        ] {
            assert_eq!(DebugFile::new(subsystem, device, file), None, "{device}/{file}");
        }
    }

    proptest! {
        /// Whatever the worker sends, the helper opens one of the listed files or none.
        #[test]
        fn any_numbers_are_a_file_of_the_list_or_none(
            name in "([a-z0-9_-]{1,8}|[a-z0-9_./-]{0,8}|)",
            target in prop_oneof![Just(0), any::<u32>()],
            instance in prop_oneof![Just(0), any::<u64>()],
            file in 0_u32..30,
        ) {
            let mut fs = [0; NAME];
            fs[..name.len()].copy_from_slice(name.as_bytes());
            let sent = DebugFile { file, fs, target, instance };
            prop_assert_eq!(DebugFile::decode(sent.encode()), sent);
            if let Some(path) = sent.path() {
                let below = path.strip_prefix("/sys/kernel/debug/").unwrap();
                prop_assert!(!below.contains("..") && !below.contains("//"), "{}", path);
                let name = below.rsplit('/').next().unwrap();
                prop_assert!(FILES.iter().any(|(_, file)| *file == name));
                prop_assert!(below.split('/').count() <= 4);
            }
        }
    }
}
