//! Events of Slurm jobs.

use serde::{Deserialize, Serialize};

/// A Slurm job that began or ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct JobChange {
    /// The name of its cgroup: `job_7`, or a SLUID.
    pub folder: String,
    /// What happened.
    pub what: JobEvent,
    /// When its prolog ran by the record of its hook, in microseconds since the epoch. `None`: no record.
    pub start_us: Option<u64>,
}

/// Kinds of changes of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum JobEvent {
    /// Its cgroup exists.
    Began,
    /// Its cgroup was removed.
    Ended,
}

impl JobEvent {
    /// The word used in messages.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Began => "began",
            Self::Ended => "ended",
        }
    }
}

/// What prolog and epilog know of a job that is over. Texts are empty where Slurm set none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct JobEnd {
    /// The record, which has the job's number and the time of its epilog.
    pub record: RecordId,
    /// When its prolog ran, in microseconds since the epoch. `None`: no prolog of ours.
    pub start_us: Option<u64>,
    /// Exit code and signal, if Slurm reported them.
    pub end: Option<End>,
    /// The owner.
    pub uid: Option<u32>,
    /// The owner as `slurm.jobs.user` shows users.
    pub user: String,
    /// Account.
    pub account: String,
    /// Partition.
    pub partition: String,
    /// Job id of its array.
    pub array_job: String,
    /// Its task id in the array.
    pub array_task: String,
    /// Job id of the heterogeneous job's first component.
    pub het_job: String,
    /// Its GPUs, as in `slurm_job_grant_info`. `None`: unknown.
    pub devices: Option<Vec<String>>,
    /// Number of records that the hooks had to drop since the boot.
    pub dropped: u64,
}

/// The result of a job's batch script.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct End {
    /// SLURM_JOB_EXIT_CODE2, before the colon.
    pub exit_code: u8,
    /// After the colon: the signal, 0 for none.
    pub signal: u8,
    /// SLURM_JOB_DERIVED_EC: the highest exit code of its steps, as wait(2) encodes it.
    #[serde(default)]
    pub derived: u32,
}

/// The record of an ended job: its file in the folder of ended jobs. In order of their epilogs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RecordId {
    /// When the epilog ran, in microseconds since the epoch.
    pub ended_us: u64,
    /// The job's number.
    pub job: u32,
}

impl RecordId {
    /// The name of its file.
    pub fn file(self) -> String {
        format!("{:016}-{}.toml", self.ended_us, self.job)
    }

    /// Parses the name of a file. `None`: another file.
    pub fn parse(name: &str) -> Option<Self> {
        let (ended_us, job) = name.strip_suffix(".toml")?.split_once('-')?;
        let record = Self {
            ended_us: ended_us.parse().ok()?,
            job: job.parse().ok()?,
        };
        (record.file() == name).then_some(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_of_an_ended_job_is_found_by_time_and_number_in_order() {
        let record = RecordId {
            ended_us: 1_795_227_133_500_000,
            job: 7,
        };
        assert_eq!(record.file(), "1795227133500000-7.toml");
        assert_eq!(RecordId::parse(&record.file()), Some(record));
        for other in [
            "7.toml",
            "dropped",
            ".1795227133500000-7.toml.new",
            "1-7.toml",
            "1795227133500000-07.toml",
        ] {
            assert_eq!(RecordId::parse(other), None, "{other}");
        }
        let later = RecordId {
            ended_us: record.ended_us + 1,
            job: 1,
        };
        assert!(record < later && record.file() < later.file());
    }
}
