//! Looks and drains: one at a time, of many nodes at the same moment, and of drains that stand for an hour.

use std::thread;
use std::time::Duration;

use slurm::guard::Settings;
use testkit::scontrol_wrapper::ScontrolWrapper;
use testkit::slurm::{Slurm, SlurmOptions};

use crate::agents::Agents;
use crate::figures::{AFTER, Table, limits_count, measure};
use crate::node::Node;
use crate::sampled::Sampled;

const CONFIGURED: usize = 10_000;
/// Nodes of a figure of single operations.
const SINGLE: usize = 100;
/// Agents of the hour, and one real node for each of these.
const AGENTS: u32 = 1000;
const EVERY: usize = 40;

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn looks_and_drains_with_10_000_nodes() {
    // The commands of 500 nodes take this one machine half a minute, where nothing is asserted about their time.
    let at_once = if limits_count() { 500 } else { 100 };
    let mut slurm = controller();
    commands_of_a_node(&mut slurm);
    let mut table = Table::default();
    let mut nodes = registered(&mut slurm, SINGLE + at_once);

    let looked = |node: &mut Node| drop(node.look().unwrap());
    let proofs = measure(&slurm, &mut nodes, 8, looked);
    table.add("first look after a start of the agent, 8 at once", &proofs);
    let (single, many) = nodes.split_at_mut(SINGLE);
    let looks = measure(&slurm, single, 1, looked);
    table.add("look", &looks);
    table.limit("slurmctld CPU ms of a look", looks.cpu_ms(), 3.0);

    let drains = measure(&slurm, single, 1, Node::drain);
    table.add("drain", &drains);
    table.limit("slurmctld CPU ms of a drain", drains.cpu_ms(), 6.0);
    let together = measure(&slurm, many, at_once, Node::drain);
    table.add(&format!("drain, {at_once} at once"), &together);
    let p99 = together.percentile(99).as_secs_f64();
    table.limit("p99 of drains at once, in seconds", p99, 30.0);
    // With the drain of the node whose commands were counted.
    assert_eq!(drained_nodes(&slurm), SINGLE + at_once + 1);
    let repeated: usize = nodes.iter().map(|node| node.unknown).sum();
    let repeated = format!("drains repeated after no answer in 10 s: {repeated}");
    let standing = an_hour_of_standing_drains(&mut slurm);
    table.print(&[repeated, standing]);
}

/// Most clusters have several partitions for the same nodes: slurmctld sends them with every answer.
pub fn controller() -> Slurm {
    let prefix = format!("fleet{}x", std::process::id());
    let (half, last) = (CONFIGURED / 2, CONFIGURED - 1);
    let slurm = Slurm::start(SlurmOptions {
        nodes: 0,
        absent: CONFIGURED,
        cpus: Some(128),
        extra_conf: format!(
            "PartitionName=one Nodes={prefix}[0-{}] State=UP\nPartitionName=two Nodes={prefix}[{half}-{last}] State=UP",
            half - 1
        ),
        node_prefix: prefix,
        ..SlurmOptions::default()
    })
    .unwrap();
    println!("slurmctld with {CONFIGURED} nodes: {:?}", slurm.start_time());
    slurm.wait_idle().unwrap();
    slurm
}

/// Nodes that slurmctld takes for this machine.
pub fn registered(slurm: &mut Slurm, count: usize) -> Vec<Node> {
    let names = slurm.register_absent(count).unwrap();
    names.iter().map(|name| Node::new(name, &slurm.conf())).collect()
}

pub fn drained_nodes(slurm: &Slurm) -> usize {
    let nodes = slurm
        .command("sinfo", &["-h", "-t", "drain", "-o", "%D"])
        .unwrap();
    nodes.ok().unwrap().stdout.trim().parse().unwrap()
}

/// scontrol once for the identity, then sinfo: of a drain without a limit the pause and the node are read, then it is written and
/// read back.
fn commands_of_a_node(slurm: &mut Slurm) {
    let name = slurm.register_absent(1).unwrap().remove(0);
    let wrapper = ScontrolWrapper::new(testkit::exec::which("scontrol").unwrap()).unwrap();
    let mut node = Node::with(&name, &slurm.conf(), wrapper.path(), Settings::default());
    let commands = || {
        let calls = wrapper.calls().unwrap();
        wrapper.forget().unwrap();
        let words = calls.into_iter().map(|call| call.args[0].clone());
        words.collect::<Vec<_>>()
    };
    node.look().unwrap();
    assert_eq!(commands(), ["show"]);
    node.look().unwrap();
    assert_eq!(commands(), ["-h"]);
    node.drain();
    assert_eq!(
        commands(),
        ["show", "-h", "update", "-h"],
        "the pause is read too, and before the node"
    );
    assert!(node.look().unwrap().is_drained());
    assert_eq!(commands(), ["-h"]);
}

/// Agents whose drain stands, in virtual time, with a sample of real commands.
fn an_hour_of_standing_drains(slurm: &mut Slurm) -> String {
    let count = AGENTS as usize;
    let parents = Sampled::new(registered(slurm, count / EVERY), EVERY);
    let mut agents = Agents::new(count, &["health.mode=\"drain\""], parents);
    for node in 0..count {
        agents.break_gpu(node);
    }
    agents.pass(Duration::from_secs(60));
    assert!((0..count).all(|node| agents.drain_state(node) == "drained"));
    assert_eq!(agents.requests.acts, AGENTS);

    slurm.wait_idle().unwrap();
    let (before, real_before) = (agents.requests, agents.parents.commands);
    let cpu = slurm.controller_cpu().unwrap();
    agents.pass(HOUR);
    thread::sleep(AFTER);
    let cpu = slurm.controller_cpu().unwrap() - cpu;
    assert_eq!(agents.requests.acts, before.acts);
    let looks = agents.requests.looks - before.looks;
    // The default of `slurm.watch` is 5 min: a look 5 to 10 min after the last.
    assert!((6 * AGENTS..=12 * AGENTS).contains(&looks), "{looks}");
    let real = agents.parents.commands - real_before;
    let each = cpu.as_secs_f64() / f64::from(real);
    let share = each * f64::from(looks) / HOUR.as_secs_f64();
    format!(
        "{AGENTS} agents with a standing drain: {looks} looks an hour, {:.2} % of a core of slurmctld ({real} of them real)",
        share * 100.0
    )
}
