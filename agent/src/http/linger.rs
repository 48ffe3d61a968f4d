//! The end of a connection. To close with unread input makes the kernel send a reset, and the reset may overtake the
//! last answer: so the own side is closed first, and what still comes is read and thrown away, for a while.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_local;
use tokio::time::timeout;

use super::stream::Stream;

/// How many connections may linger. Beyond that they are closed at once, and some lose their answer.
pub(super) const MAX_LINGERING: usize = 64;

/// How long one may linger.
const LINGER: Duration = Duration::from_secs(5);

/// The most that is thrown away, in bytes.
const MAX_DRAIN: usize = 256 * 1024;

/// No place was free.
pub(super) const FULL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 5\r\nConnection: close\r\n\r\n";

/// The first byte was not that of TLS.
pub(super) const NOT_TLS: &[u8] =
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 46\r\n\
    Connection: close\r\n\r\nthis port expects HTTPS, the request was HTTP\n";

/// The head of a request did not come to its end.
pub(super) const TOO_SLOW: &[u8] =
    b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// Where connections end.
#[derive(Clone)]
pub(super) struct Lingering(Arc<Semaphore>);

impl Lingering {
    pub(super) fn new() -> Self {
        Self(Arc::new(Semaphore::new(MAX_LINGERING)))
    }

    /// Says these last words and closes.
    pub(super) fn close(&self, stream: Stream, words: &'static [u8]) {
        match Arc::clone(&self.0).try_acquire_owned() {
            Ok(permit) => drop(spawn_local(linger(stream, words, permit))),
            Err(_) => stream.say_now(words),
        }
    }
}

async fn linger(mut stream: Stream, words: &[u8], _permit: OwnedSemaphorePermit) {
    let end = async {
        stream.write_all(words).await?;
        stream.shutdown().await?;
        let (mut sink, mut left) = ([0; 4096], MAX_DRAIN);
        while left > 0 {
            match stream.read(&mut sink).await? {
                0 => break,
                n => left = left.saturating_sub(n),
            }
        }
        Ok::<(), io::Error>(())
    };
    let ended = timeout(LINGER, end).await;
    tracing::trace!(?ended, "lingered");
}
