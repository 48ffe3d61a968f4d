//! The helper's side.

use std::io::{self, IoSlice, Read};
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::readlink;
use nix::sys::socket::{ControlMessage, MsgFlags, send, sendmsg};
use nix::sys::statfs::{CGROUP2_SUPER_MAGIC, fstatfs};

use super::{MAX_TEXT, Question, REQUEST, ThreadFile};
use crate::domain::Helper;
use crate::sys::bpf::{self, LivePrograms};
use crate::sys::environ;
use crate::sys::errno;
use crate::sys::lprocfs;
use crate::sys::message::{self, retried};
use crate::sys::mmpmon;
use crate::sys::nvme::Controllers;
use crate::sys::patience::OneAway;

/// Answers requests until the worker ends.
///
/// # Errors
/// Of recvmsg(2) and send(2), or when a request is none of this build.
pub fn serve(helper: &Helper, socket: &OwnedFd) -> io::Result<()> {
    let mut answers = Answers::default();
    while let Some(Received { bytes, folder }) = receive(socket)? {
        let question = Question::decode(&bytes);
        let question = question.ok_or_else(|| io::Error::other(format!("unknown request {bytes:?}")))?;
        let answer = if std::ptr::eq(question.helper(), helper) {
            answers.answer(question, folder.as_ref())
        } else {
            Err(Errno::EPERM)
        };
        let (answer, descriptor) = match answer {
            Ok(Answer::Bytes(bytes)) => (Ok(bytes), None),
            Ok(Answer::Descriptor(fd)) => (Ok(Vec::new()), Some(fd)),
            Err(errno) => (Err(errno), None),
        };
        match send_reply(socket, &reply(answer), descriptor.as_ref()) {
            Err(errno @ (Errno::EMSGSIZE | Errno::ENOBUFS | Errno::ENOMEM)) => {
                // The worker learns why it gets no program.
                send_reply(socket, &reply(Err(errno)), None)?;
            }
            sent => sent?,
        }
    }
    Ok(())
}

/// What a helper returns.
enum Answer {
    Bytes(Vec<u8>),
    Descriptor(OwnedFd),
}

/// One message. Those without a descriptor need no sendmsg(2), which most helpers' filters deny.
fn send_reply(socket: &OwnedFd, message: &[u8], descriptor: Option<&OwnedFd>) -> Result<(), Errno> {
    let fd = socket.as_raw_fd();
    let Some(descriptor) = descriptor else {
        return retried(|| send(fd, message, MsgFlags::MSG_NOSIGNAL)).map(drop);
    };
    let raw = [descriptor.as_raw_fd()];
    let control = [ControlMessage::ScmRights(&raw)];
    let parts = [IoSlice::new(message)];
    retried(|| sendmsg::<()>(fd, &parts, &control, MsgFlags::MSG_NOSIGNAL, None)).map(drop)
}

/// The error number, 0 for none, and the bytes.
pub(super) fn reply(answer: Result<Vec<u8>, Errno>) -> Vec<u8> {
    let (errno, bytes) = match answer {
        Ok(bytes) => (0, bytes),
        // The kernel's number is lost, and 0 would be success.
        Err(Errno::UnknownErrno) => (Errno::EIO as i32, Vec::new()),
        Err(errno) => (errno as i32, Vec::new()),
    };
    [&errno.to_ne_bytes()[..], &bytes].concat()
}

#[derive(Default)]
struct Answers {
    programs: LivePrograms,
    controllers: Controllers,
    calls: OneAway,
    wchans: OneAway,
}

impl Answers {
    fn answer(&mut self, question: Question, folder: Option<&OwnedFd>) -> Result<Answer, Errno> {
        if question == Question::Mmpmon {
            return mmpmon::connection(mmpmon::SOCKET.as_ref()).map(Answer::Descriptor);
        }
        self.bytes(question, folder).map(Answer::Bytes)
    }

    fn bytes(&mut self, question: Question, folder: Option<&OwnedFd>) -> Result<Vec<u8>, Errno> {
        match question {
            Question::Mmpmon => Err(Errno::EINVAL),
            Question::Attached => {
                let folder = folder.ok_or(Errno::EBADF)?;
                if fstatfs(folder)?.filesystem_type() != CGROUP2_SUPER_MAGIC {
                    return Err(Errno::EINVAL);
                }
                let ids = bpf::attached_to(folder)?;
                Ok(ids.into_iter().flat_map(u32::to_ne_bytes).collect())
            }
            Question::Program(id) => Ok(bpf::encode(&self.programs.program(id)?)),
            Question::SmartLog(controller) => self.controllers.smart_log(controller),
            Question::Debug(file) => debug(&file.path().ok_or(Errno::ENOENT)?),
            Question::Thread { pid, tid, file } => {
                let thread = format!("/proc/{pid}/task/{tid}");
                match file {
                    // The kernel takes a lock for it that a process holds while it begins a program. Of the channel only newer ones.
                    ThreadFile::Wchan => patiently(&self.wchans, format!("{thread}/wchan"), text),
                    ThreadFile::Syscall => patiently(&self.calls, format!("{thread}/syscall"), text),
                    ThreadFile::Descriptor(n) => link(&format!("{thread}/fd/{n}")),
                    // Some drivers and epoll take a lock of their own for it.
                    ThreadFile::DescriptorInfo(n) => {
                        patiently(&self.calls, format!("{thread}/fdinfo/{n}"), text)
                    }
                    ThreadFile::Shards => patiently(&self.calls, format!("{thread}/environ"), shards),
                }
            }
        }
    }
}

/// Reads a file.
type FileReader = fn(&str) -> Result<Vec<u8>, Errno>;

/// A file whose reading may not return.
fn patiently(asker: &OneAway, path: String, read: FileReader) -> Result<Vec<u8>, Errno> {
    let read = asker.ask(move || read(&path));
    read.unwrap_or(Err(Errno::ETIMEDOUT))
}

/// The start of a file.
fn text(path: &str) -> Result<Vec<u8>, Errno> {
    let mut bytes = Vec::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(MAX_TEXT as u64).read_to_end(&mut bytes));
    read.map(|_| bytes).map_err(errno)
}

/// A file of debugfs, whole.
fn debug(path: &str) -> Result<Vec<u8>, Errno> {
    let mut bytes = Vec::new();
    lprocfs::read(path.as_ref(), &mut bytes)?;
    Ok(bytes)
}

/// A number, in decimal. Empty: none.
fn shards(environ: &str) -> Result<Vec<u8>, Errno> {
    let shards = environ::shards(environ.as_ref()).map_err(errno)?;
    Ok(shards.map(|n| n.to_string().into_bytes()).unwrap_or_default())
}

/// The path that a link in /proc holds; it is not followed.
fn link(path: &str) -> Result<Vec<u8>, Errno> {
    let mut target = readlink(path)?.into_encoded_bytes();
    target.truncate(MAX_TEXT);
    Ok(target)
}

/// A request, and the descriptor that came with it.
struct Received {
    bytes: Vec<u8>,
    folder: Option<OwnedFd>,
}

/// Waits for a request. `None`: the worker has ended.
fn receive(socket: &OwnedFd) -> Result<Option<Received>, Errno> {
    // One byte more shows a request that is too long.
    let mut bytes = [0; REQUEST + 1];
    let message = match message::receive(socket, &mut bytes, MsgFlags::empty()) {
        Err(Errno::ECONNRESET) => return Ok(None),
        message => message?,
    };
    let bytes = bytes.get(..message.length).unwrap_or_default().to_vec();
    // Others than the first are closed here.
    let folder = message.descriptors.into_iter().next();
    Ok((message.length > 0).then_some(Received { bytes, folder }))
}
