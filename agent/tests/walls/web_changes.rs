//! Changes of the `web_config_file` while the program runs, and at its start.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::common::pki::{Curled, LOCAL, Pki, curl, users};
use crate::common::{LONG, Node, program};

fn start(pki: &Pki) -> Node {
    let mut node = Node::new();
    node.set(&pki.setting());
    node.spawn();
    node.until("the port is open", |n| n.address().is_some());
    node
}

fn as_user(node: &Node, user: &str) -> Curled {
    let login = format!("{user}:secret");
    curl(node, "https", "/metrics", &["--insecure", "--user", &login])
}

/// The series of [`as_user`]'s page.
fn is_error(node: &Node, user: &str) -> Option<bool> {
    let page = as_user(node, user).text;
    let row = page
        .lines()
        .find_map(|line| line.strip_prefix("nodewarden_web_config_error "))?;
    Some(row != "0")
}

/// The certificate that the port shows.
fn shown(node: &Node) -> String {
    let mut command = Command::new("openssl");
    command.args(["s_client", "-connect", &node.address().unwrap()]);
    testkit::exec::run(command, b"", LONG).unwrap().stdout
}

#[test]
fn a_renewed_certificate_and_a_changed_user_are_in_force_without_a_restart() {
    let pki = Pki::new();
    pki.sign("server", LOCAL);
    // As certbot: links to files that only root reads.
    for (name, end) in [("live", "pem"), ("live", "key")] {
        fs::rename(
            pki.path(&format!("server.{end}")),
            pki.path(&format!("{name}1.{end}")),
        )
        .unwrap();
        symlink(format!("{name}1.{end}"), pki.path(&format!("server.{end}"))).unwrap();
    }
    pki.web(&users(&["prom"]));
    let node = start(&pki);
    let parent = node.daemon().pid();
    assert_eq!(as_user(&node, "prom").status, 200);
    assert!(shown(&node).contains("CN = server"), "{}", shown(&node));
    pki.sign("renewed", LOCAL);
    for end in ["pem", "key"] {
        symlink(format!("renewed.{end}"), pki.path("new")).unwrap();
        fs::rename(pki.path("new"), pki.path(&format!("server.{end}"))).unwrap();
    }
    node.until("the new certificate", |n| shown(n).contains("CN = renewed"));
    pki.web(&users(&["other"]));
    node.until("the new user", |n| as_user(n, "other").status == 200);
    assert_eq!(as_user(&node, "prom").status, 401);
    assert_eq!(node.daemon().pid(), parent);
}

#[test]
fn a_broken_file_keeps_the_last_good_one_and_says_so_once() {
    let pki = Pki::new();
    pki.sign("server", LOCAL);
    pki.web(&users(&["prom"]));
    let mut node = start(&pki);
    node.until("collectors", |n| is_error(n, "prom") == Some(false));
    let rejected = "web configuration rejected, the last good one stays in force";
    let good = fs::read(pki.path("web.yml")).unwrap();
    for (number, bad) in ["", "basic_auth_users:\n  prom: x\n", "tls_server_config: [\n"]
        .iter()
        .enumerate()
    {
        pki.write("web.yml", bad);
        node.until("the error shows", |n| is_error(n, "prom") == Some(true));
        assert_eq!(node.daemon().stderr().matches(rejected).count(), number + 1);
        fs::write(pki.path("web.yml"), &good).unwrap();
        node.until("good again", |n| is_error(n, "prom") == Some(false));
    }
    // A key that others could have written.
    fs::set_permissions(pki.path("server.key"), fs::Permissions::from_mode(0o666)).unwrap();
    node.until("the error shows", |n| is_error(n, "prom") == Some(true));
    let log = node.daemon().stderr();
    assert!(
        log.contains("web.yml:3:13: tls_server_config.key_file: ") && log.contains("mode 666"),
        "{log}"
    );

    // A new daemon of the same parent gets the last good one, and says that it is.
    let core = node.core_pid();
    kill(Pid::from_raw(core.cast_signed()), Signal::SIGKILL).unwrap();
    node.until("a new daemon", |n| {
        n.daemon().children().iter().any(|p| *p != core)
    });
    node.until("it serves", |n| is_error(n, "prom") == Some(true));
    assert_eq!(as_user(&node, "stranger").status, 401);

    // A start is refused, also where a last good configuration is kept.
    node.stop();
    node.spawn();
    assert_eq!(node.daemon().wait(LONG).unwrap().code(), Some(1));
    assert!(
        node.daemon().stderr().contains("mode 666"),
        "{}",
        node.daemon().stderr()
    );
    assert!(node.address().is_none());
}

#[test]
fn a_reload_turns_tls_on_and_refuses_what_it_cannot_use() {
    let pki = Pki::new();
    pki.sign("server", LOCAL);
    let mut node = Node::new();
    let file = node.path("n.toml");
    fs::write(&file, "").unwrap();
    node.arg(&["--config", file.to_str().unwrap()]);
    node.start();
    assert_eq!(node.metric("nodewarden_web_config_error", &[]), None);
    fs::write(&file, pki.setting()).unwrap();
    node.daemon().signal(Signal::SIGHUP).unwrap();
    // Without the file: the configuration is refused as a whole, and names why.
    node.until("refused", |n| {
        n.metric("nodewarden_config_error", &[]) == Some(1.0)
    });
    assert!(
        node.daemon()
            .stderr()
            .contains("web.yml: no such file (web_config_file)")
    );
    pki.web("");
    node.daemon().signal(Signal::SIGHUP).unwrap();
    node.until("TLS", |n| {
        curl(n, "https", "/metrics", &["--insecure"]).status == 200
    });
    assert_eq!(curl(&node, "http", "/metrics", &[]).status, 400);
}

#[test]
fn config_check_names_the_fault_of_the_web_file() {
    let pki = Pki::new();
    pki.sign("server", LOCAL);
    pki.sign("other", LOCAL);
    let node = Node::new();
    let empty = node.path("empty.toml");
    fs::write(&empty, "").unwrap();
    let check = || {
        let mut command = Command::new(program());
        command
            .args(["config", "check", "--set", &pki.setting(), "--config"])
            .arg(&empty);
        let output = testkit::exec::run(command, b"", LONG).unwrap();
        (output.code, output.stderr)
    };
    pki.web("  min_version: TLS11\n");
    let (code, text) = check();
    assert!(
        code == Some(1) && text.contains("web.yml:4:16: tls_server_config.min_version: found \"TLS11\""),
        "{text}"
    );
    fs::copy(pki.path("other.key"), pki.path("server.key")).unwrap();
    pki.web("");
    let (code, text) = check();
    assert!(
        code == Some(1) && text.contains("found the key of another certificate"),
        "{text}"
    );
    pki.sign("server", LOCAL);
    assert_eq!(check(), (Some(0), String::new()));
}
