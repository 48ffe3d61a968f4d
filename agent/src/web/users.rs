//! Basic authentication. bcrypt is slow on purpose: it runs on a thread of its own, one password at a time, and a password that
//! was right costs one keyed hash from then on.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;
use rustls::crypto::ring;
use sha2::Sha256;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::spawn_blocking;

use super::Secret;

/// The users, and which of their passwords were right.
#[derive(Debug)]
pub(crate) struct Users {
    hashes: BTreeMap<String, Secret>,
    /// What passwords of unknown users are compared with: it has the highest cost of a known one, and no password.
    dummy: Secret,
    /// Of the keyed hashes; random, never stored.
    key: [u8; 32],
    /// The keyed hash of each user's last right password: as many as there are users, whatever is tried.
    right: Mutex<BTreeMap<String, [u8; 32]>>,
    /// Held by the password that is being compared.
    turn: Arc<Semaphore>,
    #[cfg(test)]
    compared: std::sync::atomic::AtomicUsize,
}

impl Users {
    /// # Errors
    /// When the kernel has no random numbers.
    pub(super) fn new(hashes: &BTreeMap<String, Secret>) -> Result<Self, String> {
        let mut key = [0; 32];
        let random = ring::default_provider().secure_random;
        random
            .fill(&mut key)
            .map_err(|_| "basic_auth_users: no random numbers".to_owned())?;
        let costs = hashes
            .values()
            .filter_map(|hash| hash.0.parse::<bcrypt::HashParts>().ok());
        let cost = costs
            .map(|parts| parts.get_cost())
            .max()
            .unwrap_or(bcrypt::DEFAULT_COST);
        Ok(Self {
            hashes: hashes.clone(),
            // Salt and hash of zeros.
            dummy: Secret(format!("$2b${cost:02}${}", ".".repeat(53))),
            key,
            right: Mutex::default(),
            turn: Arc::new(Semaphore::new(1)),
            #[cfg(test)]
            compared: std::sync::atomic::AtomicUsize::default(),
        })
    }

    /// Whether the request names a user and the right password.
    pub(crate) async fn admit(&self, headers: &HeaderMap) -> bool {
        let Some((user, password)) = credentials(headers) else {
            return false;
        };
        if self.was_right(&user, &password) {
            return true;
        }
        let is_right = self.compare(&user, &password).await;
        if is_right && let Some(mac) = self.mac(&password) {
            let mut right = self.right.lock().unwrap_or_else(PoisonError::into_inner);
            right.insert(user, mac.finalize().into_bytes().into());
        }
        is_right
    }

    fn mac(&self, password: &[u8]) -> Option<Hmac<Sha256>> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.key).ok()?;
        mac.update(password);
        Some(mac)
    }

    fn was_right(&self, user: &str, password: &[u8]) -> bool {
        let right = self.right.lock().unwrap_or_else(PoisonError::into_inner);
        let stored = right.get(user);
        stored.is_some_and(|stored| {
            self.mac(password)
                .is_some_and(|mac| mac.verify_slice(stored).is_ok())
        })
    }

    async fn compare(&self, user: &str, password: &[u8]) -> bool {
        // In order of arrival. A client that goes away gives up its turn.
        let Ok(turn) = Arc::clone(&self.turn).acquire_owned().await else {
            return false;
        };
        #[cfg(test)]
        self.compared.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let known = self.hashes.get(user);
        let (is_known, hash, password) = (
            known.is_some(),
            known.unwrap_or(&self.dummy).clone(),
            password.to_vec(),
        );
        let (to, result) = oneshot::channel();
        drop(spawn_blocking(move || {
            let began = Instant::now();
            let is_right = bcrypt::verify(&password, &hash.0).unwrap_or(false) && is_known;
            sys::ignore(to.send(is_right));
            // Guesses never take more than half of a CPU.
            if !is_right {
                thread::sleep(began.elapsed());
            }
            drop(turn);
        }));
        result.await.unwrap_or(false)
    }
}

/// User and password of the request.
fn credentials(headers: &HeaderMap) -> Option<(String, Vec<u8>)> {
    let value = headers.get(AUTHORIZATION)?.as_bytes();
    let (scheme, coded) = value.split_at_checked(6)?;
    if !scheme.eq_ignore_ascii_case(b"basic ") {
        return None;
    }
    let bytes = STANDARD.decode(coded.trim_ascii()).ok()?;
    let colon = bytes.iter().position(|b| *b == b':')?;
    let (user, password) = bytes.split_at_checked(colon)?;
    let user = String::from_utf8(user.to_vec()).ok()?;
    Some((user, password.get(1..)?.to_vec()))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use hyper::header::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    /// Each with the password `secret`.
    fn users(names: &[&str]) -> Users {
        let hash = |name: &&str| {
            let hash = bcrypt::hash("secret", 4).unwrap();
            ((*name).to_owned(), Secret(hash))
        };
        Users::new(&names.iter().map(hash).collect()).unwrap()
    }

    fn basic(text: &str) -> HeaderMap {
        let value = format!("Basic {}", STANDARD.encode(text));
        [(AUTHORIZATION, HeaderValue::from_str(&value).unwrap())]
            .into_iter()
            .collect()
    }

    fn compared(users: &Users) -> usize {
        users.compared.load(Ordering::Relaxed)
    }

    #[tokio::test]
    async fn a_right_password_is_compared_once() {
        let users = users(&["prom", "other"]);
        for _ in 0..10 {
            assert!(users.admit(&basic("prom:secret")).await);
        }
        assert_eq!(compared(&users), 1);
        // Of another user it says nothing.
        assert!(users.admit(&basic("other:secret")).await);
        assert_eq!(compared(&users), 2);
        assert!(!users.admit(&basic("prom:secret2")).await);
        assert_eq!(compared(&users), 3);
        assert!(
            users.admit(&basic("prom:secret")).await,
            "a wrong one forgets no right one"
        );
        assert_eq!(compared(&users), 3);
    }

    #[tokio::test]
    async fn wrong_passwords_and_unknown_users_cost_the_same_and_leave_nothing() {
        let users = users(&["prom"]);
        for text in ["prom:wrong", "nobody:secret", ":secret", "prom:"] {
            let before = compared(&users);
            assert!(!users.admit(&basic(text)).await, "{text}");
            assert_eq!(compared(&users), before + 1, "{text}");
        }
        assert!(users.right.lock().unwrap().is_empty());
        let dummy: bcrypt::HashParts = users.dummy.0.parse().unwrap();
        assert_eq!(dummy.get_cost(), 4);
    }

    #[tokio::test]
    async fn what_is_no_basic_authentication_is_refused_without_a_comparison() {
        let users = users(&["prom"]);
        assert!(!users.admit(&HeaderMap::new()).await);
        for value in [
            "",
            "Basic",
            "Basic ",
            "Bearer cHJvbTpzZWNyZXQ=",
            "Basic !!!",
            "Basic cHJvbQ==",
        ] {
            let headers = [(AUTHORIZATION, HeaderValue::from_str(value).unwrap())]
                .into_iter()
                .collect();
            assert!(!users.admit(&headers).await, "{value:?}");
        }
        assert_eq!(compared(&users), 0);
        let value = format!("bAsIc {}", STANDARD.encode("prom:secret"));
        let headers = [(AUTHORIZATION, HeaderValue::from_str(&value).unwrap())]
            .into_iter()
            .collect();
        assert!(users.admit(&headers).await, "the scheme has no case");
    }

    #[tokio::test]
    async fn a_client_that_goes_away_leaves_no_work_behind() {
        let users = users(&["prom"]);
        let held = Arc::clone(&users.turn).acquire_owned().await.unwrap();
        let wait = std::time::Duration::from_millis(10);
        for _ in 0..5 {
            assert!(
                tokio::time::timeout(wait, users.admit(&basic("prom:wrong")))
                    .await
                    .is_err()
            );
        }
        assert_eq!(compared(&users), 0);
        drop(held);
        assert!(users.admit(&basic("prom:secret")).await);
    }

    proptest! {
        #[test]
        fn user_and_password_arrive_as_sent(user in "[^:\u{0}]{0,20}", password in ".{0,20}") {
            let found = credentials(&basic(&format!("{user}:{password}")));
            prop_assert_eq!(found, Some((user, password.into_bytes())));
        }

        #[test]
        fn no_header_panics(value in prop::collection::vec(32_u8..127, 0..40)) {
            let value = HeaderValue::from_bytes(&value).unwrap();
            drop(credentials(&[(AUTHORIZATION, value)].into_iter().collect()));
        }
    }
}
