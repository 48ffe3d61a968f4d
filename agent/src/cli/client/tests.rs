use std::os::unix::net::UnixListener;
use std::thread;

use super::*;

/// A daemon that gives one reply, whatever it is asked.
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
fn a_daemon_that_is_down_or_talks_nonsense_is_down() {
    let none = tempfile::tempdir().unwrap();
    let down = ask(none.path(), &Request::Status).unwrap_err().to_string();
    assert!(down.ends_with("control.sock: there is no such socket"), "{down}");
    for nonsense in ["", "{\"done\":\"x\"}", "nonsense\n"] {
        assert!(ask(daemon(nonsense).path(), &Request::Status).is_err());
    }
    let stale = tempfile::tempdir().unwrap();
    drop(UnixListener::bind(stale.path().join(SOCKET)).unwrap());
    assert!(ask(stale.path(), &Request::Status).is_err());
}
