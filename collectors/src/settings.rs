//! A site's settings, by the rows of the table of configuration keys: [`Key`].

pub mod duration;
mod key;
mod kind;
mod read;
pub mod size;

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use toml::Value;

pub use key::Key;
pub use kind::{Fault, Kind};
pub use read::{Found, Reader, nearest};

use crate::Error;

/// The values that are set, by key name. Another process receives them as TOML.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Settings(toml::Table);

impl Settings {
    /// The value of a key that has a default, or must be set.
    ///
    /// # Errors
    /// [`Error::Settings`] if the value does not fit the key, or is absent.
    pub fn get<T: DeserializeOwned>(&self, key: &Key) -> Result<T, Error> {
        self.find(key)?
            .ok_or_else(|| Error::Settings(format!("{}: not set", key.name)))
    }

    /// The value of a key, or its default. `None`: not set, and the key has no default.
    ///
    /// # Errors
    /// [`Error::Settings`] if the value does not fit the key.
    pub fn find<T: DeserializeOwned>(&self, key: &Key) -> Result<Option<T>, Error> {
        let Some(value) = self.0.get(key.name).cloned().or_else(|| key.default_value()) else {
            return Ok(None);
        };
        // Also checked here: the values may come from a process with fewer rights.
        if let Some(fault) = key.kind.check(&value).first() {
            return Err(Error::Settings(format!("{}: {}", key.name, fault.message)));
        }
        let read = value.try_into().map(Some);
        read.map_err(|e| Error::Settings(format!("{}: {}", key.name, e.message())))
    }

    /// The value of a key of the kind [`Kind::Duration`].
    ///
    /// # Errors
    /// As [`Settings::get`].
    pub fn duration(&self, key: &Key) -> Result<Duration, Error> {
        let text: String = self.get(key)?;
        let parsed = duration::parse(&text);
        parsed.ok_or_else(|| Error::Settings(format!("{}: found {text:?}", key.name)))
    }

    /// Whether the site has set this key.
    pub fn is_set(&self, key: &Key) -> bool {
        self.has(key.name)
    }

    /// Whether the site has set the key of this name.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Sets a value that fits its key. A later value replaces an earlier one, except that maps are merged, and arrays of
    /// tables by their `name`.
    pub fn set(&mut self, key: &Key, value: Value) {
        match (&key.kind, self.0.get_mut(key.name), value) {
            (Kind::Map { .. }, Some(Value::Table(old)), Value::Table(new)) => old.extend(new),
            (kind, Some(Value::Array(old)), Value::Array(new)) if kind.is_named() => {
                let name = |row: &Value| row.get("name").cloned();
                old.retain(|row| new.iter().all(|new| name(new) != name(row)));
                old.extend(new);
            }
            (_, _, value) => {
                self.0.insert(key.name.to_owned(), key.kind.normal(value));
            }
        }
    }

    /// Sets a value if the site has set none.
    pub fn fill(&mut self, key: &Key, value: Value) {
        if !self.is_set(key) {
            self.set(key, value);
        }
    }

    /// These keys' values only.
    #[must_use]
    pub fn of(&self, keys: impl Iterator<Item = &'static Key>) -> Self {
        let one = |key: &Key| Some((key.name.to_owned(), self.0.get(key.name)?.clone()));
        Self(keys.filter_map(one).collect())
    }
}

impl From<Settings> for String {
    fn from(settings: Settings) -> Self {
        settings.0.to_string()
    }
}

impl TryFrom<String> for Settings {
    type Error = toml::de::Error;

    fn try_from(text: String) -> Result<Self, toml::de::Error> {
        text.parse().map(Self)
    }
}

#[cfg(test)]
mod tests;
