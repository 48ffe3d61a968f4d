//! A collector's own table of the configuration, passed on as text so that the worker parses it by itself.

use serde::de::DeserializeOwned;

use crate::Error;

/// One collector's table, as TOML text. Empty: everything at its default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    text: String,
}

impl Settings {
    /// Wraps the TOML text of one table.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into() }
    }

    /// Parses the table.
    ///
    /// # Errors
    /// [`Error::Settings`] with the parser's message, which names the key, what was found and what was expected.
    pub fn get<T: DeserializeOwned>(&self) -> Result<T, Error> {
        toml::from_str(&self.text).map_err(|e| Error::Settings(e.to_string()))
    }
}
