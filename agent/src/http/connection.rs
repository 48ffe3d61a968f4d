//! One connection and its time limits. hyper's own header time-out also runs while a kept-alive connection is idle,
//! so the two are separate here.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, sleep_until};

/// Time limit of a request's head.
pub(super) const HEAD: Duration = Duration::from_secs(5);

/// Limit of an open connection's idle time. Not a common scrape interval: a request that crosses with the close is
/// lost.
pub(super) const IDLE: Duration = Duration::from_secs(130);

/// Limit of the time in which a client reads nothing of its answer.
pub(super) const STALL: Duration = Duration::from_secs(10);

/// Time limit of the whole answer.
pub(super) const ANSWER: Duration = Duration::from_secs(60);

/// Limit of a request's own deadline, see [`super::routes`].
pub(super) const LONGEST: Duration = Duration::from_secs(60);

/// The phase of a connection, and since when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionPhase {
    /// Nothing has arrived yet.
    New(Instant),
    /// Between requests.
    Idle(Instant),
    /// The first byte of a request has arrived, the last of its head has not.
    Head(Instant),
    /// A request is being answered.
    Busy(Instant),
    /// Its answer is being sent: since when, and when the client last read some of it.
    Answer(Instant, Instant),
}

impl ConnectionPhase {
    fn limit(self) -> Instant {
        match self {
            Self::New(since) | Self::Idle(since) => since + IDLE,
            Self::Head(since) => since + HEAD,
            Self::Busy(since) => since + LONGEST + HEAD,
            Self::Answer(since, moved) => (since + ANSWER).min(moved + STALL),
        }
    }
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionEnd {
    /// Normally.
    Done,
    /// A time limit passed in this phase.
    Late(ConnectionPhase),
    /// Its place was needed.
    Evicted,
}

struct WatchState {
    phase: Cell<ConnectionPhase>,
    evicted: Cell<bool>,
    /// It has a slot, and its stream was not read yet: its request may already be there.
    unread: Cell<bool>,
    task: RefCell<Option<Waker>>,
}

/// The phase of one connection, shared by its stream, its service and the table of places.
#[derive(Clone)]
pub(super) struct Watch(Rc<WatchState>);

impl Watch {
    pub(super) fn new() -> Self {
        Self(Rc::new(WatchState {
            phase: Cell::new(ConnectionPhase::New(Instant::now())),
            evicted: Cell::new(false),
            unread: Cell::new(false),
            task: RefCell::new(None),
        }))
    }

    pub(super) fn phase(&self) -> ConnectionPhase {
        self.0.phase.get()
    }

    /// Ends the connection.
    pub(super) fn evict(&self) {
        self.0.evicted.set(true);
        if let Some(task) = self.0.task.take() {
            task.wake();
        }
    }

    #[cfg(test)]
    pub(super) fn is_evicted(&self) -> bool {
        self.0.evicted.get()
    }

    /// It has its slot: its time starts now, and it stays until its stream was read once.
    pub(super) fn seated(&self) {
        self.0.phase.set(ConnectionPhase::New(Instant::now()));
        self.0.unread.set(true);
    }

    /// Whether its stream has not been read since it has its slot.
    pub(super) fn is_unread(&self) -> bool {
        self.0.unread.get()
    }

    /// Its stream was read.
    pub(super) fn read(&self) {
        self.0.unread.set(false);
    }

    /// A whole head has arrived.
    pub(super) fn busy(&self) {
        self.0.phase.set(ConnectionPhase::Busy(Instant::now()));
    }

    /// Its answer begins.
    pub(super) fn answered(&self) {
        let now = Instant::now();
        self.0.phase.set(ConnectionPhase::Answer(now, now));
    }

    fn received(&self) {
        if let ConnectionPhase::New(_) | ConnectionPhase::Idle(_) = self.phase() {
            self.0.phase.set(ConnectionPhase::Head(Instant::now()));
        }
    }

    fn sent(&self) {
        if let ConnectionPhase::Answer(since, _) = self.phase() {
            self.0.phase.set(ConnectionPhase::Answer(since, Instant::now()));
        }
    }

    /// hyper has nothing left to send.
    fn flushed(&self) {
        if let ConnectionPhase::Answer(since, moved) = self.phase()
            && moved > since
        {
            self.0.phase.set(ConnectionPhase::Idle(Instant::now()));
        }
    }

    /// Its handshake is done: the first request may come a moment later, as after a connect.
    pub(super) fn opened(&self) {
        self.0.phase.set(ConnectionPhase::New(Instant::now()));
    }

    /// Runs `work` to its end, to the limit of its phase, or until the place is needed.
    pub(super) async fn guard(&self, work: impl Future<Output = ()>) -> ConnectionEnd {
        let mut work = pin!(work);
        let mut sleep = pin!(sleep_until(self.phase().limit()));
        poll_fn(|cx| {
            if self.0.evicted.get() {
                return Poll::Ready(ConnectionEnd::Evicted);
            }
            self.0.task.replace(Some(cx.waker().clone()));
            if work.as_mut().poll(cx).is_ready() {
                return Poll::Ready(ConnectionEnd::Done);
            }
            let limit = self.phase().limit();
            if sleep.deadline() != limit {
                sleep.as_mut().reset(limit);
            }
            sleep
                .as_mut()
                .poll(cx)
                .map(|()| ConnectionEnd::Late(self.phase()))
        })
        .await
    }
}

/// A stream that reports its progress to its [`Watch`].
pub(super) struct WatchedStream<S> {
    pub(super) stream: S,
    pub(super) watch: Watch,
}

impl<S: AsyncRead + Unpin> AsyncRead for WatchedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.watch.read();
        if buf.filled().len() > before {
            self.watch.received();
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WatchedStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        if let Poll::Ready(Ok(1..)) = polled {
            self.watch.sent();
        }
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(cx);
        if let Poll::Ready(Ok(())) = polled {
            self.watch.flushed();
        }
        polled
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_phase_ends() {
        let t = Instant::now();
        let later = |s| t + Duration::from_secs(s);
        assert_eq!(ConnectionPhase::New(t).limit(), t + IDLE);
        assert_eq!(ConnectionPhase::Idle(t).limit(), t + IDLE);
        assert_eq!(ConnectionPhase::Head(t).limit(), t + HEAD);
        assert_eq!(ConnectionPhase::Busy(t).limit(), t + LONGEST + HEAD);
        assert_eq!(ConnectionPhase::Answer(t, later(5)).limit(), later(5) + STALL);
        // One byte now and then does not extend an answer for ever.
        assert_eq!(ConnectionPhase::Answer(t, later(59)).limit(), t + ANSWER);
    }

    #[test]
    fn phases_follow_the_bytes() {
        let watch = Watch::new();
        watch.received();
        let ConnectionPhase::Head(first) = watch.phase() else {
            panic!("{:?}", watch.phase())
        };
        watch.received();
        assert_eq!(
            watch.phase(),
            ConnectionPhase::Head(first),
            "a drip does not prolong the head"
        );
        watch.busy();
        watch.received();
        watch.sent();
        assert!(matches!(watch.phase(), ConnectionPhase::Busy(_)));
        watch.answered();
        watch.flushed();
        assert!(
            matches!(watch.phase(), ConnectionPhase::Answer(..)),
            "nothing was sent yet"
        );
        while !matches!(watch.phase(), ConnectionPhase::Answer(a, b) if b > a) {
            watch.sent();
        }
        watch.flushed();
        assert!(matches!(watch.phase(), ConnectionPhase::Idle(_)));
    }
}
