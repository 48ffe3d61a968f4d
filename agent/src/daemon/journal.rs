//! Log lines for operators: the verdict when it changes, what of the configuration has no effect, and actions on the node.

use collectors::rdma::Pattern;
use health::audit::{Entry, Kind};
use health::settings::Rdma;
use health::verdict::{Health, Verdict};
use model::scheduler::{Action, NOT_WRITTEN, Outcome};

/// Remembers what was logged last.
#[derive(Debug, Default)]
pub struct Journal {
    verdict: Option<(Health, String)>,
    names_no_port: bool,
}

impl Journal {
    /// Logs a verdict if it differs from the last one.
    pub fn verdict(&mut self, verdict: &Verdict) {
        let now = (verdict.health, verdict.text.clone());
        if self.verdict.as_ref() == Some(&now) {
            return;
        }
        match verdict.health {
            // Every start begins with this verdict.
            Health::Unknown if self.verdict.is_none() => tracing::debug!("unknown: {}", verdict.text),
            Health::Healthy => tracing::info!("healthy: {}", verdict.text),
            Health::Unhealthy => tracing::warn!("unhealthy: {}", verdict.text),
            Health::Unknown => tracing::warn!("unknown: {}", verdict.text),
        }
        self.verdict = Some(now);
    }

    /// Logs that `health.rdma.ports` names none of the node's ports, when that begins.
    pub fn rdma(&mut self, names_no_port: bool, rdma: &Rdma) {
        if names_no_port && !self.names_no_port {
            let ports: Vec<String> = rdma.ports.iter().map(Pattern::to_string).collect();
            tracing::warn!(
                "health.rdma.ports: found {}, expected the name of an RDMA port of this node; no RDMA port is judged, and \
                 incidents of ports stay open",
                ports.join(", ")
            );
        }
        self.names_no_port = names_no_port;
    }

    /// Logs what an operator did to the drain in the scheduler. The audit trail has the rest.
    pub fn overridden(&self, entry: &Entry) {
        if let (Kind::Overridden, Some(incident)) = (entry.kind, &entry.incident) {
            tracing::info!("an operator lifted the drain of incident {incident}, which is still open");
        }
    }

    /// Logs a request to the parent.
    pub fn act(&self, action: &Action) {
        match action {
            Action::Drain { reason, .. } => tracing::warn!("draining the node: {}", reason.as_str()),
            Action::Undrain { incident, .. } => {
                tracing::warn!("lifting nodewarden's drain of incident {incident}")
            }
            Action::Mirror { incident, .. } => {
                tracing::info!("copying the record of the drain of incident {incident} into the node's Extra")
            }
            Action::Comment { text, .. } => tracing::info!("commenting on the node: {}", text.as_str()),
            Action::Uncomment { incident } => {
                tracing::info!("removing nodewarden's comment of incident {incident}")
            }
        }
    }

    /// Logs the outcome of a request.
    pub fn outcome(&self, outcome: &Outcome) {
        match outcome {
            Outcome::Done(_) => tracing::info!("done and confirmed by scontrol"),
            Outcome::Already(_) => tracing::info!("nothing to do: the node is already in this state"),
            Outcome::Withheld(word, _) => tracing::warn!("withheld: {word}"),
            Outcome::Held(held) => tracing::warn!("held by {}: {}", held.by.word(), held.why),
            Outcome::Foreign(node) => {
                let reason = node.reason.as_ref().map_or("no reason", |r| r.text.as_str());
                tracing::warn!("not written: the node has a foreign reason: {reason}");
            }
            Outcome::NotOurs(why) => tracing::warn!("not written: node not proven to be this machine: {why}"),
            Outcome::Failed(why) => tracing::error!("failed: {why}"),
            Outcome::NotBegun(why) => tracing::error!("{NOT_WRITTEN}{why}"),
            Outcome::Unknown(why) => tracing::error!("outcome unknown: {why}"),
        }
    }
}
