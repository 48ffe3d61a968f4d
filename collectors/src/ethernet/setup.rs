//! Settings of an interface that are read from files, without RTNL: its MTU, and DCQCN with OFED's driver.

use std::path::Path;
use std::time::{Duration, Instant};

use super::gate::{Gate, SLOW};
use super::metrics::{DCQCN_ENABLED, Owner, PORT_MTU};
use crate::Block;
use crate::sys::root;

/// Maximum age of the MTU.
const KEEP: Duration = Duration::from_secs(60);
/// Maximum age of DCQCN's switches: each file costs a firmware command. Also the back-off after an error.
const KEEP_DCQCN: Duration = Duration::from_secs(600);

/// The last values read.
#[derive(Default)]
pub(super) struct EthernetSetup {
    netdev: String,
    read: Option<Instant>,
    mtu: Option<u64>,
    read_dcqcn: Option<Instant>,
    /// By point and priority.
    dcqcn: Vec<(&'static str, u8, u64)>,
}

impl EthernetSetup {
    /// Reads values that are too old or of another interface; DCQCN not while calls to its device are suspended.
    /// `on_disk`: a recording, whose next step follows immediately.
    pub(super) fn refresh(&mut self, (gate, device): (&Gate, &str), net: &Path, netdev: &str, on_disk: bool) {
        let now = gate.now();
        if on_disk || self.netdev != netdev {
            *self = Self::default();
            netdev.clone_into(&mut self.netdev);
        }
        let is_old =
            |read: Option<Instant>, keep| read.is_none_or(|at| now.saturating_duration_since(at) >= keep);
        let folder = net.join(netdev);
        if is_old(self.read, KEEP) {
            self.read = Some(now);
            self.mtu = number(&folder.join("mtu"));
        }
        if is_old(self.read_dcqcn, KEEP_DCQCN) {
            self.dcqcn.clear();
            let read = gate.beside(device, || dcqcn(gate, &folder.join("ecn")));
            self.read_dcqcn = read.is_some().then_some(now);
            self.dcqcn = read.unwrap_or_default();
        }
    }

    /// Adds the values to a reading.
    pub(super) fn push(&self, owner: Owner<'_>, out: &mut Block) {
        out.maybe_u64(&PORT_MTU, &owner.labels(&[]), self.mtu);
        for (point, priority, on) in &self.dcqcn {
            let priority = priority.to_string();
            out.u64(&DCQCN_ENABLED, &owner.labels(&[point, &priority]), *on);
        }
    }
}

/// The switches of each point whose 8 files are all readable: half of them is no setting. Ends at the first absent
/// or empty file, and if the firmware is slow.
fn dcqcn(gate: &Gate, ecn: &Path) -> Vec<(&'static str, u8, u64)> {
    let (began, mut all) = (gate.now(), Vec::new());
    for (point, name) in [("np", "roce_np"), ("rp", "roce_rp")] {
        let enable = ecn.join(name).join("enable");
        let before = all.len();
        for priority in 0_u8..8 {
            let is_slow = gate.now().saturating_duration_since(began) > SLOW;
            let on = (!is_slow)
                .then(|| number(&enable.join(priority.to_string())))
                .flatten();
            let Some(on) = on.filter(|on| *on <= 1) else {
                all.truncate(before);
                return all;
            };
            all.push((point, priority, on));
        }
    }
    all
}

fn number(file: &Path) -> Option<u64> {
    root::read_text(file).ok().flatten()?.parse().ok()
}
