//! Checks of lines in the kernel log: one check for each part of the table of kernel lines. A fault is there from its
//! line until what ends it.

use std::borrow::Cow;
use std::time::Duration;

use collectors::event::{EventBody, KernelLine};
use collectors::kernel_log::lines::{Ends, Meaning, of_sxid, row};
use collectors::{PciAddress, Subject, SubjectKind};
use serde::{Deserialize, Serialize};

use super::growth::HOUR_MS;
use super::lustre::Client;
use super::{Check, Forget, Heard, Kept, May, Said, Scope, Version, Watch};
use crate::bounded::{Bounded, STORED};
use crate::condition::{Judged, Pace, Reading};
use crate::counts::Watched;
use crate::finding::{Clear, Finding, Joins, Remedy};
use crate::judge::Judge;
use crate::reads::host::Place;
use crate::reads::mounts;
use model::derive::xid::gpu_label;
use model::snapshot::Presence;

/// The row of a check of lines.
macro_rules! check {
    ($name:ident $id:literal $about:ident $scope:ident $may:ident, fires $fires:literal, clears $clears:literal, ignored $ignored:literal) => {
        /// The row.
        pub static $name: Check = Check {
            id: $id,
            subject: SubjectKind::$about,
            fires_when: $fires,
            lasting: "immediately",
            clears_when: $clears,
            ignored_when: $ignored,
            scope: Scope::$scope,
            may: May::$may,
            since: Version(0, 1, 0),
            watch: || State::start(&$name),
        };
    };
}

check! { KERNEL_CRASH "kernel-crash" Node Node ObserveOrDrain,
    fires "The kernel log reports an oops, a failed assertion, overwritten memory of the kernel or a processor that takes no interrupts.",
    clears "A reboot.",
    ignored "Warnings with a stack, crashes of programs, lines that a program wrote to the log."
}
check! { MACHINE_CHECK "machine-check" Node Node ObserveOrDrain,
    fires "The kernel log reports an uncorrected error of a processor or of memory, or a storm of corrected ones. Or heat at which the kernel shuts the node down.",
    clears "A reboot. A storm of corrected errors: the kernel says of each that it is over, or 6 h without. A page that is no longer used: 24 h without.",
    ignored "Corrected errors, and errors from before the boot that are printed in its first 30 s: counted. Records of an earlier boot. Pages that had failed before."
}
check! { PCIE_ERROR "pcie-error" Pci Node ObserveOrDrain,
    fires "The kernel log reports an uncorrected PCIe error, a device cut off by its port, a slot without power, or access to foreign memory (IOMMU). Or a device that does not answer the IOMMU.",
    clears "A reboot. Errors that are not fatal, and IOMMU faults: 6 h without.",
    ignored "Corrected errors, links of slots that go down or come up: counted. A cut-off triggered by software. A driver that cannot recover its device, without a failed recovery."
}
check! { DISK_ERROR "disk-error" Disk Node ObserveOrDrain,
    fires "The kernel log reports time-outs, resets, I/O or medium errors of a local disk. Or that a disk was given up or not started, or a RAID array of the kernel (md) lacks one.",
    clears "6 h without, medium errors 24 h. A disk that was given up or not started: a reboot. A RAID array: a person.",
    ignored "Commands that a drive does not support. Optical, floppy, loop, memory and network disks, by name. A removable disk counts where the line names only its address. Hardware RAID is not read."
}
check! { FILESYSTEM_ERROR "filesystem-error" Filesystem Node ObserveOrDrain,
    fires "The kernel log reports an error of a local filesystem (ext4, XFS, Btrfs), or that it became read-only or was shut down.",
    clears "A reboot. Checksum errors of Btrfs: 24 h without.",
    ignored "A full disk, errors that Btrfs corrected, the daily repetition of old ext4 errors, a shutdown that a person ordered. Filesystems on loop, memory and network disks."
}
check! { GPU_DRIVER_ERROR "gpu-driver-error" Pci Node ObserveOrDrain,
    fires "The kernel log reports a fault of a GPU other than an Xid. AMD: resets, time-outs, heat, errors of memory, links and other blocks, bad pages, faults found when firmware or a part started, a lost GPU. NVIDIA: a GPU that was not started, versions that differ, an NVSwitch error that stops every NVLink.",
    clears "AMD: a finished reset, or 6 h without. Failed resets, starts and uncorrectable errors: a reboot. NVIDIA: 1 h without, or a reboot. Bad pages: a person.",
    ignored "Xids and lost NVIDIA GPUs: other checks. Other SXids: counted; the GPU reports its link. Corrected errors and page faults of programs: counted."
}
check! { NETWORK_ADAPTER_ERROR "network-adapter-error" Pci Node ObserveOrDrain,
    fires "The kernel log reports a network adapter that does not transmit, is hot, was not started, or has a fault of its cable or module.",
    clears "6 h without, heat 1 h, cables 24 h or until plugged again. An adapter that was not started, or was stopped for heat: a reboot.",
    ignored "Firmware that does not answer: another check. Too little power announced at boot, failed queue pairs of programs: counted."
}
check! { KERNEL_STALL "kernel-stall" Node Node ObserveOrDrain,
    fires "The kernel log reports a task blocked for minutes, a processor or work queue that does not move, or a clock that was given up.",
    clears "6 h without. Blocked tasks and the clock: a reboot, because the kernel stops reporting after ten tasks.",
    ignored "The first clock of a boot (tsc-early)."
}
check! { MEMORY_EXHAUSTED "memory-exhausted" Node Node ObserveOrDrain,
    fires "The kernel killed a program because the node had no memory left.",
    clears "6 h without.",
    ignored "Programs that exceed the memory of their job or cgroup: counted."
}
check! { STORAGE_SERVER "storage-server" Server Shared Observe,
    fires "The kernel log reports a server of NFS or Lustre that does not respond, or refuses or evicted this client. Or lost locks, or a peer that LNet does not reach.",
    clears "The kernel reports it as back, each NFS mount of it answers, or the Lustre target is connected. Evictions, lost locks, peers: 6 h without. Time-outs, Lustre's management server, and faults that were over before a reading: 1 h without.",
    ignored "Single requests that failed: counted. Lines of a server about its clients."
}

/// A line is the fault: no second one need come.
static PACE: Pace = Pace {
    bad: 1,
    bad_span: Duration::ZERO,
    good: 3,
    hold: Duration::from_secs(60),
};

/// What ends a fault that was over before a reading showed it: it may come again.
const BRIEF: Ends = Ends::Quiet(1);

/// The longest line that is stored, in characters.
const MAX_LINE: usize = 200;

/// The last line about a subject.
#[derive(Debug, Serialize, Deserialize)]
struct Last {
    about: KernelLine,
    /// In milliseconds since boot, by the clock of the log.
    at_ms: u64,
    /// When it was heard, in milliseconds since boot, by the clock of readings: the log's may be minutes off.
    #[serde(default)]
    heard_ms: u64,
    count: u64,
    /// How many of these are in the finding. Earlier records do not know it: as many.
    #[serde(default = "all")]
    said: u64,
    /// How many lines of an end came.
    #[serde(default)]
    ends: u64,
    /// How many lines are no further fault: those before a line that ended it before a reading showed it, and repetitions.
    #[serde(default)]
    over: u64,
    /// When a line ended it before a reading showed it, in milliseconds since boot, by the clock of the log.
    #[serde(default)]
    ended_ms: Option<u64>,
    line: String,
}

const fn all() -> u64 {
    u64::MAX
}

struct State {
    check: &'static Check,
    open: Bounded<String, Last, STORED>,
    /// Findings that stand, of which further lines came.
    again: Vec<Finding>,
    /// How long the kernel log has been read.
    log: Watched<()>,
}

impl State {
    fn start(check: &'static Check) -> Box<dyn Watch> {
        Box::new(Self {
            check,
            open: Bounded::default(),
            again: Vec::new(),
            log: Watched::default(),
        })
    }

    /// What ends a fault of this row, if it is one of the check's.
    fn ends(&self, id: &str) -> Option<Ends> {
        match row(id)?.meaning {
            Meaning::Fault { check, ends } if check == self.check.id => Some(ends),
            _ => None,
        }
    }

    fn keys(&self, which: impl Fn(&Last) -> bool) -> Vec<String> {
        let its = self.open.iter().filter(|(_, last)| which(last));
        its.map(|(key, _)| key.clone()).collect()
    }

    fn remove(&mut self, keys: &[String]) {
        for key in keys {
            self.open.remove(key);
        }
    }

    fn key(&self, line: &KernelLine) -> String {
        key(self.check.id, &line.row, &line.subject)
    }
}

/// In place of a name: [`Forget::device`] is the second word of a key.
const NODE: &str = "-";

fn name(subject: &Subject) -> &str {
    if subject.name.is_empty() {
        NODE
    } else {
        &subject.name
    }
}

fn key(check: &str, row: &str, subject: &Subject) -> String {
    format!("{check} {} {row}", name(subject))
}

/// Whether a key of a check is that of a line: its reading is the line itself, which a person's clear takes away.
pub(crate) fn is_line(check: &str, key: &str) -> bool {
    of_key(check, key).is_some()
}

/// The line behind a key.
fn of_key(check: &str, key: &str) -> Option<KernelLine> {
    let (name, id) = key.strip_prefix(check)?.strip_prefix(' ')?.split_once(' ')?;
    let about = row(id)?.about;
    let subject = match name {
        NODE => Subject::node(),
        name => Subject::new(about, name),
    };
    let row = id.to_owned();
    Some(KernelLine { row, subject })
}

impl Watch for State {
    fn hear(&mut self, heard: &Heard<'_>) -> Vec<Said> {
        let line = match &heard.event.body {
            EventBody::Kernel(line) => Some(Cow::Borrowed(line)),
            EventBody::Sxid(sxid) => of_sxid(sxid).map(Cow::Owned),
            _ => None,
        };
        let Some(line) = line else {
            return Vec::new();
        };
        if let Some(Meaning::AllClear(ended)) = row(&line.row).map(|row| row.meaning) {
            for id in ended {
                let of_node = row(id).is_some_and(|row| row.about == SubjectKind::Node);
                let node = Subject::node();
                let subject = if of_node { &node } else { &line.subject };
                let key = key(self.check.id, id, subject);
                let Some(mut last) = self.open.remove(&key) else {
                    continue;
                };
                // Several lines that name no device may be of several devices, of which one is well. An end that names
                // none either is that of one line.
                if line.subject == node {
                    last.ends = last.ends.saturating_add(heard.count());
                }
                if of_node && last.count > last.ends.max(last.over.saturating_add(1)) {
                    self.open.put(key, last);
                } else if last.said == 0 || last.ended_ms.is_some() {
                    // Or what comes and goes between readings would never be shown.
                    last.ended_ms = Some(heard.event.at_us / 1000);
                    (last.over, last.ends) = (last.count, last.count);
                    self.open.put(key, last);
                }
            }
        } else if self.ends(&line.row).is_some()
            && let Some(last) = self.open.slot_or(self.key(&line), || Last::new(&line))
        {
            let at_ms = heard.event.at_us / 1000;
            if line.row == REPEATED {
                let is_first = last.count == 0 || at_ms.saturating_sub(last.at_ms) >= REPEATED_MS;
                last.over = last.over.saturating_add(heard.count() - u64::from(is_first));
            }
            last.at_ms = at_ms;
            last.heard_ms = u64::try_from(heard.now.boottime.as_millis()).unwrap_or(u64::MAX);
            last.count = last.count.saturating_add(heard.count());
            last.line = heard.event.text.chars().take(MAX_LINE).collect();
        }
        Vec::new()
    }

    fn look<'a>(&mut self, judge: &Judge<'a>) -> Vec<Judged<'a>> {
        let log = judge.snapshot.collector("kernel_log");
        let is_read =
            log.is_some_and(|log| log.presence == Presence::Open && matches!(log.watcher, Some(Ok(()))));
        let read_for = is_read.then(|| self.log.read((), judge.since_boot()));
        let is_over = |last: &Last, ends: Ends| match ends {
            Ends::Answer => {
                let since = Duration::from_millis(last.heard_ms.max(last.at_ms));
                let name = &last.about.subject.name;
                let client = Client::of(judge);
                let is_back = mounts::answer(judge.snapshot, name, since)
                    || (client.is_connected(name, since)
                        && (last.about.row != DENIED || !client.has_deactivated(name)));
                is_back.then_some(true)
            }
            Ends::Quiet(hours) => {
                let quiet = hours * HOUR_MS;
                let is_quiet = judge.now_ms().saturating_sub(last.at_ms) >= quiet;
                is_quiet.then_some(read_for.is_some_and(|read| read >= Duration::from_millis(quiet)))
            }
            Ends::Reboot | Ends::Line | Ends::Person => None,
        };
        let (mut all, mut ended, mut heard) = (Vec::new(), Vec::new(), Vec::new());
        for (key, last) in self.open.iter() {
            let Some(ends) = self.ends(&last.about.row) else {
                continue;
            };
            let ends = if last.is_over() { BRIEF } else { ends };
            let reading = match is_over(last, ends) {
                None => Reading::Bad,
                Some(false) => Reading::Unknown,
                Some(true) => {
                    ended.push(key.clone());
                    continue;
                }
            };
            all.push(judged(judge, self.check, key, last, ends, reading));
            // A later line that a reading shows lasts.
            let is_new = last.said != last.count || (last.ended_ms.is_some() && !last.is_over());
            if is_new {
                heard.push(key.clone());
                let more = last.count.saturating_sub(last.said);
                if more > 0 && judge.bad.contains(key) {
                    self.again.push(Finding {
                        count: more,
                        key: Some(key.clone()),
                        ..finding(judge, self.check, last, ends)
                    });
                }
            }
        }
        for key in heard {
            if let Some(mut last) = self.open.remove(&key) {
                last.said = last.count;
                last.ended_ms = last.ended_ms.filter(|_| last.is_over());
                self.open.put(key, last);
            }
            judge.counted();
        }
        if !ended.is_empty() {
            self.remove(&ended);
            judge.counted();
        }
        // What ended: by an all-clear, by silence, or by a reboot.
        for key in judge.bad.iter().filter(|key| self.open.get(*key).is_none()) {
            let about = of_key(self.check.id, key);
            let ends = about.as_ref().and_then(|about| self.ends(&about.row));
            if let (Some(about), Some(ends)) = (about, ends)
                && ends != Ends::Person
            {
                all.push(judged(
                    judge,
                    self.check,
                    key,
                    &Last::new(&about),
                    ends,
                    Reading::Good,
                ));
            }
        }
        all
    }

    fn after(&mut self, _judge: &Judge<'_>) -> Vec<Said> {
        let again = std::mem::take(&mut self.again);
        again.into_iter().map(Said::Again).collect()
    }

    fn rebooted(&mut self) {
        let keys = self.keys(|last| self.ends(&last.about.row) != Some(Ends::Person));
        self.remove(&keys);
    }

    fn forget(&mut self, of: &Forget<'_>) -> bool {
        // Without a repair it ends as its row says, and a further line is new evidence.
        if !of.repaired {
            return false;
        }
        // Those of other incidents of the device stand.
        let own = of.conditions.iter().filter(|(check, _)| check == self.check.id);
        let ended = own.filter(|(_, key)| self.open.remove(key).is_some());
        ended.count() > 0
    }

    fn kept(&mut self) -> Option<&mut dyn Kept> {
        Some(&mut self.open)
    }
}

impl Last {
    fn new(about: &KernelLine) -> Self {
        Self {
            about: about.clone(),
            at_ms: 0,
            heard_ms: 0,
            count: 0,
            said: 0,
            ends: 0,
            over: 0,
            ended_ms: None,
            line: String::new(),
        }
    }

    /// Whether a line ended it before a reading showed it, and no other fault followed.
    fn is_over(&self) -> bool {
        self.ended_ms.is_some_and(|ended| ended >= self.at_ms)
    }
}

fn judged<'a>(
    judge: &Judge<'a>,
    check: &Check,
    key: &str,
    last: &Last,
    ends: Ends,
    reading: Reading,
) -> Judged<'a> {
    let finding = finding(judge, check, last, ends);
    Judged {
        key: key.to_owned(),
        subject: finding.subject.clone(),
        reading,
        at: judge.since_boot(),
        pace: &PACE,
        finding: Box::new(move |_| finding),
    }
}

/// How the rows of AMD's driver begin.
const AMD: &str = "amdgpu-";
/// The driver of a GPU logs it for each command that its firmware does not answer, until it resets the GPU.
const REPEATED: &str = "amdgpu-node-firmware";
/// The client may deactivate the target, which then counts as neither down nor connected.
const DENIED: &str = "lustre-denied";
/// Lines within this time are of one fault.
const REPEATED_MS: u64 = 60 * 1000;
/// A program causes it, such as a container with a library of its own.
const NVIDIA_VERSIONS: &str = "nvidia-versions";

fn finding(judge: &Judge<'_>, check: &Check, last: &Last, ends: Ends) -> Finding {
    let KernelLine { row: id, subject } = &last.about;
    let pci = (subject.kind == SubjectKind::Pci)
        .then(|| PciAddress::parse(&subject.name))
        .flatten();
    // On GPUs incidents are found by their label.
    let gpu = pci.as_ref().filter(|pci| {
        let place = judge.host.place(pci);
        judge.inventory.contains_key(*pci) || matches!(place, Place::Present(_) | Place::Silent)
    });
    let gpu = gpu.map(|pci| Subject::gpu(gpu_label(judge.inventory, pci)));
    let subject = gpu.unwrap_or_else(|| subject.clone());
    Finding {
        pci,
        detail: row(id).map(|row| row.what.to_owned()).unwrap_or_default(),
        remedy: if ends == Ends::Reboot && row(id).is_some_and(|row| !row.follows) {
            Remedy::Reboot
        } else {
            Remedy::Inspect
        },
        // Where the site sets the check: it only observes by default.
        drains: check.scope == Scope::Node && !last.is_over(),
        joins: Joins::Attaches,
        clears: match ends {
            Ends::Reboot => vec![Clear::Reboot],
            Ends::Line => vec![Clear::AllClear, Clear::Reboot],
            Ends::Answer => vec![Clear::AllClear, Clear::Condition, Clear::Reboot],
            Ends::Quiet(_) => vec![Clear::Quiet, Clear::Reboot],
            Ends::Person => vec![Clear::Person],
        },
        count: last.count.max(1),
        evidence: if last.is_over() {
            format!("kernel log: {}; its end was logged before a reading", last.line)
        } else {
            format!("kernel log: {}", last.line)
        },
        comments_only: id.starts_with(AMD) || id == NVIDIA_VERSIONS,
        ..Finding::of_condition(check.id, subject)
    }
}
