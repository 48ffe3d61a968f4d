//! Checks `nvme-failing` and `nvme-worn`: what local NVMe drives report about themselves, and controllers that the kernel gave
//! up. A drive that leaves the bus is in the kernel log: `disk-error`.

use std::time::Duration;

use collectors::nvme::metrics::{CRITICAL_WARNING, STATE, USED};
use collectors::{Metric, PciAddress, Subject, SubjectKind};
use model::snapshot::Sample;

use super::{Check, Looks, May, Scope, Version};
use crate::condition::{Judged, Pace, Reading};
use crate::finding::{Finding, Remedy};
use crate::judge::{Judge, evidence};
use crate::reads::gpu::whole;

/// The row of critical warnings.
pub static FAILING: Check = Check {
    id: "nvme-failing",
    subject: SubjectKind::Disk,
    fires_when: "A local NVMe drive reports a critical warning: spare below its threshold, reliability degraded, read-only, or a failed memory backup. Or the kernel gave up its controller (state dead).",
    lasting: "7 readings, at least 360 s, none in between without the fault. Unreadable ones do not restart the count for up to 24 h",
    clears_when: "3 consecutive readings, at least 60 s, without the warning and with a live controller, usually of a new drive in the slot.",
    ignored_when: "The warning about temperature. Drives behind a network. SMART logs that cannot be read.",
    scope: Scope::Node,
    may: May::CommentOrDrain,
    since: Version(0, 1, 0),
    watch: || Looks::bridging(BRIDGES, failing),
};

/// The row of wear.
pub static WORN: Check = Check {
    id: "nvme-worn",
    subject: SubjectKind::Disk,
    fires_when: "The vendor's estimate of the used life of a local NVMe drive (Percentage Used) is 100 % or more.",
    lasting: "7 readings, at least 360 s, none in between without the fault. Unreadable ones do not restart the count for up to 24 h",
    clears_when: "3 consecutive readings, at least 60 s, below 100 %: a new drive in the slot.",
    ignored_when: "Drives behind a network. SMART logs that cannot be read.",
    scope: Scope::Node,
    // It is an estimate: the drive still works.
    may: May::ObserveOrDrain,
    since: Version(0, 1, 0),
    watch: || Looks::bridging(BRIDGES, worn),
};

/// Logs are read every 5 min, and shown each minute: the span covers two.
static PACE: Pace = Pace {
    bad: 7,
    bad_span: Duration::from_secs(360),
    good: 3,
    hold: Duration::from_secs(60),
};

/// A drive that fails may also not answer now and then.
const BRIDGES: Duration = Duration::from_secs(24 * 3600);

/// Bits of the critical warning, and the details of their findings.
const WARNINGS: [(u64, &str); 5] = [
    (1 << 3, "media are read-only"),
    (1 << 2, "reliability degraded"),
    (1 << 0, "spare below threshold"),
    (1 << 4, "volatile memory backup failed"),
    (1 << 5, "persistent memory region unreliable"),
];

/// The detail of a controller that Linux gave up after a failed reset. Newer kernels keep it in the list.
const DEAD: &str = "controller dead";

fn failing<'a>(judge: &Judge<'a>, (): &mut ()) -> Vec<Judged<'a>> {
    let mut judged = Vec::new();
    for sample in judge.snapshot.samples(&CRITICAL_WARNING) {
        let Some(bits) = whole(Some(&sample)) else {
            continue;
        };
        for (bit, detail) in WARNINGS {
            let is_bad = bits & bit != 0;
            let expected = format!("bit {bit} not set");
            judged.extend(condition(judge, &FAILING, &sample, (is_bad, detail), &expected));
        }
    }
    for sample in judge.snapshot.samples(&STATE) {
        // Between these two a controller starts, is reset or leaves.
        let is_dead = match sample.label("state") {
            Some("dead") => true,
            Some("live") => false,
            _ => continue,
        };
        judged.extend(condition(judge, &FAILING, &sample, (is_dead, DEAD), "state live"));
    }
    judged
}

fn worn<'a>(judge: &Judge<'a>, (): &mut ()) -> Vec<Judged<'a>> {
    let of = |metric: &'static Metric| judge.snapshot.samples(metric);
    let judged = of(&USED).filter_map(|sample| {
        let is_bad = sample.as_f64() >= 1.0;
        condition(
            judge,
            &WORN,
            &sample,
            (is_bad, "rated endurance used"),
            "less than 1",
        )
    });
    judged.collect()
}

/// By PCI address, because the kernel's numbers change. `None`: a drive without one.
fn condition<'a>(
    judge: &Judge<'a>,
    check: &'static Check,
    sample: &Sample<'a>,
    (is_bad, detail): (bool, &'static str),
    expected: &str,
) -> Option<Judged<'a>> {
    let pci = PciAddress::parse(sample.label("pci")?)?;
    let subject = Subject::new(SubjectKind::Disk, sample.label("device")?);
    let of = subject.clone();
    let evidence = evidence(sample, expected);
    Some(Judged {
        key: format!("{} {pci} {detail}", check.id),
        subject,
        reading: if is_bad { Reading::Bad } else { Reading::Good },
        at: judge.read_at(sample),
        pace: &PACE,
        finding: Box::new(move |_| Finding {
            pci: Some(pci),
            detail: detail.to_owned(),
            remedy: Remedy::Inspect,
            drains: true,
            evidence,
            ..Finding::of_condition(check.id, of)
        }),
    })
}
