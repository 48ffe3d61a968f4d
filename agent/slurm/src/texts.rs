//! The author of a reason: nodewarden, slurmctld, or a person.

use model::scheduler::{AFTER_LIFT, Author, IncidentId};

use super::state::Node;

/// Reasons of a registration with other resources than configured. Later releases replace the reason of a drained node with
/// them (24.11: node_mgr.c:3463, gres.c). Prolog error, Kill task failed and others are separate faults or keep our text.
const REGISTRATION: &[&str] = &[
    "Low socket*core*thread count",
    "Low socket*core count",
    "Low CPUs",
    "Low RealMemory",
    "Low TmpDisk",
    "CoreSpec differ",
    "Could not unpack gres data",
];

/// 22.05 replaces a reason that holds one of these already: a node that reboots a second time (node_mgr.c:4936), or is not
/// resumed in time (power_save.c:575).
const REPEATED: &[&str] = &["reboot issued", "reboot complete"];

/// What slurmctld writes, or appends, when a node did not boot in time.
const BOOT_ENDS: [&str; 2] = ["reboot timed out", "ResumeTimeout reached"];

/// What slurmctld appends to a standing reason with ` : `.
const APPENDED: &[&str] = &[
    "reboot requested",
    "reboot issued",
    "reboot complete",
    "Reboot ASAP",
    "Not responding",
    "Node unexpectedly rebooted",
];

/// What the reason of a lift begins with; the incident follows.
const LIFTED: &str = "nodewarden: lifted ";

/// The reason that a lift leaves: of no drain.
pub fn lifted(incident: &IncidentId) -> String {
    format!("{LIFTED}{}", incident.0)
}

/// Whether a reason is only what a lift left. A drain that shows it was set without a reason.
pub fn is_lifted(text: &str) -> bool {
    let incident = own_part(text).and_then(|own| own.strip_prefix(LIFTED));
    incident.and_then(IncidentId::parse).is_some()
}

/// Who wrote a node's reason. What a lift left counts as none.
pub fn author(state: &Node) -> Author {
    let Some(reason) = state.reason.as_ref().filter(|reason| !is_lifted(&reason.text)) else {
        return Author::None;
    };
    match incident_of(&reason.text).and_then(IncidentId::parse) {
        Some(id) => Author::Ours(id),
        None if is_slurm_text(&reason.text) => Author::Scheduler,
        None => Author::Foreign,
    }
}

/// The incident of a text of ours: `nodewarden:... id=INCIDENT`, followed only by texts that slurmctld appends.
/// Any other addition makes it a person's text.
pub fn incident_of(text: &str) -> Option<&str> {
    let rest = text.strip_prefix("nodewarden:")?;
    let (_, tail) = rest.rsplit_once(" id=")?;
    let id = own_part(tail)?;
    let id = id.strip_suffix(AFTER_LIFT).unwrap_or(id);
    IncidentId::parse(id).is_some().then_some(id)
}

/// The text before what slurmctld appended. `None`: something else is appended.
fn own_part(text: &str) -> Option<&str> {
    let Some((own, appended)) = text.split_once(" : ") else {
        return Some(text);
    };
    // 24.11 appends what a registration found, too (node_mgr.c:3899).
    let by_slurm = appended
        .split(" : ")
        .all(|one| APPENDED.contains(&one) || BOOT_ENDS.contains(&one) || is_registration(one));
    by_slurm.then_some(own)
}

/// Whether slurmctld wrote last that the node did not boot in time.
pub fn ends_boot(text: &str) -> bool {
    let last = text.rsplit_once(" : ").map_or(text, |(_, last)| last);
    BOOT_ENDS.contains(&last)
}

/// Whether slurmctld itself sets this text in place of ours on a drained node.
pub fn is_slurm_text(text: &str) -> bool {
    own_part(text)
        .is_some_and(|own| REPEATED.contains(&own) || BOOT_ENDS.contains(&own) || is_registration(own))
}

fn is_registration(text: &str) -> bool {
    text.split(", ").all(|part| {
        REGISTRATION.contains(&part)
            || (part.starts_with("Low RealMemory (reported:") && part.ends_with(')'))
            || gres_count(part, " count reported lower than configured ", " < ")
            || gres_count(part, " count too low ", " < ")
            || gres_count(part, " count changed and jobs are using them ", " != ")
            || gres_type(part)
    })
}

/// `gres/gpu type changed and jobs are using them`, `gres/gpu type (h200) reported but not configured`.
fn gres_type(part: &str) -> bool {
    let Some((what, rest)) = part.split_once(" type ") else {
        return false;
    };
    let name = rest
        .strip_prefix('(')
        .and_then(|rest| rest.strip_suffix(") reported but not configured"));
    what.starts_with("gres/")
        && !what.contains(' ')
        && (rest == "changed and jobs are using them" || name.is_some_and(|name| !name.contains(' ')))
}

/// `gres/gpu count reported lower than configured (7 < 8)`: only numbers after the words.
fn gres_count(part: &str, words: &str, sign: &str) -> bool {
    let Some((what, numbers)) = part.split_once(words) else {
        return false;
    };
    let counts = numbers
        .strip_prefix('(')
        .and_then(|n| n.strip_suffix(')'))
        .and_then(|n| n.split_once(sign));
    let number = |n: &str| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit());
    !what.contains(' ') && counts.is_some_and(|(found, wanted)| number(found) && number(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_stays_ours_when_slurmctld_appends() {
        let text = "nodewarden:xid.79 gpu3 off the bus act=reboot id=abcdefg2";
        assert_eq!(incident_of(text), Some("abcdefg2"));
        for appended in [
            " : reboot issued",
            " : reboot issued : reboot complete",
            " : reboot issued : reboot timed out",
            " : ResumeTimeout reached",
            " : gres/gpu count reported lower than configured (7 < 8)",
            " : Not responding",
            " again-after-lift",
            " again-after-lift : reboot issued",
        ] {
            assert_eq!(incident_of(&format!("{text}{appended}")), Some("abcdefg2"));
        }
    }

    #[test]
    fn a_person_who_writes_into_it_takes_it_over() {
        for text in [
            "nodewarden:xid.79 gpu3 act=reboot id=abcdefg2 RMA 1234",
            "nodewarden:xid.79 gpu3 act=reboot id=abcdefg2 again-after-lift RMA 1234",
            "nodewarden:xid.79 gpu3 act=reboot id=abcdefg2 : keep for RMA",
            "nodewarden:xid.79 gpu3 act=reboot id=abcdefg2\nRMA 1234",
            "RMA, was nodewarden:xid.79 gpu3 act=reboot id=abcdefg2",
            "nodewarden:xid.79 gpu3",
            "nodewarden: id=ABCDEFG2",
        ] {
            assert_eq!(incident_of(text), None, "{text}");
        }
    }

    #[test]
    fn what_a_lift_leaves_is_the_reason_of_no_drain() {
        let left = lifted(&IncidentId::parse("abcdefg2").unwrap());
        assert_eq!(left, "nodewarden: lifted abcdefg2");
        for text in [left.clone(), format!("{left} : Not responding")] {
            assert!(is_lifted(&text) && incident_of(&text).is_none(), "{text}");
        }
        for text in [
            "nodewarden: lifted",
            "nodewarden: lifted abcdefg2 RMA 1234",
            "nodewarden: lifted abcdefg2 : keep for RMA",
            "nodewarden:xid.79 gpu3 act=reboot id=abcdefg2",
        ] {
            assert!(!is_lifted(text), "{text}");
        }
    }

    #[test]
    fn only_registration_replaces_ours() {
        for text in [
            "gres/gpu count reported lower than configured (7 < 8)",
            "gres/gpu:h100 count too low (7 < 8)",
            "Low socket*core*thread count, Low CPUs",
            "Low RealMemory (reported:7000 < 100.00% of configured:8000)",
            "Low TmpDisk",
            "gres/gpu count reported lower than configured (7 < 8) : reboot complete",
            "gres/gpu count changed and jobs are using them (7 != 8)",
            "gres/gpu type changed and jobs are using them",
            "gres/gpu type (h200) reported but not configured",
            "Could not unpack gres data",
            "Could not unpack gres data, Low CPUs, CoreSpec differ",
            "reboot issued",
            "reboot issued : reboot timed out",
            "ResumeTimeout reached",
        ] {
            assert!(is_slurm_text(text), "{text}");
        }
        for text in [
            "",
            "Not responding",
            "Node unexpectedly rebooted",
            "Kill task failed",
            "Prolog error",
            "Epilog error",
            "batch job complete failure",
            "Duplicate jobid",
            "gres/gpu count reported lower than configured (7 < 8), waiting for RMA",
            "gres/gpu count reported lower than configured (7 < 8) : keep",
            "Low RealMemory since the DIMM swap",
            "gres/gpu count changed and jobs are using them (7 != 8) RMA",
            "gres/gpu type changed and jobs are using them: RMA",
            "the gres/gpu type (h200) reported but not configured",
            "gres/gpu type (RMA by bob) reported but not configured",
            "CoreSpec differ, RMA",
            "reboot issued by bob",
            "reboot requested",
            "Reboot ASAP",
            "bob: gres/gpu count reported lower than configured (7 < 8)",
        ] {
            assert!(!is_slurm_text(text), "{text}");
        }
    }
}
