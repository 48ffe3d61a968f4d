//! A collector's own table of the configuration, passed on as text so that the worker parses it by itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::de::DeserializeOwned;

use crate::Error;

/// One collector's table, as TOML text. Empty: everything at its default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    text: String,
    /// The tables of the collectors in the same worker, by name.
    all: Arc<BTreeMap<String, String>>,
}

impl Settings {
    /// Wraps the TOML text of one table.
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            all: Arc::default(),
        }
    }

    /// The same table beside those of the collectors in its worker, by name.
    #[must_use]
    pub fn among(self, all: &Arc<BTreeMap<String, String>>) -> Self {
        Self {
            all: Arc::clone(all),
            ..self
        }
    }

    /// The table of another collector in the same worker, whose rules hold here too. Empty: everything at its default.
    #[must_use]
    pub fn of(&self, collector: &str) -> Self {
        Self {
            text: self.all.get(collector).cloned().unwrap_or_default(),
            all: Arc::clone(&self.all),
        }
    }

    /// Parses the table.
    ///
    /// # Errors
    /// [`Error::Settings`] with the parser's message, which names the key, what was found and what was expected.
    pub fn get<T: DeserializeOwned>(&self) -> Result<T, Error> {
        toml::from_str(&self.text).map_err(|e| Error::Settings(e.to_string()))
    }
}
