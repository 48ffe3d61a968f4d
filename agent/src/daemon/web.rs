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

/// The access to pages while the server runs.
pub(super) struct WebAccess {
    gate: Gate,
    /// `listen` was changed, which needs a restart: the addresses are still those before.
    is_elsewhere: bool,
}

impl WebAccess {
    pub(super) const fn new(gate: Gate) -> Self {
        Self {
            gate,
            is_elsewhere: false,
        }
    }

    /// Takes a new one. Returns whether it was rejected; `None`: `web_config_file` is not set. One without the protection
    /// that is in force was made for the new addresses, and waits for them.
    pub(super) fn change(&mut self, web: Option<Box<WebConfig>>) -> Option<bool> {
        let access = match web.as_deref().map(Access::new).transpose() {
            Ok(access) => access.unwrap_or_default(),
            Err(error) => {
                tracing::error!("web configuration rejected, the previous one stays in force: {error}");
                return Some(true);
            }
        };
        let is_set = web.is_some();
        if self.is_elsewhere && access.is_weaker_than(&self.gate.current()) {
            tracing::warn!(
                "the new web configuration has less protection and needs the restart that `listen` needs: the previous \
                 one stays in force"
            );
            return is_set.then_some(false);
        }
        warn(&access);
        tracing::info!("web configuration in force: {}", access.describe());
        self.gate.set(access);
        is_set.then_some(false)
    }

    /// Whether the configured addresses are others than those that are served. Comes before the access that belongs to them.
    pub(super) const fn listens_elsewhere(&mut self, is_elsewhere: bool) {
        self.is_elsewhere = is_elsewhere;
    }
}

fn warn(access: &Access) {
    if access.is_overheard() {
        tracing::warn!("basic_auth_users without tls_server_config: passwords are not encrypted");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::Secret;

    fn with_users(names: &[&str]) -> Option<Box<WebConfig>> {
        let hash = || Secret("$2y$04$......................KxkSFIN7vRNVfWlJFHkPYJSlWl.4pTa".to_owned());
        Some(Box::new(WebConfig {
            tls: None,
            headers: [].into(),
            users: names.iter().map(|name| ((*name).to_owned(), hash())).collect(),
        }))
    }

    /// The old addresses may be public, the new ones private.
    #[test]
    fn less_protection_waits_for_the_restart_that_moves_the_addresses() {
        let mut web = WebAccess::new(Gate::new(access(with_users(&["a"]).as_deref()).unwrap()));
        let has_users = |web: &WebAccess| web.gate.current().users.is_some();
        web.listens_elsewhere(true);
        assert_eq!(web.change(None), None);
        assert!(has_users(&web));
        // A removed user must not wait.
        let before = web.gate.current();
        assert_eq!(web.change(with_users(&["b"])), Some(false));
        assert!(!std::sync::Arc::ptr_eq(&before, &web.gate.current()));
        assert_eq!(web.change(None), None);
        assert!(has_users(&web));
        web.listens_elsewhere(false);
        assert!(
            has_users(&web),
            "what belongs to these addresses comes after them"
        );
        assert_eq!(web.change(None), None);
        assert!(
            !has_users(&web),
            "the configured addresses are those that are served"
        );
        web.change(with_users(&["a"]));
        assert_eq!(web.change(None), None);
        assert!(!has_users(&web), "the addresses stay");
    }
}
