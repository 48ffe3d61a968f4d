//! Reads the file and those that it names.

use std::path::Path;

use super::{Access, WebConfig, keys};
use crate::config::Config;
use sys::trust;

/// Limit of each file, in bytes. The web configuration travels in one packet.
const MAX_FILE: u64 = 64 * 1024;

/// Reads the file, and the certificates and keys that it names. They may be reached through links, as those of certbot and
/// Kubernetes are; only root or the own user may be able to write to them.
///
/// # Errors
/// Every fault, one a line, with file and line.
pub fn read(path: &Path) -> Result<WebConfig, String> {
    let text = text(path).map_err(|why| why + " (web_config_file)")?;
    let folder = path.parent().unwrap_or(Path::new("/"));
    keys::parse(&path.display().to_string(), &text, |named| {
        self::text(&folder.join(named))
    })
    .map_err(|error| error.to_string())
}

/// Reads and checks the file of the configuration. `Ok(None)`: it names none.
///
/// # Errors
/// Those of [`read`] and [`check`].
pub fn of(config: &Config) -> Result<Option<WebConfig>, String> {
    let Some(path) = &config.web_config_file else {
        return Ok(None);
    };
    let web = read(path)?;
    check(path, &web)?;
    Ok(Some(web))
}

/// Whether certificate, key and CA can be used.
///
/// # Errors
/// The first fault, with its key and file.
pub fn check(path: &Path, web: &WebConfig) -> Result<(), String> {
    Access::new(web)
        .map(drop)
        .map_err(|why| format!("{}: {why}", path.display()))
}

fn text(path: &Path) -> Result<String, String> {
    let bytes = trust::read_linked(path, MAX_FILE).map_err(|e| e.to_string())?;
    let bytes = bytes.ok_or_else(|| format!("{}: no such file", path.display()))?;
    String::from_utf8(bytes).map_err(|_| {
        format!(
            "{}: found bytes that are not UTF-8, expected text",
            path.display()
        )
    })
}
