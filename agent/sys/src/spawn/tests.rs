use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt;

use collectors::sys::root;
use nix::fcntl::{FcntlArg, fcntl};
use testkit::fuse_hang::FuseHang;
use testkit::wait::{PATIENCE, until_true};

use super::fork::{start, start_closing};
use super::*;
use crate::child::Closing;

fn command(program: impl Into<PathBuf>, args: &[&str]) -> CommandLine {
    CommandLine {
        program: program.into(),
        args: args.iter().map(|&a| a.to_owned()).collect(),
        env: vec![("PATH".into(), "/usr/bin:/bin".into())],
        input: Vec::new(),
        deadline: Duration::from_secs(10),
    }
}

#[test]
fn input_is_read_to_its_end_and_needs_no_reader() {
    let bytes: Vec<u8> = (b'a'..=b'z').cycle().take(64 * 1024).collect();
    let with = |program: &str, input: &[u8]| {
        let command = CommandLine {
            input: input.to_vec(),
            ..command(program, &[])
        };
        CommandRunner::default().run(&command).unwrap()
    };
    assert_eq!(with("/bin/cat", &bytes).stdout, bytes);
    assert_eq!(with("/bin/cat", b"").stdout, b"");
    assert_eq!(with("/bin/true", &bytes).code, 0);
}

fn shell(script: &str) -> CommandLine {
    command("/bin/sh", &["-c", script])
}

fn out(output: &CommandOutput) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

fn wait_for_end(pid: &str) {
    let stat = PathBuf::from(format!("/proc/{}/stat", pid.trim()));
    let is_running = || {
        root::read_text(&stat)
            .unwrap()
            .is_some_and(|s| !s.contains(") Z "))
    };
    until_true("the process has ended", PATIENCE, || !is_running()).unwrap();
}

#[test]
fn code_and_output() {
    let output = CommandRunner::default()
        .run(&shell("echo out; echo err >&2; exit 3"))
        .unwrap();
    assert_eq!(output.code, 3);
    assert_eq!(out(&output), "out\n");
    assert_eq!(output.stderr, b"err\n");
    assert!(!output.truncated);
}

#[test]
fn the_child_gets_nothing_of_ours() {
    let file = tempfile::tempfile().unwrap();
    // A descriptor without CLOEXEC, as a careless library leaves it.
    let leaked = fcntl(&file, FcntlArg::F_DUPFD(50)).unwrap();
    let script = "env; pwd; ls /proc/self/fd; read line; echo read $?; grep -E 'Sig(Blk|Ign|Cgt)' /proc/self/status; \
                  ps -o pgid= -p $$ 2>/dev/null || cut -d' ' -f5 /proc/$$/stat; echo $$";
    let output = CommandRunner::default().run(&shell(script)).unwrap();
    nix::unistd::close(leaked).unwrap();
    let text = out(&output);
    assert!(text.contains("PATH=/usr/bin:/bin\n"), "{text}");
    for line in text.lines().filter(|l| l.contains('=')) {
        let name = line.split_once('=').unwrap().0;
        assert!(["PATH", "PWD", "OLDPWD", "SHLVL", "_"].contains(&name), "{line}");
    }
    assert!(text.contains("\n/\n"), "cwd: {text}");
    // 3 is the descriptor of ls for the folder; exec closed the pipe of the exec error.
    assert!(text.contains("\n0\n1\n2\n3\nread 1\n"), "{text}");
    assert!(text.contains("SigBlk:\t0000000000000000\n"), "{text}");
    assert!(text.contains("SigIgn:\t0000000000000000\n"), "{text}");
    let tail: Vec<&str> = text.lines().rev().take(2).map(str::trim).collect();
    assert_eq!(tail.first(), tail.get(1), "leads its own process group");
}

/// Linux before 5.9, as in RHEL 8, has no close_range(2).
#[test]
fn descriptors_are_closed_one_by_one_where_the_kernel_has_no_other_way() {
    let file = tempfile::tempfile().unwrap();
    let leaked = fcntl(&file, FcntlArg::F_DUPFD(900)).unwrap();
    let closing = Closing {
        by_range: false,
        ..Closing::prepare()
    };
    let mut child = start_closing(&shell("ls /proc/self/fd"), closing).unwrap();
    nix::unistd::close(leaked).unwrap();
    assert!(child.follow(Instant::now() + Duration::from_secs(10)));
    child.reap(Instant::now() + GRACE).unwrap();
    assert_eq!(out(&child.output(0)), "0\n1\n2\n3\n");
    // A descriptor above a limit that was lowered later counts too.
    let end = Closing::prepare().end;
    assert!(end > file.as_raw_fd() && end >= 256, "{end}");
}

#[test]
fn missing_and_forbidden_programs() {
    let mut runner = CommandRunner::default();
    for missing in ["/nonexistent/scontrol", "scontrol", "/etc/passwd/scontrol"] {
        let error = runner.run(&command(missing, &[])).unwrap_err();
        assert!(matches!(error, SpawnError::NotFound(_)), "{error}");
    }
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("script");
    testkit::executable::write(&script, "#!/nonexistent/sh\n").unwrap();
    let error = runner.run(&command(&script, &[])).unwrap_err().to_string();
    assert!(
        error.contains("or no such interpreter in its first line"),
        "{error}"
    );
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"not a program").unwrap();
    let error = runner.run(&command(file.path(), &[])).unwrap_err();
    assert!(matches!(error, SpawnError::Denied(_)), "{error}");
    file.as_file()
        .set_permissions(PermissionsExt::from_mode(0o755))
        .unwrap();
    let path = file.into_temp_path();
    let error = runner.run(&command(path.to_path_buf(), &[])).unwrap_err();
    assert!(matches!(error, SpawnError::Io { what: "exec", .. }), "{error}");
}

#[test]
fn a_signal_is_told() {
    let error = CommandRunner::default().run(&shell("kill -ABRT $$")).unwrap_err();
    assert!(matches!(error, SpawnError::Signalled(Signal::SIGABRT)), "{error}");
}

#[test]
fn the_whole_group_dies_at_the_deadline() {
    let folder = tempfile::tempdir().unwrap();
    let pids = folder.path().join("pids");
    let script = format!(
        "trap '' TERM; (trap '' TERM; exec sleep 300) & echo $! >> {0}; echo $$ >> {0}; while :; do sleep 300; done",
        pids.display()
    );
    let mut slow = shell(&script);
    // Long enough for the shell to start both.
    slow.deadline = Duration::from_secs(5);
    let begin = Instant::now();
    let error = CommandRunner::default().run(&slow).unwrap_err();
    assert!(matches!(error, SpawnError::TimedOut(_)), "{error}");
    assert!(begin.elapsed() < PATIENCE, "{:?}", begin.elapsed());
    let pids = root::read_text(&pids).unwrap().unwrap();
    assert_eq!(pids.lines().count(), 2);
    pids.lines().for_each(wait_for_end);
}

/// The kernel takes the end of the thread that forked for that of the process.
#[test]
fn a_command_ends_with_the_process_that_waits_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let begun = folder.path().join("begun");
    let script = format!("echo > {}; exec sleep 300", begun.display());
    let forked = std::thread::spawn(move || {
        let child = start(&shell(&script)).unwrap();
        until_true("it runs", PATIENCE, || begun.exists()).unwrap();
        child
    });
    let child = forked.join().unwrap();
    let status = child.reap(Instant::now() + PATIENCE).unwrap();
    assert!(
        matches!(status, Some(WaitStatus::Signaled(_, Signal::SIGKILL, _))),
        "{status:?}"
    );
}

#[test]
fn a_command_that_is_killed_leaves_no_member_of_its_group() {
    let folder = tempfile::tempdir().unwrap();
    let pids = folder.path().join("pids");
    let script = format!("sleep 300 & echo $! $$ > {}; wait", pids.display());
    let runner = CommandRunner::default();
    // None runs.
    runner.kill();
    let mut other = runner.clone();
    let running = std::thread::spawn(move || other.run(&shell(&script)));
    let read = || root::read_text(&pids).unwrap().unwrap_or_default();
    until_true("it runs", PATIENCE, || !read().is_empty()).unwrap();
    runner.kill();
    let error = running.join().unwrap().unwrap_err();
    assert!(matches!(error, SpawnError::Signalled(Signal::SIGKILL)), "{error}");
    read().split_whitespace().for_each(wait_for_end);
}

#[test]
fn a_background_child_that_keeps_the_output_open_costs_half_a_second() {
    let begin = Instant::now();
    let output = CommandRunner::default()
        .run(&shell("sleep 300 & echo $!; exit 0"))
        .unwrap();
    assert!(begin.elapsed() < PATIENCE, "it did not wait for the end of sleep");
    assert_eq!(output.code, 0);
    wait_for_end(out(&output));
}

#[test]
fn endless_output_is_cut_and_counted() {
    let output = CommandRunner::default()
        .run(&shell("head -c 10000000 /dev/zero; head -c 10 /dev/zero >&2"))
        .unwrap();
    assert_eq!((output.stdout.len(), output.stderr.len()), (MAX_OUTPUT, 10));
    assert!(output.truncated);
    let mut endless = shell("exec cat /dev/zero");
    endless.deadline = Duration::from_millis(200);
    let begin = Instant::now();
    assert!(matches!(
        CommandRunner::default().run(&endless),
        Err(SpawnError::TimedOut(_))
    ));
    assert!(begin.elapsed() < PATIENCE);
}

/// A child that is stopped for ever stands in for one in D state: neither is reaped.
#[test]
fn while_one_is_stuck_nothing_else_is_started() {
    let child = start(&shell("exec sleep 300")).unwrap();
    let mut runner = CommandRunner::default();
    let earlier = runner.clone();
    earlier.leftovers().push(Leftover::of_leader(child.pid));
    // Its thread has ended, as after a reload.
    drop(earlier);
    let error = runner.run(&shell("true")).unwrap_err();
    assert!(
        matches!(error, SpawnError::Stuck { pid, .. } if pid == child.pid.as_raw()),
        "{error}"
    );
    child.signal(Signal::SIGKILL);
    until_true("it was reaped", PATIENCE, || !runner.is_stuck()).unwrap();
    assert_eq!(runner.run(&shell("true")).unwrap().code, 0);
}

/// The commands of GPFS are shell scripts: the shell dies, the program that it waits for does not.
#[test]
fn a_program_that_outlives_its_shell_counts_as_stuck_until_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    let hang = FuseHang::mount(folder.path().join("mount")).unwrap();
    let file = hang.add("file", "text");
    hang.freeze_file("file").unwrap();
    let mut script = shell(&format!("cat {}; exit 1", file.display()));
    script.deadline = Duration::from_secs(10);
    let mut runner = CommandRunner::default();
    let error = runner.run(&script).unwrap_err();
    assert!(matches!(error, SpawnError::TimedOut(_)), "{error}");
    assert_eq!(hang.waiting(), 1, "cat is in its call");
    for _ in 0..2 {
        let error = runner.run(&shell("true")).unwrap_err();
        assert!(matches!(error, SpawnError::Stuck { state: 'D', .. }), "{error}");
    }
    hang.thaw();
    until_true("it has ended", PATIENCE, || !runner.is_stuck()).unwrap();
    assert_eq!(runner.run(&shell("true")).unwrap().code, 0);
}

#[test]
fn a_member_that_is_only_a_zombie_is_not_stuck() {
    // Nothing reaps it meanwhile, as in a container without an init.
    let child = start(&shell("exec sleep 300")).unwrap();
    child.signal(Signal::SIGKILL);
    let until = Instant::now() + PATIENCE;
    assert!(Leftover::of_members(child.pid, until).is_none());
    child.reap(until).unwrap();
}

#[test]
fn other_children_keep_their_exit_status() {
    #[allow(
        clippy::disallowed_methods,
        reason = "another child, which this module must leave alone"
    )]
    let mut other = std::process::Command::new("/bin/sh")
        .args(["-c", "exit 7"])
        .spawn()
        .unwrap();
    for _ in 0..3 {
        CommandRunner::default().run(&shell("true")).unwrap();
    }
    assert_eq!(other.wait().unwrap().code(), Some(7));
}
