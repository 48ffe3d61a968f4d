//! The settings of a port and of its node, read once a minute and after each event that announces a change.

use std::path::{Path, PathBuf};
use std::time::Instant;

use super::attribute::RefusalBackoff;
use super::facts::{is_due, label};
use super::gid::{self, Gid};
use super::metrics::{
    CM_DEFAULT_ROCE_MODE_INFO, GPUDIRECT_INFO, PORT_PATH_INFO, ROCE_GID_INFO, ROCE_NCCL_GID_INFO,
    ROCE_V2_GIDS,
};
use super::port::PortLocation;
use super::text::Reason;
use crate::sys::root;
use crate::{Block, Env, Error};

/// Linux 5.12 introduced memory registration by dma-buf.
const DMA_BUF: (u32, u32) = (5, 12);

/// The paths.
#[derive(Clone, Debug)]
pub(super) struct SetupPaths {
    /// `/sys/kernel/config/rdma_cm`.
    rdma_cm: PathBuf,
    /// `/sys/module`.
    modules: PathBuf,
    /// `/proc/sys/kernel/osrelease`.
    release: PathBuf,
    /// The GID index that jobs configure for NCCL.
    nccl_gid_index: Option<u32>,
}

impl SetupPaths {
    pub(super) fn new(env: &Env, nccl_gid_index: Option<u32>) -> Self {
        Self {
            rdma_cm: env.path("/sys/kernel/config/rdma_cm"),
            modules: env.path("/sys/module"),
            release: env.path("/proc/sys/kernel/osrelease"),
            nccl_gid_index,
        }
    }
}

/// The settings found.
#[derive(Debug)]
pub(super) struct RdmaSetup {
    place: SetupPaths,
    /// This port also reports the node's settings.
    speaks_for_node: bool,
    read: Option<Instant>,
    /// For an unreadable table.
    patience: RefusalBackoff,
    roce: Option<RoceSetup>,
    gpudirect: Vec<&'static str>,
}

#[derive(Debug)]
struct RoceSetup {
    table: gid::GidTable,
    /// The GID index configured for NCCL, and its entry if it exists.
    nccl: Option<(u32, Option<Gid>)>,
    /// Empty if the folder does not exist.
    cm_mode: String,
}

impl RdmaSetup {
    pub(super) fn new(place: &SetupPaths, speaks_for_node: bool) -> Self {
        Self {
            place: place.clone(),
            speaks_for_node,
            read: None,
            patience: RefusalBackoff::default(),
            roce: None,
            gpudirect: Vec::new(),
        }
    }

    /// Marks the settings as possibly changed.
    pub(super) fn expire(&mut self) {
        self.read = None;
    }

    /// Shows the node's settings alone, if this port reports them.
    pub(super) fn show_node(&mut self, now: Instant, out: &mut Block) {
        if self.speaks_for_node && is_due(self.read, now) {
            self.read = Some(now);
            self.gpudirect = gpudirect(&self.place);
        }
        for method in &self.gpudirect {
            out.info(&GPUDIRECT_INFO, &[method]);
        }
    }

    fn refresh(&mut self, now: Instant, port: &PortLocation, link_layer: &str) {
        if !is_due(self.read, now) || self.patience.rests(now).is_some() {
            return;
        }
        self.read = Some(now);
        if self.speaks_for_node {
            self.gpudirect = gpudirect(&self.place);
        }
        // iWARP also has an Ethernet link layer, and none of these settings.
        let is_rnic = || label(&port.folder.join("node_type")).is_ok_and(|t| t.starts_with("4:"));
        let is_roce = link_layer == "Ethernet" && !is_rnic();
        let roce = is_roce.then(|| RoceSetup::read(&self.place, port));
        self.roce = match roce.transpose() {
            Ok(roce) => {
                self.patience = RefusalBackoff::default();
                roce.flatten()
            }
            Err(error) => {
                tracing::debug!(%error, "GID table unreadable");
                // Unknown values are queried again at the next reading, with a growing back-off.
                self.read = None;
                self.patience.refused(now, Reason::Io);
                None
            }
        };
    }

    /// Shows the settings.
    pub(super) fn show(&mut self, now: Instant, port: &PortLocation, link_layer: &str, out: &mut Block) {
        self.refresh(now, port, link_layer);
        let labels = [port.device.as_str(), port.port.as_str()];
        let [device, number] = labels;
        if !(port.function.path.is_empty() && port.numa_node.is_empty()) {
            out.info(
                &PORT_PATH_INFO,
                &[device, number, &port.function.path, &port.numa_node],
            );
        }
        for method in &self.gpudirect {
            out.info(&GPUDIRECT_INFO, &[method]);
        }
        let Some(roce) = &self.roce else { return };
        let gids = &roce.table.gids;
        let routed = gids.iter().filter(|gid| gid.is_routed()).count();
        let routed = u64::try_from(routed).ok().filter(|_| roce.table.is_whole);
        out.maybe_u64(&ROCE_V2_GIDS, &labels, routed);
        for gid in gids {
            let (index, family) = (gid.index.to_string(), gid.family.word());
            out.info(
                &ROCE_GID_INFO,
                &[device, number, &index, gid.version.word(), family],
            );
        }
        if let Some((index, gid)) = roce.nccl {
            let version = gid.map_or("none", |gid| gid.version.word());
            out.info(
                &ROCE_NCCL_GID_INFO,
                &[device, number, &index.to_string(), version],
            );
        }
        if !roce.cm_mode.is_empty() {
            out.info(&CM_DEFAULT_ROCE_MODE_INFO, &[device, number, &roce.cm_mode]);
        }
    }
}

impl RoceSetup {
    /// `Ok(None)`: the port has no readable table.
    fn read(place: &SetupPaths, port: &PortLocation) -> Result<Option<Self>, Error> {
        let folder = port.port_folder();
        let Some(table) = gid::table(&folder)? else {
            return Ok(None);
        };
        let nccl = place.nccl_gid_index.map(|index| {
            // It may be after a gap.
            let known = table.gids.iter().find(|gid| gid.index == index).copied();
            (index, known.or_else(|| Gid::read(&folder, index).ok().flatten()))
        });
        // The folder exists only after an administrator created it; creating it would change the node.
        let mode = place.rdma_cm.join(&port.device).join("ports").join(&port.port);
        Ok(Some(Self {
            table,
            nccl,
            cm_mode: label(&mode.join("default_roce_mode"))?,
        }))
    }
}

/// The ways in which GPU memory can be registered with RDMA devices, as far as files show it. NCCL and perftest try
/// `ibv_reg_dmabuf_mr` and check for EOPNOTSUPP, which needs a context of the device.
fn gpudirect(place: &SetupPaths) -> Vec<&'static str> {
    let has = |module: &str| matches!(root::inode(&place.modules.join(module)), Ok(Some(_)));
    let release = root::read_text(&place.release).ok().flatten();
    let is_new = release.as_deref().and_then(version).is_some_and(|v| v >= DMA_BUF);
    let peermem = has("nvidia_peermem") || has("nv_peer_mem");
    [
        ("nvidia_peermem", peermem),
        ("dma_buf", is_new && has("ib_uverbs")),
    ]
    .into_iter()
    .filter_map(|(method, is_there)| is_there.then_some(method))
    .collect()
}

/// `6.12.0-55.el10.x86_64`: 6 and 12.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// The PCI functions from the root to a device, as sysfs nests them: `pci0000:3a/0000:3a:00.0/0000:3b:00.0`. Empty
/// for a device that is not on PCI.
pub(crate) fn pci_path(resolved: &Path) -> String {
    let names = resolved.iter().filter_map(|name| name.to_str());
    let below = names.skip_while(|name| !is_root(name));
    let path = below
        .take_while(|name| is_root(name) || crate::PciAddress::parse(name).is_some_and(|a| a.0 == *name));
    path.collect::<Vec<_>>().join("/")
}

/// `pci0000:3a`, a root complex.
fn is_root(name: &str) -> bool {
    let parts = name.strip_prefix("pci").and_then(|name| name.split_once(':'));
    let hex = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit());
    parts.is_some_and(|(domain, bus)| hex(domain) && hex(bus))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_have_two_numbers() {
        for (text, read) in [
            ("6.12.0-55.el10.x86_64", Some((6, 12))),
            ("5.11", Some((5, 11))),
            ("4.18.0-553.el8_10.x86_64", Some((4, 18))),
            ("6", None),
            ("", None),
            ("linux", None),
        ] {
            assert_eq!(version(text), read, "{text}");
        }
    }

    #[test]
    fn a_path_begins_at_the_root_complex_and_ends_at_the_last_function() {
        for (path, read) in [
            (
                "/sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0",
                "pci0000:3a/0000:3a:00.0/0000:3b:00.0",
            ),
            (
                "/t/root/sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0/mlx5_core.sf.4",
                "pci0000:3a/0000:3a:00.0/0000:3b:00.0",
            ),
            (
                "/sys/devices/pci10000:00/10000:00:02.0/10000:01:00.0",
                "pci10000:00/10000:00:02.0/10000:01:00.0",
            ),
            ("/sys/devices/virtual/net/ve0", ""),
            ("/sys/bus/pci/devices/0000:3b:00.0", ""),
            ("/sys/devices/platform/HISI00D1:00/0000:3b:00.0", ""),
        ] {
            assert_eq!(pci_path(Path::new(path)), read, "{path}");
        }
    }
}
