//! The form of an entry of the audit trail: a line of `audit.jsonl`, and the input of the site's command.

use health::audit::{Act, Entry, Kind};
use jiff::Timestamp;
use serde::Serialize;

/// Longest text, in bytes. Some are what a user sent.
const MAX_TEXT: usize = 512;

/// An entry as one JSON object. Fields that do not apply are absent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Line {
    /// When, in UTC by RFC 3339.
    pub time: String,
    /// When, in seconds since the epoch.
    pub timestamp: i64,
    /// What happened.
    pub event: Kind,
    /// The act on the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub act: Option<Act>,
    /// The verb of a refused order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<String>,
    /// The incident.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub incident: Option<String>,
    /// The check whose finding names the incident.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check: Option<String>,
    /// The subject of the incident.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The detail of that finding.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The evidence of that finding.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<String>,
    /// The reason in Slurm, or that of an operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why an act or order was refused or ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The user: name or uid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The user's uid, from the kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// The slot of the act.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slot: Option<String>,
    /// Refused orders of this uid, or notifications, that were suppressed since the last one.
    #[serde(skip_serializing_if = "is_zero")]
    pub suppressed: u64,
    /// Only in notifications: the name of the node in Slurm.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Only in notifications: the name of the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Only in notifications: the version of nodewarden.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the form that serde calls")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Line {
    /// The line of an entry.
    pub fn of(entry: &Entry) -> Self {
        let text = |text: &Option<String>| text.as_deref().map(cut);
        Self {
            time: Timestamp::from_second(entry.at).unwrap_or_default().to_string(),
            timestamp: entry.at,
            event: entry.kind,
            act: entry.act,
            order: text(&entry.order),
            incident: entry.incident.as_ref().map(|id| cut(&id.0)),
            check: text(&entry.check),
            subject: text(&entry.subject),
            detail: text(&entry.detail),
            evidence: entry.evidence.iter().map(|line| cut(line)).collect(),
            reason: text(&entry.reason),
            why: text(&entry.why),
            by: text(&entry.by),
            uid: entry.uid,
            slot: text(&entry.slot),
            suppressed: entry.suppressed,
            node: None,
            host: None,
            version: None,
        }
    }
}

fn cut(text: &str) -> String {
    let end = text.floor_char_boundary(MAX_TEXT);
    text.get(..end).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use model::scheduler::IncidentId;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_has_the_fields_that_apply_and_the_time_in_two_forms() {
        let mut entry = Entry::new(Kind::Written, 1_700_000_000);
        let line = |entry: &Entry| serde_json::to_value(Line::of(entry)).unwrap();
        assert_eq!(
            line(&entry),
            json!({ "time": "2023-11-14T22:13:20Z", "timestamp": 1_700_000_000, "event": "written" })
        );
        entry.act = Some(Act::Drain);
        entry.incident = IncidentId::parse("abcdefgh");
        entry.evidence = vec!["one".to_owned()];
        (entry.by, entry.uid) = (Some("ana".to_owned()), Some(0));
        entry.suppressed = 3;
        entry.kind = Kind::RefusedOrder;
        let line = line(&entry);
        assert_eq!(line["event"], "refused_order");
        assert_eq!(
            (&line["act"], &line["incident"]),
            (&json!("drain"), &json!("abcdefgh"))
        );
        assert_eq!((&line["uid"], &line["suppressed"]), (&json!(0), &json!(3)));
        assert_eq!(line["evidence"], json!(["one"]));
    }

    /// What a user sends may be long, and may look like another line.
    #[test]
    fn texts_are_cut_and_stay_in_their_line() {
        let mut entry = Entry::new(Kind::RefusedOrder, i64::MAX);
        entry.why = Some(format!("\n{{\"event\":\"written\"}}{}", "ä".repeat(MAX_TEXT)));
        let text = serde_json::to_string(&Line::of(&entry)).unwrap();
        assert!(!text.contains('\n') && text.len() < 2 * MAX_TEXT, "{text}");
        let line: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(line["why"].as_str().unwrap().len(), MAX_TEXT);
        assert_eq!(line["timestamp"], i64::MAX);
    }
}
