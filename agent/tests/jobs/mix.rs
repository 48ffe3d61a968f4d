//! A job of each kind, for a cluster of three nodes with eight GPUs each.

use std::collections::BTreeMap;

use testkit::wait::{self, PATIENCE};

use crate::cluster::{Cluster, Owned};
use crate::table::Kind;

/// How many jobs one of this kind is.
fn jobs(kind: Kind) -> usize {
    match kind {
        Kind::Array | Kind::Shards => 2,
        _ => 1,
    }
}

/// Submits one. Returns the id of its first job.
pub fn submit(cluster: &Cluster, kind: Kind) -> u32 {
    let [n0, n1, n2] = [0, 1, 2].map(|i| cluster.name(i));
    let script = cluster.script();
    let name = |kind: Kind| format!("--job-name={}", kind.word());
    let (name, other) = (name(kind), name(Kind::HetOther));
    let sbatch = |args: &[&str], script: &str| {
        let args = [&[name.as_str()], args, &["--wrap", script]].concat();
        cluster.slurm.sbatch(&args).unwrap()
    };
    match kind {
        Kind::Plain => sbatch(&["--gres=gpu:2", "-w", &n0, "--uid=daemon"], &script),
        Kind::Array => sbatch(&["--gres=gpu:1", "-w", &n0, "--array=7-8"], &script),
        Kind::Het => sbatch(
            &["--gres=gpu:1", "-w", &n0, ":", "--gres=gpu:2", "-w", &n1, &other],
            &script,
        ),
        // The first part brings it, and has the number before.
        Kind::HetOther => 0,
        Kind::Steps => {
            let each = format!("srun -n1 --gres=gpu:1 --exact sh -c '{}' &", "exec sleep 1000");
            sbatch(
                &["-n2", "--gres=gpu:3", "-w", &n1],
                &format!("{each} {each} wait"),
            )
        }
        Kind::TwoNodes => {
            let file = cluster.slurm.dir().join("two.sh");
            std::fs::write(&file, format!("{script}\n")).unwrap();
            let nodes = format!("{n0},{n1}");
            let wrap = format!("srun -N2 -n2 sh {}", file.display());
            sbatch(&["-N2", "-n2", "--gres=gpu:1", "-w", &nodes], &wrap)
        }
        Kind::Shards => {
            sbatch(&["--gres=shard:2", "-w", &n0], &script);
            sbatch(&["--gres=shard:1", "-w", &n0], &script)
        }
        Kind::Whole => sbatch(&["--gres=gpu:8", "-w", &n2], &script),
        Kind::None => sbatch(&["-w", &n2], &script),
    }
}

/// Waits until jobs of these kinds run and no others, `look` at each turn, and gives each with its kind.
pub fn wait_running(cluster: &Cluster, kinds: &[Kind], mut look: impl FnMut()) -> BTreeMap<u32, Kind> {
    let many: usize = kinds.iter().copied().map(jobs).sum();
    let run = wait::until("the jobs run", PATIENCE, || {
        look();
        let jobs = cluster.slurm.jobs()?;
        Ok((jobs.len() == many && jobs.values().all(|state| state == "RUNNING")).then_some(()))
    });
    if let Err(error) = run {
        panic!(
            "{error:#} {:?}\n{}",
            cluster.slurm.jobs(),
            cluster.slurm.log_tails()
        );
    }
    let kind = |name: &String| *kinds.iter().find(|kind| kind.word() == name).unwrap();
    let names = cluster.slurm.job_names().unwrap();
    names.iter().map(|(job, name)| (*job, kind(name))).collect()
}

/// The part of `owned` that is a job's on a node.
pub fn part(owned: &Owned, node: &str, job: u32) -> Owned {
    let own = owned.iter().filter(|(n, _, j)| n == node && *j == job);
    own.cloned().collect()
}
