//! Who may connect, and who may ask: what the http thread uses of a [`WebConfig`].

use std::sync::Arc;

use hyper::header::{HeaderName, HeaderValue};
use rustls::ServerConfig;
use tokio::sync::watch;

use super::users::Users;
use super::{ClientAuth, WebConfig, tls};

/// The access in force. The default: plain HTTP, everybody, no header.
#[derive(Debug, Default)]
pub struct Access {
    pub(crate) tls: Option<Arc<ServerConfig>>,
    pub(crate) users: Option<Arc<Users>>,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    /// What clients must present, and whether their certificates must have certain names.
    client_auth: ClientAuth,
    needs_names: bool,
}

impl Access {
    /// Checks certificates and keys.
    ///
    /// # Errors
    /// A text that names the key and its file.
    pub fn new(web: &WebConfig) -> Result<Self, String> {
        let tls = web.tls.as_ref().map(tls::build).transpose()?;
        let users = (!web.users.is_empty())
            .then(|| Users::new(&web.users))
            .transpose()?
            .map(Arc::new);
        let header = |(name, value): (&String, &String)| {
            let name = HeaderName::try_from(name.as_str()).map_err(|e| format!("{name}: {e}"))?;
            let value = HeaderValue::try_from(value.as_str()).map_err(|e| format!("{name}: {e}"))?;
            Ok::<_, String>((name, value))
        };
        Ok(Self {
            tls: tls.map(Arc::new),
            users,
            headers: web.headers.iter().map(header).collect::<Result<_, _>>()?,
            client_auth: web.tls.as_ref().map(|tls| tls.client_auth).unwrap_or_default(),
            needs_names: web.tls.as_ref().is_some_and(|tls| !tls.allowed_sans.is_empty()),
        })
    }

    /// The scheme of its addresses.
    pub fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    /// What it asks of clients, for the log.
    pub fn describe(&self) -> String {
        let users = if self.users.is_some() { "with" } else { "without" };
        format!("{}, {users} authentication", self.scheme())
    }

    /// Whether it lacks TLS, authentication or a check of client certificates that `other` has.
    pub fn is_weaker_than(&self, other: &Self) -> bool {
        (other.tls.is_some() && self.tls.is_none())
            || (other.users.is_some() && self.users.is_none())
            || (other.client_auth.is_required() && !self.client_auth.is_required())
            || (other.client_auth.verifies() && !self.client_auth.verifies())
            || (other.needs_names && !self.needs_names)
    }

    /// Whether passwords are sent without encryption.
    pub fn is_overheard(&self) -> bool {
        self.users.is_some() && self.tls.is_none()
    }
}

/// Where the access of a running server is changed.
#[derive(Debug)]
pub struct Gate(watch::Sender<Arc<Access>>);

impl Gate {
    /// With this access.
    pub fn new(access: Access) -> Self {
        Self(watch::Sender::new(Arc::new(access)))
    }

    /// The access in force.
    pub fn current(&self) -> Arc<Access> {
        Arc::clone(&self.0.borrow())
    }

    /// The access from now on. Open connections end with the request that they answer. Unchanged users keep what is known of
    /// their passwords: a certificate is renewed far more often.
    pub fn set(&self, mut access: Access) {
        if let (Some(new), Some(old)) = (&mut access.users, &self.0.borrow().users)
            && new.is_same(old)
        {
            *new = Arc::clone(old);
        }
        self.0.send_replace(Arc::new(access));
    }

    pub(crate) fn watch(&self) -> watch::Receiver<Arc<Access>> {
        self.0.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Secret;
    use super::*;

    fn access(password: &str, headers: &[(&str, &str)]) -> Access {
        let row = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Access::new(&WebConfig {
            tls: None,
            headers: headers.iter().map(row).collect(),
            users: [("prom".to_owned(), Secret(password.to_owned()))].into(),
        })
        .unwrap()
    }

    #[test]
    fn unchanged_users_keep_their_known_passwords() {
        let gate = Gate::new(access("one", &[]));
        let now = gate.watch();
        let users = || now.borrow().users.clone().unwrap();
        let first = users();
        gate.set(access("one", &[("X-Frame-Options", "deny")]));
        assert!(Arc::ptr_eq(&first, &users()));
        assert_eq!(now.borrow().headers.len(), 1);
        gate.set(access("two", &[]));
        assert!(!Arc::ptr_eq(&first, &users()), "another password");
    }
}
