use std::os::unix::ffi::OsStringExt;
use std::os::unix::net::UnixStream;

use clap::CommandFactory;
use testkit::wait::{PATIENCE, until_true};

use super::*;
use crate::http::control::SOCKET;
use crate::http::fake::Fake;
use crate::http::{bind_control, spawn};
use crate::web::{Access, Gate};

#[test]
fn the_command_line_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn a_mistyped_subcommand_or_flag_is_answered_with_the_one_that_was_meant() {
    for (line, meant) in [
        (&["statsu"][..], "status"),
        (&["config", "chkec"], "check"),
        (&["run", "--listne", "127.0.0.1:0"], "--listen"),
        (&["status", "--jsn"], "--json"),
        (&["check", "--format", "nagois"], "nagios"),
    ] {
        let words = ["nodewarden"].iter().chain(line);
        let error = Cli::try_parse_from(words).unwrap_err().to_string();
        assert!(
            error.contains("similar") && error.contains(meant),
            "{line:?}: {error}"
        );
    }
}

#[test]
fn what_the_parent_passes_to_a_process_is_not_read_as_a_command_line() {
    let run = |args: &[&str]| process(args.iter().map(OsString::from));
    for (args, wanted) in [
        (["worker", "--help"], "worker DOMAIN UID GID"),
        (["helper", "-v"], "helper NAME UID GID"),
    ] {
        let error = run(&args).unwrap().unwrap_err().to_string();
        assert!(
            error.contains("for the parent only") && error.contains(wanted),
            "{error}"
        );
    }
    assert!(run(&[]).is_none() && run(&["status"]).is_none() && run(&["--help", "worker"]).is_none());
    let broken = OsString::from_vec(vec![0xff]);
    assert!(
        process([broken].into_iter()).is_none(),
        "the parser of the command line explains it"
    );
}

#[test]
fn listen_becomes_a_setting() {
    let cli = Cli::try_parse_from([
        "nodewarden",
        "run",
        "--listen",
        "127.0.0.1:0",
        "--listen",
        "[::1]:1",
        "--set",
        "log.level=\"debug\"",
    ])
    .unwrap();
    let Command::Run(args) = cli.command else {
        panic!("not run");
    };
    assert_eq!(
        args.sets(),
        ["log.level=\"debug\"", "listen=[\"127.0.0.1:0\", \"[::1]:1\"]"]
    );
}

/// Slurm drains a node whose prolog fails.
#[test]
fn a_hook_that_is_not_understood_succeeds_wherever_the_word_stands_and_though_nothing_can_be_printed() {
    let exit = |line: &str, printed| {
        let args: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let whole = std::iter::once(OsString::from("nodewarden")).chain(args.iter().cloned());
        refused(
            &args,
            Cli::try_parse_from(whole).unwrap_err().exit_code(),
            printed,
        )
    };
    for printed in [true, false] {
        for line in [
            "hook",
            "hook prolgo",
            "hook prolog --bad",
            "--bad hook prolog",
            "--run-dir /x hook epilog",
        ] {
            assert_eq!(exit(line, printed), 0, "{line}");
        }
    }
    assert_eq!(exit("release --bad -- hook", true), release::FAILED);
    assert_eq!(exit("check --format nagios --bad", true), 3, "UNKNOWN");
    assert_eq!(exit("check --bad --format=nagios", false), 3, "UNKNOWN");
    for format in ["--format nagio", "--format=nagio", "--format", "--format="] {
        assert_eq!(exit(&format!("check {format}"), true), 3, "{format}");
    }
    assert_eq!(exit("check --prolog --format nagios", true), 3, "not both");
    assert_eq!(exit("check --format plain --bad", true), 2);
    assert_eq!(exit("check --format nagios --help", true), 0);
    assert_eq!(exit("check --bad", true), 2);
    assert_eq!((exit("status --bad", true), exit("status --bad", false)), (2, 2));
    assert_eq!((exit("--help", true), exit("--help", false)), (0, 2));
}

#[test]
fn orders_need_a_reason() {
    assert!(Cli::try_parse_from(["nodewarden", "clear", "abcdefgh"]).is_err());
    assert!(Cli::try_parse_from(["nodewarden", "ack", "abcdefgh", "--reason", "x"]).is_ok());
}

/// The exit code of a command line with this run directory.
fn exit(line: &[&str], run_dir: &std::path::Path) -> ExitCode {
    let dir = run_dir.to_str().unwrap();
    let line = [&["nodewarden"], line, &["--run-dir", dir]].concat();
    perform(Cli::try_parse_from(line).unwrap().command).unwrap_or_else(|e| code(&e))
}

#[test]
fn exit_codes_tell_done_refused_and_down_apart() {
    let dir = tempfile::tempdir().unwrap();
    let (good, refused, down) = (ExitCode::SUCCESS, ExitCode::FAILURE, ExitCode::from(2));
    let lines: [(&[&str], ExitCode); 11] = [
        (&["status"], good),
        (&["status", "--json"], good),
        (&["why"], good),
        (&["why", "abcdefgh"], good),
        (&["why", "--json"], good),
        (&["why", "zzzzzzzz"], refused),
        (&["ack", "abcdefgh", "--reason", "x"], good),
        (&["clear", "abcdefgh", "--reason", "x"], good),
        (&["clear", "zzzzzzzz", "--reason", "x"], refused),
        (&["ack", "not an id", "--reason", "x"], refused),
        // An incident is open.
        (&["profile", "learn"], refused),
    ];
    let control = bind_control(dir.path()).unwrap();
    let server = spawn(
        Fake::new(),
        Vec::new(),
        Some(control),
        &Gate::new(Access::default()),
    )
    .unwrap();
    for (line, expected) in lines {
        assert_eq!(exit(line, dir.path()), expected, "{line:?}");
    }
    drop(server);
    let socket = dir.path().join(SOCKET);
    until_true("the server has ended", PATIENCE, || {
        UnixStream::connect(&socket).is_err()
    })
    .unwrap();
    for (line, _) in lines {
        assert_eq!(exit(line, dir.path()), down, "{line:?}");
    }
    assert_eq!(exit(&["check"], dir.path()), down);
}

#[test]
fn a_configuration_with_problems_exits_1() {
    let check = |set: &str| {
        let line = [
            "nodewarden",
            "config",
            "check",
            "--config",
            "/dev/null",
            "--set",
            set,
        ];
        perform(Cli::try_parse_from(line).unwrap().command).unwrap()
    };
    assert_eq!(check("health.settle=\"1m\""), ExitCode::SUCCESS);
    assert_eq!(check("health.settle=1"), ExitCode::FAILURE);
}
