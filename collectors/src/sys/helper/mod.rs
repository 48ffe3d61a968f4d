//! Helpers: processes with one or two rights each, for a worker that parses what users write and so must have none.
//!
//! A request has 32 bytes and, of a cgroup, its open folder; a reply is an error number with raw bytes or a descriptor. A
//! helper opens only files of a fixed list and makes only listed calls.

mod client;
mod debugfs;
mod serve;

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;

use crate::domain::{self, Helper};
use crate::sys::{bpf, lprocfs, nvme};
pub(crate) use client::Client;
pub(crate) use debugfs::DebugFile;
pub use serve::serve;

/// Size of a request, in bytes.
const REQUEST: usize = 32;
/// Limit of a file's text in a reply, in bytes: `fdinfo` of an epoll instance has a line for each file in it.
const MAX_TEXT: usize = 4096;

/// One of the files of a thread that the kernel shows to tracers only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ThreadFile {
    /// `wchan`
    Wchan,
    /// `syscall`
    Syscall,
    /// The target of the link `fd/N`.
    Descriptor(u32),
    /// `fdinfo/N`
    DescriptorInfo(u32),
    /// The number of shards in `environ`.
    Shards,
}

/// What a worker may ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Question {
    /// `BPF_PROG_QUERY` of a cgroup's device programs. The folder comes with the request.
    Attached,
    /// `BPF_OBJ_GET_INFO_BY_FD` of a device program, by its number.
    Program(u32),
    /// A file of a thread.
    Thread {
        /// Process.
        pid: u32,
        /// Thread.
        tid: u32,
        /// File.
        file: ThreadFile,
    },
    /// A connection to the socket of mmfsd.
    Mmpmon,
    /// A file of Lustre in debugfs.
    Debug(DebugFile),
    /// The SMART / Health Information log of an NVMe controller.
    SmartLog(nvme::Controller),
}

impl Question {
    fn encode(self) -> [u8; REQUEST] {
        let [kind, a, b, c] = match self {
            Self::Attached => [1, 0, 0, 0],
            Self::Program(id) => [2, id, 0, 0],
            Self::Thread { pid, tid, file } => match file {
                ThreadFile::Wchan => [3, pid, tid, 0],
                ThreadFile::Syscall => [4, pid, tid, 0],
                ThreadFile::Descriptor(n) => [5, pid, tid, n],
                ThreadFile::DescriptorInfo(n) => [6, pid, tid, n],
                ThreadFile::Shards => [7, pid, tid, 0],
            },
            Self::Debug(file) => return encoded(8, file.encode()),
            Self::Mmpmon => [9, 0, 0, 0],
            Self::SmartLog(nvme::Controller {
                number,
                device: (major, minor),
            }) => [10, number, major, minor],
        };
        encoded(kind, [a, b, c, 0, 0, 0])
    }

    /// `None`: no request of this build.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let (words, []) = bytes.as_chunks::<4>() else {
            return None;
        };
        let words: Vec<u32> = words.iter().copied().map(u32::from_ne_bytes).collect();
        let [kind, rest @ .., 0] = words.as_slice() else {
            return None;
        };
        let rest: [u32; debugfs::WORDS] = rest.try_into().ok()?;
        if *kind == 8 {
            return Some(Self::Debug(DebugFile::decode(rest)));
        }
        let [a, b, c, 0, 0, 0] = rest else {
            return None;
        };
        let thread = |file| Some(Self::Thread { pid: a, tid: b, file });
        match (*kind, b, c) {
            (1, 0, 0) if a == 0 => Some(Self::Attached),
            (2, 0, 0) => Some(Self::Program(a)),
            (3, _, 0) => thread(ThreadFile::Wchan),
            (4, _, 0) => thread(ThreadFile::Syscall),
            (5, ..) => thread(ThreadFile::Descriptor(c)),
            (6, ..) => thread(ThreadFile::DescriptorInfo(c)),
            (7, _, 0) => thread(ThreadFile::Shards),
            (9, 0, 0) if a == 0 => Some(Self::Mmpmon),
            (10, ..) => Some(Self::SmartLog(nvme::Controller {
                number: a,
                device: (b, c),
            })),
            _ => None,
        }
    }

    /// The helper that answers it.
    fn helper(self) -> &'static Helper {
        match self {
            Self::Attached | Self::Program(_) => &domain::BPF,
            Self::Thread { .. } => &domain::PROC,
            Self::Mmpmon => &domain::MMPMON,
            Self::Debug(_) => &domain::DEBUGFS,
            Self::SmartLog(_) => &domain::NVME,
        }
    }

    /// Limit of the reply's content, in bytes.
    const fn most(self) -> usize {
        match self {
            Self::Program(_) => bpf::MOST_ENCODED,
            Self::Attached | Self::Thread { .. } | Self::Mmpmon => MAX_TEXT,
            Self::Debug(_) => lprocfs::LONGEST,
            Self::SmartLog(_) => nvme::LENGTH,
        }
    }
}

/// A request: its kind, and what it is about.
fn encoded(kind: u32, about: [u32; debugfs::WORDS]) -> [u8; REQUEST] {
    let mut bytes = [0; REQUEST];
    for (to, word) in bytes.chunks_exact_mut(4).zip([kind].into_iter().chain(about)) {
        to.copy_from_slice(&u32::to_ne_bytes(word));
    }
    bytes
}

static CLIENTS: OnceLock<BTreeMap<&'static str, Client>> = OnceLock::new();

/// The sockets of this process's helpers. Once, before a source is opened; without it this process reads with its own
/// rights.
pub fn install(sockets: Vec<(&'static Helper, OwnedFd)>) {
    let clients = sockets
        .into_iter()
        .map(|(helper, fd)| (helper.name, Client::new(fd)));
    CLIENTS.get_or_init(|| clients.collect());
}

/// Waits until each helper has confined itself and answers, or has ended.
pub fn wait() {
    let own = Question::Thread {
        pid: std::process::id(),
        tid: std::process::id(),
        file: ThreadFile::Wchan,
    };
    for client in CLIENTS.get().into_iter().flat_map(BTreeMap::values) {
        // The wrong helper refuses it, which is an answer too.
        drop(client.ask(own, None));
    }
}

/// The helper of that kind, if this process has one.
pub(crate) fn of(helper: &Helper) -> Option<&'static Client> {
    CLIENTS.get()?.get(helper.name)
}

#[cfg(test)]
mod tests;
