//! Basic authentication. bcrypt is slow on purpose: it runs on a thread of its own, one password at a time, and a password that
//! was right costs one keyed hash from then on.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
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

/// Limit of passwords that are compared or wait for it, each of another client.
const MAX_PENDING: usize = 8;

/// What the user and the password of a request are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// A user and the right password.
    Right,
    /// Missing, or wrong.
    Wrong,
    /// Not compared: a password of this client waits already, or too many of others do.
    Busy,
}

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
    /// The clients whose password is compared or waits for its turn.
    pending: Mutex<BTreeSet<IpAddr>>,
    /// The compared passwords, in order.
    #[cfg(test)]
    compared: Mutex<Vec<Vec<u8>>>,
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
            pending: Mutex::default(),
            #[cfg(test)]
            compared: Mutex::default(),
        })
    }

    /// Whether these are the same users with the same hashes.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.hashes == other.hashes
    }

    /// Whether the request of this client names a user and the right password. A known password never waits.
    pub(crate) async fn admit(&self, client: IpAddr, headers: &HeaderMap) -> Verdict {
        let Some((user, password)) = credentials(headers) else {
            return Verdict::Wrong;
        };
        if self.was_right(&user, &password) {
            return Verdict::Right;
        }
        let Some(_pending) = Pending::of(self, client) else {
            return Verdict::Busy;
        };
        let is_right = self.compare(&user, &password).await;
        if is_right && let Some(mac) = self.mac(&password) {
            let mut right = self.right.lock().unwrap_or_else(PoisonError::into_inner);
            right.insert(user, mac.finalize().into_bytes().into());
        }
        if is_right { Verdict::Right } else { Verdict::Wrong }
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
        // In order of arrival, which is by turns: no client waits twice.
        let Ok(turn) = Arc::clone(&self.turn).acquire_owned().await else {
            return false;
        };
        #[cfg(test)]
        self.compared
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(password.to_vec());
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

/// The one place of a client, given back when dropped.
struct Pending<'u> {
    users: &'u Users,
    client: IpAddr,
}

impl<'u> Pending<'u> {
    fn of(users: &'u Users, client: IpAddr) -> Option<Self> {
        let mut pending = users.pending.lock().unwrap_or_else(PoisonError::into_inner);
        // Not `then_some`: to drop a place gives it back.
        (pending.len() < MAX_PENDING && pending.insert(client)).then(|| Self { users, client })
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        let pending = self.users.pending.lock();
        pending
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&self.client);
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

    use hyper::header::HeaderValue;
    use proptest::prelude::*;
    use tokio::task::{JoinHandle, yield_now};

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

    fn client(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    async fn admits(users: &Users, headers: &HeaderMap) -> bool {
        let verdict = users.admit(client(1), headers).await;
        assert_ne!(verdict, Verdict::Busy);
        verdict == Verdict::Right
    }

    fn compared(users: &Users) -> usize {
        users.compared.lock().unwrap().len()
    }

    #[tokio::test]
    async fn a_right_password_is_compared_once() {
        let users = users(&["prom", "other"]);
        for _ in 0..10 {
            assert!(admits(&users, &basic("prom:secret")).await);
        }
        assert_eq!(compared(&users), 1);
        // Of another user it says nothing.
        assert!(admits(&users, &basic("other:secret")).await);
        assert_eq!(compared(&users), 2);
        assert!(!admits(&users, &basic("prom:secret2")).await);
        assert_eq!(compared(&users), 3);
        assert!(
            admits(&users, &basic("prom:secret")).await,
            "a wrong one forgets no right one"
        );
        assert_eq!(compared(&users), 3);
    }

    #[tokio::test]
    async fn wrong_passwords_and_unknown_users_cost_the_same_and_leave_nothing() {
        let users = users(&["prom"]);
        for text in ["prom:wrong", "unknown:secret", ":secret", "prom:"] {
            let before = compared(&users);
            assert!(!admits(&users, &basic(text)).await, "{text}");
            assert_eq!(compared(&users), before + 1, "{text}");
        }
        assert!(users.right.lock().unwrap().is_empty());
        let dummy: bcrypt::HashParts = users.dummy.0.parse().unwrap();
        assert_eq!(dummy.get_cost(), 4);
    }

    #[tokio::test]
    async fn what_is_no_basic_authentication_is_refused_without_a_comparison() {
        let users = users(&["prom"]);
        assert!(!admits(&users, &HeaderMap::new()).await);
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
            assert!(!admits(&users, &headers).await, "{value:?}");
        }
        assert_eq!(compared(&users), 0);
        let value = format!("bAsIc {}", STANDARD.encode("prom:secret"));
        let headers = [(AUTHORIZATION, HeaderValue::from_str(&value).unwrap())]
            .into_iter()
            .collect();
        assert!(admits(&users, &headers).await, "the scheme has no case");
    }

    #[tokio::test]
    async fn a_request_that_is_dropped_leaves_no_work_behind() {
        let users = users(&["prom"]);
        let held = Arc::clone(&users.turn).acquire_owned().await.unwrap();
        let wait = std::time::Duration::from_millis(10);
        for _ in 0..5 {
            assert!(
                tokio::time::timeout(wait, admits(&users, &basic("prom:wrong")))
                    .await
                    .is_err()
            );
        }
        assert_eq!(compared(&users), 0);
        drop(held);
        assert!(admits(&users, &basic("prom:secret")).await);
    }

    /// A task that asks, once or for ever.
    fn asks(users: &Arc<Users>, client: IpAddr, text: &str, for_ever: bool) -> JoinHandle<Verdict> {
        let (users, headers) = (Arc::clone(users), basic(text));
        tokio::spawn(async move {
            loop {
                let verdict = users.admit(client, &headers).await;
                if !for_ever {
                    return verdict;
                }
                yield_now().await;
            }
        })
    }

    async fn until_pending(users: &Users, number: usize) {
        while users.pending.lock().unwrap().len() < number {
            yield_now().await;
        }
    }

    #[tokio::test]
    async fn one_password_of_a_client_waits_and_eight_in_all() {
        let users = Arc::new(users(&["prom"]));
        assert!(admits(&users, &basic("prom:secret")).await);
        let held = Arc::clone(&users.turn).acquire_owned().await.unwrap();
        let wrong = basic("prom:wrong");
        let first = asks(&users, client(0), "prom:wrong", false);
        until_pending(&users, 1).await;
        assert_eq!(users.admit(client(0), &wrong).await, Verdict::Busy);
        let others: Vec<_> = (1..8)
            .map(|n| asks(&users, client(n), "prom:wrong", false))
            .collect();
        until_pending(&users, 8).await;
        assert_eq!(users.admit(client(8), &wrong).await, Verdict::Busy);
        // A known one does not wait, wherever it comes from.
        for n in [0, 8] {
            assert_eq!(
                users.admit(client(n), &basic("prom:secret")).await,
                Verdict::Right
            );
        }
        drop(held);
        for waiting in [first].into_iter().chain(others) {
            assert_eq!(waiting.await.unwrap(), Verdict::Wrong);
        }
        assert!(users.pending.lock().unwrap().is_empty());
        assert_eq!(users.admit(client(8), &wrong).await, Verdict::Wrong);
    }

    #[tokio::test]
    async fn guesses_of_one_client_delay_another_by_one() {
        let users = Arc::new(users(&["prom"]));
        let flood: Vec<_> = (0..48)
            .map(|_| asks(&users, client(1), "prom:wrong", true))
            .collect();
        until_pending(&users, 1).await;
        let before = compared(&users);
        let found = users.admit(client(2), &basic("prom:secret")).await;
        assert_eq!(found, Verdict::Right);
        // More may have been compared by the time this task goes on, but not before it.
        let order = users.compared.lock().unwrap().split_off(before);
        let place = order.iter().position(|password| password == b"secret");
        assert!(place.is_some_and(|place| place <= 1), "{place:?}");
        flood.iter().for_each(JoinHandle::abort);
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
