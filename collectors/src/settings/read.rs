//! Reads TOML tables by the rows of the table of keys.

use serde::Deserialize;
use serde::de::IntoDeserializer;
use toml::de::{DeTable, DeValue};
use toml::{Spanned, Value};

use super::kind::describe;
use super::{Key, Settings};
use crate::{Error, Spec};

/// A value with its position.
type Item<'i> = Spanned<DeValue<'i>>;

/// The known keys and tables.
#[derive(Debug)]
pub struct Reader {
    keys: Vec<&'static Key>,
    tables: Vec<&'static str>,
}

/// The content of one text. Positions are in bytes.
#[derive(Debug, Default)]
pub struct Found {
    /// Keys that are set, and where.
    pub set: Vec<(&'static Key, usize)>,
    /// Faults and their positions.
    pub faults: Vec<(usize, String)>,
}

impl Reader {
    /// For these keys and those of collectors.
    pub fn new(keys: &[&'static Key], specs: &[&'static Spec]) -> Self {
        let of_specs = specs.iter().flat_map(|spec| spec.keys);
        let keys: Vec<&'static Key> = keys.iter().chain(of_specs).copied().collect();
        let above = |key: &&'static Key| key.name.match_indices('.').map(|(at, _)| key.name.split_at(at).0);
        let mut tables: Vec<&'static str> = keys.iter().flat_map(above).collect();
        // A collector without keys also has a table, so that a key in it is an error that names the table.
        tables.extend(
            specs
                .iter()
                .filter(|spec| spec.keys.is_empty())
                .map(|spec| spec.name),
        );
        Self { keys, tables }
    }

    /// Every key.
    pub fn keys(&self) -> &[&'static Key] {
        &self.keys
    }

    /// Reads the table of that path, empty for a whole file, over the values already set.
    pub fn read(&self, path: &str, table: &DeTable<'_>, settings: &mut Settings, found: &mut Found) {
        for (name, item) in table {
            let (name, at): (&str, usize) = (name.get_ref(), name.span().start);
            let inside = if path.is_empty() {
                String::new()
            } else {
                format!("{path}.")
            };
            let full = format!("{inside}{name}");
            // A quoted key may contain dots and is no path.
            let known = !name.contains('.');
            if let Some(key) = self.keys.iter().find(|key| known && key.name == full) {
                value(key, item, settings, found);
            } else if known && self.tables.contains(&full.as_str()) {
                match item.get_ref() {
                    DeValue::Table(inner) => self.read(&full, inner, settings, found),
                    _ => {
                        let message = format!("{full}: found {}, expected a table", shown(item));
                        found.faults.push((item.span().start, message));
                    }
                }
            } else {
                found.faults.push((at, self.unknown(&inside, name)));
            }
        }
    }

    fn unknown(&self, inside: &str, name: &str) -> String {
        // Tables without a key are not proposed.
        let names = self.keys.iter().map(|key| key.name);
        let rest = names.filter_map(|path| path.strip_prefix(inside));
        let mut siblings: Vec<&str> = Vec::new();
        for sibling in rest.filter_map(|rest| rest.split('.').next()) {
            if !siblings.contains(&sibling) {
                siblings.push(sibling);
            }
        }
        let elsewhere = || self.keys.iter().find(|key| key.split().1 == name);
        let hint = if let Some(meant) = nearest(name, siblings.iter().copied()) {
            format!(", did you mean {inside}{meant}?")
        } else if let Some(key) = elsewhere() {
            format!(", did you mean {}?", key.name)
        } else if siblings.is_empty() {
            ", expected no key in this table".to_owned()
        } else {
            format!(", expected one of {}", siblings.join(", "))
        };
        format!("unknown key {inside}{name}{hint}")
    }
}

/// Takes over one value, or records all its faults.
fn value(key: &'static Key, item: &Item<'_>, settings: &mut Settings, found: &mut Found) {
    let Ok(value) = plain(item) else {
        let message = format!(
            "{}: found {}, expected {}",
            key.name,
            shown(item),
            key.kind.expected()
        );
        return found.faults.push((item.span().start, message));
    };
    let faults = key.kind.check(&value);
    if faults.is_empty() {
        settings.set(key, value);
        found.set.push((key, item.span().start));
    }
    for fault in faults {
        let at = fault
            .inside
            .iter()
            .try_fold(item, |item, step| match item.get_ref() {
                DeValue::Array(items) => items.get(step.parse::<usize>().ok()?),
                DeValue::Table(table) => table.get(step.as_str()),
                _ => None,
            });
        let message = format!("{}: {}", key.name, fault.message);
        found.faults.push((at.unwrap_or(item).span().start, message));
    }
}

fn plain(item: &Item<'_>) -> Result<Value, toml::de::Error> {
    Value::deserialize(item.clone().into_deserializer())
}

/// A value as an error message shows it, also an integer out of range.
fn shown(item: &Item<'_>) -> String {
    plain(item).map_or_else(|_| item.get_ref().type_str().to_owned(), |value| describe(&value))
}

impl Spec {
    /// Reads a text as this collector's table.
    ///
    /// # Errors
    /// [`Error::Settings`] with all faults.
    pub fn settings(&'static self, text: &str) -> Result<Settings, Error> {
        let (mut settings, mut found) = (Settings::default(), Found::default());
        let table = DeTable::parse(text).map_err(|e| Error::Settings(e.to_string()))?;
        let path = self.keys.first().map_or(self.name, |key| key.split().0);
        Reader::new(&[], &[self]).read(path, table.get_ref(), &mut settings, &mut found);
        let faults: Vec<String> = found.faults.into_iter().map(|(_, message)| message).collect();
        if !faults.is_empty() {
            return Err(Error::Settings(faults.join("\n")));
        }
        let mut rules = found.set.iter().filter_map(|(key, _)| key.rule);
        rules.try_for_each(|rule| rule(&settings))?;
        Ok(settings)
    }
}

/// The nearest of `known`, if it is near enough to be a typing error.
pub fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let allowed = (word.chars().count() / 3).max(1);
    known
        .map(|candidate| (strsim::osa_distance(word, candidate), candidate))
        .filter(|(far, _)| *far <= allowed)
        .min()
        .map(|(_, candidate)| candidate)
}
