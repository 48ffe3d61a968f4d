//! How a job's user is shown: by number, by name, as a hash, or not at all.

use hmac::{Hmac, KeyInit, Mac};
use serde::Deserialize;
use sha2::Sha256;

/// `user` of the configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum UserLabel {
    /// The number.
    #[default]
    Uid,
    /// The name where this host knows one, else the number.
    Name,
    /// Twelve hexadecimal digits of a hash of the site's salt and the number.
    Hash,
    /// Nothing.
    Off,
}

/// Turns a user's number into what is shown.
#[derive(Clone, Debug)]
pub(super) struct Users {
    shown: UserLabel,
    salt: String,
}

impl Users {
    pub(super) const fn new(shown: UserLabel, salt: String) -> Self {
        Self { shown, salt }
    }

    /// The label. Empty where the user is not known.
    pub(super) fn label(&self, uid: Option<u32>, name: Option<&str>) -> String {
        let Some(uid) = uid else { return String::new() };
        match self.shown {
            UserLabel::Uid => uid.to_string(),
            UserLabel::Name => name.map_or_else(|| uid.to_string(), str::to_owned),
            UserLabel::Hash => hash(&self.salt, uid),
            UserLabel::Off => String::new(),
        }
    }
}

/// HMAC-SHA-256 of the number, keyed with the salt: without the salt a list of all users does not lead back.
fn hash(salt: &str, uid: u32) -> String {
    // A key of any length is taken.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(salt.as_bytes()) else {
        return String::new();
    };
    mac.update(uid.to_string().as_bytes());
    let tag = mac.finalize().into_bytes();
    tag.iter().take(6).map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_shown_as_the_site_wants() {
        let shown = |shown, name| Users::new(shown, "pepper".to_owned()).label(Some(1000), name);
        assert_eq!(shown(UserLabel::Uid, Some("ada")), "1000");
        assert_eq!(shown(UserLabel::Name, Some("ada")), "ada");
        assert_eq!(shown(UserLabel::Name, None), "1000");
        assert_eq!(shown(UserLabel::Off, Some("ada")), "");
        assert_eq!(
            Users::new(UserLabel::Uid, String::new()).label(None, Some("ada")),
            ""
        );
    }

    /// `printf 1000 | openssl dgst -sha256 -hmac pepper`
    #[test]
    fn a_hash_is_the_sites_own() {
        let hashed = |salt: &str, uid| Users::new(UserLabel::Hash, salt.to_owned()).label(Some(uid), None);
        assert_eq!(hashed("pepper", 1000), "fa5c807fcb32");
        assert_ne!(hashed("salt", 1000), hashed("pepper", 1000));
        assert_ne!(hashed("pepper", 1001), hashed("pepper", 1000));
    }
}
