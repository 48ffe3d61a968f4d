//! What the daemon serves: expositions over HTTP, and people's questions and orders on the control socket. One thread,
//! so that no client can hold up the core; the core is reached through [`Core`] alone.

mod bind;
mod connection;
mod connection_table;
pub mod control;
mod linger;
mod plan;
mod routes;
mod server;
mod status;

use std::sync::Arc;
use std::time::{Duration, Instant};

use collectors::sys::boot;
use tokio::sync::oneshot;

use crate::own::Page;
use health::Order;
use model::filter::Filter;
use model::jobs::End;

pub use bind::{BindError, bind_control};
pub use plan::ListenPlan;
pub use server::{Doors, Server, spawn};

/// An order to let go of a driver.
#[derive(Debug)]
pub struct Release {
    /// Tells it from every other.
    pub number: u64,
    /// The position in [`collectors::DOMAINS`].
    pub domain: u16,
    /// Who wants it.
    pub by: String,
    /// For how long at most, from when it is free.
    pub limit: Duration,
    /// Told once nothing of ours is inside of the driver, or why that will not be.
    pub reply: oneshot::Sender<Result<(), String>>,
}

/// The core as the server sees it. Calls return at once; answers come through `reply`, or never when it is dropped.
pub trait Core: Clone + Send + 'static {
    /// Asks for a page on which the on-demand readings that `filter` takes are fresh, as far as they come in before `deadline`.
    fn scrape(&self, deadline: Instant, filter: &Filter, reply: oneshot::Sender<Arc<Page>>);
    /// The last page.
    fn page(&self) -> Arc<Page>;
    /// Passes on an order of somebody who may give it.
    fn order(&self, order: Order, reply: oneshot::Sender<Result<String, String>>);
    /// Lets go of a driver: its worker leaves and none is started until [`Core::resume`].
    fn release(&self, release: Release);
    /// The release of this number is over.
    fn resume(&self, number: u64);
    /// The epilog of a job tells how it ended.
    fn job_ended(&self, job: u32, end: End, began: Option<f64>);
    /// Time since boot, in the clock of the snapshots.
    fn now(&self) -> Duration {
        boot::boottime()
    }
}

#[cfg(test)]
pub(crate) mod fake;
