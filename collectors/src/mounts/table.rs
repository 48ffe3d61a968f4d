//! The filesystems of the node, one for each superblock, from the lists of mounts.

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest, Sha256};

use super::class::{self, Class};
use super::lifetime::Lifetime;
use super::probe::Key;
use crate::mountinfo::{self, Mount};
use crate::subject::MAX_NAME;
use crate::text::printable;

/// One filesystem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Filesystem {
    /// Its device number: another filesystem at the same mount point has another one.
    pub(super) device: String,
    /// The number of the mount under which it is probed: a later one at the same place may have another.
    pub(super) mount: u32,
    /// The mount point under which it is probed.
    pub(super) point: String,
    /// Its type.
    pub(super) fstype: String,
    /// Its source: a device, `server:/export`.
    pub(super) source: String,
    /// Its class.
    pub(super) class: Class,
    /// Whether the superblock is read-only.
    pub(super) is_read_only: bool,
    /// Whether a user other than root may have mounted it.
    pub(super) is_of_a_user: bool,
    /// Whether its server answers only users with a Kerberos ticket: a probe, which has none, would be refused without asking it.
    pub(super) needs_ticket: bool,
    /// How long the mount lasts that nothing uses.
    pub(super) lifetime: Lifetime,
    /// Whether this process sees the same filesystem at that mount point.
    pub(super) is_visible: bool,
}

impl Filesystem {
    /// What its probe is known by.
    pub(super) fn key(&self) -> Key {
        (self.point.clone(), self.device.clone())
    }

    pub(super) const fn may_be_probed(&self) -> bool {
        self.is_visible && !self.is_of_a_user && !self.needs_ticket
    }
}

/// Options of a superblock that takes no writes. From 6.15 on, ext4 has the last two after an error and a forced shutdown,
/// beside `rw` (fs/ext4/super.c).
static READ_ONLY: [&str; 3] = ["ro", "emergency_ro", "shutdown"];

/// A mount point as a name: a user may choose any bytes for it. One that is too long ends with a hash of the whole, since paths
/// that differ only at their end are different devices.
pub(super) fn name(point: &str) -> String {
    // Each byte has at most 4 in its printable form.
    let whole = printable(point.as_bytes(), 4 * point.len());
    if whole.len() <= MAX_NAME {
        return whole;
    }
    let digest = Sha256::digest(point);
    let hash: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    let end = format!("...{hash}");
    printable(point.as_bytes(), MAX_NAME - end.len()) + &end
}

/// The filesystems of interest: the root, then parallel, network and local ones; after these, mounts that end unused, and those of users;
/// each in the order of mount points.
/// `own` is the list of mounts of this process, which its sandbox may change.
pub(super) fn filesystems(node: &str, own: &str, excluded: &[String]) -> Vec<Filesystem> {
    let reachable = |text| mountinfo::reachable(mountinfo::mounts(text).collect());
    let own: BTreeSet<(String, &str)> = reachable(own)
        .into_iter()
        .map(|mount| (mount.point(), mount.device))
        .collect();
    let all: BTreeMap<u32, Mount<'_>> = mountinfo::mounts(node).map(|mount| (mount.id, mount)).collect();
    let mut best: BTreeMap<&str, (bool, usize, Filesystem)> = BTreeMap::new();
    let node = reachable(node);
    let repeated = mountinfo::repeated_of_containers(&node);
    for mount in node {
        let Some(class) = class::of(mount.fstype) else {
            continue;
        };
        let place = (mount.point(), mount.device);
        let is_excluded = mountinfo::is_of_containers(&place.0)
            || repeated.contains(&place)
            || excluded
                .iter()
                .any(|folder| mountinfo::is_within(&place.0, folder));
        // fusermount lets every user choose mount point, type and source. Without `allow_other` no other user is answered.
        let is_fuse = mount.fstype.starts_with("fuse.");
        if is_excluded || (is_fuse && mount.option("allow_other").is_none()) {
            continue;
        }
        let found = Filesystem {
            device: mount.device.to_owned(),
            mount: mount.id,
            lifetime: Lifetime::of(&mount, &all),
            is_visible: own.contains(&place),
            fstype: mount.fstype.to_owned(),
            source: mount.source(),
            class,
            is_read_only: READ_ONLY.iter().any(|option| mount.option(option).is_some()),
            needs_ticket: mount.fstype.starts_with("nfs")
                && mount.option("sec").is_some_and(|sec| sec.starts_with("krb5")),
            is_of_a_user: is_fuse && mount.option("user_id") != Some("0"),
            point: place.0,
        };
        // A mount that a probe does not keep; the whole filesystem before a part that is bound elsewhere; then the shortest path.
        let key = (mount.root() != "/", found.point.len(), found);
        let order = |(is_part, length, found): &(bool, usize, Filesystem)| {
            let ends = found.lifetime != Lifetime::Fixed;
            (!found.is_visible, ends, *is_part, *length, found.point.clone())
        };
        let is_better = best
            .get(mount.device)
            .is_none_or(|known| order(&key) < order(known));
        if is_better {
            best.insert(mount.device, key);
        }
    }
    let mut all: Vec<Filesystem> = best.into_values().map(|(_, _, found)| found).collect();
    // A user must not take a place from a filesystem of the node, nor the homes that users enter one from local scratch.
    let ends = |f: &Filesystem| f.lifetime != Lifetime::Fixed;
    let rank = |f: &Filesystem| (f.is_of_a_user, ends(f), f.point != "/", f.class);
    all.sort_by(|a, b| rank(a).cmp(&rank(b)).then_with(|| a.point.cmp(&b.point)));
    all
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found(text: &str) -> Vec<(String, String, &'static str)> {
        filesystems(text, text, &[])
            .into_iter()
            .map(|f| (f.point, f.fstype, f.class.word()))
            .collect()
    }

    const NFS: &str = "50 1 0:52 / /home rw,noatime shared:9 - nfs4 nas:/home rw,hard";
    const XFS: &str = "51 1 259:1 / /scratch rw shared:8 - xfs /dev/nvme0n1p1 rw";

    #[test]
    fn network_filesystems_come_before_local_ones() {
        let all = found(&format!("{XFS}\n{NFS}\n"));
        let expected = [
            ("/home".to_owned(), "nfs4".to_owned(), "network"),
            ("/scratch".to_owned(), "xfs".to_owned(), "local"),
        ];
        assert_eq!(all, expected);
    }

    #[test]
    fn a_thousand_bind_mounts_of_one_filesystem_are_one() {
        let binds = (100..1100).map(|n| format!("{n} 1 0:52 /user{n} /jail/{n} rw - nfs4 nas:/home rw\n"));
        let text: String = binds.chain([NFS.to_owned()]).collect();
        assert_eq!(found(&text), [("/home".to_owned(), "nfs4".to_owned(), "network")]);
    }

    #[test]
    fn of_bind_mounts_alone_the_shortest_is_probed() {
        let text = "60 1 0:52 /a /jail/long rw - nfs4 nas:/home rw\n61 1 0:52 /b /b rw - nfs4 nas:/home rw";
        assert_eq!(found(text)[0].0, "/b");
    }

    #[test]
    fn read_only_is_the_superblock_and_not_one_mount_of_it() {
        let bind = "50 1 0:52 / /home ro,noatime - nfs4 nas:/home rw,hard";
        let whole = "50 1 0:52 / /home rw,noatime - nfs4 nas:/home ro,hard";
        let is_read_only = |text: &str| filesystems(text, text, &[])[0].is_read_only;
        assert!(!is_read_only(bind) && is_read_only(whole));
        for option in ["emergency_ro", "shutdown"] {
            let ext4 = format!("51 1 259:1 / /scratch rw - ext4 /dev/sda1 rw,{option},errors=remount-ro");
            assert!(is_read_only(&ext4), "{option}");
        }
        assert!(!is_read_only(
            "51 1 259:1 / /scratch rw - ext4 /dev/sda1 rw,errors=remount-ro"
        ));
    }

    #[test]
    fn a_filesystem_that_the_sandbox_hides_is_listed_and_not_visible() {
        let covered = format!("{NFS}\n90 50 0:77 / /home ro - tmpfs tmpfs ro");
        assert!(!filesystems(NFS, &covered, &[])[0].is_visible);
        assert!(filesystems(NFS, NFS, &[])[0].is_visible);
    }

    #[test]
    fn a_place_that_is_visible_is_preferred() {
        let bind = "60 1 0:52 /a /data/bind rw - nfs4 nas:/home rw";
        let node = format!("{NFS}\n{bind}");
        let found = filesystems(&node, bind, &[]);
        assert_eq!(
            (found.len(), found[0].point.as_str(), found[0].is_visible),
            (1, "/data/bind", true)
        );
    }

    #[test]
    fn filesystems_of_users_are_last_and_those_that_only_they_may_enter_are_left_out() {
        let of_user =
            |n: usize, options: &str| format!("{n} 1 0:{n} / /a{n} rw - fuse.ceph x rw,user_id={options}\n");
        let lustre = "10 1 0:10 / /lustre rw - lustre 10.2.0.40@o2ib:/scratch rw\n";
        let mine = of_user(20, "1000,group_id=1000");
        let shared = of_user(21, "1000,group_id=1000,allow_other");
        let roots = of_user(22, "0,group_id=0,allow_other");
        let all = found(&format!("{mine}{shared}{XFS}\n{lustre}{roots}"));
        let points: Vec<&str> = all.iter().map(|(point, ..)| point.as_str()).collect();
        assert_eq!(points, ["/a22", "/lustre", "/scratch", "/a21"]);
    }

    #[test]
    fn mounts_that_end_unused_come_after_local_ones_and_a_place_that_stays_is_preferred() {
        let home = |n: usize| format!("{n} 30 0:{n} / /home/u{n} rw - nfs4 nas:/home/u{n} rw\n");
        let homes: String = (100..120).map(home).collect();
        let map = "30 1 0:30 / /home rw - autofs auto.home rw,fd=7,timeout=300,indirect\n";
        let data = "40 1 0:40 / /data rw - nfs4 nas:/ rw\n41 40 0:41 / /data/vol1 rw - nfs4 nas:/vol1 rw\n";
        let text = format!("{map}{homes}{data}{XFS}\n");
        let points =
            |text: &str| -> Vec<String> { found(text).into_iter().map(|(point, ..)| point).collect() };
        assert_eq!(
            points(&text)[..4],
            ["/data", "/scratch", "/data/vol1", "/home/u100"]
        );
        let stays = format!("{text}50 1 0:105 / /projects/long/name rw - nfs4 nas:/home/u105 rw\n");
        let points = points(&stays);
        assert!(points.contains(&"/projects/long/name".to_owned()));
        assert!(!points.contains(&"/home/u105".to_owned()));
    }

    #[test]
    fn pods_and_excluded_folders_are_left_out() {
        let pod = "60 1 0:99 / /var/lib/kubelet/pods/1/volumes/v rw - nfs4 nas:/pod rw";
        let text = format!("{pod}\n{XFS}");
        assert!(filesystems(&text, &text, &["/scratch".to_owned()]).is_empty());
    }

    /// With shared propagation, the kernel repeats each mount of a pod below the source of the bind mount.
    #[test]
    fn pods_below_the_source_of_a_bound_kubelet_folder_are_left_out() {
        let text = "60 27 9:127 / /mnt/k8s-disks/0 rw,noatime shared:60 - xfs /dev/md127 rw\n\
                    61 27 9:127 /kubelet /var/lib/kubelet rw,noatime shared:60 - xfs /dev/md127 rw\n\
                    101 61 0:201 / /var/lib/kubelet/pods/1a2b/volumes/pv rw shared:101 - nfs4 nas:/pod rw\n\
                    201 60 0:201 / /mnt/k8s-disks/0/kubelet/pods/1a2b/volumes/pv rw shared:101 - nfs4 nas:/pod rw\n";
        let disk = ("/mnt/k8s-disks/0".to_owned(), "xfs".to_owned(), "local");
        assert_eq!(found(text), [disk]);
        // A disk that is bound as a whole still has its place.
        let whole = text
            .replace(" /kubelet /var", " / /var")
            .replace("0/kubelet/pods", "0/pods");
        assert_eq!(found(&whole), found(text));
    }

    #[test]
    fn long_paths_that_differ_at_their_end_have_different_names() {
        for start in ["x".repeat(300), "\u{6f22}".repeat(100), "\u{1b}".repeat(70)] {
            let [a, b] = ["a", "b"].map(|end| name(&format!("/{start}/run-{end}")));
            assert_ne!(a, b);
            assert!(crate::text::is_printable(&a, MAX_NAME), "{a}");
            assert_eq!(a, name(&format!("/{start}/run-a")));
            assert!(a.contains("..."), "{a}");
        }
        let fits = format!("/{}", "x".repeat(MAX_NAME - 1));
        assert_eq!(name(&fits), fits);
    }

    #[test]
    fn the_root_of_the_node_comes_first() {
        let root = "27 1 259:2 / / rw shared:1 - xfs /dev/nvme0n1p2 rw";
        assert_eq!(found(&format!("{NFS}\n{root}"))[0].0, "/");
    }

    proptest! {
        #[test]
        fn any_text_is_taken(text in "[ -~\n]{0,400}") {
            filesystems(&text, &text, &[]);
        }

        #[test]
        fn one_device_is_one_filesystem(lines in proptest::collection::vec((1_u32..5, 0_u32..4), 0..30)) {
            let line = |(n, (device, place)): (usize, (u32, u32))| {
                format!("{} 1 0:{device} / /m{place} rw - nfs4 nas:/{device} rw\n", n + 10)
            };
            let text: String = lines.iter().copied().enumerate().map(line).collect();
            let devices: BTreeSet<u32> = lines.iter().map(|(device, _)| *device).collect();
            let sources: BTreeSet<String> = filesystems(&text, &text, &[]).into_iter().map(|f| f.source).collect();
            prop_assert_eq!(devices.len(), sources.len());
        }
    }
}
