//! Check `lustre-lnet-down`: a network interface of LNet is down, so that Lustre cannot use it.

use std::time::Duration;

use collectors::lustre::metrics::NI_UP;
use collectors::{Subject, SubjectKind};

use super::lustre::Client;
use super::{Check, Looks, May, Scope, Version};
use crate::condition::{Judged, Pace, Reading, device_of};
use crate::finding::{Finding, Remedy};
use crate::judge::{Judge, evidence};

/// The row.
pub static CHECK: Check = Check {
    id: "lustre-lnet-down",
    subject: SubjectKind::NetworkInterface,
    fires_when: "LNet shows one of the node's own network interfaces as down. Lustre sends through the others, or not at all.",
    lasting: "4 consecutive readings, at least 45 s",
    clears_when: "3 consecutive readings, at least 30 s, in which the interface is up or no longer configured.",
    ignored_when: "The interface of the node to itself. A table that cannot be read.",
    scope: Scope::Node,
    // Jobs without Lustre still run, and others may have a second interface.
    may: May::CommentOrDrain,
    since: Version(0, 1, 0),
    watch: || Looks::start(conditions),
};

static PACE: Pace = Pace {
    bad: 4,
    bad_span: Duration::from_secs(45),
    good: 3,
    hold: Duration::from_secs(30),
};

fn conditions<'a>(judge: &Judge<'a>, (): &mut ()) -> Vec<Judged<'a>> {
    let client = Client::of(judge);
    let mut judged: Vec<Judged<'a>> = Vec::new();
    for sample in client.all(&NI_UP) {
        let Some(nid) = sample.label("nid") else { continue };
        let reading = if sample.as_f64() == 0.0 {
            Reading::Bad
        } else {
            Reading::Good
        };
        judged.push(of(nid, reading, client.read_at(sample), evidence(sample, "1")));
    }
    for key in &judge.bad {
        let nid = device_of(CHECK.id, key).to_owned();
        let is_listed = judged.iter().any(|one| one.key == *key);
        if let (false, false, Some(at)) = (is_listed, client.lacks("lnet_nis"), client.network) {
            judged.push(of(&nid, Reading::Good, at, String::new()));
        }
    }
    judged
}

fn of<'a>(nid: &str, reading: Reading, at: Duration, evidence: String) -> Judged<'a> {
    let subject = Subject::new(SubjectKind::NetworkInterface, nid);
    let finding = Finding {
        detail: "LNet interface down".to_owned(),
        remedy: Remedy::Inspect,
        drains: true,
        evidence,
        ..Finding::of_condition(CHECK.id, subject.clone())
    };
    Judged {
        key: format!("{} {nid}", CHECK.id),
        subject,
        reading,
        at,
        pace: &PACE,
        finding: Box::new(move |_| finding),
    }
}
