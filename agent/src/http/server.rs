//! The thread `http`: it accepts, and gives every connection a task of its own.

use std::cell::Cell;
use std::convert::Infallible;
use std::io::{self, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::rc::Rc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::sync::oneshot;
use tokio::task::{LocalSet, spawn_local};

use super::connection::{Watch, Watched};
use super::routes::Routes;
use super::{Core, control};

/// The most connections at a time; whoever comes then is told 503.
const MAX_CONNECTIONS: usize = 64;

/// The most that a request's head may hold, in bytes.
const MAX_HEAD: usize = 16 * 1024;

/// The running server.
#[derive(Debug)]
pub struct Server {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Server {
    /// Ends the thread; open connections are closed.
    pub fn stop(self) {
        drop(self.stop);
        if self.thread.join().is_err() {
            tracing::error!("the http thread panicked");
        }
    }

    /// Waits as long as it serves.
    pub fn wait(self) {
        if self.thread.join().is_err() {
            tracing::error!("the http thread panicked");
        }
        drop(self.stop);
    }

    /// Whether the thread has ended by itself.
    pub fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }
}

/// Starts the server on listeners from [`super::bind`] and [`super::bind_control`].
///
/// # Errors
/// When the thread or its runtime cannot be made.
pub fn spawn<C: Core>(core: C, tcp: Vec<TcpListener>, control: Option<UnixListener>) -> io::Result<Server> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()?;
    let (stop, stopped) = oneshot::channel::<()>();
    let thread = thread::Builder::new().name("http".to_owned()).spawn(move || {
        LocalSet::new().block_on(&runtime, async move {
            let routes = Rc::new(Routes::new(core.clone()));
            let open = Slots::new(MAX_CONNECTIONS);
            for listener in tcp {
                spawn_local(accept(listener, Rc::clone(&routes), open.clone()));
            }
            if let Some(listener) = control {
                spawn_local(control::accept(listener, core));
            }
            // The sender is only ever dropped.
            stopped.await.unwrap_or_default();
        });
    })?;
    Ok(Server { stop, thread })
}

async fn accept<C: Core>(listener: TcpListener, routes: Rc<Routes<C>>, open: Slots) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "cannot accept connections"),
    };
    loop {
        match listener.accept().await {
            Ok((stream, _)) => match open.take() {
                Some(slot) => {
                    spawn_local(serve(stream, Rc::clone(&routes), slot));
                }
                None => refuse(stream),
            },
            Err(error) => {
                // Out of descriptors, most likely: they come back as connections end.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

fn refuse(stream: tokio::net::TcpStream) {
    const FULL: &[u8] =
        b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 5\r\nConnection: close\r\n\r\n";
    let sent = stream.into_std().and_then(|mut s| s.write_all(FULL));
    tracing::debug!(?sent, "too many connections");
}

async fn serve<C: Core>(stream: tokio::net::TcpStream, routes: Rc<Routes<C>>, _slot: Slot) {
    let watch = Watch::new();
    // Else the last, short segment of an exposition waits for the scraper's delayed acknowledgement.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY");
    }
    let io = TokioIo::new(Watched {
        stream,
        watch: watch.clone(),
    });
    let service = service_fn(|request| {
        let (routes, watch) = (Rc::clone(&routes), watch.clone());
        async move {
            watch.busy();
            let response = routes.answer(request).await;
            watch.answered();
            Ok::<_, Infallible>(response)
        }
    });
    let connection = http1::Builder::new()
        .header_read_timeout(None)
        .max_buf_size(MAX_HEAD)
        // A client that has said everything may close its side and still wants the answer.
        .half_close(true)
        .serve_connection(io, service);
    watch
        .guard(async {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "connection");
            }
        })
        .await;
}

/// A number of places, given back when dropped.
#[derive(Clone)]
pub(super) struct Slots(Rc<Cell<usize>>);

/// One place.
pub(super) struct Slot(Rc<Cell<usize>>);

impl Slots {
    pub(super) fn new(number: usize) -> Self {
        Self(Rc::new(Cell::new(number)))
    }

    pub(super) fn take(&self) -> Option<Slot> {
        self.0.set(self.0.get().checked_sub(1)?);
        Some(Slot(Rc::clone(&self.0)))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}

#[cfg(test)]
mod tests;
