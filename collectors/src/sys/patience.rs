//! A question that may never be answered, asked by a separate thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

/// A lock that is free is taken at once.
const PATIENCE: Duration = Duration::from_millis(100);

/// Asks one question at a time: while one has not returned no other is asked.
#[derive(Clone, Debug, Default)]
pub(crate) struct OneAway {
    is_away: Arc<AtomicBool>,
}

impl OneAway {
    /// The answer. `None`: it takes longer than 100 ms, or an earlier question has not returned.
    pub(crate) fn ask<T: Send + 'static>(&self, question: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        self.ask_within(PATIENCE, question)
    }

    /// Whether a question has not returned.
    pub(crate) fn is_away(&self) -> bool {
        self.is_away.load(Ordering::Acquire)
    }

    /// As [`Self::ask`], with another limit than 100 ms.
    pub(crate) fn ask_within<T: Send + 'static>(
        &self,
        patience: Duration,
        question: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        if self.is_away.swap(true, Ordering::AcqRel) {
            return None;
        }
        let (to, answer) = sync_channel(1);
        let away = Away(Arc::clone(&self.is_away));
        let asks = std::thread::Builder::new()
            .name("one-away".to_owned())
            .spawn(move || {
                let answer = question();
                drop(away);
                drop(to.send(answer));
            });
        if asks.is_err() {
            return None;
        }
        answer.recv_timeout(patience).ok()
    }
}

/// A question that is out, until its thread has answered, has panicked or could not be started.
struct Away(Arc<AtomicBool>);

impl Drop for Away {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use testkit::wait::{self, PATIENCE as LONG};

    use super::*;

    #[test]
    fn a_question_that_does_not_return_delays_no_caller_and_is_the_only_one() {
        let asker = OneAway::default();
        assert_eq!(asker.ask_within(LONG, || 1), Some(1));
        let (release, held) = channel::<()>();
        let away = asker.ask(move || {
            let _released = held.recv();
            2
        });
        assert_eq!(away, None);
        assert_eq!(asker.ask(|| -> u32 { unreachable!("one at a time") }), None);
        release.send(()).unwrap();
        wait::until_true("it has returned", LONG, || !asker.is_away()).unwrap();
        let broken = asker.ask_within(LONG, || -> u32 { panic!("a test") });
        assert_eq!(broken, None);
        wait::until_true("it has returned", LONG, || asker.ask(|| 3) == Some(3)).unwrap();
    }
}
