//! The filesystem: the position of each reader, and the answer to each call.

use std::any::Any;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, Errno, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, KernelConfig,
    LockOwner, OpenFlags, PollEvents, PollFlags, PollNotifier, ReplyAttr, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyPoll, ReplyWrite, Request, TimeOrNow, WriteFlags,
};

use super::ring::Ring;
use crate::mount::{HUNG_FILE, HUNG_INO, attr, parallel_lookups};
use crate::proc::Status;

const KMSG: INodeNo = INodeNo(3);
const NO_CACHE: Duration = Duration::ZERO;

/// File position after SEEK_END and SEEK_DATA. Never 0, so that a read at 0 after any other call can only mean
/// SEEK_SET, which the kernel handles without a call.
const SOUGHT: u64 = 4096;

/// How soon a blocked reader notices a signal. See [`Shared::watch_signals`].
const SIGNAL_LATENCY: Duration = Duration::from_millis(50);

#[derive(Debug)]
struct Reader {
    /// The next record to read.
    seq: u64,
    /// The position that the kernel assumes; a read at another offset means a seek.
    position: u64,
    poll: Option<PollNotifier>,
}

#[derive(Debug)]
struct Blocked {
    fh: u64,
    offset: u64,
    size: u32,
    task: u32,
    reply: ReplyData,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) ring: Ring,
    readers: HashMap<u64, Reader>,
    last_fh: u64,
    blocked: Vec<Blocked>,
    hang: bool,
    /// Replies held back until the connection ends.
    parked: Vec<Box<dyn Any + Send>>,
    hung: Option<ReplyData>,
    closed: bool,
}

#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

enum Answer {
    Record(Vec<u8>),
    Error(Errno),
    Wait,
}

impl State {
    fn step(&mut self, fh: u64, offset: u64, size: u32) -> Answer {
        let Some(reader) = self.readers.get_mut(&fh) else {
            return Answer::Error(Errno::EBADF);
        };
        if offset != reader.position {
            if offset != 0 {
                // The device has no positions.
                return Answer::Error(Errno::ESPIPE);
            }
            reader.seq = self.ring.first();
            reader.position = 0;
        }
        if reader.seq < self.ring.first() {
            reader.seq = self.ring.first();
            return Answer::Error(Errno::EPIPE);
        }
        let Some(record) = self.ring.get(reader.seq) else {
            return Answer::Wait;
        };
        // Like the device since Linux 5.10: the record that did not fit is lost to this reader.
        reader.seq += 1;
        if record.len() > size as usize {
            return Answer::Error(Errno::EINVAL);
        }
        reader.position = offset + record.len() as u64;
        Answer::Record(record.to_vec())
    }

    fn seek(&mut self, fh: u64, seq: u64) -> bool {
        self.readers
            .get_mut(&fh)
            .map(|r| (r.seq, r.position) = (seq, SOUGHT))
            .is_some()
    }

    fn events(&self, reader: &Reader) -> PollEvents {
        if reader.seq < self.ring.first() {
            PollEvents::POLLIN | PollEvents::POLLRDNORM | PollEvents::POLLERR | PollEvents::POLLPRI
        } else if reader.seq < self.ring.next() {
            PollEvents::POLLIN | PollEvents::POLLRDNORM
        } else {
            PollEvents::empty()
        }
    }
}

fn answer(answer: Answer, reply: ReplyData) {
    match answer {
        Answer::Record(bytes) => reply.data(&bytes),
        Answer::Error(errno) => reply.error(errno),
        Answer::Wait => reply.error(Errno::EAGAIN),
    }
}

impl Shared {
    pub(super) fn new() -> Arc<Self> {
        let state = State {
            ring: Ring::new(),
            readers: HashMap::new(),
            last_fh: 0,
            blocked: Vec::new(),
            hang: false,
            parked: Vec::new(),
            hung: None,
            closed: false,
        };
        Arc::new(Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the ring, then answers blocked readers and wakes pollers.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Ring) -> T) -> T {
        let mut state = self.lock();
        let result = change(&mut state.ring);
        if !state.hang {
            for wait in std::mem::take(&mut state.blocked) {
                match state.step(wait.fh, wait.offset, wait.size) {
                    Answer::Wait => state.blocked.push(wait),
                    other => answer(other, wait.reply),
                }
            }
        }
        let ready: Vec<PollNotifier> = state
            .readers
            .values()
            .filter(|r| !state.events(r).is_empty())
            .filter_map(|r| r.poll.clone())
            .collect();
        for reader in state.readers.values_mut() {
            if ready
                .iter()
                .any(|n| reader.poll.as_ref().is_some_and(|p| p.handle().0 == n.handle().0))
            {
                reader.poll = None;
            }
        }
        drop(state);
        for notifier in ready {
            // The poller may have closed the file meanwhile.
            notifier.notify().ok();
        }
        result
    }

    pub(super) fn ring<T>(&self, look: impl FnOnce(&Ring) -> T) -> T {
        look(&self.lock().ring)
    }

    pub(super) fn readers(&self) -> usize {
        self.lock().readers.len()
    }

    pub(super) fn waiting(&self) -> usize {
        let state = self.lock();
        state.blocked.len() + state.parked.len()
    }

    pub(super) fn hang(&self, on: bool) {
        let mut state = self.lock();
        state.hang = on;
        let blocked = std::mem::take(&mut state.blocked);
        if on {
            state.parked.extend(
                blocked
                    .into_iter()
                    .map(|b| Box::new(b.reply) as Box<dyn Any + Send>),
            );
        } else {
            // A dropped reply answers EIO, like a device that recovers.
            state.parked.clear();
        }
    }

    pub(super) fn hung_file_is_read(&self) -> bool {
        self.lock().hung.is_some()
    }

    pub(super) fn release_hung_file(&self) {
        drop(self.lock().hung.take());
    }

    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    /// Ends blocked reads of tasks with a pending signal. The FUSE library does not support interrupts, so this polls
    /// the waiting tasks; without any, it sleeps.
    pub(super) fn watch_signals(&self) {
        let mut state = self.lock();
        while !state.closed {
            if state.blocked.is_empty() {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            state = self
                .changed
                .wait_timeout(state, SIGNAL_LATENCY)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
            let signalled = |b: &mut Blocked| {
                Status::read(b.task)
                    .and_then(|s| s.pending_signals())
                    .map_or(true, |signals| signals != 0)
            };
            for wait in state.blocked.extract_if(.., signalled) {
                wait.reply.error(Errno::EINTR);
            }
        }
    }
}

pub(super) struct Files(pub(super) Arc<Shared>);

impl Files {
    fn attr(ino: INodeNo) -> Option<fuser::FileAttr> {
        match ino {
            INodeNo::ROOT => Some(attr(ino, FileType::Directory, 0o755, 0)),
            HUNG_INO => Some(attr(ino, FileType::RegularFile, 0o400, 0)),
            KMSG => Some(attr(ino, FileType::RegularFile, 0o644, 0)),
            _ => None,
        }
    }
}

impl Filesystem for Files {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        parallel_lookups(config);
        Ok(())
    }

    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let ino = match name.to_str() {
            Some("kmsg") => KMSG,
            Some(HUNG_FILE) => HUNG_INO,
            _ => INodeNo(0),
        };
        match Self::attr(ino) {
            Some(attr) => reply.entry(&NO_CACHE, &attr, Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, fh: Option<FileHandle>, reply: ReplyAttr) {
        let Some(mut attr) = Self::attr(ino) else {
            return reply.error(Errno::ENOENT);
        };
        // stat and fstat have no handle; a call with one is SEEK_END, which adds its offset to this size.
        if let Some(fh) = fh {
            let mut state = self.0.lock();
            let end = state.ring.next();
            if state.seek(fh.0, end) {
                attr.size = SOUGHT;
            }
        }
        reply.attr(&NO_CACHE, &attr);
    }

    // `echo > kmsg` truncates first; a device ignores that.
    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        match Self::attr(ino) {
            Some(attr) => reply.attr(&NO_CACHE, &attr),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn readdir(&self, _: &Request, _: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let entries = [
            (INodeNo::ROOT, FileType::Directory, "."),
            (INodeNo::ROOT, FileType::Directory, ".."),
            (KMSG, FileType::RegularFile, "kmsg"),
        ];
        for (next, (ino, kind, name)) in (1_u64..).zip(entries) {
            if next > offset && reply.add(ino, next, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn open(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let mut state = self.0.lock();
        if ino != KMSG {
            return reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
        }
        if state.hang {
            state.parked.push(Box::new(reply));
            return;
        }
        state.last_fh += 1;
        let (fh, seq) = (state.last_fh, state.ring.first());
        state.readers.insert(
            fh,
            Reader {
                seq,
                position: 0,
                poll: None,
            },
        );
        reply.opened(FileHandle(fh), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn read(
        &self,
        request: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        size: u32,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let mut state = self.0.lock();
        if ino == HUNG_INO {
            state.hung = Some(reply);
        } else if state.hang {
            state.parked.push(Box::new(reply));
        } else {
            match state.step(fh.0, offset, size) {
                Answer::Wait if flags.0 & libc::O_NONBLOCK == 0 => {
                    state.blocked.push(Blocked {
                        fh: fh.0,
                        offset,
                        size,
                        task: request.pid(),
                        reply,
                    });
                    self.0.changed.notify_all();
                }
                other => answer(other, reply),
            }
        }
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        fh: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
        if let Some(reader) = self
            .0
            .lock()
            .readers
            .get_mut(&fh.0)
            .filter(|r| r.position == offset)
        {
            reader.position += u64::from(length);
        }
        reply.written(length);
        let text = String::from_utf8_lossy(data);
        let (prio, text) = super::written(&text);
        let now = super::now_usec();
        self.0
            .change(|ring| ring.push(super::ring::print(prio, ring.next(), now, text, &[])));
    }

    // Nothing to flush. After ENOSYS the kernel stops sending flush, which could hang a closing process.
    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        fh: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.0.lock().readers.remove(&fh.0);
        reply.ok();
    }

    fn lseek(&self, _: &Request, _: INodeNo, fh: FileHandle, offset: i64, whence: i32, reply: ReplyLseek) {
        let mut state = self.0.lock();
        let cleared = state.ring.cleared();
        if offset != 0 {
            reply.error(Errno::ESPIPE);
        } else if whence != libc::SEEK_DATA {
            reply.error(Errno::EINVAL);
        } else if state.seek(fh.0, cleared) {
            reply.offset(SOUGHT as i64);
        } else {
            reply.error(Errno::EBADF);
        }
    }

    fn poll(
        &self,
        _: &Request,
        _: INodeNo,
        fh: FileHandle,
        notifier: PollNotifier,
        _: PollEvents,
        flags: PollFlags,
        reply: ReplyPoll,
    ) {
        let mut state = self.0.lock();
        let Some(reader) = state.readers.get_mut(&fh.0) else {
            return reply.error(Errno::EBADF);
        };
        if flags.contains(PollFlags::FUSE_POLL_SCHEDULE_NOTIFY) {
            reader.poll = Some(notifier);
        }
        let events = state
            .readers
            .get(&fh.0)
            .map_or(PollEvents::empty(), |r| state.events(r));
        reply.poll(events);
    }
}
