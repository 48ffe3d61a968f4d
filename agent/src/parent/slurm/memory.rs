//! Our drain, as the parent itself saw it. slurmctld can replace our reason with its own text; the node then does not
//! show that the drain is ours, and the unprivileged daemon's claim is not enough to lift it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::disk::RecordDisk;
use model::scheduler::IncidentId;
use sys::{dirs, files, store};

/// The incident of the current drain, if this parent or an earlier one read our reason on the node. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct DrainMemory {
    file: Option<PathBuf>,
    incident: Arc<Mutex<Option<IncidentId>>>,
    disk: RecordDisk,
}

/// Its name, in the parent's folder of the state directory.
const FILE: &str = "own-drain";

impl DrainMemory {
    /// Stored in the parent's folder of the state directory, over restarts and reboots. An unreadable file counts as
    /// none: the drain is then left to operators. May block with its disk.
    pub fn of(state_dir: &Path) -> Self {
        let mut memory = Self::default();
        match dirs::own(state_dir) {
            Ok(folder) => memory.file = Some(folder.join(FILE)),
            Err(e) => tracing::warn!(error = %e, "cannot store the record of nodewarden's drain"),
        }
        let before = state_dir.join(FILE);
        let incident = memory.file.as_deref().and_then(read).or_else(|| {
            // Before 0.1.0 it lay in the state directory, where the daemon may create files too.
            let incident = read(&before)?;
            if memory.file.as_deref().is_some_and(|file| store(file, &incident)) {
                sys::ignore(files::remove(&before));
            }
            Some(incident)
        });
        *memory.incident() = incident;
        memory
    }

    fn incident(&self) -> MutexGuard<'_, Option<IncidentId>> {
        self.incident.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the current drain was written for this incident.
    pub fn is(&self, incident: &IncidentId) -> bool {
        self.incident().as_ref() == Some(incident)
    }

    /// Whether a drain of ours is recorded.
    pub fn is_any(&self) -> bool {
        self.incident().is_some()
    }

    /// Our reason was read on the node.
    pub fn drained(&mut self, incident: &IncidentId) {
        if self.incident().replace(incident.clone()).as_ref() == Some(incident) {
            return;
        }
        if let Some(file) = self.file.clone() {
            let incident = incident.clone();
            self.disk.change(move || {
                store(&file, &incident);
            });
        }
    }

    /// The node was seen without DRAIN, or with a foreign one: a later DRAIN is not our drain.
    pub fn over(&mut self) {
        let was_any = self.incident().take().is_some();
        if let Some(file) = self.file.clone().filter(|_| was_any) {
            self.disk.change(move || {
                if let Err(e) = files::remove(&file) {
                    tracing::warn!(path = %file.display(), error = %e, "cannot remove the record of nodewarden's drain");
                }
            });
        }
    }
}

/// Whether it is stored.
fn store(file: &Path, incident: &IncidentId) -> bool {
    let stored = store::replace(file, format!("{incident}\n").as_bytes(), 0o600, false);
    if let Err(e) = &stored {
        tracing::warn!(path = %file.display(), error = %e, "cannot store the record of nodewarden's drain");
    }
    stored.is_ok()
}

/// The incident in a file that only this user may write.
fn read(file: &Path) -> Option<IncidentId> {
    match store::load_own(file) {
        Ok(text) => IncidentId::parse(text?.trim()),
        Err(e) => {
            tracing::warn!(error = %e, "the record of nodewarden's drain is not used");
            None
        }
    }
}
