//! kill -9 at every step of a drain, a reboot during a drain, and a state directory that fails.

use std::fs;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use testkit::scontrol_wrapper::{Fault, On};

use crate::cluster::Cluster;
use crate::common::LONG;

fn kill9(pid: u32) {
    kill(Pid::from_raw(i32::try_from(pid).unwrap()), Signal::SIGKILL).unwrap();
}

/// Kills all processes `delay` after the line and starts again. Expects exactly one drain of ours, recorded, and no
/// repeated write.
fn crash_after(delay: Duration) {
    let mut c = Cluster::new();
    c.start();
    // The watcher runs: lines from now on are not history.
    c.settle();
    c.wrapper
        .set(On::Show, Fault::Slow(Duration::from_millis(150)))
        .unwrap();
    c.wrapper
        .set(On::Update, Fault::Slow(Duration::from_millis(150)))
        .unwrap();
    c.xid(3, 79);
    // The tests vary the time of the crash.
    std::thread::sleep(delay);
    c.kill9();
    c.wrapper.set(On::Show, Fault::None).unwrap();
    c.wrapper.set(On::Update, Fault::None).unwrap();
    c.start();
    let reason = c.wait_drained();
    c.wait_drain_state("drained");
    assert!(reason.starts_with("nodewarden:xid gpu"), "{reason}");
    assert_eq!(c.incidents().len(), 1, "expected one incident across the crash");
    assert_eq!(c.view()["drain"]["recorded"], true);
    c.wait_xids(3, 79, 1.0);
    let id = c.open_incidents()[0]["id"].as_str().unwrap().to_owned();
    c.clear(&id, "test");
    c.wait_undrained();
}

// The delays cover line, record, first read, write, second read and result. The outcome must be the same for each.
#[test]
fn killed_at_once() {
    crash_after(Duration::ZERO);
}

#[test]
fn killed_before_the_first_read_came_back() {
    crash_after(Duration::from_millis(100));
}

#[test]
fn killed_during_the_write() {
    crash_after(Duration::from_millis(250));
}

#[test]
fn killed_before_the_read_back() {
    crash_after(Duration::from_millis(400));
}

#[test]
fn killed_after_the_drain() {
    crash_after(Duration::from_millis(700));
}

/// What slurmctld has not received by the end of the parent is never written.
#[test]
fn a_write_in_flight_ends_with_the_parent() {
    let ends: [fn(&mut Cluster); 2] = [|c| c.stop(), |c| c.kill9()];
    for end in ends {
        let mut c = Cluster::new();
        c.start();
        c.settle();
        let slow = Duration::from_secs(5);
        c.wrapper.set(On::Update, Fault::Slow(slow)).unwrap();
        c.xid(3, 79);
        c.until("the write has begun", |_| c.updates() == 1);
        end(&mut c);
        std::thread::sleep(slow + Duration::from_secs(2));
        assert!(!c.is_drained(), "{}", c.reason());
    }
}

#[test]
fn the_daemon_alone_is_killed_and_comes_back_with_its_record() {
    let mut c = Cluster::new();
    c.start();
    c.xid(3, 79);
    c.wait_drained();
    c.wait_drain_state("drained");
    let before = c.core_pid();
    kill9(before);
    c.until("a new daemon", |n| {
        n.daemon().children().iter().all(|p| *p != before) && n.drain_state() == "drained"
    });
    c.wait_ready();
    assert_eq!(c.updates(), 1);
    assert_eq!(c.incidents().len(), 1);
}

#[test]
fn a_reboot_during_a_drain_clears_only_when_the_gpu_is_back() {
    let mut c = Cluster::new();
    // The new boot's log must have had no event for this time.
    c.set("health.settle=\"1s\"");
    c.boot_id = Some("11111111-1111-1111-1111-111111111111".to_owned());
    c.start();
    c.xid(3, 79);
    c.wait_drained();
    c.wait_drain_state("drained");

    // Another boot; the GPU is still missing.
    c.reboot("22222222-2222-2222-2222-222222222222");
    c.unplug(3);
    c.start();
    c.settle();
    c.wait_looks(2);
    assert!(
        c.is_drained(),
        "undrained although the GPU is missing after the reboot"
    );

    // Another boot; the GPU is present.
    c.reboot("33333333-3333-3333-3333-333333333333");
    c.plug(3);
    c.start();
    c.until("repaired", |n| n.open_incidents().is_empty());
    // A GPU that was off the bus: no test has verified it.
    c.until("kept for a person", |n| {
        n.try_view()["drain"]["why"]
            .to_string()
            .contains("no test has verified it")
    });
    assert!(c.is_drained());
    let id = c.view()["drain"]["incident"].as_str().unwrap().to_owned();
    c.clear(&id, "tested");
    c.wait_undrained();
    c.wait_drain_state("none");
}

#[test]
fn a_reboot_between_intent_and_write_ends_in_one_drain() {
    let mut c = Cluster::new();
    // The drain waits for it: the GPU is missing in the new boot, too, and its log was quiet for this time.
    c.set("health.settle=\"1s\"");
    c.boot_id = Some("11111111-1111-1111-1111-111111111111".to_owned());
    c.start();
    c.wrapper
        .set(On::Update, Fault::Slow(Duration::from_secs(30)))
        .unwrap();
    c.xid(3, 79);
    c.until("the write has begun", |_| c.updates() == 1);
    c.unplug(3);
    c.reboot("22222222-2222-2222-2222-222222222222");
    c.wrapper.set(On::Update, Fault::None).unwrap();
    c.start();
    c.wait_drained();
    c.wait_drain_state("drained");
    assert_eq!(c.incidents().len(), 1);
}

#[test]
fn a_wiped_state_directory_leaves_the_drain_to_operators() {
    let mut c = Cluster::new();
    c.start();
    c.xid(3, 79);
    c.wait_drained();
    c.wait_drain_state("drained");
    c.kill9();
    fs::remove_dir_all(c.state_dir()).unwrap();
    c.start();
    c.until("recognised", |n| n.drain_state() == "drained");
    assert_eq!(c.view()["drain"]["recorded"], false);
    c.wait_looks(2);
    assert!(c.is_drained());
    assert_eq!(c.updates(), 1);
}

/// The daemon's rights are those of the folder that it started with.
#[test]
fn a_state_directory_that_is_removed_meanwhile_is_made_again_at_the_next_start() {
    let mut c = Cluster::new();
    c.start();
    c.settle();
    // The daemon may write while the folder is emptied.
    c.until("the folder is removed", |n| {
        fs::remove_dir_all(n.state_dir()).is_ok() || !n.state_dir().exists()
    });
    c.xid(3, 79);
    c.wait_drained();
    c.until("drained and unrecorded", |n| {
        n.drain_state() == "drained" && n.try_view()["drain"]["recorded"] == false
    });
    c.kill9();
    c.start();
    c.until("records are kept", |n| n.state_dir().join("state.json").is_file());
    c.until("recognised", |n| n.drain_state() == "drained");
}

#[test]
fn a_corrupt_record_is_set_aside_and_named() {
    let mut c = Cluster::new();
    c.start();
    c.xid(3, 79);
    c.wait_drained();
    c.wait_drain_state("drained");
    c.kill9();
    fs::write(c.state_dir().join("state.json"), b"{\"schema\":1,").unwrap();
    c.start();
    c.daemon().wait_for_line("cannot use the record", LONG).unwrap();
    let aside = fs::read_dir(c.state_dir())
        .unwrap()
        .flatten()
        .any(|e| e.file_name().to_string_lossy().contains(".bad-"));
    assert!(aside);
    c.wait_looks(2);
    assert!(c.is_drained());
}

#[test]
fn a_full_state_directory_still_drains_and_never_lifts_automatically() {
    let mut c = Cluster::new();
    let state = c.state_dir();
    fs::create_dir(&state).unwrap();
    let full = testkit::tmpfs::Tmpfs::mount(&state, 64 * 1024).unwrap();
    c.start();
    full.fill().unwrap();
    c.xid(3, 79);
    c.wait_drained();
    c.until("drained and unrecorded", |n| {
        n.drain_state() == "drained" && n.try_view()["drain"]["recorded"] == false
    });
    c.until("counted", |n| {
        n.metric("nodewarden_store_errors_total", &[])
            .is_some_and(|v| v > 0.0)
    });
    c.until("entries of the audit trail are counted as lost", |n| {
        n.metric("nodewarden_audit_lines_total", &[("result", "lost")])
            .is_some_and(|v| v > 0.0)
    });
    let id = c.open_incidents()[0]["id"].as_str().unwrap().to_owned();
    c.wait_looks(3);
    assert!(
        c.is_drained(),
        "a drain that no record proves to be ours was lifted"
    );
    // Root's word and the id in the reason are proof enough.
    c.cli(&["clear", &id, "--reason", "test"]);
    c.wait_undrained();
}

#[test]
fn a_read_only_state_directory_still_drains_and_records_again_when_writable() {
    let mut c = Cluster::new();
    let state = c.state_dir();
    fs::create_dir(&state).unwrap();
    let disk = testkit::tmpfs::Tmpfs::mount(&state, 1 << 20).unwrap();
    c.start();
    disk.read_only(true).unwrap();
    c.xid(3, 79);
    c.wait_drained();
    c.until("drained and unrecorded", |n| {
        n.drain_state() == "drained" && n.try_view()["drain"]["recorded"] == false
    });
    disk.read_only(false).unwrap();
    c.settle();
    c.until("records are kept again", |n| {
        let errors = n.metric("nodewarden_store_errors_total", &[]);
        n.xid(6, 14);
        n.state_dir().join("state.json").is_file() && errors == n.metric("nodewarden_store_errors_total", &[])
    });
}
