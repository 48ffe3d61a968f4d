//! Opens the log and follows it until it ends or nobody takes the events any more.

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
    /// What was printed before this is history, where no cursor says otherwise.
    before_us: u64,
}

impl KernelLog {
    /// What is printed from now on is news, however late the log is opened.
    pub(super) fn new(env: Env, path: PathBuf, accept_user: bool, counts: Arc<LogCounts>) -> Self {
        // A recording is replayed as it happened; its time stamps say nothing about this machine's uptime.
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

/// Microseconds, as the kernel's log counts them.
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

    fn now(&self) -> Duration {
        boot::monotonic()
    }
}
