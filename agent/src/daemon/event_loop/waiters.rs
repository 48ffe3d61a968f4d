//! Those who wait for fresh readings: the health tick, the jobs and the pages.

use std::sync::Arc;
use std::time::Duration;

use collectors::DOMAINS;
use collectors::sys::boot;
use health::Input;
use model::filter::Filter;
use tokio::sync::oneshot;

use super::{Daemon, now, wall_clock};
use crate::own::Page;

/// Time for which a health tick waits for readings, also of slow devices; to the checks later ones are unknown.
pub(super) const TICK_PATIENCE: Duration = Duration::from_secs(3);

/// A requester that waits for readings.
pub(super) struct Waiter {
    pub(super) waiting: Vec<u16>,
    pub(super) deadline: Duration,
    purpose: Purpose,
}

/// The purpose of readings.
pub(super) enum Purpose {
    /// For the engine's checks.
    Tick,
    /// A job has begun or ended.
    Jobs,
    /// For a page.
    Page(oneshot::Sender<Arc<Page>>),
}

impl Daemon {
    /// Requests fresh readings from the workers; the requester is answered when they are complete or at the deadline.
    /// A reading younger than `young`, or fresh by its collector's cadence, is not requested again.
    pub(super) fn ask(&mut self, deadline: Duration, filter: &Filter, young: Duration, purpose: Purpose) {
        let (waiting, told) = self.fleet.ask(boot::boottime(), filter, young);
        self.waiters.push(Waiter {
            waiting,
            deadline,
            purpose,
        });
        for (domain, told) in told {
            self.told(domain, told);
        }
    }

    pub(super) fn answer_waiters(&mut self, time: Duration) {
        let is_slow = self.fleet.is_slow(time, TICK_PATIENCE);
        let is_done = |w: &mut Waiter| {
            // Only a tick waits for slow devices: else no check would ever judge them.
            let is_complete = w.waiting.is_empty() && !(is_slow && matches!(w.purpose, Purpose::Tick));
            is_complete || w.deadline <= time
        };
        let done: Vec<Waiter> = self.waiters.extract_if(.., is_done).collect();
        if done.is_empty() {
            return;
        }
        let snapshot = self.fleet.snapshot(time);
        let wall = wall_clock().as_secs_f64();
        self.jobs.take(&snapshot, &self.engine.ledger().xids, wall);
        let is_tick = done.iter().any(|w| matches!(w.purpose, Purpose::Tick));
        if is_tick {
            self.step(Input::Snapshot(&snapshot));
        } else {
            self.engine.look_at_jobs(now(), &snapshot);
        }
        self.keep_jobs();
        let page = self.publish_snapshot(snapshot);
        for waiter in done {
            if let Purpose::Page(reply) = waiter.purpose
                && waiter.waiting.is_empty()
            {
                // The scraper may have gone. One that waited for nothing gets the page just published, and counts as late.
                sys::ignore(reply.send(Arc::clone(&page)));
            }
        }
    }

    /// Requesters stop waiting for the collectors of a lost worker.
    pub(super) fn release_waiters(&mut self, domain: u16) {
        let name = DOMAINS.get(usize::from(domain)).map_or("", |d| d.name);
        for waiter in &mut self.waiters {
            waiter.waiting.retain(|c| {
                collectors::COLLECTORS
                    .get(usize::from(*c))
                    .is_some_and(|spec| spec.domain.name != name)
            });
        }
    }
}
