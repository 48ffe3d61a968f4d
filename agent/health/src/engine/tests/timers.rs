//! What 500 nodes ask one controller at the same moment: the looks after a common start, and the comments of a common fault.

use std::time::Duration;

use super::sim::*;
use crate::Mode;

const NODES: u32 = 500;
/// Half of them have a standing drain.
const DRAINED: u32 = NODES / 2;
/// The time over which the first looks are spread, in seconds. Later ones are rarer: a second would hold 1 of them.
const START: usize = 30;
/// The time over which comments are spread, in seconds.
const COMMENTS: usize = 60;
/// The default of `slurm.watch`, in seconds: no second look comes earlier.
const WATCH: usize = 300;
/// 35 min in seconds.
const END: usize = 35 * 60;

/// The seconds after the restart in which this node asks the controller.
fn looks(node: u32) -> Vec<usize> {
    let mut config = config(Mode::Drain);
    config.scheduler.watch = Duration::from_secs(WATCH as u64);
    let mut sim = Sim::with(config, None);
    sim.boot = node;
    sim.wipe();
    if node < DRAINED {
        sim.xid(79);
        assert_eq!(sim.slurm.drains, 1);
    }
    sim.pass(60);
    let start = sim.now.boottime;
    let (mut seen, mut seconds) = (sim.looks, Vec::new());
    sim.restart();
    loop {
        let second = usize::try_from((sim.now.boottime - start).as_secs()).unwrap();
        if second >= END {
            return seconds;
        }
        seconds.extend((seen..sim.looks).map(|_| second));
        seen = sim.looks;
        let next = sim.engine.next_deadline().unwrap();
        sim.sleep_until(next);
        sim.tick();
    }
}

fn most_and_mean(counts: &[usize]) -> (usize, f64) {
    let all: usize = counts.iter().sum();
    (
        counts.iter().copied().max().unwrap(),
        all as f64 / counts.len() as f64,
    )
}

#[test]
#[allow(
    clippy::disallowed_macros,
    reason = "docs/benchmarks.md has the printed figures"
)]
fn after_a_common_restart_of_500_nodes_no_second_has_three_times_the_mean_of_looks() {
    let mut seconds = vec![0; END];
    for node in 0..NODES {
        let looks = looks(node);
        assert!(looks[0] < START, "{looks:?}");
        let more = if node < DRAINED { 3..=6 } else { 0..=0 };
        assert!(more.contains(&(looks.len() - 1)), "{looks:?}");
        for second in looks {
            seconds[second] += 1;
        }
    }
    let (most, mean) = most_and_mean(&seconds[..START]);
    println!("first looks: at most {most} in a second, mean {mean:.1}");
    assert!(most as f64 <= 3.0 * mean, "{seconds:?}");
    assert_eq!(seconds[START..WATCH].iter().sum::<usize>(), 0);

    let later: Vec<usize> = seconds[WATCH..]
        .chunks(START)
        .map(|chunk| chunk.iter().sum())
        .collect();
    let (most_in_30, mean_of_30) = most_and_mean(&later);
    println!("later looks: at most {most_in_30} in {START} s, mean {mean_of_30:.1}");
    assert!(most_in_30 as f64 <= 3.0 * mean_of_30, "{later:?}");
    assert!(seconds[WATCH..].iter().all(|n| (*n as f64) <= mean));
}

/// The seconds after the fault in which this node writes its comment, and after the end of the fault in which it removes it. The first
/// writes may fail.
fn comments(node: u32, failures: usize) -> (Vec<usize>, Vec<usize>) {
    let mut config = config(Mode::Comment);
    config.scheduler.watch = Duration::from_secs(WATCH as u64);
    let mut sim = Sim::with(config, None);
    sim.boot = node;
    sim.wipe();
    sim.pass(60);
    sim.slurm.trouble = vec![Trouble::Failed; failures].into();
    let acts = |sim: &mut Sim, seconds: u64| {
        let (start, mut seen, mut all) = (sim.now.boottime, sim.acts, Vec::new());
        for _ in 0..seconds {
            sim.pass(1);
            let second = usize::try_from((sim.now.boottime - start).as_secs()).unwrap();
            all.extend((seen..sim.acts).map(|_| second - 1));
            seen = sim.acts;
        }
        all
    };
    sim.xid(79);
    let written = acts(&mut sim, 720);
    assert!(sim.slurm.comment.is_some());
    let id = sim.engine.view().incidents[0].id.clone();
    sim.order(crate::OrderVerb::Clear, &id).unwrap();
    let removed = acts(&mut sim, 60);
    assert_eq!(sim.slurm.comment, None);
    (written, removed)
}

#[test]
fn the_comments_of_a_fault_of_500_nodes_and_their_ends_are_spread_also_after_a_failure() {
    let (mut written, mut again, mut removed) = (vec![0; 720], vec![0; 720], vec![0; COMMENTS]);
    for node in 0..NODES {
        let (acts, end) = comments(node, 1);
        assert_eq!((acts.len(), end.len()), (2, 1), "{acts:?} {end:?}");
        written[acts[0]] += 1;
        again[acts[1]] += 1;
        removed[end[0]] += 1;
    }
    assert_eq!(written[COMMENTS..].iter().sum::<usize>(), 0);
    let (most, mean) = most_and_mean(&written[..COMMENTS]);
    assert!(most as f64 <= 3.0 * mean, "{written:?}");
    let (most, mean) = most_and_mean(&removed);
    assert!(most as f64 <= 3.0 * mean, "{removed:?}");
    assert_eq!(again[..300].iter().sum::<usize>(), 0, "not sooner than 5 min");
    assert!(
        again[400..].iter().sum::<usize>() > NODES as usize / 4,
        "{again:?}"
    );
    // In time-outs of a controller that writes 34 a second.
    let tens: Vec<usize> = again[300..].chunks(10).map(|chunk| chunk.iter().sum()).collect();
    let (most, mean) = most_and_mean(&tens);
    assert!(most as f64 <= 3.0 * mean, "{tens:?}");
}
