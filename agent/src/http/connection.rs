//! One connection and its time limits. hyper's own header time-out also runs while a kept-alive connection is idle, so
//! the two are told apart here.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, sleep_until};

/// How long a request's head may take.
pub(super) const HEAD: Duration = Duration::from_secs(5);

/// How long nothing may move, neither a request nor an answer.
pub(super) const QUIET: Duration = Duration::from_secs(30);

/// A request's own deadline is at most this, see [`super::routes`].
pub(super) const LONGEST: Duration = Duration::from_secs(60);

/// What a connection is doing, and since when.
#[derive(Clone, Copy)]
enum Phase {
    /// Nothing, or sending an answer; since the last byte.
    Quiet(Instant),
    /// The first byte of a request has come, the last of its head has not.
    Head(Instant),
    /// A request is being answered.
    Busy(Instant),
}

/// The phase of one connection, shared by its stream and its service.
#[derive(Clone)]
pub(super) struct Watch(Rc<Cell<Phase>>);

impl Watch {
    pub(super) fn new() -> Self {
        Self(Rc::new(Cell::new(Phase::Quiet(Instant::now()))))
    }

    /// A whole head has come.
    pub(super) fn busy(&self) {
        self.0.set(Phase::Busy(Instant::now()));
    }

    /// Its answer begins.
    pub(super) fn answered(&self) {
        self.0.set(Phase::Quiet(Instant::now()));
    }

    fn received(&self) {
        if let Phase::Quiet(_) = self.0.get() {
            self.0.set(Phase::Head(Instant::now()));
        }
    }

    fn sent(&self) {
        if let Phase::Quiet(_) = self.0.get() {
            self.answered();
        }
    }

    fn limit(&self) -> Instant {
        match self.0.get() {
            Phase::Quiet(since) => since + QUIET,
            Phase::Head(since) => since + HEAD,
            Phase::Busy(since) => since + LONGEST + HEAD,
        }
    }

    /// Runs `work` to its end or to the limit of the phase it is in.
    pub(super) async fn guard(&self, work: impl Future<Output = ()>) {
        let mut work = pin!(work);
        let mut sleep = pin!(sleep_until(self.limit()));
        poll_fn(|cx| {
            if work.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
            let limit = self.limit();
            if sleep.deadline() != limit {
                sleep.as_mut().reset(limit);
            }
            sleep.as_mut().poll(cx)
        })
        .await;
    }
}

/// A stream that tells its [`Watch`] what moves.
pub(super) struct Watched<S> {
    pub(super) stream: S,
    pub(super) watch: Watch,
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.watch.received();
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        if let Poll::Ready(Ok(1..)) = polled {
            self.watch.sent();
        }
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
