//! Check `gpu-driver-blocked`.

use collectors::gpu::metrics as m;

use super::gpus::{driven, node, show, well};
use super::host::Driven;
use super::sim::*;
use crate::Mode;

#[test]
fn a_driver_is_blocked_after_minutes_asleep_in_one_place_and_not_while_it_is_merely_late() {
    // Each call returns and is followed by the next one, so that check reading-blocked has nothing to report.
    let blocked = |sim: &mut Sim, state, wchan, seconds: u64| {
        for _ in 0..seconds.div_ceil(200) {
            let since = sim.now.boottime;
            sim.host.driven[0].late = Some((state, wchan, since));
            sim.pass(200);
        }
        sim.incidents()
    };
    let mut sim = node(Mode::Drain, vec![driven(well())]);
    assert!(
        blocked(&mut sim, 'R', "", 3600).is_empty(),
        "a job that uses every core"
    );
    assert!(blocked(&mut sim, 'S', "futex", 3600).is_empty());
    for place in ["proc_cgroup_show", "cgroup_kn_lock_live"] {
        let found = blocked(&mut sim, 'D', place, 3600);
        assert!(
            found.is_empty(),
            "{place}: which cgroup its processes are in is not the driver's to say"
        );
    }
    for place in 0..20 {
        let wchan = if place % 2 == 0 { "rm_lock" } else { "gsp_wait" };
        assert!(blocked(&mut sim, 'D', wchan, 200).is_empty(), "it moves");
    }
    assert_eq!(
        blocked(&mut sim, 'D', "os_acquire_rwlock", 400),
        ["driver blocked open"]
    );
    assert_eq!(sim.slurm.drains, 1);
    sim.host.driven[0].late = None;
    sim.pass(300);
    assert_eq!(sim.incidents(), ["driver blocked cleared"]);
}

/// As of a worker that a signal has stopped, or that gets no processor.
#[test]
fn what_a_worker_reported_last_is_no_proof_once_it_reports_nothing() {
    let mut sim = node(Mode::Drain, vec![driven(well())]);
    let since = sim.now.boottime;
    sim.host.driven[0].late = Some(('D', "os_acquire_rwlock", since));
    sim.pass(60);
    sim.host.driven[0].heard = Some(sim.now.boottime);
    sim.pass(1800);
    assert!(!sim.says("driver blocked", false), "{:?}", sim.incidents());
    assert!(
        !sim.says("reading does not return", false),
        "{:?}",
        sim.incidents()
    );
    assert_eq!(sim.slurm.drains, 0);
    sim.host.driven[0].heard = None;
    sim.pass(120);
    assert!(
        sim.says("reading does not return", false),
        "{:?}",
        sim.incidents()
    );
    sim.pass(240);
    assert!(sim.says("driver blocked", false), "{:?}", sim.incidents());
}

/// x86_64 before Linux 5.16: `wchan` of every thread is 0, and `syscall` shows the call.
#[test]
fn without_a_visible_wait_channel_a_call_on_the_drivers_device_is_the_proof() {
    for (state, call, tells) in [
        ('D', "ioctl /dev/nvidiactl", true),
        ('D', "read /dev/nvidia0", true),
        ('S', "ioctl /dev/nvidiactl", false),
        ('D', "", false),
        // The kernel does not show of which file.
        ('D', "open", false),
        ('D', "read /usr/lib/libnvidia-ml.so.1", false),
        ('D', "read /proc/driver/nvidia/version", false),
        ('D', "ioctl socket:[7]", false),
    ] {
        let mut sim = node(Mode::Drain, vec![driven(well())]);
        sim.host.driven[0].late = Some((state, "", sim.now.boottime));
        sim.host.driven[0].call = call;
        sim.pass(290);
        assert!(!sim.says("driver blocked", false), "{state} {call}: too early");
        sim.pass(110);
        assert_eq!(sim.says("driver blocked", false), tells, "{state} {call}");
        assert_eq!(sim.slurm.is_drained(), tells, "{state} {call}");
    }
    let mut sim = node(Mode::Drain, vec![driven(well())]);
    sim.host.driven[0].late = Some(('D', "", sim.now.boottime));
    for place in 0..20 {
        sim.host.driven[0].call = ["ioctl /dev/nvidiactl", "ioctl /dev/nvidia0"][place % 2];
        sim.pass(200);
        assert!(!sim.says("driver blocked", false), "it moves");
    }
}

/// A node that is drained because a call about this GPU does not return.
fn blocked(label: &str) -> Sim {
    let mut sim = node(Mode::Drain, vec![driven(well())]);
    sim.host.driven[0].label = label.to_owned();
    sim.host.driven[0].late = Some(('D', "os_acquire_rwlock", sim.now.boottime));
    sim.pass(400);
    assert!(sim.says("driver blocked", false), "{:?}", sim.incidents());
    assert!(sim.slurm.is_drained());
    sim
}

fn other(label: &str) -> Driven {
    Driven {
        label: label.to_owned(),
        ..driven(well())
    }
}

#[test]
fn a_blocked_gpu_that_was_replaced_is_over_with_the_next_boot() {
    for label in ["GPU-2", "GPU-1"] {
        let mut sim = blocked("GPU-1");
        sim.host.driven = vec![other(label)];
        sim.reboot();
        sim.pass(30);
        assert!(sim.says("driver blocked", false), "{label}: too early");
        // Which findings are of an earlier boot is kept.
        sim.restart();
        sim.pass(300);
        assert!(sim.says("driver blocked", true), "{label}: {:?}", sim.incidents());
        assert!(!sim.slurm.is_drained(), "{label}");
    }
}

/// Its driver starts and cannot name it: the GPU is the same, and as broken as before.
#[test]
fn a_blocked_gpu_that_the_driver_cannot_name_after_the_boot_stays_blocked() {
    for label in ["pci:0000:3b:00.0", "index:0"] {
        let mut sim = blocked("GPU-1");
        sim.host.driven = vec![other(label)];
        sim.host.driven[0]
            .series
            .retain(|(metric, ..)| !std::ptr::eq(*metric, &m::INFO));
        sim.reboot();
        sim.pass(900);
        assert!(
            sim.says("driver blocked", false),
            "{label}: {:?}",
            sim.incidents()
        );
        assert!(sim.slurm.is_drained(), "{label}");
    }
}

#[test]
fn a_gpu_that_is_not_listed_stays_blocked_within_its_boot() {
    let mut sim = blocked("GPU-1");
    sim.host.driven = vec![other("GPU-2")];
    sim.restart();
    sim.pass(900);
    assert!(sim.says("driver blocked", false), "it has not responded");
    // It is blocked once more in the next boot, and no longer listed then.
    sim.host.driven = vec![other("GPU-1")];
    sim.reboot();
    sim.host.driven[0].late = Some(('D', "os_acquire_rwlock", sim.now.boottime));
    sim.pass(400);
    sim.host.driven = vec![other("GPU-2")];
    sim.pass(900);
    assert!(sim.says("driver blocked", false), "it has not responded");
}

#[test]
fn a_blocked_gpu_without_a_name_is_over_when_the_driver_names_it_and_no_call_hangs() {
    for label in ["pci:0000:3b:00.0", "index:0"] {
        let mut sim = blocked(label);
        let since = sim.host.driven[0].late;
        sim.host.driven = vec![other("GPU-1")];
        sim.host.driven[0].late = since;
        sim.pass(200);
        assert!(sim.says("driver blocked", false), "{label}: the call still hangs");
        show(&mut sim, Vec::new());
        sim.pass(300);
        assert!(sim.says("driver blocked", true), "{label}: {:?}", sim.incidents());
        assert!(!sim.slurm.is_drained(), "{label}");
    }
}
