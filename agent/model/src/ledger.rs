//! Counted events. Kept over restarts together with the cursor of the last event.

use std::collections::BTreeMap;
use std::time::Duration;

use collectors::event::{EventBody, KernelLine, RdmaChange, Recovery};
use collectors::{Event, PciAddress, rdma};
use serde::{Deserialize, Serialize};

use super::derive::xid::{Inventory, gpu_label};

/// The limits of label values: devices, and codes per device. Hardware has fewer, but a process that can write to the
/// kernel log could name more.
const MAX_DEVICES: usize = 128;
const MAX_CODES: usize = 256;
/// The word for events that were lost.
const LOST: &str = "lost";

/// A count and the time of the last one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// The number.
    pub count: u64,
    /// The wall-clock time of the last, in seconds since the epoch.
    pub last: i64,
}

impl Count {
    fn add(&mut self, count: u64, wall: i64) {
        self.count = self.count.saturating_add(count);
        self.last = wall;
    }
}

/// Events counted since the state directory was made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ledger {
    /// Xids by `gpu` label and code.
    pub xids: BTreeMap<String, BTreeMap<u32, Count>>,
    /// Reports of an Xid per source, by `gpu` label, code and the source's word.
    pub xid_reports: BTreeMap<String, BTreeMap<u32, BTreeMap<String, u64>>>,
    /// Events of a GPU's driver other than Xids, by `gpu` label and word.
    pub driver_events: BTreeMap<String, BTreeMap<String, Count>>,
    /// Kernel notifications about RDMA devices, by device, port (empty for the device) and word.
    pub rdma_events: BTreeMap<String, BTreeMap<String, BTreeMap<String, Count>>>,
    /// SXids by `nvswitch` label and code.
    pub sxids: BTreeMap<String, BTreeMap<u32, Count>>,
    /// Firmware faults that drivers of network adapters reported, by PCI address and word.
    pub firmware: BTreeMap<String, BTreeMap<String, Count>>,
    /// Lines of the table of kernel lines, by row, kind of subject and name.
    pub kernel_lines: BTreeMap<String, BTreeMap<String, BTreeMap<String, Count>>>,
    /// "Fallen off the bus" lines without a code, by `gpu` label.
    pub fallen_off_bus: BTreeMap<String, Count>,
    /// Kernel records lost before they could be read, where the number is known.
    pub lost_records: u64,
    /// Occasions on which records were lost.
    pub overruns: u64,
    /// Events not counted per series because the label limit was reached.
    pub uncounted: u64,
    /// The wall-clock time before which Xids are over, in seconds since the epoch: the start of this boot, and the last reset of a
    /// GPU by its label.
    over: Over,
}

/// When Xids ended, by the wall clock in seconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Over {
    boot: i64,
    resets: BTreeMap<String, i64>,
}

impl Ledger {
    /// Another boot: every GPU was reset. `wall` in seconds since the epoch, `since_boot` at that time.
    pub fn booted(&mut self, wall: i64, since_boot: Duration) {
        let since_boot = i64::try_from(since_boot.as_secs()).unwrap_or(i64::MAX);
        // Each clock is rounded down.
        self.over.boot = wall.saturating_sub(since_boot).saturating_sub(1);
        self.over.resets.clear();
    }

    /// A GPU was reset after this time, in seconds since the epoch. Returns whether this is news.
    pub fn reset(&mut self, gpu: &str, wall: i64) -> bool {
        let last = bounded(&mut self.over.resets, gpu.to_owned(), MAX_DEVICES);
        let Some(last) = last.filter(|last| **last < wall) else {
            return false;
        };
        *last = wall;
        true
    }

    /// The last Xid of a GPU since this boot and since its last reset. 154 is what the driver makes of the one before it,
    /// so any other goes first.
    pub fn last_xid(&self, gpu: &str) -> Option<u32> {
        let codes = self.xids.get(gpu)?.iter();
        let reset = self.over.resets.get(gpu);
        let is_over = |last: i64| last < self.over.boot || reset.is_some_and(|reset| last <= *reset);
        let standing = codes.filter(|(_, count)| !is_over(count.last));
        let (code, _) = standing.max_by_key(|(code, count)| (**code != Recovery::XID, count.last))?;
        Some(*code)
    }

    /// A driver named the GPU at an address: what was counted by the address belongs to the GPU.
    pub fn rename(&mut self, from: &str, to: &str) {
        for (code, count) in self.xids.remove(from).unwrap_or_default() {
            let slot = Self::slot(&mut self.xids, to.to_owned(), code);
            merge(slot, count, &mut self.uncounted);
        }
        for (code, reports) in self.xid_reports.remove(from).unwrap_or_default() {
            let all = bounded(&mut self.xid_reports, to.to_owned(), MAX_DEVICES)
                .and_then(|codes| bounded(codes, code, MAX_CODES));
            let Some(all) = all else { continue };
            for (source, count) in reports {
                let sum = all.entry(source).or_default();
                *sum = sum.saturating_add(count);
            }
        }
        for (event, count) in self.driver_events.remove(from).unwrap_or_default() {
            let events = bounded(&mut self.driver_events, to.to_owned(), MAX_DEVICES);
            merge(
                events.map(|events| events.entry(event).or_default()),
                count,
                &mut self.uncounted,
            );
        }
        if let Some(wall) = self.over.resets.remove(from) {
            self.reset(to, wall);
        }
        if let Some(count) = self.fallen_off_bus.remove(from) {
            let slot = bounded(&mut self.fallen_off_bus, to.to_owned(), MAX_DEVICES);
            merge(slot, count, &mut self.uncounted);
        }
    }

    /// Counts an overrun of a watcher other than the kernel log's.
    pub fn count_lost(&mut self, collector: &str, wall: i64) {
        // The others neither number their events nor lose any.
        if collector == rdma::SPEC.name
            && let Some(count) = self.rdma("", "", LOST)
        {
            count.add(1, wall);
        }
    }

    /// Virtual devices of containers get new names all the time.
    fn rdma(&mut self, device: &str, port: &str, event: &str) -> Option<&mut Count> {
        let last = |ports: &BTreeMap<String, BTreeMap<String, Count>>| {
            ports.values().flat_map(BTreeMap::values).map(|c| c.last).max()
        };
        make_room(&mut self.rdma_events, device, last);
        let ports = bounded(&mut self.rdma_events, device.to_owned(), MAX_DEVICES)?;
        let events = bounded(ports, port.to_owned(), MAX_DEVICES)?;
        Some(events.entry(event.to_owned()).or_default())
    }

    /// Counts one event that reports `new` faults for the first time.
    pub fn count(&mut self, event: &Event, inventory: &Inventory, new: u64, wall: i64) {
        let n = event.count.max(1);
        let counted = match &event.body {
            EventBody::Xid(xid) => {
                let gpu = gpu_label(inventory, &xid.pci);
                let reports = bounded(&mut self.xid_reports, gpu.clone(), MAX_DEVICES)
                    .and_then(|codes| bounded(codes, xid.code, MAX_CODES));
                if let Some(reports) = reports {
                    let reports = reports.entry(xid.source.word().to_owned()).or_default();
                    *reports = reports.saturating_add(n);
                }
                if new == 0 {
                    return;
                }
                // The clock was put back after the boot.
                self.over.boot = self.over.boot.min(wall);
                Self::slot(&mut self.xids, gpu, xid.code)
            }
            EventBody::Driver { pci, what } => {
                bounded(&mut self.driver_events, gpu_label(inventory, pci), MAX_DEVICES)
                    .map(|events| events.entry(what.word().to_owned()).or_default())
            }
            EventBody::Rdma(RdmaChange { device, port, what }) => self.rdma(device, port, what.word()),
            EventBody::Firmware { pci, what, .. } => bounded(&mut self.firmware, pci.0.clone(), MAX_DEVICES)
                .map(|events| events.entry(what.word().to_owned()).or_default()),
            // A Lustre client's device gets a new name at each mount, as does the volume of a container.
            EventBody::Kernel(KernelLine { row, subject }) => {
                let kinds = bounded(&mut self.kernel_lines, row.clone(), MAX_CODES);
                let names = kinds.map(|kinds| kinds.entry(subject.kind.word().to_owned()).or_default());
                names.and_then(|names| {
                    make_room(names, &subject.name, |count| Some(count.last));
                    bounded(names, subject.name.clone(), MAX_DEVICES)
                })
            }
            EventBody::Sxid(sxid) => Self::slot(&mut self.sxids, nvswitch_label(&sxid.pci), sxid.code),
            EventBody::FallenOffBus { pci } => {
                bounded(&mut self.fallen_off_bus, gpu_label(inventory, pci), MAX_DEVICES)
            }
            EventBody::Overrun { lost } => {
                self.overruns = self.overruns.saturating_add(1);
                self.lost_records = self.lost_records.saturating_add(lost.unwrap_or(0));
                return;
            }
            // What jobs did stands in their own lines.
            EventBody::Identity { .. }
            | EventBody::Progress
            | EventBody::CursorAhead { .. }
            | EventBody::Job(_)
            | EventBody::JobEnd(_) => return,
        };
        match counted {
            Some(count) => count.add(new, wall),
            None => self.uncounted = self.uncounted.saturating_add(new),
        }
    }

    fn slot(
        devices: &mut BTreeMap<String, BTreeMap<u32, Count>>,
        device: String,
        code: u32,
    ) -> Option<&mut Count> {
        bounded(bounded(devices, device, MAX_DEVICES)?, code, MAX_CODES)
    }
}

/// Adds a count to another of the same device.
fn merge(to: Option<&mut Count>, count: Count, uncounted: &mut u64) {
    match to {
        Some(to) => to.add(count.count, to.last.max(count.last)),
        None => *uncounted = uncounted.saturating_add(count.count),
    }
}

/// The `nvswitch` label.
pub fn nvswitch_label(pci: &PciAddress) -> String {
    format!("pci:{pci}")
}

/// Removes the device with the oldest event where there is no room for a new one.
fn make_room<V>(devices: &mut BTreeMap<String, V>, new: &str, last: impl Fn(&V) -> Option<i64>) {
    if devices.len() < MAX_DEVICES || devices.contains_key(new) {
        return;
    }
    let oldest = devices.iter().min_by_key(|(_, device)| last(device));
    if let Some(oldest) = oldest.map(|(name, _)| name.clone()) {
        devices.remove(&oldest);
    }
}

/// The entry of `key`, made where there is room for it.
fn bounded<K: Ord, V: Default>(map: &mut BTreeMap<K, V>, key: K, max: usize) -> Option<&mut V> {
    if map.len() >= max && !map.contains_key(&key) {
        return None;
    }
    Some(map.entry(key).or_default())
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_reset_ends_the_xids_before_it_and_an_earlier_one_no_others() {
        let mut ledger = Ledger::default();
        let codes = ledger.xids.entry("GPU-1".to_owned()).or_default();
        for (code, last) in [(48, 100), (79, 200)] {
            codes.insert(code, Count { count: 1, last });
        }
        assert_eq!(ledger.last_xid("GPU-1"), Some(79));
        for verdict in ["GPU-1", "GPU-2"] {
            let codes = ledger.xids.entry(verdict.to_owned()).or_default();
            codes.insert(154, Count { count: 1, last: 200 });
        }
        assert_eq!(ledger.last_xid("GPU-1"), Some(79), "154 says what 79 needs");
        assert_eq!(ledger.last_xid("GPU-2"), Some(154));
        assert!(ledger.reset("GPU-1", 200));
        assert_eq!(ledger.last_xid("GPU-1"), None);
        assert!(!ledger.reset("GPU-1", 150));
        assert_eq!(ledger.last_xid("GPU-1"), None);
        ledger
            .xids
            .get_mut("GPU-1")
            .unwrap()
            .insert(31, Count { count: 1, last: 250 });
        assert_eq!(ledger.last_xid("GPU-1"), Some(31));
        ledger.booted(1300, Duration::from_secs(1000));
        assert_eq!(ledger.last_xid("GPU-1"), None);
    }

    #[test]
    fn what_was_counted_by_an_address_belongs_to_the_gpu_that_a_driver_names_there() {
        let mut ledger = Ledger::default();
        let count = |count, last| Count { count, last };
        for (gpu, code, xids) in [
            ("pci:0000:c3:00.0", 79, count(1, 300)),
            ("pci:0000:c3:00.0", 31, count(2, 100)),
            ("GPU-1", 31, count(3, 200)),
        ] {
            ledger.xids.entry(gpu.to_owned()).or_default().insert(code, xids);
            let reports = ledger.xid_reports.entry(gpu.to_owned()).or_default();
            reports.insert(code, BTreeMap::from([("kernel".to_owned(), xids.count)]));
            let events = ledger.driver_events.entry(gpu.to_owned()).or_default();
            events.insert("clock".to_owned(), xids);
            ledger.fallen_off_bus.insert(gpu.to_owned(), xids);
        }
        ledger.rename("pci:0000:c3:00.0", "GPU-1");
        let one = |code| ledger.xids["GPU-1"][&code];
        assert_eq!((one(79), one(31)), (count(1, 300), count(5, 200)));
        assert_eq!(ledger.xid_reports["GPU-1"][&31]["kernel"], 5);
        assert_eq!(ledger.driver_events["GPU-1"]["clock"], count(5, 200));
        assert_eq!(ledger.fallen_off_bus["GPU-1"], count(5, 200));
        let lists = [
            ledger.xids.len(),
            ledger.xid_reports.len(),
            ledger.driver_events.len(),
        ];
        assert_eq!((lists, ledger.fallen_off_bus.len()), ([1; 3], 1));
        assert_eq!((ledger.last_xid("GPU-1"), ledger.uncounted), (Some(79), 0));
        ledger.rename("pci:0000:c4:00.0", "GPU-2");
        assert_eq!(ledger.last_xid("GPU-2"), None);
    }

    use collectors::event::RdmaEvent;
    use collectors::{BootId, Subject, SubjectKind};

    use super::*;

    fn event(body: EventBody) -> Event {
        Event {
            boot: BootId("boot".to_owned()),
            seq: 1,
            at_us: 1,
            history: false,
            count: 1,
            text: String::new(),
            body,
        }
    }

    #[test]
    fn devices_with_new_names_are_counted_for_ever_and_those_that_are_silent_make_room() {
        let mut ledger = Ledger::default();
        let mut tell = |device: &str, wall| {
            let event = event(EventBody::Rdma(RdmaChange {
                device: device.to_owned(),
                port: String::new(),
                what: RdmaEvent::DeviceAdded,
            }));
            ledger.count(&event, &Inventory::default(), 1, wall);
        };
        tell("silent", 0);
        for n in 0..1000 {
            tell(&format!("rocep{n}v0"), n + 1);
            tell("mlx5_0", n + 1);
        }
        assert_eq!(ledger.uncounted, 0);
        assert_eq!(ledger.rdma_events.len(), MAX_DEVICES);
        assert_eq!(ledger.rdma_events["mlx5_0"][""]["device_added"].count, 1000);
        assert!(ledger.rdma_events.contains_key("rocep999v0"));
        assert!(!ledger.rdma_events.contains_key("silent"));
    }

    /// The name of a Lustre client's device ends in an address that is another after each mount.
    #[test]
    fn kernel_lines_about_new_names_are_counted_for_ever_and_the_oldest_make_room() {
        let mut ledger = Ledger::default();
        for boot in 0..3 {
            for ost in 0..60 {
                let name = format!("fs1-OST{ost:04x}-osc-ffff8b8e3a4c{boot:04x}");
                let line = KernelLine {
                    row: "lustre-lost".to_owned(),
                    subject: Subject::new(SubjectKind::Server, name),
                };
                let event = event(EventBody::Kernel(line));
                ledger.count(&event, &Inventory::default(), 1, boot * 1000 + ost);
            }
        }
        assert_eq!(ledger.uncounted, 0);
        let names = &ledger.kernel_lines["lustre-lost"][SubjectKind::Server.word()];
        let of_boot = |boot: &str| names.keys().filter(|name| name.ends_with(boot)).count();
        assert_eq!([of_boot("0000"), of_boot("0001"), of_boot("0002")], [8, 60, 60]);
    }
}
