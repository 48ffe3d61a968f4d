//! Check `lustre-evicted`: a server of Lustre has thrown this client out. Its locks and unsaved writes are lost.

use std::time::Duration;

use collectors::lustre::metrics::{EVICTIONS, LAST_EVICTION};
use collectors::{Subject, SubjectKind};

use super::growth::HOUR_MS;
use super::lustre::Client;
use super::{Check, May, Scope, Version, Watch};
use crate::bounded::{Bounded, COUNTERS};
use crate::condition::{Judged, Reading, USUAL, device_of};
use crate::counts::{Counters, Times, Watched};
use crate::finding::{Finding, Joins, Remedy};
use crate::judge::{Judge, evidence};
use model::snapshot::Sample;

/// The row.
pub static CHECK: Check = Check {
    id: "lustre-evicted",
    subject: SubjectKind::Filesystem,
    fires_when: "The history of a connection of a Lustre client shows a new eviction. The server has dropped the client's locks; writes that it had not received are lost.",
    lasting: "2 consecutive readings, at least 10 s",
    clears_when: "1 h without another eviction, or the filesystem is not mounted, confirmed by 3 consecutive readings, at least 60 s.",
    ignored_when: "Evictions before nodewarden began to read the filesystem, or from before a reading that did not show them.",
    // After a server has lost its record of clients, it evicts all.
    scope: Scope::Shared,
    may: May::Comment,
    since: Version(0, 1, 0),
    watch: || Box::<State>::default(),
};

/// This time without an eviction ends the finding.
const QUIET_MS: u64 = HOUR_MS;

#[derive(Default)]
struct State {
    times: Times,
    /// The number of evictions (false), and the time of the last one (true), of each filesystem.
    counters: Counters<(String, bool)>,
    watched: Watched<String>,
    /// The wall-clock time of the last reading of each filesystem, in seconds, rounded down.
    read: Bounded<String, u64, COUNTERS>,
}

impl Watch for State {
    fn look<'a>(&mut self, judge: &Judge<'a>) -> Vec<Judged<'a>> {
        let client = Client::of(judge);
        let mut judged: Vec<Judged<'a>> = Vec::new();
        for sample in client.all(&EVICTIONS) {
            let Some(fs) = sample.label("fs") else { continue };
            let at = client.read_at(sample);
            let watched = self.watched.read(fs.to_owned(), at);
            let of_fs = |sample: &&Sample<'_>| sample.label("fs") == Some(fs);
            // The time shows an eviction while the worker was restarted; the number shows several at one time.
            let last = client.all(&LAST_EVICTION).find(of_fs);
            let time = last.map_or(0, |sample| whole(sample.as_f64()));
            // A reading that does not have an earlier one shows that it is none: the client marks its own connection so after an
            // administrator has switched a target on again, and only the worker that read it meanwhile leaves that out.
            let before = self.read.put(fs.to_owned(), read_at(judge, sample));
            let is_new = judge.is_replayed || before.is_some_and(|before| time >= before);
            let later = self.counters.growth((fs.to_owned(), true), time) > 0 && is_new;
            let more = self
                .counters
                .growth((fs.to_owned(), false), whole(sample.as_f64()));
            self.times
                .note(judge, fs, "evictions", more.max(u64::from(later)));
            let times = self.times.of(fs, "evictions", QUIET_MS, judge.now_ms());
            let reading = match () {
                () if !times.is_empty() => Reading::Bad,
                () if watched >= Duration::from_millis(QUIET_MS) => Reading::Good,
                () => Reading::Unknown,
            };
            let line = evidence(last.unwrap_or(sample), "no later one");
            let line = format!("{line}; {} within 1 h", times.len());
            judged.push(of(fs, reading, at, line));
        }
        for key in &judge.bad {
            let fs = device_of(CHECK.id, key).to_owned();
            let is_listed = judged.iter().any(|one| one.key == *key);
            if let (false, true, Some(at)) = (is_listed, client.is_unmounted(&fs), client.network) {
                judged.push(of(&fs, Reading::Good, at, String::new()));
            }
        }
        judged
    }

    fn times(&mut self) -> Option<&mut Times> {
        Some(&mut self.times)
    }
}

/// When a sample was read, as Unix time in seconds, rounded down.
fn read_at(judge: &Judge<'_>, sample: &Sample<'_>) -> u64 {
    let now = u64::try_from(judge.now.wall).unwrap_or_default();
    now.saturating_sub(sample.age.as_secs() + 1)
}

/// A count or a time, which are whole numbers.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a whole number that is not negative"
)]
fn whole(value: f64) -> u64 {
    value as u64
}

fn of<'a>(fs: &str, reading: Reading, at: Duration, evidence: String) -> Judged<'a> {
    let subject = Subject::new(SubjectKind::Filesystem, fs);
    let finding = Finding {
        detail: "client evicted".to_owned(),
        remedy: Remedy::Inspect,
        drains: true,
        joins: Joins::Attaches,
        evidence,
        ..Finding::of_condition(CHECK.id, subject.clone())
    };
    Judged {
        key: format!("{} {fs}", CHECK.id),
        subject,
        reading,
        at,
        pace: &USUAL,
        finding: Box::new(move |_| finding),
    }
}
