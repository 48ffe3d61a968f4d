//! Mounts that an access makes and that are unmounted when nothing uses them.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::mountinfo::{self, Mount};

/// How long a mount lasts that nothing uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lifetime {
    /// Until someone unmounts it.
    Fixed,
    /// Made and unmounted by the client of NFS. It counts only uses of the mount itself, and a mount namespace of another process has a
    /// copy (fs/namespace.c, `mntput_no_expire`), so that probes from nodewarden's own do not keep it.
    Submount,
    /// Until no path has led through its mount point for this time (fs/autofs/root.c, `autofs_mount_wait`). A probe is such a path, in any
    /// mount namespace.
    Idle(Duration),
}

impl Lifetime {
    /// `all`: each mount of the list by its number, also those that others cover.
    pub(super) fn of<'a>(mount: &Mount<'a>, all: &BTreeMap<u32, Mount<'a>>) -> Self {
        let automounters = mountinfo::above(mount, all).filter(|above| above.fstype == "autofs");
        let timeouts = automounters.filter_map(|above| above.option("timeout")?.parse::<u32>().ok());
        // A path to it restarts the time of each of them. 0: never unmounted.
        let idle = timeouts.max().filter(|seconds| *seconds > 0);
        let is_of_nfs = |above: &&Mount<'_>| {
            let place = |mount: &Mount<'_>| (mount.point(), mount.source());
            let ((point, source), (below, lower)) = (place(above), place(mount));
            above.fstype.starts_with("nfs") && is_submount((&point, &source), (&below, &lower))
        };
        let is_submount = || {
            mount.fstype.starts_with("nfs")
                && mountinfo::above(mount, all).next().is_some_and(|m| is_of_nfs(&m))
        };
        match idle {
            Some(seconds) => Self::Idle(Duration::from_secs(seconds.into())),
            None if is_submount() => Self::Submount,
            None => Self::Fixed,
        }
    }

    /// The least time between two probes with which a mount that nothing else uses is unmounted. Automounters look for such mounts each
    /// third or quarter of the time. `None`: any.
    pub(super) fn spacing(self) -> Option<Duration> {
        match self {
            Self::Idle(timeout) => Some(timeout * 2),
            Self::Fixed | Self::Submount => None,
        }
    }
}

/// Whether the client of NFS made a mount below another one of its mounts, as where another filesystem of the server begins: the source
/// continues that of the upper one (fs/nfs/namespace.c, `nfs_devname`). Both with their mount points and sources.
pub fn is_submount(upper: (&str, &str), lower: (&str, &str)) -> bool {
    let rest = |path: &'_ str, folder: &str| -> Option<String> {
        let rest = path.strip_prefix(folder.trim_end_matches('/'))?;
        (rest.len() > 1 && rest.starts_with('/')).then(|| rest.to_owned())
    };
    let below = rest(lower.0, upper.0);
    below.is_some() && below == rest(lower.1, upper.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, point: &str) -> Lifetime {
        let all: BTreeMap<u32, Mount<'_>> = mountinfo::mounts(text).map(|m| (m.id, m)).collect();
        let reached = mountinfo::reachable(all.values().copied().collect());
        let mount = reached.iter().find(|m| m.point() == point).unwrap();
        Lifetime::of(mount, &all)
    }

    const ROOT: &str = "22 1 8:2 / / rw - xfs /dev/sda2 rw\n";

    fn autofs(id: u32, parent: u32, point: &str, options: &str) -> String {
        format!("{id} {parent} 0:{id} / {point} rw - autofs auto rw,fd=7,{options}\n")
    }

    fn nfs(id: u32, parent: u32, point: &str, source: &str) -> String {
        format!("{id} {parent} 0:{id} / {point} rw - nfs4 {source} rw\n")
    }

    const MINUTES: Lifetime = Lifetime::Idle(Duration::from_mins(5));

    #[test]
    fn a_mount_below_an_automounter_lasts_for_its_timeout() {
        let home = ROOT.to_owned() + &autofs(30, 22, "/home", "timeout=300,minproto=5,indirect");
        let alice = home.clone() + &nfs(31, 30, "/home/alice", "nas:/alice");
        assert_eq!(of(&alice, "/home/alice"), MINUTES);
        assert_eq!(of(&alice, "/"), Lifetime::Fixed);
        let direct = ROOT.to_owned() + &autofs(30, 22, "/data", "timeout=300,direct");
        let direct = direct + &nfs(31, 30, "/data", "nas:/data");
        assert_eq!(of(&direct, "/data"), MINUTES);
        // The timeout of /net is the longer one, and a path to the export restarts it too.
        let hosts = ROOT.to_owned()
            + &autofs(30, 22, "/net", "timeout=300,indirect")
            + &autofs(31, 30, "/net/nas/a", "timeout=60,offset")
            + &nfs(32, 31, "/net/nas/a", "nas:/a")
            + &nfs(33, 32, "/net/nas/a/deep", "other:/deep");
        for point in ["/net/nas/a", "/net/nas/a/deep"] {
            assert_eq!(of(&hosts, point), MINUTES, "{point}");
        }
    }

    #[test]
    fn an_automounter_without_a_timeout_never_unmounts() {
        for options in [
            "timeout=0,direct",
            "direct",
            "timeout=-1,direct",
            "timeout=x,direct",
        ] {
            let text =
                ROOT.to_owned() + &autofs(30, 22, "/data", options) + &nfs(31, 30, "/data", "nas:/data");
            assert_eq!(of(&text, "/data"), Lifetime::Fixed, "{options}");
        }
    }

    #[test]
    fn an_export_of_the_same_server_at_its_place_below_another_one_is_a_submount() {
        let text = ROOT.to_owned()
            + &nfs(30, 22, "/data", "nas:/")
            + &nfs(31, 30, "/data/vol\\0401", "nas:/vol\\0401")
            + &nfs(32, 31, "/data/vol\\0401/a", "nas:/vol\\0401/a")
            + &nfs(33, 30, "/data/other", "nas:/else/other")
            + &nfs(34, 30, "/data/tape", "tape:/tape");
        for (point, is) in [
            ("/data", Lifetime::Fixed),
            ("/data/vol 1", Lifetime::Submount),
            ("/data/vol 1/a", Lifetime::Submount),
            ("/data/other", Lifetime::Fixed),
            ("/data/tape", Lifetime::Fixed),
        ] {
            assert_eq!(of(&text, point), is, "{point}");
        }
        assert!(is_submount(("/", "nas:/root"), ("/usr", "nas:/root/usr")));
        assert!(
            !is_submount(("/data", "nas:/data"), ("/data", "nas:/data")),
            "one over the other"
        );
        assert!(!is_submount(
            ("/data", "nas:/data"),
            ("/database", "nas:/database")
        ));
    }

    #[test]
    fn mounts_that_name_one_another_end() {
        let text = nfs(7, 8, "/a", "nas:/a") + &nfs(8, 7, "/b", "nas:/b");
        assert_eq!(of(&text, "/a"), Lifetime::Fixed);
    }
}
