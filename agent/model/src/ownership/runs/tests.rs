use collectors::Block;
use collectors::slurm::metrics::{JOB_DEVICE, JOB_DEVICES, JOB_FOLDER};
use proptest::prelude::*;

use super::*;
use crate::sample;
use crate::snapshot::Presence;

const WALL: i64 = 1_700_000_000;

const fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A run that has these GPUs, and may have begun at any time.
fn tenant(job: &str, inode: u64, gpus: &[&str]) -> (Duration, Allocation) {
    let held = AllocatedGpu {
        instances: vec![String::new()],
        used: false,
    };
    let tenant = Allocation {
        run: Run {
            job: job.to_owned(),
            start: WALL + i64::try_from(inode).unwrap() * 100,
            cgroup: format!("job_{job}:{inode}"),
        },
        user: "1000".to_owned(),
        submission: job.to_owned(),
        gpus: gpus.iter().map(|gpu| ((*gpu).to_owned(), held.clone())).collect(),
    };
    (Duration::ZERO, tenant)
}

fn look(runs: &mut Timeline, second: u64, tenants: &[(Duration, Allocation)]) {
    runs.allocated(Allocations {
        at: at(second),
        all: tenants.to_vec(),
    });
}

/// The job that had `GPU-0`, `-` if unknown, `later`.
fn whose(runs: &Timeline, from: u64, to: u64) -> String {
    match runs.whose("GPU-0", None, at(from), at(to)) {
        Attribution::One(tenant) => tenant.run.job.clone(),
        Attribution::Unknown => "-".to_owned(),
        Attribution::Pending => "later".to_owned(),
    }
}

#[test]
fn it_is_the_run_that_was_there_known_once_somebody_has_looked_again() {
    let mut runs = Timeline::default();
    assert_eq!(whose(&runs, 5, 5), "later");
    look(
        &mut runs,
        10,
        &[tenant("7", 1, &["GPU-0"]), tenant("8", 2, &["GPU-1"])],
    );
    assert_eq!(whose(&runs, 5, 5), "-", "before the first look");
    assert_eq!(whose(&runs, 12, 12), "later");
    look(&mut runs, 25, &[tenant("7", 1, &["GPU-0"])]);
    assert_eq!(whose(&runs, 12, 12), "7");
    assert_eq!(runs.whose("GPU-2", None, at(12), at(12)), Attribution::Unknown);
    look(&mut runs, 40, &[]);
    assert_eq!(whose(&runs, 30, 30), "7");
    look(&mut runs, 55, &[]);
    assert_eq!(whose(&runs, 45, 45), "-", "owned by no job");
}

#[test]
fn at_the_end_of_a_run_it_is_that_runs_however_late_it_is_asked() {
    let mut runs = Timeline::default();
    look(&mut runs, 10, &[tenant("7", 1, &["GPU-0"])]);
    runs.left("7", at(20));
    look(&mut runs, 21, &[]);
    look(&mut runs, 36, &[tenant("9", 2, &["GPU-0"])]);
    assert_eq!(whose(&runs, 19, 19), "7");
    assert_eq!(whose(&runs, 30, 30), "9", "it may have begun then");
    assert_eq!(whose(&runs, 19, 30), "-", "either's");
}

#[test]
fn a_run_begins_no_earlier_than_it_says() {
    let mut runs = Timeline::default();
    look(&mut runs, 10, &[tenant("7", 1, &["GPU-0"])]);
    let (_, next) = tenant("9", 2, &["GPU-0"]);
    look(&mut runs, 40, &[(at(30), next)]);
    assert_eq!(whose(&runs, 25, 25), "7");
    assert_eq!(whose(&runs, 35, 35), "-", "7 had not been seen to leave");
}

#[test]
fn a_requeued_job_is_another_run_and_one_that_is_told_anew_is_not() {
    let mut runs = Timeline::default();
    look(&mut runs, 10, &[tenant("7", 1, &["GPU-0"])]);
    let (began, mut again) = tenant("7", 1, &["GPU-0"]);
    again.run.start += 3;
    look(&mut runs, 25, &[(began, again.clone())]);
    let run = |runs: &Timeline, second| match runs.whose("GPU-0", None, at(second), at(second)) {
        Attribution::One(tenant) => tenant.run.clone(),
        other => panic!("{other:?}"),
    };
    let first = run(&runs, 20);
    assert_eq!(first.start, WALL + 100, "as first reported");
    assert!(first.is(&again.run));
    look(&mut runs, 40, &[]);
    look(&mut runs, 55, &[tenant("7", 2, &["GPU-0"])]);
    look(&mut runs, 70, &[tenant("7", 2, &["GPU-0"])]);
    assert!(!run(&runs, 60).is(&first));
}

#[test]
fn two_that_share_a_gpu_are_told_apart_by_the_instance_alone() {
    let mut runs = Timeline::default();
    let part = |job: &str, inode, label: &str| {
        let (began, mut tenant) = tenant(job, inode, &["GPU-0"]);
        tenant.gpus.get_mut("GPU-0").unwrap().instances = vec![label.to_owned()];
        (began, tenant)
    };
    let both = [part("7", 1, "1/0"), part("8", 2, "2/0")];
    look(&mut runs, 10, &both);
    look(&mut runs, 25, &both);
    assert_eq!(whose(&runs, 20, 20), "-");
    let of = |instance| runs.whose("GPU-0", Some(instance), at(20), at(20));
    assert!(matches!(of(2), Attribution::One(tenant) if tenant.run.job == "8"));
    assert_eq!(of(5), Attribution::Unknown);
}

#[test]
fn after_a_time_in_which_nobody_looked_nothing_is_known_of_it() {
    let mut runs = Timeline::default();
    look(&mut runs, 10, &[tenant("7", 1, &["GPU-0"])]);
    look(&mut runs, 200, &[tenant("7", 1, &["GPU-0"])]);
    assert_eq!(whose(&runs, 100, 100), "-");
    look(&mut runs, 215, &[tenant("7", 1, &["GPU-0"])]);
    assert_eq!(whose(&runs, 210, 210), "7");
}

#[test]
fn what_was_seen_in_use_stays_so() {
    let mut runs = Timeline::default();
    let (began, mut used) = tenant("7", 1, &["GPU-0"]);
    used.gpus.get_mut("GPU-0").unwrap().used = true;
    look(&mut runs, 10, &[(began, used)]);
    look(&mut runs, 25, &[tenant("7", 1, &["GPU-0"])]);
    assert!(matches!(
        runs.whose("GPU-0", None, at(20), at(20)),
        Attribution::One(tenant) if tenant.gpus["GPU-0"].used
    ));
}

#[test]
fn it_is_bounded_and_what_is_forgotten_is_not_taken_for_nobodys() {
    let mut runs = Timeline::default();
    for n in 0..2000 {
        look(&mut runs, 10 + n, &[tenant(&n.to_string(), n, &["GPU-0"])]);
    }
    assert!(runs.runs.len() <= MOST + 1, "{}", runs.runs.len());
    assert_eq!(whose(&runs, 20, 20), "-");
    assert!(runs.complete_since > Some(at(1000)));
    look(&mut runs, 2010 + KEPT.as_secs(), &[]);
    look(&mut runs, 2020 + 2 * KEPT.as_secs(), &[]);
    assert!(runs.runs.is_empty());
}

/// A node of two GPUs with one job, as shown by a snapshot.
struct Node {
    /// The series with its number and user is there.
    is_named: bool,
    start: Option<f64>,
    array: &'static str,
    reason: &'static str,
    devices: Vec<&'static str>,
    busy: Vec<&'static str>,
    shown: Vec<(&'static str, &'static str)>,
}

impl Node {
    fn new() -> Self {
        Self {
            is_named: true,
            start: Some(1_699_999_990.4),
            array: "",
            reason: "",
            devices: vec!["nvidia0", "nvidia1"],
            busy: vec!["GPU-1"],
            shown: vec![("GPU-0", "0"), ("GPU-1", "1")],
        }
    }

    fn look(&self) -> Option<Allocations> {
        let gpus = |b: &mut Block| {
            for (label, minor) in &self.shown {
                b.info(
                    &gpu::INFO,
                    &[label, "NVIDIA", "", "", "", minor, "", "", "", "", ""],
                );
                b.u64(&gpu::PROCESSES, &[label], u64::from(self.busy.contains(label)));
            }
        };
        let job = |b: &mut Block| {
            if self.is_named {
                b.info(&JOB_INFO, &["7", "1000", "", "", self.array, "", ""]);
            }
            b.info(&JOB_FOLDER, &["7", "job_7", ""]);
            if let Some(start) = self.start {
                b.f64(&JOB_START, &["7"], start);
            }
            b.info(&JOB_DEVICES, &["7", self.reason]);
            for name in &self.devices {
                b.info(&JOB_DEVICE, &["7", name]);
            }
        };
        let mut snapshot = sample::snapshot(Vec::new());
        for collector in snapshot.collectors_mut() {
            match collector.spec.name {
                "nvidia" => collector.devices.push(sample::device("gpus", gpus)),
                "slurm" => {
                    collector.presence = Presence::Open;
                    collector.devices.push(sample::device("job_7:99", job));
                }
                _ => {}
            }
        }
        Allocations::of(&snapshot, snapshot.ownership(), WALL)
    }
}

#[test]
fn a_snapshot_shows_the_run_its_beginning_and_what_it_uses() {
    let look = Node::new().look().unwrap();
    let [(began, tenant)] = look.all.as_slice() else {
        panic!("{look:?}");
    };
    assert_eq!((look.at, *began), (sample::AT, sample::AT - at(12)));
    let run = Run {
        job: "7".to_owned(),
        start: 1_699_999_990,
        cgroup: "job_7:99".to_owned(),
    };
    assert_eq!((&tenant.run, tenant.submission.as_str()), (&run, "7"));
    let used: Vec<bool> = tenant.gpus.values().map(|held| held.used).collect();
    assert_eq!(used, [false, true]);
    let task = Node {
        array: "5",
        ..Node::new()
    };
    assert_eq!(task.look().unwrap().all[0].1.submission, "5");
}

#[test]
fn where_anything_of_a_job_is_not_known_nothing_is() {
    let nodes = [
        Node {
            is_named: false,
            ..Node::new()
        },
        Node {
            start: None,
            ..Node::new()
        },
        Node {
            reason: "denied",
            devices: vec![],
            ..Node::new()
        },
        // The driver does not report one of its GPUs now.
        Node {
            shown: vec![("GPU-0", "0")],
            ..Node::new()
        },
    ];
    for node in nodes {
        assert!(node.look().is_none());
    }
    let without = Node {
        start: None,
        devices: vec![],
        ..Node::new()
    };
    assert!(without.look().unwrap().all.is_empty(), "a job without GPUs");
}

proptest! {
    /// A named run had the GPU at a look around that moment, and no other run did.
    #[test]
    fn a_named_run_had_the_gpu_alone(
        there in prop::collection::vec(prop::collection::vec(0_u64..4, 0..3), 1..30),
        from in 0_u64..300,
        wide in 0_u64..20,
    ) {
        let mut runs = Timeline::default();
        for (second, jobs) in (0_u64..).step_by(10).zip(&there) {
            let tenants: Vec<_> = jobs.iter().map(|j| tenant(&j.to_string(), *j, &["GPU-0"])).collect();
            look(&mut runs, second, &tenants);
        }
        let to = from + wide;
        let name = whose(&runs, from, to);
        if let Ok(job) = name.parse::<u64>() {
            // A run that returns with the same cgroup name was between two steps.
            let seen: Vec<u64> = (0_u64..)
                .step_by(10)
                .zip(&there)
                .filter(|(_, jobs)| jobs.contains(&job))
                .map(|(second, _)| second)
                .collect();
            prop_assert!(seen.iter().any(|s| *s <= to + 10), "{job} {seen:?}");
            prop_assert!(seen.iter().any(|s| s + 10 >= from), "{job} {seen:?}");
            let within = (0_u64..).step_by(10).zip(&there).filter(|(s, _)| (from..=to).contains(s));
            for (_, jobs) in within {
                prop_assert!(jobs.iter().all(|other| *other == job));
            }
        }
    }
}
