//! The profile of a node: what its current readings are, in the form of the keys that expect it.

use std::collections::BTreeSet;

use collectors::device_files;
use collectors::gpu::metrics as m;
use collectors::nvidia::metrics as n;
use collectors::{Metric, PciAddress};
use serde::{Deserialize, Serialize};

use crate::checks::rdma_setup;
use crate::reads::equal;
use crate::reads::gpu::{Gpu, gpus, whole};
use crate::reads::host::Host;
use crate::reads::known::Known;
use crate::reads::mounts::submounts;
use crate::reads::node::Node;
use crate::reads::port::{Link, Port, number, ports};
use crate::settings::{Expect, Rdma};
use model::derive::xid::Inventory;
use model::snapshot::Snapshot;

/// Filesystems of which each node of a kind has the same: shared ones.
const SHARED: [&str; 18] = [
    "beegfs",
    "ceph",
    "cifs",
    "fuse.ceph-fuse",
    "fuse.dfuse",
    "fuse.glusterfs",
    "fuse.juicefs",
    "glusterfs",
    "gpfs",
    "lustre",
    "nfs",
    "nfs4",
    "orangefs",
    "panfs",
    "pvfs2",
    "smb3",
    "wekafs",
    "yrfs",
];
/// And local ones, mounted whole: a bind mount may be a job's.
const LOCAL: [&str; 7] = ["bcachefs", "btrfs", "ext3", "ext4", "f2fs", "xfs", "zfs"];

/// Beginnings of the names of modules that jobs need: drivers of GPUs, RDMA and filesystems. The rest of a kernel's
/// modules differs from release to release.
const MODULES: [&str; 21] = [
    "amdgpu",
    "beegfs",
    "bng_re",
    "bnxt_re",
    "efa",
    "gdrdrv",
    "hfi1",
    "ib_",
    "ionic_rdma",
    "irdma",
    "iw_cm",
    "kfilnd",
    "knem",
    "ko2iblnd",
    "ksocklnd",
    "lnet",
    "lustre",
    "mlx5_",
    "mmfs",
    "nvidia",
    "rdma_",
];

/// The keys with the values that the node has now. `None` and empty: unreadable, absent, or not equal on all devices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    /// `health.gpu_addresses`.
    pub gpu_addresses: Vec<PciAddress>,
    /// `[health.rdma]`, without the keys that select ports.
    pub rdma: Rdma,
    /// `[health.expect]`.
    pub expect: Expect,
}

impl Profile {
    /// The profile of a snapshot. `rdma`: the ports that checks judge.
    pub fn of(snapshot: &Snapshot, rdma: &Rdma) -> Self {
        let host = Host::of(snapshot);
        let inventory = Inventory::default();
        let gpus = gpus(snapshot, &inventory);
        let (all, _) = ports(snapshot, &host, &mut Known::default());
        let ports: Vec<&Port<'_>> = all.iter().filter(|port| rdma.is_about(&port.name)).collect();
        let node = Node::of(snapshot);
        let up = ports
            .iter()
            .filter(|port| port.link() == Link::Up && !port.is_made_up())
            .count();
        Self {
            gpu_addresses: device_files::ALL
                .iter()
                .flat_map(|files| host.gpus_of(files.driver))
                .cloned()
                .collect(),
            rdma: rdma_setup::profile_of(&ports),
            expect: Expect {
                gpus: host.gpus_there().and_then(above_zero),
                gpu_models: labels(&gpus, "name"),
                gpu_drivers: labels(&gpus, "driver"),
                gpu_vbios: labels(&gpus, "vbios"),
                nvlinks: equal(gpus.iter().map(|gpu| whole(gpu.one(&n::NVLINK_LINKS_UP))))
                    .filter(|links| *links > 0),
                rdma_ports: above_zero(up),
                memory: number(node.memory.as_ref()),
                cpus: number(node.cpus.as_ref()),
                mounts: mounts(&node, snapshot),
                modules: modules(&node),
            },
        }
    }
}

fn above_zero(count: usize) -> Option<u64> {
    u64::try_from(count).ok().filter(|count| *count > 0)
}

/// The values of a label of `gpu_info`. Empty, if one GPU does not report it.
fn labels(gpus: &[Gpu<'_>], label: &str) -> Vec<String> {
    let info: &'static Metric = &m::INFO;
    let values: Option<BTreeSet<String>> = gpus
        .iter()
        .map(|gpu| {
            gpu.one(info)?
                .label(label)
                .filter(|v| !v.is_empty())
                .map(str::to_owned)
        })
        .collect();
    values.unwrap_or_default().into_iter().collect()
}

/// Empty, if the mount table was not read to its end. Without mounts that an access makes and that end unused, which other nodes of the
/// kind do not have: those of an indirect map of an automounter, and submounts of the client of NFS.
fn mounts(node: &Node<'_>, snapshot: &Snapshot) -> Vec<String> {
    let is_of_the_kind =
        |kind: &str, root: &str| SHARED.contains(&kind) || (LOCAL.contains(&kind) && root == "/");
    let submounts = submounts(snapshot);
    let stays = |point: &str| node.type_above(point) != Some("autofs") && !submounts.contains(point);
    let mounted = node
        .mounted()
        .filter(|(point, kind, root)| *point != "/" && is_of_the_kind(kind, root) && stays(point));
    let points = mounted.map(|(point, ..)| point.to_owned());
    node.mounts.map_or_else(Vec::new, |_| points.collect())
}

fn modules(node: &Node<'_>) -> Vec<String> {
    let is_needed = |name: &&str| MODULES.iter().any(|start| name.starts_with(start));
    let names = node.modules().map_or_else(Vec::new, |(names, _)| names);
    names.into_iter().filter(is_needed).map(str::to_owned).collect()
}
