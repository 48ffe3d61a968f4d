//! The author of a reason: nodewarden, slurmctld, slurmd, or a person.

use model::scheduler::{AFTER_LIFT, Author, IncidentId, PREFIX};

use super::state::Node;

/// Reasons of a registration with other resources than configured. Later releases replace the reason of a drained node with
/// them (24.11: node_mgr.c:3463, gres.c). Prolog error and others of slurmctld keep our text.
const REGISTRATION: &[&str] = &[
    "Low socket*core*thread count",
    "Low socket*core count",
    "Low CPUs",
    "Low RealMemory",
    "Low TmpDisk",
    "CoreSpec differ",
    "Could not unpack gres data",
];

/// The same with values, of 24.11 and later, between these parts.
const WITH_VALUES: &[&[&str]] = &[
    &[
        "Reported active features (",
        ") are not a superset of currently active changeable features (",
        ")",
    ],
    &["RestrictedCoresPerGPU=", " but no gpus on node ", ""],
    &[
        "RestrictedCoresPerGPU=",
        " but the gpus given don't have any topology on node ",
        ".",
    ],
    &[
        "RestrictedCoresPerGPU: We can't restrict ",
        " core(s) per gpu. GPU ",
        "(",
        ") doesn't have access to that many unique cores (",
        ").",
    ],
    &["Invalid GRES index (", " >= ", ")"],
    &[
        "Invalid GRES Links value (",
        ") on node ",
        ": Link value '",
        "' < -2",
    ],
    &[
        "Invalid GRES Links value (",
        ") on node ",
        ": end_ptr[0]='",
        "' != ','",
    ],
    &[
        "Invalid GRES Links value (",
        ") on node ",
        ": i=",
        " >= link_len=",
        ".",
    ],
    &["gres/", " GRES core specification ", SOCKETS, " is cores ", ")"],
    &[
        "gres/",
        " GRES autodetected core affinity ",
        SOCKETS,
        " is cores ",
        ").",
    ],
    &[
        "gres/",
        " GRES autodetected core affinity ",
        SOCKETS,
        " is cores ",
        "). Consider setting ",
        " as part of the Node configuration.",
    ],
    &[
        "gres/",
        " GRES autodetected core affinity ",
        SOCKETS,
        " is cores ",
        "). Consider setting ",
        " (recommended) or override this by manually specifying core affinity in gres.conf.",
    ],
];

const SOCKETS: &str = " doesn't match socket boundaries. (Socket ";

/// Reasons with which slurmd and slurmstepd drain their node: each replaces any other (22.05: node_mgr.c:1563). From 25.05 the
/// job follows.
const OF_SLURMD: &[&str] = &[
    "Kill task failed",
    "Job step not running",
    "SlurmdSpoolDir is full",
    "switch_g_job_postfini failed",
];

/// Reasons with which slurmctld drains a node that is not drained (22.05.8, 24.11.5): in place of ours, each shows that ours was lifted.
const OF_SLURMCTLD: &[&str] = &[
    "Prolog error",
    "Epilog error",
    "Job env setup error",
    "batch job complete failure",
    "Duplicate jobid",
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

/// The reason that a lift leaves: sinfo prints it for an absent one, so NHC and other programs write their own over it. An empty
/// one changes nothing.
pub const NO_REASON: &str = "none";
/// What the reason of a lift by an earlier build begins with; the incident follows.
const LIFTED: &str = "nodewarden: lifted ";

/// Whether a reason is only what a lift left. A drain that shows it was set without a reason.
pub fn is_lifted(text: &str) -> bool {
    own_part(text).is_some_and(|own| {
        let incident = own.strip_prefix(LIFTED).and_then(IncidentId::parse);
        own == NO_REASON || incident.is_some()
    })
}

/// Who wrote a node's reason. What a lift left counts as none.
pub fn author(state: &Node) -> Author {
    let Some(reason) = state.reason.as_ref().filter(|reason| !is_lifted(&reason.text)) else {
        return Author::None;
    };
    match incident_of(&reason.text).and_then(IncidentId::parse) {
        Some(id) => Author::Ours(id),
        None if is_slurm_text(&reason.text) => Author::Scheduler,
        None if is_of_slurmd(&reason.text) => Author::NodeDaemon,
        None if is_of_slurmctld(&reason.text) => Author::SchedulerDrain,
        None => Author::Foreign,
    }
}

/// The incident of a text of ours: `nodewarden:... id=INCIDENT`, followed only by texts that slurmctld appends.
/// Any other addition makes it a person's text.
pub fn incident_of(text: &str) -> Option<&str> {
    let rest = text.strip_prefix(PREFIX)?;
    let (_, tail) = rest.rsplit_once(" id=")?;
    let id = own_part(tail)?;
    let id = id.strip_suffix(AFTER_LIFT).unwrap_or(id);
    IncidentId::parse(id).is_some().then_some(id)
}

/// Whether a Comment has a person's text.
pub fn is_foreign_comment(comment: Option<&str>) -> bool {
    comment.is_some_and(|text| !text.starts_with(PREFIX) || text.contains('\n'))
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

/// Whether slurmctld appended to a text of ours that it issued a reboot. It then sets time and user, too (22.05:
/// node_mgr.c:4930, 24.11: node_mgr.c:5549).
pub fn notes_reboot(text: &str) -> bool {
    incident_of(text).is_some() && text.split(" : ").skip(1).any(|one| one == "reboot issued")
}

/// Whether slurmctld itself sets this text in place of ours on a drained node.
pub fn is_slurm_text(text: &str) -> bool {
    own_part(text)
        .is_some_and(|own| REPEATED.contains(&own) || BOOT_ENDS.contains(&own) || is_registration(own))
}

/// Whether slurmd or slurmstepd drained the node with this text, for a fault that has nothing to do with ours.
fn is_of_slurmd(text: &str) -> bool {
    let is_job = |rest: &str| rest.is_empty() || (rest.starts_with(" (JobId=") && rest.ends_with(')'));
    let is_it = |own: &str| {
        OF_SLURMD
            .iter()
            .any(|text| own.strip_prefix(text).is_some_and(is_job))
    };
    own_part(text).is_some_and(is_it)
}

/// Whether slurmctld drained the node with this text, which was not drained.
fn is_of_slurmctld(text: &str) -> bool {
    own_part(text).is_some_and(|own| OF_SLURMCTLD.contains(&own))
}

fn is_registration(text: &str) -> bool {
    text.split(", ").all(|part| {
        REGISTRATION.contains(&part)
            || (part.starts_with("Low RealMemory (reported:") && part.ends_with(')'))
            || gres_count(part, " count reported lower than configured ", " < ")
            || gres_count(part, " count too low ", " < ")
            || gres_count(part, " count changed and jobs are using them ", " != ")
            || gres_type(part)
            || WITH_VALUES.iter().any(|parts| has_values(part, parts))
    })
}

/// Whether a text consists of these parts, with a value between each two.
fn has_values(text: &str, parts: &[&str]) -> bool {
    let is_value = |value: &str| !value.is_empty() && !value.contains(['(', ')']);
    let [first, middle @ .., last] = parts else {
        return false;
    };
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    for part in middle {
        let Some((value, after)) = rest.split_once(part) else {
            return false;
        };
        if !is_value(value) {
            return false;
        }
        rest = after;
    }
    // A person writes behind it.
    let is_last = |value: &str| is_value(value) && !(last.is_empty() && value.contains(' '));
    rest.strip_suffix(last).is_some_and(is_last)
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
    fn a_drain_of_slurmd_is_no_persons() {
        for text in [
            "Kill task failed",
            "Kill task failed : Not responding",
            "Kill task failed (JobId=4711 StepId=0)",
            "Job step not running",
            "SlurmdSpoolDir is full",
            "switch_g_job_postfini failed",
        ] {
            assert!(is_of_slurmd(text) && !is_slurm_text(text), "{text}");
        }
        for text in [
            "Kill task failed, RMA 1234",
            "Kill task failed (JobId=4711 StepId=0) RMA 1234",
            "Kill task failed : keep for RMA",
            "Kill task failed (RMA 1234)",
            "bob: Kill task failed",
            "Prolog error",
        ] {
            assert!(!is_of_slurmd(text), "{text}");
        }
    }

    #[test]
    fn a_drain_of_slurmctld_is_no_persons() {
        for text in ["Prolog error", "Epilog error : Not responding", "Duplicate jobid"] {
            assert!(is_of_slurmctld(text) && !is_slurm_text(text), "{text}");
        }
        for text in [
            "Prolog error, RMA 1234",
            "bob: Prolog error",
            "Prolog error : keep",
        ] {
            assert!(!is_of_slurmctld(text), "{text}");
        }
    }

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
        for left in [NO_REASON, "nodewarden: lifted abcdefg2"] {
            for text in [left.to_owned(), format!("{left} : Not responding")] {
                assert!(is_lifted(&text) && incident_of(&text).is_none(), "{text}");
            }
        }
        for text in [
            "none, RMA 1234",
            "none : keep for RMA",
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
            "Reported active features (a,b) are not a superset of currently active changeable features (c)",
            "gres/gpu count reported lower than configured (0 < 8), RestrictedCoresPerGPU=4 but no gpus on node n0",
            "RestrictedCoresPerGPU=4 but the gpus given don't have any topology on node n0.",
            "RestrictedCoresPerGPU: We can't restrict 4 core(s) per gpu. GPU h100(3) doesn't have access to that many unique cores (2).",
            "Invalid GRES index (8 >= 8)",
            "Invalid GRES Links value (-1,9) on node n0: i=8 >= link_len=8.",
            "gres/gpu GRES core specification 12-15 doesn't match socket boundaries. (Socket 0 is cores 0-16)",
            "gres/gpu GRES core specification 12-15 doesn't match socket boundaries. (Socket 0 is cores 0-16) : reboot issued",
            "gres/gpu GRES autodetected core affinity 0-95 on node n0 doesn't match socket boundaries. (Socket 0 is cores 0-0). Consider setting SlurmdParameters=l3cache_as_socket (recommended) or override this by manually specifying core affinity in gres.conf.",
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
            "RestrictedCoresPerGPU=4 but no gpus on node n0 RMA 1234",
            "gres/gpu GRES core specification 12-15 doesn't match socket boundaries. (Socket 0 is cores 0-16) RMA",
            "gres/gpu GRES core specification 12-15 doesn't match socket boundaries",
            "reboot issued by bob",
            "reboot requested",
            "Reboot ASAP",
            "bob: gres/gpu count reported lower than configured (7 < 8)",
        ] {
            assert!(!is_slurm_text(text), "{text}");
        }
    }
}
