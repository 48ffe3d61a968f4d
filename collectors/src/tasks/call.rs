//! The system call of a thread, and what it is about, asked for by a thread of its own: the kernel takes a lock for it that
//! a process which waits while it begins a program holds for as long.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use super::mount;
use crate::sys::task;

/// A lock that is free is had at once.
const PATIENCE: Duration = Duration::from_millis(100);

/// A call, and the mount of the file that it is about; empty where it is not known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct BlockedCall {
    pub(super) text: String,
    pub(super) mount: String,
}

/// Asks, one question at a time: where one has not come back no other is asked.
#[derive(Clone, Debug, Default)]
pub(super) struct CallReader {
    is_away: Arc<AtomicBool>,
}

impl CallReader {
    /// The call of the thread with that folder, of the process with that one.
    pub(super) fn call(&self, process: &Path, thread: &Path) -> BlockedCall {
        let (process, thread) = (process.to_owned(), thread.to_owned());
        self.ask(move || read(&process, &thread))
    }

    fn ask(&self, read: impl FnOnce() -> BlockedCall + Send + 'static) -> BlockedCall {
        if self.is_away.swap(true, Ordering::AcqRel) {
            return BlockedCall::default();
        }
        let (to, answer) = sync_channel(1);
        let is_away = Arc::clone(&self.is_away);
        let asks = std::thread::Builder::new()
            .name("tasks:call".to_owned())
            .spawn(move || {
                let call = read();
                is_away.store(false, Ordering::Release);
                drop(to.send(call));
            });
        if asks.is_err() {
            self.is_away.store(false, Ordering::Release);
            return BlockedCall::default();
        }
        answer.recv_timeout(PATIENCE).unwrap_or_default()
    }
}

fn read(process: &Path, thread: &Path) -> BlockedCall {
    let Some(call) = task::call_at(thread) else {
        return BlockedCall::default();
    };
    BlockedCall {
        text: call.text(thread),
        mount: mount::of(process, thread, call).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use testkit::wait::{self, PATIENCE as LONG};

    use super::*;

    fn call(text: &str) -> BlockedCall {
        BlockedCall {
            text: text.to_owned(),
            ..BlockedCall::default()
        }
    }

    #[test]
    fn a_question_that_does_not_come_back_holds_nobody_up_and_is_the_only_one() {
        let asker = CallReader::default();
        assert_eq!(asker.ask(|| call("read")), call("read"));
        let (release, held) = channel::<()>();
        let away = asker.ask(move || {
            let _released = held.recv();
            call("late")
        });
        assert_eq!(away, BlockedCall::default());
        assert_eq!(
            asker.ask(|| unreachable!("one at a time")),
            BlockedCall::default()
        );
        release.send(()).unwrap();
        wait::until_true("it is back", LONG, || asker.ask(|| call("read")) == call("read")).unwrap();
    }
}
