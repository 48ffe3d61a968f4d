//! The daemon's servers: expositions over HTTP, and requests on the control socket. One thread, so that no client can
//! delay the core; it reaches the core through [`Core`] only.

mod bind;
mod connection;
mod connection_table;
pub mod control;
mod document;
mod linger;
mod plan;
mod routes;
mod runbooks;
mod server;
mod status;
mod stream;
mod waiting;

use std::sync::Arc;
use std::time::{Duration, Instant};

use collectors::sys::boot;
use tokio::sync::oneshot;

use self::control::Reply;
use crate::own::Page;
use health::Order;
use health::audit::Entry;
use model::filter::Filter;

pub use bind::{BindError, bind_control};
pub use plan::{ListenPlan, without_address};
pub use server::{Doors, Server, spawn};

/// An order to release a driver.
#[derive(Debug)]
pub struct Release {
    /// Its unique number.
    pub number: u64,
    /// The position in [`collectors::DOMAINS`].
    pub domain: u16,
    /// The client.
    pub by: String,
    /// Its user, by name or uid.
    pub user: String,
    /// The uid of its user.
    pub uid: u32,
    /// Time limit, from when the driver is free.
    pub limit: Duration,
    /// Receives a value when no other release of the driver is left, so that its worker is to exit.
    pub turn: oneshot::Sender<()>,
    /// Receives a value once no process of ours has the driver open.
    pub reply: oneshot::Sender<()>,
}

/// The core as seen by the server. Calls return at once; answers come through `reply`, or never if it is dropped.
pub trait Core: Clone + Send + 'static {
    /// Requests a page with fresh on-demand readings of the collectors that `filter` selects, as far as they arrive
    /// before `deadline`.
    fn scrape(&self, deadline: Instant, filter: &Filter, reply: oneshot::Sender<Arc<Page>>);
    /// The last page.
    fn page(&self) -> Arc<Page>;
    /// Passes on an order of an authorized user.
    fn order(&self, order: Order, reply: oneshot::Sender<Reply>);
    /// Reports that an order of this user was refused. `entry` is called if it is within the user's limit.
    fn refused(&self, uid: u32, entry: impl FnOnce() -> Entry);
    /// Releases a driver, after the releases before this one: its worker exits and none is started until [`Core::resume`].
    fn release(&self, release: Release);
    /// The release of this number is over.
    fn resume(&self, number: u64);
    /// Time since boot, in the clock of the snapshots.
    fn now(&self) -> Duration {
        boot::boottime()
    }
}

#[cfg(test)]
pub(crate) mod fake;
