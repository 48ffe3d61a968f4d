//! Reads rows, texts, words and files of the tree, and notes each fault with its place.

use std::collections::BTreeMap;
use std::path::Path;

use collectors::settings::nearest;

use super::yaml::{At, Node, Value};
use super::{Pem, Secret};
use crate::config::{Place, Problem};

/// Keys, each with its place and value.
pub(super) type Table<'n> = BTreeMap<&'n str, (At, &'n Node)>;

pub(super) struct Reader<'a> {
    pub(super) source: &'a str,
    pub(super) file: &'a dyn Fn(&Path) -> Result<String, String>,
    pub(super) problems: Vec<Problem>,
}

impl Reader<'_> {
    pub(super) fn fault(&mut self, at: At, message: String) {
        let place = Place {
            source: self.source.to_owned(),
            line: at.line,
            column: at.column,
        };
        self.problems.push(Problem { place, message });
    }

    /// The rows of a mapping; unknown keys are faults.
    pub(super) fn table<'n>(&mut self, prefix: &str, node: &'n Node, known: &[&str]) -> Table<'n> {
        let Value::Map(rows) = &node.value else {
            let name = prefix.trim_end_matches('.');
            let colon = if name.is_empty() { "" } else { ": " };
            let (kind, keys) = (node.value.kind(), known.join(", "));
            self.fault(
                node.at,
                format!("{name}{colon}found {kind}, expected a mapping with {keys}"),
            );
            return BTreeMap::new();
        };
        for (key, at, _) in rows {
            if known.contains(&key.as_str()) {
                continue;
            }
            let hint = match nearest(key, known.iter().copied()) {
                Some(meant) => format!("did you mean {prefix}{meant}?"),
                None => format!("expected one of {}", known.join(", ")),
            };
            self.fault(*at, format!("unknown key {prefix}{}, {hint}", key.escape_debug()));
        }
        let rows = rows.iter().filter(|(key, ..)| known.contains(&key.as_str()));
        rows.map(|(key, at, node)| (key.as_str(), (*at, node))).collect()
    }

    /// The text of a value. An error does not show it: it may be a key.
    pub(super) fn text<'n>(&mut self, name: &str, node: &'n Node) -> Option<&'n str> {
        if let Value::Text(text) = &node.value {
            return Some(text);
        }
        self.fault(
            node.at,
            format!("{name}: found {}, expected a text", node.value.kind()),
        );
        None
    }

    pub(super) fn flag(&mut self, name: &str, node: &Node) -> Option<bool> {
        self.one_of(name, node, &[("false", false), ("true", true)])
    }

    pub(super) fn one_of<T: Copy>(&mut self, name: &str, node: &Node, words: &[(&str, T)]) -> Option<T> {
        let text = self.text(name, node)?;
        let found = words
            .iter()
            .find(|(word, _)| *word == text)
            .map(|(_, value)| *value);
        if found.is_none() {
            let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            self.fault(
                node.at,
                format!("{name}: found {text:?}, expected {}", words.join(" or ")),
            );
        }
        found
    }

    pub(super) fn texts(
        &mut self,
        table: &Table<'_>,
        key: &str,
        fits: impl Fn(&str) -> Result<(), String>,
    ) -> Vec<String> {
        let Some((_, node)) = table.get(key) else {
            return Vec::new();
        };
        let name = format!("tls_server_config.{key}");
        let items: &[Node] = match &node.value {
            Value::List(items) => items,
            Value::Null | Value::Text(_) | Value::Map(_) => &[],
        };
        // An empty list would mean any.
        if items.is_empty() {
            self.fault(
                node.at,
                format!(
                    "{name}: found {}, expected a list of at least one",
                    node.value.kind()
                ),
            );
        }
        let mut texts = Vec::new();
        for item in items {
            let Some(text) = self.text(&name, item) else {
                continue;
            };
            match fits(text) {
                Ok(()) => texts.push(text.to_owned()),
                Err(expected) => self.fault(item.at, format!("{name}: found {text:?}, expected {expected}")),
            }
        }
        texts
    }

    /// The content of a file in PEM: inline, or in the named file.
    pub(super) fn pem(&mut self, table: &Table<'_>, inline: &str, file: &str) -> Option<Pem> {
        let name = |key: &str| format!("tls_server_config.{key}");
        if let (Some((at, _)), true) = (table.get(inline), table.contains_key(file)) {
            self.fault(
                *at,
                format!("{}: found beside {file}, expected one of them", name(inline)),
            );
            return None;
        }
        if let Some((at, node)) = table.get(inline) {
            let text = self.text(&name(inline), node)?.to_owned();
            return Some(Pem {
                from: format!("line {}: {}", at.line, name(inline)),
                text: Secret(text),
            });
        }
        let (_, node) = table.get(file)?;
        let path = self.text(&name(file), node)?;
        match (self.file)(Path::new(path)) {
            Ok(text) => Some(Pem {
                from: format!("{} {path}", name(file)),
                text: Secret(text),
            }),
            Err(why) => {
                self.fault(node.at, format!("{}: {why}", name(file)));
                None
            }
        }
    }
}
