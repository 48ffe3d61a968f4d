//! What the engine is allowed to do, as the site configured it.

use std::sync::Arc;
use std::time::Duration;

use super::Mode;
use super::checks::{self, Version};
use super::incident::Incident;
use super::settings::Settings;
use super::site::Site;
use super::xids::Table;

/// The checks that the first release had. They are covered where the site pinned no baseline; an upgrade adds none.
const FIRST: Version = Version(0, 1, 0);

/// The engine's configuration, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// The most that any check may do.
    pub mode: Mode,
    /// What checks are told of the site.
    pub site: Site,
    /// Checks of later versions observe.
    pub baseline: Version,
    /// Findings on one subject within this time are one incident.
    pub settle: Duration,
    /// How often the node is read while nothing is wrong; zero: never.
    pub poll: Duration,
    /// How often it is read while a drain stands or waits.
    pub watch: Duration,
    /// How long the parent may take over one request to Slurm.
    pub patience: Duration,
    /// Whether our own drain is lifted when its incidents are cleared.
    pub undrain: bool,
}

impl Policy {
    /// Takes what concerns health out of the configuration. `overlay` is the text of the file named by `health.xids`.
    ///
    /// # Errors
    /// A text for people that names the file and line, or the key, with what was found and what was expected.
    pub fn new(health: &Settings, overlay: Option<&str>) -> Result<Self, String> {
        let mut table = Table::built_in().map_err(|e| e.to_string())?;
        if let (Some(path), Some(text)) = (&health.xids, overlay) {
            table
                .overlay(&path.display().to_string(), text)
                .map_err(|e| e.to_string())?;
        }
        if let Some(id) = health.checks.keys().find(|id| checks::check(id).is_none()) {
            let known: Vec<&str> = checks::CHECKS.iter().map(|c| c.id).collect();
            return Err(format!(
                "health.checks: found {id:?}, expected one of {}",
                known.join(", ")
            ));
        }
        for (id, mode) in &health.checks {
            if let Some(most) = checks::check(id)
                .map(|c| c.may.at_most())
                .filter(|most| mode > most)
            {
                return Err(format!(
                    "health.checks.{id}: found {:?}, expected {}",
                    mode.word(),
                    most.at_most()
                ));
            }
        }
        let baseline = match &health.baseline {
            None => FIRST,
            Some(text) => Version::parse(text).ok_or_else(|| {
                format!("health.baseline: found {text:?}, expected a version such as \"0.1.0\"")
            })?,
        };
        Ok(Self {
            mode: health.mode,
            site: Site {
                checks: health.checks.clone(),
                gpu_addresses: health.gpu_addresses.clone(),
                rdma: health.rdma.clone(),
                xids: Arc::new(table),
            },
            baseline,
            settle: health.settle,
            poll: health.scheduler.poll,
            watch: health.scheduler.watch,
            // Reading, writing and reading back, each tried within its own time.
            patience: health
                .scheduler
                .timeout
                .saturating_mul(4)
                .saturating_add(Duration::from_secs(10)),
            undrain: health.scheduler.undrain,
        })
    }

    /// What a check may do.
    pub fn effective(&self, id: &str) -> Mode {
        self.mode.min(self.own(id))
    }

    /// What a check may do where nothing holds all of them back. The verdict goes by it: whoever acts on the verdict in
    /// nodewarden's place must not act on what the site does not let drain.
    pub fn own(&self, id: &str) -> Mode {
        match checks::check(id) {
            Some(check) if check.since <= self.baseline => {
                let configured = self.site.checks.get(id).copied();
                configured.unwrap_or(check.may.by_default())
            }
            _ => Mode::Observe,
        }
    }

    /// The most that a check could do once the site holds nothing back: what it is tried for in a lower mode.
    pub fn could(&self, id: &str) -> Mode {
        let by_default = checks::check(id).map_or(Mode::Observe, |check| check.may.by_default());
        by_default.max(self.own(id))
    }

    /// What an incident may do: the most that any finding that is not repaired may. `None`: nothing of it drains.
    pub(super) fn mode_of(&self, incident: &Incident) -> Option<Mode> {
        incident.standing().map(|seen| self.effective(&seen.check)).max()
    }

    /// The most that an incident could do once the site holds nothing back.
    pub(super) fn could_of(&self, incident: &Incident) -> Option<Mode> {
        incident.standing().map(|seen| self.could(&seen.check)).max()
    }
}
