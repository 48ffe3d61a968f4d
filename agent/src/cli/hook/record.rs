//! The record of a job, from the environment of its prolog or epilog.

use collectors::slurm::hook::{End, JobRecord};

/// Longest recorded value, in characters.
const LONGEST: usize = 256;

/// Longest recorded list of GPUs or path, in bytes; longer ones are omitted, never cut.
const LONGEST_LIST: usize = 4096;

/// The number of the job.
pub(super) fn job(var: impl Fn(&str) -> Option<String>) -> Result<u32, String> {
    let found = var("SLURM_JOB_ID");
    let number = found.as_deref().and_then(|id| id.parse().ok());
    number.ok_or_else(|| match found {
        Some(found) => format!("SLURM_JOB_ID: found {found:?}, expected a number"),
        None => "SLURM_JOB_ID is not set: run this command from Slurm's Prolog or Epilog".to_owned(),
    })
}

/// The record of a prolog that runs now.
pub(super) fn of_prolog(var: impl Fn(&str) -> Option<String>, now: f64) -> Result<JobRecord, String> {
    let record = record(var)?;
    Ok(JobRecord {
        start: Some(now),
        ..record
    })
}

/// The record of an epilog, completed by what the prolog of the job wrote, and whether the job's exit code is missing.
pub(super) fn of_epilog(
    var: impl Fn(&str) -> Option<String>,
    prolog: Option<JobRecord>,
) -> Result<(JobRecord, Result<(), String>), String> {
    let own = record(&var)?;
    let (end, missing) = match ending(&var) {
        Ok(end) => (end, Ok(())),
        Err(error) => (None, Err(error)),
    };
    // One that an earlier cluster left under this number.
    let is_same = |prolog: &JobRecord| {
        prolog
            .uid
            .zip(own.uid)
            .is_none_or(|(theirs, ours)| theirs == ours)
    };
    let prolog = prolog.filter(is_same).unwrap_or_default();
    let record = JobRecord {
        job: own.job,
        start: prolog.start,
        uid: prolog.uid.or(own.uid),
        user: prolog.user.or(own.user),
        account: prolog.account.or(own.account),
        partition: prolog.partition.or(own.partition),
        array_job: prolog.array_job.or(own.array_job),
        array_task: prolog.array_task.or(own.array_task),
        het_job: prolog.het_job.or(own.het_job),
        gpus: prolog.gpus.or(own.gpus),
        uuids: prolog.uuids.or(own.uuids),
        node: prolog.node.or(own.node),
        conf: prolog.conf.or(own.conf),
        sluid: prolog.sluid.or(own.sluid),
        percent: prolog.percent.or(own.percent),
        end,
    };
    Ok((record, missing))
}

/// What the environment of a prolog or epilog says.
fn record(var: impl Fn(&str) -> Option<String>) -> Result<JobRecord, String> {
    let job = job(&var)?;
    // Users may choose some of these values.
    let text = |name: &str| -> Option<String> {
        let clean = |c: char| if c.is_control() { ' ' } else { c };
        let text: String = var(name)?.chars().take(LONGEST).map(clean).collect();
        (!text.is_empty()).then_some(text)
    };
    // A cut list or path would name something else.
    let whole = |name: &str| {
        let fits =
            |text: &String| (1..=LONGEST_LIST).contains(&text.len()) && !text.contains(char::is_control);
        var(name).filter(fits)
    };
    let is_uuid = |name: &str| name.starts_with("GPU-") || name.starts_with("MIG-");
    Ok(JobRecord {
        job,
        start: None,
        uid: text("SLURM_JOB_UID").and_then(|uid| uid.parse().ok()),
        user: text("SLURM_JOB_USER"),
        account: text("SLURM_JOB_ACCOUNT"),
        partition: text("SLURM_JOB_PARTITION"),
        array_job: text("SLURM_ARRAY_JOB_ID"),
        array_task: text("SLURM_ARRAY_TASK_ID"),
        het_job: text("SLURM_HET_JOB_ID"),
        gpus: whole("SLURM_JOB_GPUS"),
        uuids: whole("CUDA_VISIBLE_DEVICES").filter(|list| list.split(',').all(is_uuid)),
        node: text("SLURMD_NODENAME"),
        conf: whole("SLURM_CONF"),
        sluid: text("SLURM_JOB_SLUID"),
        percent: text("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE").and_then(|percent| percent.parse().ok()),
        end: None,
    })
}

/// The job's exit code. `Ok(None)`: Slurm does not set it, as before 22.05 and for a job that continues.
fn ending(var: impl Fn(&str) -> Option<String>) -> Result<Option<End>, String> {
    const NAME: &str = "SLURM_JOB_EXIT_CODE2";
    let Some(text) = var(NAME) else { return Ok(None) };
    let parts = text.split_once(':');
    let both = parts.and_then(|(code, signal)| Some((code.parse().ok()?, signal.parse().ok()?)));
    let (exit_code, signal) = both
        .ok_or_else(|| format!("{NAME}: found {text:?}, expected an exit code and a signal, as in 0:15"))?;
    let derived = var("SLURM_JOB_DERIVED_EC").and_then(|code| code.parse().ok());
    Ok(Some(End {
        exit_code,
        signal,
        derived: derived.unwrap_or_default(),
    }))
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// As Slurm 22.05 sets it for the prolog of the second part of a heterogeneous job.
    const PROLOG: &[(&str, &str)] = &[
        ("SLURM_JOB_ID", "7"),
        ("SLURM_JOB_UID", "1000"),
        ("SLURM_JOB_USER", "ada"),
        ("SLURM_JOB_ACCOUNT", "proja"),
        ("SLURM_JOB_PARTITION", "gpu"),
        ("SLURM_HET_JOB_ID", "6"),
        ("SLURM_JOB_GPUS", "0,1"),
        ("CUDA_VISIBLE_DEVICES", "0,1"),
        ("SLURMD_NODENAME", "n0"),
        ("SLURM_CONF", "/etc/slurm/slurm.conf"),
        ("SLURM_JOB_COMMENT", "project X"),
    ];

    fn of(vars: &[(&str, &str)]) -> Result<JobRecord, String> {
        of_prolog(environment(vars), 12.5)
    }

    fn environment(vars: &[(&str, &str)]) -> impl Fn(&str) -> Option<String> {
        let vars: BTreeMap<String, String> = vars
            .iter()
            .map(|(n, v)| ((*n).to_owned(), (*v).to_owned()))
            .collect();
        move |name| vars.get(name).cloned()
    }

    /// A prolog's record.
    pub(in crate::cli::hook) fn prologs() -> JobRecord {
        of(PROLOG).unwrap()
    }

    #[test]
    fn a_prologs_environment_is_written_down() {
        let expected = JobRecord {
            job: 7,
            start: Some(12.5),
            uid: Some(1000),
            user: Some("ada".to_owned()),
            account: Some("proja".to_owned()),
            partition: Some("gpu".to_owned()),
            het_job: Some("6".to_owned()),
            gpus: Some("0,1".to_owned()),
            node: Some("n0".to_owned()),
            conf: Some("/etc/slurm/slurm.conf".to_owned()),
            ..JobRecord::default()
        };
        assert_eq!(of(PROLOG), Ok(expected));
    }

    /// With AutoDetect, and since 25.11 for whole GPUs too. On a node with both, instances have UUIDs and GPUs have
    /// numbers.
    #[test]
    fn uuids_are_written_down_where_all_are() {
        let uuids = |text: &str| {
            let vars = [("SLURM_JOB_ID", "7"), ("CUDA_VISIBLE_DEVICES", text)];
            of(&vars).unwrap().uuids
        };
        for both in ["GPU-1a", "GPU-1a,MIG-2b"] {
            assert_eq!(uuids(both).as_deref(), Some(both));
        }
        for none in ["", "0", "MIG-2b,1", "0,1"] {
            assert_eq!(uuids(none), None, "{none}");
        }
    }

    /// Sixteen UUIDs exceed the limit of other values; longer lists are omitted, since half a list would be wrong.
    #[test]
    fn a_list_of_gpus_is_whole_or_absent() {
        let of = |many: usize| {
            let uuids = vec!["GPU-00000000-0000-4000-8000-000000000100"; many].join(",");
            let vars = [
                ("SLURM_JOB_ID", "7"),
                ("CUDA_VISIBLE_DEVICES", &uuids),
                ("SLURM_JOB_GPUS", &uuids),
            ];
            let record = of(&vars).unwrap();
            assert_eq!(record.gpus, record.uuids);
            record.gpus.map(|text| text.len())
        };
        assert_eq!(of(16), Some(16 * 41 - 1));
        assert_eq!(of(101), None);
    }

    #[test]
    fn what_slurm_does_not_say_is_absent_and_words_of_users_are_cut() {
        let long = "x".repeat(1000);
        let record = of(&[
            ("SLURM_JOB_ID", "7"),
            ("SLURM_JOB_ACCOUNT", &long),
            ("SLURM_JOB_USER", "a\nb"),
        ])
        .unwrap();
        assert_eq!(record.account.map(|a| a.len()), Some(LONGEST));
        assert_eq!(record.user.as_deref(), Some("a b"));
        assert_eq!(record.partition, None);
    }

    #[test]
    fn an_environment_without_a_job_says_what_is_missing() {
        assert!(of(&[]).unwrap_err().contains("SLURM_JOB_ID is not set"));
        let odd = of(&[("SLURM_JOB_ID", "7_1")]).unwrap_err();
        assert_eq!(odd, "SLURM_JOB_ID: found \"7_1\", expected a number");
    }

    #[test]
    fn an_epilog_completes_what_the_prolog_wrote_and_knows_all_but_its_start_without() {
        let vars = [
            PROLOG,
            &[
                ("SLURM_JOB_EXIT_CODE2", "3:0"),
                ("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "50"),
            ],
        ]
        .concat();
        let end = Some(End {
            exit_code: 3,
            ..End::default()
        });
        let mut prolog = prologs();
        prolog.account = Some("of the prolog".to_owned());
        let (record, missing) = of_epilog(environment(&vars), Some(prolog.clone())).unwrap();
        let percent = Some(50);
        assert_eq!(
            (record, missing),
            (
                JobRecord {
                    end,
                    percent,
                    ..prolog.clone()
                },
                Ok(())
            )
        );
        let (alone, _) = of_epilog(environment(&vars), None).unwrap();
        let start = None;
        assert_eq!(
            alone,
            JobRecord {
                end,
                percent,
                start,
                ..prologs()
            }
        );
        // One of another user, from an earlier cluster.
        prolog.uid = Some(1001);
        assert_eq!(of_epilog(environment(&vars), Some(prolog)).unwrap().0, alone);
    }

    /// It is over all the same.
    #[test]
    fn an_odd_exit_code_costs_nothing_else() {
        let vars = [PROLOG, &[("SLURM_JOB_EXIT_CODE2", "x")]].concat();
        let (record, missing) = of_epilog(environment(&vars), Some(prologs())).unwrap();
        assert_eq!(record, prologs());
        assert!(
            missing
                .unwrap_err()
                .contains("expected an exit code and a signal")
        );
    }

    #[test]
    fn an_epilog_says_how_the_job_ended_where_slurm_does() {
        let of = |text: Option<&str>| {
            ending(|name| match name {
                "SLURM_JOB_EXIT_CODE2" => text.map(str::to_owned),
                "SLURM_JOB_DERIVED_EC" => Some("256".to_owned()),
                _ => None,
            })
        };
        let end = |exit_code, signal| {
            Ok(Some(End {
                exit_code,
                signal,
                derived: 256,
            }))
        };
        assert_eq!(of(None), Ok(None));
        assert_eq!(of(Some("0:0")), end(0, 0));
        assert_eq!(of(Some("3:0")), end(3, 0));
        assert_eq!(of(Some("0:15")), end(0, 15));
        for odd in ["", "0", "x:0", "0:", "256:0"] {
            assert!(
                of(Some(odd))
                    .unwrap_err()
                    .contains("expected an exit code and a signal")
            );
        }
    }
}
