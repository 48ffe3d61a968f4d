//! The engine's permissions, as the site configured them.

use std::sync::Arc;
use std::time::Duration;

use super::Mode;
use super::checks::{self, Version};
use super::incident::{Incident, Seen};
use super::settings::Settings;
use super::site::Site;
use super::xids::Table;
use model::scheduler::patience;

/// The baseline without configuration: an upgrade enables no new checks.
const FIRST: Version = Version(0, 1, 0);

/// The engine's configuration, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// The highest mode of all checks.
    pub mode: Mode,
    /// The keys of `[health]`, and the Xid table.
    pub site: Site,
    /// Checks of later versions only observe.
    pub baseline: Version,
    /// The parent's time limit for one request to Slurm.
    pub patience: Duration,
}

impl Policy {
    /// The policy of a configuration. `overlay` is the text of the file in `health.xids`.
    ///
    /// # Errors
    /// A message with file and line, or key, the value found and the values expected.
    pub fn new(health: &Settings, overlay: Option<&str>) -> Result<Self, String> {
        let mut table = Table::built_in().map_err(|e| e.to_string())?;
        if let (Some(path), Some(text)) = (&health.xids, overlay) {
            table
                .overlay(&path.display().to_string(), text)
                .map_err(|e| e.to_string())?;
        }
        let known: Vec<&str> = checks::configurable().map(|c| c.id).collect();
        if let Some(id) = health.checks.keys().find(|id| !known.contains(&id.as_str())) {
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
                settings: health.clone(),
                xids: Arc::new(table),
            },
            baseline,
            // As the parent, whose commands have a time limit each.
            patience: patience(health.scheduler.timeout),
        })
    }

    /// The mode of a check.
    pub fn effective(&self, id: &str) -> Mode {
        self.mode.min(self.own(id))
    }

    /// The mode of a check without `health.mode`. The verdict uses it: a program that acts on the verdict must not act
    /// on checks that the site does not permit to drain.
    pub fn own(&self, id: &str) -> Mode {
        if checks::is_of_site(id) {
            // The site wrote it: no release brings it.
            let mut commands = self.site.settings.commands.iter();
            let command = commands.find(|command| command.check() == id);
            return command.map_or(Mode::Observe, |command| command.mode);
        }
        match checks::check(id) {
            Some(check) if check.since <= self.baseline => {
                let configured = self.site.settings.checks.get(id).copied();
                configured.unwrap_or(check.may.by_default())
            }
            _ => Mode::Observe,
        }
    }

    /// The mode of a finding: that of its check, and at most `comment` for some.
    pub(super) fn of(&self, seen: &Seen) -> Mode {
        capped(self.effective(&seen.check), seen)
    }

    /// The same without `health.mode`, as [`Policy::own`].
    pub(super) fn own_of(&self, seen: &Seen) -> Mode {
        capped(self.own(&seen.check), seen)
    }

    /// The highest mode that a check could have: a lower mode counts its suppressed acts.
    pub fn could(&self, id: &str) -> Mode {
        let by_default = checks::check(id).map_or(Mode::Observe, |check| check.may.by_default());
        by_default.max(self.own(id))
    }

    /// Whether the findings of a check require no act in any mode: it observes by default, and the site enables no more.
    pub(super) fn only_observes(&self, id: &str) -> bool {
        // Without `health.mode`, which may be raised while a finding is open.
        self.own(id) == Mode::Observe
            && checks::check(id).is_some_and(|c| c.may.by_default() == Mode::Observe)
    }

    /// The mode of an incident: the highest of its unresolved findings. `None`: no finding requires a drain.
    pub(super) fn mode_of(&self, incident: &Incident) -> Option<Mode> {
        incident.standing().map(|seen| self.of(seen)).max()
    }

    /// The highest mode that a finding could have.
    pub(super) fn could_of_finding(&self, seen: &Seen) -> Mode {
        capped(self.could(&seen.check), seen)
    }

    /// The highest mode that an incident could have.
    pub(super) fn could_of(&self, incident: &Incident) -> Option<Mode> {
        let could = |seen: &Seen| self.could_of_finding(seen);
        incident.standing().map(could).max()
    }
}

fn capped(mode: Mode, seen: &Seen) -> Mode {
    if seen.comments_only {
        mode.min(Mode::Comment)
    } else {
        mode
    }
}
