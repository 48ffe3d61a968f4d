//! The sending side of a worker's socket, shared by its threads.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};

use super::proto::{self, FromWorker};

/// What may wait for a flush, in bytes.
const FULL: usize = 64 * 1024;

/// A failed write means that the daemon is gone; the end of the input, which follows, ends the process.
#[derive(Clone, Debug)]
pub(super) struct Out(Arc<Mutex<Pipe>>);

#[derive(Debug)]
struct Pipe {
    stream: UnixStream,
    waiting: Vec<u8>,
}

impl Pipe {
    fn flush(&mut self) {
        if !self.waiting.is_empty() {
            sys::ignore(self.stream.write_all(&self.waiting));
            self.waiting.clear();
            self.waiting.shrink_to(FULL);
        }
    }
}

impl Out {
    pub(super) fn new(stream: UnixStream) -> Self {
        let waiting = Vec::new();
        Self(Arc::new(Mutex::new(Pipe { stream, waiting })))
    }

    /// Sends a frame, behind those that wait.
    pub(super) fn send(&self, frame: &FromWorker) {
        let mut pipe = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        proto::append(frame, &mut pipe.waiting);
        pipe.flush();
    }

    /// Leaves a frame for the next [`Out::send`] or [`Out::flush`]: what belongs together takes one write.
    pub(super) fn queue(&self, frame: &FromWorker) {
        let mut pipe = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        proto::append(frame, &mut pipe.waiting);
        if pipe.waiting.len() >= FULL {
            pipe.flush();
        }
    }

    /// Sends what waits.
    pub(super) fn flush(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).flush();
    }
}
