//! How an interface is set up, as far as files tell: its MTU, and DCQCN where OFED's driver has it. Not under RTNL.

use std::path::Path;
use std::time::{Duration, Instant};

use super::metrics::{DCQCN_ENABLED, PORT_MTU};
use crate::Block;
use crate::netlink::dcb::PRIORITIES;
use crate::sys::root;

/// How old the MTU may be.
const KEEP: Duration = Duration::from_secs(60);
/// How old DCQCN's switches may be: each file of them costs a command of the firmware.
const KEEP_DCQCN: Duration = Duration::from_secs(600);

/// What was read last.
#[derive(Default)]
pub(super) struct Setup {
    netdev: String,
    read: Option<Instant>,
    mtu: Option<u64>,
    read_dcqcn: Option<Instant>,
    /// By point and priority.
    dcqcn: Vec<(&'static str, u8, u64)>,
}

impl Setup {
    /// Reads what is too old, or of another interface. `on_disk`: a recording, whose next step is there at once.
    pub(super) fn refresh(&mut self, now: Instant, net: &Path, netdev: &str, on_disk: bool) {
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
            self.read_dcqcn = Some(now);
            self.read_dcqcn(&folder.join("ecn"));
        }
    }

    fn read_dcqcn(&mut self, ecn: &Path) {
        self.dcqcn.clear();
        for (point, name) in [("np", "roce_np"), ("rp", "roce_rp")] {
            let enable = ecn.join(name).join("enable");
            for priority in 0..PRIORITIES {
                let on = number(&enable.join(priority.to_string())).filter(|on| *on <= 1);
                let both = u8::try_from(priority).ok().zip(on);
                self.dcqcn
                    .extend(both.map(|(priority, on)| (point, priority, on)));
            }
        }
    }

    /// Puts it into a reading.
    pub(super) fn push(&self, [device, port]: [&str; 2], out: &mut Block) {
        out.maybe_u64(&PORT_MTU, &[device, port], self.mtu);
        for (point, priority, on) in &self.dcqcn {
            out.u64(&DCQCN_ENABLED, &[device, port, point, &priority.to_string()], *on);
        }
    }
}

fn number(file: &Path) -> Option<u64> {
    root::read_text(file).ok().flatten()?.parse().ok()
}
