//! The file `netlink` of a recording, in the kernel's place.

use std::path::{Path, PathBuf};

use nix::errno::Errno;

use super::{NetlinkError, NetlinkTransport};
use crate::netlink::message::Request;
use crate::netlink::recording::Recording;
use crate::netlink::{Garbled, Protocol};
use crate::sys::root;
use crate::{Env, Error};

/// The file in the folder of a recording.
const FILE: &str = "netlink";
/// Larger than any: a node's ports with a hundred counters each.
const LONGEST: u64 = 4 * 1024 * 1024;

/// Looks whether the recording's answers can be read. Nothing to say where there are none, or the node is live.
///
/// # Errors
/// The line that cannot be read, with what was expected.
pub(crate) fn check(env: &Env) -> Result<(), Error> {
    let Some(folder) = &env.recorded else {
        return Ok(());
    };
    let file = folder.join(FILE);
    let text = text(&file)?.unwrap_or_default();
    Recording::parse(&file.display().to_string(), &text).map(drop)
}

/// `Ok(None)`: there is no such file.
fn text(file: &Path) -> Result<Option<String>, Error> {
    let bytes = root::read_bytes(file, LONGEST)?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

/// Answers what was recorded of one protocol. What was not recorded is a protocol that the kernel does not have.
pub(super) struct RecordedNetlink {
    protocol: Protocol,
    file: PathBuf,
    /// The text that was understood last. The next step of a case may be laid at any time.
    text: String,
    recording: Recording,
}

impl RecordedNetlink {
    pub(super) fn new(folder: &Path, protocol: Protocol) -> Self {
        Self {
            protocol,
            file: folder.join(FILE),
            text: String::new(),
            recording: Recording::default(),
        }
    }

    fn refresh(&mut self) -> Result<(), Error> {
        let text = text(&self.file)?.unwrap_or_default();
        if text != self.text {
            self.recording = Recording::parse(&self.file.display().to_string(), &text)?;
            self.text = text;
        }
        Ok(())
    }
}

impl NetlinkTransport for RecordedNetlink {
    fn ask(
        &mut self,
        request: &mut Request,
        take: &mut dyn FnMut(&[u8]) -> Result<(), Garbled>,
    ) -> Result<(), NetlinkError> {
        if let Err(error) = self.refresh() {
            tracing::error!(%error, "a recording that cannot be read");
            return Err(Errno::EIO.into());
        }
        let (kind, flags) = request.kind_and_flags();
        let answer = self
            .recording
            .answer(self.protocol, kind, flags, request.payload());
        let answer = answer.ok_or(Errno::EPROTONOSUPPORT)?;
        for message in &answer.messages {
            take(message)?;
        }
        answer.refused.map_or(Ok(()), |errno| Err(errno.into()))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Asks for number 1 of kind 5.
    fn ask(kernel: &mut RecordedNetlink) -> (Vec<Vec<u8>>, Result<(), NetlinkError>) {
        let mut messages = Vec::new();
        let answer = kernel.ask(&mut Request::one(5).with(1, 7), &mut |payload| {
            messages.push(payload.to_vec());
            Ok(())
        });
        (messages, answer)
    }

    #[test]
    fn a_question_has_the_answer_of_the_recording_as_it_is_now() {
        let dir = tempfile::tempdir().unwrap();
        let mut kernel = RecordedNetlink::new(dir.path(), Protocol::Rdma);
        let unknown = (vec![], Err(NetlinkError::Kernel(Errno::EPROTONOSUPPORT)));
        assert_eq!(ask(&mut kernel), unknown, "there is no file");

        let file = dir.path().join("netlink");
        let one = "> rdma 5 0x5 1:u32=7\n< 0a0b\n< 0c\n";
        fs::write(&file, one).unwrap();
        assert_eq!(ask(&mut kernel), (vec![vec![10, 11], vec![12]], Ok(())));

        fs::write(&file, format!("{one}> rdma 5 0x5 1:u32=7\n< 0d\n! EINTR\n")).unwrap();
        let broken_off = (vec![vec![13]], Err(NetlinkError::Kernel(Errno::EINTR)));
        assert_eq!(ask(&mut kernel), broken_off, "what is laid later counts");

        for other in [
            "> route 5 0x5 1:u32=7\n",
            "> rdma 5 0x301 1:u32=7\n",
            "> rdma 5 5\n",
        ] {
            fs::write(&file, other).unwrap();
            assert_eq!(ask(&mut kernel), unknown, "{other}");
        }
    }

    #[test]
    fn a_line_that_cannot_be_read_is_an_error_before_anybody_asks() {
        let dir = tempfile::tempdir().unwrap();
        let env = Env::recorded(dir.path());
        check(&env).unwrap();
        check(&Env::default()).unwrap();
        fs::write(dir.path().join("netlink"), "> rdma 5 5\n! EWHAT\n").unwrap();
        let error = check(&env).unwrap_err().to_string();
        assert!(error.contains("netlink:2: found \"EWHAT\", expected"), "{error}");
        let mut kernel = RecordedNetlink::new(dir.path(), Protocol::Rdma);
        assert_eq!(ask(&mut kernel).1, Err(NetlinkError::Kernel(Errno::EIO)));
    }
}
