//! Killing a harness's process leaves nothing behind.

use std::path::Path;
use std::process::Command;

use nix::sys::signal::Signal;
use testkit::daemon::Daemon;
use testkit::proc::{self, Stat};
use testkit::wait::{self, PATIENCE};

fn victim(args: &[&str]) -> Daemon {
    let mut command = Command::new(env!("CARGO_BIN_EXE_victim"));
    command.args(args);
    Daemon::start(command).unwrap()
}

#[test]
fn no_mount_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("m");
    let victim = victim(&["mount", place.to_str().unwrap()]);
    victim.wait_for_line("frozen", PATIENCE).unwrap();
    let mounted = || {
        let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        table.contains(dir.path().to_str().unwrap())
    };
    assert!(mounted());
    victim.signal(Signal::SIGKILL).unwrap();
    victim.wait(PATIENCE).unwrap();
    wait::until_true("unmount", PATIENCE, || !mounted()).unwrap();
}

#[test]
fn no_process_and_no_folder_is_left() {
    leaves_nothing(&["cluster"], || true);
}

#[test]
fn no_cgroup_is_left() {
    let prefix = format!("killed{}n", std::process::id());
    let scope = testkit::slurm::cgroups::jobs(&format!("{prefix}0")).unwrap();
    leaves_nothing(&["cluster", &prefix], || scope.exists());
    wait::until_true("the cgroup to go", PATIENCE, || !scope.exists()).unwrap();
}

fn leaves_nothing(args: &[&str], is_there: impl Fn() -> bool) {
    let victim = victim(args);
    let line = victim.wait_for_line("up ", PATIENCE).unwrap();
    let words: Vec<&str> = line.split(' ').collect();
    let (shell, dir) = (words[1].parse().unwrap(), Path::new(words[2]));
    let job = || {
        let all = testkit::slurm::steps(dir);
        all.into_iter()
            .find(|s| proc::cmdline(s.pid).is_ok_and(|c| c == ["sleep", "5000"]))
    };
    let job = wait::until("job's process", PATIENCE, || Ok(job())).unwrap();
    let mut all = proc::descendants(shell);
    all.extend(testkit::slurm::steps(dir));
    all.extend([Stat::read(shell).unwrap(), job]);
    for comm in ["sleep", "slurmstepd", "slurmd", "slurmctld", "munged"] {
        assert!(all.iter().any(|s| s.comm == comm), "{comm}: {all:?}");
    }
    assert!(is_there());
    // By hand: the victim's own harness would end its children too.
    proc::send(victim.pid(), Signal::SIGKILL).unwrap();
    victim.wait(PATIENCE).unwrap();
    wait::until_true("guards", PATIENCE, || {
        !dir.exists() && !all.iter().any(Stat::alive)
    })
    .unwrap();
}
