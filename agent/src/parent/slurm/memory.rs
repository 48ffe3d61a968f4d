//! Which drain the parent itself wrote. slurmctld can put its own text in the place of our reason; that such a drain was
//! ours is then not to be read off the node, and the unprivileged daemon's word is not enough to lift it.

use std::path::PathBuf;

use model::scheduler::IncidentId;
use sys::{files, store};

/// The incident whose drain stands, as far as this parent or an earlier one has written it.
#[derive(Debug, Default)]
pub struct DrainMemory {
    file: Option<PathBuf>,
    incident: Option<IncidentId>,
}

impl DrainMemory {
    /// Remembers in a file that belongs to the parent, over restarts and reboots. One that cannot be read is none: a
    /// drain is then left to people.
    pub fn in_file(file: PathBuf) -> Self {
        let text = store::load(&file).ok().flatten().unwrap_or_default();
        Self {
            incident: IncidentId::parse(text.trim()),
            file: Some(file),
        }
    }

    /// Whether the drain that stands was written for this incident.
    pub fn is(&self, incident: &IncidentId) -> bool {
        self.incident.as_ref() == Some(incident)
    }

    /// Our reason was read back from the node.
    pub fn drained(&mut self, incident: &IncidentId) {
        if self.is(incident) {
            return;
        }
        self.incident = Some(incident.clone());
        if let Some(file) = &self.file
            && let Err(e) = store::replace(file, format!("{incident}\n").as_bytes(), 0o600, false)
        {
            tracing::warn!(path = %file.display(), error = %e, "our drain is remembered until the next start only");
        }
    }

    /// The node was seen without DRAIN, or with somebody else's: whatever stands there next is not that drain.
    pub fn over(&mut self) {
        if self.incident.take().is_some()
            && let Some(file) = &self.file
            && let Err(e) = files::remove(file)
        {
            tracing::warn!(path = %file.display(), error = %e, "the note of our drain cannot be removed");
        }
    }
}
