//! A copy of the files of RDMA ports that names no person and no host: files of a fixed list of names, whose content is a number,
//! one of the kernel's words or a version. The rdma collector reads it back with `--sysroot`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::counter;
use super::metrics::drivers;
use super::port::PortLocation;
use super::scan::RdmaDevices;
use super::settings::RdmaSettings;
use crate::sys::root;
use crate::{Devices, Env, Error, Settings};

/// The longest content of a file, in bytes.
const MAX_CONTENT: usize = 64;

/// The files of one port, and of its device if it is the device's first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortRecording {
    /// The device's name.
    pub device: String,
    /// The PCI address of its function; empty if it has none.
    pub pci: String,
    /// The driver of this function, if nodewarden has a table of its counters; else empty.
    pub driver: String,
    /// Paths below the device's folder, and contents.
    pub files: Vec<(String, String)>,
}

/// Whether a file has this content.
type Fits = fn(&str) -> bool;

/// Files of a device.
const OF_DEVICE: [(&str, Fits); 3] = [
    ("board_id", is_model),
    ("fw_ver", is_version),
    ("hca_type", is_model),
];

/// Files of a port.
const OF_PORT: [(&str, Fits); 4] = [
    ("state", is_state),
    ("phys_state", is_physical_state),
    ("rate", is_rate),
    ("link_layer", |text| ["InfiniBand", "Ethernet"].contains(&text)),
];

/// A port, or a device that was late.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Recorded {
    /// One of its ports.
    Port(PortRecording),
    /// The device with this name was not read in time.
    Late(String),
}

/// Reads every port that `rdma.ports` and `rdma.exclude` select, once, and each device on a thread of its own. A file that is not on
/// the list, has another content or cannot be read is left out. A device that takes longer than `wait` keeps its thread.
///
/// # Errors
/// When the settings are invalid, or the devices cannot be listed.
pub fn record(
    env: &Env,
    settings: &Settings,
    wait: Duration,
    take: impl FnMut(Recorded),
) -> Result<(), Error> {
    let places: Arc<Mutex<Vec<PortLocation>>> = Arc::default();
    let found = Arc::clone(&places);
    let make = move |place, _: &_, _| {
        found.lock().unwrap_or_else(PoisonError::into_inner).push(place);
        None
    };
    let table = RdmaSettings::new(settings)?;
    RdmaDevices::making(env, table, Box::new(make), Duration::ZERO).scan()?;
    let places = std::mem::take(&mut *places.lock().unwrap_or_else(PoisonError::into_inner));
    let mut devices: BTreeMap<String, Vec<PortLocation>> = BTreeMap::new();
    for place in places {
        devices.entry(place.device.clone()).or_default().push(place);
    }
    each(devices, wait, |place| port(&place), take);
    Ok(())
}

/// Reads the ports of each device on a thread of its own.
fn each<P: Send + 'static>(
    devices: BTreeMap<String, Vec<P>>,
    wait: Duration,
    read: fn(P) -> PortRecording,
    mut take: impl FnMut(Recorded),
) {
    let until = Instant::now() + wait;
    let mut waited: BTreeSet<String> = devices.keys().cloned().collect();
    let (to, from) = channel();
    for (device, ports) in devices {
        let to = to.clone();
        let thread = thread::Builder::new().name("recording".to_owned());
        let spawned = thread.spawn(move || {
            let ports: Vec<PortRecording> = ports.into_iter().map(read).collect();
            // Without a receiver the device was late.
            drop(to.send((device, ports)));
        });
        if let Err(error) = spawned {
            tracing::debug!(%error, "no thread for a device");
        }
    }
    drop(to);
    while let Ok((device, ports)) = from.recv_timeout(until.saturating_duration_since(Instant::now())) {
        waited.remove(&device);
        ports.into_iter().for_each(|port| take(Recorded::Port(port)));
    }
    waited.into_iter().for_each(|device| take(Recorded::Late(device)));
}

fn port(place: &PortLocation) -> PortRecording {
    let mut files = Vec::new();
    if place.speaks_for_device {
        listed(&place.folder, "", &OF_DEVICE, &mut files);
        counters(&place.folder, "hw_counters", &mut files);
    }
    let below = format!("ports/{}/", place.port);
    listed(&place.folder, &below, &OF_PORT, &mut files);
    for folder in ["counters", "counters_ext", "hw_counters"] {
        counters(&place.folder, &format!("{below}{folder}"), &mut files);
    }
    let driver = &place.function.driver;
    PortRecording {
        device: place.device.clone(),
        pci: place.function.pci.clone(),
        driver: if drivers::has_table(driver) {
            driver.clone()
        } else {
            String::new()
        },
        files,
    }
}

fn listed(folder: &Path, below: &str, rows: &[(&str, Fits)], files: &mut Vec<(String, String)>) {
    for (name, fits) in rows {
        let name = format!("{below}{name}");
        files.extend(one(folder, &name, *fits).map(|text| (name, text)));
    }
}

fn counters(device: &Path, folder: &str, files: &mut Vec<(String, String)>) {
    let mut names = counter::names(&device.join(folder)).unwrap_or_default();
    names.retain(|name| name == "lifespan" || drivers::is_counter(name));
    // The order of the collector.
    names.sort_by_key(|name| name != "rx_write_requests");
    for name in names {
        let name = format!("{folder}/{name}");
        files.extend(one(device, &name, is_count).map(|text| (name, text)));
    }
}

fn one(folder: &Path, name: &str, fits: Fits) -> Option<String> {
    let text = root::read_text(&folder.join(name)).ok()??;
    let text = text.trim();
    (text.len() <= MAX_CONTENT && fits(text)).then(|| text.to_owned())
}

fn is_count(text: &str) -> bool {
    (1..=20).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit())
}

/// `4: ACTIVE`.
fn is_numbered(text: &str, words: &[&str]) -> bool {
    text.split_once(": ")
        .is_some_and(|(number, word)| is_count(number) && words.contains(&word))
}

fn is_state(text: &str) -> bool {
    is_numbered(text, &["NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER"])
}

fn is_physical_state(text: &str) -> bool {
    let words = [
        "Sleep",
        "Polling",
        "Disabled",
        "PortConfigurationTraining",
        "LinkUp",
        "LinkErrorRecovery",
        "Phy Test",
        "<unknown>",
    ];
    is_numbered(text, &words)
}

/// `400 Gb/sec (4X NDR)`.
fn is_rate(text: &str) -> bool {
    let speeds = ["SDR", "DDR", "QDR", "FDR10", "FDR", "EDR", "HDR", "NDR", "XDR"];
    let Some((rate, rest)) = text.split_once(" Gb/sec") else {
        return false;
    };
    let lanes = rest.strip_prefix(" (").and_then(|rest| rest.strip_suffix(')'));
    let is_lanes = lanes.and_then(|lanes| lanes.split_once("X "));
    let is_lanes = is_lanes.is_some_and(|(lanes, speed)| is_count(lanes) && speeds.contains(&speed));
    rate.split('.').count() <= 2 && rate.split('.').all(is_count) && (rest.is_empty() || is_lanes)
}

/// Digits, and points between them.
fn is_version(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || b". ".contains(&b))
}

/// `MT_0000000838`, `MT4129`.
fn is_model(text: &str) -> bool {
    let number = text.strip_prefix("MT_").or_else(|| text.strip_prefix("MT"));
    number.is_some_and(is_count)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It was the end of the recording of all.
    #[test]
    fn a_device_that_does_not_answer_costs_itself_only() {
        let read = |name: String| {
            if name == "mlx5_1" {
                loop {
                    thread::park();
                }
            }
            PortRecording {
                device: name,
                pci: String::new(),
                driver: String::new(),
                files: Vec::new(),
            }
        };
        let devices = ["mlx5_0", "mlx5_1", "mlx5_2"].map(|name| (name.to_owned(), vec![name.to_owned()]));
        let mut found = Vec::new();
        each(devices.into(), Duration::from_secs(2), read, |recorded| {
            found.push(match recorded {
                Recorded::Port(port) => (port.device, true),
                Recorded::Late(device) => (device, false),
            });
        });
        found.sort();
        let expected = [("mlx5_0", true), ("mlx5_1", false), ("mlx5_2", true)];
        assert_eq!(found, expected.map(|(name, is_read)| (name.to_owned(), is_read)));
    }

    #[test]
    fn contents_are_of_closed_forms() {
        assert!(is_state("4: ACTIVE") && is_physical_state("5: LinkUp") && is_rate("400 Gb/sec (4X NDR)"));
        assert!(is_rate("2.5 Gb/sec (1X SDR)") && is_rate("400 Gb/sec") && is_version("28.43.1014"));
        assert!(is_model("MT_0000000838") && is_model("MT4129") && is_count("18446744073709551615"));
        for text in [
            "canary",
            "4: canary",
            "400 Gb/sec (4X canary)",
            "canary Gb/sec",
            "MT_canary",
            "1.2-canary",
            "",
            "-1",
        ] {
            let any = [
                is_state,
                is_physical_state,
                is_rate,
                is_version,
                is_model,
                is_count,
            ];
            assert!(any.iter().all(|fits| !fits(text)), "{text}");
        }
    }
}
