//! Released drivers: for whom, and who waits for the release.

use std::collections::BTreeMap;
use std::time::Duration;

use collectors::DOMAINS;
use health::Now;
use health::audit::{Entry, Kind};
use tokio::sync::oneshot;

use crate::http::Release;
use model::snapshot::Lease;

/// A released driver.
#[derive(Debug)]
struct HeldDriver {
    number: u64,
    by: String,
    user: String,
    uid: u32,
    limit: Duration,
    /// `None` once answered.
    reply: Option<oneshot::Sender<Result<(), String>>>,
}

/// All released drivers, by domain.
#[derive(Debug, Default)]
pub struct Releases(BTreeMap<u16, HeldDriver>);

impl Releases {
    /// Begins a release, under its number. `None`: refused, with an answer.
    pub fn begin(&mut self, release: Release) -> Option<(u16, u64, Lease)> {
        let Release {
            number,
            domain,
            by,
            user,
            uid,
            limit,
            reply,
        } = release;
        if let Some(held) = self.0.get(&domain) {
            let refused = format!("already released for {}", held.by);
            // The client may have gone.
            sys::ignore(reply.send(Err(refused)));
            return None;
        }
        let lease = Lease {
            by: by.clone(),
            until: None,
        };
        let held = HeldDriver {
            number,
            by,
            user,
            uid,
            limit,
            reply: Some(reply),
        };
        self.0.insert(domain, held);
        Some((domain, number, lease))
    }

    /// Whether this domain's worker is held back by a release.
    pub fn is_held(&self, domain: u16) -> bool {
        self.0.contains_key(&domain)
    }

    /// The parent reports that no worker of a domain is left: from `now` on the client may work on its driver. With the entry of the
    /// audit trail. `None`: no client waits for it any more.
    pub fn is_free(&mut self, domain: u16, number: u64, now: Now) -> Option<(Lease, Entry)> {
        let held = self.0.get_mut(&domain).filter(|h| h.number == number)?;
        sys::ignore(held.reply.take()?.send(Ok(())));
        let name = DOMAINS.get(usize::from(domain)).map_or("", |domain| domain.name);
        let entry = Entry {
            detail: Some(format!("{name}, at most {} s", held.limit.as_secs())),
            by: Some(held.user.clone()),
            uid: Some(held.uid),
            ..Entry::new(Kind::Release, now.wall)
        };
        let lease = Lease {
            by: held.by.clone(),
            until: Some(now.boottime.saturating_add(held.limit)),
        };
        Some((lease, entry))
    }

    /// A release is over. `None`: it did not exist, or had been refused.
    pub fn end(&mut self, number: u64) -> Option<u16> {
        let domain = self.0.iter().find(|(_, h)| h.number == number).map(|(d, _)| *d)?;
        self.0.remove(&domain);
        Some(domain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Answer = oneshot::Receiver<Result<(), String>>;

    fn release(number: u64) -> (Release, Answer) {
        let (reply, answer) = oneshot::channel();
        let by = format!("person {number}");
        let release = Release {
            number,
            domain: 3,
            by,
            user: "person".to_owned(),
            uid: 1000,
            limit: Duration::from_secs(60),
            reply,
        };
        (release, answer)
    }

    #[test]
    fn one_person_at_a_time_and_only_the_answer_to_their_own_order_counts() {
        let mut releases = Releases::default();
        let (first, mut answer) = release(1);
        let lease = |until: Option<u64>| Lease {
            by: "person 1".to_owned(),
            until: until.map(Duration::from_secs),
        };
        assert_eq!(releases.begin(first), Some((3, 1, lease(None))));
        let (second, mut refused) = release(2);
        assert_eq!(releases.begin(second), None);
        assert_eq!(
            refused.try_recv().unwrap(),
            Err("already released for person 1".to_owned())
        );
        // The end of a refused release ends nothing.
        assert_eq!(releases.end(2), None);
        let now = Now {
            boottime: Duration::from_secs(5),
            wall: 9,
        };
        assert_eq!(releases.is_free(3, 7, now), None);
        assert!(answer.try_recv().is_err(), "the answer to an earlier order");
        let (granted, entry) = releases.is_free(3, 1, now).unwrap();
        assert_eq!(granted, lease(Some(65)));
        let name = DOMAINS[3].name;
        assert_eq!(
            (entry.kind, entry.at, entry.uid, entry.by.as_deref()),
            (Kind::Release, 9, Some(1000), Some("person"))
        );
        assert_eq!(entry.detail, Some(format!("{name}, at most 60 s")));
        assert_eq!(releases.is_free(3, 1, now), None, "one line for a release");
        assert_eq!(answer.try_recv().unwrap(), Ok(()));
        assert!(releases.is_held(3));
        assert_eq!(releases.end(1), Some(3));
        assert!(!releases.is_held(3));
    }
}
