use std::process::Command;

use super::*;
use crate::{proc, wait::PATIENCE};

const LOW: &str = "gres/gpu count reported lower than configured";

/// All processes, sockets and mounts of this machine that refer to `dir`.
fn traces(dir: &Path) -> Vec<String> {
    let name = dir.to_str().unwrap();
    let mut found: Vec<String> = proc::all()
        .into_iter()
        .filter(|s| {
            let read = |file: &str| fs::read(format!("/proc/{}/{file}", s.pid)).unwrap_or_default();
            [read("cmdline"), read("environ")]
                .iter()
                .any(|b| String::from_utf8_lossy(b).contains(name))
        })
        .map(|s| format!("{s:?}"))
        .collect();
    if dir.exists() {
        found.push(name.to_owned());
    }
    for file in ["/proc/net/unix", "/proc/self/mountinfo"] {
        let text = fs::read_to_string(file).unwrap();
        found.extend(text.lines().filter(|l| l.contains(name)).map(str::to_owned));
    }
    found
}

#[test]
fn three_nodes_drain_resume_and_leave_nothing() {
    let slurm = Slurm::start(SlurmOptions {
        nodes: 3,
        ..SlurmOptions::default()
    })
    .unwrap();
    println!("3 nodes: {:?}", slurm.start_time());
    assert_eq!(slurm.node_names(), ["n0", "n1", "n2"]);
    let node = slurm.node("n1").unwrap();
    assert_eq!(node.get("Gres"), Some("gpu:h100:8"));
    let host = nix::unistd::gethostname().unwrap().into_string().unwrap();
    assert_eq!(node.get("NodeHostName"), host.split('.').next());
    assert_eq!(slurm.reason("n1").unwrap(), None);

    slurm.drain("n1", "a reason with spaces, id=4").unwrap();
    assert_eq!(slurm.state("n1").unwrap(), "IDLE+DRAIN");
    assert_eq!(
        slurm.reason("n1").unwrap().as_deref(),
        Some("a reason with spaces, id=4")
    );
    assert_eq!(slurm.state("n0").unwrap(), "IDLE");
    slurm.resume("n1").unwrap();
    slurm.wait_state("n1", |s| s == "IDLE", PATIENCE).unwrap();
    slurm.drain("n1", "again").unwrap();
    slurm.undrain("n1").unwrap();
    slurm.wait_state("n1", |s| s == "IDLE", PATIENCE).unwrap();
    // A healthy node cannot be resumed: an error of scontrol is an error here.
    assert!(
        slurm
            .resume("n1")
            .unwrap_err()
            .to_string()
            .contains("Invalid node state")
    );

    let dir = slurm.dir().to_owned();
    assert!(!traces(&dir).is_empty());
    drop(slurm);
    assert_eq!(traces(&dir), Vec::<String>::new());
}

#[test]
fn slurmd_reports_the_boot_time_of_this_machine() {
    let slurm = Slurm::start(SlurmOptions {
        gpus: 0,
        node_prefix: "boot".into(),
        ..SlurmOptions::default()
    })
    .unwrap();
    println!("1 node: {:?}", slurm.start_time());
    let node = slurm.node("boot0").unwrap();
    let mut date = Command::new("/bin/date");
    date.args(["+%s", "-d", &node.get("BootTime").unwrap().replace('T', " ")]);
    let reported: i64 = exec::run(date, b"", PATIENCE)
        .unwrap()
        .ok()
        .unwrap()
        .stdout
        .trim()
        .parse()
        .unwrap();
    let uptime = fs::read_to_string("/proc/uptime").unwrap();
    let uptime: f64 = uptime.split(' ').next().unwrap().parse().unwrap();
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    let real = now.as_secs_f64() - uptime;
    assert!((real - reported as f64).abs() < 120.0, "{real} {reported}");
}

#[test]
fn registration_with_fewer_gpus() {
    let mut slurm = Slurm::start(SlurmOptions::default()).unwrap();
    // Already drained: the flag is set and removed, the reason stays.
    slurm.drain("n0", "nodewarden:test x id=1").unwrap();
    slurm.restart_slurmd("n0", 7).unwrap();
    slurm
        .wait_state("n0", |s| s == "IDLE+DRAIN+INVALID_REG", PATIENCE)
        .unwrap();
    assert_eq!(
        slurm.reason("n0").unwrap().as_deref(),
        Some("nodewarden:test x id=1")
    );
    slurm.set_reason("n0", LOW).unwrap();
    assert_eq!(slurm.reason("n0").unwrap().as_deref(), Some(LOW));
    slurm.restart_slurmd("n0", 8).unwrap();
    slurm.wait_state("n0", |s| s == "IDLE+DRAIN", PATIENCE).unwrap();
    slurm.undrain("n0").unwrap();
    slurm.wait_state("n0", |s| s == "IDLE", PATIENCE).unwrap();
    // Idle: slurmctld drains the node, and the drain outlives the fault.
    slurm.restart_slurmd("n0", 7).unwrap();
    slurm
        .wait_state("n0", |s| s == "IDLE+DRAIN+INVALID_REG", PATIENCE)
        .unwrap();
    assert_eq!(slurm.reason("n0").unwrap(), Some(format!("{LOW} (7 < 8)")));
    slurm.restart_slurmd("n0", 8).unwrap();
    slurm.wait_state("n0", |s| s == "IDLE+DRAIN", PATIENCE).unwrap();
    assert_eq!(slurm.reason("n0").unwrap(), Some(format!("{LOW} (7 < 8)")));
}

#[test]
fn controller_stops_dies_and_comes_back() {
    let mut slurm = Slurm::start(SlurmOptions {
        node_prefix: "c".into(),
        ..SlurmOptions::default()
    })
    .unwrap();
    slurm.drain("c0", "kept").unwrap();
    slurm.stop_controller().unwrap();
    let mut command = Command::new("/usr/bin/scontrol");
    command.args(["show", "node", "c0"]).envs(slurm.env());
    assert!(exec::run(command, b"", Duration::from_millis(500)).is_err());
    slurm.cont_controller().unwrap();
    assert_eq!(slurm.state("c0").unwrap(), "IDLE+DRAIN");
    slurm.kill_controller().unwrap();
    assert!(slurm.controller_pid().is_err());
    slurm.start_controller().unwrap();
    slurm.wait_state("c0", |s| s == "IDLE+DRAIN", PATIENCE).unwrap();
    assert_eq!(slurm.reason("c0").unwrap().as_deref(), Some("kept"));
    slurm.stop_controller().unwrap();
    // Dropping also works with a frozen controller.
}

#[test]
fn jobs_run_on_fake_gpus_and_end_with_the_cluster() {
    let slurm = Slurm::start(SlurmOptions {
        node_prefix: "j".into(),
        ..SlurmOptions::default()
    })
    .unwrap();
    let out = slurm.dir().join("out");
    let script = format!(
        "echo $CUDA_VISIBLE_DEVICES > {}; (trap '' TERM; sleep 1000) & sleep 1000",
        out.display()
    );
    let id = slurm.submit(&script, "gpu:2").unwrap();
    slurm.wait_job(id, "RUNNING", PATIENCE).unwrap();
    wait::until_true("output", PATIENCE, || {
        fs::read_to_string(&out).is_ok_and(|t| t == "0,1\n")
    })
    .unwrap();
    assert!(
        slurm.state("j0").unwrap().starts_with("MIXED") || slurm.state("j0").unwrap().starts_with("ALLOC")
    );
    assert!(process::steps(slurm.dir()).iter().any(|s| s.comm == "slurmstepd"));
    let done = slurm.submit("true", "").unwrap();
    slurm.wait_job(done, "COMPLETED", PATIENCE).unwrap();
    let dir = slurm.dir().to_owned();
    drop(slurm);
    assert_eq!(traces(&dir), Vec::<String>::new());
}

fn in_cgroups(prefix: &str, cgroups: Cgroups) -> SlurmOptions {
    SlurmOptions {
        // Node names must be unique among all clusters of this machine.
        node_prefix: format!("{prefix}{}n", std::process::id()),
        cpus: Some(16),
        cgroups: Some(cgroups),
        ..SlurmOptions::default()
    }
}

#[test]
fn a_job_in_a_cgroup_may_open_its_own_gpus_only() {
    let slurm = Slurm::start(SlurmOptions {
        prolog: Some("#!/bin/sh\necho $SLURM_JOB_ID $SLURM_JOB_GPUS >>\"${0%/*}/began\"\n".into()),
        epilog: Some("#!/bin/sh\necho $SLURM_JOB_ID >>\"${0%/*}/ended\"\n".into()),
        ..in_cgroups("own", Cgroups::default())
    })
    .unwrap();
    println!("1 node in cgroups: {:?}", slurm.start_time());
    let node = &slurm.node_names()[0];
    let out = slurm.dir().join("out");
    let dev = slurm.dir().join("dev");
    // Without a driver, an allowed open fails with ENXIO.
    let script = format!(
        "for i in 0 1 2 3 4 5 6 7; do (: <{}/nvidia$i) 2>&1; done >{}; sleep 1000",
        dev.display(),
        out.display()
    );
    let first = slurm.submit("sleep 1000", "gpu:1").unwrap();
    slurm.wait_job(first, "RUNNING", PATIENCE).unwrap();
    let id = slurm.submit(&script, "gpu:2").unwrap();
    assert_eq!(slurm.wait_running(2, PATIENCE).unwrap(), [first, id]);
    assert_eq!(slurm.job_gpus(id).unwrap()[node], [1, 2]);
    let cgroup = slurm.job_cgroup(node, id).unwrap();
    wait::until_true("a device program", PATIENCE, || {
        cgroups::device_programs(&cgroup).is_ok_and(|n| n == 1)
    })
    .unwrap();
    let said = || fs::read_to_string(&out).unwrap_or_default();
    wait::until_true("eight answers", PATIENCE, || said().lines().count() == 8).unwrap();
    let mine: Vec<bool> = said()
        .lines()
        .map(|l| !l.contains("Operation not permitted"))
        .collect();
    assert_eq!(
        mine,
        [false, true, true, false, false, false, false, false],
        "{}",
        said()
    );
    slurm.cancel(id).unwrap();
    let etc = slurm.dir().join("etc");
    wait::until_true("the epilog", PATIENCE, || {
        fs::read_to_string(etc.join("ended")).is_ok_and(|t| t == format!("{id}\n"))
    })
    .unwrap();
    let began = fs::read_to_string(etc.join("began")).unwrap();
    assert_eq!(began, format!("{first} 0\n{id} 1,2\n"));
    wait::until_true("removal of the cgroup", PATIENCE, || !cgroup.exists()).unwrap();

    let dir = slurm.dir().to_owned();
    let folders = slurm.folders().unwrap();
    assert!(folders.iter().all(|f| f.exists()), "{folders:?}");
    drop(slurm);
    assert_eq!(traces(&dir), Vec::<String>::new());
    assert!(!folders.iter().any(|f| f.exists()), "{folders:?}");
}

#[test]
fn without_constrained_devices_a_job_has_no_device_program() {
    let slurm = Slurm::start(in_cgroups(
        "free",
        Cgroups {
            constrain_devices: false,
            ..Cgroups::default()
        },
    ))
    .unwrap();
    let id = slurm.submit("sleep 1000", "gpu:2").unwrap();
    slurm.wait_job(id, "RUNNING", PATIENCE).unwrap();
    let cgroup = slurm.job_cgroup(&slurm.node_names()[0], id).unwrap();
    wait::until_true("the batch step", PATIENCE, || cgroup.join("step_batch").exists()).unwrap();
    assert_eq!(cgroups::device_programs(&cgroup).unwrap(), 0);
    // Nodes of the same name would share their cgroups.
    let error = Slurm::start(in_cgroups("free", Cgroups::default())).unwrap_err();
    assert!(format!("{error:#}").contains("another cluster"), "{error:#}");
    assert!(cgroup.exists());
}

/// Runs on the configured Slurm installation.
#[test]
fn a_cluster_in_cgroups_of_each_version_that_its_slurm_knows_leaves_nothing() {
    let installation = Installation::of_environment();
    let release = installation.version().unwrap();
    let knows_v2 = release >= (22, 5);
    cgroups::needs_v1().unwrap();
    for version in [Version::V1, Version::V2] {
        if version == Version::V2 && !knows_v2 {
            continue;
        }
        let cgroups = Cgroups {
            version,
            ..Cgroups::default()
        };
        let slurm = Slurm::start(SlurmOptions {
            installation: installation.clone(),
            ..in_cgroups("each", cgroups)
        })
        .unwrap();
        println!("{release:?} {version:?}: {:?}", slurm.start_time());
        let node = &slurm.node_names()[0];
        let id = slurm.submit("sleep 1000", "gpu:2").unwrap();
        slurm.wait_job(id, "RUNNING", PATIENCE).unwrap();
        assert_eq!(slurm.job_gpus(id).unwrap()[node], [0, 1]);
        let folders = slurm.folders().unwrap();
        // Folders of a job have its number, or from 26.05 on a different name.
        let has_job = |folder: &PathBuf| match version {
            Version::V1 => folder.join(format!("uid_0/job_{id}/step_batch")).exists(),
            Version::V2 => {
                let entries = fs::read_dir(folder).into_iter().flatten().flatten();
                entries.filter(|e| e.path().join("step_batch").exists()).count() == 1
            }
        };
        wait::until_true("the job's cgroup", PATIENCE, || folders.iter().any(has_job)).unwrap();
        let dir = slurm.dir().to_owned();
        drop(slurm);
        assert_eq!(traces(&dir), Vec::<String>::new());
        assert!(!folders.iter().any(|f| f.exists()), "{folders:?}");
    }
}

#[test]
fn two_clusters_and_a_dead_slurmd() {
    let options = SlurmOptions {
        extra_conf: "SlurmdTimeout=3".into(),
        ..SlurmOptions::default()
    };
    let mut one = Slurm::start(options).unwrap();
    let two = Slurm::start(SlurmOptions::default()).unwrap();
    one.drain("n0", "only here").unwrap();
    assert_eq!(two.state("n0").unwrap(), "IDLE");
    one.kill_slurmd("n0").unwrap();
    assert!(one.slurmd_pid("n0").is_err() && two.slurmd_pid("n0").is_ok());
    one.wait_state("n0", |s| s.contains("NOT_RESPONDING"), PATIENCE)
        .unwrap();
}

#[test]
fn a_bad_configuration_error_names_the_key() {
    let options = SlurmOptions {
        extra_conf: "NoSuchKey=1".into(),
        ..SlurmOptions::default()
    };
    let error = format!("{:#}", Slurm::start(options).unwrap_err());
    assert!(error.contains("NoSuchKey"), "{error}");
}

#[test]
fn absent_nodes_register_with_the_identity_of_this_machine_and_end() {
    let begin = Instant::now();
    let mut slurm = Slurm::start(SlurmOptions {
        absent: 200,
        node_prefix: "a".into(),
        cpus: Some(128),
        ..SlurmOptions::default()
    })
    .unwrap();
    println!("1 node and 200 absent ones: {:?}", slurm.start_time());
    slurm.wait_idle().unwrap();
    println!("idle after {:?}", begin.elapsed());
    let before = slurm.controller_cpu().unwrap();
    let first = slurm.register_absent(70).unwrap();
    let second = slurm.register_absent(1).unwrap();
    assert_eq!((first[0].as_str(), first[69].as_str()), ("a1", "a70"));
    assert_eq!(second, ["a71"]);
    let real = slurm.node("a0").unwrap();
    for name in ["a1", "a70", "a71"] {
        let node = slurm.node(name).unwrap();
        for key in ["State", "NodeHostName", "Gres", "Version"] {
            assert_eq!(node.get(key), real.get(key), "{name}");
        }
        assert_ne!(node.get("BootTime"), Some("None"), "{name}");
    }
    assert_eq!(slurm.node("a72").unwrap().get("BootTime"), Some("None"));
    assert!(slurm.controller_cpu().unwrap() > before);
    assert!(slurm.register_absent(130).is_err());
    let left = steps(slurm.dir()).into_iter().filter(|s| s.comm == "slurmd");
    assert_eq!(left.count(), 1);
}
