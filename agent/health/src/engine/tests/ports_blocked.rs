//! Check `rdma-port-blocked`.

use collectors::sys::task::Task;

use super::ports_down::node;
use super::sim::Sim;

fn waits(sim: &mut Sim, state: char, wchan: &str, call: &str) {
    sim.host.ports[2].late = true;
    sim.host.ports[2].task = Some(Task {
        tid: 9,
        state,
        wchan: wchan.to_owned(),
        call: call.to_owned(),
        ..Task::default()
    });
}

#[test]
fn a_port_that_stays_in_one_call_is_found_with_the_file_and_ends_when_it_answers() {
    let mut sim = node(8);
    waits(
        &mut sim,
        'D',
        "wait_func",
        "read /sys/x/infiniband/mlx5_2/ports/1/state",
    );
    sim.pass(120);
    assert_eq!(sim.incidents(), ["does not answer in read ports/1/state open"]);
    let evidence = sim.engine.view().incidents[0].findings[0].evidence.join("; ");
    for part in [
        "nodewarden_device_late_seconds",
        "state D in wait_func",
        "mlx5_2/ports/1/state",
    ] {
        assert!(evidence.contains(part), "{evidence}");
    }
    assert_eq!(sim.slurm.drains, 0, "a comment at most");
    sim.host.ports[2].late = false;
    sim.pass(300);
    assert_eq!(sim.incidents(), ["does not answer in read ports/1/state cleared"]);
}

#[test]
fn a_port_that_is_merely_late_or_moves_on_is_not() {
    let mut sim = node(8);
    for (state, wchan, call) in [
        ('R', "", ""),
        ('R', "", "read /sys/x"),
        ('S', "futex", ""),
        ('D', "nfs_wait_bit_killable", ""),
        ('D', "", ""),
        ('D', "nfs_wait_bit_killable", "read /sys/x"),
        ('D', "rtnl_lock", "ioctl socket:[1]"),
        ('D', "dev_ethtool", ""),
        // Linux 6.15 and later.
        (
            'S',
            "sysfs_rtnl_lock",
            "read /sys/devices/pci0000:18/0000:18:00.0/net/eth4/speed",
        ),
        // x86_64 before Linux 5.16 shows no wait channel: for the lock of network settings, or for memory.
        ('D', "", "read /sys/x/infiniband/mlx5_2/ports/1/state"),
        ('D', "", "read /sys/x/infiniband/mlx5_2/ports/1/hw_counters/x"),
        ('D', "", "read /proc/self/stat"),
    ] {
        waits(&mut sim, state, wchan, call);
        sim.pass(600);
        assert!(sim.incidents().is_empty(), "{state} {wchan} {call}");
    }
    for file in 0..60 {
        waits(&mut sim, 'D', "wait_func", &format!("read /sys/{file}"));
        sim.pass(15);
    }
    assert!(sim.incidents().is_empty(), "each file takes a moment");
}

#[test]
fn a_port_that_goes_by_another_name_afterwards_is_the_end_of_it() {
    let mut sim = node(8);
    waits(
        &mut sim,
        'D',
        "wait_func",
        "read /sys/x/infiniband/mlx5_2/ports/1/state",
    );
    sim.pass(120);
    assert_eq!(sim.incidents(), ["does not answer in read ports/1/state open"]);
    sim.host.ports[2].late = false;
    sim.host.ports[2].device = "mlx5_renamed".to_owned();
    sim.pass(300);
    assert_eq!(sim.incidents(), ["does not answer in read ports/1/state cleared"]);
}
