//! `[[health.command]]`: which of the site's commands check the node.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use collectors::settings::{Kind, duration};
use collectors::{Error, Settings};
use health::Mode;
use health::checks::Scope;
use health::settings::Command;
use serde::de::IntoDeserializer;
use serde::{Deserialize, Serialize};
use toml::de::DeTable;

use super::keys::{COMMANDS, HEALTH_COMMANDS, MODE, NOTIFY};
use super::{SiteCommand, check_name, commands as site_commands, nhc};

/// Longest name: with `site-` in front, it is part of the name of a drain slot.
const MAX_NAME: usize = 35;

/// The most rows: each may run at the same time.
const MOST_ROWS: usize = 16;

/// Shortest and longest interval.
const EVERY: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(24 * 3600));

/// The type of one row.
pub(super) const ROW: Kind = Kind::Record {
    what: "a table with name, command and perhaps every, mode, scope and after",
    fields: &[
        (
            "name",
            Kind::Text {
                what: "1 to 35 of a-z, 0-9 and single hyphens",
                fits: is_name,
            },
        ),
        (
            "command",
            Kind::Text {
                what: "the name of a command",
                fits: |name| check_name(name).is_ok(),
            },
        ),
    ],
    optional: &[
        (
            "every",
            Kind::Text {
                what: "a time from \"1m\" to \"24h\"",
                fits: |text| interval(text).is_some(),
            },
        ),
        ("mode", MODE),
        ("scope", Kind::Choice(&["shared", "node"])),
        (
            "after",
            Kind::Integer {
                what: "a number of results",
                from: 1,
                to: 10,
            },
        ),
    ],
};

fn is_name(name: &str) -> bool {
    name.len() <= MAX_NAME
        && check_name(name).is_ok()
        && !name.starts_with('-')
        && !name.ends_with('-')
        && !name.contains("--")
}

fn interval(text: &str) -> Option<Duration> {
    duration::parse(text).filter(|every| (EVERY.0..=EVERY.1).contains(every))
}

/// One row, as written.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    name: String,
    command: String,
    #[serde(default = "every")]
    every: String,
    #[serde(default)]
    mode: Mode,
    #[serde(default = "shared")]
    scope: Scope,
    #[serde(default = "twice")]
    after: u32,
}

fn every() -> String {
    "5m".to_owned()
}

const fn shared() -> Scope {
    Scope::Shared
}

const fn twice() -> u32 {
    2
}

/// The meaning of a command's exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Exits {
    /// 0 healthy, 1 unhealthy, all others unknown.
    Own,
    /// Those of NHC.
    Nhc,
}

/// A command of the site that checks the node, for the parent that starts it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthCommand {
    /// The part for the checks.
    pub check: Command,
    /// Its name in `[commands]`.
    pub command: String,
    /// Its time limit.
    pub limit: Duration,
    /// The meaning of its exit codes.
    pub exits: Exits,
}

impl HealthCommand {
    /// All rows whose command is in the configuration.
    pub(super) fn all(set: &Settings, commands: &BTreeMap<String, SiteCommand>) -> Result<Vec<Self>, Error> {
        let rows: Vec<Row> = set.get(&HEALTH_COMMANDS)?;
        let of = |row: Row| {
            let command = commands.get(&row.command)?;
            Some(Self {
                check: Command {
                    every: interval(&row.every)?,
                    name: row.name,
                    mode: row.mode,
                    scope: row.scope,
                    after: row.after,
                },
                limit: command.deadline(),
                exits: if nhc::is_nhc(&command.command) {
                    Exits::Nhc
                } else {
                    Exits::Own
                },
                command: row.command,
            })
        };
        Ok(rows.into_iter().filter_map(of).collect())
    }
}

/// The rows of one text by name, with their positions, and faults within single rows. A value whose type is wrong is reported
/// elsewhere.
pub(super) fn rows(table: &DeTable<'_>, faults: &mut Vec<(usize, String)>) -> Vec<(String, usize)> {
    let items = table
        .get("health")
        .and_then(|health| health.get_ref().get("command"))
        .and_then(|rows| rows.get_ref().as_array());
    let mut rows: Vec<(String, usize)> = Vec::new();
    for item in items.into_iter().flatten() {
        let at = item.span().start;
        let Ok(row) = Row::deserialize(item.clone().into_deserializer()) else {
            continue;
        };
        if row.mode == Mode::Drain && row.scope == Scope::Shared {
            let field = item.get_ref().as_table().and_then(|fields| fields.get("mode"));
            let message = format!(
                "health.command {:?}: found mode = \"drain\" with scope = \"shared\", expected scope = \"node\": what nodes \
                 share drains all of them",
                row.name
            );
            faults.push((field.map_or(at, |field| field.span().start), message));
        }
        if rows.iter().any(|(name, _)| *name == row.name) {
            faults.push((
                at,
                format!("health.command: found {:?} twice, expected a name once", row.name),
            ));
        }
        rows.push((row.name, at));
    }
    rows
}

/// Faults that involve other keys: the name of the row, and the message.
pub(super) fn faults(set: &Settings) -> Result<Vec<(String, String)>, Error> {
    let rows: Vec<Row> = set.get(&HEALTH_COMMANDS)?;
    let commands: BTreeMap<String, SiteCommand> = set.get(&COMMANDS)?;
    let notify: String = set.get(&NOTIFY)?;
    let mut faults = Vec::new();
    let mut used: BTreeSet<&str> = BTreeSet::new();
    for (number, row) in rows.iter().enumerate() {
        let (name, command) = (&row.name, &row.command);
        let mut fault = |message: String| {
            faults.push((name.clone(), format!("health.command {name:?}: {message}")));
        };
        if number >= MOST_ROWS {
            fault(format!("found row {}, expected at most {MOST_ROWS}", number + 1));
        }
        if !used.insert(command) || notify == *command {
            fault(format!(
                "found command {command:?}, which another row or notify.command uses, expected one of its own: one run of a \
                 command at a time"
            ));
        }
        let Some(site) = commands.get(command) else {
            let expected = site_commands::expected(&commands);
            fault(format!("found command {command:?}, expected {expected}"));
            continue;
        };
        if interval(&row.every).is_some_and(|every| site.deadline() > every) {
            let (limit, every) = (&site.timeout, &row.every);
            fault(format!(
                "found commands.{command}.timeout = {limit:?}, expected at most every = {every:?}"
            ));
        }
        if let Some(message) = nhc::fault(&site.command) {
            fault(format!("commands.{command}.command: {message}"));
        }
    }
    Ok(faults)
}
