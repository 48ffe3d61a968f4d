//! Tables of collectors: merged over all files into one text per collector, one value per line, so that a line of the
//! collector's own error message leads back to the file and line where the value was written.

use std::collections::BTreeMap;

use collectors::{Settings, Spec};
use toml::de::{DeTable, DeValue};

use super::error::{Place, Problem};
use super::keys::quote;
use super::source::Source;

/// The name of a collector's table. What acts on Slurm has `[slurm]` for itself.
pub(super) fn table_of(spec: &Spec) -> &'static str {
    match spec.name {
        "slurm" => "slurm.jobs",
        name => name,
    }
}

/// Values of one collector's table by their path.
#[derive(Clone, Default)]
pub(super) struct Leaves {
    leaves: BTreeMap<Vec<String>, (String, Place)>,
    /// Where the last table header was.
    header: Option<Place>,
}

impl Leaves {
    /// Lays one file's table over what is there: values replace values, tables are merged.
    pub(super) fn overlay(&mut self, table: &DeTable<'_>, source: &Source, at: usize) {
        self.header = Some(source.place(at));
        self.walk(&mut Vec::new(), table, source);
    }

    fn walk(&mut self, path: &mut Vec<String>, table: &DeTable<'_>, source: &Source) {
        for (key, value) in table {
            path.push(key.get_ref().to_string());
            match value.get_ref() {
                DeValue::Table(inner) if !inner.is_empty() => self.walk(path, inner, source),
                value => self.put(path, show(value), source.place(key.span().start)),
            }
            path.pop();
        }
    }

    fn put(&mut self, path: &[String], value: String, place: Place) {
        if value == "{}" && self.leaves.keys().any(|k| k.starts_with(path)) {
            return;
        }
        self.leaves
            .retain(|k, _| !k.starts_with(path) && !path.starts_with(k));
        self.leaves.insert(path.to_vec(), (value, place));
    }

    /// The table as TOML, one value per line, in the order of [`Leaves::places`].
    fn text(&self) -> String {
        self.leaves
            .iter()
            .map(|(path, (value, _))| {
                let path: Vec<String> = path.iter().map(|p| key(p)).collect();
                format!("{} = {value}\n", path.join("."))
            })
            .collect()
    }

    /// Asks the collector until it finds nothing more: a value that it refuses is reported and taken out.
    pub(super) fn check(mut self, spec: &Spec, problems: &mut Vec<Problem>) -> String {
        let text = self.text();
        let mut said = false;
        while let Err(error) = (spec.validate)(&Settings::new(self.text())) {
            let (line, message) = split(&error.to_string());
            let missing = message.contains("missing field");
            let hit = line.filter(|_| !missing).and_then(|n| {
                let path = self.leaves.keys().nth(n.checked_sub(1)?)?.clone();
                self.leaves.remove_entry(&path)
            });
            match hit {
                Some((path, (value, place))) => {
                    let message = format!("{}.{} = {value}: {message}", table_of(spec), path.join("."));
                    problems.push(Problem { place, message });
                    said = true;
                }
                // What is only missing because a refused value was taken out is no news.
                None if said && missing => break,
                None => {
                    let place = self.header.clone().unwrap_or(Place {
                        source: spec.name.to_owned(),
                        line: 0,
                        column: 0,
                    });
                    let message = format!("[{}]: {message}", table_of(spec));
                    problems.push(Problem { place, message });
                    break;
                }
            }
        }
        text
    }
}

/// Line and message of `TOML parse error at line 2, column 5 | (excerpt) | message`.
fn split(error: &str) -> (Option<usize>, String) {
    let Some(rest) = error.strip_prefix("TOML parse error at line ") else {
        return (None, error.trim().to_owned());
    };
    let line = rest.split(',').next().and_then(|n| n.parse().ok());
    let message: Vec<&str> = rest
        .lines()
        .skip(1)
        .filter(|l| !l.contains(" | ") && !l.trim_end().ends_with('|'))
        .map(str::trim)
        .collect();
    (line, message.join(" "))
}

fn key(name: &str) -> String {
    let bare = !name.is_empty()
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if bare { name.to_owned() } else { quote(name) }
}

/// A value as TOML on one line.
fn show(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(s) => quote(s),
        DeValue::Integer(i) => i.to_string(),
        DeValue::Float(f) => f.to_string(),
        DeValue::Boolean(b) => b.to_string(),
        DeValue::Datetime(d) => d.to_string(),
        DeValue::Array(items) => {
            let items: Vec<String> = items.iter().map(|i| show(i.get_ref())).collect();
            format!("[{}]", items.join(", "))
        }
        DeValue::Table(table) if table.is_empty() => "{}".to_owned(),
        DeValue::Table(table) => {
            let rows: Vec<String> = table
                .iter()
                .map(|(k, v)| format!("{} = {}", key(k.get_ref()), show(v.get_ref())))
                .collect();
            format!("{{ {} }}", rows.join(", "))
        }
    }
}

#[cfg(test)]
mod tests;
