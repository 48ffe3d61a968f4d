//! A port whose link is down. Asked for its state, most drivers ask for the speed of its interface (`ib_get_eth_speed` of
//! drivers/infiniband/core/verbs.c), which takes RTNL and before Linux 6.6 writes a line into the kernel log each time.

use std::time::{Duration, Instant};

/// How long the driver's answer stands while the interface is down.
const STANDS: Duration = Duration::from_secs(60);

/// Whether a driver writes such lines. Mellanox's have the speed from the firmware.
pub(crate) fn is_noisy(link_layer: &str, driver: &str) -> bool {
    link_layer == "Ethernet" && !driver.starts_with("mlx")
}

/// The driver's last answer, if it was that the link is down.
pub(crate) struct DownAnswer<T>(Option<(Instant, T)>);

impl<T> Default for DownAnswer<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: Clone> DownAnswer<T> {
    /// The answer, if it stands. `is_down`: whether the interface still is down.
    pub(crate) fn standing(&self, now: Instant, is_down: impl FnOnce() -> bool) -> Option<T> {
        let (at, answer) = self.0.as_ref()?;
        let is_young = now.saturating_duration_since(*at) < STANDS;
        (is_young && is_down()).then(|| answer.clone())
    }

    /// The driver was asked. `None`: its link is not down, or not known to be.
    pub(crate) fn asked(&mut self, now: Instant, answer: Option<T>) {
        self.0 = answer.map(|answer| (now, answer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_stands_for_a_minute_while_the_interface_is_down() {
        let mut down = DownAnswer::default();
        let now = Instant::now();
        assert_eq!(down.standing(now, || true), None);
        down.asked(now, Some(1));
        let second = Duration::from_secs(1);
        assert_eq!(down.standing(now + STANDS - second, || true), Some(1));
        assert_eq!(down.standing(now + second, || false), None);
        assert_eq!(down.standing(now + STANDS, || true), None);
        down.asked(now, None);
        assert_eq!(down.standing(now, || true), None);
    }
}
