//! `release`: a driver is let go for as long as the connection that asked for it lives, but not for ever.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use collectors::DOMAINS;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

use super::super::{Core, Release};
use super::{Reply, may_order, users};

/// How long a worker may take to leave its driver. One that waits for a driver's events leaves within five seconds.
const LEAVE: Duration = Duration::from_secs(60);

/// The longest that a driver may be let go, in seconds: beyond, a forgotten shell would leave a node unwatched.
pub const MOST_SECONDS: u64 = 24 * 3600;

/// A driver that is let go. Dropping it takes the driver back.
pub(super) struct Lease<C: Core> {
    core: C,
    number: u64,
    domain: &'static str,
    by: String,
    until: Instant,
}

impl<C: Core> Lease<C> {
    /// How long it may go on.
    pub(super) fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }
}

impl<C: Core> Drop for Lease<C> {
    fn drop(&mut self) {
        let (domain, by) = (self.domain, &self.by);
        if self.left().is_zero() {
            tracing::warn!(
                domain,
                by,
                "the time of a release is over; the driver is taken back"
            );
        } else {
            tracing::info!(domain, by, "a release is over");
        }
        self.core.resume(self.number);
    }
}

/// Lets a driver go, and answers once nothing of ours is inside of it.
pub(super) async fn release<C: Core>(
    domain: &str,
    seconds: u64,
    uid: u32,
    core: &C,
) -> (Reply, Option<Lease<C>>) {
    static NUMBERS: AtomicU64 = AtomicU64::new(1);

    let refused = |text: String| (Reply::Refused(text), None);
    if !may_order(uid, core) {
        return refused(super::not_permitted(uid));
    }
    let found = DOMAINS.iter().zip(0_u16..).find(|(d, _)| d.name == domain);
    let Some((domain, position)) = found else {
        let names: Vec<&str> = DOMAINS.iter().map(|d| d.name).collect();
        return refused(format!("{domain:?} is none of {}", names.join(", ")));
    };
    if !(1..=MOST_SECONDS).contains(&seconds) {
        return refused(format!("{seconds} s is not between 1 s and {MOST_SECONDS} s"));
    }
    let by = users::name(uid).unwrap_or_else(|| uid.to_string());
    let (reply, answer) = oneshot::channel();
    let mut lease = Lease {
        core: core.clone(),
        number: NUMBERS.fetch_add(1, Ordering::Relaxed),
        domain: domain.name,
        by: by.clone(),
        until: Instant::now() + LEAVE + Duration::from_secs(seconds),
    };
    tracing::info!(domain = domain.name, by, uid, seconds, "release");
    core.release(Release {
        number: lease.number,
        domain: position,
        by,
        reply,
    });
    match timeout(LEAVE, answer).await {
        Ok(Ok(Ok(()))) => {
            lease.until = Instant::now() + Duration::from_secs(seconds);
            (Reply::Done(format!("{} is released", domain.name)), Some(lease))
        }
        Ok(Ok(Err(text))) => refused(format!("{}: {text}", domain.name)),
        Ok(Err(_)) => refused("the daemon is ending".to_owned()),
        Err(_) => refused(format!(
            "its worker has not left the driver within {} s; `nodewarden status` tells what it waits for",
            LEAVE.as_secs()
        )),
    }
}
