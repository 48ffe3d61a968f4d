//! Log lines are written by a thread of their own: a full pipe behind stderr must not block the thread that logs.

use std::io::{self, Write};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// Limit of queued lines; more are dropped and counted.
const WAITING: usize = 1024;

#[derive(Clone)]
struct Lines {
    to: SyncSender<Vec<u8>>,
    dropped: Arc<Mutex<u64>>,
}

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut dropped = self.dropped.lock().unwrap_or_else(PoisonError::into_inner);
        let mut bytes = line.to_vec();
        if *dropped > 0 {
            bytes = format!("... {} lines dropped\n", *dropped).into_bytes();
            bytes.extend_from_slice(line);
        }
        match self.to.try_send(bytes) {
            Ok(()) => *dropped = 0,
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => *dropped += 1,
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// Sends tracing's lines to stderr. `level` is a level or a filter in tracing's syntax; the variable `NODEWARDEN_LOG`
/// overrides it.
///
/// # Errors
/// When the thread cannot be started.
pub fn start(level: &str) -> io::Result<()> {
    start_after(level, || ())
}

/// As [`start`]; the thread calls `first` before it writes.
///
/// # Errors
/// As [`start`].
pub fn start_after(level: &str, first: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let (to, from) = sync_channel::<Vec<u8>>(WAITING);
    thread::Builder::new().name("log".to_owned()).spawn(move || {
        first();
        for line in from {
            // Without stderr there is no place to report the error.
            crate::ignore(io::stderr().write_all(&line));
        }
    })?;
    let filter = std::env::var("NODEWARDEN_LOG").unwrap_or_else(|_| level.to_owned());
    let filter = EnvFilter::try_new(filter).unwrap_or_else(|_| EnvFilter::new("info"));
    let lines = Lines {
        to,
        dropped: Arc::default(),
    };
    // Only tests set a second subscriber in one process.
    crate::ignore(
        tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(lines)
            .with_target(false)
            .with_ansi(false)
            .try_init(),
    );
    Ok(())
}
