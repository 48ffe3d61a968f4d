//! The mount table: which filesystems are mounted where. No file below a mount point is touched.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use super::metrics::{MOUNT_INFO, MOUNTS};
use super::slow::Slow;
use crate::mountinfo::{self, Mount};
use crate::{Block, Device, Env, Error, Subject, SubjectKind};

/// More than a node has outside of [`LEFT_OUT`] and of the folders of containers.
const MOST: usize = 256;

/// Folders with mounts of the kernel and of sessions, which come and go.
const LEFT_OUT: [&str; 6] = ["/dev", "/proc", "/run", "/snap", "/sys", "/var/run"];

/// Whether a path can be in the list: absolute, without an empty part, `.` or `..`, and outside of [`LEFT_OUT`] and of the folders of containers.
pub fn is_listed(path: &str) -> bool {
    let whole = path == "/" || (!path.ends_with('/') && !path.contains("//"));
    let is_plain = !path.split('/').any(|part| matches!(part, "." | ".."));
    let is_left_out = LEFT_OUT
        .into_iter()
        .any(|folder| mountinfo::is_within(path, folder));
    path.starts_with('/') && whole && is_plain && !is_left_out && !mountinfo::is_of_containers(path)
}

/// The filesystems of this worker's mount namespace. nodewarden.service's own gets every mount of the host.
pub(super) struct Mounts {
    env: Env,
    subject: Subject,
    table: Slow<Table>,
}

/// Filesystem type and mounted folder by mount point.
#[derive(Debug, Default)]
struct Table {
    points: BTreeMap<String, (String, String)>,
    /// Every line was read, and all have room.
    whole: bool,
}

impl Mounts {
    pub(super) fn new(env: &Env) -> Self {
        Self {
            env: env.clone(),
            subject: Subject::new(SubjectKind::Node, "mounts"),
            table: Slow::new(),
        }
    }
}

impl Device for Mounts {
    fn subject(&self) -> &Subject {
        &self.subject
    }

    fn read(&mut self, out: &mut Block) -> Result<(), Error> {
        let (own, node) = (self.env.path("/proc/self"), self.env.path("/proc/1"));
        let table = self.table.get(Instant::now(), || {
            let own = mountinfo::read(&own)
                .inspect_err(|error| tracing::debug!(%error, "left out"))
                .ok()??;
            let node = mountinfo::read(&node).ok().flatten();
            Some(listed(&own, node.as_deref()))
        });
        let count = table.filter(|t| t.whole).map(|t| t.points.len() as u64);
        out.maybe_u64(&MOUNTS, &[], count);
        for (point, (kind, root)) in table.into_iter().flat_map(|t| &t.points) {
            out.info(&MOUNT_INFO, &[point, kind, root]);
        }
        Ok(())
    }
}

/// The listed mounts; of several at one place the last, which is on top. A mount that another one hides is not listed: jobs do
/// not reach it. The sandbox of this worker hides mounts too (`InaccessiblePaths=`), so one that process 1 reaches is listed, and with
/// hidepid, without the list of process 1, each.
fn listed(own: &str, node: Option<&str>) -> Table {
    let mut table = Table {
        whole: true,
        ..Table::default()
    };
    let reached = node.map(|node| -> BTreeSet<String> {
        let of = |text| mountinfo::reachable(mountinfo::mounts(text).collect());
        let all = of(own).into_iter().chain(of(node));
        all.map(|mount| mount.point()).collect()
    });
    let repeated = mountinfo::repeated_of_containers(&mountinfo::mounts(own).collect::<Vec<_>>());
    let is_hidden = |point: &String| reached.as_ref().is_some_and(|points| !points.contains(point));
    for line in own.lines() {
        match Mount::parse(line).map(|mount| ((mount.point(), mount.device), mount)) {
            Some((place, _)) if !is_listed(&place.0) || repeated.contains(&place) || is_hidden(&place.0) => {}
            Some(((point, _), mount)) if table.points.len() < MOST || table.points.contains_key(&point) => {
                table
                    .points
                    .insert(point, (mount.fstype.to_owned(), mount.root()));
            }
            _ => table.whole = false,
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<(String, (String, String))> {
        let table = listed(text, Some(text));
        assert!(table.whole, "{table:?}");
        table.points.into_iter().collect()
    }

    fn mount(point: &str, kind: &str, root: &str) -> (String, (String, String)) {
        (point.to_owned(), (kind.to_owned(), root.to_owned()))
    }

    #[test]
    fn a_mount_point_may_have_blanks_and_the_last_mount_at_a_place_counts() {
        let text = "22 1 8:2 / / rw shared:1 - xfs /dev/sda2 rw\n\
                    23 22 0:20 / /proc rw - proc proc rw\n\
                    24 22 0:21 / /home rw shared:9 - autofs auto.home rw\n\
                    25 24 0:52 /export /home rw shared:9 - nfs4 server:/export rw\n\
                    26 22 0:53 / /my\\040data\\134x rw - lustre 10.0.0.1@o2ib:/fs rw\n\
                    27 22 0:54 / /run/user/0 rw - tmpfs tmpfs rw";
        let expected = [
            mount("/", "xfs", "/"),
            mount("/home", "nfs4", "/export"),
            mount("/my data\\x", "lustre", "/"),
        ];
        assert_eq!(of(text), expected);
    }

    #[test]
    fn pods_below_the_source_of_a_bound_kubelet_folder_are_not_listed() {
        let text = "60 1 9:127 / /mnt/disk rw - xfs /dev/md127 rw\n\
                    61 1 9:127 /kubelet /var/lib/kubelet rw - xfs /dev/md127 rw\n\
                    101 61 0:201 / /var/lib/kubelet/pods/1a2b/volumes/pv rw - nfs4 nas:/pod rw\n\
                    201 60 0:201 / /mnt/disk/kubelet/pods/1a2b/volumes/pv rw - nfs4 nas:/pod rw\n\
                    202 60 0:202 / /mnt/disk/kubelet/shared rw - nfs4 nas:/shared rw";
        let expected = [
            mount("/mnt/disk", "xfs", "/"),
            mount("/mnt/disk/kubelet/shared", "nfs4", "/"),
        ];
        assert_eq!(of(text), expected);
    }

    #[test]
    fn a_mount_that_a_later_one_hides_is_not_listed() {
        let nfs = "22 1 8:2 / / rw - xfs /dev/sda2 rw\n\
                   23 22 0:52 / /data/nfs rw - nfs4 server:/nfs rw\n\
                   24 23 0:53 / /data/nfs/deep rw - nfs4 server:/deep rw";
        let points = |text: &str| -> Vec<String> { of(text).into_iter().map(|(point, _)| point).collect() };
        assert_eq!(points(nfs), ["/", "/data/nfs", "/data/nfs/deep"]);
        let over = format!("{nfs}\n25 22 8:3 / /data rw - xfs /dev/sdb1 rw");
        assert_eq!(points(&over), ["/", "/data"]);
        let again = format!("{over}\n26 25 0:54 / /data/nfs rw - nfs4 server:/nfs rw");
        assert_eq!(points(&again), ["/", "/data", "/data/nfs"]);
    }

    #[test]
    fn a_mount_that_only_the_sandbox_hides_is_listed() {
        let node = "22 1 8:2 / / rw - xfs /dev/sda2 rw\n\
                    23 22 0:52 / /tmp/nfs rw - nfs4 server:/nfs rw\n\
                    24 22 0:53 / /data/nfs rw - nfs4 server:/deep rw\n\
                    25 22 8:3 / /data rw - xfs /dev/sdb1 rw";
        let own = format!("{node}\n26 22 8:2 /private /tmp rw - xfs /dev/sda2 rw");
        let points = |node| -> Vec<String> { listed(&own, node).points.into_keys().collect() };
        assert_eq!(points(Some(node)), ["/", "/data", "/tmp", "/tmp/nfs"]);
        assert_eq!(points(None), ["/", "/data", "/data/nfs", "/tmp", "/tmp/nfs"]);
    }

    #[test]
    fn a_table_with_an_odd_line_or_too_many_mounts_is_not_whole_and_its_mounts_are_mounted() {
        let table = listed("22 1 8:2 / / rw - xfs /dev/sda2 rw\n23 22 0:52 / /home", None);
        assert_eq!((table.whole, table.points.len()), (false, 1));
        let line = |n: usize| format!("{n} 1 0:52 / /m{n} rw - nfs4 s:/ rw\n");
        let many = |n: usize| (0..n).map(line).collect::<String>();
        assert_eq!(of(&many(MOST)).len(), MOST);
        let table = listed(&many(MOST + 1), None);
        assert_eq!((table.whole, table.points.len()), (false, MOST));
    }

    #[test]
    fn mounts_of_the_kernel_of_sessions_and_of_containers_are_left_out() {
        for path in [
            "/",
            "/gpfs",
            "/runs",
            "/var/lib",
            "/var/lib/docker-data",
            "/snapshots",
        ] {
            assert!(is_listed(path), "{path}");
        }
        let left_out = [
            "/proc",
            "/sys/fs/cgroup",
            "/run/user/0",
            "/var/lib/docker/overlay2/x",
            "/var/lib/rancher/k3s",
        ];
        for path in left_out.into_iter().chain(["", "gpfs", "/gpfs/", "//gpfs"]) {
            assert!(!is_listed(path), "{path:?}");
        }
    }
}
