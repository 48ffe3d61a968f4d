//! Records of `nodewarden hook` about jobs: properties that their cgroups do not show.
//!
//! A prolog writes `7.toml`. The epilog completes it and moves it to the folder of ended jobs, from which the parent
//! removes it when the job's line is written.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use crate::event::{End, RecordId};

use crate::sys::root;
use crate::{Env, Error};

/// The folder in the run directory.
pub const FOLDER: &str = "jobs";

/// The folder in it with the records that epilogs have left.
pub const ENDED: &str = "ended";

/// The name of a file in the folder of ended jobs: the number of records that did not fit, as the file's length.
pub const DROPPED: &str = "dropped";

/// A job as seen by its prolog and its epilog. Values that Slurm did not set are absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobRecord {
    /// SLURM_JOB_ID.
    pub job: u32,
    /// When the prolog ran, as Unix time. Absent if only an epilog ran.
    pub start: Option<f64>,
    /// SLURM_JOB_UID.
    pub uid: Option<u32>,
    /// SLURM_JOB_USER.
    pub user: Option<String>,
    /// SLURM_JOB_ACCOUNT; not set before Slurm 21.08.
    pub account: Option<String>,
    /// SLURM_JOB_PARTITION.
    pub partition: Option<String>,
    /// SLURM_ARRAY_JOB_ID, if Slurm sets it for a prolog.
    pub array_job: Option<String>,
    /// SLURM_ARRAY_TASK_ID, likewise.
    pub array_task: Option<String>,
    /// SLURM_HET_JOB_ID.
    pub het_job: Option<String>,
    /// SLURM_JOB_GPUS: positions in the devices of gres.conf on this node, not minor numbers.
    pub gpus: Option<String>,
    /// CUDA_VISIBLE_DEVICES if it holds UUIDs: with AutoDetect, of instances, and from 25.11 on of GPUs.
    pub uuids: Option<String>,
    /// SLURMD_NODENAME.
    pub node: Option<String>,
    /// SLURM_CONF: the slurmd's configuration.
    pub conf: Option<String>,
    /// SLURM_JOB_SLUID, from 25.11 on.
    pub sluid: Option<String>,
    /// CUDA_MPS_ACTIVE_THREAD_PERCENTAGE: the job's part of a GPU, with gres/mps.
    pub percent: Option<u32>,
    /// How it ended, if Slurm reported it to the epilog.
    pub end: Option<End>,
}

impl JobRecord {
    /// The name of its file.
    pub fn file(job: u32) -> String {
        format!("{job}.toml")
    }

    /// When the prolog ran, in microseconds since the epoch.
    pub(super) fn start_us(&self) -> Option<u64> {
        let start = Duration::try_from_secs_f64(self.start?).ok()?;
        u64::try_from(start.as_micros()).ok()
    }
}

/// Maximum number of records that are searched for a SLUID.
const MOST_RECORDS: usize = 1024;

/// The records.
#[derive(Debug)]
pub(super) struct Hooks {
    folder: PathBuf,
    /// Ended jobs and when their prologs ran, in the order of their epilogs' records: job numbers start again at `MaxJobId`.
    ended: Mutex<VecDeque<(u32, f64)>>,
}

impl Hooks {
    pub(super) fn new(env: &Env, folder: &str) -> Self {
        Self {
            folder: env.path(folder),
            ended: Mutex::default(),
        }
    }

    /// The folder of the records of ended jobs.
    pub(super) fn ended_folder(&self) -> PathBuf {
        self.folder.join(ENDED)
    }

    /// The record of a job. `Ok(None)`: its prolog wrote none.
    ///
    /// # Errors
    /// When a record is unreadable or belongs to another job.
    pub(super) fn of(&self, job: u32) -> Result<Option<JobRecord>, Error> {
        read(&self.folder.join(JobRecord::file(job)), job)
    }

    /// The record of an ended job. `Ok(None)`: it is gone.
    ///
    /// # Errors
    /// When it is unreadable or belongs to another job.
    pub(super) fn of_ended(&self, record: RecordId) -> Result<Option<JobRecord>, Error> {
        read(&self.ended_folder().join(record.file()), record.job)
    }

    /// The epilog of the run whose prolog ran at `start` was seen.
    pub(super) fn end(&self, job: u32, start: f64) {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.retain(|(known, _)| *known != job);
        if ended.len() >= MOST_RECORDS {
            ended.pop_front();
        }
        ended.push_back((job, start));
    }

    /// Whether the epilog of the run whose prolog ran at `start` was seen.
    pub(super) fn has_ended(&self, job: u32, start: f64) -> bool {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.contains(&(job, start))
    }

    /// The record of a job by its SLUID. An unreadable one is reported when it is requested by its number.
    pub(super) fn of_sluid(&self, sluid: &str) -> Option<JobRecord> {
        let names = root::list(&self.folder).ok().flatten().unwrap_or_default();
        let jobs = names
            .iter()
            .filter_map(|name| name.strip_suffix(".toml")?.parse().ok());
        jobs.take(MOST_RECORDS)
            .filter_map(|job| self.of(job).ok().flatten())
            .find(|record| record.sluid.as_deref() == Some(sluid))
    }
}

fn read(path: &Path, job: u32) -> Result<Option<JobRecord>, Error> {
    let Some(text) = root::read_text(path)? else {
        return Ok(None);
    };
    let what = || path.display().to_string();
    let record: JobRecord = toml::from_str(&text)
        .map_err(|e| Error::parse(what(), e.message(), "what `nodewarden hook` writes"))?;
    if record.job != job {
        return Err(Error::parse(
            what(),
            &format!("job = {}", record.job),
            "the job of its name",
        ));
    }
    Ok(Some(record))
}

#[cfg(test)]
mod tests {
    use testkit::tree;

    use super::*;

    fn hooks(files: &[(&str, &str)]) -> (tempfile::TempDir, Hooks) {
        let dir = tempfile::tempdir().unwrap();
        let env = Env::with_sysroot(dir.path());
        for (name, text) in files {
            let file = tree::Entry::File(text.as_bytes().to_vec());
            tree::put(&env.path("/run/nodewarden/jobs").join(name), &file).unwrap();
        }
        (dir, Hooks::new(&env, "/run/nodewarden/jobs"))
    }

    #[test]
    fn a_record_is_read_back_and_what_a_later_release_adds_is_no_error() {
        let record = JobRecord {
            job: 7,
            start: Some(1_795_227_133.5),
            uid: Some(1000),
            account: Some("proj\"b".to_owned()),
            gpus: Some("0,1".to_owned()),
            ..JobRecord::default()
        };
        let text = format!("{}later = [1]\n", toml::to_string(&record).unwrap());
        let (_dir, hooks) = hooks(&[("7.toml", &text)]);
        assert_eq!(hooks.of(7).unwrap(), Some(record));
        assert_eq!(hooks.of(8).unwrap(), None);
    }

    #[test]
    fn a_run_is_over_by_its_own_epilog_alone() {
        let (_dir, hooks) = hooks(&[]);
        hooks.end(7, 1.5);
        assert_eq!(
            [(7, 1.5), (7, 2.5), (8, 1.5)].map(|(job, start)| hooks.has_ended(job, start)),
            [true, false, false]
        );
        for job in 100..100 + MOST_RECORDS as u32 {
            hooks.end(job, 1.5);
        }
        assert!(!hooks.has_ended(7, 1.5), "the oldest are forgotten");
        // The numbers started again.
        hooks.end(1, 1.5);
        hooks.end(2, 1.5);
        assert_eq!(
            [1, 2, 100, 101, 102].map(|job| hooks.has_ended(job, 1.5)),
            [true, true, false, false, true]
        );
    }

    #[test]
    fn a_record_that_is_cut_or_anothers_says_so() {
        let (_dir, hooks) = hooks(&[("7.toml", "job = 7\nsta"), ("8.toml", "job = 9\nstart = 1.0\n")]);
        let cut = hooks.of(7).unwrap_err().to_string();
        assert!(cut.contains("7.toml") && cut.contains("nodewarden hook"), "{cut}");
        let other = hooks.of(8).unwrap_err().to_string();
        assert!(
            other.contains("found \"job = 9\", expected the job of its name"),
            "{other}"
        );
    }
}
