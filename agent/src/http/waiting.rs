//! Connections that wait for a slot while all that their client may hold are being answered. They are served in order of
//! arrival, so that many scrapers at one address delay the one beside them and do not starve it.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::spawn_local;
use tokio::time::sleep;

use super::connection::Watch;
use super::connection_table::{Client, ConnectionSlot, ConnectionTable};

/// Limit of waiting connections. Each costs a descriptor; nothing of it is read.
pub(super) const MAX_WAITING: usize = 128;

/// Limit of those of one client.
pub(super) const WAITING_PER_CLIENT: usize = 96;

/// Longest wait.
pub(super) const WAIT: Duration = Duration::from_secs(5);

/// Interval of looking for a free slot, while any connection waits: a slot also becomes free when an answer has been sent.
const LOOK: Duration = Duration::from_millis(5);

struct Waiter {
    client: Client,
    watch: Watch,
    slot: Option<oneshot::Sender<ConnectionSlot>>,
}

/// The table of connections with the queue before it.
#[derive(Clone)]
pub(super) struct WaitingRoom(Rc<Room>);

struct Room {
    table: ConnectionTable,
    queue: RefCell<VecDeque<Waiter>>,
    is_watched: Cell<bool>,
}

/// What a new connection gets.
pub(super) enum Admission {
    /// A slot.
    Slot(ConnectionSlot),
    /// A place in the queue.
    Queue(oneshot::Receiver<ConnectionSlot>),
    /// Neither.
    Full,
}

impl WaitingRoom {
    pub(super) fn new() -> Self {
        Self(Rc::new(Room {
            table: ConnectionTable::new(),
            queue: RefCell::default(),
            is_watched: Cell::default(),
        }))
    }

    /// Admits a connection of this client. It does not overtake an earlier one of the same client.
    pub(super) fn admit(&self, client: Client, watch: &Watch) -> Admission {
        if self.0.waiting(client) == 0
            && let Some(slot) = self.0.table.take(client, watch, self.0.is_full_for(client))
        {
            watch.seated();
            return Admission::Slot(slot);
        }
        if self.0.is_full_for(client) {
            self.0.seat(Some(client));
        }
        if self.0.is_full_for(client) {
            return Admission::Full;
        }
        let mut queue = self.0.queue.borrow_mut();
        let (slot, granted) = oneshot::channel();
        queue.push_back(Waiter {
            client,
            watch: watch.clone(),
            slot: Some(slot),
        });
        if !self.0.is_watched.replace(true) {
            spawn_local(Rc::clone(&self.0).usher());
        }
        Admission::Queue(granted)
    }
}

impl Room {
    /// Runs while any connection waits.
    async fn usher(self: Rc<Self>) {
        while !self.queue.borrow().is_empty() {
            sleep(LOOK).await;
            self.seat(None);
        }
        self.is_watched.set(false);
    }

    /// How many connections of this client wait.
    fn waiting(&self, client: Client) -> usize {
        self.queue.borrow().iter().filter(|w| w.client == client).count()
    }

    fn is_full_for(&self, client: Client) -> bool {
        self.waiting(client) >= WAITING_PER_CLIENT || self.queue.borrow().len() >= MAX_WAITING
    }

    /// Gives slots in order of arrival, the first of the client in a `hurry` also that of a connection that has just
    /// come. Waiters that have given up leave.
    fn seat(&self, mut hurry: Option<Client>) {
        let mut full: Vec<Client> = Vec::new();
        self.queue.borrow_mut().retain_mut(|waiter| {
            if waiter.slot.as_ref().is_none_or(oneshot::Sender::is_closed) {
                return false;
            }
            if full.contains(&waiter.client) {
                return true;
            }
            let is_hurried = hurry.take_if(|client| *client == waiter.client).is_some();
            let Some(slot) = self.table.take(waiter.client, &waiter.watch, is_hurried) else {
                full.push(waiter.client);
                return true;
            };
            waiter.watch.seated();
            if let Some(to) = waiter.slot.take() {
                // One that gave up just now gives the slot back.
                drop(to.send(slot));
            }
            false
        });
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use tokio::task::LocalSet;

    use super::super::connection_table::PER_CLIENT;
    use super::*;

    fn client(last: u8) -> Client {
        Client::of(IpAddr::from([10, 0, 0, last]))
    }

    /// [`PER_CLIENT`] connections have just come and were read once; so have those that wait.
    #[tokio::test]
    async fn a_full_queue_hurries_and_seats_its_first() {
        let local = LocalSet::new();
        local
            .run_until(async {
                let room = WaitingRoom::new();
                let watches: Vec<Watch> = (0..PER_CLIENT).map(|_| Watch::new()).collect();
                let admit = |watch: &Watch| room.admit(client(1), watch);
                let _slots: Vec<Admission> = watches.iter().map(admit).collect();
                watches.iter().for_each(Watch::read);
                let mut queue: Vec<_> = (0..WAITING_PER_CLIENT)
                    .map(|_| match room.admit(client(1), &Watch::new()) {
                        Admission::Queue(granted) => granted,
                        _ => panic!("no place"),
                    })
                    .collect();
                assert!(queue[0].try_recv().is_err(), "who has just come is not evicted");
                assert!(matches!(
                    room.admit(client(1), &Watch::new()),
                    Admission::Queue(_)
                ));
                assert!(queue[0].try_recv().is_ok() && queue[1].try_recv().is_err());
                assert!(watches[0].is_evicted() && !watches[1].is_evicted());
            })
            .await;
    }

    #[tokio::test]
    async fn who_came_first_is_served_first_and_no_other_client_waits() {
        let local = LocalSet::new();
        local
            .run_until(async {
                let room = WaitingRoom::new();
                // None of them is read here, so none is evicted.
                let mut held: Vec<ConnectionSlot> = (0..PER_CLIENT)
                    .map(|_| match room.admit(client(1), &Watch::new()) {
                        Admission::Slot(slot) => slot,
                        _ => panic!("no slot"),
                    })
                    .collect();
                let mut queue: VecDeque<_> = (0..WAITING_PER_CLIENT)
                    .map(|_| match room.admit(client(1), &Watch::new()) {
                        Admission::Queue(granted) => granted,
                        _ => panic!("no place"),
                    })
                    .collect();
                assert!(matches!(room.admit(client(1), &Watch::new()), Admission::Full));
                assert!(matches!(room.admit(client(2), &Watch::new()), Admission::Slot(_)));
                // The first of the queue has given up.
                queue.pop_front();
                for _ in 0..3 {
                    held.pop();
                    held.push(queue.pop_front().unwrap().await.unwrap());
                }
                assert!(queue.iter_mut().all(|granted| granted.try_recv().is_err()));
                assert!(matches!(
                    room.admit(client(1), &Watch::new()),
                    Admission::Queue(_)
                ));
            })
            .await;
    }
}
