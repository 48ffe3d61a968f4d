//! `[notify]`: which of the site's commands gets notifications.

use std::collections::BTreeMap;
use std::time::Duration;

use collectors::{Error, Settings};
use serde::{Deserialize, Serialize};

use super::keys::{COMMANDS, NOTIFY};
use super::{SiteCommand, commands as site_commands};

/// The command that gets notifications.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notify {
    /// Its name in `[commands]`.
    pub command: String,
    /// Its time limit.
    pub limit: Duration,
}

impl Notify {
    pub(super) fn of(
        set: &Settings,
        commands: &BTreeMap<String, SiteCommand>,
    ) -> Result<Option<Self>, Error> {
        let command: String = set.get(&NOTIFY)?;
        let row = commands.get(&command);
        Ok(row.map(|row| Self {
            command,
            limit: row.deadline(),
        }))
    }
}

/// The command is one of the configuration, in whatever file.
pub(super) fn known(set: &Settings) -> Result<(), Error> {
    let command: String = set.get(&NOTIFY)?;
    let commands: BTreeMap<String, SiteCommand> = set.get(&COMMANDS)?;
    if command.is_empty() || commands.contains_key(&command) {
        return Ok(());
    }
    let expected = site_commands::expected(&commands);
    let message = format!("notify.command: found {command:?}, expected {expected}");
    Err(Error::Settings(message))
}
