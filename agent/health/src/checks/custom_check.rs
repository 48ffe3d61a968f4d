//! Check `custom-check`: a command of the site (`[[health.command]]`) reports the node as unhealthy. Each command is a check of
//! its own, `site-NAME`; this row is that of all of them.

use std::time::Duration;

use collectors::{Subject, SubjectKind};
use model::commands::{CommandRun, CommandState};

use super::{Check, Looks, May, Scope, Version};
use crate::condition::{Judged, Pace, Reading};
use crate::finding::{Finding, Rank, Remedy};
use crate::judge::Judge;
use crate::settings::Command;

/// The row.
pub static CHECK: Check = Check {
    id: "custom-check",
    subject: SubjectKind::Node,
    fires_when: "A command of `health.command` exits with 1. NHC: with any code under 124, except 10. The check's id is `site-NAME`.",
    lasting: "`after` consecutive results (default 2)",
    clears_when: "As many consecutive results with exit code 0, or the row leaves the configuration.",
    ignored_when: "Any other exit code, a time-out, a command that cannot be started, and a result older than 3 intervals: unknown.",
    // Each row states its own; this is the default.
    scope: Scope::Shared,
    may: May::ObserveOrDrain,
    since: Version(0, 1, 0),
    watch: || Looks::start(conditions),
};

/// The most consecutive results that a row may require.
pub const MOST_AFTER: usize = 10;

/// Results are at least a minute apart: their number is enough.
static PACES: [Pace; MOST_AFTER] = {
    let mut paces = [after(1); MOST_AFTER];
    let mut number = 0;
    while number < MOST_AFTER {
        #[expect(clippy::cast_possible_truncation, reason = "at most 10")]
        let results = number as u32 + 1;
        paces[number] = after(results);
        number += 1;
    }
    paces
};

const fn after(results: u32) -> Pace {
    Pace {
        bad: results,
        bad_span: Duration::ZERO,
        good: results,
        hold: Duration::ZERO,
    }
}

fn pace(row: &Command) -> &'static Pace {
    let at = usize::try_from(row.after).unwrap_or(MOST_AFTER).saturating_sub(1);
    PACES.get(at).unwrap_or(&PACES[MOST_AFTER - 1])
}

/// The longest detail, in bytes: it goes into Slurm's reason.
const MAX_DETAIL: usize = 120;

fn key(name: &str) -> String {
    format!("{} {name}", CHECK.id)
}

fn conditions<'a>(judge: &Judge<'a>, (): &mut ()) -> Vec<Judged<'a>> {
    let rows = &judge.site.settings.commands;
    let mut all: Vec<Judged<'a>> = rows.iter().filter_map(|row| judged(judge, row)).collect();
    let removed = judge.bad.iter().filter_map(|key| {
        let name = key.strip_prefix(CHECK.id)?.trim_start();
        rows.iter().all(|row| row.name != name).then_some(name)
    });
    all.extend(removed.map(|name| {
        let check = format!("{}{name}", Command::PREFIX);
        Judged {
            key: key(name),
            subject: Subject::node(),
            reading: Reading::Good,
            at: judge.snapshot.at,
            pace: &PACES[0],
            finding: Box::new(move |_| Finding::of_condition(check, Subject::node())),
        }
    }));
    all
}

/// `None`: it has not run, or its last result is too old.
fn judged<'a>(judge: &Judge<'a>, row: &'a Command) -> Option<Judged<'a>> {
    let check = row.check();
    let mut states = judge.snapshot.commands.iter();
    let state: &'a CommandState = states.find(|state| state.check == check)?;
    let run = state.current(judge.snapshot.at)?;
    let age = judge.snapshot.at.saturating_sub(run.at);
    let reading = match run.result.is_healthy() {
        Some(true) => Reading::Good,
        Some(false) => Reading::Bad,
        None => Reading::Unknown,
    };
    Some(Judged {
        key: key(&row.name),
        subject: Subject::node(),
        reading,
        at: run.at,
        pace: pace(row),
        finding: Box::new(move |turn| Finding {
            detail: detail(run),
            rank: match row.scope {
                Scope::Node => Rank::Of(""),
                Scope::Shared => Rank::Shared(""),
            },
            remedy: Remedy::Inspect,
            drains: true,
            count: turn.readings.into(),
            evidence: format!(
                "nodewarden_command_healthy{{check={check:?}}} 0, expected 1, {:.1} s old, {} after {:.1} s{}{}",
                age.as_secs_f64(),
                run.why,
                run.took.as_secs_f64(),
                if run.line.is_empty() { "" } else { ": " },
                run.line
            ),
            ..Finding::of_condition(check, Subject::node())
        }),
    })
}

/// What the command says about the fault.
fn detail(run: &CommandRun) -> String {
    if run.line.is_empty() {
        return run.why.clone();
    }
    collectors::text::printable(run.line.as_bytes(), MAX_DETAIL)
}
