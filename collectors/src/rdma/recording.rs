//! A copy of the files of RDMA ports that names no person and no host: files of a fixed list of names, whose content is a number,
//! one of the kernel's words or a version. The rdma collector reads it back with `--sysroot`.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

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

/// Reads every port that `rdma.ports` and `rdma.exclude` select, once. A file that is not on the list, has another content or
/// cannot be read is left out. May block as long as a driver does.
///
/// # Errors
/// When the settings are invalid, or the devices cannot be listed.
pub fn record(env: &Env, settings: &Settings, mut take: impl FnMut(PortRecording)) -> Result<(), Error> {
    let places: Arc<Mutex<Vec<PortLocation>>> = Arc::default();
    let found = Arc::clone(&places);
    let make = move |place, _| {
        found.lock().unwrap_or_else(PoisonError::into_inner).push(place);
        None
    };
    let table = RdmaSettings::new(settings)?;
    RdmaDevices::making(env, table, Box::new(make), Duration::ZERO).scan()?;
    let places = std::mem::take(&mut *places.lock().unwrap_or_else(PoisonError::into_inner));
    for place in places {
        take(port(&place));
    }
    Ok(())
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
