//! Exit codes that programs read, of `check` and `config check`, also where nothing can be printed.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and starts the program under test"
)]

use std::fs;
use std::path::Path;
use std::process::Command;

/// Where the output goes: to a file, to a full disk, to closed descriptors.
const OUTPUTS: [&str; 5] = [
    ">/dev/null 2>&1",
    ">/dev/full",
    ">/dev/full 2>&1",
    ">&-",
    ">&- 2>&-",
];

/// The exit code of nodewarden.
fn exit(args: &[&str], output: &str) -> Option<i32> {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("exec \"$@\" {output}"), "sh"]);
    shell.arg(env!("CARGO_BIN_EXE_nodewarden")).args(args);
    shell.status().unwrap().code()
}

fn write(dir: &Path, name: &str, text: &str) -> String {
    let path = dir.join(name);
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn an_output_that_cannot_be_written_does_not_change_the_verdict() {
    let dir = tempfile::tempdir().unwrap();
    let run_dir = dir.path().to_str().unwrap();
    for (health, expected, nagios) in [("healthy", 0, 0), ("unhealthy", 1, 2), ("unknown", 2, 3)] {
        let verdict =
            format!(r#"{{"health":"{health}","text":"t","boot":"b","at_ms":10000,"valid_until_ms":55000}}"#);
        write(dir.path(), "verdict", &verdict);
        let args = [
            "check",
            "--run-dir",
            run_dir,
            "--boot-id=b",
            "--boottime-ms=11000",
        ];
        for output in OUTPUTS {
            assert_eq!(exit(&args, output), Some(expected), "{health} {output}");
            let nagios_args = [&args[..], &["--format", "nagios"]].concat();
            assert_eq!(
                exit(&nagios_args, output),
                Some(nagios),
                "nagios {health} {output}"
            );
        }
    }
}

#[test]
fn an_output_that_cannot_be_written_makes_no_configuration_invalid() {
    let dir = tempfile::tempdir().unwrap();
    for (text, expected) in [("", 0), ("listen = 3\n", 1)] {
        let file = write(dir.path(), "n.toml", text);
        for output in OUTPUTS {
            let code = exit(&["config", "check", "--config", &file], output);
            assert_eq!(code, Some(expected), "{text:?} {output}");
        }
    }
}

/// Slurm drains a node whose prolog ends by a signal.
#[test]
fn a_limit_of_file_sizes_does_not_end_a_hook() {
    let dir = tempfile::tempdir().unwrap();
    for verb in ["prolog", "epilog"] {
        let mut shell = Command::new("sh");
        shell.args(["-c", "ulimit -f 0; exec \"$@\"", "sh"]);
        shell.args([env!("CARGO_BIN_EXE_nodewarden"), "hook", verb, "--run-dir"]);
        shell.arg(dir.path()).env("SLURM_JOB_ID", "7");
        shell.env("SLURM_JOB_UID", "1000").env("SLURM_JOB_PARTITION", "p");
        let output = shell.output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{verb}: {stderr}");
        assert!(stderr.contains("File too large"), "{verb}: {stderr}");
    }
}
