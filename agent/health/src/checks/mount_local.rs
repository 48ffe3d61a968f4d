//! Checks `mount-read-only` and `mount-full`: local filesystems that jobs can no longer write.

use std::time::Duration;

use collectors::mounts::metrics::{AVAILABLE, INFO, INODES, INODES_FREE, READ_ONLY, SIZE};
use collectors::{Metric, Subject, SubjectKind};
use model::snapshot::Sample;

use super::{Check, Kept, Looks, May, Scope, Version, Watch};
use crate::bounded::{Bounded, STORED};
use crate::condition::{Judged, Pace, Reading, USUAL};
use crate::finding::{Finding, Remedy};
use crate::judge::{Judge, evidence};
use crate::reads::mounts::answer_age;

/// The row.
pub static READ_ONLY_CHECK: Check = Check {
    id: "mount-read-only",
    subject: SubjectKind::Mount,
    fires_when: "A local filesystem that was writable since it was mounted is read-only.",
    lasting: "2 consecutive readings, at least 10 s",
    clears_when: "3 consecutive readings, at least 60 s, in which it is writable or no longer mounted.",
    ignored_when: "Filesystems that were read-only since nodewarden first read them after they were mounted, and single read-only mounts of a writable filesystem.",
    scope: Scope::Node,
    may: May::CommentOrDrain,
    since: Version(0, 1, 0),
    watch: || Box::<Writable>::default(),
};

/// The row.
pub static FULL_CHECK: Check = Check {
    id: "mount-full",
    subject: SubjectKind::Mount,
    fires_when: "Users may use less than 1 % of the bytes or inodes of a writable local filesystem.",
    lasting: "6 consecutive readings, at least 300 s",
    clears_when: "3 consecutive readings, at least 60 s, with more free.",
    ignored_when: "Parallel and network filesystems, read-only ones, and numbers of inodes that are not fixed.",
    scope: Scope::Node,
    may: May::ObserveOrDrain,
    since: Version(0, 1, 0),
    watch: || Looks::start(full),
};

/// Jobs fill a disk and clean it up. It is read once a minute.
static FULL_PACE: Pace = Pace {
    bad: 6,
    bad_span: Duration::from_secs(300),
    good: 3,
    hold: Duration::from_secs(60),
};

/// The detail of a filesystem that is read-only.
const BECAME: &str = "became read-only";

/// The share below which a filesystem is full.
const FULL: f64 = 0.01;

/// The source of each local filesystem that was writable since it was mounted, by mount point.
#[derive(Default)]
struct Writable(Bounded<String, String, STORED>);

impl Writable {
    /// Another mount at the same point is another filesystem, also with the same source. A bad one is kept until its finding ends.
    fn forget_unmounted(&mut self, judge: &Judge<'_>) {
        let listed: Vec<(&str, &str)> = mounted(judge).collect();
        // Without a list, all is unknown.
        if listed.is_empty() {
            return;
        }
        let is_gone = |(at, source): &(&String, &String)| {
            !listed.contains(&(at.as_str(), source.as_str()))
                && !judge.bad.contains(&key(&READ_ONLY_CHECK, at, BECAME))
        };
        let gone: Vec<String> = self.0.iter().filter(is_gone).map(|(at, _)| at.clone()).collect();
        for at in gone {
            self.0.remove(&at);
            judge.counted();
        }
    }
}

impl Watch for Writable {
    fn look<'a>(&mut self, judge: &Judge<'a>) -> Vec<Judged<'a>> {
        self.forget_unmounted(judge);
        let mut judged = Vec::new();
        for sample in local(judge, &READ_ONLY) {
            let point = point(&sample);
            let Some((_, source)) = mounted(judge).find(|(at, _)| *at == point) else {
                continue;
            };
            let is_read_only = sample.as_f64() > 0.0;
            if !is_read_only && self.0.set(point.to_owned(), source.to_owned()) {
                judge.counted();
            }
            let reading = match (is_read_only, self.0.get(point)) {
                (false, _) => Reading::Good,
                (true, Some(of)) if of == source => Reading::Bad,
                // The one that was writable is no longer mounted.
                (true, Some(_)) => Reading::Good,
                (true, None) => Reading::Unknown,
            };
            let found = Found {
                check: &READ_ONLY_CHECK,
                pace: &USUAL,
                detail: BECAME,
                at: judge.read_at(&sample),
                evidence: evidence(&sample, "0"),
            };
            judged.push(found.judged(point, reading));
        }
        judged.extend(unmounted(judge, &READ_ONLY_CHECK, &USUAL));
        judged
    }

    fn rebooted(&mut self) {
        self.0.clear();
    }

    fn kept(&mut self) -> Option<&mut dyn Kept> {
        Some(&mut self.0)
    }
}

/// The smaller of two shares decides.
fn full<'a>(judge: &Judge<'a>, (): &mut ()) -> Vec<Judged<'a>> {
    let mut judged = Vec::new();
    let read_only: Vec<&str> = local(judge, &READ_ONLY)
        .filter(|sample| sample.as_f64() > 0.0)
        .map(|sample| point(&sample))
        .collect();
    for (whole, free, detail) in [
        (&SIZE, &AVAILABLE, "less than 1 % of the bytes free"),
        (&INODES, &INODES_FREE, "less than 1 % of the inodes free"),
    ] {
        for sample in local(judge, free).filter(|sample| !read_only.contains(&point(sample))) {
            let at = point(&sample);
            let whole = judge.snapshot.samples(whole).find(|s| point(s) == at);
            let Some(whole) = whole.map(|s| s.as_f64()).filter(|whole| *whole > 0.0) else {
                continue;
            };
            let is_full = sample.as_f64() < FULL * whole;
            let found = Found {
                check: &FULL_CHECK,
                pace: &FULL_PACE,
                detail,
                at: judge
                    .read_at(&sample)
                    .saturating_sub(answer_age(judge.snapshot, at)),
                evidence: evidence(&sample, &format!("at least {:.0}", FULL * whole)),
            };
            let reading = if is_full { Reading::Bad } else { Reading::Good };
            judged.push(found.judged(at, reading));
        }
    }
    judged.extend(unmounted(judge, &FULL_CHECK, &FULL_PACE));
    judged
}

/// The samples of a metric whose filesystem is local.
fn local<'a>(judge: &Judge<'a>, metric: &'static Metric) -> impl Iterator<Item = Sample<'a>> {
    let local: Vec<&str> = (judge.snapshot.samples(&INFO))
        .filter(|sample| sample.label("class") == Some("local"))
        .map(|sample| point(&sample))
        .collect();
    let samples = judge.snapshot.samples(metric);
    samples.filter(move |sample| local.contains(&point(sample)))
}

fn point<'a>(sample: &Sample<'a>) -> &'a str {
    sample.label("mountpoint").unwrap_or_default()
}

/// The mount point and source of each listed filesystem.
fn mounted<'a>(judge: &Judge<'a>) -> impl Iterator<Item = (&'a str, &'a str)> {
    let all = judge.snapshot.samples(&INFO);
    all.map(|sample| (point(&sample), sample.label("source").unwrap_or_default()))
}

fn key(check: &Check, point: &str, detail: &str) -> String {
    format!("{} {point} {detail}", check.id)
}

struct Found {
    check: &'static Check,
    pace: &'static Pace,
    detail: &'static str,
    /// When it was read: a reading is shown for a minute, and counts once.
    at: Duration,
    evidence: String,
}

impl Found {
    fn judged<'a>(self, point: &str, reading: Reading) -> Judged<'a> {
        let subject = Subject::new(SubjectKind::Mount, point);
        let of = subject.clone();
        Judged {
            key: key(self.check, point, self.detail),
            subject,
            reading,
            at: self.at,
            pace: self.pace,
            finding: Box::new(move |_| Finding {
                detail: self.detail.to_owned(),
                remedy: Remedy::Inspect,
                drains: true,
                evidence: self.evidence,
                ..Finding::of_condition(self.check.id, of)
            }),
        }
    }
}

/// Conditions of filesystems that are no longer mounted end.
fn unmounted<'a>(judge: &Judge<'a>, check: &'static Check, pace: &'static Pace) -> Vec<Judged<'a>> {
    let mut all = judge.snapshot.samples(&INFO).peekable();
    // Without a list, all is unknown.
    let Some(at) = all.peek().map(|sample| judge.read_at(sample)) else {
        return Vec::new();
    };
    let listed: Vec<&str> = all.map(|sample| point(&sample)).collect();
    let start = format!("{} ", check.id);
    let is_gone = |key: &&String| {
        let rest = key.strip_prefix(&start);
        rest.is_some_and(|rest| {
            !listed
                .iter()
                .any(|at| rest.strip_prefix(at).is_some_and(|r| r.starts_with(' ')))
        })
    };
    let gone = judge.bad.iter().filter(is_gone);
    gone.map(|key| {
        let subject = Subject::new(SubjectKind::Worker, "mounts");
        Judged {
            key: key.clone(),
            subject: subject.clone(),
            reading: Reading::Good,
            at,
            pace,
            finding: Box::new(move |_| Finding::of_condition(check.id, subject)),
        }
    })
    .collect()
}
