//! `release`: a driver is released as long as the connection of its client lives, with a time limit.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use collectors::{DOMAINS, Domain};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

use super::super::{Core, Release};
use super::{Reply, may_order, users};

/// Time limit for a worker to close its driver. One that waits for events leaves within 5 s; a call into a driver
/// whose firmware does not answer fails after 1 min.
pub const LEAVE: Duration = Duration::from_secs(120);

/// Time limit for earlier releases of the same driver to end: the epilogs of jobs that end together each reset a GPU.
pub const TURN: Duration = Duration::from_secs(600);

/// Longest release, in seconds: a forgotten shell must not leave a node unmonitored.
pub const MOST_SECONDS: u64 = 24 * 3600;

/// A released driver. Dropping it ends the release.
pub(super) struct ReleaseGuard<C: Core> {
    core: C,
    number: u64,
    domain: &'static str,
    by: String,
    until: Instant,
    /// It was not refused.
    granted: bool,
}

impl<C: Core> ReleaseGuard<C> {
    /// The time left.
    pub(super) fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }
}

impl<C: Core> Drop for ReleaseGuard<C> {
    fn drop(&mut self) {
        let (domain, by) = (self.domain, &self.by);
        if self.granted {
            let over = self.left().is_zero();
            tracing::info!(domain, by, over, "the release of the driver ended");
        } else {
            tracing::info!(
                domain,
                by,
                "the driver was not released: refused, or the client is gone"
            );
        }
        self.core.resume(self.number);
    }
}

/// Releases a driver, and replies once no process of ours has it open. `None`: the daemon is stopping.
pub(super) async fn release<C: Core>(
    domain: &str,
    seconds: u64,
    (uid, pid): (u32, Option<i32>),
    core: &C,
) -> Option<(Reply, Option<ReleaseGuard<C>>)> {
    static NUMBERS: AtomicU64 = AtomicU64::new(1);

    let refused = |text: String| Some((Reply::Refused(text), None));
    if !may_order(uid, core) {
        return refused(super::not_permitted(uid));
    }
    let found = DOMAINS.iter().zip(0_u16..).find(|(d, _)| d.name == domain);
    let Some((domain, position)) = found.filter(|(d, _)| !d.devices.is_empty()) else {
        let names: Vec<&str> = releasable().map(|d| d.name).collect();
        return refused(format!(
            "unknown worker {domain:?}, expected one of {}",
            names.join(", ")
        ));
    };
    if !(1..=MOST_SECONDS).contains(&seconds) {
        return refused(format!(
            "invalid limit of {seconds} s, expected 1 s to {MOST_SECONDS} s"
        ));
    }
    let name = users::name(uid).unwrap_or_else(|| uid.to_string());
    let by = pid.map_or_else(|| name.clone(), |pid| format!("{name} (pid {pid})"));
    let ((turn, begun), (reply, answer)) = (oneshot::channel(), oneshot::channel());
    let mut lease = ReleaseGuard {
        core: core.clone(),
        number: NUMBERS.fetch_add(1, Ordering::Relaxed),
        domain: domain.name,
        by: by.clone(),
        until: Instant::now() + TURN + LEAVE + Duration::from_secs(seconds),
        granted: false,
    };
    tracing::info!(domain = domain.name, by, seconds, "releasing the driver");
    core.release(Release {
        number: lease.number,
        domain: position,
        by,
        user: name,
        uid,
        limit: Duration::from_secs(seconds),
        turn,
        reply,
    });
    match timeout(TURN, begun).await {
        Ok(begun) => begun.ok()?,
        Err(_) => {
            return refused(format!(
                "{}: an earlier release has not ended within {} s: see `nodewarden status`",
                domain.name,
                TURN.as_secs()
            ));
        }
    }
    match timeout(LEAVE, answer).await {
        Ok(Ok(())) => {
            lease.granted = true;
            lease.until = Instant::now() + Duration::from_secs(seconds);
            let done = Reply::Done(format!("{} is released", domain.name));
            Some((done, Some(lease)))
        }
        Ok(Err(_)) => None,
        Err(_) => refused(format!(
            "nodewarden's worker is stuck in a driver call for {} s; the driver is not free",
            LEAVE.as_secs()
        )),
    }
}

/// Domains whose driver can be released.
pub fn releasable() -> impl Iterator<Item = &'static Domain> {
    DOMAINS.iter().copied().filter(|d| !d.devices.is_empty())
}
