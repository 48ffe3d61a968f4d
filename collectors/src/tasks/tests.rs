//! Jobs whose processes wait, in a tree of files.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use tempfile::TempDir;
use testkit::tree::{self, Entry};

use super::*;
use crate::Value;

const SCOPE: &str = "sys/fs/cgroup/system.slice/slurmstepd.scope";
/// SIGKILL, as shown in /proc/PID/status among pending signals.
const KILL: u64 = 0x100;

struct Node(TempDir);

impl Node {
    fn new() -> Self {
        let node = Self(tempfile::tempdir().unwrap());
        node.file("sys/fs/cgroup/cgroup.controllers", "cpu\n");
        node
    }

    fn put(&self, path: &str, entry: &Entry) {
        tree::put(&self.0.path().join("root").join(path), entry).unwrap();
    }

    fn file(&self, path: &str, text: &str) {
        self.put(path, &Entry::File(text.as_bytes().to_vec()));
    }

    fn procs(&self, cgroup: &str, pids: &str) {
        self.file(&format!("{SCOPE}/{cgroup}/cgroup.procs"), pids);
    }

    fn thread(&self, pid: u32, tid: u32, state: char, pending: u64) {
        let zeros = "0 ".repeat(18);
        let stat = format!("{tid} (python3) {state} {zeros}{} {zeros}\n", 1000 + tid);
        let base = format!("proc/{pid}/task/{tid}");
        self.file(&format!("{base}/stat"), &stat);
        let status = format!(
            "Name:\tpython3\nState:\t{state}\nSigPnd:\t{pending:016x}\nShdPnd:\t{:016x}\nvoluntary_ctxt_switches:\t40\nnonvoluntary_ctxt_switches:\t2\n",
            0
        );
        self.file(&format!("{base}/status"), &status);
        if pid == tid {
            self.file(&format!("proc/{pid}/status"), &status);
        }
    }

    /// A thread that waits in a read of a file on NFS.
    fn reads(&self, pid: u32, tid: u32) {
        let base = format!("proc/{pid}/task/{tid}");
        self.file(&format!("{base}/wchan"), "rpc_wait_bit_killable");
        let call = format!("{} 0x5 0x7ffe 0x1000 0x0 0x0 0x0 0x7ffd 0x7f1\n", libc::SYS_read);
        self.file(&format!("{base}/syscall"), &call);
        self.put(
            &format!("{base}/fd/5"),
            &Entry::Link("/home/ada/data.bin".to_owned()),
        );
        self.file(
            &format!("{base}/fdinfo/5"),
            "pos:\t0\nflags:\t0100000\nmnt_id:\t36\n",
        );
        let mounts = "35 1 8:1 / / rw - ext4 /dev/sda1 rw\n36 35 0:52 / /home rw shared:1 - nfs4 server:/home rw,hard\n";
        self.file(&format!("proc/{pid}/mountinfo"), mounts);
    }

    /// `METRIC LABELS = VALUE` of one reading of all jobs.
    fn read(&self) -> Vec<String> {
        Self::read_in(&Env::recorded(self.0.path()))
    }

    /// The same where the files stand for those of a live node.
    fn read_live(&self) -> Vec<String> {
        Self::read_in(&Env::with_sysroot(self.0.path().join("root")))
    }

    fn read_in(env: &Env) -> Vec<String> {
        let mut source = open(env, &Settings::default()).unwrap().unwrap();
        let mut shown = Vec::new();
        for mut device in source.devices.scan().unwrap() {
            let mut block = Block::default();
            device.read(&mut block).unwrap();
            block.finish();
            for (series, value) in block.iter() {
                let value = match value {
                    Value::U64(n) => n.to_string(),
                    Value::F64(n) => n.to_string(),
                    Value::Absent => "absent".to_owned(),
                };
                shown.push(format!(
                    "{} {} = {value}",
                    series.metric.name,
                    series.labels.join(" ")
                ));
            }
        }
        shown
    }
}

#[test]
fn a_process_that_waits_is_reported_with_what_it_waits_for() {
    let node = Node::new();
    node.procs("job_7/step_batch/user/task_0", "500\n501\n");
    node.thread(500, 500, 'D', 0);
    node.reads(500, 500);
    node.thread(501, 501, 'S', 0);
    assert_eq!(
        node.read(),
        [
            "slurm_job_blocked_processes 7 = 1",
            "slurm_job_blocked_thread_info 7 500 500 1500 42 python3  rpc_wait_bit_killable read /home/ada/data.bin nfs4 /home = 1",
        ]
    );
}

/// The first thread was ended by the signal, and another cannot end.
#[test]
fn a_killed_process_whose_first_thread_has_ended_is_reported_by_the_one_that_has_not() {
    let node = Node::new();
    // A container of the job's own.
    node.procs("job_7/step_0/user/task_0/payload/inner", "500\n");
    node.thread(500, 500, 'Z', 0);
    node.thread(500, 502, 'D', KILL);
    node.reads(500, 502);
    node.thread(500, 503, 'S', KILL);
    assert_eq!(
        node.read(),
        [
            "slurm_job_blocked_processes 7 = 1",
            "slurm_job_blocked_thread_info 7 500 502 1502 42 python3 1 rpc_wait_bit_killable read /home/ada/data.bin nfs4 /home = 1",
        ]
    );
}

/// Lustre's client waits in TASK_IDLE. So does a thread for the core dump of its process, which SIGKILL ends.
#[test]
fn a_process_in_state_i_is_reported_unless_it_waits_for_its_core_dump() {
    let node = Node::new();
    node.procs("job_7/step_batch/user/task_0", "500\n501\n502\n");
    node.thread(500, 500, 'I', 0);
    node.file("proc/500/task/500/wchan", "cl_sync_io_wait");
    node.thread(501, 501, 'Z', 0);
    node.thread(501, 503, 'I', KILL);
    node.file("proc/501/task/503/wchan", "ptlrpc_set_wait");
    node.thread(502, 502, 'I', 0);
    node.file("proc/502/task/502/wchan", "do_exit");
    node.thread(502, 504, 'R', 0);
    assert_eq!(
        node.read(),
        [
            "slurm_job_blocked_processes 7 = 2",
            "slurm_job_blocked_thread_info 7 501 503 1503 42 python3 1 ptlrpc_set_wait   = 1",
            "slurm_job_blocked_thread_info 7 500 500 1500 42 python3  cl_sync_io_wait   = 1",
        ]
    );
}

/// Before Linux 6.12 the others wait in state D. Without wait channels, only the process shows what for.
#[test]
fn a_process_that_writes_its_core_dump_is_reported_only_if_sigkill_does_not_end_it() {
    for (pending, reported) in [(0, 0), (KILL, 1)] {
        let node = Node::new();
        node.procs("job_7/step_batch/user/task_0", "500\n");
        for (tid, pending, wchan) in [
            (500, 0, "do_exit"),
            (501, pending, ""),
            (502, 0, "coredump_task_exit"),
        ] {
            node.thread(500, tid, 'D', pending);
            let base = format!("proc/500/task/{tid}");
            node.file(&format!("{base}/wchan"), wchan);
            let status = format!(
                "Name:\tpython3\nState:\tD\nSigPnd:\t{pending:016x}\nCoreDumping:\t1\nvoluntary_ctxt_switches:\t40\nnonvoluntary_ctxt_switches:\t2\n"
            );
            node.file(&format!("{base}/status"), &status);
        }
        let shown = node.read();
        assert_eq!(shown[0], format!("slurm_job_blocked_processes 7 = {reported}"));
        assert_eq!(shown.len(), 1 + reported, "{shown:?}");
    }
}

/// As without CAP_SYS_PTRACE.
#[test]
fn what_the_kernel_does_not_show_is_empty() {
    let node = Node::new();
    node.procs("job_7/step_batch/user/task_0", "500\n");
    node.thread(500, 500, 'D', KILL);
    node.file("proc/500/task/500/wchan", "0");
    assert_eq!(
        node.read(),
        [
            "slurm_job_blocked_processes 7 = 1",
            "slurm_job_blocked_thread_info 7 500 500 1500 42 python3 1    = 1",
        ]
    );
}

#[test]
fn a_job_whose_processes_run_or_sleep_has_none_and_a_cgroup_without_any_is_no_job() {
    let node = Node::new();
    // 502 ended after it was listed.
    node.procs("job_7/step_batch/user/task_0", "500\n501\n502\n");
    node.thread(500, 500, 'R', 0);
    node.thread(501, 501, 'S', 0);
    // Its first thread runs: its other threads' waits do not matter.
    node.thread(501, 504, 'D', 0);
    // All of its processes ended after they were listed.
    node.procs("job_8/step_batch/user/task_0", "503\n");
    // Slurm could not remove these.
    node.procs("job_9/step_batch/user/task_0", "");
    node.put(&format!("{SCOPE}/job_10"), &Entry::Folder);
    assert_eq!(
        node.read(),
        [
            "slurm_job_blocked_processes 7 = 0",
            "slurm_job_blocked_processes 8 = 0",
        ]
    );
}

#[test]
fn a_job_of_very_many_is_bounded_and_does_not_claim_to_know() {
    let node = Node::new();
    let pids: String = (1..=MOST_PROCESSES + 10).map(|pid| format!("{pid}\n")).collect();
    node.procs("job_7/step_batch/user/task_0", &pids);
    for pid in 1..=40 {
        node.thread(pid, pid, 'D', 0);
    }
    // The youngest of the reported threads, with a pending SIGKILL.
    node.thread(40, 40, 'D', KILL);
    let shown = node.read();
    assert_eq!(
        shown.first().map(String::as_str),
        Some("slurm_job_blocked_processes 7 = absent")
    );
    assert_eq!(shown.len(), 1 + MOST_REPORTED);
    assert!(shown[1].contains(" 40 40 "), "{}", shown[1]);
}

/// Whether a process waits in the unread part is unknown.
#[test]
fn a_job_of_which_a_part_cannot_be_listed_is_not_said_to_have_none() {
    let absent = ["slurm_job_blocked_processes 7 = absent"];
    let node = Node::new();
    node.procs("job_7/step_0/user/task_0", "500\n");
    node.thread(500, 500, 'S', 0);
    // As a threaded cgroup answers: the file cannot be read as text.
    node.put(
        &format!("{SCOPE}/job_7/step_0/user/task_1/cgroup.procs/x"),
        &Entry::Folder,
    );
    assert_eq!(node.read(), absent);
    let node = Node::new();
    node.procs("job_7/1/2/3/4/5/6/7/8/9", "500\n");
    assert_eq!(node.read(), absent, "too deep");
    let node = Node::new();
    for step in 0..=MOST_FOLDERS {
        node.procs(&format!("job_7/step_{step}"), "");
    }
    assert_eq!(node.read(), absent, "too many");
}

const NONE: [&str; 1] = ["slurm_job_blocked_processes 7 = 0"];
const ABSENT: [&str; 1] = ["slurm_job_blocked_processes 7 = absent"];

/// With `hidepid=1` the folder of another user's process is there, and no file in it can be opened.
#[test]
fn a_process_whose_state_cannot_be_read_is_not_said_to_run() {
    for hidden in ["proc/500/status", "proc/500/task/500/status"] {
        let node = Node::new();
        node.procs("job_7/step_batch/user/task_0", "500\n");
        node.thread(500, 500, 'D', 0);
        node.put(hidden, &Entry::Removed);
        // Even root cannot read it.
        node.put(&format!("{hidden}/x"), &Entry::Folder);
        assert_eq!(node.read(), ABSENT, "{hidden}");
        node.put(hidden, &Entry::Removed);
        assert_eq!(node.read(), NONE, "{hidden} is gone");
    }
}

/// Newer kernels wait for a lock of the process before they show `stat`.
#[test]
fn a_thread_whose_start_is_not_known_is_reported_without_it() {
    let node = Node::new();
    node.procs("job_7/step_batch/user/task_0", "500\n");
    node.thread(500, 500, 'D', KILL);
    let stat = "proc/500/task/500/stat";
    node.put(stat, &Entry::Removed);
    node.put(&format!("{stat}/x"), &Entry::Folder);
    assert_eq!(
        node.read(),
        [
            "slurm_job_blocked_processes 7 = 1",
            "slurm_job_blocked_thread_info 7 500 500  42 python3 1    = 1",
        ]
    );
}

/// The parent of vfork(2) waits for its child in state D, until a signal ends the wait.
#[test]
fn a_parent_that_waits_for_its_child_is_not_blocked() {
    let node = Node::new();
    node.procs("job_7/step_batch/user/task_0", "500\n501\n");
    for (pid, wchan) in [(500, "kernel_clone"), (501, "_do_fork")] {
        node.thread(pid, pid, 'D', 0);
        node.file(&format!("proc/{pid}/task/{pid}/wchan"), wchan);
    }
    assert_eq!(node.read(), NONE);
}

/// With `hidepid=2` processes of other users look as if they had ended: only our own are seen, such as our parent.
#[test]
fn where_processes_of_root_are_not_seen_none_is_said_to_have_ended() {
    let node = Node::new();
    node.procs("job_7/step_batch/user/task_0", "500\n");
    let parent = nix::unistd::getppid();
    node.file(&format!("proc/{parent}/comm"), "bash\n");
    assert_eq!(node.read_live(), ABSENT);
    node.thread(1, 1, 'S', 0);
    assert_eq!(node.read_live(), NONE);
    // In another tree our numbers mean nothing.
    node.put(&format!("proc/{parent}"), &Entry::Removed);
    assert_eq!(node.read_live(), NONE);
}

/// As in a container without the host's processes: cgroup v2 lists them as 0, and v1 not at all.
#[test]
fn processes_of_another_namespace_are_not_said_to_run() {
    let node = Node::new();
    node.procs("job_7/step_batch/user/task_0", "0\n500\n");
    node.thread(500, 500, 'S', 0);
    assert_eq!(node.read(), ABSENT);

    let node = Node::new();
    node.put("sys/fs/cgroup/cgroup.controllers", &Entry::Removed);
    let procs = "sys/fs/cgroup/freezer/slurm/uid_1000/job_7/step_0/cgroup.procs";
    node.file(procs, "");
    assert!(node.read().is_empty(), "no job");
    node.put("proc/self/ns/pid", &Entry::Link("pid:[4026532201]".to_owned()));
    assert_eq!(node.read(), ABSENT);
    // Its slurmd runs in this one.
    node.file(procs, "500\n");
    assert_eq!(node.read(), NONE);
}

#[test]
fn under_v1_a_suspended_process_does_not_wait() {
    for hierarchy in ["freezer", "devices"] {
        let node = Node::new();
        let step = "slurm/uid_1000/job_7/step_0";
        node.file(&format!("sys/fs/cgroup/{hierarchy}/{step}/cgroup.procs"), "501\n");
        node.file(
            &format!("sys/fs/cgroup/{hierarchy}/{step}/task_0/cgroup.procs"),
            "500\n",
        );
        node.thread(500, 500, 'D', 0);
        let state = format!("sys/fs/cgroup/freezer/{step}/freezer.state");
        for (text, blocked) in [("THAWED\n", "1"), ("FREEZING\n", "1"), ("FROZEN\n", "absent")] {
            node.file(&state, text);
            assert_eq!(
                node.read().first().map(String::as_str),
                Some(format!("slurm_job_blocked_processes 7 = {blocked}").as_str()),
                "{hierarchy} {text}"
            );
        }
    }
}

/// A thread names itself (prctl(2)), and who may make cgroups below the job's names them.
#[test]
fn names_that_are_no_text_hide_nothing() {
    let node = Node::new();
    let inner = Path::new(SCOPE)
        .join("job_7/step_0/user/task_0")
        .join(OsStr::from_bytes(b"\xff"));
    let procs = node.0.path().join("root").join(inner).join("cgroup.procs");
    tree::put(&procs, &Entry::File(b"500\n".to_vec())).unwrap();
    node.thread(500, 500, 'D', KILL);
    node.reads(500, 500);
    let status = b"Name:\t\xff\nState:\tD\nSigPnd:\t100\nShdPnd:\t0\nvoluntary_ctxt_switches:\t40\nnonvoluntary_ctxt_switches:\t2\n";
    node.put("proc/500/task/500/status", &Entry::File(status.to_vec()));
    let mounts = b"35 1 8:1 / /mnt/\xff rw - ext4 /dev/sda1 rw\n36 35 0:52 / /home rw shared:1 - nfs4 server:/home rw\n";
    node.put("proc/500/mountinfo", &Entry::File(mounts.to_vec()));
    assert_eq!(
        node.read(),
        [
            "slurm_job_blocked_processes 7 = 1",
            "slurm_job_blocked_thread_info 7 500 500 1500 42 \u{fffd} 1 rpc_wait_bit_killable read /home/ada/data.bin nfs4 /home = 1",
        ]
    );
}

#[test]
fn a_mount_is_found_in_a_list_of_many_and_a_blank_in_its_place_is_one() {
    let node = Node::new();
    node.procs("job_7/step_batch/user/task_0", "500\n");
    node.thread(500, 500, 'D', 0);
    node.reads(500, 500);
    let pod = |n: u32| {
        format!("{n} 35 0:{n} / /var/lib/kubelet/pods/{n:064}/volumes/v rw,relatime - tmpfs tmpfs rw\n")
    };
    let pods: String = (100..10_100).map(pod).collect();
    assert!(pods.len() > 1 << 20);
    let home = "36 35 0:52 / /home\\040dir rw shared:1 - nfs4 server:/home rw\n";
    node.file("proc/500/mountinfo", &(home.to_owned() + &pods));
    let shown = node.read().join("\n");
    assert!(shown.ends_with(" nfs4 /home dir = 1"), "{shown}");
}

#[test]
fn a_process_of_very_many_threads_is_bounded_and_not_said_to_run() {
    let node = Node::new();
    node.procs("job_7/step_0/user/task_0", "500\n");
    node.thread(500, 500, 'Z', 0);
    for tid in 1000..1000 + thread::MOST_THREADS {
        node.put(&format!("proc/500/task/{tid}"), &Entry::Folder);
    }
    assert_eq!(node.read(), ABSENT);
    node.thread(500, 1000, 'D', 0);
    assert_eq!(
        node.read().first().map(String::as_str),
        Some("slurm_job_blocked_processes 7 = 1")
    );
}

/// Ranks that read much are in state D for a moment at each reading, and may be older than the stuck one.
#[test]
fn one_that_has_not_run_since_the_last_reading_is_reported_before_others() {
    let node = Node::new();
    node.procs("job_7/step_0/user/task_0", "900\n");
    node.thread(900, 900, 'D', 0);
    let env = Env::recorded(node.0.path());
    let mut source = open(&env, &Settings::default()).unwrap().unwrap();
    let mut jobs = source.devices.scan().unwrap();
    let mut has_it = || {
        let mut block = Block::default();
        jobs[0].read(&mut block).unwrap();
        block.finish();
        block
            .iter()
            .any(|(series, _)| series.labels.iter().any(|l| l == "900"))
    };
    assert!(has_it());
    let others: String = (1..=100).map(|pid| format!("{pid}\n")).collect();
    node.procs("job_7/step_0/user/task_0", &format!("900\n{others}"));
    for pid in 1..=100 {
        node.thread(pid, pid, 'D', 0);
    }
    assert!(has_it());
}

#[test]
fn switched_off_it_is_not_there_and_an_unknown_key_is_refused() {
    let node = Node::new();
    let env = Env::recorded(node.0.path());
    assert!(
        open(&env, &SPEC.settings("enabled = false\n").unwrap())
            .unwrap()
            .is_none()
    );
    let refused = SPEC.settings("enable = false\n").unwrap_err();
    assert!(refused.to_string().contains("enable"), "{refused}");
}
