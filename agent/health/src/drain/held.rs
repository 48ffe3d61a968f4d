//! A drain that the node's state allows, and the cluster's limit or a person does not.

use std::time::Duration;

use model::scheduler::{Guard, Held, HeldBy};

use super::super::Now;
use super::{Drain, Facts, State, Want};

/// The most incidents whose tries are known.
const MOST: usize = 64;

impl Drain {
    /// A person paused this node.
    pub(super) fn hold(&mut self, want: &Want, why: &str, now: Now) {
        self.is_for(&want.incident, now);
        self.reason = Some(want.reason.as_str().to_owned());
        self.held = Some(HeldBy::Pause);
        self.to(State::Held, why, now);
    }

    /// The parent holds the drain: the next try comes after a time that grows.
    pub(super) fn is_held(&mut self, held: &Held, now: Now) {
        self.held = Some(held.by);
        self.read_guard(held.guard.as_ref(), now);
        let tried = self.incident.clone().map(|incident| (incident, self.is_device));
        if let Some(tried) = tried.filter(|tried| !self.tried.contains(tried) && self.tried.len() < MOST) {
            self.tried.push(tried);
        }
        self.timing.retry_after_hold(now.boottime);
        self.look_for_maintenance(held.by);
        self.to(State::Held, held.why.as_str(), now);
    }

    /// The cluster's limit was read.
    pub(super) fn read_guard(&mut self, guard: Option<&Guard>, now: Now) {
        self.guard = guard.cloned();
        let window = Duration::from_secs(guard.map_or(0, |guard| guard.window_seconds));
        self.guard_ends = now.boottime.saturating_add(window);
    }

    /// An incident that was not tried yet may have other slots: it does not wait for the time of the others.
    pub(super) fn expect_another(&mut self, facts: &Facts) {
        let Some(want) = facts.want.as_ref().filter(|_| self.state == State::Held) else {
            return;
        };
        let is_new = !self.tried.contains(&(want.incident.clone(), want.is_device));
        if is_new && self.tried.len() < MOST && !self.tried.is_empty() {
            self.timing.not_held();
        }
    }
}
