//! A stand-in for each process, with its ids, capabilities, filters and Landlock rules, tries each act of the table. This
//! program starts itself again as the stand-in.

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, io};

use sys::forbidden::ACTS;
use sys::landlock::{self, FileAccess};
use sys::processes::{self, Process, Role};
use sys::{privileges, sandbox, seccomp};

use crate::common::Node;

/// What the stand-in must know about its node.
struct World {
    run: PathBuf,
    state: PathBuf,
    secret: PathBuf,
    /// Another process of nodewarden.
    target: i32,
    address: String,
}

const NAME: &str = "NODEWARDEN_STAND_IN";

impl World {
    const KEYS: [&'static str; 5] = ["NW_RUN", "NW_STATE", "NW_SECRET", "NW_TARGET", "NW_ADDRESS"];

    fn of(node: &Node, process: &Process) -> [String; 5] {
        let target = if process.role == Role::Parent {
            node.core_pid()
        } else {
            node.daemon().pid()
        };
        [
            node.run_dir().display().to_string(),
            node.state_dir().display().to_string(),
            node.path("secret").display().to_string(),
            target.to_string(),
            node.address().unwrap(),
        ]
    }

    fn here() -> Self {
        let [run, state, secret, target, address] = Self::KEYS.map(|key| env::var(key).unwrap());
        Self {
            run: run.into(),
            state: state.into(),
            secret: secret.into(),
            target: target.parse().unwrap(),
            address,
        }
    }
}

/// What each act comes to: `Err` with the kernel's error, or with another one where it was refused by the daemon.
fn attempt(name: &str, world: &World) -> io::Result<()> {
    let target = i64::from(world.target);
    let create = |path: PathBuf| {
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(path)
            .map(drop)
    };
    match name {
        "read-secret" => fs::File::open(&world.secret).map(drop),
        "read-memory" => fs::File::open(format!("/proc/{target}/mem")).map(drop),
        "write-memory" => call(libc::SYS_process_vm_writev, [target, 0, 0, 0, 0]),
        "ptrace" => call(libc::SYS_ptrace, [i64::from(libc::PTRACE_SEIZE), target, 0, 0, 0]),
        // Without an effect on a process that runs.
        "signal" => call(libc::SYS_kill, [target, i64::from(libc::SIGCONT), 0, 0, 0]),
        "take-descriptor" => call(libc::SYS_pidfd_getfd, [-1, 0, 0, 0, 0]),
        "send-descriptor" => call(libc::SYS_sendmsg, [-1, 0, 0, 0, 0]),
        "exec" => call(libc::SYS_execve, [0; 5]),
        "fork" => start_process(),
        "become-root" => call(libc::SYS_setresuid, [0; 5]),
        "mount" => call(libc::SYS_mount, [0; 5]),
        "unmount" => call(libc::SYS_umount2, [0; 5]),
        "namespace" => call(libc::SYS_unshare, [i64::from(libc::CLONE_NEWUSER), 0, 0, 0, 0]),
        "module" => call(libc::SYS_finit_module, [-1, 0, 0, 0, 0]),
        "program" => call(libc::SYS_bpf, [5, 0, 0, 0, 0]),
        "device" => call(libc::SYS_mknodat, [-1, 0, 0o020_600, 0x103, 0]),
        "io-uring" => call(libc::SYS_io_uring_setup, [1, 0, 0, 0, 0]),
        "tcp" => TcpStream::connect(&world.address).map(drop),
        "udp" => call(libc::SYS_socket, [2, 2, 0, 0, 0]),
        "packet" => call(libc::SYS_socket, [17, 3, 0, 0, 0]),
        "netlink" => call(libc::SYS_socket, [16, 3, 20, 0, 0]),
        "listen" => call(libc::SYS_listen, [-1, 0, 0, 0, 0]),
        "order" => order(&world.run.join("control.sock")),
        "own-drain" => create(world.state.join("parent/x")),
        "slots" => create(world.run.join("slots/x")),
        "state" => create(world.state.join("x")),
        "run" => create(world.run.join("x")),
        "remove" => fs::remove_file(world.run.join("roots")),
        "tmp" => create(Path::new("/tmp").join(format!("nw-stand-in.{}", std::process::id()))),
        "etc" => create(Path::new("/etc").join(format!("nw-stand-in.{}", std::process::id()))),
        other => panic!("no attempt for {other}"),
    }
}

#[allow(unsafe_code, reason = "acts of an attacker")]
fn call(number: libc::c_long, args: [i64; 5]) -> io::Result<()> {
    let [a, b, c, d, e] = args;
    // SAFETY: every address is null or a number that the kernel refuses.
    match unsafe { libc::syscall(number, a, b, c, d, e) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

#[allow(unsafe_code, reason = "an act of an attacker")]
fn start_process() -> io::Result<()> {
    // SAFETY: as fork(2); the child leaves at once.
    match unsafe { libc::syscall(libc::SYS_clone, i64::from(libc::SIGCHLD), 0, 0, 0, 0) } {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: ends the child without handlers.
        0 => unsafe { libc::_exit(0) },
        _ => Ok(()),
    }
}

/// No incident has that name: an answer about it means that the request was accepted.
fn order(socket: &Path) -> io::Result<()> {
    let mut stream = UnixStream::connect(socket)?;
    stream.write_all(b"{\"verb\":\"clear\",\"id\":\"abcdefgh\",\"reason\":\"x\"}\n")?;
    let mut reply = String::new();
    BufReader::new(stream).read_line(&mut reply)?;
    if reply.contains("permission denied") {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    assert!(reply.contains("abcdefgh"), "{reply}");
    Ok(())
}

/// Whether a wall was met, and not something else that is missing.
fn is_refused(error: &io::Error) -> bool {
    let refusals = [libc::EPERM, libc::EACCES, libc::ENOSYS, libc::EROFS];
    error.kind() == io::ErrorKind::PermissionDenied
        || error.raw_os_error().is_some_and(|e| refusals.contains(&e))
}

/// Takes the place of a process: what it inherits from the parent first, then its own.
fn become_like(process: &Process, world: &World) {
    seccomp::apply(processes::all()[0].filter()).unwrap();
    if process.role == Role::Parent {
        return privileges::keep(process.capability_mask()).unwrap();
    }
    privileges::drop_to(process.uid, process.uid, process.capability_mask()).unwrap();
    let files = process.landlock.then(|| match process.role {
        Role::Daemon => FileAccess::of_daemon(vec![world.run.clone(), world.state.clone()]),
        _ => FileAccess::of_worker(),
    });
    let done = sandbox::enter(process.name, files.as_ref());
    assert_eq!(done.seccomp, Some(true), "{done:?}");
    assert!(
        done.landlock != Some(false) || landlock::version().is_none(),
        "{done:?}"
    );
}

/// The stand-in, which the other test starts; a test of its own otherwise only by name.
#[test]
fn stand_in() {
    let Ok(name) = env::var(NAME) else { return };
    let world = World::here();
    let process = processes::all().into_iter().find(|p| p.name == name).unwrap();
    become_like(&process, &world);
    for act in ACTS {
        let answer = match attempt(act.name, &world) {
            Ok(()) => "done".to_owned(),
            Err(e) if is_refused(&e) => "refused".to_owned(),
            Err(e) => format!("possible: {e}"),
        };
        println!("\nact {} {answer}", act.name);
    }
}

#[test]
fn every_forbidden_act_is_refused_and_the_node_keeps_its_state() {
    let mut node = Node::new();
    node.add_every_source();
    node.start();
    fs::write(node.path("secret"), "").unwrap();
    fs::set_permissions(
        node.path("secret"),
        std::os::unix::fs::PermissionsExt::from_mode(0o600),
    )
    .unwrap();
    node.until("healthy", |n| n.cli(&["check"]).0 == Some(0));
    let pids = |n: &Node| [n.daemon().pid(), n.core_pid()];
    let before = pids(&node);
    let mut wrong = Vec::new();
    for process in processes::all() {
        fs::write(node.run_dir().join("roots"), "").unwrap();
        let values = World::of(&node, &process);
        let out = Command::new(env::current_exe().unwrap())
            .args(["stand_in::stand_in", "--exact", "--nocapture", "--test-threads=1"])
            .env(NAME, process.name)
            .envs(World::KEYS.into_iter().zip(values))
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&out.stdout);
        assert!(
            out.status.success(),
            "{}: {text}{}",
            process.name,
            String::from_utf8_lossy(&out.stderr)
        );
        for act in ACTS {
            let line = text
                .lines()
                .find_map(|l| l.strip_prefix(&format!("act {} ", act.name)));
            let line = line.unwrap_or_else(|| panic!("{} did not try {}: {text}", process.name, act.name));
            if (line != "refused") != act.may.contains(&process.name) {
                wrong.push(format!("{} {}: {line}", process.name, act.name));
            }
        }
        for made in ["parent/x", "x"] {
            fs::remove_file(node.state_dir().join(made)).ok();
        }
        for made in ["slots/x", "x"] {
            fs::remove_file(node.run_dir().join(made)).ok();
        }
    }
    for folder in ["/tmp", "/etc"] {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            if entry.file_name().to_string_lossy().starts_with("nw-stand-in.") {
                fs::remove_file(entry.path()).unwrap();
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert_eq!(pids(&node), before);
    assert_eq!(node.cli(&["check"]).0, Some(0));
    assert!(node.open_incidents().is_empty());
}
