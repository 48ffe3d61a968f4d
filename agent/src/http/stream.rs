//! The bytes of a connection: as they are, or inside TLS. The handshake has the limits of a request's head: time runs from its
//! first byte, and a silent connection gives its place to others.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::{CertificateError, Error, ServerConfig};
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
                watch.opened();
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

/// Why a handshake failed, roughly: what the log is limited by. `None`: the client has only gone.
pub(super) fn reason(error: &io::Error) -> Option<&'static str> {
    let error = error.get_ref()?.downcast_ref::<Error>()?;
    Some(match error {
        Error::NoCertificatesPresented => "no certificate",
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => "issuer",
        Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure) => "name",
        Error::InvalidCertificate(
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. },
        ) => "time",
        Error::InvalidCertificate(_) => "certificate",
        Error::AlertReceived(_) => "alert",
        Error::PeerIncompatible(_) => "incompatible",
        _ => "protocol",
    })
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

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests run openssl")]
mod tests {
    use std::process::{Command, Stdio};
    use std::time::Duration;

    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use tokio::net::TcpListener;

    use super::super::connection::ConnectionPhase;
    use super::*;

    fn server() -> Arc<ServerConfig> {
        let mut command = Command::new("openssl");
        command.args([
            "req", "-x509", "-subj", "/CN=a", "-newkey", "ec", "-nodes", "-batch",
        ]);
        command.args(["-pkeyopt", "ec_paramgen_curve:prime256v1", "-keyout", "-"]);
        let made = testkit::exec::run(command, b"", Duration::from_secs(60)).unwrap();
        let pem = made.stdout.as_bytes();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![CertificateDer::from_pem_slice(pem).unwrap()],
                PrivateKeyDer::from_pem_slice(pem).unwrap(),
            );
        Arc::new(config.unwrap())
    }

    #[tokio::test]
    async fn after_its_handshake_a_connection_has_just_come() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = Command::new("openssl")
            .args([
                "s_client",
                "-connect",
                &listener.local_addr().unwrap().to_string(),
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let watch = Watch::new();
        let began = watch.phase();
        let opened = Stream::open(stream, watch.clone(), Some(&server())).await;
        assert!(matches!(opened, Opened::Stream(Stream::Tls(_))));
        assert!(
            matches!(watch.phase(), ConnectionPhase::New(_)),
            "{:?}",
            watch.phase()
        );
        assert_ne!(watch.phase(), began, "its time begins again");
        client.kill().unwrap();
        client.wait().unwrap();
    }

    #[test]
    fn a_client_that_went_away_is_no_failure_of_a_handshake() {
        let of = |error: Error| reason(&io::Error::new(io::ErrorKind::InvalidData, error));
        assert_eq!(reason(&io::ErrorKind::UnexpectedEof.into()), None);
        assert_eq!(of(Error::NoCertificatesPresented), Some("no certificate"));
        assert_eq!(of(CertificateError::Expired.into()), Some("time"));
        assert_eq!(of(CertificateError::BadEncoding.into()), Some("certificate"));
    }
}
