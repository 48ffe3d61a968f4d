//! The answer to `profile`: what the node has now, unless that may be less than it should have.

use std::time::Duration;

use health::judge::BOOT_GRACE;
use health::profile::Profile;

use super::Reply;
use crate::own::{self, Page};

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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use health::view::View;
    use model::sample::{AT, LEVEL, device, late, snapshot};
    use model::snapshot::{DeviceState, Presence};

    use super::*;
    use crate::own::{OwnFacts, sample};

    /// A page without incidents whose only collector has these devices.
    fn page_of(devices: Vec<DeviceState>) -> Page {
        let mut snapshot = snapshot(devices);
        for collector in snapshot.collectors_mut() {
            if collector.presence == Presence::Unknown {
                collector.presence = Presence::NotHere;
            }
        }
        let view = View {
            incidents: Vec::new(),
            ..sample::view()
        };
        Page {
            snapshot: Arc::new(snapshot),
            view: Arc::new(view),
            facts: OwnFacts::default(),
        }
    }

    fn refusal(page: &Page, now: Duration) -> String {
        match learn(page, now) {
            Reply::Refused(text) => text,
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn a_node_that_may_lack_something_is_no_profile_and_each_reason_is_named() {
        let good = || device("a", |b| b.u64(&LEVEL, &["a"], 7));
        let now = AT.max(BOOT_GRACE);
        let mut page = page_of(vec![good()]);
        assert!(
            matches!(learn(&page, now), Reply::Profile(_)),
            "{:?}",
            learn(&page, now)
        );

        assert!(refusal(&page, BOOT_GRACE - Duration::from_secs(1)).contains("the node booted 599 s ago"));

        page.view = Arc::new(sample::view());
        let text = refusal(&page, now);
        assert!(
            text.contains("incident abcdefgh is open: xid gpu GPU-1: xid79"),
            "{text}"
        );

        let text = refusal(&page_of(vec![good(), late("c")]), now);
        assert!(text.contains("collector test is late"), "{text}");
        let text = refusal(&page_of(vec![good()]), now + Duration::from_secs(100));
        assert!(text.contains("collector test is late"), "stale: {text}");
    }
}
