//! The commands of GPFS: their names, and what the collector is given besides its own table: where nodewarden writes their
//! output.

use std::path::Path;

use collectors::gpfs::commands::{ALL, COMMANDS, Command, FOLDER, REPLIES};
use toml::Value;

use super::Config;

/// The name in a request to the runner.
pub fn name(command: &Command) -> String {
    format!("gpfs-{}", command.name)
}

/// Whether a name is one of theirs.
pub fn is_one(name: &str) -> bool {
    ALL.iter().any(|command| self::name(command) == name)
}

impl Config {
    /// Whether nodewarden runs commands of GPFS.
    pub fn runs_gpfs_commands(&self) -> bool {
        self.collectors.get(&COMMANDS).unwrap_or_default()
    }

    /// Fills in the folder in this run directory, if nodewarden runs the commands.
    pub fn tell_gpfs(&mut self, run: &Path) {
        let folder = run.join(FOLDER);
        if self.runs_gpfs_commands() && folder.is_absolute() {
            let folder = Value::from(folder.to_string_lossy().as_ref());
            self.collectors.fill(&REPLIES, folder);
        }
    }
}

#[cfg(test)]
mod tests {
    use collectors::gpfs::SPEC;

    use super::*;

    fn folder(table: &str) -> Option<String> {
        let mut config = Config {
            collectors: SPEC.settings(table).unwrap(),
            ..Config::default()
        };
        config.tell_gpfs(Path::new("/run/nw"));
        config.collectors.find(&REPLIES).unwrap()
    }

    #[test]
    fn output_is_read_only_where_someone_writes_it() {
        assert_eq!(folder(""), None);
        assert_eq!(folder("commands = true\n").as_deref(), Some("/run/nw/gpfs"));
        assert_eq!(folder("replies = \"/x\"\n").as_deref(), Some("/x"));
    }
}
