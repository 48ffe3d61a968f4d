//! Check `xid`: what NVIDIA's driver reported, judged by the Xid table, with the driver's own verdict first.

use collectors::event::{Recovery, Xid, XidSource};
use collectors::{Subject, SubjectKind};

use super::{Check, May, Scope, Version};
use crate::finding::{Finding, Joins, Rank, Remedy};
use crate::xids::{Response, Row, Table};

/// The row.
pub static CHECK: Check = Check {
    id: "xid",
    subject: SubjectKind::Gpu,
    condition: "NVIDIA's driver logged an Xid whose row in the Xid table, or whose verdict, asks for a drain.",
    scope: Scope::Node,
    may: May::Drain,
    since: Version(0, 1, 0),
    clears: "By what the row lists: the driver's verdict None, a reboot after which the GPU answers, or a person.",
    runbook: "docs/runbooks/xid.md",
    conditions: None,
};

/// The code that the driver logs when a GPU does not answer any more.
pub const FALLEN_OFF_BUS: u32 = 79;

/// What the driver asks for. `None`: nothing any more.
const fn response_to(verdict: Recovery) -> Option<Response> {
    match verdict {
        Recovery::None => None,
        Recovery::DrainP2p | Recovery::DrainAndReset => Some(Response::DrainAtJobEnd),
        Recovery::GpuReset => Some(Response::ResetGpu),
        Recovery::NodeReboot => Some(Response::Reboot),
    }
}

/// What a row asks for, given what the line says. `again`: of what counts only when it comes again, it is enough now.
fn response(row: &Row, xid: &Xid, again: bool) -> Response {
    if row.by_verdict {
        // A verdict in words that are not known is an event, like an unknown code.
        return xid.recovery.and_then(response_to).unwrap_or(Response::Observe);
    }
    // The library tells the code alone. What the registers in the kernel's line mean decides, once that has come.
    if xid.source == XidSource::Nvml && !row.registers.is_empty() {
        return Response::Observe;
    }
    let is_read = !row.registers.is_empty() && !xid.words.is_empty();
    if is_read && !again && !row.is_serious(&xid.words) {
        return Response::Observe;
    }
    row.action
}

/// The finding behind an Xid line. `None`: a code that the table does not know.
pub fn finding(table: &Table, xid: &Xid, gpu: &str, again: bool, count: u64, text: &str) -> Option<Finding> {
    let row = table.row(xid.code)?;
    Some(from_row(row, response(row, xid, again), xid, gpu, count, text))
}

fn from_row(row: &Row, response: Response, xid: &Xid, gpu: &str, count: u64, text: &str) -> Finding {
    let drains = response.drains();
    Finding {
        check: CHECK.id,
        subject: Subject::gpu(gpu),
        pci: Some(xid.pci.clone()),
        detail: format!("xid{}", row.code),
        // What only follows from another finding must not name the incident.
        rank: Rank::At(if drains { row.rank } else { row.rank.max(80) }),
        remedy: if drains { response.remedy() } else { Remedy::None },
        drains,
        joins: if drains { Joins::Opens } else { Joins::Follows },
        clears: row.clears.clone(),
        needs: row.needs.clone(),
        count,
        key: None,
        evidence: text.to_owned(),
        jobs: Vec::new(),
    }
}
