//! The commands of the configuration, as the runner reads them.

use std::collections::BTreeMap;

use super::{ConfigArgs, gpfs};
use crate::config::{self, SiteCommand};

/// The commands of the configuration and those that it enables, if only root or our own user can have written it.
///
/// # Errors
/// Why there are none.
pub(super) fn load(args: &ConfigArgs) -> Result<BTreeMap<String, SiteCommand>, String> {
    let read = config::read(args.file.as_deref(), &args.sets)?;
    for file in &read.files {
        sys::files::is_trusted(file).map_err(|e| format!("{}: {e}", file.display()))?;
    }
    let config = read.loaded.config;
    let mut commands = config.commands;
    commands.extend(gpfs::rows(&config.collectors).map_err(|e| e.to_string())?);
    Ok(commands)
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests write the configuration")]
mod tests {
    use super::*;

    #[test]
    fn what_others_can_write_names_no_command() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("c.toml");
        std::fs::write(
            &file,
            "[commands.hello]\ncommand = [\"/bin/echo\"]\ntimeout = \"5s\"\n",
        )
        .unwrap();
        let args = ConfigArgs {
            file: Some(file.clone()),
            sets: Vec::new(),
        };
        let mode = |mode| std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        mode(0o644);
        assert_eq!(
            load(&args).unwrap()["hello"],
            SiteCommand {
                command: vec!["/bin/echo".to_owned()],
                timeout: "5s".to_owned(),
            }
        );
        mode(0o664);
        assert!(load(&args).unwrap_err().contains("c.toml"));
    }
}
