//! From files and options to a checked configuration.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use collectors::{COLLECTORS, Spec, Tier};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::Config;
use super::error::{ConfigError, Problem};
use super::keys::{CHECKS, KEYS, METRIC_LISTS};
use super::source::{self, Source};
use super::suggest::nearest;
use super::tables::{Leaves, table_of};
use super::value::describe;
use health::Mode;

use crate::own;

/// The id of a check, and the most that a site may let it do.
pub type KnownCheck<'a> = (&'a str, Mode);

/// A configuration and where it came from.
#[derive(Clone, Debug)]
pub struct Parsed {
    /// The configuration.
    pub config: Config,
    /// The files that were read, in order.
    pub files: Vec<PathBuf>,
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

/// Reads the configuration again. Anything wrong, a named file that is gone included, keeps the last good one whole.
pub fn reload(
    last_good: &Config,
    file: Option<&Path>,
    sets: &[String],
    known_checks: &[KnownCheck<'_>],
) -> (Config, Option<ConfigError>) {
    match Config::load(file, sets, known_checks) {
        Ok(loaded) => (loaded.config, None),
        Err(error) => (last_good.clone(), Some(error)),
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
    let mut reader = Reader {
        config: Config::default(),
        tables: BTreeMap::new(),
        known_checks,
        specs,
        problems,
    };
    for source in &sources {
        reader.source(source);
    }
    let Reader {
        mut config,
        tables,
        mut problems,
        ..
    } = reader;
    for spec in specs {
        // A collector without a table is checked too: its defaults must be good.
        let leaves = tables.get(spec.name).cloned().unwrap_or_default();
        let text = leaves.check(spec, &mut problems);
        if !text.is_empty() {
            config.collectors.insert(spec.name.to_owned(), text);
        }
    }
    if problems.is_empty() {
        Ok(Parsed { config, files })
    } else {
        Err(ConfigError { problems })
    }
}

struct Reader<'a> {
    config: Config,
    tables: BTreeMap<&'static str, Leaves>,
    known_checks: &'a [KnownCheck<'a>],
    specs: &'a [&'static Spec],
    problems: Vec<Problem>,
}

impl Reader<'_> {
    fn source(&mut self, source: &Source) {
        let first = self.problems.len();
        let (table, errors) = DeTable::parse_recoverable(&source.text);
        let mut broken: Vec<usize> = Vec::new();
        for error in &errors {
            let place = source.place(error.span().map_or(0, |s| s.start));
            let mut message = error.message().trim().replace('\n', ", ");
            if source.is_option()
                && let Some((key, value)) = source.text.split_once('=')
                && !value.contains(['"', '\'', '['])
                && !["yes", "no", "on", "off"].contains(&value.trim())
            {
                message = format!(
                    "{message}; strings need quotes: --set '{key}=\"{}\"'",
                    value.trim()
                );
            }
            // One slip of the pen often upsets the parser more than once.
            if !broken.contains(&place.line) {
                broken.push(place.line);
                self.problems.push(Problem { place, message });
            }
        }
        let before = self.problems.len();
        self.table("", table.get_ref(), source);
        // What the parser made of a broken line is not what was written there.
        let mut at = 0;
        self.problems.retain(|p| {
            at += 1;
            at <= before || !broken.contains(&p.place.line)
        });
        if let Some(own) = self.problems.get_mut(first..) {
            own.sort_by(|a, b| a.place.cmp(&b.place));
        }
    }

    fn table(&mut self, prefix: &str, table: &DeTable<'_>, source: &Source) {
        for (key, value) in table {
            let name: &str = key.get_ref();
            let path = if prefix.is_empty() {
                name.to_owned()
            } else {
                format!("{prefix}.{name}")
            };
            let plain = !name.contains('.');
            let start = key.span().start;
            if let Some(row) = KEYS.iter().find(|k| plain && k.path == path) {
                if let Err(faults) = (row.set)(&mut self.config, value) {
                    for fault in faults {
                        let message = format!("{path}: found {}, expected {}", fault.found, fault.expected);
                        self.report(source, fault.span.start, message);
                    }
                }
                if path == CHECKS {
                    self.checks(value.get_ref(), source);
                }
                if METRIC_LISTS.contains(&row.path) {
                    self.metrics(row.path, value.get_ref(), source);
                }
                continue;
            }
            let inside = format!("{path}.");
            if plain && KEYS.iter().any(|k| k.path.starts_with(&inside)) {
                match value.get_ref() {
                    DeValue::Table(inner) => self.table(&path, inner, source),
                    other => {
                        let message = format!("{path}: found {}, expected a table", describe(other));
                        self.report(source, value.span().start, message);
                    }
                }
                continue;
            }
            match self.specs.iter().find(|s| plain && table_of(s) == path).copied() {
                Some(spec) => match value.get_ref() {
                    DeValue::Table(inner) => self
                        .tables
                        .entry(spec.name)
                        .or_default()
                        .overlay(inner, source, start),
                    other => {
                        let message = format!("{path}: found {}, expected a table", describe(other));
                        self.report(source, value.span().start, message);
                    }
                },
                None => self.unknown(prefix, name, source, start),
            }
        }
    }

    fn unknown(&mut self, prefix: &str, name: &str, source: &Source, start: usize) {
        let inside = if prefix.is_empty() {
            String::new()
        } else {
            format!("{prefix}.")
        };
        let mut siblings: Vec<&str> = KEYS
            .iter()
            .filter_map(|k| k.path.strip_prefix(inside.as_str()))
            .filter_map(|rest| rest.split('.').next())
            .collect();
        let tables = self.specs.iter().map(|s| table_of(s));
        let tables = tables.filter_map(|table| table.strip_prefix(inside.as_str()));
        siblings.extend(tables.filter(|rest| !rest.contains('.')));
        siblings.dedup();
        let mut message = format!("unknown key {inside}{name}");
        if let Some(meant) = nearest(name, siblings.iter().copied()) {
            message.push_str(&format!(", did you mean {inside}{meant}?"));
        } else if let Some(row) = KEYS.iter().find(|k| k.path.rsplit('.').next() == Some(name)) {
            message.push_str(&format!(", did you mean {}?", row.path));
        } else {
            message.push_str(&format!(", expected one of {}", siblings.join(", ")));
        }
        self.report(source, start, message);
    }

    fn checks(&mut self, value: &DeValue<'_>, source: &Source) {
        let DeValue::Table(table) = value else { return };
        for (key, value) in table {
            let name: &str = key.get_ref();
            let known = self.known_checks.iter().find(|(id, _)| *id == name);
            if let Some((_, limit)) = known {
                self.limit(name, *limit, value, source);
            }
            if self.known_checks.is_empty() || known.is_some() {
                continue;
            }
            let ids = || self.known_checks.iter().map(|(id, _)| *id);
            let mut message = format!("unknown check {name}");
            match nearest(name, ids()) {
                Some(meant) => message.push_str(&format!(", did you mean {meant}?")),
                None => message.push_str(&format!(
                    ", expected one of {}",
                    ids().collect::<Vec<_>>().join(", ")
                )),
            }
            self.report(source, key.span().start, message);
        }
    }

    /// What the check itself rules out. A value that is no mode at all is reported elsewhere.
    fn limit(&mut self, check: &str, limit: Mode, value: &Spanned<DeValue<'_>>, source: &Source) {
        let above = [Mode::Comment, Mode::Drain]
            .into_iter()
            .filter(|mode| *mode > limit);
        let words = || above.clone().map(Mode::word);
        if let DeValue::String(found) = value.get_ref()
            && words().any(|word| word == found.as_ref())
        {
            let expected = limit.at_most();
            let message = format!("health.checks.{check}: found {found:?}, expected {expected}");
            self.report(source, value.span().start, message);
        }
    }

    fn metrics(&mut self, path: &str, value: &DeValue<'_>, source: &Source) {
        let DeValue::Array(items) = value else { return };
        for item in items.iter() {
            let DeValue::String(name) = item.get_ref() else {
                continue;
            };
            let known = || own::all_metrics().filter(|m| m.tier != Tier::Private);
            if known().any(|m| m.name == name.as_ref()) {
                continue;
            }
            let mut message = format!("{path}: unknown metric {name:?}");
            if own::all_metrics().any(|m| m.name == name.as_ref()) {
                message = format!("{path}: {name} is read by health checks only and never served");
            } else if let Some(meant) = nearest(name, known().map(|m| m.name)) {
                message.push_str(&format!(", did you mean {meant}?"));
            } else {
                message.push_str(", expected a name of docs/metrics.md");
            }
            self.report(source, item.span().start, message);
        }
    }

    fn report(&mut self, source: &Source, offset: usize, message: String) {
        let place = source.place(offset);
        self.problems.push(Problem { place, message });
    }
}

#[cfg(test)]
mod tests;
