#![allow(
    clippy::disallowed_methods,
    reason = "tests write the scripts and configurations that they read"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::thread;

use super::*;

/// A site with one script, `check`, and the reply of the runner to it.
struct Site {
    dir: tempfile::TempDir,
}

impl Site {
    fn new(script: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let site = Self { dir };
        testkit::executable::write(&site.path("check"), script).unwrap();
        let program = site.path("check");
        let config = format!(
            "[commands.check]\ncommand = [{program:?}]\ntimeout = \"1500ms\"\n\
             [commands.absent]\ncommand = [\"/nonexistent/check\"]\ntimeout = \"5s\"\n"
        );
        site.write("n.toml", &config);
        fs::create_dir(site.path("locks")).unwrap();
        site
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
        self.mode(name, 0o644);
    }

    fn mode(&self, name: &str, mode: u32) {
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(mode)).unwrap();
    }

    fn call(&self, name: &str) -> Reply {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (locks, config) = (
            self.path("locks"),
            ConfigArgs {
                file: Some(self.path("n.toml")),
                sets: Vec::new(),
            },
        );
        let instance = thread::spawn(move || run(theirs, &locks, &config));
        writeln!(&ours, r#"{{"name":"{name}","input":{{"check":"site-x"}}}}"#).unwrap();
        let mut reply = String::new();
        BufReader::new(ours).read_line(&mut reply).unwrap();
        instance.join().unwrap();
        serde_json::from_str(&reply).unwrap()
    }

    fn check(&self) -> Reply {
        self.call("check")
    }
}

#[test]
fn a_script_has_its_exit_code_its_output_and_a_clean_environment() {
    for code in [0, 1, 2, 3, 255] {
        let site = Site::new(&format!("#!/bin/sh\ncat\nexit {code}\n"));
        let Reply::Ended {
            code: found, stdout, ..
        } = site.check()
        else {
            panic!("{code}")
        };
        assert_eq!((found, stdout.as_str()), (code, r#"{"check":"site-x"}"#));
    }
    let site = Site::new("#!/bin/sh\nexec env\n");
    let Reply::Ended { stdout, .. } = site.check() else {
        panic!()
    };
    let mut names: Vec<&str> = stdout
        .lines()
        .filter_map(|line| Some(line.split_once('=')?.0))
        .collect();
    names.retain(|name| !["PWD", "SHLVL", "_", "OLDPWD"].contains(name));
    names.sort_unstable();
    assert_eq!(names, ["LC_ALL", "NODEWARDEN_COMMAND", "PATH"]);
}

#[test]
fn a_megabyte_of_output_is_cut_and_holds_up_nothing() {
    let site = Site::new("#!/bin/sh\necho first line\nhead -c 1048576 /dev/zero | tr '\\0' x\nexit 1\n");
    let Reply::Ended {
        code,
        stdout,
        truncated,
        ..
    } = site.check()
    else {
        panic!()
    };
    assert_eq!((code, stdout.len(), truncated), (1, 64 * 1024, true));
    assert!(stdout.starts_with("first line\nxxx"));
}

#[test]
fn a_time_out_a_signal_and_a_program_that_cannot_start_are_three_replies() {
    let slow = Site::new("#!/bin/sh\nsleep 1000\n").check();
    assert!(
        matches!(&slow, Reply::TimedOut(why) if why.contains("timed out after 1.5s")),
        "{slow:?}"
    );
    let killed = Site::new("#!/bin/sh\nkill -SEGV $$\n").check();
    assert!(
        matches!(&killed, Reply::Failed(why) if why.contains("SIGSEGV")),
        "{killed:?}"
    );
    let site = Site::new("#!/bin/sh\n");
    let absent = site.call("absent");
    assert!(
        matches!(&absent, Reply::Failed(why) if why.contains("no such program")),
        "{absent:?}"
    );
    site.mode("check", 0o644);
    let plain = site.check();
    assert!(
        matches!(&plain, Reply::Failed(why) if why.contains("permission denied")),
        "{plain:?}"
    );
}

#[test]
fn a_program_that_others_can_write_is_refused() {
    let site = Site::new("#!/bin/sh\nexit 0\n");
    for mode in [0o757, 0o775] {
        site.mode("check", mode);
        let reply = site.check();
        assert!(
            matches!(&reply, Reply::Refused(why) if why.contains("no write permission for group and others")),
            "{reply:?}"
        );
    }
    site.mode("check", 0o755);
    assert!(matches!(site.check(), Reply::Ended { code: 0, .. }));
    // The configuration is elsewhere, in a folder that stays closed.
    let folder = site.path("bin");
    fs::create_dir(&folder).unwrap();
    fs::rename(site.path("check"), folder.join("check")).unwrap();
    let text = fs::read_to_string(site.path("n.toml")).unwrap();
    site.write("n.toml", &text.replace("/check\"", "/bin/check\""));
    for (mode, is_refused) in [(0o775, false), (0o777, true), (0o1777, false)] {
        fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
        let reply = site.check();
        assert_eq!(
            matches!(reply, Reply::Refused(_)),
            is_refused,
            "{mode:o}: {reply:?}"
        );
    }
}

#[test]
fn two_runs_of_a_name_never_overlap() {
    let site =
        Site::new("#!/bin/sh\nmkdir \"${0%/*}/running\" || exit 9\nsleep 0.3\nrmdir \"${0%/*}/running\"\n");
    let replies: Vec<Reply> = thread::scope(|scope| {
        let threads: Vec<_> = (0..6).map(|_| scope.spawn(|| site.check())).collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    let ended = |reply: &&Reply| matches!(reply, Reply::Ended { code: 0, .. });
    assert!(replies.iter().filter(ended).count() >= 1, "{replies:?}");
    for reply in &replies {
        assert!(
            ended(&reply) || matches!(reply, Reply::Refused(why) if why.contains("has not ended")),
            "{reply:?}"
        );
    }
}

/// A site with a script in place of each command of GPFS.
fn gpfs(script: &str, is_on: bool) -> Site {
    let site = Site::new("#!/bin/sh\n");
    for name in ["mmgetstate", "mmdiag", "mmhealth"] {
        testkit::executable::write(&site.path(name), script).unwrap();
    }
    let bin = site.dir.path();
    site.write("n.toml", &format!("[gpfs]\ncommands = {is_on}\nbin = {bin:?}\n"));
    site
}

#[test]
fn the_commands_of_gpfs_have_fixed_arguments_and_no_input_and_run_only_where_they_are_enabled() {
    let site = gpfs("#!/bin/sh\necho \"${0##*/} $*\"; cat\n", true);
    for (name, line) in [
        ("gpfs-mmgetstate", "mmgetstate -Y\n"),
        ("gpfs-mmdiag-waiters", "mmdiag --waiters -Y\n"),
        ("gpfs-mmhealth", "mmhealth node show -Y\n"),
    ] {
        let reply = site.call(name);
        assert!(
            matches!(&reply, Reply::Ended { code: 0, stdout, .. } if stdout == line),
            "{reply:?}"
        );
    }
    let reply = gpfs("#!/bin/sh\n", false).call("gpfs-mmhealth");
    assert!(
        matches!(&reply, Reply::Refused(why) if why.contains("not in the configuration")),
        "{reply:?}"
    );
}

#[test]
fn a_megabyte_of_the_output_of_gpfs_is_kept_and_more_is_cut() {
    for (length, is_cut) in [(1024 * 1024, false), (4 * 1024 * 1024, true)] {
        let site = gpfs(
            &format!("#!/bin/sh\nhead -c {length} /dev/zero | tr '\\0' x\n"),
            true,
        );
        let reply = site.call("gpfs-mmhealth");
        let Reply::Ended {
            stdout, truncated, ..
        } = reply
        else {
            panic!("{reply:?}")
        };
        assert_eq!((stdout.len(), truncated), (1024 * 1024, is_cut));
    }
}

#[test]
fn one_command_of_gpfs_runs_at_a_time_and_a_hanging_one_is_never_joined_by_another() {
    let site = gpfs(
        "#!/bin/sh\necho $$ >> \"${0%/*}/started\"\nuntil [ -e \"${0%/*}/end\" ]; do sleep 0.05; done\n",
        true,
    );
    thread::scope(|scope| {
        let first = scope.spawn(|| site.call("gpfs-mmdiag-waiters"));
        testkit::wait::until_true("it runs", Duration::from_secs(30), || {
            site.path("started").exists()
        })
        .unwrap();
        for name in ["gpfs-mmgetstate", "gpfs-mmdiag-waiters", "gpfs-mmhealth"] {
            let reply = site.call(name);
            assert!(
                matches!(&reply, Reply::Refused(why) if why.contains("has not ended")),
                "{name}: {reply:?}"
            );
        }
        site.write("end", "");
        assert!(matches!(first.join().unwrap(), Reply::Ended { code: 0, .. }));
    });
    let started = fs::read_to_string(site.path("started")).unwrap();
    assert_eq!(started.lines().count(), 1);
    assert!(matches!(site.call("gpfs-mmhealth"), Reply::Ended { code: 0, .. }));
}
