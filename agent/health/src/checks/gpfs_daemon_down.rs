//! Check `gpfs-daemon-down`: GPFS was in use in this boot, and its daemon no longer runs.

use std::time::Duration;

use collectors::gpfs::metrics::DAEMON_UP;
use collectors::{Subject, SubjectKind};
use serde::{Deserialize, Serialize};

use super::gpfs::COLLECTOR;
use super::{Check, Kept, May, Scope, Version, Watch};
use crate::condition::{Judged, Pace, Reading};
use crate::finding::{Finding, Remedy};
use crate::judge::{Judge, evidence};

/// The row.
pub static CHECK: Check = Check {
    id: "gpfs-daemon-down",
    subject: SubjectKind::Node,
    fires_when: "The GPFS daemon (mmfsd) answered earlier in this boot. Now no process listens on its socket, or it does not answer in 2 s.",
    lasting: "8 consecutive readings, at least 120 s",
    clears_when: "3 consecutive readings, at least 60 s, in which the daemon answers.",
    ignored_when: "A daemon that was not started since the boot. Missing permission: shown, no finding.",
    scope: Scope::Shared,
    may: May::CommentOrDrain,
    since: Version(0, 1, 0),
    watch: || Box::<DaemonSeen>::default(),
};

/// Longer than a restart of the daemon.
static PACE: Pace = Pace {
    bad: 8,
    bad_span: Duration::from_secs(120),
    good: 3,
    hold: Duration::from_secs(60),
};

/// Whether the daemon ran in this boot.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
struct DaemonSeen(bool);

impl Watch for DaemonSeen {
    fn look<'a>(&mut self, judge: &Judge<'a>) -> Vec<Judged<'a>> {
        let Some((is_up, detail, evidence)) = state(judge) else {
            return Vec::new();
        };
        if is_up && !self.0 {
            self.0 = true;
            judge.counted();
        }
        let reading = match (is_up, self.0) {
            (true, _) => Reading::Good,
            (false, true) => Reading::Bad,
            (false, false) => Reading::Unknown,
        };
        vec![Judged {
            key: CHECK.id.to_owned(),
            subject: Subject::node(),
            reading,
            at: judge.snapshot.at,
            pace: &PACE,
            finding: Box::new(move |_| Finding {
                detail: detail.to_owned(),
                remedy: Remedy::Inspect,
                evidence,
                drains: true,
                ..Finding::of_condition(CHECK.id, Subject::node())
            }),
        }]
    }

    fn rebooted(&mut self) {
        self.0 = false;
    }

    fn kept(&mut self) -> Option<&mut dyn Kept> {
        Some(self)
    }
}

/// Whether the daemon answers. `None`: not read.
pub(super) fn answers(judge: &Judge<'_>) -> Option<bool> {
    state(judge).map(|(is_up, ..)| is_up)
}

/// Whether the daemon answers, the detail of a finding, and the evidence. `None`: not read.
fn state(judge: &Judge<'_>) -> Option<(bool, &'static str, String)> {
    if let Some(sample) = judge.snapshot.samples(&DAEMON_UP).next() {
        let is_up = sample.as_f64() > 0.0;
        return Some((is_up, "mmfsd does not run", evidence(&sample, "1")));
    }
    let collector = judge.snapshot.collector(COLLECTOR)?;
    let mut devices = collector.devices.iter();
    let daemon = devices.find(|device| device.subject == Subject::node())?;
    let (reason, text) = daemon.error.as_ref()?;
    (reason == "timeout").then(|| (false, "mmfsd does not answer", text.clone()))
}
