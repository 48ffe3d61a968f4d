//! Events on arrival. The process that sent one is not trusted: every field is checked as if nothing had parsed it before.

use super::{Event, EventBody, EventKind, JobEnd, KernelLine, PciAddress, Xid};
use crate::subject::MAX_NAME;
use crate::text::{is_printable, printable};
use crate::{Subject, SubjectKind};

/// The longest message of an event, in bytes.
pub(crate) const MAX_TEXT: usize = 512;
/// The most hexadecimal words of an Xid; drivers print up to seven.
const MAX_WORDS: usize = 64;
/// The most GPUs, or instances of GPUs, of a job on a node.
const MAX_DEVICES: usize = 1024;

impl Event {
    /// The event with its texts cut and escaped.
    ///
    /// # Errors
    /// The field that no watcher with these `kinds` sends.
    pub fn admit(mut self, kinds: &[EventKind]) -> Result<Self, &'static str> {
        if !kinds.contains(&self.body.kind()) {
            return Err("event of a kind that this collector does not have");
        }
        require(is_word(&self.boot.0), "boot id of an event")?;
        clean(&mut self.text, MAX_TEXT);
        match &mut self.body {
            EventBody::Xid(xid) => admit_xid(xid)?,
            EventBody::Sxid(sxid) => admit_address(&sxid.pci)?,
            EventBody::FallenOffBus { pci } | EventBody::Driver { pci, .. } => admit_address(pci)?,
            EventBody::Identity { pci, uuid } => {
                admit_address(pci)?;
                require(is_word(uuid), "UUID of an event")?;
            }
            EventBody::Rdma(change) => {
                // As in a list of devices: `rdma dev set` takes any name.
                let is_name = is_printable(&change.device, MAX_NAME) && !change.device.contains('/');
                require(is_name, "RDMA device of an event")?;
                let is_number = change.port.len() <= 10 && change.port.bytes().all(|b| b.is_ascii_digit());
                require(is_number, "port of an event")?;
            }
            EventBody::Firmware { pci, driver, .. } => {
                admit_address(pci)?;
                require(is_word(driver), "driver of an event")?;
            }
            EventBody::Kernel(line) => admit_line(line)?,
            EventBody::Job(job) => require(is_word(&job.folder), "cgroup of an event")?,
            EventBody::JobEnd(end) => admit_end(end)?,
            EventBody::Overrun { .. } | EventBody::CursorAhead { .. } | EventBody::Progress => {}
        }
        Ok(self)
    }
}

fn admit_xid(xid: &mut Xid) -> Result<(), &'static str> {
    admit_address(&xid.pci)?;
    require(xid.words.len() <= MAX_WORDS, "words of an Xid")?;
    clean(&mut xid.place, MAX_NAME);
    for text in [&mut xid.process, &mut xid.unit].into_iter().flatten() {
        clean(text, MAX_NAME);
    }
    Ok(())
}

fn admit_line(line: &KernelLine) -> Result<(), &'static str> {
    let Subject { kind, name } = &line.subject;
    require(is_word(&line.row), "row of a kernel line")?;
    let is_its = match kind {
        SubjectKind::Node => name.is_empty(),
        SubjectKind::Pci => PciAddress::parse(name).is_some_and(|pci| pci.0 == *name),
        _ => !name.is_empty() && is_word(name),
    };
    require(is_its, "subject of a kernel line")
}

fn admit_end(end: &mut JobEnd) -> Result<(), &'static str> {
    for text in [
        &mut end.user,
        &mut end.account,
        &mut end.partition,
        &mut end.array_job,
        &mut end.array_task,
        &mut end.het_job,
    ] {
        clean(text, MAX_NAME);
    }
    let devices = end.devices.iter().flatten();
    require(devices.clone().count() <= MAX_DEVICES, "devices of a job")?;
    // With slashes, of instances.
    let is_device = |name: &String| is_printable(name, MAX_NAME);
    require(devices.clone().all(is_device), "device of a job")
}

/// Only the form that [`PciAddress::parse`] gives: incidents and records are found by it.
fn admit_address(pci: &PciAddress) -> Result<(), &'static str> {
    require(
        PciAddress::parse(&pci.0).as_ref() == Some(pci),
        "PCI address of an event",
    )
}

fn require(holds: bool, what: &'static str) -> Result<(), &'static str> {
    if holds { Ok(()) } else { Err(what) }
}

/// Names of drivers, cgroups and GPUs: visible ASCII without a path.
fn is_word(text: &str) -> bool {
    text.len() <= MAX_NAME && text.bytes().all(|b| b.is_ascii_graphic() && b != b'/')
}

fn clean(text: &mut String, max: usize) {
    *text = printable(text.as_bytes(), max);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{BootId, JobChange, JobEnd, JobEvent, RdmaChange, RdmaEvent, XidSource};

    fn event(body: EventBody) -> Event {
        Event {
            boot: BootId("5f0c3f6e-9a3f-4b7e-8a37-0d6f2f6d1c11".to_owned()),
            seq: 1,
            at_us: 1,
            history: false,
            count: 1,
            text: "a\n2026-01-01 WARN draining the node\u{1b}[2J".repeat(100),
            body,
        }
    }

    fn xid(source: XidSource, pci: &str) -> EventBody {
        EventBody::Xid(Xid {
            source,
            pci: PciAddress(pci.to_owned()),
            code: 79,
            process: Some("a\nb".to_owned()),
            ..Xid::default()
        })
    }

    #[test]
    fn an_xid_is_admitted_from_its_own_source_alone() {
        let kinds = &[EventKind::Xid(XidSource::Nvml)];
        let of = |source| event(xid(source, "0000:3b:00.0")).admit(kinds);
        assert!(of(XidSource::Nvml).is_ok());
        assert!(of(XidSource::KernelLog).is_err());
        assert!(event(EventBody::Progress).admit(kinds).is_err());
    }

    #[test]
    fn texts_arrive_on_one_line_and_cut() {
        let kinds = &[EventKind::Xid(XidSource::Nvml)];
        let got = event(xid(XidSource::Nvml, "0000:3b:00.0")).admit(kinds).unwrap();
        assert!(got.text.len() <= MAX_TEXT && !got.text.contains(['\n', '\u{1b}']));
        let EventBody::Xid(xid) = got.body else {
            panic!("another kind")
        };
        assert_eq!(xid.process.as_deref(), Some("a\\x0ab"));
    }

    #[test]
    fn addresses_and_names_are_parsed_again() {
        let kinds = &[EventKind::Xid(XidSource::Nvml), EventKind::Rdma, EventKind::Job];
        for pci in ["", "0000:3B:00.0", "3b:00", "../../etc", "0000:3b:00.0\n"] {
            assert!(event(xid(XidSource::Nvml, pci)).admit(kinds).is_err(), "{pci:?}");
        }
        let rdma = |device: &str, port: &str| {
            let change = RdmaChange {
                device: device.to_owned(),
                port: port.to_owned(),
                what: RdmaEvent::LinkDown,
            };
            event(EventBody::Rdma(change)).admit(kinds)
        };
        assert!(rdma("mlx5_0", "1").is_ok() && rdma("mlx5_0", "").is_ok());
        assert!(rdma("my dev", "1").is_ok() && rdma("m\u{e4}x", "1").is_ok());
        assert!(
            rdma("mlx5_0", "1\n").is_err()
                && rdma("a/b", "1").is_err()
                && rdma("my\ndev", "1").is_err()
                && rdma("my\u{202e}dev", "1").is_err()
                && rdma(&"m".repeat(300), "1").is_err()
        );
        let job = |folder: &str| {
            let what = JobEvent::Began;
            event(EventBody::Job(JobChange {
                folder: folder.to_owned(),
                what,
                start_us: None,
            }))
            .admit(kinds)
        };
        assert!(job("job_7").is_ok() && job("../job_7").is_err());
    }

    #[test]
    fn the_record_of_a_job_is_cut_and_its_devices_are_names() {
        let admit = |account: &str, devices: &[String]| {
            let end = JobEnd {
                account: account.to_owned(),
                devices: Some(devices.to_vec()),
                ..JobEnd::default()
            };
            event(EventBody::JobEnd(Box::new(end))).admit(&[EventKind::JobEnd])
        };
        let gpu = "nvidia0/1/0".to_owned();
        let EventBody::JobEnd(end) = admit(&"a\n".repeat(300), std::slice::from_ref(&gpu))
            .unwrap()
            .body
        else {
            panic!("another kind")
        };
        assert!(end.account.len() <= MAX_NAME && end.account.starts_with("a\\x0aa"));
        assert_eq!(end.devices, Some(vec![gpu.clone()]));
        assert!(admit("", &["a\nb".to_owned()]).is_err());
        assert!(admit("", &vec![gpu; MAX_DEVICES + 1]).is_err());
        let job = event(EventBody::JobEnd(Box::default())).admit(&[EventKind::Job]);
        assert!(job.is_err());
    }
}
