use std::os::unix::net::UnixListener;
use std::thread;

use super::*;

/// A daemon that sends one fixed reply.
fn daemon(reply: &'static str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let listener = UnixListener::bind(dir.path().join(SOCKET)).unwrap();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut line = String::new();
        BufReader::new(stream.try_clone().unwrap())
            .read_line(&mut line)
            .unwrap();
        stream.write_all(reply.as_bytes()).unwrap();
    });
    dir
}

#[test]
fn replies_are_passed_on() {
    let dir = daemon("{\"done\":\"cleared abcdefgh\"}\n");
    let reply = ask(dir.path(), &Request::Status).unwrap();
    assert!(matches!(reply, Reply::Done(text) if text == "cleared abcdefgh"));
}

#[test]
fn a_daemon_that_is_down_or_talks_nonsense_is_down_and_the_error_says_where_and_what_to_do() {
    let none = tempfile::tempdir().unwrap();
    let down = ask(none.path(), &Request::Status).unwrap_err().to_string();
    let socket = none.path().join(SOCKET).display().to_string();
    assert!(down.contains(&format!("{socket}: no such socket")), "{down}");
    assert!(down.contains("systemctl start nodewarden"), "{down}");
    for nonsense in ["", "{\"done\":\"x\"}", "nonsense\n"] {
        assert!(ask(daemon(nonsense).path(), &Request::Status).is_err());
    }
    let other = ask(daemon("{\"done\":\"x\"}\n").path(), &Request::Status);
    other.unwrap();
    let other = ask(daemon("{\"nodestate\":\"x\"}\n").path(), &Request::Status).unwrap_err();
    let other = other.to_string();
    assert!(
        other.contains("the reply is not one of this version, "),
        "{other}"
    );
    let older = daemon("{\"refused\":\"invalid request: unknown variant `readings`\"}\n");
    let older = answer(older.path(), &Request::Status, Some)
        .unwrap_err()
        .to_string();
    assert!(
        older.contains("`readings`; a daemon of another version"),
        "{older}"
    );
    let stale = tempfile::tempdir().unwrap();
    drop(UnixListener::bind(stale.path().join(SOCKET)).unwrap());
    let down = ask(stale.path(), &Request::Status).unwrap_err().to_string();
    assert!(down.contains("no process listens"), "{down}");
}

#[test]
fn a_daemon_that_is_silent_is_given_up_and_the_error_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let listener = UnixListener::bind(dir.path().join(SOCKET)).unwrap();
    let patience = Duration::from_millis(20);
    let down = ask_within(dir.path(), &Request::Status, patience)
        .unwrap_err()
        .to_string();
    assert!(down.contains("no reply in 0 s"), "{down}");
    drop(listener);
}

#[test]
fn a_socket_behind_a_closed_door_is_said_to_be_one() {
    let denied = io::Error::from(io::ErrorKind::PermissionDenied);
    assert!(reason(&denied, PATIENCE).contains("permission denied"));
}
