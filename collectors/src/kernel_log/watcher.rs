//! Opens the log and follows it until it ends or the receiver of the events is gone.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::counts::LogCounts;
use super::follow::{Follow, Ring, Start};
use crate::sys::boot;
use crate::sys::kmsg::{Kmsg, KmsgRead};
use crate::{Cursor, Env, Error, Events, Watcher};

/// The watcher.
pub(super) struct KernelLog {
    env: Env,
    path: PathBuf,
    accept_user: bool,
    counts: Arc<LogCounts>,
    /// Without a cursor, records printed before this are history.
    before_us: u64,
}

impl KernelLog {
    /// Records printed from now on are new, however late the log is opened.
    pub(super) fn new(env: Env, path: PathBuf, accept_user: bool, counts: Arc<LogCounts>) -> Self {
        // A recording is replayed as it happened; its time stamps do not match this machine's uptime.
        let before_us = if env.is_live() {
            micros(boot::monotonic())
        } else {
            0
        };
        Self {
            env,
            path,
            accept_user,
            counts,
            before_us,
        }
    }
}

impl Watcher for KernelLog {
    fn run(&mut self, from: Option<Cursor>, out: &Events) -> Result<(), Error> {
        let start = Start {
            boot: boot::boot_id(&self.env)?,
            from,
            before_us: self.before_us,
            accept_user: self.accept_user,
        };
        let mut ring = Kmsg::open(&self.path)?;
        Follow::new(start, &self.counts, out).run(&mut ring)
    }
}

/// Microseconds, as in the kernel log.
fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl Ring for Kmsg {
    fn read(&mut self, record: &mut Vec<u8>) -> Result<KmsgRead, Error> {
        Self::read(self, record)
    }

    fn wait(&mut self, timeout: Option<Duration>) -> Result<(), Error> {
        Self::wait(self, timeout)
    }

    fn rewind(&mut self) -> Result<bool, Error> {
        Self::rewind(self)
    }

    fn now(&self) -> Duration {
        boot::monotonic()
    }
}
