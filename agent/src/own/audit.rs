//! The audit trail and notifications.

use serde::{Deserialize, Serialize};

use super::{AUDIT_LINES, NOTIFICATIONS};
use exposition::Writer;

/// Entries of the audit trail since the daemon started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuditCounts {
    /// Written.
    pub written: u64,
    /// Not written: the disk, or too many that waited for it.
    pub lost: u64,
    /// Refused orders beyond the limit.
    pub suppressed: u64,
}

/// Notifications since the parent started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotificationCounts {
    /// The command ended with exit code 0.
    pub ok: u64,
    /// It did not, or could not be started.
    pub failed: u64,
    /// Not sent: beyond the limit.
    pub suppressed: u64,
}

pub(super) fn render(audit: AuditCounts, notifications: NotificationCounts, w: &mut Writer<'_>) {
    w.family(&AUDIT_LINES, |f| {
        f.u64(&["written"], audit.written);
        f.u64(&["lost"], audit.lost);
        f.u64(&["suppressed"], audit.suppressed);
    });
    w.family(&NOTIFICATIONS, |f| {
        f.u64(&["ok"], notifications.ok);
        f.u64(&["failed"], notifications.failed);
        f.u64(&["suppressed"], notifications.suppressed);
    });
}
