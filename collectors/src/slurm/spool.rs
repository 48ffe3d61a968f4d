//! The records that epilogs have left: what prolog and epilog know of a job, whether or not anything ever saw its cgroup.
//! Each is reported once by this process, and stays until the daemon has written the job's line.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::grants;
use super::hook::{DROPPED, JobRecord, RecordId};
use super::job::JobContext;
use crate::event::JobEnd;
use crate::sys::patience::OneAway;
use crate::sys::root;

/// How long a record waits for gres.conf, which may be on a mount that hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Reads records.
pub(super) struct Spool {
    common: Arc<JobContext>,
    known: BTreeSet<RecordId>,
    gres_conf: OneAway,
    /// Since when gres.conf was not read in time.
    late: Option<Instant>,
}

impl Spool {
    pub(super) fn new(common: &Arc<JobContext>) -> Self {
        Self {
            common: Arc::clone(common),
            known: BTreeSet::new(),
            gres_conf: OneAway::default(),
            late: None,
        }
    }

    /// The jobs' common state.
    pub(super) fn common(&self) -> &JobContext {
        &self.common
    }

    /// The folder whose listing changes with each record. `None`: it is missing or cannot be read.
    pub(super) fn folder(&self) -> Option<PathBuf> {
        let folder = self.common.hooks.ended_folder();
        matches!(root::list(&folder), Ok(Some(_))).then_some(folder)
    }

    /// Whether a record is to be reported.
    pub(super) fn has_news(&self) -> bool {
        self.listed().iter().any(|record| !self.known.contains(record))
    }

    /// Whether a record waits for gres.conf.
    pub(super) fn is_waiting(&self) -> bool {
        self.late.is_some()
    }

    /// Reports each unreported record, oldest first.
    ///
    /// # Errors
    /// When nothing can be reported any more.
    pub(super) fn take<E>(
        &mut self,
        now: Instant,
        mut report: impl FnMut(JobEnd) -> Result<(), E>,
    ) -> Result<(), E> {
        let listed = self.listed();
        self.known.retain(|record| listed.contains(record));
        for id in listed {
            if self.known.contains(&id) {
                continue;
            }
            let record = match self.common.hooks.of_ended(id) {
                Ok(record) => record.filter(|record| self.is_ours(record)),
                Err(error) => {
                    let error = error.to_string();
                    tracing::warn!(error, job = id.job, "the record of the epilog hook is unusable");
                    None
                }
            };
            let Some(record) = record else {
                self.known.insert(id);
                continue;
            };
            if let Some(start) = record.start {
                self.common.hooks.end(id.job, start);
            }
            let Some(devices) = self.devices(&record, now) else {
                // In order: the others wait too.
                return Ok(());
            };
            self.known.insert(id);
            report(self.end(id, &record, devices))?;
        }
        self.late = None;
        Ok(())
    }

    /// Sorted, and so in order of their epilogs.
    fn listed(&self) -> BTreeSet<RecordId> {
        let names = root::list(&self.common.hooks.ended_folder()).ok().flatten();
        let names = names.unwrap_or_default();
        names.iter().filter_map(|name| RecordId::parse(name)).collect()
    }

    /// Several slurmds of a host may have one folder.
    fn is_ours(&self, record: &JobRecord) -> bool {
        let both = self.common.node.as_ref().zip(record.node.as_ref());
        both.is_none_or(|(ours, theirs)| ours == theirs)
    }

    /// The GPUs of the record, `Some(None)` if they are unknown. `None`: gres.conf is still being read.
    fn devices(&mut self, record: &JobRecord, now: Instant) -> Option<Option<Vec<String>>> {
        if record.gpus.is_none() && record.uuids.is_none() {
            return Some(None);
        }
        let (common, asked) = (Arc::clone(&self.common), record.clone());
        let found = self.gres_conf.ask(move || {
            let mut positions = common.positions.lock().unwrap_or_else(PoisonError::into_inner);
            grants::by_record(&mut positions, common.node.as_deref(), &asked)
        });
        if found.is_some() {
            // It answers: the next record has its own minute.
            self.late = None;
            return found;
        }
        let late = *self.late.get_or_insert(now);
        (now.saturating_duration_since(late) >= PATIENCE).then_some(None)
    }

    fn end(&self, id: RecordId, record: &JobRecord, devices: Option<Vec<String>>) -> JobEnd {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let dropped = root::length(&self.common.hooks.ended_folder().join(DROPPED));
        JobEnd {
            record: id,
            start_us: record.start_us(),
            end: record.end,
            uid: record.uid,
            user: self.common.users.label(record.uid, record.user.as_deref()),
            account: text(&record.account),
            partition: text(&record.partition),
            array_job: text(&record.array_job),
            array_task: text(&record.array_task),
            het_job: text(&record.het_job),
            devices,
            dropped: dropped.ok().flatten().unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests;
