//! A runner for tests: it answers as a test says.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use serde_json::Value;

/// Answers each request with the reply to it. `None`: the command hangs. The requests arrive in the channel.
pub(crate) fn serve(
    socket: &Path,
    reply: impl Fn(&Value) -> Option<String> + Send + 'static,
) -> Receiver<Value> {
    let listener = UnixListener::bind(socket).unwrap();
    let (to, requests) = channel();
    thread::spawn(move || {
        let mut hung = Vec::new();
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let mut line = String::new();
            stream.read_line(&mut line).unwrap();
            let request: Value = serde_json::from_str(&line).unwrap();
            let reply = reply(&request);
            drop(to.send(request));
            match reply {
                Some(reply) => writeln!(stream.get_mut(), "{reply}").unwrap(),
                None => hung.push(stream),
            }
        }
    });
    requests
}
