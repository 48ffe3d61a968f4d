//! The PCI link of one function: its current and its maximum speed and width.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::attribute::{self, OpenFile};
use super::is_vfio;
use super::metrics::{
    PCI_DEVICE_INFO, PCI_LINK_SPEED, PCI_LINK_SPEED_MAX, PCI_LINK_WIDTH, PCI_LINK_WIDTH_MAX,
};
use super::pcie::L0P_SPEED;
use super::slow::Slow;
use crate::sys::root;
use crate::{Block, PciAddress};

/// Maximum age of a link's state. Each file is a read of the configuration space, and a degraded link stays
/// degraded for hours: one read for each health tick is enough, whatever the scrape interval.
pub(super) const KEEP: Duration = Duration::from_secs(10);

/// The `function` label of a switch's upstream port.
pub(super) const SWITCH: &str = "switch";

/// Speed in transfers per second and lane, and the number of lanes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PciLinkRate {
    pub(crate) speed: Option<u64>,
    pub(crate) width: Option<u64>,
}

/// The state of one function's link.
pub(super) struct PciLink {
    /// The port above it; empty on a root bus.
    parent: Slow<String>,
    /// By [`of_card`].
    card: Slow<PathBuf>,
    max: Slow<PciLinkRate>,
    now: Slow<PciLinkRate>,
}

impl PciLink {
    pub(super) const fn new() -> Self {
        Self {
            parent: Slow::new(),
            card: Slow::new(),
            max: Slow::new(),
            now: Slow::keeping(KEEP),
        }
    }

    /// Adds the link's series. `serves`: the kind of the function; `driver`: empty if none is bound; `is_asleep`: by
    /// [`is_asleep`].
    pub(super) fn read(
        &mut self,
        bus: &Path,
        address: &PciAddress,
        serves: &str,
        driver: &str,
        is_asleep: bool,
        out: &mut Block,
    ) {
        let (time, folder) = (Instant::now(), bus.join(&address.0));
        let parent = self.parent.get(time, || parent(&folder)).cloned();
        let card = self.card.get(time, || of_card(&folder)).cloned();
        // The read would wake a sleeping function, and a function of a virtual machine must not be touched.
        let (max, now) = if is_vfio(driver) || is_asleep {
            *self = Self::new();
            (None, None)
        } else {
            let max = kept(&mut self.max, time, || card.as_deref().map(max));
            let now = kept(&mut self.now, time, || {
                Some(current(card.as_ref().unwrap_or(&folder)))
            });
            (max, now)
        };
        let pci = address.0.as_str();
        let (now, max) = (now.unwrap_or_default(), max.unwrap_or_default());
        out.info(
            &PCI_DEVICE_INFO,
            &[pci, serves, driver, parent.as_deref().unwrap_or_default()],
        );
        let mut width = now.width;
        if serves == SWITCH {
            // Only lanes are judged, and a reader without the speed cannot know that an idle link turned some off (L0p).
            width = width.filter(|_| now.speed.is_none_or(|speed| speed < L0P_SPEED));
        } else {
            out.maybe_u64(&PCI_LINK_SPEED, &[pci], now.speed);
            out.maybe_u64(&PCI_LINK_SPEED_MAX, &[pci], max.speed);
        }
        out.maybe_u64(&PCI_LINK_WIDTH, &[pci], width);
        out.maybe_u64(&PCI_LINK_WIDTH_MAX, &[pci], max.width);
    }
}

/// The rate, cached only if both parts were readable. A readable part is always reported.
fn kept(
    slow: &mut Slow<PciLinkRate>,
    now: Instant,
    read: impl FnOnce() -> Option<PciLinkRate>,
) -> Option<PciLinkRate> {
    let mut part = None;
    let whole = slow.get(now, || {
        part = read();
        part.filter(|r| r.speed.is_some() && r.width.is_some())
    });
    whole.copied().or(part)
}

/// Whether a read of the configuration space would wake the function, which costs seconds and watts: by its
/// `power/runtime_status`.
pub(super) fn is_asleep(runtime_status: &mut OpenFile) -> bool {
    let is_it = |status: &str| Some(matches!(status, "suspended" | "suspending" | "resuming"));
    runtime_status.find::<64, _>(is_it) == Some(true)
}

/// The port above a function, from its path in /sys/devices. `None`: unknown.
fn parent(folder: &Path) -> Option<String> {
    let name = root::link_parent(folder)
        .inspect_err(|error| tracing::debug!(%error, "unreadable; omitted"))
        .ok()?;
    // A root bus is below a host bridge, `pci0000:16`, which is no function.
    let port = name.filter(|name| is_address(name));
    Some(port.unwrap_or_default())
}

/// Where the link of a card in its slot is read, without symbolic links: at its function, or at the upstream port of AMD's
/// switch on the card. The links inside of such a card are as fast as they can be, whatever its slot is. `None`: unknown.
pub(crate) fn of_card(folder: &Path) -> Option<PathBuf> {
    let own = root::resolve(folder)
        .inspect_err(|error| tracing::debug!(%error, "unreadable; omitted"))
        .ok()?;
    let is_amd = |port: &&Path| attribute::text(&port.join("vendor")).as_deref() == Some("0x1002");
    let downstream = own.parent().filter(is_amd);
    let upstream = downstream.and_then(Path::parent).filter(is_amd);
    Some(upstream.unwrap_or(&own).to_owned())
}

/// The upstream ports of the switches above a function's card, from the nearest: each is two bridges above the last one. None, if the
/// path is not shown.
pub(super) fn uplinks(folder: &Path) -> Vec<PciAddress> {
    let mut uplinks = Vec::new();
    let mut card = of_card(folder);
    while let Some(below) = card.take() {
        let port = below.parent().filter(|port| name(port).is_some_and(is_address));
        let upstream = port.and_then(Path::parent);
        let address = upstream.and_then(name).filter(|name| is_address(name));
        if let (Some(upstream), Some(address)) = (upstream, address) {
            uplinks.push(PciAddress(address.to_owned()));
            card = Some(upstream.to_owned());
        }
    }
    uplinks
}

/// The rate now.
pub(crate) fn current(card: &Path) -> PciLinkRate {
    rate(card, "current")
}

/// The maximum that both ends support. A card in a slot with fewer lanes is not degraded. Unknown, if the port above does not
/// report its own, or is not shown: a virtual machine has the card on a root bus, `pci0000:00`, or below a port of its own, and
/// the slot may be x8. The two ends of a link have the same lanes and speed now; a port that shows others is such a port too.
pub(crate) fn max(card: &Path) -> PciLinkRate {
    let above = card.parent().and_then(|port| Some((port, name(port)?)));
    let port = match above {
        Some((port, name)) if is_address(name) && !is_virtual(port) => port,
        Some((_, name)) if is_address(name) || name.starts_with("pci") => return PciLinkRate::default(),
        // A copied tree without the links of sysfs.
        _ => return rate(card, "max"),
    };
    let (here, there) = (current(card), current(port));
    let differ = |a: Option<u64>, b: Option<u64>| a.zip(b).is_some_and(|(a, b)| a != b);
    if differ(here.width, there.width) || differ(here.speed, there.speed) {
        return PciLinkRate::default();
    }
    let (own, port) = (rate(card, "max"), rate(port, "max"));
    let lower = |a: Option<u64>, b: Option<u64>| Some(a?.min(b?));
    PciLinkRate {
        speed: lower(own.speed, port.speed),
        width: lower(own.width, port.width),
    }
}

/// Whether a port is that of a virtual machine: `pcie-root-port` of QEMU (Red Hat) says x32, and those of VMware and Amazon are no
/// slots either.
fn is_virtual(port: &Path) -> bool {
    let vendor = attribute::text(&port.join("vendor"));
    matches!(vendor.as_deref(), Some("0x1b36" | "0x15ad" | "0x1d0f"))
}

fn name(folder: &Path) -> Option<&str> {
    folder.file_name()?.to_str()
}

/// Whether a name is the address of a function, as the kernel writes it.
fn is_address(name: &str) -> bool {
    PciAddress::parse(name).is_some_and(|address| address.0 == name)
}

fn rate(folder: &Path, which: &str) -> PciLinkRate {
    let file = |what: &str| attribute::text(&folder.join(format!("{which}_link_{what}")));
    PciLinkRate {
        speed: file("speed").as_deref().and_then(speed),
        width: file("width").as_deref().and_then(width),
    }
}

/// Parses `32.0 GT/s PCIe`, `16.0 GT/s`, `8 GT/s` as transfers per second. `Unknown` and `Unknown speed` are no
/// value.
fn speed(text: &str) -> Option<u64> {
    let number = text.strip_suffix(" PCIe").unwrap_or(text).strip_suffix(" GT/s")?;
    let (whole, tenths) = number.split_once('.').unwrap_or((number, "0"));
    if tenths.len() != 1 || whole.len() > 3 {
        return None;
    }
    let tenths = attribute::count(whole)? * 10 + attribute::count(tenths)?;
    (tenths > 0).then_some(tenths * 100_000_000)
}

/// Parses a number of lanes.
fn width(text: &str) -> Option<u64> {
    attribute::count(text).filter(|lanes| is_width(*lanes))
}

/// Whether a link can have this number of lanes. 0 is a function without a link; all ones (63, 255) is one that does not answer.
pub(crate) const fn is_width(lanes: u64) -> bool {
    matches!(lanes, 1 | 2 | 4 | 8 | 12 | 16 | 32)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use testkit::tree::{Entry, put};

    use super::*;

    #[test]
    fn every_spelling_of_a_speed_is_read() {
        for (text, tenths) in [
            ("2.5 GT/s PCIe", 25),
            ("5.0 GT/s PCIe", 50),
            ("8 GT/s", 80),
            ("8.0 GT/s PCIe", 80),
            ("16.0 GT/s", 160),
            ("32.0 GT/s PCIe", 320),
            ("64.0 GT/s PCIe", 640),
        ] {
            assert_eq!(speed(text), Some(tenths * 100_000_000), "{text}");
        }
        for text in [
            "",
            "Unknown",
            "Unknown speed",
            "32.0",
            "GT/s",
            " GT/s",
            ". GT/s",
            "-8 GT/s",
            "0 GT/s",
            "8,0 GT/s",
            "8.00 GT/s",
            "8. GT/s",
            "8 GT/s PCIe PCIe",
            "99999 GT/s",
        ] {
            assert_eq!(speed(text), None, "{text:?}");
        }
    }

    /// A folder below `bus` with files of a link of 16 lanes at 32 GT/s, below a port of 8 lanes at 16 GT/s.
    fn card(root: &Path, bus: &str, has_port: bool) -> PathBuf {
        let mut folder = root.join(bus);
        if has_port {
            folder.push("0000:00:01.0");
            link_files(&folder, "16.0 GT/s PCIe", "8");
        }
        folder.push("0000:18:00.0");
        link_files(&folder, "32.0 GT/s PCIe", "16");
        folder
    }

    fn file(path: &Path, text: &str) {
        put(path, &Entry::File(text.as_bytes().to_vec())).unwrap();
    }

    fn link_files(folder: &Path, speed: &str, width: &str) {
        file(&folder.join("max_link_speed"), speed);
        file(&folder.join("max_link_width"), width);
    }

    #[test]
    fn the_maximum_is_unknown_where_a_virtual_machine_does_not_show_the_slot() {
        let dir = tempfile::tempdir().unwrap();
        let rate = |speed, width| PciLinkRate { speed, width };
        let (own, lower) = (
            rate(Some(32_000_000_000), Some(16)),
            rate(Some(16_000_000_000), Some(8)),
        );
        for (bus, has_port, expected) in [
            ("sys/devices/pci0000:00", true, lower),
            ("sys/devices/pci0000:00", false, PciLinkRate::default()),
            ("sys/devices/pci10000:e0", false, PciLinkRate::default()),
            ("sys/bus/pci/devices", false, own),
        ] {
            let root = dir.path().join(has_port.to_string());
            assert_eq!(max(&card(&root, bus, has_port)), expected, "{bus} {has_port}");
        }
    }

    #[test]
    fn the_maximum_is_unknown_below_the_port_of_a_virtual_machine() {
        let dir = tempfile::tempdir().unwrap();
        let lower = PciLinkRate {
            speed: Some(16_000_000_000),
            width: Some(8),
        };
        for (vendor, expected) in [
            ("0x1b36", PciLinkRate::default()),
            ("0x15ad", PciLinkRate::default()),
            ("0x1d0f", PciLinkRate::default()),
            ("0x8086", lower),
        ] {
            let card = card(dir.path(), "sys/devices/pci0000:00", true);
            file(&card.with_file_name("vendor"), vendor);
            assert_eq!(max(&card), expected, "{vendor}");
        }
    }

    #[test]
    fn the_maximum_is_unknown_where_the_two_ends_differ_now() {
        let dir = tempfile::tempdir().unwrap();
        let card = card(dir.path(), "sys/devices/pci0000:00", true);
        let port = card.parent().unwrap().to_owned();
        let now = |folder: &Path, speed: &str, width: &str| {
            file(&folder.join("current_link_speed"), speed);
            file(&folder.join("current_link_width"), width);
        };
        now(&card, "16.0 GT/s PCIe", "4");
        for (speed, width, width_max) in [
            ("16.0 GT/s PCIe", "4", Some(8)),
            ("16.0 GT/s PCIe", "8", None),
            ("32.0 GT/s PCIe", "4", None),
            ("Unknown", "4", Some(8)),
        ] {
            now(&port, speed, width);
            assert_eq!(max(&card).width, width_max, "{speed} x{width}");
        }
    }

    #[test]
    fn only_widths_that_a_link_can_have_are_read() {
        for lanes in [1, 2, 4, 8, 12, 16, 32] {
            assert_eq!(width(&lanes.to_string()), Some(lanes));
        }
        for text in ["", "0", "63", "255", "x16", "-1", "Unknown"] {
            assert_eq!(width(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_rate_of_which_a_part_could_not_be_read_is_reported_and_not_kept() {
        let (part, whole) = (
            PciLinkRate {
                speed: Some(1),
                width: None,
            },
            PciLinkRate {
                speed: Some(1),
                width: Some(16),
            },
        );
        let mut slow = Slow::new();
        let now = Instant::now();
        assert_eq!(
            kept(&mut slow, now, || Some(PciLinkRate::default())),
            Some(PciLinkRate::default())
        );
        assert_eq!(kept(&mut slow, now, || Some(part)), Some(part));
        assert_eq!(kept(&mut slow, now, || Some(whole)), Some(whole));
        assert_eq!(
            kept(&mut slow, now, || Some(part)),
            Some(whole),
            "until the value expires"
        );
    }

    proptest! {
        #[test]
        fn every_speed_survives_printing(whole in 0_u64..1000, tenth in 0_u64..10) {
            prop_assume!(whole + tenth > 0);
            let want = Some((whole * 10 + tenth) * 100_000_000);
            prop_assert_eq!(speed(&format!("{whole}.{tenth} GT/s PCIe")), want);
        }

        #[test]
        fn no_text_breaks_the_parsers(text in ".{0,20}( GT/s)?( PCIe)?") {
            speed(&text);
            width(&text);
        }
    }
}
