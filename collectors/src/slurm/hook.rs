//! Records of `nodewarden hook prolog` about jobs: properties that their cgroups do not show.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::sys::root;
use crate::{Env, Error};

/// The folder in the run directory.
pub const FOLDER: &str = "jobs";

/// A job as seen by its prolog. Values that Slurm did not set are absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobRecord {
    /// SLURM_JOB_ID.
    pub job: u32,
    /// When the prolog ran, as Unix time.
    pub start: f64,
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
}

impl JobRecord {
    /// The name of its file.
    pub fn file(job: u32) -> String {
        format!("{job}.toml")
    }
}

/// Maximum number of records that are searched for a SLUID.
const MOST_RECORDS: usize = 1024;

/// The location of the records.
#[derive(Clone, Debug)]
pub(super) struct Hooks {
    folder: PathBuf,
}

impl Hooks {
    pub(super) fn new(env: &Env, folder: &str) -> Self {
        Self {
            folder: env.path(folder),
        }
    }

    /// The record of a job. `Ok(None)`: its prolog wrote none.
    ///
    /// # Errors
    /// When a record is unreadable or belongs to another job.
    pub(super) fn of(&self, job: u32) -> Result<Option<JobRecord>, Error> {
        let path = self.folder.join(JobRecord::file(job));
        let Some(text) = root::read_text(&path)? else {
            return Ok(None);
        };
        let what = || path.display().to_string();
        let record: JobRecord = toml::from_str(&text)
            .map_err(|e| Error::parse(what(), e.message(), "what `nodewarden hook prolog` writes"))?;
        if record.job != job {
            return Err(Error::parse(
                what(),
                &format!("job = {}", record.job),
                "the job of its name",
            ));
        }
        Ok(Some(record))
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
            start: 1_795_227_133.5,
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
    fn a_record_that_is_cut_or_anothers_says_so() {
        let (_dir, hooks) = hooks(&[("7.toml", "job = 7\nsta"), ("8.toml", "job = 9\nstart = 1.0\n")]);
        let cut = hooks.of(7).unwrap_err().to_string();
        assert!(
            cut.contains("7.toml") && cut.contains("nodewarden hook prolog"),
            "{cut}"
        );
        let other = hooks.of(8).unwrap_err().to_string();
        assert!(
            other.contains("found \"job = 9\", expected the job of its name"),
            "{other}"
        );
    }
}
