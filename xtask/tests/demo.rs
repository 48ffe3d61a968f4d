//! `cargo xtask demo`, as on the command line.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::Signal;
use testkit::daemon::Daemon;

/// Long enough for a build on a busy machine.
const LONG: Duration = Duration::from_secs(900);

fn demo(args: &[&str]) -> Daemon {
    demo_on("127.0.0.1:0", args)
}

fn demo_on(listen: &str, args: &[&str]) -> Daemon {
    let xtask = Path::new(env!("CARGO_BIN_EXE_xtask"));
    let mut command = Command::new(xtask);
    command.arg("demo").args(args).args(["--listen", listen]);
    // A test of the workspace has already built it.
    let built = xtask.with_file_name("nodewarden");
    if built.is_file() {
        command.arg("--program").arg(built);
    }
    Daemon::start(command).unwrap()
}

/// The run directory in the printed commands.
fn folder(output: &str) -> PathBuf {
    let run = output
        .split("--run-dir ")
        .nth(1)
        .and_then(|rest| rest.lines().next());
    Path::new(run.unwrap()).parent().unwrap().to_owned()
}

/// Workers end when their parent has.
fn ended(demo: &Daemon) {
    let none = || demo.children().is_empty();
    testkit::wait::until_true("all processes have ended", testkit::wait::PATIENCE, none).unwrap();
}

#[test]
fn the_checks_pass_and_nothing_is_left_behind() {
    let demo = demo(&["--check"]);
    let status = demo.wait(LONG).unwrap();
    let output = demo.stdout();
    assert!(status.success(), "{output}\n{}", demo.stderr());
    assert!(output.contains("checked: "), "{output}");
    assert!(!folder(&output).exists());
}

#[test]
fn ctrl_c_ends_the_daemon_and_removes_its_files() {
    let demo = demo(&[]);
    demo.wait_for_line("Ctrl-C ends it", LONG).unwrap();
    let folder = folder(&demo.stdout());
    assert!(folder.join("node/root/sys").is_dir());
    demo.signal(Signal::SIGINT).unwrap();
    let status = demo.wait(LONG).unwrap();
    assert!(status.success(), "{}\n{}", demo.stdout(), demo.stderr());
    assert!(!folder.exists(), "{} is left", folder.display());
    ended(&demo);
}

#[test]
fn a_fleet_with_a_taken_port_ends_the_nodes_that_it_has_started() {
    // The first ports are free, so that some nodes run; the last of these is taken.
    const FREE: u16 = 6;
    let bind = |port: u16| TcpListener::bind(("127.0.0.1", port));
    let (first, _taken) = std::iter::repeat_with(|| bind(0).unwrap())
        .take(100)
        .find_map(|taken| {
            let port = taken.local_addr().ok()?.port();
            let all_free = (port - FREE..port).all(|port| bind(port).is_ok());
            all_free.then_some((port - FREE, taken))
        })
        .unwrap();
    let demo = demo_on(&format!("127.0.0.1:{first}"), &["fleet"]);
    let status = demo.wait(LONG).unwrap();
    let says = format!("cannot listen on 127.0.0.1:{}", first + FREE);
    assert!(
        !status.success() && demo.stderr().contains(&says),
        "{}",
        demo.stderr()
    );
    ended(&demo);
}
