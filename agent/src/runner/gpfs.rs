//! The commands of GPFS: built in, because their arguments are fixed and their output is larger than that of a site's command.

use collectors::gpfs::commands::{ALL, BIN, COMMANDS, Command, LIMIT, MAX_REPLY};
use collectors::settings::duration;
use collectors::{Error, Settings};

use crate::config::{SiteCommand, gpfs};

/// The lane of all of them, a name that no command of a site has: one that hangs is left behind, and none is added to it.
pub(super) const LANE: &str = "nodewarden.gpfs";

/// Limit of what is kept of their standard output, in bytes.
pub(super) const MAX_KEPT: usize = MAX_REPLY;

/// Their rows, if the configuration enables them.
pub(super) fn rows(settings: &Settings) -> Result<Vec<(String, SiteCommand)>, Error> {
    if !settings.get(&COMMANDS)? {
        return Ok(Vec::new());
    }
    let bin: String = settings.get(&BIN)?;
    let row = |command: &&Command| {
        let program = format!("{bin}/{}", command.program);
        let arguments = command.arguments.iter().map(|argument| (*argument).to_owned());
        let row = SiteCommand {
            command: [program].into_iter().chain(arguments).collect(),
            timeout: duration::show(LIMIT),
        };
        (gpfs::name(command), row)
    };
    Ok(ALL.iter().map(row).collect())
}
