//! Lines of the kernel and of its drivers about faults, as one table: what a line looks like, what it is about, which
//! check judges it and what ends the fault. Lines that another collector or check knows better are not here, or only
//! counted.

mod disk;
mod filesystem;
mod form;
mod gpu;
mod machine;
mod network;
mod origin;
mod pcie;
mod sched;
mod storage;
#[cfg(test)]
mod tests;

use crate::event::{KernelLine, Sxid};
use crate::{PciAddress, Subject, SubjectKind};
use form::Form;
use origin::Line;
pub(super) use origin::{behind_name, function as of_function};

/// What ends a fault that a line reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// A reboot.
    Reboot,
    /// A line of [`Meaning::AllClear`], or a reboot.
    Line,
    /// The same, or an answer: each NFS mount of the server, or the Lustre target is connected. The kernel writes NFS's line for the
    /// program that waited, none if it was killed, and Lustre limits its lines per place in the code, not per target.
    Answer,
    /// No further line for this many hours with the log readable, an all-clear line, or a reboot.
    Quiet(u64),
    /// Only a person: a reboot hides it.
    Person,
}

/// What a line means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// It is counted.
    Counted,
    /// A fault for a check.
    Fault {
        /// The check's id.
        check: &'static str,
        /// What ends it.
        ends: Ends,
    },
    /// The faults of these rows are over for the same subject, or for the node where a row names none: then only its one line.
    AllClear(&'static [&'static str]),
}

/// A row of the table.
#[derive(Debug)]
pub struct Row {
    /// Its id: the label of its count.
    pub id: &'static str,
    /// What happened, in a few words.
    pub what: &'static str,
    /// What it is about. A line that names none is about the node.
    pub about: SubjectKind,
    /// What it means.
    pub meaning: Meaning,
    /// Another fault causes it, such as one of storage, of a disk or heat: a reboot may end it, but is not its remedy.
    pub follows: bool,
    /// Its lines name a program, which may be any user's.
    pub names_program: bool,
    forms: &'static [Form],
    /// A line with one of these texts is another one.
    not: &'static [&'static str],
    /// Whether a line of one of the forms counts.
    when: fn(&str) -> bool,
    /// Only lines of the first [`EARLY_US`] of the boot.
    is_early: bool,
    /// Rows whose event this line repeats.
    echoes: &'static [&'static str],
    /// Of forms by their place in their rows: whether the first repeats the second, in a row of `echoes`.
    is_echo: fn(usize, usize) -> bool,
}

impl PartialEq for Row {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for Row {}

impl Row {
    /// The forms of its lines, as text.
    pub fn forms(&self) -> impl Iterator<Item = String> {
        self.forms.iter().map(Form::to_string)
    }

    fn read(&'static self, text: &str, line: &Line<'_>, device: Option<&PciAddress>) -> Option<Read> {
        let mut forms = self.forms.iter().enumerate();
        let (form, captured) = forms.find_map(|(at, form)| Some((at, form.matches(line)?)))?;
        let is_other = self.not.iter().any(|not| text.contains(not));
        if is_other || !(self.when)(text) {
            return None;
        }
        let line = KernelLine {
            row: self.id.to_owned(),
            subject: subject(self.about, captured, line, device)?,
        };
        Some(Read {
            line,
            form,
            row: self,
        })
    }
}

/// The fields that few rows set.
const ROW: Row = Row {
    id: "",
    what: "",
    about: SubjectKind::Node,
    meaning: Meaning::Counted,
    follows: false,
    names_program: false,
    forms: &[],
    not: &[],
    when: |_| true,
    is_early: false,
    echoes: &[],
    is_echo: |_, _| true,
};

/// The kernel's own start, in microseconds: seconds, and longer with hundreds of processors. No job runs yet.
const EARLY_US: u64 = 30_000_000;

/// Every row. The first that fits is the line's.
static TABLE: [&[Row]; 8] = [
    pcie::ROWS,
    machine::ROWS,
    sched::ROWS,
    disk::ROWS,
    filesystem::ROWS,
    storage::ROWS,
    network::ROWS,
    gpu::ROWS,
];

/// Every row of the table.
pub fn rows() -> impl Iterator<Item = &'static Row> {
    TABLE.iter().copied().flatten()
}

/// The row of this id.
pub fn row(id: &str) -> Option<&'static Row> {
    rows().find(|row| row.id == id)
}

/// The row and subject of an SXid that is a fault in itself.
pub fn of_sxid(sxid: &Sxid) -> Option<KernelLine> {
    gpu::stops_the_fabric(sxid).then(|| KernelLine {
        row: gpu::NVSWITCH_FATAL.to_owned(),
        subject: Subject::new(SubjectKind::Pci, sxid.pci.0.as_str()),
    })
}

/// A line of the table, and which of the row's forms it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Read {
    row: &'static Row,
    pub(super) line: KernelLine,
    pub(super) form: usize,
}

/// Whether it becomes an event by a later line, see [`super::sections`].
pub(super) fn is_of_sections(read: &Read) -> bool {
    read.row.id == machine::GHES_UNCORRECTED
}

/// An uncorrected error of a device, as the firmware reports it.
pub(super) fn of_firmware(pci: PciAddress) -> Option<Read> {
    let row = row(pcie::NONFATAL)?;
    Some(Read {
        line: KernelLine {
            row: row.id.to_owned(),
            subject: Subject::new(SubjectKind::Pci, pci.0),
        },
        // Of none of its forms.
        form: usize::MAX,
        row,
    })
}

/// Finds a message in the table. `device`: the address that the record's dictionary names. `at_us`: its time since boot, in
/// microseconds.
pub(super) fn read(text: &str, device: Option<&PciAddress>, at_us: u64) -> Option<Read> {
    let line = Line::new(text);
    let mut rows = rows().filter(|row| !row.is_early || at_us < EARLY_US);
    rows.find_map(|row| row.read(text, &line, device))
}

/// The same for what the line of a process says behind its name.
pub(super) fn of_process(said: &str) -> Option<Read> {
    let line = Line::of_process(said);
    rows().find_map(|row| row.read(said, &line, None))
}

fn subject(
    about: SubjectKind,
    captured: Option<&str>,
    line: &Line<'_>,
    device: Option<&PciAddress>,
) -> Option<Subject> {
    if about == SubjectKind::Pci {
        // A sender 0000:00:00.0 is that of a port that did not record who sent.
        let named = captured
            .and_then(|text| PciAddress::parse(&text.replace("0x", "")))
            .filter(|pci| pci.0 != "0000:00:00.0");
        let pci = named.as_ref().or(line.pci.as_ref()).or(device)?;
        return Some(Subject::new(about, pci.0.as_str()));
    }
    let of_disk = matches!(about, SubjectKind::Disk | SubjectKind::Filesystem);
    if of_disk && captured.is_some_and(|name| !disk::is_local(name)) {
        return None;
    }
    Some(match captured {
        // EDAC's name in sysfs is in small letters.
        Some(name) if about == SubjectKind::MemoryController => {
            Subject::new(about, name.to_ascii_lowercase())
        }
        Some(name) if about == SubjectKind::Filesystem => Subject::new(about, filesystem::device(name)),
        Some(name) => Subject::new(about, name),
        None => Subject::node(),
    })
}

/// Whether a line repeats the event of the one before it: another form of its row, or a row that it echoes.
pub(super) fn repeats(read: &Read, before: &Read) -> bool {
    if read.row.id == before.row.id {
        read.form != before.form && read.line.subject == before.line.subject
    } else {
        read.row.echoes.contains(&before.row.id) && (read.row.is_echo)(read.form, before.form)
    }
}

/// How many lines were left out, by the kernel's limits or by Lustre's.
pub(super) fn suppressed(text: &str) -> Option<u64> {
    if let Some(rest) = text.strip_suffix(" callbacks suppressed") {
        return rest.rsplit(' ').next()?.parse().ok();
    }
    let is_lustre = text.starts_with("Lustre") || text.starts_with("LNet");
    let (_, rest) = text.split_once("Skipped ").filter(|_| is_lustre)?;
    let (count, rest) = rest.split_once(' ')?;
    rest.starts_with("previous similar message")
        .then(|| count.parse().ok())?
}
