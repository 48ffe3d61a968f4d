//! A pause of this node by a person: until its end, nodewarden writes only what a person orders.

use std::time::Duration;

use super::Engine;
use crate::Order;
use crate::pause::Pause;

impl Engine {
    /// Begins a pause, or replaces the present one.
    pub(super) fn pause(&mut self, order: &Order, seconds: u64) -> String {
        let time = i64::try_from(seconds).unwrap_or(i64::MAX);
        self.state.pause = Some(Pause {
            by: order.by.clone(),
            reason: order.reason.clone(),
            since: self.now.wall,
            until: self.now.wall.saturating_add(time),
        });
        self.state.pauses = self.state.pauses.saturating_add(1);
        self.out.dirty = true;
        let sent = if self.state.drain.is_acting() {
            "; a request that was sent before may still be carried out"
        } else {
            ""
        };
        let length = match seconds {
            long if long % 60 == 0 => format!("{} min", long / 60),
            short => format!("{short} s"),
        };
        format!(
            "paused for {length}: nodewarden neither drains nor lifts, except by `nodewarden clear`{sent}"
        )
    }

    /// Ends the pause.
    pub(super) fn resume(&mut self) -> Result<String, String> {
        if self.paused().is_none() {
            return Err("this node is not paused".to_owned());
        }
        self.state.pause = None;
        self.out.dirty = true;
        Ok("the pause is over".to_owned())
    }

    /// Why the node is paused now.
    pub(super) fn paused(&self) -> Option<String> {
        let pause = self.state.pause.as_ref()?;
        // A clock that was set back by more than its length must not make it endless.
        let length = pause.until.saturating_sub(pause.since);
        let is_on = (pause.since.saturating_sub(length)..pause.until).contains(&self.now.wall);
        is_on.then(|| format!("paused by {}: {}", pause.by, pause.reason))
    }

    /// The time since boot of its end.
    pub(super) fn pause_ends(&self) -> Option<Duration> {
        self.paused()?;
        let until = self.state.pause.as_ref()?.until;
        let left = u64::try_from(until.saturating_sub(self.now.wall)).unwrap_or(0);
        Some(self.now.boottime.saturating_add(Duration::from_secs(left)))
    }
}
