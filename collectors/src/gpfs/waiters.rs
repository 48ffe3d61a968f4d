//! Waiting threads of mmfsd, as `mmdiag --waiters -Y` lists them.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::command_metrics::{LONGEST_WAIT, LONGEST_WAITER, WAITERS, WAITERS_BY_THREAD};
use super::commands::LONG_WAIT;
use super::output::{Output, Row};
use super::replies::{Faults, Reason};
use crate::text::printable;
use crate::{Block, Value};

/// The section of the output.
const SECTION: &str = "waiters";
/// The column with the name of a thread.
const NAME: &str = "threadName";
/// Parts of the names of threads that always wait.
const ALWAYS: [&str; 2] = ["EventsExporterSenderThread", "Fsck"];
/// The most names with a series: those with most threads.
const NAMED: usize = 32;
/// Limits of a name and of a reason, in bytes.
const MAX_NAME: usize = 64;
const MAX_REASON: usize = 128;

struct Waiter {
    name: String,
    /// `None`: no number.
    seconds: Option<f64>,
    reason: String,
}

impl Waiter {
    /// `None`: neither a name nor a time.
    fn of(row: &Row<'_>) -> Option<Self> {
        let text = |column, max| printable(row.text(column).unwrap_or_default().as_bytes(), max);
        let seconds = row.text("waitTime").and_then(|time| time.parse().ok());
        let name = text(NAME, MAX_NAME);
        let seconds = seconds.filter(|time: &f64| time.is_finite() && *time >= 0.0);
        let reasons = ["auxReason", "condVarReason", "delayReason"];
        let reason = reasons.map(|column| text(column, MAX_REASON));
        let reason = reason.into_iter().find(|reason| !reason.is_empty());
        (!name.is_empty() || seconds.is_some()).then(|| Self {
            name,
            seconds,
            reason: reason.unwrap_or_default(),
        })
    }

    fn is_noise(&self) -> bool {
        ALWAYS.iter().any(|part| self.name.contains(part))
    }
}

pub(super) fn show(output: &Output<'_>, out: &mut Block, faults: &mut Faults) {
    // Without names, threads that always wait would count.
    if !output.has_column(SECTION, NAME) {
        faults.add(Reason::Malformed);
        return;
    }
    let mut count = 0;
    let mut longest: Option<Waiter> = None;
    let mut names: BTreeMap<String, u64> = BTreeMap::new();
    let mut is_timed = true;
    for row in output.rows(SECTION) {
        let Some(waiter) = Waiter::of(row) else {
            faults.add(Reason::Malformed);
            continue;
        };
        if waiter.is_noise() {
            continue;
        }
        count += 1;
        is_timed &= waiter.seconds.is_some();
        if !waiter.name.is_empty() {
            *names.entry(waiter.name.clone()).or_default() += 1;
        }
        if waiter.seconds.is_some()
            && longest
                .as_ref()
                .is_none_or(|longest| waiter.seconds > longest.seconds)
        {
            longest = Some(waiter);
        }
    }
    if !is_timed {
        faults.add(Reason::Malformed);
    }
    out.u64(&WAITERS, &[], count);
    // A wait that is not readable may be the longest. One above the limit is a fault, whatever the others are.
    let longest = longest.filter(|waiter| is_timed || waiter.seconds > Some(LONG_WAIT));
    match &longest {
        Some(waiter) => {
            let seconds = waiter.seconds.map_or(Value::Absent, Value::F64);
            out.push(&LONGEST_WAIT, &[], seconds);
            out.info(&LONGEST_WAITER, &[&waiter.name, &waiter.reason]);
        }
        None if is_timed => out.f64(&LONGEST_WAIT, &[], 0.0),
        None => out.push(&LONGEST_WAIT, &[], Value::Absent),
    }
    let mut names: Vec<(String, u64)> = names.into_iter().collect();
    names.sort_by_key(|(_, count)| Reverse(*count));
    if names.len() > NAMED {
        faults.add(Reason::Limit);
    }
    for (name, count) in names.iter().take(NAMED) {
        out.u64(&WAITERS_BY_THREAD, &[name], *count);
    }
}
