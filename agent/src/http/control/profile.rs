//! The answer to `profile`: what the node has now, unless that may be less than it should have.

use std::time::Duration;

use health::profile::Profile;

use super::Reply;
use crate::own::{self, Page};

/// Drivers load, links train and filesystems are mounted for minutes after boot.
const BOOT_GRACE: Duration = Duration::from_secs(600);

/// The profile of a page, or all reasons against it. `now`: time since boot.
pub(super) fn learn(page: &Page, now: Duration) -> Reply {
    let snapshot = page.snapshot.as_of(now);
    let mut faults = Vec::new();
    if now < BOOT_GRACE {
        let (since, grace) = (now.as_secs(), BOOT_GRACE.as_secs());
        faults.push(format!(
            "the node booted {since} s ago, expected at least {grace} s"
        ));
    }
    let open = page.view.incidents.iter().filter(|i| i.closed.is_none());
    faults.extend(open.map(|i| {
        format!(
            "incident {} is open: {} {}: {}",
            i.id, i.check, i.subject, i.detail
        )
    }));
    for collector in &snapshot.collectors {
        let (state, reason) = own::state(collector, &snapshot);
        if !matches!(state, "ok" | "absent") {
            let reason = if reason.is_empty() {
                reason
            } else {
                format!(": {reason}")
            };
            faults.push(format!("collector {} is {state}{reason}", collector.spec.name));
        }
    }
    if faults.is_empty() {
        return Reply::Profile(Box::new(Profile::of(&snapshot, &page.facts.rdma)));
    }
    Reply::Refused(format!(
        "no profile of a node that may lack something: {}",
        faults.join("; ")
    ))
}
