//! The filesystems of the node, one for each superblock, from the lists of mounts.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use procfs_core::process::MountInfo;

use super::class::{self, Class};
use super::probe::Key;
use crate::text::unescaped_text;

/// One filesystem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Filesystem {
    /// Its device number: another filesystem at the same mount point has another one.
    pub(super) device: String,
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
    /// Whether this process sees the same filesystem at that mount point.
    pub(super) is_visible: bool,
}

impl Filesystem {
    /// What its probe is known by.
    pub(super) fn key(&self) -> Key {
        (self.point.clone(), self.device.clone())
    }
}

/// A mount that no other one covers.
struct Mount {
    device: String,
    root: String,
    point: String,
    info: MountInfo,
}

/// Mounts that no other one covers, at their own mount point or above it. A line that cannot be read hides no other one.
fn mounts(text: &str) -> Vec<Mount> {
    let all: Vec<MountInfo> = text
        .lines()
        .filter_map(|line| MountInfo::from_line(line).ok())
        .collect();
    let place: BTreeMap<i32, &MountInfo> = all.iter().map(|mount| (mount.mnt_id, mount)).collect();
    let covers = |mount: &MountInfo| {
        let below = place.get(&mount.pid)?;
        (below.mount_point == mount.mount_point && below.mnt_id != mount.mnt_id).then_some(below.mnt_id)
    };
    let covered: BTreeSet<i32> = all.iter().filter_map(covers).collect();
    // A mount has no path where another one in the same mount is at a folder above it. The same holds for those that it is in.
    // The root of a node that runs from its initramfs is in itself, and hides nothing.
    let inner = all.iter().filter(|m| m.pid != m.mnt_id);
    let points: BTreeSet<(i32, &Path)> = inner.map(|m| (m.pid, m.mount_point.as_path())).collect();
    let is_below = |mount: &MountInfo| {
        let mut above = mount.mount_point.ancestors().skip(1);
        above.any(|folder| points.contains(&(mount.pid, folder)))
    };
    // Each mount is looked at once, however many are in one another.
    let mut hidden: BTreeMap<i32, bool> = BTreeMap::new();
    for mount in &all {
        let (mut chain, mut at) = (Vec::new(), mount);
        let is_hidden = loop {
            if let Some(known) = hidden.get(&at.mnt_id) {
                break *known;
            }
            chain.push(at.mnt_id);
            if is_below(at) {
                break true;
            }
            // For a chain that ends in itself.
            hidden.insert(at.mnt_id, false);
            match place.get(&at.pid) {
                Some(outer) => at = outer,
                None => break false,
            }
        };
        hidden.extend(chain.into_iter().map(|id| (id, is_hidden)));
    }
    all.into_iter()
        .filter(|mount| !covered.contains(&mount.mnt_id) && hidden.get(&mount.mnt_id) != Some(&true))
        .map(|info| Mount {
            device: info.majmin.clone(),
            root: info.root.clone(),
            point: unescaped_text(&info.mount_point.to_string_lossy()),
            info,
        })
        .collect()
}

/// The filesystems of interest: parallel and network ones first, those of users last, each in the order of mount points. `own` is
/// the list of mounts of this process, which its sandbox may change.
pub(super) fn filesystems(node: &str, own: &str, excluded: &[String]) -> Vec<Filesystem> {
    let own: BTreeSet<(String, String)> = mounts(own)
        .into_iter()
        .map(|mount| (mount.point, mount.device))
        .collect();
    let mut best: BTreeMap<String, (bool, usize, Filesystem)> = BTreeMap::new();
    for mount in mounts(node) {
        let Some(class) = class::of(&mount.info.fs_type) else {
            continue;
        };
        let options = &mount.info.super_options;
        // fusermount lets every user choose mount point, type and source. Without `allow_other` no other user is answered.
        let is_fuse = mount.info.fs_type.starts_with("fuse.");
        if class::is_excluded(&mount.point, excluded) || (is_fuse && !options.contains_key("allow_other")) {
            continue;
        }
        let user = options.get("user_id").and_then(Option::as_deref);
        let place = (mount.point.clone(), mount.device.clone());
        let found = Filesystem {
            device: mount.device.clone(),
            is_visible: own.contains(&place),
            fstype: mount.info.fs_type.clone(),
            source: unescaped_text(mount.info.mount_source.as_deref().unwrap_or_default()),
            class,
            is_read_only: options.contains_key("ro"),
            is_of_a_user: is_fuse && user != Some("0"),
            point: mount.point,
        };
        // The whole filesystem before a part that is bound elsewhere; then the shortest path.
        let key = (mount.root != "/", found.point.len(), found);
        let order = |(is_part, length, found): &(bool, usize, Filesystem)| {
            (!found.is_visible, *is_part, *length, found.point.clone())
        };
        let is_better = best
            .get(&mount.device)
            .is_none_or(|known| order(&key) < order(known));
        if is_better {
            best.insert(mount.device, key);
        }
    }
    let mut all: Vec<Filesystem> = best.into_values().map(|(_, _, found)| found).collect();
    // A user must not take a place from a filesystem of the node.
    all.sort_by(|a, b| (a.is_of_a_user, a.class, &a.point).cmp(&(b.is_of_a_user, b.class, &b.point)));
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
    fn on_a_node_that_runs_from_its_initramfs_the_root_hides_nothing() {
        let root = "1 1 0:2 / / rw - rootfs rootfs rw";
        let home = "25 1 0:52 / /home rw - nfs4 nas:/home rw,hard";
        let covered = "26 1 0:53 / /data/old rw - nfs4 nas:/old rw,hard";
        let data = "27 1 0:54 / /data rw - nfs4 nas:/data rw,hard";
        let all = found(&[root, home, covered, data].join("\n"));
        let points: Vec<&str> = all.iter().map(|(point, ..)| point.as_str()).collect();
        assert_eq!(points, ["/data", "/home"]);
    }

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
    fn a_mount_that_another_one_covers_is_not_probed() {
        let over = "70 50 0:60 / /home rw - tmpfs none rw";
        assert_eq!(found(&format!("{NFS}\n{over}\n")), []);
    }

    #[test]
    fn a_mount_below_a_covered_one_is_not_probed_and_one_below_the_cover_is() {
        let root = "1 0 0:2 / / rw - rootfs rootfs rw\n2 1 8:1 / / rw - ext4 /dev/sda1 rw";
        let below = "60 50 0:61 / /home/deep rw - nfs4 nas:/deep rw";
        let cover = "70 50 0:62 / /home rw - nfs4 nas:/other rw";
        let on_cover = "80 70 0:63 / /home/new rw - nfs4 nas:/new rw";
        let home = NFS.replace("50 1 ", "50 2 ");
        let points = |lines: &[&str]| -> Vec<String> {
            let all = found(&lines.join("\n"));
            all.into_iter().filter(|f| f.1 == "nfs4").map(|f| f.0).collect()
        };
        assert_eq!(points(&[root, &home, below]), ["/home", "/home/deep"]);
        assert_eq!(
            points(&[root, &home, below, cover, on_cover]),
            ["/home", "/home/new"]
        );
        let deep = "90 2 0:64 / /data/deep rw - nfs4 nas:/deep rw";
        let above = "91 2 0:65 / /data rw - nfs4 nas:/data rw";
        assert_eq!(points(&[root, deep, above]), ["/data"]);
    }

    /// In a time that grows with their number: their square would take minutes.
    #[test]
    fn mounts_on_top_of_one_another_are_one() {
        let stack = (100..60_100).map(|n| format!("{n} {} 0:{n} / /home rw - nfs4 nas:/{n} rw\n", n - 1));
        let text: String = stack.collect();
        let all = filesystems(&text, "", &[]);
        let sources: Vec<&str> = all.iter().map(|f| f.source.as_str()).collect();
        assert_eq!(sources, ["nas:/60099"]);
    }

    #[test]
    fn mounts_that_name_one_another_hide_nothing() {
        let text = "7 8 0:7 / /a rw - nfs4 nas:/a rw\n8 7 0:8 / /b rw - nfs4 nas:/b rw";
        let points: Vec<String> = found(text).into_iter().map(|(point, ..)| point).collect();
        assert_eq!(points, ["/a", "/b"]);
    }

    #[test]
    fn a_mount_point_may_have_a_space() {
        let text = r"50 1 0:52 / /home/a\040b rw - nfs4 nas:/x\040y rw";
        assert_eq!(found(text)[0].0, "/home/a b");
    }

    #[test]
    fn read_only_is_the_superblock_and_not_one_mount_of_it() {
        let bind = "50 1 0:52 / /home ro,noatime - nfs4 nas:/home rw,hard";
        let whole = "50 1 0:52 / /home rw,noatime - nfs4 nas:/home ro,hard";
        let is_read_only = |text| filesystems(text, text, &[])[0].is_read_only;
        assert!(!is_read_only(bind) && is_read_only(whole));
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
    fn pods_and_excluded_folders_are_left_out() {
        let pod = "60 1 0:99 / /var/lib/kubelet/pods/1/volumes/v rw - nfs4 nas:/pod rw";
        let text = format!("{pod}\n{XFS}");
        assert!(filesystems(&text, &text, &["/scratch".to_owned()]).is_empty());
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
