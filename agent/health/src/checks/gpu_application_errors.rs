//! Check `gpu-application-errors`: application Xids that follow one GPU instead of one program.

use std::collections::BTreeSet;
use std::time::Duration;

use collectors::{Subject, SubjectKind};

use super::gpu::{found, key};
use super::gpu_ecc::ONCE;
use super::{Check, Forget, Heard, Kept, May, Said, Scope, Version, Watch, xid};
use crate::condition::{Judged, Reading};
use crate::finding::{Finding, Remedy};
use crate::hits::{Hit, Hits, Suspicion, Victim, suspicion};
use crate::judge::Judge;
use crate::reads::gpu::Gpu;
use crate::reads::gpu_process::some;
use crate::xids::{Class, Row, Table};
use model::derive::xid::Inventory;
use model::ownership::Timeline;

/// The row.
pub static CHECK: Check = Check {
    id: "gpu-application-errors",
    subject: SubjectKind::Gpu,
    fires_when: "Application Xids within 24 h on one GPU: jobs of 3 users, or of 2 users if one used another GPU too. Also, if another GPU was in use: 2 runs of a job, or 3 occasions of one code, 60 s apart.",
    lasting: "immediately",
    clears_when: "3 consecutive readings, at least 60 s, with fewer Xids in the last 24 h, or after a GPU reset or replacement, or a reboot.",
    ignored_when: "Users with application Xids on another GPU, runs with hardware Xids, and Xids that match no single run. Jobs of several users that implicate at least half of the GPUs.",
    scope: Scope::Node,
    // Statistical evidence only: an operator tests the GPU before a drain.
    may: May::Comment,
    since: Version(0, 1, 0),
    watch: || Box::<State>::default(),
};

/// Xids by the job run that they hit.
#[derive(Default)]
struct State(Hits);

impl Watch for State {
    fn look<'a>(&mut self, judge: &Judge<'a>) -> Vec<Judged<'a>> {
        conditions(judge, &mut self.0)
    }

    fn hear(&mut self, heard: &Heard<'_>) -> Vec<Said> {
        let Some(xid) = xid::of(heard.event) else {
            return Vec::new();
        };
        let row = heard.site.xids.row(xid.code);
        let counts = |row: &Row| row.class != Class::Info && !row.is_well(&xid);
        if heard.new > 0 && !heard.is_old() && row.is_some_and(counts) {
            self.0.came(Hit {
                pci: xid.pci.clone(),
                code: xid.code,
                instance: xid.instance(),
                from: heard.from,
                to: heard.now.boottime,
                count: heard.new,
            });
        }
        Vec::new()
    }

    fn runs(&mut self, runs: &Timeline, inventory: &Inventory, now: Duration) -> bool {
        self.0.looked(runs, inventory, now)
    }

    fn remedied(&mut self, subject: &Subject, until_ms: u64) -> bool {
        self.0.forget(&subject.name, until_ms)
    }

    fn rebooted(&mut self) {
        self.0.rebooted();
    }

    fn forget(&mut self, of: &Forget<'_>) -> bool {
        self.0.forget(&of.subject.name, u64::MAX)
    }

    fn kept(&mut self) -> Option<&mut dyn Kept> {
        Some(&mut self.0)
    }
}

fn conditions<'a>(judge: &Judge<'a>, hits: &mut Hits) -> Vec<Judged<'a>> {
    hits.age(judge.now_ms());
    let table = &judge.site.xids;
    let hits = hits.runs();
    let gpus: Vec<&Gpu<'a>> = judge
        .gpus
        .iter()
        .filter(|gpu| gpu.is_up() == Some(true))
        .collect();
    let against: Vec<Option<Suspicion<'_>>> = gpus
        .iter()
        .map(|gpu| suspicion(hits, &gpu.label, |code| is_app(table, code)))
        .collect();
    let by_users = against.iter().flatten().filter(|s| s.by_users).count();
    let is_common = by_users >= 2 && by_users * 2 >= gpus.len();
    let mut judged = Vec::new();
    for (gpu, against) in gpus.iter().zip(against) {
        let against = against.filter(|s| !(s.by_users && is_common));
        let reading = match against {
            Some(_) => Reading::Bad,
            None => Reading::Good,
        };
        let finding = finding(table, gpu, against.map(|s| s.runs).unwrap_or_default());
        judged.push(Judged {
            key: key(CHECK.id, gpu, ""),
            subject: gpu.subject(),
            reading,
            at: gpu.at,
            pace: &ONCE,
            finding: Box::new(move |_| finding),
        });
    }
    judged
}

/// Whether a code is an application error (`true`) or a hardware error (`false`). `None`: neither.
fn is_app(table: &Table, code: u32) -> Option<bool> {
    match table.row(code)?.class {
        Class::App => Some(true),
        Class::Gpu | Class::Link | Class::Node => Some(false),
        Class::Info => None,
    }
}

fn finding(table: &Table, gpu: &Gpu<'_>, mut runs: Vec<&Victim>) -> Finding {
    runs.sort_by_key(|v| v.run.start);
    let words: Vec<String> = runs.iter().map(|v| words(table, &gpu.label, v)).collect();
    let jobs: BTreeSet<String> = runs.iter().map(|v| v.run.job.clone()).collect();
    Finding {
        detail: "application errors on this GPU alone".to_owned(),
        remedy: Remedy::Inspect,
        evidence: format!(
            "test it with dcgmi diag -r 3 and compare nvidia-smi -q with another's, then drain by hand; gpu_xid_errors_total{{gpu={:?}}} of 24 hours, expected on no GPU alone: {}",
            gpu.label,
            some(&words),
        ),
        jobs: jobs.into_iter().collect(),
        ..found(gpu, CHECK.id)
    }
}

/// `job 7 of user 1000 begun 1700000000: xid31 x2, none on 3 more in use`.
fn words(table: &Table, gpu: &str, victim: &Victim) -> String {
    let codes = victim.gpus.get(gpu).into_iter().flat_map(|part| &part.codes);
    let codes = codes.filter(|(code, _)| is_app(table, **code) == Some(true));
    let codes: Vec<String> = codes
        .map(|(code, times)| format!("xid{code} x{}", times.count))
        .collect();
    let user = match victim.user.as_str() {
        "" => String::new(),
        user => format!(" of user {user}"),
    };
    let others = victim
        .gpus
        .iter()
        .filter(|(label, part)| *label != gpu && part.used)
        .count();
    let others = match others {
        0 => String::new(),
        others => format!(", none on {others} more in use"),
    };
    format!(
        "job {}{user} begun {}: {}{others}",
        victim.run.job,
        victim.run.start,
        codes.join(" ")
    )
}
