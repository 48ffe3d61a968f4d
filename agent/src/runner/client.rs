//! Asks the runner.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;

use super::proto::{MAX_REPLY, Reply, Request};

/// Time for the runner beside the command's own limit: start of the instance, SIGTERM, SIGKILL.
const GRACE: Duration = Duration::from_secs(15);

/// Why there is no reply. Whether the command ran is unknown, unless the connection was never made.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The request cannot be written as JSON.
    #[error("invalid request: {0}")]
    Request(#[from] serde_json::Error),
    /// The runner cannot be reached or did not answer.
    #[error("runner of site commands, {}: {source}", path.display())]
    Io {
        /// Its socket.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
}

/// Where to ask.
#[derive(Clone, Debug)]
pub struct Client {
    socket: PathBuf,
}

impl Client {
    /// The runner at that socket.
    pub fn new(socket: &Path) -> Self {
        Self {
            socket: socket.to_owned(),
        }
    }

    /// Runs a command with this input. `limit`: the command's own. Blocks until then and some seconds more.
    ///
    /// # Errors
    /// Without a reply.
    pub fn call(&self, name: &str, input: &impl Serialize, limit: Duration) -> Result<Reply, CallError> {
        let input = RawValue::from_string(serde_json::to_string(input)?)?;
        let request = Request {
            name: name.to_owned(),
            input,
        };
        let mut line = serde_json::to_vec(&request)?;
        line.push(b'\n');
        let reply = self
            .exchange(&line, limit + GRACE)
            .map_err(|source| CallError::Io {
                path: self.socket.clone(),
                source,
            })?;
        Ok(serde_json::from_slice(&reply)?)
    }

    fn exchange(&self, line: &[u8], patience: Duration) -> io::Result<Vec<u8>> {
        let mut stream = UnixStream::connect(&self.socket)?;
        stream.set_write_timeout(Some(GRACE))?;
        stream.set_read_timeout(Some(patience))?;
        // One that refuses early closes before it has read everything, and its reply says why.
        sys::ignore(stream.write_all(line));
        let mut reply = Vec::new();
        BufReader::new(stream)
            .take(MAX_REPLY)
            .read_until(b'\n', &mut reply)?;
        match reply.last() {
            Some(b'\n') => Ok(reply),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}
