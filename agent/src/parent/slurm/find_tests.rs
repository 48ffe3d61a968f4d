use std::os::unix::fs::symlink;

use tempfile::TempDir;

use super::*;

/// A stand-in for /proc. `self` lives in the world 1 with the root folder `/`.
struct Proc(TempDir);

#[allow(clippy::disallowed_methods, reason = "tests write a stand-in for /proc")]
impl Proc {
    fn new() -> Self {
        let proc = Self(tempfile::tempdir().unwrap());
        proc.world("self", "1", "/");
        proc
    }

    fn world(&self, pid: &str, world: &str, root: &str) {
        let base = self.0.path().join(pid);
        std::fs::create_dir_all(base.join("ns")).unwrap();
        for (link, target) in [
            ("ns/pid", format!("pid:[{world}]")),
            ("ns/mnt", format!("mnt:[{world}]")),
            ("root", root.to_owned()),
        ] {
            let path = base.join(link);
            if path.is_symlink() {
                std::fs::remove_file(&path).unwrap();
            }
            symlink(target, path).unwrap();
        }
    }

    fn write(&self, pid: &str, file: &str, text: &str) {
        std::fs::write(self.0.path().join(pid).join(file), text).unwrap();
    }

    fn link(&self, pid: &str, file: &str, target: &str) {
        symlink(target, self.0.path().join(pid).join(file)).unwrap();
    }

    /// A process of root in our world.
    fn process(&self, pid: &str, comm: &str, exe: &str, args: &[&str]) {
        self.world(pid, "1", "/");
        self.write(pid, "comm", &format!("{comm}\n"));
        self.link(pid, "exe", exe);
        self.write(
            pid,
            "cmdline",
            &args.iter().map(|a| format!("{a}\0")).collect::<String>(),
        );
        self.write(pid, "status", "Name:\tx\nUid:\t0\t0\t0\t0\n");
    }

    fn find(&self, wanted: Option<&str>) -> Result<LocalSlurmd, LookError> {
        Ok(find(&Search {
            proc: self.0.path(),
            uid: 0,
            hostname: "host1.cluster.example",
            wanted,
        })?)
    }
}

fn name(found: Result<LocalSlurmd, LookError>) -> String {
    found.unwrap().node_name
}

fn refusal(found: Result<LocalSlurmd, LookError>) -> String {
    match found.unwrap_err() {
        LookError::NotHere(why) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn one_slurmd() {
    let proc = Proc::new();
    proc.process("1", "systemd", "/usr/lib/systemd/systemd", &["/sbin/init"]);
    proc.process("7", "slurmstepd", "/usr/sbin/slurmstepd", &["slurmstepd: [12.0]"]);
    proc.process(
        "8",
        "slurmd",
        "/usr/sbin/slurmd-wlm (deleted)",
        &["slurmd", "-D", "-N", "n0", "-f", "/a/slurm.conf"],
    );
    let found = proc.find(None).unwrap();
    assert_eq!(
        found,
        LocalSlurmd {
            node_name: "n0".into(),
            conf: Some("/a/slurm.conf".into()),
            exe: Some("/usr/sbin/slurmd-wlm".into()),
            process: None,
            boot: Boot::Machine,
        }
    );
}

/// 23.11 and later, where /usr/sbin/slurmd is Debian's link to slurmd-wlm.
#[test]
fn a_slurmd_that_read_its_configuration_again() {
    let proc = Proc::new();
    proc.process("7", "slurmdbd", "/usr/sbin/slurmdbd", &["slurmdbd", "-D"]);
    let args = ["slurmd", "-D", "-N", "n0"];
    proc.process("8", "slurmd-wlm", "/usr/sbin/slurmd-wlm", &args);
    assert_eq!(name(proc.find(None)), "n0");
}

#[test]
fn without_a_name_it_is_the_short_host_name() {
    let proc = Proc::new();
    proc.process(
        "8",
        "slurmd",
        "/usr/sbin/slurmd",
        &["/usr/sbin/slurmd", "--systemd"],
    );
    proc.write("8", "environ", "A=b\0SLURM_CONF=/etc/slurm-b/slurm.conf\0");
    let found = proc.find(None).unwrap();
    assert_eq!(found.node_name, "host1");
    assert_eq!(found.conf, Some("/etc/slurm-b/slurm.conf".into()));
    assert_eq!(name(proc.find(Some("gpu-host1"))), "gpu-host1");
}

#[test]
fn several_slurmds() {
    let proc = Proc::new();
    for (pid, node) in [("8", "n0"), ("9", "n1"), ("10", "n1")] {
        proc.process(pid, "slurmd", "/usr/sbin/slurmd", &["slurmd", "-N", node]);
    }
    assert!(refusal(proc.find(None)).contains("slurm.node_name"));
    assert_eq!(name(proc.find(Some("n1"))), "n1");
    assert!(refusal(proc.find(Some("n2"))).contains("no slurmd for slurm.node_name \"n2\""));
}

#[test]
fn a_slurmd_without_a_name_is_not_taken_for_one_that_has_it() {
    let proc = Proc::new();
    proc.process(
        "8",
        "slurmd",
        "/usr/sbin/slurmd",
        &["slurmd", "-f", "/a/slurm.conf"],
    );
    let named = ["slurmd", "-N", "n1", "-f", "/b/slurm.conf"];
    proc.process("9", "slurmd", "/usr/sbin/slurmd", &named);
    let found = proc.find(Some("n1")).unwrap();
    assert_eq!(
        (found.node_name.as_str(), found.conf),
        ("n1", Some("/b/slurm.conf".into()))
    );
    // The other one gets its name from slurm.conf.
    let found = proc.find(Some("n0")).unwrap();
    assert_eq!(
        (found.node_name.as_str(), found.conf),
        ("n0", Some("/a/slurm.conf".into()))
    );
    assert!(refusal(proc.find(None)).contains("(without -N, n1)"));
    proc.process(
        "10",
        "slurmd",
        "/usr/sbin/slurmd",
        &["slurmd", "-f", "/c/slurm.conf"],
    );
    let why = refusal(proc.find(Some("n0")));
    assert!(why.contains("none has the option -N n0"), "{why}");
    assert_eq!(name(proc.find(Some("n1"))), "n1");
}

#[test]
fn an_equal_name_in_another_cluster_is_another_node() {
    let proc = Proc::new();
    for (pid, conf) in [
        ("8", "/a/slurm.conf"),
        ("9", "/b/slurm.conf"),
        ("10", "/a/slurm.conf"),
    ] {
        let args = ["slurmd", "-N", "n0", "-f", conf];
        proc.process(pid, "slurmd", "/usr/sbin/slurmd", &args);
    }
    assert!(refusal(proc.find(None)).contains("several slurmds run here (n0, n0)"));
}

#[test]
fn none() {
    assert_eq!(refusal(Proc::new().find(None)), "no slurmd runs here");
    let proc = Proc::new();
    proc.process("8", "slurmd", "/usr/sbin/slurmd", &[]);
    assert_eq!(refusal(proc.find(None)), "no slurmd runs here", "a zombie");
}

#[test]
fn a_job_that_calls_itself_slurmd() {
    let proc = Proc::new();
    proc.process(
        "8",
        "slurmd",
        "/home/eve/slurmd",
        &["slurmd", "-N", "n9", "-f", "/home/eve/c"],
    );
    for uids in ["1000\t1000\t1000\t1000", "1000\t0\t0\t0", ""] {
        proc.write("8", "status", &format!("Uid:\t{uids}\n"));
        assert!(refusal(proc.find(None)).contains("another user"), "{uids}");
        assert!(proc.find(Some("n9")).is_err());
    }
    let proc = Proc::new();
    proc.process("8", "slurmd", "/usr/bin/su", &["slurmd", "-N", "n9"]);
    assert!(proc.find(None).is_err());
}

#[test]
fn a_slurmd_in_a_container() {
    let folder = tempfile::tempdir().unwrap();
    let proc = Proc::new();
    proc.process("8", "slurmd", "/usr/sbin/slurmd", &["slurmd", "-N", "n0"]);
    proc.world("8", "2", folder.path().to_str().unwrap());
    assert!(refusal(proc.find(None)).contains("another pid namespace"));
    // The host's process numbers, but another root folder, with and without an own mount namespace.
    for world in ["1", "2"] {
        proc.world("8", world, folder.path().to_str().unwrap());
        let pid = proc.0.path().join("8/ns/pid");
        std::fs::remove_file(&pid).unwrap();
        symlink("pid:[1]", &pid).unwrap();
        assert!(refusal(proc.find(None)).contains("another root folder"));
    }
    // A mount namespace of its own with the same root folder: systemd's PrivateTmp.
    proc.world("8", "2", "/");
    let pid = proc.0.path().join("8/ns/pid");
    std::fs::remove_file(&pid).unwrap();
    symlink("pid:[1]", &pid).unwrap();
    assert_eq!(name(proc.find(None)), "n0");
}

#[test]
fn names_that_are_not_one_node() {
    for name in ["ALL", "all", "n[0-3]", "n0,n1", "-x", "", "a b", "n0\n"] {
        assert!(!is_node_name(name), "{name:?}");
    }
    assert!(is_node_name("gpu-a_1.cluster"));
    let proc = Proc::new();
    proc.process("8", "slurmd", "/usr/sbin/slurmd", &["slurmd", "-N", "n[0-3]"]);
    assert!(refusal(proc.find(None)).contains("an invalid node name"));
}

#[test]
fn a_relative_configuration() {
    let proc = Proc::new();
    proc.process(
        "8",
        "slurmd",
        "/usr/sbin/slurmd",
        &["slurmd", "-f", "etc/slurm.conf"],
    );
    proc.link("8", "cwd", "/srv/slurm");
    assert_eq!(
        proc.find(None).unwrap().conf,
        Some("/srv/slurm/etc/slurm.conf".into())
    );
}
