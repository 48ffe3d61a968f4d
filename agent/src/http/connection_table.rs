//! The table of connections: how many there may be, and which one is closed for a new one when it is full.

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use tokio::time::Instant;

use super::connection::{ConnectionPhase, Watch};

/// The most connections at a time.
pub(super) const MAX_CONNECTIONS: usize = 64;

/// The most of one client, so that it cannot keep the others out by asking what takes long.
pub(super) const PER_CLIENT: usize = 48;

/// How long a client may send nothing of its request, or read nothing of its answer, before its slot may go to another.
const STALLED: Duration = Duration::from_secs(1);

/// Who connections are counted for: an IPv4 address, or the /64 of an IPv6 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Client(IpAddr);

impl Client {
    pub(super) fn of(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V6(v6) if !v6.is_loopback() => IpAddr::V6((v6.to_bits() >> 64 << 64).into()),
            other => other,
        })
    }

    /// The address, the last bits of an IPv6 address being zero.
    pub(super) fn address(self) -> IpAddr {
        self.0
    }
}

struct Entry {
    number: u64,
    client: Client,
    watch: Watch,
}

/// The table of connections.
#[derive(Clone)]
pub(super) struct ConnectionTable(Rc<Entries>);

#[derive(Default)]
struct Entries {
    held: RefCell<Vec<Entry>>,
    next: Cell<u64>,
}

/// A slot in the table, given back when dropped.
pub(super) struct ConnectionSlot {
    number: u64,
    table: Rc<Entries>,
}

impl ConnectionTable {
    pub(super) fn new() -> Self {
        Self(Rc::default())
    }

    /// A slot for a new connection of this client. If none is free, the connection that has been idle for longest
    /// goes: one of the client's own, or of a client that holds more than it. `None`: all of those are being answered,
    /// or have just come, which counts only while there is no `hurry`.
    pub(super) fn take(&self, client: Client, watch: &Watch, hurry: bool) -> Option<ConnectionSlot> {
        let mut held = self.0.held.borrow_mut();
        let count = |c: Client| held.iter().filter(|h| h.client == c).count();
        let own = count(client);
        if own >= PER_CLIENT || held.len() >= MAX_CONNECTIONS {
            let may_go = |h: &Entry| h.client == client || (own < PER_CLIENT && count(h.client) > own);
            let (at, _) = held
                .iter()
                .enumerate()
                .filter(|(_, h)| may_go(h) && !h.watch.is_unread())
                .filter_map(|(at, h)| {
                    let order = rank(h.watch.phase(), Instant::now(), hurry)?;
                    Some((at, (usize::MAX - count(h.client), order)))
                })
                .min_by_key(|(_, order)| *order)?;
            held.swap_remove(at).watch.evict();
        }
        let number = self.0.next.get();
        self.0.next.set(number + 1);
        held.push(Entry {
            number,
            client,
            watch: watch.clone(),
        });
        let table = Rc::clone(&self.0);
        Some(ConnectionSlot { number, table })
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.0.held.borrow().len()
    }
}

/// Who goes first: the idle and the silent, then those that have not asked yet, then those that do not read. Never who is being
/// answered. A request may come a moment after its connection.
fn rank(phase: ConnectionPhase, now: Instant, hurry: bool) -> Option<(u8, Instant)> {
    let is_recent = |since| now.saturating_duration_since(since) < STALLED;
    match phase {
        ConnectionPhase::New(since) | ConnectionPhase::Head(since) if !hurry && is_recent(since) => None,
        ConnectionPhase::New(since) | ConnectionPhase::Idle(since) => Some((0, since)),
        ConnectionPhase::Head(since) => Some((1, since)),
        ConnectionPhase::Answer(_, moved) if is_recent(moved) => None,
        ConnectionPhase::Answer(_, moved) => Some((2, moved)),
        ConnectionPhase::Busy(_) => None,
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.table.held.borrow_mut().retain(|h| h.number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(last: u8) -> Client {
        Client::of(IpAddr::from([10, 0, 0, last]))
    }

    fn fill(table: &ConnectionTable, who: Client, number: usize) -> Vec<(Watch, ConnectionSlot)> {
        let one = |_| {
            let watch = Watch::new();
            let slot = table.take(who, &watch, true).unwrap();
            (watch, slot)
        };
        (0..number).map(one).collect()
    }

    fn gone(held: &[(Watch, ConnectionSlot)]) -> Vec<usize> {
        let out = |(at, (watch, _)): (usize, &(Watch, ConnectionSlot))| watch.is_evicted().then_some(at);
        held.iter().enumerate().filter_map(out).collect()
    }

    #[test]
    fn the_idle_one_of_the_greediest_goes_first() {
        let table = ConnectionTable::new();
        let greedy = fill(&table, client(1), PER_CLIENT);
        let other = fill(&table, client(2), MAX_CONNECTIONS - PER_CLIENT);
        greedy[0].0.busy();
        let third = fill(&table, client(3), 1);
        assert_eq!(
            gone(&greedy),
            [1],
            "the first is being answered, the second the longest idle"
        );
        assert!(gone(&other).is_empty() && gone(&third).is_empty());
        assert_eq!(table.len(), MAX_CONNECTIONS);
    }

    #[test]
    fn one_client_pushes_out_only_itself() {
        let table = ConnectionTable::new();
        let other = fill(&table, client(2), 1);
        let greedy = fill(&table, client(1), PER_CLIENT * 10);
        assert!(gone(&other).is_empty());
        assert_eq!(gone(&greedy).len(), PER_CLIENT * 9);
        assert_eq!(table.len(), PER_CLIENT + 1);
        drop(greedy);
        assert_eq!(table.len(), 1);
    }

    #[test]
    fn who_has_just_come_stays_unless_there_is_a_hurry() {
        let t = Instant::now();
        let after = |milliseconds| t + Duration::from_millis(milliseconds);
        for phase in [ConnectionPhase::New(t), ConnectionPhase::Head(t)] {
            assert_eq!(rank(phase, after(999), false), None, "{phase:?}");
            assert!(rank(phase, after(999), true).is_some(), "{phase:?}");
            assert!(rank(phase, after(1000), false).is_some(), "{phase:?}");
        }
        assert!(rank(ConnectionPhase::Idle(t), t, false).is_some());
        assert_eq!(rank(ConnectionPhase::Answer(t, t), after(999), true), None);
        assert!(rank(ConnectionPhase::Answer(t, t), after(1000), false).is_some());
        assert_eq!(rank(ConnectionPhase::Busy(t), after(60_000), true), None);
    }

    #[test]
    fn what_is_being_answered_stays_and_others_still_get_in() {
        let table = ConnectionTable::new();
        let greedy = fill(&table, client(1), PER_CLIENT);
        greedy.iter().for_each(|(watch, _)| watch.busy());
        assert!(table.take(client(1), &Watch::new(), true).is_none());
        let other = fill(&table, client(2), MAX_CONNECTIONS - PER_CLIENT);
        other.iter().for_each(|(watch, _)| watch.busy());
        assert!(table.take(client(3), &Watch::new(), true).is_none());
        assert!(gone(&greedy).is_empty() && gone(&other).is_empty());
        drop(other);
        assert!(table.take(client(3), &Watch::new(), true).is_some());
    }

    #[test]
    fn a_prefix_of_ipv6_is_one_client() {
        let of = |text: &str| Client::of(text.parse().unwrap());
        assert_eq!(of("fd00::1"), of("fd00::2"));
        assert_ne!(of("fd00::1"), of("fd00:0:0:1::1"));
        assert_eq!(of("::ffff:10.0.0.1"), client(1));
        assert_ne!(of("10.0.0.1"), of("10.0.0.2"));
        assert_ne!(of("::1"), of("::2"));
    }
}
