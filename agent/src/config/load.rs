//! From files and options to a checked configuration.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use collectors::settings::{Found, Reader, nearest};
use collectors::{COLLECTORS, Settings, Spec};
use serde::Deserialize;
use serde::de::IntoDeserializer;
use toml::Value;
use toml::de::DeTable;

use super::error::{ConfigError, Place, Problem};
use super::keys::{COMMANDS, KEYS};
use super::source::{self, Source};
use super::{Config, SiteCommand, health_command};
use health::Mode;

/// The id of a check, and the most that a site may let it do.
pub type KnownCheck<'a> = (&'a str, Mode);

/// A configuration and where it came from.
#[derive(Clone, Debug)]
pub struct Parsed {
    /// The configuration.
    pub config: Config,
    /// The values that are set.
    pub settings: Settings,
    /// The files that were read, in order.
    pub files: Vec<PathBuf>,
    /// Where each key was set last, by its name.
    pub set: BTreeMap<&'static str, Place>,
}

impl Config {
    /// Reads `file` (the default one need not be there), `conf.d/*.toml` beside it in lexical order, and then the
    /// `KEY=VALUE` options; what comes later wins. `known_checks` are those that `health.checks` may name; empty: any.
    ///
    /// # Errors
    /// Every problem of every source.
    pub fn load(
        file: Option<&Path>,
        sets: &[String],
        known_checks: &[KnownCheck<'_>],
    ) -> Result<Parsed, ConfigError> {
        load(file, sets, known_checks, COLLECTORS)
    }
}

pub(super) fn load(
    file: Option<&Path>,
    sets: &[String],
    known_checks: &[KnownCheck<'_>],
    specs: &[&'static Spec],
) -> Result<Parsed, ConfigError> {
    let mut problems = Vec::new();
    let (mut sources, files) = source::read(file, &mut problems);
    sources.extend(sets.iter().map(|s| Source::option(s)));
    let reader = Reader::new(KEYS, specs);
    let (mut settings, mut set) = (Settings::default(), BTreeMap::new());
    let mut checks_of_site: BTreeMap<String, Place> = BTreeMap::new();
    for source in &sources {
        let (table, errors) = DeTable::parse_recoverable(&source.text);
        let slips = slips(source, &errors);
        let mut found = Found::default();
        reader.read("", table.get_ref(), &mut settings, &mut found);
        checks(table.get_ref(), known_checks, &mut found.faults);
        commands(table.get_ref(), &mut found.faults);
        let rows = health_command::rows(table.get_ref(), &mut found.faults).into_iter();
        checks_of_site.extend(rows.map(|(name, at)| (name, source.place(at))));
        let faults = found.faults.into_iter();
        let faults = faults.map(|(at, message)| Problem {
            place: source.place(at),
            message,
        });
        // What the parser made of a broken line is not what was written there.
        let broken = |place: &Place| slips.iter().any(|slip| slip.place.line == place.line);
        let mut own: Vec<Problem> = faults.filter(|problem| !broken(&problem.place)).collect();
        own.extend(slips);
        own.sort_by(|a, b| a.place.cmp(&b.place));
        problems.extend(own);
        set.extend(
            found
                .set
                .into_iter()
                .map(|(key, at)| (key.name, source.place(at))),
        );
    }
    if !problems.is_empty() {
        return Err(ConfigError { problems });
    }
    for key in reader.keys().iter().copied() {
        if let (Some(place), Some(rule)) = (set.get(key.name), key.rule)
            && let Err(error) = rule(&settings)
        {
            problems.push(Problem {
                place: place.clone(),
                message: error.to_string(),
            });
        }
    }
    for (name, message) in health_command::faults(&settings).unwrap_or_default() {
        let place = checks_of_site.get(&name).cloned().unwrap_or_else(Place::nowhere);
        problems.push(Problem { place, message });
    }
    let collectors = settings.of(specs.iter().flat_map(|spec| spec.keys).copied());
    match Config::of(&settings, collectors) {
        Ok(config) if problems.is_empty() => {
            return Ok(Parsed {
                config,
                settings,
                files,
                set,
            });
        }
        Ok(_) => {}
        Err(error) => problems.push(Problem {
            place: Place::nowhere(),
            message: error.to_string(),
        }),
    }
    Err(ConfigError { problems })
}

/// Errors of syntax. One slip of the pen often upsets the parser more than once, so only the first of a line counts.
fn slips(source: &Source, errors: &[toml::de::Error]) -> Vec<Problem> {
    let mut slips: Vec<Problem> = Vec::new();
    for error in errors {
        let place = source.place(error.span().map_or(0, |s| s.start));
        if slips.iter().any(|slip| slip.place.line == place.line) {
            continue;
        }
        let mut message = error.message().trim().replace('\n', ", ");
        if source.is_option()
            && let Some((key, value)) = source.text.split_once('=')
            && !value.contains(['"', '\'', '['])
            && !["yes", "no", "on", "off"].contains(&value.trim())
        {
            let value = Value::from(value.trim());
            message = format!("{message}; strings need quotes: --set '{key}={value}'");
        }
        slips.push(Problem { place, message });
    }
    slips
}

/// What `health.checks` names and which modes its checks rule out. A value that is no mode is reported elsewhere.
fn checks(table: &DeTable<'_>, known: &[KnownCheck<'_>], faults: &mut Vec<(usize, String)>) {
    let checks = table
        .get("health")
        .and_then(|health| health.get_ref().get("checks"));
    let Some(checks) = checks.and_then(|checks| checks.get_ref().as_table()) else {
        return;
    };
    for (name, mode) in checks {
        let (check, at): (&str, usize) = (name.get_ref(), name.span().start);
        let ids = || known.iter().map(|(id, _)| *id);
        if health::checks::is_of_site(check) {
            let message = format!(
                "health.checks.{check}: found a check of the site, expected mode in its [[health.command]]"
            );
            faults.push((at, message));
            continue;
        }
        if let Some((_, limit)) = known.iter().find(|(id, _)| *id == check) {
            let above = [Mode::Comment, Mode::Drain]
                .into_iter()
                .filter(|mode| mode > limit);
            if let Some(found) = above
                .map(Mode::word)
                .find(|word| mode.get_ref().as_str() == Some(word))
            {
                let expected = limit.at_most();
                let message = format!("health.checks.{check}: found {found:?}, expected {expected}");
                faults.push((mode.span().start, message));
            }
        } else if let Some(meant) = nearest(check, ids()) {
            faults.push((at, format!("unknown check {check}, did you mean {meant}?")));
        } else if !known.is_empty() {
            let ids: Vec<&str> = ids().collect();
            faults.push((
                at,
                format!("unknown check {check}, expected one of {}", ids.join(", ")),
            ));
        }
    }
}

/// What the rows of `commands` must not hold. A value whose type is wrong is reported elsewhere.
fn commands(table: &DeTable<'_>, faults: &mut Vec<(usize, String)>) {
    let rows = table
        .get(COMMANDS.name)
        .and_then(|rows| rows.get_ref().as_table());
    let reported: Vec<usize> = faults.iter().map(|(at, _)| *at).collect();
    for (name, item) in rows.into_iter().flatten() {
        let Ok(row) = SiteCommand::deserialize(item.clone().into_deserializer()) else {
            continue;
        };
        for (field, message) in SiteCommand::faults(name.get_ref(), &row) {
            let value = item.get_ref().as_table().and_then(|fields| fields.get(field));
            let at = value.map_or(name.span().start, |value| value.span().start);
            if !reported.contains(&at) {
                faults.push((at, message));
            }
        }
    }
}

#[cfg(test)]
mod tests;
