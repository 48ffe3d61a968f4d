//! The bytes of a connection: as they are, or inside TLS. The handshake has the limits of a request's head: time runs from its
//! first byte, and a silent connection gives its place to others.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::connection::{Watch, WatchedStream};
use sys::send;

/// First byte of a TLS connection: the type of a handshake's record.
const HANDSHAKE: u8 = 22;

/// A connection. Its [`Watch`] sees the bytes of the network, so that one byte of a record now and then counts as slow.
pub(super) enum Stream {
    /// Without TLS.
    Plain(WatchedStream<TcpStream>),
    /// After the handshake.
    Tls(Box<TlsStream<WatchedStream<TcpStream>>>),
}

/// How a connection began.
pub(super) enum Opened {
    /// It can be used.
    Stream(Stream),
    /// Another protocol than TLS.
    NotTls(Stream),
    /// The handshake failed, or the client has gone. An alert that says why is on its way.
    Failed(Stream, io::Error),
}

impl Stream {
    /// Without TLS.
    pub(super) fn plain(stream: TcpStream, watch: Watch) -> Self {
        Self::Plain(WatchedStream { stream, watch })
    }

    /// Does the handshake, if there is a configuration for it.
    pub(super) async fn open(stream: TcpStream, watch: Watch, tls: Option<&Arc<ServerConfig>>) -> Opened {
        let mut plain = WatchedStream {
            stream,
            watch: watch.clone(),
        };
        let Some(tls) = tls else {
            return Opened::Stream(Self::Plain(plain));
        };
        match first_byte(&mut plain).await {
            Ok(Some(HANDSHAKE)) => {}
            Ok(Some(_)) => return Opened::NotTls(Self::Plain(plain)),
            Ok(None) => return Opened::Failed(Self::Plain(plain), io::ErrorKind::UnexpectedEof.into()),
            Err(error) => return Opened::Failed(Self::Plain(plain), error),
        }
        match TlsAcceptor::from(Arc::clone(tls))
            .accept(plain)
            .into_fallible()
            .await
        {
            Ok(stream) => {
                watch.idle();
                Opened::Stream(Self::Tls(Box::new(stream)))
            }
            Err((error, plain)) => Opened::Failed(Self::Plain(plain), error),
        }
    }

    /// Says this if it can be sent at once. Not in TLS.
    pub(super) fn say_now(&self, words: &[u8]) {
        if let Self::Plain(plain) = self
            && !words.is_empty()
        {
            sys::ignore(send::now(&plain.stream, words));
        }
    }
}

/// Waits for a byte and leaves it where it is. `None`: the client has gone.
async fn first_byte(plain: &mut WatchedStream<TcpStream>) -> io::Result<Option<u8>> {
    let mut byte = [0];
    let number = poll_fn(|cx| {
        let polled = plain.stream.poll_peek(cx, &mut ReadBuf::new(&mut byte));
        plain.watch.read();
        polled
    });
    Ok((number.await? > 0).then_some(byte[0]))
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_shutdown(cx),
        }
    }
}
