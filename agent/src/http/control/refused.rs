//! Refused orders, for the audit trail: whatever refused them.

use health::audit::{Entry, Kind};
use jiff::Timestamp;
use model::scheduler::IncidentId;

use super::super::Core;
use super::{Reply, Request, users};

/// An order, should it be refused.
pub(super) struct Asked {
    verb: &'static str,
    incident: Option<IncidentId>,
}

impl Asked {
    /// `None`: a question, or the end of the user's own release.
    pub(super) fn of(request: &Request) -> Option<Self> {
        let (verb, id) = match request {
            Request::Ack { id, .. } => ("ack", Some(id)),
            Request::Clear { id, .. } => ("clear", Some(id)),
            Request::Release { .. } => ("release", None),
            Request::Pause { .. } => ("pause", None),
            Request::Unpause { .. } => ("resume", None),
            Request::Status
            | Request::Why { .. }
            | Request::Resume
            | Request::Jobs
            | Request::Profile
            | Request::Readings => return None,
        };
        let incident = id.and_then(|id| IncidentId::parse(id));
        Some(Self { verb, incident })
    }

    /// Reports it if this reply refuses it.
    pub(super) fn report(self, reply: &Reply, uid: u32, core: &impl Core) {
        let Reply::Refused(why) = reply else { return };
        core.refused(uid, || Entry {
            order: Some(self.verb.to_owned()),
            incident: self.incident,
            why: Some(why.clone()),
            by: Some(users::name(uid).unwrap_or_else(|| uid.to_string())),
            uid: Some(uid),
            ..Entry::new(Kind::RefusedOrder, Timestamp::now().as_second())
        });
    }
}
