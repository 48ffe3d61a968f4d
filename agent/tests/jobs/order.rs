//! gres.conf may list devices in any order, and several jobs may share a GPU.

use crate::cluster::{Cluster, GPUS, label, options, owners};
use crate::hooks::Hooks;
use testkit::slurm::SlurmOptions;
use testkit::wait::PATIENCE;

pub const ORDER: [usize; GPUS] = [2, 3, 0, 1, 6, 7, 4, 5];

/// The devices as a value of `File`.
pub fn devices() -> String {
    ORDER.map(|minor| format!("@DEV@/nvidia{minor}")).join(",")
}

#[test]
fn a_position_in_gres_conf_is_not_a_device_number() {
    let gres = format!("AutoDetect=off\nName=gpu Type=h100 File={}\n", devices());
    let mut cluster = Cluster::of(
        SlurmOptions {
            gres_conf: Some(gres),
            ..options(1)
        },
        ORDER,
    );
    cluster.watch(&[]);
    let node = cluster.name(0);
    let script = cluster.script();
    let submit = |gres: &str| cluster.slurm.submit(&script, gres).unwrap();
    let first = submit("gpu:1");
    cluster.slurm.wait_running(1, PATIENCE).unwrap();
    let second = submit("gpu:3");
    let jobs = cluster.slurm.wait_running(2, PATIENCE).unwrap();
    let given = cluster.agree(&jobs);
    assert_eq!(cluster.slurm.job_gpus(first).unwrap()[&node], [0]);
    assert!(given.contains(&(node.clone(), label(2), first)), "{given:#?}");
    assert_eq!(given.len(), 4);
    let both = [first, second].map(|job| cluster.opened(&node, job));
    assert_eq!(&both[0] | &both[1], given);
}

#[test]
fn jobs_with_shards_of_a_gpu_have_as_much_of_it_as_they_have_shards() {
    parts_of_a_gpu("shard", 4, [2, 1], false);
}

/// Slurm reports shards to no prolog: the hook changes nothing.
#[test]
fn jobs_with_shards_have_the_same_shares_with_hooks() {
    parts_of_a_gpu("shard", 4, [3, 1], true);
}

#[test]
fn jobs_with_mps_have_as_much_of_a_gpu_as_their_prologs_were_told() {
    parts_of_a_gpu("mps", 100, [50, 25], true);
}

/// Of MPS only prologs know the part.
#[test]
fn jobs_with_mps_have_equal_shares_without_hooks() {
    parts_of_a_gpu("mps", 100, [50, 25], false);
}

/// Each GPU has `each` units of `gres`, and two jobs request some.
fn parts_of_a_gpu(gres: &str, each: usize, asked: [u32; 2], is_hooked: bool) {
    let count = each * GPUS;
    let conf = format!(
        "AutoDetect=off\nName=gpu Type=h100 File={}\nName={gres} Count={count}\n",
        devices()
    );
    let (hooks, hooked) = Hooks::of(options(1));
    let base = if is_hooked { hooked } else { options(1) };
    let mut cluster = Cluster::of(
        SlurmOptions {
            gres_conf: Some(conf),
            node_gres: Some(format!("gpu:h100:8,{gres}:{count}")),
            extra_conf: format!("GresTypes=gpu,{gres}"),
            ..base
        },
        ORDER,
    );
    cluster.watch(&[]);
    hooks.link(&cluster);
    let submit = |gres: &str| cluster.slurm.submit("sleep 1000", gres).unwrap();
    let whole = submit("gpu:1");
    cluster.slurm.wait_running(1, PATIENCE).unwrap();
    let shards = asked.map(|parts| submit(&format!("{gres}:{parts}")));
    if is_hooked || gres == "shard" {
        cluster.parts.extend(shards.into_iter().zip(asked));
    }
    let jobs = cluster.slurm.wait_running(3, PATIENCE).unwrap();
    let given = cluster.agree(&jobs);
    let gpu = |job| {
        let mut gpus = given.iter().filter(|(_, _, j)| *j == job).map(|(_, gpu, _)| gpu);
        let one = gpus.next().unwrap();
        assert_eq!(gpus.next(), None);
        one
    };
    assert_eq!(gpu(shards[0]), gpu(shards[1]));
    assert_ne!(gpu(whole), gpu(shards[0]));
    // One of the two jobs ends: the other then has the whole GPU.
    cluster.slurm.cancel(shards[0]).unwrap();
    cluster.slurm.wait_running(2, PATIENCE).unwrap();
    let alone = || {
        owners(&cluster.pages())
            .into_values()
            .all(|(_, share)| share == 1.0)
    };
    testkit::wait::until_true("the share is 1", PATIENCE, alone).unwrap();
    assert_eq!(cluster.agree(&[whole, shards[1]]).len(), 2);
}
