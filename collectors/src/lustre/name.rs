//! Names of Lustre's devices on a client: `<fs>-<instance>` for a mount, `<fs>-OST0003-osc-<instance>` for a target.
//!
//! The instance has 16 hexadecimal digits and is another at each mount. Devices of a server (`-osc-MDT0000`, `-osp-`, `-lwp-`)
//! have none.

/// The kind of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TargetKind {
    /// Holds metadata.
    Mdt,
    /// Holds objects: the content of files.
    Ost,
}

impl TargetKind {
    pub(super) const ALL: [Self; 2] = [Self::Mdt, Self::Ost];

    /// The value of the label `target_type`.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Mdt => "mdt",
            Self::Ost => "ost",
        }
    }

    /// The folder of its devices.
    pub(super) const fn subsystem(self) -> &'static str {
        match self {
            Self::Mdt => "mdc",
            Self::Ost => "osc",
        }
    }
}

/// Splits `scratch-ffff880812345678` at its last hyphen.
pub(super) fn mount(device: &str) -> Option<(&str, &str)> {
    let (fs, instance) = device.rsplit_once('-')?;
    (is_fs(fs) && is_instance(instance)).then_some((fs, instance))
}

/// The target of a device of a mount: `scratch-OST0003`.
pub(super) fn target<'a>(device: &'a str, kind: TargetKind, instance: &str) -> Option<&'a str> {
    let target = device.strip_suffix(instance)?.strip_suffix('-')?;
    let target = target.strip_suffix(kind.subsystem())?.strip_suffix('-')?;
    let (fs, number) = target.rsplit_once('-')?;
    let digits = number.strip_prefix(match kind {
        TargetKind::Mdt => "MDT",
        TargetKind::Ost => "OST",
    })?;
    let is_number = (4..=8).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_hexdigit());
    (is_fs(fs) && is_number).then_some(target)
}

/// Lustre allows 8 letters, digits, hyphens and underscores; longer names and a `.` inside are accepted too.
fn is_fs(name: &str) -> bool {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-' || b == b'.';
    (1..=16).contains(&name.len()) && !name.starts_with('.') && name.bytes().all(is_plain)
}

fn is_instance(word: &str) -> bool {
    word.len() == 16 && word.bytes().all(|b| b.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "ffff880812345678";

    #[test]
    fn a_mount_is_split_at_its_last_hyphen() {
        assert_eq!(mount("scratch-ffff880812345678"), Some(("scratch", ID)));
        assert_eq!(mount("my-fs-ffff880812345678"), Some(("my-fs", ID)));
        for other in [
            "scratch",
            "scratch-MDT0000",
            "-ffff880812345678",
            "../x-ffff880812345678",
            "s-ffff8808123456789",
        ] {
            assert_eq!(mount(other), None, "{other}");
        }
    }

    #[test]
    fn devices_of_a_server_and_of_another_mount_are_no_targets() {
        let ost = |device| target(device, TargetKind::Ost, ID);
        assert_eq!(
            ost("scratch-OST0003-osc-ffff880812345678"),
            Some("scratch-OST0003")
        );
        assert_eq!(ost("my-fs-OST001f-osc-ffff880812345678"), Some("my-fs-OST001f"));
        for other in [
            "scratch-OST0003-osc-MDT0000",
            "scratch-OST0003-osp-MDT0000",
            "scratch-MDT0000-lwp-OST0000",
            "scratch-MDT0000-mdc-ffff880812345678",
            "scratch-OST0003-osc-ffff880812345679",
            "scratch-OST-osc-ffff880812345678",
        ] {
            assert_eq!(ost(other), None, "{other}");
        }
        let mdt = target("scratch-MDT0000-mdc-ffff880812345678", TargetKind::Mdt, ID);
        assert_eq!(mdt, Some("scratch-MDT0000"));
    }
}
