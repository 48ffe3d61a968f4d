//! `release`: a driver is let go for as long as the connection that asked for it lives, but not for ever.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use collectors::{DOMAINS, Domain};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

use super::super::{Core, Release};
use super::{Reply, may_order, users};

/// How long a worker may take to leave its driver. One that waits for events leaves within five seconds; a call into a
/// driver whose firmware does not answer fails after a minute.
pub const LEAVE: Duration = Duration::from_secs(120);

/// The longest that a driver may be let go, in seconds: beyond, a forgotten shell would leave a node unwatched.
pub const MOST_SECONDS: u64 = 24 * 3600;

/// A driver that is let go. Dropping it takes the driver back.
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
    /// How long it may go on.
    pub(super) fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }
}

impl<C: Core> Drop for ReleaseGuard<C> {
    fn drop(&mut self) {
        let (domain, by) = (self.domain, &self.by);
        if self.granted {
            let over = self.left().is_zero();
            tracing::info!(domain, by, over, "the driver is taken back");
        } else {
            tracing::info!(
                domain,
                by,
                "the driver was not released: refused, or nobody waits for it any more"
            );
        }
        self.core.resume(self.number);
    }
}

/// Lets a driver go, and answers once nothing of ours is inside of it.
pub(super) async fn release<C: Core>(
    domain: &str,
    seconds: u64,
    (uid, pid): (u32, Option<i32>),
    core: &C,
) -> (Reply, Option<ReleaseGuard<C>>) {
    static NUMBERS: AtomicU64 = AtomicU64::new(1);

    let refused = |text: String| (Reply::Refused(text), None);
    if !may_order(uid, core) {
        return refused(super::not_permitted(uid));
    }
    let found = DOMAINS.iter().zip(0_u16..).find(|(d, _)| d.name == domain);
    let Some((domain, position)) = found.filter(|(d, _)| !d.devices.is_empty()) else {
        let names: Vec<&str> = releasable().map(|d| d.name).collect();
        return refused(format!("{domain:?} is none of {}", names.join(", ")));
    };
    if !(1..=MOST_SECONDS).contains(&seconds) {
        return refused(format!("{seconds} s is not between 1 s and {MOST_SECONDS} s"));
    }
    let name = users::name(uid).unwrap_or_else(|| uid.to_string());
    let by = pid.map_or_else(|| name.clone(), |pid| format!("{name} (pid {pid})"));
    let (reply, answer) = oneshot::channel();
    let mut lease = ReleaseGuard {
        core: core.clone(),
        number: NUMBERS.fetch_add(1, Ordering::Relaxed),
        domain: domain.name,
        by: by.clone(),
        until: Instant::now() + LEAVE + Duration::from_secs(seconds),
        granted: false,
    };
    tracing::info!(domain = domain.name, by, seconds, "a driver is to be released");
    core.release(Release {
        number: lease.number,
        domain: position,
        by,
        limit: Duration::from_secs(seconds),
        reply,
    });
    match timeout(LEAVE, answer).await {
        Ok(Ok(Ok(()))) => {
            lease.granted = true;
            lease.until = Instant::now() + Duration::from_secs(seconds);
            (Reply::Done(format!("{} is released", domain.name)), Some(lease))
        }
        Ok(Ok(Err(text))) => refused(format!("{}: {text}", domain.name)),
        Ok(Err(_)) => refused("the daemon is ending".to_owned()),
        Err(_) => refused(format!(
            "a call of ours into the driver has not come back within {} s; the driver is not free",
            LEAVE.as_secs()
        )),
    }
}

/// Those that have a driver to let go of.
pub fn releasable() -> impl Iterator<Item = &'static Domain> {
    DOMAINS.iter().copied().filter(|d| !d.devices.is_empty())
}
