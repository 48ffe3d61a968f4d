//! The thread `http`: it accepts, and gives every connection a task of its own.

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::rc::Rc;
use std::thread;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, LocalSet, spawn_local, yield_now};

use super::connection::{ConnectionEnd, ConnectionPhase, Watch, WatchedStream};
use super::connection_table::{Client, ConnectionSlot, ConnectionTable};
use super::linger::{FULL, Lingering, TOO_SLOW};
use super::routes::Routes;
use super::{Core, control};

/// The most that a request's head may hold, in bytes.
const MAX_HEAD: usize = 16 * 1024;

/// The most headers of a request.
const MAX_HEADERS: usize = 100;

/// What all connections share.
struct ServerContext<C> {
    routes: Rc<Routes<C>>,
    table: ConnectionTable,
    lingering: Lingering,
}

impl<C> Clone for ServerContext<C> {
    fn clone(&self) -> Self {
        Self {
            routes: Rc::clone(&self.routes),
            table: self.table.clone(),
            lingering: self.lingering.clone(),
        }
    }
}

/// The running server. Dropping it ends the thread and closes open connections.
#[derive(Debug)]
pub struct Server {
    _stop: oneshot::Sender<()>,
    doors: Doors,
}

/// Opens and closes listeners of a running server.
#[derive(Clone, Debug)]
pub struct Doors(mpsc::UnboundedSender<Door>);

#[derive(Debug)]
enum Door {
    Open(TcpListener),
    Close(SocketAddr),
}

impl Doors {
    /// Listens there, too.
    pub fn open(&self, listener: TcpListener) {
        sys::ignore(self.0.send(Door::Open(listener)));
    }

    /// Listens there no longer. Open connections stay.
    pub fn close(&self, address: SocketAddr) {
        sys::ignore(self.0.send(Door::Close(address)));
    }

    /// Whether the server has ended.
    pub fn is_closed(&self) -> bool {
        self.0.is_closed()
    }
}

impl Server {
    /// Where listeners are opened and closed.
    pub fn doors(&self) -> Doors {
        self.doors.clone()
    }
}

/// Starts the server on listeners from [`super::ListenPlan`] and [`super::bind_control`].
///
/// # Errors
/// When the thread or its runtime cannot be made.
pub fn spawn<C: Core>(core: C, tcp: Vec<TcpListener>, control: Option<UnixListener>) -> io::Result<Server> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()?;
    let (stop, stopped) = oneshot::channel::<()>();
    let (open, asked) = mpsc::unbounded_channel();
    let doors = Doors(open);
    tcp.into_iter().for_each(|listener| doors.open(listener));
    thread::Builder::new().name("http".to_owned()).spawn(move || {
        LocalSet::new().block_on(&runtime, async move {
            let shared = ServerContext {
                routes: Rc::new(Routes::new(core.clone())),
                table: ConnectionTable::new(),
                lingering: Lingering::new(),
            };
            spawn_local(doorkeeper(asked, shared));
            if let Some(listener) = control {
                spawn_local(control::accept(listener, core));
            }
            // The sender is only ever dropped.
            stopped.await.unwrap_or_default();
        });
    })?;
    Ok(Server { _stop: stop, doors })
}

async fn doorkeeper<C: Core>(mut asked: mpsc::UnboundedReceiver<Door>, shared: ServerContext<C>) {
    let mut open: HashMap<SocketAddr, AbortHandle> = HashMap::new();
    while let Some(door) = asked.recv().await {
        match door {
            Door::Open(listener) => {
                let Ok(address) = listener.local_addr() else {
                    continue;
                };
                let task = spawn_local(accept(listener, shared.clone()));
                open.insert(address, task.abort_handle());
            }
            Door::Close(address) => {
                if let Some(task) = open.remove(&address) {
                    task.abort();
                }
            }
        }
    }
}

async fn accept<C: Core>(listener: TcpListener, shared: ServerContext<C>) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "cannot accept connections"),
    };
    loop {
        match listener.accept().await {
            Ok((stream, from)) => {
                let watch = Watch::new();
                match shared.table.take(Client::of(from.ip()), &watch) {
                    Some(slot) => drop(spawn_local(serve(stream, watch, shared.clone(), slot))),
                    None => shared.lingering.close(stream, FULL),
                }
                // Who came before is read from before somebody else may push it out.
                yield_now().await;
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                // Out of descriptors, most likely: they come back as connections end.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

async fn serve<C: Core>(stream: TcpStream, watch: Watch, shared: ServerContext<C>, slot: ConnectionSlot) {
    // Else the last, short segment of an exposition waits for the scraper's delayed acknowledgement.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY");
    }
    let io = TokioIo::new(WatchedStream {
        stream,
        watch: watch.clone(),
    });
    let service = service_fn(|request| {
        let (routes, watch) = (Rc::clone(&shared.routes), watch.clone());
        Box::pin(async move {
            watch.busy();
            let response = routes.answer(request).await;
            watch.answered();
            Ok::<_, Infallible>(response)
        })
    });
    let mut connection = http1::Builder::new()
        .header_read_timeout(None)
        .max_buf_size(MAX_HEAD)
        .max_headers(MAX_HEADERS)
        // A client that has said everything may close its side and still wants the answer.
        .half_close(true)
        .serve_connection(io, service);
    let work = poll_fn(|cx| {
        let done = connection.poll_without_shutdown(cx);
        done.map(|result| tracing::trace!(?result, "connection"))
    });
    let end = watch.guard(work).await;
    let stream = connection.into_parts().io.into_inner().stream;
    drop(slot);
    match end {
        ConnectionEnd::Done => shared.lingering.close(stream, b""),
        ConnectionEnd::Late(ConnectionPhase::Head(_)) => shared.lingering.close(stream, TOO_SLOW),
        ConnectionEnd::Late(_) | ConnectionEnd::Evicted => tracing::trace!(?end, "closed"),
    }
}

#[cfg(test)]
mod tests;
