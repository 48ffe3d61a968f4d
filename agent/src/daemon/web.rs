//! The web configuration of the parent: it has read and checked the files, and the daemon can open none of them.

use super::start::next_packet;
use crate::link::ToDaemon;
use crate::web::{Access, Gate, WebConfig};
use sys::packet::Packets;

/// Takes the packet that follows the first one. Outer `None`: the parent has gone.
///
/// # Errors
/// When something else comes.
pub(super) fn receive(parent: &mut Packets) -> anyhow::Result<Option<Option<Box<WebConfig>>>> {
    match next_packet(parent)? {
        None => Ok(None),
        Some((ToDaemon::Web(web), _)) => Ok(Some(web)),
        Some(_) => anyhow::bail!("protocol error from the parent: second packet is not Web"),
    }
}

/// The access of a start.
///
/// # Errors
/// What the parent's check would have found.
pub(super) fn access(web: Option<&WebConfig>) -> anyhow::Result<Access> {
    let access = web.map(Access::new).transpose().map_err(anyhow::Error::msg)?;
    let access = access.unwrap_or_default();
    warn(&access);
    Ok(access)
}

/// Takes a new one while the server runs. Returns whether it is in force; `None`: `web_config_file` is not set.
pub(super) fn change(gate: &Gate, web: Option<&WebConfig>) -> Option<bool> {
    let access = match web.map(Access::new).transpose() {
        Ok(access) => access.unwrap_or_default(),
        Err(error) => {
            tracing::error!("web configuration rejected, the previous one stays in force: {error}");
            return Some(false);
        }
    };
    warn(&access);
    tracing::info!("web configuration in force: {}", access.describe());
    gate.set(access);
    web.map(|_| true)
}

fn warn(access: &Access) {
    if access.is_overheard() {
        tracing::warn!("basic_auth_users without tls_server_config: passwords are not encrypted");
    }
}
