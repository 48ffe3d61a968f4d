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
    ("xfs", Class::Local),
    ("ext4", Class::Local),
    ("ext3", Class::Local),
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

/// Folders of container runtimes: their mounts come and go with pods.
static RUNTIMES: [&str; 8] = [
    "/var/lib/kubelet",
    "/var/lib/containerd",
    "/var/lib/containers",
    "/var/lib/docker",
    "/var/lib/rancher",
    "/run/containerd",
    "/run/docker",
    "/run/k3s",
];

/// Whether a mount point belongs to a container runtime, or is in one of these folders.
pub(super) fn is_excluded(point: &str, folders: &[String]) -> bool {
    let all = RUNTIMES.iter().copied().chain(folders.iter().map(String::as_str));
    all.into_iter().any(|folder| is_below(point, folder))
}

fn is_below(point: &str, folder: &str) -> bool {
    let folder = folder.trim_end_matches('/');
    let rest = point.strip_prefix(folder);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
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

    #[test]
    fn a_folder_excludes_what_is_below_it_and_not_its_neighbour() {
        let own = ["/scratch/old/".to_owned()];
        assert!(is_excluded("/var/lib/kubelet/pods/1/volumes/x", &own));
        assert!(is_excluded("/scratch/old", &own) && is_excluded("/scratch/old/a", &own));
        assert!(!is_excluded("/scratch/older", &own) && !is_excluded("/scratch", &own));
    }
}
