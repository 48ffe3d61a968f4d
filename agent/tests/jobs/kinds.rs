//! Every kind of job at once, on three nodes.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use testkit::wait::{self, PATIENCE};

use crate::cluster::{Cluster, GPUS, Owned, job, owners, series};
use crate::mix;
use crate::seen::Seen;
use crate::table::Kind;

#[test]
fn the_gpus_of_every_kind_of_job_are_those_that_slurm_gave_it() {
    let begin = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let cluster = Cluster::new(3);
    let [n0, n1, n2] = [0, 1, 2].map(|i| cluster.name(i));
    // Nodes have shards only if configured.
    let kinds: Vec<Kind> = Kind::ALL
        .into_iter()
        .filter(|kind| *kind != Kind::Shards)
        .collect();
    let ids: BTreeMap<Kind, u32> = kinds
        .iter()
        .map(|kind| (*kind, mix::submit(&cluster, *kind)))
        .collect();
    let of_kind = |kind| ids[&kind];
    let [plain, two, whole, none] = [Kind::Plain, Kind::TwoNodes, Kind::Whole, Kind::None].map(of_kind);
    let mut seen = Seen::default();
    let jobs = mix::wait_running(&cluster, &kinds, || drop(seen.look(&cluster)));
    let jobs: Vec<u32> = jobs.into_keys().collect();
    let given = cluster.agree(&jobs);
    assert_eq!(given.len(), 2 + 2 + 3 + 3 + 2 + 8, "{given:#?}");
    // While the jobs began, no wrong GPU was shown.
    for (owned, _) in &seen.owners {
        assert!(given.contains(owned), "{owned:?} is not in\n{given:#?}");
    }

    // The kernel allows the jobs to open exactly these GPUs.
    let of = |node: &str, job| mix::part(&given, node, job);
    for (node, job) in [(&n0, plain), (&n0, two), (&n1, two), (&n2, whole)] {
        assert_eq!(cluster.opened(node, job), of(node, job), "{node} {job}");
    }
    assert_eq!(of(&n2, whole).len(), GPUS);
    // A job that requested no GPU is known to have none.
    assert_eq!(of(&n2, none).len(), 0);
    cluster.wait_reasons("", &cluster.places(&jobs));

    let pages = cluster.pages();
    let mut infos = series(&pages, "slurm_job_info");
    let plain = infos.find(|(_, s)| job(s) == plain).unwrap().1;
    assert_eq!(plain.label("user"), Some("1"), "{plain:?}");

    // Start times from the kernel's clock: after the start of this test and before now.
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs_f64();
    let starts: Vec<f64> = series(&pages, "slurm_job_start_time_seconds")
        .map(|(_, s)| s.value)
        .collect();
    assert_eq!(starts.len(), cluster.places(&jobs).len());
    let during = (begin.as_secs_f64() - 1.0)..(now + 1.0);
    assert!(starts.iter().all(|s| during.contains(s)), "{starts:?} {during:?}");

    // Each step attaches its own device program; the job's GPUs stay the same.
    let cgroup = cluster.slurm.job_cgroup(&n1, of_kind(Kind::Steps)).unwrap();
    wait::until_true("two steps", PATIENCE, || {
        ["step_0", "step_1"]
            .iter()
            .all(|step| cgroup.join(step).join("user").exists())
    })
    .unwrap();
    assert_eq!(cluster.agree(&jobs), given);
}

#[test]
fn a_job_keeps_its_gpus_while_its_steps_come_and_go() {
    let cluster = Cluster::new(1);
    let done = cluster.slurm.dir().join("done");
    let script = format!(
        "for i in $(seq 20); do srun -n1 --gres=gpu:1 --exact true; done; touch {}; exec sleep 1000",
        done.display()
    );
    let job = cluster.slurm.submit(&script, "gpu:2").unwrap();
    let jobs = cluster.slurm.wait_running(1, PATIENCE).unwrap();
    let given = cluster.agree(&jobs);
    let mut looks = 0;
    wait::until_true("twenty steps", PATIENCE, || {
        let shown: Owned = owners(&cluster.pages()).into_keys().collect();
        assert_eq!(shown, given);
        looks += 1;
        done.exists()
    })
    .unwrap();
    println!("{looks} readings of job {job}");
    assert_eq!(cluster.agree(&jobs), given);
}
