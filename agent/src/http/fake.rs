//! A core for tests.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::control::Reply;
use super::{Core, Release};
use crate::own::Page;
use crate::own::sample;
use health::audit::Entry;
use health::{Order, OrderVerb};
use model::filter::Filter;

#[derive(Clone)]
pub(crate) struct Fake {
    pub(crate) page: Arc<Mutex<Arc<Page>>>,
    /// Whether scrapes are answered.
    pub(crate) answers: bool,
    pub(crate) deadlines: Arc<Mutex<Vec<Duration>>>,
    pub(crate) orders: Arc<Mutex<Vec<Order>>>,
    /// Refused orders.
    pub(crate) refused: Arc<Mutex<Vec<Entry>>>,
    /// Releases that are not over.
    pub(crate) released: Arc<Mutex<Vec<u64>>>,
    /// Replies that are never given.
    held: Arc<Mutex<Vec<oneshot::Sender<Arc<Page>>>>>,
}

impl Fake {
    pub(crate) fn new() -> Self {
        Self {
            page: Arc::new(Mutex::new(Arc::new(sample::page()))),
            answers: true,
            deadlines: Arc::default(),
            orders: Arc::default(),
            refused: Arc::default(),
            released: Arc::default(),
            held: Arc::default(),
        }
    }

    /// Drops the requests: the server falls back to the last page.
    pub(crate) fn release(&self) {
        self.held.lock().unwrap().clear();
    }
}

impl Core for Fake {
    fn scrape(&self, deadline: Instant, _: &Filter, reply: oneshot::Sender<Arc<Page>>) {
        let left = deadline.saturating_duration_since(Instant::now());
        self.deadlines.lock().unwrap().push(left);
        if self.answers {
            drop(reply.send(self.page()));
        } else {
            self.held.lock().unwrap().push(reply);
        }
    }

    fn page(&self) -> Arc<Page> {
        Arc::clone(&self.page.lock().unwrap())
    }

    fn order(&self, order: Order, reply: oneshot::Sender<Reply>) {
        let incident = order.verb.incident().map(ToString::to_string).unwrap_or_default();
        let known = incident.is_empty() || incident == "abcdefgh";
        let text = match order.verb {
            OrderVerb::Ack(_) => format!("acknowledged {incident}"),
            OrderVerb::Clear(_) => format!("cleared {incident}"),
            OrderVerb::Pause { seconds } => format!("paused for {seconds} s"),
            OrderVerb::Resume => "the pause is over".to_owned(),
        };
        let refused = format!("no incident {incident}");
        self.orders.lock().unwrap().push(order);
        drop(reply.send(if known {
            Reply::Done(text)
        } else {
            Reply::Refused(refused)
        }));
    }

    fn refused(&self, uid: u32, entry: impl FnOnce() -> Entry) {
        let entry = entry();
        assert_eq!(entry.uid, Some(uid));
        self.refused.lock().unwrap().push(entry);
    }

    fn release(&self, release: Release) {
        self.released.lock().unwrap().push(release.number);
        sys::ignore(release.turn.send(()));
        sys::ignore(release.reply.send(()));
    }

    fn resume(&self, number: u64) {
        self.released.lock().unwrap().retain(|n| *n != number);
    }

    fn now(&self) -> Duration {
        sample::AT + Duration::from_secs(100)
    }
}
