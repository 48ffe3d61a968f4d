//! Check `lustre-target-unreachable`: the client has no working connection to targets of a filesystem.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use collectors::lustre::metrics::{SERVER_FAULTY, SERVER_TARGETS, TARGET_STATE};
use collectors::{Subject, SubjectKind};

use super::lustre::Client;
use super::{Check, Looks, May, Scope, Version};
use crate::condition::{Judged, Pace, Reading, device_of};
use crate::finding::{Finding, Remedy};
use crate::judge::{Judge, evidence};
use model::snapshot::Sample;

/// The row.
pub static CHECK: Check = Check {
    id: "lustre-target-unreachable",
    subject: SubjectKind::Server,
    fires_when: "The connection of a Lustre client to an MDT or OST is neither FULL nor IDLE. If this holds for all of at least 2 targets of a server, the finding is about the server.",
    lasting: "8 consecutive readings, at least 105 s",
    clears_when: "3 consecutive readings, at least 30 s, in which the connection is FULL or IDLE, or the filesystem is not mounted.",
    ignored_when: "Connections that were closed because they were idle. Targets that an administrator has deactivated. States that cannot be read.",
    // Every client of the server sees the same.
    scope: Scope::Shared,
    may: May::Comment,
    since: Version(0, 1, 0),
    watch: || Looks::start(conditions),
};

/// Readings come every 15 s. A server that restarts is back within minutes.
static PACE: Pace = Pace {
    bad: 8,
    bad_span: Duration::from_secs(105),
    good: 3,
    hold: Duration::from_secs(30),
};
/// The most targets that the evidence of a server lists.
const LISTED: usize = 8;

/// A target whose connection does not work.
struct Target<'a> {
    fs: &'a str,
    name: &'a str,
    server: &'a str,
    at: Duration,
    evidence: String,
}

fn conditions<'a>(judge: &Judge<'a>, (): &mut ()) -> Vec<Judged<'a>> {
    let client = Client::of(judge);
    let named = client.all(&TARGET_STATE).filter_map(|sample| {
        Some(Target {
            fs: sample.label("fs")?,
            name: sample.label("target")?,
            server: sample.label("server")?,
            at: client.read_at(sample),
            evidence: evidence(sample, "FULL or IDLE"),
        })
    });
    let targets: Vec<Target<'a>> = named.collect();
    let all_of = |metric| -> BTreeMap<(&str, &str), &Sample<'a>> {
        let samples = client.all(metric);
        samples
            .filter_map(|sample| Some(((sample.label("server")?, sample.label("fs")?), sample)))
            .collect()
    };
    // Of a server whose targets are too many to be named, the counts say the same.
    let (all, mut of_server) = (all_of(&SERVER_TARGETS), all_of(&SERVER_FAULTY));
    of_server.retain(|of, faulty| {
        let all = all.get(of).map_or(f64::MAX, |all| all.as_f64());
        faulty.as_f64() >= 2.0 && faulty.as_f64() >= all
    });
    let mut judged = Vec::new();
    for (of, faulty) in &of_server {
        let named = targets.iter().filter(|target| (target.server, target.fs) == *of);
        let named: Vec<&Target<'a>> = named.collect();
        judged.push(server_down(
            *of,
            &named,
            (faulty.as_f64(), client.read_at(faulty)),
        ));
    }
    for target in &targets {
        // The finding is about its server.
        let is_of_server = of_server.contains_key(&(target.server, target.fs));
        let reading = if is_of_server {
            Reading::Unknown
        } else {
            Reading::Bad
        };
        judged.push(target_down(target, reading));
    }
    let listed: BTreeSet<String> = judged.iter().map(|one| one.key.clone()).collect();
    let over = judge.bad.iter().filter(|key| !listed.contains(*key));
    judged.extend(over.filter_map(|key| is_over(key, &client)));
    judged
}

fn server_down<'a>(
    (server, fs): (&str, &str),
    named: &[&Target<'a>],
    (faulty, at): (f64, Duration),
) -> Judged<'a> {
    let subject = Subject::new(SubjectKind::Server, server);
    let lines: Vec<&str> = named.iter().take(LISTED).map(|t| t.evidence.as_str()).collect();
    let mut evidence = format!("all {faulty} targets of {fs} that {server} serves");
    if !lines.is_empty() {
        evidence.push_str(&format!(": {}", lines.join("; ")));
    }
    let more = faulty - lines.len() as f64;
    if more > 0.0 && !lines.is_empty() {
        evidence.push_str(&format!("; and {more} more"));
    }
    let finding = Finding {
        detail: format!("no connection to any of its targets of {fs}"),
        remedy: Remedy::Inspect,
        drains: true,
        evidence,
        ..Finding::of_condition(CHECK.id, subject.clone())
    };
    Judged {
        key: format!("{} {server} {fs}", CHECK.id),
        subject,
        reading: Reading::Bad,
        at,
        pace: &PACE,
        finding: Box::new(move |_| finding),
    }
}

fn target_down<'a>(target: &Target<'a>, reading: Reading) -> Judged<'a> {
    let subject = Subject::new(SubjectKind::Server, target.name);
    let finding = Finding {
        detail: "no connection".to_owned(),
        remedy: Remedy::Inspect,
        drains: true,
        evidence: target.evidence.clone(),
        ..Finding::of_condition(CHECK.id, subject.clone())
    };
    Judged {
        key: format!("{} {}", CHECK.id, target.name),
        subject,
        reading,
        at: target.at,
        pace: &PACE,
        finding: Box::new(move |_| finding),
    }
}

/// A bad condition that this reading does not show.
fn is_over<'a>(key: &str, client: &Client<'a>) -> Option<Judged<'a>> {
    let device = device_of(CHECK.id, key);
    // `<server> <fs>`, or `<fs>-OST0003`
    let fs = match key.strip_prefix(CHECK.id)?.trim_start().split_once(' ') {
        Some((_, fs)) => fs,
        None => device.rsplit_once('-')?.0,
    };
    let (reading, at) = match (client.filesystems.get(fs), client.network) {
        (Some(at), _) if client.is_complete(fs) => (Reading::Good, *at),
        (Some(at), _) => (Reading::Unknown, *at),
        (None, Some(at)) if client.is_unmounted(fs) => (Reading::Good, at),
        (None, _) => return None,
    };
    let subject = Subject::new(SubjectKind::Server, device);
    let finding = Finding::of_condition(CHECK.id, subject.clone());
    Some(Judged {
        key: key.to_owned(),
        subject,
        reading,
        at,
        pace: &PACE,
        finding: Box::new(move |_| finding),
    })
}
