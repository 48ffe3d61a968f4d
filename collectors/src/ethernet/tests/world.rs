//! A simulated kernel: its answers, their duration, and the queries it received.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use nix::errno::Errno;

use crate::ethernet::gate::{Clock, Transports};
use crate::netlink::Garbled;
use crate::netlink::attribute::{Attributes, text};
use crate::netlink::dcb::Pfc;
use crate::netlink::dcb::tests::answer as dcb_answer;
use crate::netlink::ethtool::tests::{answer, down_part, fec_part, mode_part, pause_part};
use crate::netlink::message::Request;
use crate::sys::ethtool::{Ethtool, NAME};
use crate::sys::netlink::{NetlinkError, NetlinkTransport};

/// An interface.
#[derive(Clone, Debug, Default)]
pub(super) struct Net {
    /// `None`: without DCB.
    pub(super) pfc: Option<Pfc>,
    pub(super) statistics: Vec<(String, u64)>,
    /// How long its driver takes for its statistics.
    pub(super) takes: Duration,
    /// The error of that call.
    pub(super) error: Option<Errno>,
}

impl Net {
    /// mlx5 with flow control on one priority.
    pub(super) fn mlx5(priority: u8) -> Self {
        let mut statistics = vec![("outbound_pci_stalled_rd".to_owned(), 25)];
        statistics.extend((0..8).map(|p| (format!("rx_prio{p}_discards"), 1)));
        for (name, value) in [("pause", 7), ("pause_duration", 2_500_000)] {
            statistics.push((format!("rx_prio{priority}_{name}"), value));
        }
        Self {
            pfc: Some(Pfc {
                enabled: 1 << priority,
                ..Pfc::default()
            }),
            statistics,
            ..Self::default()
        }
    }

    /// mlx5 as it is, with names for pause and link events, 802.3x pause instead of flow control by priority.
    pub(super) fn lossy() -> Self {
        let mut net = Self::without();
        net.statistics
            .retain(|(name, _)| !name.starts_with("rx_prio3_pause"));
        for (name, value) in [
            ("rx_pcs_symbol_err_phy", 4),
            ("rx_pause_ctrl_phy", 9),
            ("tx_pause_ctrl_phy", 12),
            ("rx_global_pause", 9),
            ("rx_global_pause_duration", 1_500_000),
            ("tx_global_pause", 12),
            ("tx_global_pause_duration", 3_000_000),
            ("rx_global_pause_transition", 2),
            ("rx_discards_phy", 5),
            ("tx_discards_phy", 6),
            ("rx_prio5_bytes", 7000),
            ("link_down_events_phy", 1),
        ] {
            net.statistics.push((name.to_owned(), value));
        }
        net
    }

    /// bnxt, which names every priority. DCB names these as those with flow control, and the adapter pauses the third.
    pub(super) fn bnxt(enabled: u8) -> Self {
        let mut statistics = Vec::new();
        for p in 0..8 {
            let by = if p == 3 { 1 } else { 0 };
            statistics.push((format!("tx_pfc_ena_frames_pri{p}"), by * 80));
            statistics.push((format!("pfc_pri{p}_tx_duration_us"), by * 2_500_000));
        }
        Self {
            pfc: Some(Pfc {
                enabled,
                ..Pfc::default()
            }),
            statistics,
            ..Self::default()
        }
    }

    /// A driver that takes this long for its statistics.
    pub(super) fn taking(self, takes: Duration) -> Self {
        Self { takes, ..self }
    }

    /// A driver whose statistics fail.
    pub(super) fn failing(self, error: Errno) -> Self {
        Self {
            error: Some(error),
            ..self
        }
    }

    /// The same without flow control.
    pub(super) fn without() -> Self {
        Self {
            pfc: Some(Pfc::default()),
            ..Self::mlx5(3)
        }
    }
}

/// Called before each call is answered.
type Hook = Arc<dyn Fn(&World, &str) + Send + Sync>;

#[derive(Default)]
struct State {
    passed: Duration,
    nets: BTreeMap<String, Net>,
    calls: Vec<String>,
    hook: Option<Hook>,
    /// A kernel before 5.13: it supports statistics of pause only.
    is_old: bool,
    /// The error of the current call.
    refused: Option<Errno>,
}

/// The kernel and its clock.
#[derive(Clone)]
pub(super) struct World {
    start: Instant,
    state: Arc<Mutex<State>>,
}

impl Default for World {
    fn default() -> Self {
        Self {
            start: Instant::now(),
            state: Arc::default(),
        }
    }
}

impl World {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(super) fn clock(&self) -> Clock {
        let world = self.clone();
        Arc::new(move || world.start + world.lock().passed)
    }

    pub(super) fn pass(&self, time: Duration) {
        self.lock().passed += time;
    }

    /// Adds or replaces an interface.
    pub(super) fn net(&self, name: &str, net: Net) {
        self.lock().nets.insert(name.to_owned(), net);
    }

    pub(super) fn remove(&self, name: &str) {
        self.lock().nets.remove(name);
    }

    /// The number of queries since the last call of this function.
    pub(super) fn calls_so_far(&self) -> usize {
        self.lock().calls.len()
    }

    /// Sets the hook of each call: `values eth0`, `dcb eth0`, `fec eth0` and so on.
    pub(super) fn on_call(&self, hook: impl Fn(&World, &str) + Send + Sync + 'static) {
        self.lock().hook = Some(Arc::new(hook));
    }

    /// Statistics of anything but pause are rejected, as in kernels before 5.13.
    pub(super) fn is_old(&self) {
        self.lock().is_old = true;
    }

    /// Called by a hook: the call fails with this error, or not.
    pub(super) fn refuse(&self, error: Option<Errno>) {
        self.lock().refused = error;
    }

    /// The queries since the last call of this function.
    pub(super) fn calls(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().calls)
    }

    pub(super) fn ways(&self) -> Transports {
        Transports {
            ethtool: Box::new(self.clone()),
            route: Box::new(self.clone()),
            generic: Box::new(self.clone()),
            family: None,
            without_statistics: Vec::new(),
        }
    }

    fn called(&self, what: &str, netdev: &str) -> Result<Net, Errno> {
        let call = format!("{what} {netdev}").trim_end().to_owned();
        self.lock().calls.push(call.clone());
        let hook = self.lock().hook.clone();
        if let Some(hook) = hook {
            hook(self, &call);
        }
        let state = self.lock();
        match state.refused {
            Some(error) => Err(error),
            None => state.nets.get(netdev).cloned().ok_or(Errno::ENODEV),
        }
    }
}

impl Ethtool for World {
    fn count(&mut self, netdev: &str) -> Result<u32, Errno> {
        let net = self.called("count", netdev)?;
        Ok(u32::try_from(net.statistics.len()).unwrap())
    }

    fn names(&mut self, netdev: &str, _: u32, names: &mut Vec<[u8; NAME]>) -> Result<(), Errno> {
        let net = self.called("names", netdev)?;
        names.clear();
        for (name, _) in &net.statistics {
            let mut bytes = [0; NAME];
            bytes[..name.len()].copy_from_slice(name.as_bytes());
            names.push(bytes);
        }
        Ok(())
    }

    /// As in Linux 6.12: no values if the count differs.
    fn values(&mut self, netdev: &str, count: u32, values: &mut Vec<u64>) -> Result<(), Errno> {
        let net = self.called("values", netdev)?;
        self.pass(net.takes);
        if let Some(error) = net.error {
            return Err(error);
        }
        values.clear();
        if usize::try_from(count).unwrap() == net.statistics.len() {
            values.extend(net.statistics.iter().map(|(_, value)| value));
        }
        Ok(())
    }
}

fn find(bytes: &[u8], kind: u16) -> &[u8] {
    let mut found = Attributes::new(bytes).map(Result::unwrap);
    found.find(|(k, _)| *k == kind).unwrap().1
}

/// The flags of an ethtool query.
fn flags(attributes: &[u8]) -> u32 {
    u32::from_ne_bytes(find(find(attributes, 1), 3).try_into().unwrap())
}

/// The text of an attribute, possibly nested in another one.
fn named(attributes: &[u8], kind: u16, nest: Option<u16>) -> String {
    let within = nest.map_or(attributes, |nest| find(attributes, nest));
    text(find(within, kind)).unwrap().to_owned()
}

impl NetlinkTransport for World {
    fn ask(
        &mut self,
        request: &mut Request,
        take: &mut dyn FnMut(&[u8]) -> Result<(), Garbled>,
    ) -> Result<(), NetlinkError> {
        let (kind, _) = request.kind_and_flags();
        let (head, attributes) = request.payload().split_at(4);
        let reply = match (kind, head[0]) {
            (78, _) => {
                let netdev = named(attributes, 1, None);
                let pfc = self.called("dcb", &netdev)?.pfc.ok_or(Errno::EOPNOTSUPP)?;
                dcb_answer(&netdev, Some(&pfc), &[(26, 3)])
            }
            (16, _) => {
                self.called("family", "").unwrap_err();
                [vec![1, 2, 0, 0], vec![6, 0, 1, 0, 21, 0, 0, 0]].concat()
            }
            (21, command) => {
                let netdev = named(attributes, 2, Some(1));
                let (word, part, bare) = match command {
                    21 => ("pause", pause_part(5, 5), vec![]),
                    29 => ("fec", fec_part(50, 8, 9), mode_part(50)),
                    6 => ("link", down_part(6), vec![]),
                    _ => panic!("{command}"),
                };
                let wants_statistics = flags(attributes) & 4 != 0;
                let bareness = if wants_statistics { "" } else { "bare " };
                self.called(&format!("{bareness}{word}"), &netdev)?;
                if wants_statistics && command != 21 && self.lock().is_old {
                    return Err(Errno::EINVAL.into());
                }
                answer(&netdev, &[if wants_statistics { part } else { bare }])
            }
            _ => panic!("{kind}"),
        };
        Ok(take(&reply)?)
    }
}
