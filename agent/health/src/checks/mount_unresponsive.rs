//! Check `mount-unresponsive`: the probe of a mounted filesystem fails or does not return.

use std::collections::{BTreeMap, BTreeSet};

use collectors::mounts::metrics::INFO;
use collectors::{SubjectKind, domain};

use super::unreadable::{self, Meaning, Rule};
use super::{Check, Looks, May, Scope, Version};
use crate::condition::{Judged, Reading};
use crate::judge::Judge;
use crate::reads::mounts::server;

/// The row.
pub static CHECK: Check = Check {
    id: "mount-unresponsive",
    subject: SubjectKind::Mount,
    fires_when: "The probe of a mounted filesystem fails (stale file handle, I/O error), takes longer than 3 s, or does not return for 125 s.",
    lasting: "8 consecutive readings, at least 120 s",
    clears_when: "3 consecutive readings, at least 60 s, in which the probe returns in time, or the filesystem is no longer mounted.",
    ignored_when: "Mount points that nodewarden's user may not reach, FUSE mounts of users. Probes whose thread waits for a processor. Late probes: at most a comment.",
    // The server's fault more often than the node's.
    scope: Scope::Shared,
    may: May::CommentOrDrain,
    since: Version(0, 1, 0),
    watch: || Looks::start(|judge, ()| conditions(judge)),
};

static RULE: Rule = Rule {
    id: CHECK.id,
    covers: |collector| std::ptr::eq(collector.spec.domain, &domain::MOUNTS),
    kind: SubjectKind::Mount,
    in_use: |_, _| true,
    means: |reason| match reason {
        // A folder of root's, or an unmount between two readings.
        "denied" | "gone" | "not_recorded" => Meaning::Other,
        "slow" => Meaning::Comment,
        _ => Meaning::Fault,
    },
    late: Meaning::Comment,
};

/// The conditions of all filesystems. One of a server names it, with how many of its judged mounts fail.
fn conditions<'a>(judge: &Judge<'a>) -> Vec<Judged<'a>> {
    let judged = unreadable::conditions(judge, &RULE);
    let samples: Vec<_> = judge.snapshot.samples(&INFO).collect();
    let listed = samples.iter().filter_map(|sample| {
        let label = |name| sample.label(name).unwrap_or_default();
        Some((label("mountpoint"), server(label("fstype"), label("source"))?))
    });
    let servers: BTreeMap<&str, &str> = listed.collect();
    let names = |of: &dyn Fn(&Judged<'_>) -> bool| -> BTreeSet<String> {
        let of = judged.iter().filter(|one| of(one));
        of.map(|one| one.subject.name.clone()).collect()
    };
    let all = names(&|_| true);
    let bad = names(&|one| one.reading == Reading::Bad);
    let named = judged.into_iter().map(|one| {
        let Some(server) = servers.get(one.subject.name.as_str()) else {
            return one;
        };
        let of_it = || {
            all.iter()
                .filter(|name| servers.get(name.as_str()) == Some(server))
        };
        let faulty = of_it().filter(|name| bad.contains(*name)).count();
        let how_many = format!("; {faulty} of {} mounts of server {server} fail", of_it().count());
        let whose = format!(" (server {server})");
        let finding = one.finding;
        Judged {
            finding: Box::new(move |run| {
                let mut found = finding(run);
                found.detail.push_str(&whose);
                // The number varies, and equal findings have equal details.
                found.evidence.push_str(&how_many);
                found
            }),
            ..one
        }
    });
    named.collect()
}
