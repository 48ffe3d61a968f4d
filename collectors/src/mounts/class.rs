//! Which filesystems are of interest, by type and by place.

/// The kind of a filesystem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    /// Of many servers.
    Parallel,
    /// Of one server.
    Network,
    /// On a disk of this node.
    Local,
}

impl Class {
    /// The value of the label.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Parallel => "parallel",
            Self::Network => "network",
            Self::Local => "local",
        }
    }
}

/// Types as mountinfo shows them. Others are not probed: an unknown type may have no bound on what a probe does, and autofs
/// mounts what is looked at.
static TYPES: &[(&str, Class)] = &[
    ("lustre", Class::Parallel),
    ("gpfs", Class::Parallel),
    ("beegfs", Class::Parallel),
    ("wekafs", Class::Parallel),
    ("ceph", Class::Parallel),
    ("fuse.ceph", Class::Parallel),
    ("fuse.ceph-fuse", Class::Parallel),
    ("fuse.juicefs", Class::Parallel),
    ("fuse.glusterfs", Class::Parallel),
    ("fuse.daos", Class::Parallel),
    ("fuse.dfuse", Class::Parallel),
    ("fuse.quobyte", Class::Parallel),
    ("panfs", Class::Parallel),
    ("pvfs2", Class::Parallel),
    ("nfs", Class::Network),
    ("nfs4", Class::Network),
    ("cifs", Class::Network),
    ("smb3", Class::Network),
    ("fuse.sshfs", Class::Network),
    ("virtiofs", Class::Network),
    ("xfs", Class::Local),
    ("ext4", Class::Local),
    ("ext3", Class::Local),
    ("ext2", Class::Local),
    ("btrfs", Class::Local),
    ("zfs", Class::Local),
    ("f2fs", Class::Local),
];

/// The class of a type. `None`: not of interest.
pub(super) fn of(fstype: &str) -> Option<Class> {
    TYPES
        .iter()
        .find(|(name, _)| *name == fstype)
        .map(|(_, class)| *class)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_type_and_autofs_are_not_probed() {
        for fstype in [
            "autofs",
            "proc",
            "overlay",
            "tmpfs",
            "squashfs",
            "fuse.unknown",
            "",
        ] {
            assert_eq!(of(fstype), None, "{fstype}");
        }
        assert_eq!(of("nfs4"), Some(Class::Network));
    }
}
