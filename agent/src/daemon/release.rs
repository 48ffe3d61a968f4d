//! Released drivers: for whom, and who waits for the release.

use std::collections::{BTreeMap, VecDeque};
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
    reply: Option<oneshot::Sender<()>>,
}

/// The releases that have not ended.
#[derive(Debug, Default)]
pub struct Releases {
    /// All released drivers, by domain.
    held: BTreeMap<u16, HeldDriver>,
    /// Releases of drivers that are released to others, in the order of their requests.
    waiting: VecDeque<Release>,
}

impl Releases {
    /// Begins a release, under its number. `None`: it waits for the end of another one.
    pub fn begin(&mut self, release: Release) -> Option<(u16, u64, Lease)> {
        if self.is_held(release.domain) {
            self.waiting.push_back(release);
            return None;
        }
        let Release {
            number,
            domain,
            by,
            user,
            uid,
            limit,
            turn,
            reply,
        } = release;
        // The client may have gone.
        sys::ignore(turn.send(()));
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
        self.held.insert(domain, held);
        Some((domain, number, lease))
    }

    /// Whether this domain's worker is held back by a release.
    pub fn is_held(&self, domain: u16) -> bool {
        self.held.contains_key(&domain)
    }

    /// The parent reports that no worker of a domain is left: from `now` on the client may work on its driver. With the entry of the
    /// audit trail. `None`: no client waits for it any more.
    pub fn is_free(&mut self, domain: u16, number: u64, now: Now) -> Option<(Lease, Entry)> {
        let held = self.held.get_mut(&domain).filter(|h| h.number == number)?;
        sys::ignore(held.reply.take()?.send(()));
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

    /// A release is over: its domain, and the release whose turn it is. `None`: it had not begun.
    pub fn end(&mut self, number: u64) -> Option<(u16, Option<Release>)> {
        self.waiting.retain(|release| release.number != number);
        let domain = self
            .held
            .iter()
            .find(|(_, h)| h.number == number)
            .map(|(d, _)| *d)?;
        self.held.remove(&domain);
        let next = self.waiting.iter().position(|release| release.domain == domain);
        Some((domain, next.and_then(|at| self.waiting.remove(at))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of the turn, and of the driver that is free.
    type Answers = [oneshot::Receiver<()>; 2];

    fn release(number: u64) -> (Release, Answers) {
        let ((turn, begun), (reply, answer)) = (oneshot::channel(), oneshot::channel());
        let by = format!("person {number}");
        let release = Release {
            number,
            domain: 3,
            by,
            user: "person".to_owned(),
            uid: 1000,
            limit: Duration::from_secs(60),
            turn,
            reply,
        };
        (release, [begun, answer])
    }

    #[test]
    fn one_person_at_a_time_and_only_the_answer_to_their_own_order_counts() {
        let mut releases = Releases::default();
        let (first, [mut begun, mut answer]) = release(1);
        let lease = |until: Option<u64>| Lease {
            by: "person 1".to_owned(),
            until: until.map(Duration::from_secs),
        };
        assert_eq!(releases.begin(first), Some((3, 1, lease(None))));
        begun.try_recv().unwrap();
        let (second, [mut waits, _]) = release(2);
        assert_eq!(releases.begin(second), None);
        assert!(waits.try_recv().is_err(), "its turn has not come");
        // The end of a release that waits ends nothing.
        assert!(releases.end(2).is_none());
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
        answer.try_recv().unwrap();
        assert!(releases.is_held(3));
        assert!(matches!(releases.end(1), Some((3, None))));
        assert!(!releases.is_held(3));
    }

    #[test]
    fn the_next_release_begins_as_the_one_before_it_ends_in_the_order_of_the_requests() {
        let mut releases = Releases::default();
        let mut begun = Vec::new();
        for number in 1..=4 {
            let (mut release, [turn, _]) = release(number);
            // The second one wants another driver.
            release.domain += u16::from(number == 2);
            assert_eq!(releases.begin(release).is_some(), number <= 2, "{number}");
            begun.push(turn);
        }
        assert!(
            matches!(releases.end(2), Some((4, None))),
            "none waits for this driver"
        );
        let (domain, next) = releases.end(1).unwrap();
        let next = next.unwrap();
        assert_eq!((domain, next.number), (3, 3));
        assert!(releases.begin(next).is_some());
        let turns: Vec<bool> = begun.iter_mut().map(|turn| turn.try_recv().is_ok()).collect();
        assert_eq!(turns, [true, true, true, false]);
        // One whose client has gone does not get its turn.
        assert!(releases.end(4).is_none());
        assert!(matches!(releases.end(3), Some((3, None))));
    }
}
