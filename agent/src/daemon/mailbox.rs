//! How other threads reach the core: a channel, and a descriptor that wakes it.

use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use collectors::slurm::hook::RecordId;
use tokio::sync::oneshot;

use super::refused::RefusedOrders;
use super::store::Stored;
use crate::http::control::Reply;
use crate::http::{Core, Release};
use crate::own::Page;
use health::Order;
use health::audit::Entry;
use model::filter::Filter;
use sys::poll::Waker;

/// A message to the core.
#[derive(Debug)]
pub enum Message {
    /// A request for a fresh snapshot of these collectors by then.
    Scrape(Instant, Filter, oneshot::Sender<Arc<Page>>),
    /// An operator's order.
    Order(Order, oneshot::Sender<Reply>),
    /// An order was refused.
    Refused(Box<Entry>),
    /// Release this domain's driver.
    Release(Release),
    /// End the release of this number.
    Resume(u64),
    /// The result of storing a record.
    Stored(Stored),
    /// The line of a job is written: the record of its epilog is not needed any more.
    Recorded(RecordId),
}

/// The sender's side, one for each thread.
#[derive(Clone, Debug)]
pub struct Mailbox {
    to: Sender<Message>,
    waker: Waker,
    page: Arc<Mutex<Arc<Page>>>,
    refused: Arc<Mutex<RefusedOrders>>,
}

impl Mailbox {
    /// A mailbox; `page` is shown until the core publishes its first.
    pub fn new(to: Sender<Message>, waker: Waker, page: Arc<Page>) -> Self {
        Self {
            to,
            waker,
            page: Arc::new(Mutex::new(page)),
            refused: Arc::default(),
        }
    }

    /// Sends a message and wakes the core.
    pub fn send(&self, message: Message) {
        // The process ends with the core.
        sys::ignore(self.to.send(message));
        self.waker.wake();
    }

    /// Refused orders that were not passed on.
    pub fn suppressed(&self) -> u64 {
        self.refused
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .suppressed()
    }

    /// Replaces the page that is shown if the core does not answer in time.
    pub fn publish(&self, page: Arc<Page>) {
        *self.page.lock().unwrap_or_else(PoisonError::into_inner) = page;
    }
}

impl Core for Mailbox {
    fn scrape(&self, deadline: Instant, filter: &Filter, reply: oneshot::Sender<Arc<Page>>) {
        self.send(Message::Scrape(deadline, filter.clone(), reply));
    }

    fn page(&self) -> Arc<Page> {
        Arc::clone(&self.page.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn order(&self, order: Order, reply: oneshot::Sender<Reply>) {
        self.send(Message::Order(order, reply));
    }

    fn refused(&self, uid: u32, entry: impl FnOnce() -> Entry) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = refused.take(uid, Instant::now());
        drop(refused);
        if let Some(suppressed) = taken {
            let entry = Entry {
                suppressed,
                ..entry()
            };
            self.send(Message::Refused(Box::new(entry)));
        }
    }

    fn release(&self, release: Release) {
        self.send(Message::Release(release));
    }

    fn resume(&self, number: u64) {
        self.send(Message::Resume(number));
    }
}
