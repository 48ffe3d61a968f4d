use super::*;
use crate::{proc, wait::PATIENCE};

const LOW: &str = "gres/gpu count reported lower than configured";

/// Everything of this machine that names `dir`: processes, sockets, mounts.
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
    // A healthy node cannot be resumed: an error of scontrol's is an error here.
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
    // Drained already: the flag comes and goes, the reason stays.
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
    // Idle: slurmctld drains it by itself, and the drain outlives the fault.
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
    // Dropping works on a frozen controller too.
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
fn a_bad_configuration_says_why() {
    let options = SlurmOptions {
        extra_conf: "NoSuchKey=1".into(),
        ..SlurmOptions::default()
    };
    let error = format!("{:#}", Slurm::start(options).unwrap_err());
    assert!(error.contains("NoSuchKey"), "{error}");
}
