//! The RDMA ports as shown by `nodewarden status`: one line each.

use collectors::SubjectKind;
use collectors::rdma::metrics as m;
use serde::{Deserialize, Serialize};

use super::device_values::DeviceValues;
use model::snapshot::{CollectorState, DeviceState, Snapshot};

/// One RDMA port.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PortView {
    /// Device and port: `mlx5_0/1`.
    pub port: String,
    /// `InfiniBand` or `Ethernet`; empty before its first reading.
    pub link_layer: String,
    /// Network interface; empty if it has none.
    pub netdev: String,
    /// PCI address as in sysfs; empty if unknown.
    pub pci: String,
    /// `active`, `active deferred`, `down`, `init` or `armed`; empty if unknown.
    pub state: String,
    /// Rate of the link in one direction, in bytes per second.
    pub rate: Option<f64>,
    /// Whether its last reading succeeded; `None`: unknown.
    pub up: Option<bool>,
    /// Why it does not carry traffic, in few words; empty if it does.
    pub trouble: Vec<String>,
}

/// All ports, by name, from the snapshot.
pub fn of(snapshot: &Snapshot) -> Vec<PortView> {
    let collectors = snapshot.collectors.iter();
    let devices = collectors.flat_map(|c| c.devices.iter().map(move |d| (c, d)));
    let mut ports: Vec<PortView> = devices
        .filter(|(_, d)| d.subject.kind == SubjectKind::RdmaPort)
        .filter_map(|(c, d)| port(c, d, snapshot))
        .collect();
    ports.sort_by_cached_key(|p| key(&p.port));
    ports
}

/// `mlx5_10` comes after `mlx5_9`.
fn key(name: &str) -> (String, u64, String) {
    let text = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '/');
    let rest = name.strip_prefix(text).unwrap_or_default();
    let number = rest.split('/').next().and_then(|n| n.parse().ok());
    (text.to_owned(), number.unwrap_or(0), name.to_owned())
}

/// `None`: a device of the collector that reads statistics only.
fn port(collector: &CollectorState, device: &DeviceState, snapshot: &Snapshot) -> Option<PortView> {
    // Its identity stays known while it does not answer.
    let known = DeviceValues(Some(device));
    let has_state = known.label(&m::PORT_INFO, "link_layer");
    if has_state.is_none() && !collector.spec.metrics.contains(&&m::PORT_STATE) {
        return None;
    }
    let told = DeviceValues(Some(device).filter(|d| d.shown(snapshot.at, collector.max_age())));
    let label = |name| known.label(&m::PORT_INFO, name).unwrap_or_default();
    let state = word(told.sum(&m::PORT_STATE), &STATES);
    let mut trouble = Vec::new();
    if device.late.is_some() {
        trouble.push("no answer".to_owned());
    } else if let Some((reason, _)) = &device.error {
        trouble.push(reason.clone());
    }
    if !state.is_empty() && !state.starts_with("active") {
        let physical = word(told.sum(&m::PORT_PHYSICAL_STATE), &PHYSICAL_STATES);
        trouble.extend(
            [state, physical]
                .into_iter()
                .filter(|w| !w.is_empty())
                .map(str::to_owned),
        );
    }
    if told.sum(&m::NETDEV_UP) == Some(0.0) {
        trouble.push("interface down".to_owned());
    }
    Some(PortView {
        port: device.subject.name.clone(),
        link_layer: label("link_layer"),
        netdev: label("netdev"),
        pci: label("pci"),
        state: state.to_owned(),
        rate: told.sum(&m::PORT_RATE).filter(|rate| *rate > 0.0),
        up: collector.device_up(device, snapshot.at),
        trouble,
    })
}

/// Words of the numbers from 1, as in `ib_port_state`.
const STATES: [&str; 5] = ["down", "init", "armed", "active", "active deferred"];
/// The same of `phys_state`.
const PHYSICAL_STATES: [&str; 7] = [
    "sleep",
    "polling",
    "disabled",
    "training",
    "link up",
    "error recovery",
    "PHY test",
];

fn word(value: Option<f64>, words: &[&'static str]) -> &'static str {
    let find = |value: f64| (1_u32..).zip(words).find(|(n, _)| f64::from(*n) == value);
    value.and_then(find).map_or("", |(_, word)| word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_in_the_order_of_their_numbers() {
        let mut names = ["mlx5_10/1", "mlx5_9/1", "bnxt_re0/1", "mlx5_9/2", "mlx5_bond_0/1"];
        names.sort_by_cached_key(|name| key(name));
        assert_eq!(
            names,
            ["bnxt_re0/1", "mlx5_9/1", "mlx5_9/2", "mlx5_10/1", "mlx5_bond_0/1"]
        );
    }

    #[test]
    fn states_have_the_words_of_the_kernel() {
        let said = [Some(1.0), Some(4.0), Some(5.0), Some(9.0), Some(0.0), None];
        assert_eq!(
            said.map(|value| word(value, &STATES)),
            ["down", "active", "active deferred", "", "", ""]
        );
        assert_eq!(word(Some(3.0), &PHYSICAL_STATES), "disabled");
    }
}
