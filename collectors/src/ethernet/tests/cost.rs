//! What ten ports cost: the figures of docs/decisions/0010-ethernet-statistics.md.

use super::*;

const PORTS: usize = 10;
const MINUTES: u64 = 10;

/// Calls a minute by kind, and the longest time in which one batch holds RTNL, for ten ports.
fn cost(net: &Net, takes: Duration) -> (BTreeMap<String, u64>, Duration) {
    let node = Node::new();
    for at in 0..PORTS {
        let netdev = format!("eth{at}");
        node.add(
            &format!("mlx5_{at}"),
            &format!("0000:0{at}:00.0"),
            "mlx5_core",
            &netdev,
        );
        node.world.net(&netdev, net.clone().taking(takes));
    }
    let (mut ports, mut longest) = (node.ports(""), Duration::ZERO);
    for port in &mut ports {
        read(&mut **port);
        node.world.calls();
    }
    for _ in 0..MINUTES * 2 {
        node.world.pass(30 * SECOND);
        let began = node.world.clock()();
        for port in ports.iter_mut().filter(|p| p.is_due()) {
            read(&mut **port);
        }
        longest = longest.max(node.world.clock()().saturating_duration_since(began));
    }
    let mut kinds: BTreeMap<String, u64> = BTreeMap::new();
    for call in node.world.calls() {
        let kind = call.split(' ').next().unwrap().to_owned();
        *kinds.entry(kind).or_default() += 1;
    }
    (
        kinds.into_iter().map(|(k, n)| (k, n / MINUTES)).collect(),
        longest,
    )
}

/// The system calls of one call, as strace shows them: an ioctl has a buffer with a guard page (mmap, mprotect, munmap),
/// a query of netlink is sent, answered and acknowledged.
fn system_calls(kind: &str) -> u64 {
    match kind {
        "count" | "names" | "values" => 4,
        _ => 3,
    }
}

fn with_flow_control() -> Net {
    let mut net = Net::lossy();
    net.pfc = Net::mlx5(3).pfc;
    net.statistics.push(("rx_prio3_pause".to_owned(), 7));
    net
}

#[test]
fn ten_ports_without_flow_control_cost_half_of_ten_with_it() {
    let takes = Duration::from_millis(30);
    for (what, net, a_minute) in [
        ("with PFC", with_flow_control(), 20),
        ("without", Net::lossy(), 10),
    ] {
        let (kinds, longest) = cost(&net, takes);
        let all: u64 = kinds.values().sum();
        let system: u64 = kinds.iter().map(|(kind, n)| n * system_calls(kind)).sum();
        println!(
            "{what}: {all} calls a minute, {system} system calls, {kinds:?}, at most {longest:?} of a batch"
        );
        assert_eq!(system, 22 * a_minute, "{what}");
        let expected = [("count", 1), ("dcb", 1), ("fec", 1), ("names", 2), ("values", 1)];
        let expected = expected.map(|(kind, times)| (kind.to_owned(), times * a_minute));
        assert_eq!(kinds, BTreeMap::from(expected), "{what}");
        // No batch is late for the age at which readings are dropped: 65 s.
        assert_eq!(longest, takes * 10);
    }
}
