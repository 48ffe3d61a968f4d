//! Lists of mounts, /proc/PID/mountinfo: their fields, which of the mounts a path reaches, and folders of containers. No file
//! below a mount point is touched.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::Error;
use crate::sys::root;

/// A node of containers has thousands of mounts of a hundred bytes.
const MOST_BYTES: u64 = 16 << 20;

/// Folders of container runtimes: their mounts come and go with pods.
static RUNTIMES: [&str; 10] = [
    "/var/lib/kubelet",
    "/var/lib/containerd",
    "/var/lib/containers",
    "/var/lib/docker",
    "/var/lib/k0s/kubelet",
    "/var/lib/rancher",
    "/var/snap/microk8s",
    "/run/containerd",
    "/run/docker",
    "/run/k3s",
];

/// Whether a path is one of the folders of container runtimes, or below one.
pub(crate) fn is_of_containers(path: &str) -> bool {
    RUNTIMES.into_iter().any(|folder| is_within(path, folder))
}

/// Mount points, with their devices, at which the kernel repeats a mount of a container runtime. Where the runtime's folder, or one above
/// it, is a bind mount of a folder of another disk, each mount of a pod is also below that one.
pub(crate) fn repeated_of_containers<'a>(mounts: &[Mount<'a>]) -> BTreeSet<(String, &'a str)> {
    let mut repeated = BTreeSet::new();
    for folder in RUNTIMES {
        let above = mounts.iter().filter(|m| is_within(folder, m.point));
        let Some(home) = above.max_by_key(|m| m.point.len()) else {
            continue;
        };
        let inside = moved(folder, home.point, home.root);
        let shown = mounts
            .iter()
            .filter(|m| m.device == home.device && is_within(&inside, m.root));
        let others = shown.map(|m| moved(&inside, m.root, m.point));
        for other in others.filter(|other| other != folder) {
            let of_pods = mounts
                .iter()
                .filter(|m| m.point != folder && is_within(m.point, folder));
            repeated.extend(of_pods.map(|m| (unescaped(&moved(m.point, folder, &other)), m.device)));
        }
    }
    repeated
}

/// That path below `from`, as a path below `to`.
fn moved(path: &str, from: &str, to: &str) -> String {
    let rest = path.strip_prefix(from.trim_end_matches('/')).unwrap_or_default();
    to.trim_end_matches('/').to_owned() + rest.trim_end_matches('/')
}

/// Whether a path is that folder, or below it.
pub(crate) fn is_within(path: &str, folder: &str) -> bool {
    let rest = path.strip_prefix(folder.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The list of the process with that folder of /proc. `Ok(None)`: no such process.
///
/// # Errors
/// When the list cannot be read, or is longer than any that is expected.
pub(crate) fn read(process: &Path) -> Result<Option<String>, Error> {
    root::read_lossy_within(&process.join("mountinfo"), MOST_BYTES)
}

/// One mount, with its fields as the kernel writes them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mount<'a> {
    pub(crate) id: u32,
    /// The mount that it is in. The first one of a node that runs from its initramfs is in itself.
    parent: u32,
    /// The number of the superblock's device.
    pub(crate) device: &'a str,
    root: &'a str,
    point: &'a str,
    pub(crate) fstype: &'a str,
    source: &'a str,
    options: &'a str,
}

impl<'a> Mount<'a> {
    /// `36 35 0:52 / /home rw,noatime shared:1 - nfs4 server:/home rw,hard`, with any number of fields before the dash. `None`:
    /// a field is missing.
    pub(crate) fn parse(line: &'a str) -> Option<Self> {
        let (mount, filesystem) = line.split_once(" - ")?;
        let (mut mount, mut filesystem) = (mount.split(' '), filesystem.split(' '));
        Some(Self {
            id: mount.next()?.parse().ok()?,
            parent: mount.next()?.parse().ok()?,
            device: mount.next()?,
            root: mount.next()?,
            point: mount.next()?,
            fstype: filesystem.next()?,
            source: filesystem.next()?,
            options: filesystem.next()?,
        })
    }

    /// The mounted folder of the filesystem: `/` without a bind mount.
    pub(crate) fn root(&self) -> String {
        unescaped(self.root)
    }

    /// Where it is mounted.
    pub(crate) fn point(&self) -> String {
        unescaped(self.point)
    }

    /// A device, `server:/export`.
    pub(crate) fn source(&self) -> String {
        unescaped(self.source)
    }

    /// An option of the superblock; empty if it has no value. `None`: not set.
    pub(crate) fn option(&self, name: &str) -> Option<&'a str> {
        let mut options = self
            .options
            .split(',')
            .map(|o| o.split_once('=').unwrap_or((o, "")));
        options
            .find(|(option, _)| *option == name)
            .map(|(_, value)| value)
    }
}

/// The mounts of a list. A line that cannot be read hides no other one.
pub(crate) fn mounts(text: &str) -> impl Iterator<Item = Mount<'_>> {
    text.lines().filter_map(Mount::parse)
}

/// The mounts that a path reaches: no other one covers them, at their own mount point or above it.
pub(crate) fn reachable(all: Vec<Mount<'_>>) -> Vec<Mount<'_>> {
    let place: BTreeMap<u32, &Mount<'_>> = all.iter().map(|mount| (mount.id, mount)).collect();
    let covers = |mount: &Mount<'_>| {
        let below = place.get(&mount.parent)?;
        (below.point == mount.point && below.id != mount.id).then_some(below.id)
    };
    let covered: BTreeSet<u32> = all.iter().filter_map(covers).collect();
    // A mount has no path where another one in the same mount is at a folder above it. The same holds for those that it is in.
    // The root of a node that runs from its initramfs is in itself, and hides nothing.
    let inner = all.iter().filter(|m| m.parent != m.id);
    let points: BTreeSet<(u32, &Path)> = inner.map(|m| (m.parent, Path::new(m.point))).collect();
    // A user may put 1,000 mounts in one another (FUSE): their long paths are compared only where the length is that of a point.
    let lengths: BTreeSet<(u32, usize)> = points.iter().map(|(of, p)| (*of, p.as_os_str().len())).collect();
    let is_below = |mount: &Mount<'_>| {
        let mut above = Path::new(mount.point).ancestors().skip(1);
        above.any(|folder| {
            lengths.contains(&(mount.parent, folder.as_os_str().len()))
                && points.contains(&(mount.parent, folder))
        })
    };
    // Each mount is looked at once, however many are in one another.
    let mut hidden: BTreeMap<u32, bool> = BTreeMap::new();
    for mount in &all {
        let (mut chain, mut at) = (Vec::new(), mount);
        let is_hidden = loop {
            if let Some(known) = hidden.get(&at.id) {
                break *known;
            }
            chain.push(at.id);
            if is_below(at) {
                break true;
            }
            // For a chain that ends in itself.
            hidden.insert(at.id, false);
            match place.get(&at.parent) {
                Some(outer) => at = outer,
                None => break false,
            }
        };
        hidden.extend(chain.into_iter().map(|id| (id, is_hidden)));
    }
    let is_reachable = |m: &Mount<'_>| !covered.contains(&m.id) && hidden.get(&m.id) != Some(&true);
    all.iter().filter(|mount| is_reachable(mount)).copied().collect()
}

/// More than mounts of a node are in one another.
const DEEPEST: usize = 256;

/// The mounts that a path to this one goes through, from the next above on, with those that it covers at its own mount point.
pub(crate) fn above<'m, 'a>(
    mount: &Mount<'a>,
    all: &'m BTreeMap<u32, Mount<'a>>,
) -> impl Iterator<Item = &'m Mount<'a>> {
    let next = |of: &Mount<'a>| all.get(&of.parent).filter(|outer| outer.id != of.id);
    std::iter::successors(next(mount), move |mount| next(mount)).take(DEEPEST)
}

/// A field of mountinfo or mountstats as it is: the kernel writes blanks, line ends and backslashes as three octal digits
/// (fs/seq_file.c, `mangle_path`).
pub(crate) fn unescaped(field: &str) -> String {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        match after {
            [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', tail @ ..] if *first == b'\\' => {
                bytes.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest = tail;
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// For fuzzing.
pub(crate) fn check(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let all: Vec<Mount<'_>> = mounts(&text).collect();
    let repeated = repeated_of_containers(&all);
    assert!(
        repeated
            .iter()
            .all(|(_, device)| all.iter().any(|m| m.device == *device))
    );
    for mount in reachable(mounts(&text).collect()) {
        for field in [mount.root, mount.point, mount.source] {
            assert!(unescaped(field).len() <= field.len(), "{field:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_mount_is_read_with_any_number_of_optional_fields() {
        for optional in ["", "shared:1 ", "shared:1 master:2 ", "new "] {
            let line = format!(
                "36 35 0:52 /a\\040b /my\\040data\\134x rw {optional}- nfs4 nas:/x\\040y rw,user_id=0"
            );
            let mount = Mount::parse(&line).unwrap();
            let fields = (mount.id, mount.parent, mount.device, mount.fstype);
            assert_eq!(fields, (36, 35, "0:52", "nfs4"));
            let texts = (mount.root(), mount.point(), mount.source());
            let expected = ("/a b".to_owned(), "/my data\\x".to_owned(), "nas:/x y".to_owned());
            assert_eq!(texts, expected);
            let options = ["rw", "user_id", "ro"].map(|name| mount.option(name));
            assert_eq!(options, [Some(""), Some("0"), None]);
        }
        for odd in [
            "36 35 0:52 / /home rw",
            "36 x 0:52 / /home rw - nfs4 nas:/ rw",
            "36 35 0:52 / /home rw - nfs4",
        ] {
            assert!(Mount::parse(odd).is_none(), "{odd}");
        }
    }

    const ROOT: &str = "1 0 0:2 / / rw - rootfs rootfs rw\n2 1 8:1 / / rw - ext4 /dev/sda1 rw\n";
    const HOME: &str = "50 2 0:52 / /home rw,noatime shared:9 - nfs4 nas:/home rw,hard\n";

    /// Sources of NFS mounts that a path reaches.
    fn reached(text: &str) -> Vec<String> {
        let all = reachable(mounts(text).collect()).into_iter();
        all.filter(|m| m.fstype == "nfs4").map(|m| m.source()).collect()
    }

    fn nfs(id: u32, parent: u32, point: &str) -> String {
        format!("{id} {parent} 0:{id} / {point} rw - nfs4 {id} rw\n")
    }

    #[test]
    fn on_a_node_that_runs_from_its_initramfs_the_root_hides_nothing() {
        let root = "1 1 0:2 / / rw - rootfs rootfs rw\n";
        let all = [nfs(25, 1, "/home"), nfs(26, 1, "/data/old"), nfs(27, 1, "/data")];
        assert_eq!(reached(&(root.to_owned() + &all.concat())), ["25", "27"]);
    }

    #[test]
    fn a_mount_at_the_same_place_covers_the_other_and_those_below_it() {
        let base = format!("{ROOT}{HOME}{}", nfs(60, 50, "/home/deep"));
        assert_eq!(reached(&base), ["nas:/home", "60"]);
        let cover = format!("{base}70 50 0:60 / /home rw - tmpfs none rw\n");
        assert_eq!(reached(&cover), [""; 0]);
        assert_eq!(reached(&(cover + &nfs(80, 70, "/home/deep"))), ["80"]);
    }

    #[test]
    fn a_mount_at_a_folder_above_hides_another_one_and_its_neighbour_does_not() {
        let deep = format!(
            "{ROOT}{}{}",
            nfs(90, 2, "/data/deep"),
            nfs(91, 90, "/data/deep/er")
        );
        assert_eq!(reached(&(deep.clone() + &nfs(92, 2, "/dat"))), ["90", "91", "92"]);
        assert_eq!(reached(&(deep + &nfs(92, 2, "/data"))), ["92"]);
    }

    /// In a time that grows with their number: their square would take minutes.
    #[test]
    fn mounts_on_top_of_one_another_are_one() {
        let stack: String = (100..60_100).map(|id| nfs(id, id - 1, "/home")).collect();
        assert_eq!(reached(&stack), ["60099"]);
    }

    /// As above: the cube of their number would take minutes.
    #[test]
    fn each_of_many_mounts_in_one_another_is_reached() {
        let place = |depth: usize| format!("/tmp{}", "/m".repeat(depth));
        let nested: String = (0..4_000)
            .map(|id| nfs(id + 100, id + 99, &place(usize::try_from(id).unwrap())))
            .collect();
        assert_eq!(reached(&nested).len(), 4_000);
    }

    #[test]
    fn mounts_that_name_one_another_hide_nothing() {
        assert_eq!(reached(&(nfs(7, 8, "/a") + &nfs(8, 7, "/b"))), ["7", "8"]);
    }

    #[test]
    fn a_folder_contains_what_is_below_it_and_not_its_neighbour() {
        assert!(
            is_of_containers("/var/lib/kubelet/pods/1/volumes/x")
                && is_of_containers("/var/lib/k0s/kubelet/pods/1/volumes/x")
                && is_of_containers("/var/snap/microk8s/common/var/lib/kubelet/pods/1/volumes/x")
                && !is_of_containers("/var/lib/docker-data")
        );
        let own = "/scratch/old/";
        assert!(is_within("/scratch/old", own) && is_within("/scratch/old/a", own));
        assert!(!is_within("/scratch/older", own) && !is_within("/scratch", own));
    }

    /// As `setup-local-disks` of EKS binds it, and as Bottlerocket does with the folder above.
    #[test]
    fn the_mounts_of_pods_are_repeated_below_the_source_of_a_bound_runtime_folder() {
        let repeated = |text: &str| -> Vec<String> {
            let found = repeated_of_containers(&mounts(text).collect::<Vec<_>>());
            found
                .into_iter()
                .map(|(point, device)| format!("{device} {point}"))
                .collect()
        };
        let disk = "60 2 9:127 / /mnt/k8s-disks/0 rw shared:60 - xfs /dev/md127 rw\n";
        let bind = "61 2 9:127 /kubelet /var/lib/kubelet rw shared:60 - xfs /dev/md127 rw\n";
        let pod = "101 61 0:201 / /var/lib/kubelet/pods/1a2b/my\\040pv rw shared:101 - nfs4 nas:/pod rw\n";
        assert_eq!(
            repeated(&format!("{ROOT}{disk}{bind}{pod}")),
            ["0:201 /mnt/k8s-disks/0/kubelet/pods/1a2b/my pv"]
        );
        let part = disk.replace(" / /mnt/k8s-disks/0", " /other /srv/other");
        assert_eq!(repeated(&format!("{ROOT}{part}{bind}{pod}")), [""; 0]);
        let above = disk.replace(" / /mnt/k8s-disks/0", " /kube /my\\040disk");
        let bind = bind.replace(" /kubelet ", " /kube/let ");
        assert_eq!(
            repeated(&format!("{ROOT}{above}{bind}{pod}")),
            ["0:201 /my disk/let/pods/1a2b/my pv"]
        );
        let var = "62 2 259:3 / /local rw - ext4 /dev/nvme1n1p1 rw\n63 2 259:3 /var /var rw - ext4 /dev/nvme1n1p1 rw\n";
        assert_eq!(
            repeated(&format!("{ROOT}{var}{pod}")),
            ["0:201 /local/var/lib/kubelet/pods/1a2b/my pv"]
        );
        assert_eq!(repeated(&format!("{ROOT}{pod}")), [""; 0]);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_left(text in "[ -~\n]{0,400}") {
            check(text.as_bytes());
        }
    }
}
