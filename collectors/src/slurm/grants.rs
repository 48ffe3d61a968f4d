//! The GPUs given to a job whose device program cannot be read: the record of its prolog hook, and files of other
//! tools.

use std::sync::{Mutex, MutexGuard, TryLockError};

use super::cgroup::{scope_node, v1_node};
use super::hook::JobRecord;
use super::job::JobContext;
use super::metrics::evidence;
use super::positions::{PositionContext, Positions};
use super::tree::Folder;
use crate::Error;

/// Maximum number of GPUs, or instances of GPUs, of a job on a node.
const MOST: usize = 1024;

/// The relevant properties of a job.
#[derive(Clone, Copy)]
pub(super) struct GrantQuery<'a> {
    pub(super) folder: &'a Folder,
    pub(super) id: u32,
    pub(super) uid: Option<u32>,
    /// When it began, as Unix time.
    pub(super) began: Option<f64>,
    /// The record of its prolog.
    pub(super) record: Option<&'a JobRecord>,
}

/// The state kept for one job.
#[derive(Debug, Default)]
pub(super) struct Grants {
    /// By its prolog.
    hook: Option<Vec<String>>,
    /// The positions in files of other tools, and what they meant when slurmd had assigned them.
    files: Option<(Vec<usize>, Vec<String>)>,
}

impl Grants {
    /// The GPUs by the best available evidence, and its name: device files by minor number, or UUIDs.
    pub(super) fn find(
        &mut self,
        common: &JobContext,
        of: GrantQuery<'_>,
    ) -> Option<(&'static str, Vec<String>)> {
        if let Some(record) = of.record {
            if self.hook.is_none()
                && let Some(mut positions) = free(&common.positions)
            {
                self.hook = by_record(&mut positions, node(common, of.folder), record);
            }
            if let Some(gpus) = &self.hook {
                return Some((evidence::HOOK, gpus.clone()));
            }
        }
        Some((evidence::MAPPING_FILE, self.by_files(common, of)?))
    }

    fn by_files(&mut self, common: &JobContext, of: GrantQuery<'_>) -> Option<Vec<String>> {
        let about = PositionContext {
            node: node(common, of.folder),
            conf: of.record.and_then(|record| record.conf.as_deref()),
            at: of.began,
        };
        let mut mappings = free(&common.mappings)?;
        if mappings.is_empty() {
            return None;
        }
        let mut positions = free(&common.positions)?;
        mappings.gpus(of.id, of.uid, &mut |list| {
            if let Some((known, gpus)) = &self.files
                && known == list
            {
                return Some(gpus.clone());
            }
            let gpus = positions.devices(list, about)?;
            self.files = Some((list.to_vec(), gpus.clone()));
            Some(gpus)
        })
    }
}

/// Does not wait: another thread that holds the lock is waiting for a file.
fn free<T>(lock: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match lock.try_lock() {
        Ok(free) => Some(free),
        Err(TryLockError::Poisoned(left)) => Some(left.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// The name of the node, as configured or in the path of the cgroup.
fn node<'a>(common: &'a JobContext, folder: &'a Folder) -> Option<&'a str> {
    let by_path = || match &folder.v1 {
        Some(below) => v1_node(below.split('/').next()?)?,
        None => scope_node(folder.path.parent()?.file_name()?.to_str()?)?,
    };
    common.node.as_deref().or_else(by_path)
}

/// The GPUs that Slurm reported to a prolog. `ours`: the name of this node, if known.
pub(super) fn by_record(
    gres_conf: &mut Positions,
    ours: Option<&str>,
    record: &JobRecord,
) -> Option<Vec<String>> {
    let theirs = record.node.as_deref();
    if let (Some(ours), Some(theirs)) = (ours, theirs)
        && ours != theirs
    {
        let error = Error::parse(
            "SLURMD_NODENAME of a prolog",
            theirs,
            "the node whose cgroup the job is in",
        );
        gres_conf.tell(&error);
        return None;
    }
    let positions = record.gpus.as_deref().map(positions);
    if let Some(uuids) = &record.uuids {
        let uuids: Vec<String> = uuids.split(',').map(str::to_owned).collect();
        let as_many = |positions: Vec<usize>| positions.len() == uuids.len();
        return positions.is_none_or(|p| p.is_some_and(as_many)).then_some(uuids);
    }
    let Some(positions) = positions? else {
        let found = record.gpus.as_deref().unwrap_or_default();
        let error = Error::parse("SLURM_JOB_GPUS of a prolog", found, "numbers, each once");
        gres_conf.tell(&error);
        return None;
    };
    let about = PositionContext {
        node: theirs.or(ours),
        conf: record.conf.as_deref(),
        at: record.start,
    };
    gres_conf.devices(&positions, about)
}

/// Parses `0,2,3`. `None`: anything else, or a duplicate number.
pub(super) fn positions(text: &str) -> Option<Vec<usize>> {
    let mut positions = Vec::new();
    for part in text.split(',') {
        let plain = (1..=6).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
        let position = plain.then(|| part.parse().ok()).flatten()?;
        if positions.contains(&position) || positions.len() == MOST {
            return None;
        }
        positions.push(position);
    }
    Some(positions)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_list_of_numbers_is_read_whole_or_not_at_all() {
        assert_eq!(positions("0"), Some(vec![0]));
        assert_eq!(positions("2,0,11"), Some(vec![2, 0, 11]));
        for odd in [
            "", "0,", ",0", "0-3", "0, 1", "0,0", "GPU-1", "+1", "1234567", "MIG-0",
        ] {
            assert_eq!(positions(odd), None, "{odd}");
        }
    }

    proptest! {
        #[test]
        fn what_is_read_is_what_was_written(list in prop::collection::hash_set(0_usize..10_000, 1..40)) {
            let list: Vec<usize> = list.into_iter().collect();
            let text = list.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
            prop_assert_eq!(positions(&text), Some(list));
        }

        #[test]
        fn no_text_upsets_it(text in "[0-9,-]{0,30}") {
            let _list = positions(&text);
        }
    }
}
