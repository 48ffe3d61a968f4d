//! Records of the firmware's error source (drivers/acpi/apei/ghes.c, drivers/firmware/efi/cper.c) over several lines: the
//! severity comes first, and what was hit after it.

use super::grammar::LogLine;
use super::lines;
use crate::PciAddress;

/// How many records may stand between the two lines; other CPUs print in between.
const PATIENCE: u8 = 32;

/// An uncorrected record whose first section, or the device of that, has not come.
#[derive(Debug, Default)]
pub(super) struct Sections {
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    /// `{1}` of its lines.
    number: String,
    read: lines::Read,
    /// Its first section is one of PCIe.
    is_pcie: bool,
    left: u8,
}

impl Sections {
    /// Takes the next message of the kernel. An uncorrected record is an event by its first section; one of PCIe by the device in
    /// that: where AER's registers are missing or the device is gone, no other line names it.
    pub(super) fn join(&mut self, line: LogLine, text: &[u8]) -> LogLine {
        let (number, said) = parts(text).unzip();
        if let LogLine::Kernel(read) = &line
            && lines::is_of_sections(read)
            && let Some(number) = number
        {
            let open = Open {
                number: number.to_owned(),
                read: read.clone(),
                is_pcie: false,
                left: PATIENCE,
            };
            // One that another processor interrupts counts as it is.
            let before = self.open.replace(open).filter(|before| !before.is_pcie);
            return before.map_or(LogLine::Other, |before| LogLine::Kernel(before.read));
        }
        let Some(open) = self.open.take() else {
            return line;
        };
        let said = said.filter(|_| number == Some(open.number.as_str()));
        match said.and_then(section) {
            Some(section) if section.starts_with("PCIe") => {
                self.open = Some(Open {
                    is_pcie: true,
                    ..open
                });
                line
            }
            Some(_) => LogLine::Kernel(open.read),
            None => {
                let device = said.filter(|_| open.is_pcie).and_then(device);
                if let Some(read) = device.and_then(lines::of_firmware) {
                    return LogLine::Kernel(read);
                }
                let left = open.left.checked_sub(1);
                self.open = left.map(|left| Open { left, ..open });
                line
            }
        }
    }
}

/// `{1}[Hardware Error]:  text`: number and text.
fn parts(text: &[u8]) -> Option<(&str, &str)> {
    // Nearly every line ends here.
    let rest = text.strip_prefix(b"{")?;
    let (number, rest) = std::str::from_utf8(rest).ok()?.split_once('}')?;
    Some((number, rest.strip_prefix("[Hardware Error]:")?.trim_start()))
}

/// `section_type: memory error`, or `section type: unknown, <uuid>`.
fn section(said: &str) -> Option<&str> {
    let forms = ["section_type: ", "section type: "];
    forms.iter().find_map(|form| said.strip_prefix(form))
}

/// `device_id: 0000:5d:00.0`
fn device(said: &str) -> Option<PciAddress> {
    PciAddress::parse(said.strip_prefix("device_id: ")?)
}

#[cfg(test)]
mod tests {
    use super::super::grammar::parse;
    use super::*;

    /// The rows of the events of a log.
    fn events(log: &[&str]) -> Vec<String> {
        let mut sections = Sections::default();
        let mut rows = Vec::new();
        for text in log {
            let line = parse(text.as_bytes(), true, None, u64::MAX);
            if let LogLine::Kernel(read) = sections.join(line, text.as_bytes()) {
                rows.push(format!("{} {}", read.line.row, read.line.subject.name));
            }
        }
        rows
    }

    const SEVERE: &str = "{1}[Hardware Error]: event severity: recoverable";
    const TYPE: &str = "{1}[Hardware Error]:  Error 0, type: recoverable";

    #[test]
    fn an_error_of_memory_or_a_processor_is_an_event_by_its_section() {
        for section in [
            "{1}[Hardware Error]:   section_type: memory error",
            "{1}[Hardware Error]:   section_type: ARM processor error",
            "{1}[Hardware Error]:   section type: unknown, 330f1140-72a5-11df-9690-0002a5d5c51b",
        ] {
            assert_eq!(events(&[SEVERE, TYPE]), [""; 0], "not yet known");
            assert_eq!(events(&[SEVERE, TYPE, section]), ["ghes-uncorrected "]);
            // One event of a record of two sections.
            assert_eq!(events(&[SEVERE, TYPE, section, section]), ["ghes-uncorrected "]);
        }
    }

    #[test]
    fn an_error_of_pcie_is_that_of_its_device() {
        let log = [
            SEVERE,
            TYPE,
            "{1}[Hardware Error]:   section_type: PCIe error",
            "{1}[Hardware Error]:   device_id: 0000:5d:00.0",
            "{1}[Hardware Error]:  Error 1, type: recoverable",
            "{1}[Hardware Error]:   section type: unknown, 330f1140-72a5-11df-9690-0002a5d5c51b",
            "nvidia 0000:5d:00.0: AER: aer_status: 0x00100000, aer_mask: 0x00000000",
            "nvidia 0000:5d:00.0: AER: aer_uncor_severity: 0x00462030",
        ];
        let device = "aer-nonfatal 0000:5d:00.0";
        // The last line repeats the device's, see `lines::repeats`.
        assert_eq!(events(&log), ["ghes-pcie ", device, device]);
        let gone = [&log[..6], &["AER: no pci_dev for 0000:5d:00.0"]].concat();
        assert_eq!(events(&gone), ["ghes-pcie ", device]);
        let unnamed = [&log[..3], &log[4..6]].concat();
        assert_eq!(events(&unnamed), ["ghes-pcie ", "ghes-uncorrected "]);
        let corrected = events(&log[2..6]);
        assert_eq!(corrected, ["ghes-pcie "], "only counted");
    }

    #[test]
    fn a_section_of_another_record_or_far_away_is_not_its() {
        let memory = "{1}[Hardware Error]:   section_type: memory error";
        let other = "{2}[Hardware Error]:   section_type: PCIe error";
        let both = events(&[SEVERE, other, memory]);
        assert_eq!(both, ["ghes-pcie ", "ghes-uncorrected "]);
        assert_eq!(events(&[memory]), [""; 0], "a corrected one");
        let corrected = "{3}[Hardware Error]: event severity: corrected";
        assert_eq!(events(&[corrected, memory]), ["ghes-corrected "]);
        let far: Vec<&str> = [SEVERE].into_iter().chain([TYPE; 33]).chain([memory]).collect();
        assert_eq!(events(&far), [""; 0]);
        let second = "{2}[Hardware Error]: event severity: recoverable";
        assert_eq!(events(&[SEVERE, second]), ["ghes-uncorrected "]);
    }
}
