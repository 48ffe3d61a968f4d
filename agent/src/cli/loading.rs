//! Reads and checks everything that a configuration says, the Xid table that it names included.

use std::path::Path;

use collectors::sys::root;

use crate::config::{self, Config};
use crate::health::checks::CHECKS;
use crate::health::policy::Policy;

/// A configuration, the files that it came from, and the text of `health.xids`.
pub(super) struct Read {
    /// The configuration and its files.
    pub(super) loaded: config::Loaded,
    /// The text of the site's Xid table, where one is named.
    pub(super) xids: Option<String>,
}

/// Reads `file`, what lies beside it and the options.
///
/// # Errors
/// Every problem there is, one a line, each with its file and line.
pub(super) fn read(file: Option<&Path>, sets: &[String]) -> Result<Read, String> {
    let known: Vec<_> = CHECKS.iter().map(|c| (c.id, c.limit)).collect();
    let loaded = Config::load(file, sets, &known).map_err(|e| e.to_string())?;
    let xids = match &loaded.config.health.xids {
        None => None,
        Some(path) => match root::read_text(path) {
            Ok(Some(text)) => Some(text),
            Ok(None) => return Err(format!("{}: no such file (health.xids)", path.display())),
            Err(e) => return Err(format!("{e} (health.xids)")),
        },
    };
    Policy::new(&loaded.config, xids.as_deref())?;
    Ok(Read { loaded, xids })
}
