//! One connection: a request, a command, a reply.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::Duration;

use sys::files;
use sys::spawn::{CommandLine, CommandRunner, SpawnError};

use super::lane::Lane;
use super::proto::{MAX_KEPT, MAX_REQUEST, Reply, Request};
use super::{ConfigArgs, command, gpfs};
use crate::config::{self, nhc};

/// Time limit for the client to send its request, and to read the reply.
const TRANSFER: Duration = Duration::from_secs(5);

/// How often a command that resists SIGKILL is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// Serves one connection. Returns once the command has ended, which may be long after the reply.
pub(super) fn run(mut stream: UnixStream, locks: &Path, config: &ConfigArgs) {
    let (reply, left) = match admitted(&stream) {
        Ok(Some(line)) => perform(&line, locks, config),
        // The parent has looked whether anyone listens.
        Ok(None) => return,
        Err(why) => {
            tracing::warn!(why, "site command");
            (Reply::Refused(why), None)
        }
    };
    // The client logs what it makes of it: a check its changed results only.
    if let Reply::Refused(why) | Reply::Failed(why) | Reply::TimedOut(why) = &reply {
        tracing::debug!(why, "site command");
    }
    if let Ok(mut text) = serde_json::to_vec(&reply) {
        text.push(b'\n');
        // A client that is gone needs no reply.
        sys::ignore(stream.write_all(&text));
    }
    drop(stream);
    let Some((mut runner, mut lane)) = left else {
        return;
    };
    lane.hangs();
    while runner.is_stuck() {
        thread::sleep(LOOK);
    }
}

/// The request of a client that may ask: root, or our own user. `None`: the client asked for nothing.
fn admitted(stream: &UnixStream) -> Result<Option<Vec<u8>>, String> {
    let peer = sys::users::peer_uid(stream).map_err(|e| format!("unknown client: {e}"))?;
    if peer != 0 && peer != nix::unistd::geteuid().as_raw() {
        return Err(format!("permission denied: uid {peer} is not root"));
    }
    let limits = [
        stream.set_read_timeout(Some(TRANSFER)),
        stream.set_write_timeout(Some(TRANSFER)),
    ];
    for limit in limits {
        limit.map_err(|e| e.to_string())?;
    }
    let mut line = Vec::new();
    let mut bounded = BufReader::new(stream).take(MAX_REQUEST as u64 + 2);
    bounded
        .read_until(b'\n', &mut line)
        .map_err(|e| format!("no request: {e}"))?;
    if line.is_empty() {
        return Ok(None);
    }
    if line.pop() != Some(b'\n') {
        return Err(format!(
            "expected a request of one line and less than {MAX_REQUEST} bytes"
        ));
    }
    Ok(Some(line))
}

/// Runs a command. With it what is left: a process that resists SIGKILL, and its lane.
fn perform(line: &[u8], locks: &Path, config: &ConfigArgs) -> (Reply, Option<(CommandRunner, Lane)>) {
    let refused = |why: String| (Reply::Refused(why), None);
    let request = match Request::parse(line) {
        Ok(request) => request,
        Err(why) => return refused(why),
    };
    let commands = match command::load(config) {
        Ok(commands) => commands,
        Err(why) => return refused(why),
    };
    let Some((row, (program, args))) = commands
        .get(&request.name)
        .and_then(|row| Some((row, row.command.split_first()?)))
    else {
        return refused(format!("commands.{}: not in the configuration", request.name));
    };
    let is_of_gpfs = config::gpfs::is_one(&request.name);
    let lane = if is_of_gpfs { gpfs::LANE } else { &request.name };
    let lane = match Lane::enter(locks, lane) {
        Ok(lane) => lane,
        Err(why) => return refused(why.to_string()),
    };
    // In the lane: a program on a mount that hangs costs its own command only.
    if let Err(why) = check_program(Path::new(program), &row.command) {
        return refused(format!("{}: {why}", request.name));
    }
    let command = CommandLine {
        program: program.into(),
        args: args.to_vec(),
        env: vec![
            ("PATH".to_owned(), "/usr/sbin:/usr/bin:/sbin:/bin".to_owned()),
            ("LC_ALL".to_owned(), "C.UTF-8".to_owned()),
            ("NODEWARDEN_COMMAND".to_owned(), request.name.clone()),
        ],
        input: if is_of_gpfs {
            Vec::new()
        } else {
            request.input.get().as_bytes().to_vec()
        },
        deadline: row.deadline(),
    };
    let mut runner = CommandRunner::default();
    let reply = match runner.run(&command) {
        Ok(output) => Reply::ended(&output, if is_of_gpfs { gpfs::MAX_KEPT } else { MAX_KEPT }),
        Err(error @ SpawnError::TimedOut(_)) => Reply::TimedOut(format!("{}: {error}", request.name)),
        Err(error) => Reply::Failed(format!("{}: {error}", request.name)),
    };
    let left = runner.is_stuck().then_some((runner, lane));
    (reply, left)
}

/// Whether only root or our own user can have written the program, and it sets no state of the node itself.
fn check_program(program: &Path, command: &[String]) -> Result<(), String> {
    match files::is_trusted_program(program) {
        // exec(2) reports it.
        Err(e) if e.kind() == ErrorKind::NotFound => {}
        found => found.map_err(|e| format!("{}: {e}", program.display()))?,
    }
    nhc::check_files(Path::new("/"), command)
}

#[cfg(test)]
#[path = "instance_tests.rs"]
mod tests;
