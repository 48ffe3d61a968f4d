//! What a person reads in the log: the verdict when it changes, and what was done to the node.

use health::verdict::{Health, Verdict};
use model::scheduler::{Action, Outcome};

/// Remembers what was said last.
#[derive(Debug, Default)]
pub struct Journal {
    verdict: Option<(Health, String)>,
}

impl Journal {
    /// A verdict, said only where it is another than before.
    pub fn verdict(&mut self, verdict: &Verdict) {
        let now = (verdict.health, verdict.text.clone());
        if self.verdict.as_ref() == Some(&now) {
            return;
        }
        match verdict.health {
            // Every start begins so.
            Health::Unknown if self.verdict.is_none() => tracing::debug!("unknown: {}", verdict.text),
            Health::Healthy => tracing::info!("healthy: {}", verdict.text),
            Health::Unhealthy => tracing::warn!("unhealthy: {}", verdict.text),
            Health::Unknown => tracing::warn!("unknown: {}", verdict.text),
        }
        self.verdict = Some(now);
    }

    /// What the parent is asked to do.
    pub fn act(&self, action: &Action) {
        match action {
            Action::Drain { reason, .. } => tracing::warn!("draining the node: {}", reason.as_str()),
            Action::Undrain { incident } => tracing::warn!("lifting our drain of incident {incident}"),
            Action::Comment { text, .. } => tracing::info!("commenting on the node: {}", text.as_str()),
            Action::Uncomment { incident } => {
                tracing::info!("taking our comment of incident {incident} away")
            }
        }
    }

    /// What became of it.
    pub fn outcome(&self, outcome: &Outcome) {
        match outcome {
            Outcome::Done(_) => tracing::info!("done, and read back"),
            Outcome::Already(_) => tracing::info!("it was so already"),
            Outcome::Withheld(word, _) => tracing::warn!("withheld: {word}"),
            Outcome::Foreign(node) => {
                let reason = node.reason.as_ref().map_or("no reason", |r| r.text.as_str());
                tracing::warn!("left alone, somebody else's reason stands there: {reason}");
            }
            Outcome::NotOurs(why) => tracing::warn!("not written, this node is not proven to be ours: {why}"),
            Outcome::Failed(why) => tracing::error!("failed: {why}"),
            Outcome::Unknown(why) => tracing::error!("outcome not known: {why}"),
        }
    }
}
