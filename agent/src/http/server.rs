//! The thread `http`: it accepts connections and gives each a task of its own.

use std::cell::RefCell;
use std::collections::HashMap;
use std::convert::Infallible;
use std::future::{Future, pending, poll_fn};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{AbortHandle, LocalSet, spawn_local, yield_now};
use tokio::time::timeout;

use super::bind::limit_buffers;
use super::connection::{ConnectionEnd, ConnectionPhase, Watch};
use super::connection_table::{Client, ConnectionSlot};
use super::linger::{FULL, Lingering, NOT_TLS, TOO_SLOW};
use super::routes::{self, Routes};
use super::stream::{Opened, Stream, reason};
use super::waiting::{Admission, WAIT, WaitingRoom};
use super::{Core, control};
use crate::refusals::Refusals;
use crate::web::{Access, Gate, Verdict};

/// Limit of a request's head, in bytes.
const MAX_HEAD: usize = 16 * 1024;

/// Limit of a request's headers.
const MAX_HEADERS: usize = 100;

/// State shared by all connections.
struct ServerContext<C> {
    routes: Rc<Routes<C>>,
    room: WaitingRoom,
    lingering: Lingering,
    access: watch::Receiver<Arc<Access>>,
    /// Handshakes and connections that failed.
    failed: Rc<RefCell<Refusals>>,
}

impl<C> Clone for ServerContext<C> {
    fn clone(&self) -> Self {
        Self {
            routes: Rc::clone(&self.routes),
            room: self.room.clone(),
            lingering: self.lingering.clone(),
            access: self.access.clone(),
            failed: Rc::clone(&self.failed),
        }
    }
}

/// The running server. Dropping it ends the thread and closes open connections.
#[derive(Debug)]
pub struct Server {
    stop: oneshot::Sender<()>,
    doors: Doors,
    thread: thread::JoinHandle<()>,
}

/// The wait for the end of the thread.
const FINISH: Duration = Duration::from_secs(1);

/// Opens and closes listeners of a running server.
#[derive(Clone, Debug)]
pub struct Doors(mpsc::UnboundedSender<Door>);

#[derive(Debug)]
enum Door {
    Open(TcpListener),
    Close(SocketAddr),
}

impl Doors {
    /// Adds a listener.
    pub fn open(&self, listener: TcpListener) {
        limit_buffers(&listener);
        sys::ignore(self.0.send(Door::Open(listener)));
    }

    /// Closes a listener. Open connections stay.
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

    /// Waits until the listeners are closed. A process with a thread that hangs in the kernel would keep them after its end.
    pub fn finish(self) {
        drop(self.stop);
        let until = Instant::now() + FINISH;
        while !self.thread.is_finished() && Instant::now() < until {
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Starts the server on listeners from [`super::ListenPlan`] and [`super::bind_control`]. `gate` is about the former alone.
///
/// # Errors
/// When the thread or its runtime cannot be created.
pub fn spawn<C: Core>(
    core: C,
    tcp: Vec<TcpListener>,
    control: Option<UnixListener>,
    gate: &Gate,
) -> io::Result<Server> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        // Starts when a password is compared, and ends when none was for a while.
        .max_blocking_threads(1)
        .thread_name("password")
        .build()?;
    let access = gate.watch();
    let (stop, stopped) = oneshot::channel::<()>();
    let (open, asked) = mpsc::unbounded_channel();
    let doors = Doors(open);
    tcp.into_iter().for_each(|listener| doors.open(listener));
    let builder = thread::Builder::new().name("http".to_owned());
    let thread = builder.spawn(move || {
        LocalSet::new().block_on(&runtime, async move {
            let shared = ServerContext {
                routes: Rc::new(Routes::new(core.clone())),
                room: WaitingRoom::new(),
                lingering: Lingering::new(),
                access,
                failed: Rc::default(),
            };
            spawn_local(doorkeeper(asked, shared));
            if let Some(listener) = control {
                spawn_local(control::accept(listener, core));
            }
            // The sender is only ever dropped.
            stopped.await.unwrap_or_default();
        });
    })?;
    Ok(Server { stop, doors, thread })
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
                let client = Client::of(from.ip());
                match shared.room.admit(client, &watch) {
                    Admission::Slot(slot) => {
                        drop(spawn_local(serve(stream, client, watch, shared.clone(), slot)))
                    }
                    Admission::Queue(granted) => {
                        let shared = shared.clone();
                        drop(spawn_local(async move {
                            match timeout(WAIT, granted).await {
                                Ok(Ok(slot)) => serve(stream, client, watch, shared, slot).await,
                                _ => shared.refuse(stream, watch),
                            }
                        }));
                    }
                    Admission::Full => shared.refuse(stream, watch),
                }
                // Reads from earlier connections before a newer one may evict them.
                yield_now().await;
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                // Probably out of descriptors: they are freed as connections end.
                if let Some(unlogged) = shared.failed.borrow_mut().add("accept", Instant::now()) {
                    tracing::warn!(%error, unlogged, "cannot accept a connection");
                }
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

async fn serve<C: Core>(
    stream: TcpStream,
    client: Client,
    watch: Watch,
    shared: ServerContext<C>,
    slot: ConnectionSlot,
) {
    // Otherwise the last, short segment of an exposition waits for the scraper's delayed acknowledgement.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY");
    }
    let local = stream.local_addr();
    let from = stream.peer_addr().ok();
    let loopback = local.is_ok_and(|address| address.ip().to_canonical().is_loopback());
    let access = Arc::clone(&shared.access.borrow());
    let mut opened = None;
    let opening = Stream::open(stream, watch.clone(), access.tls.as_ref());
    let end = watch.guard(async { opened = Some(opening.await) }).await;
    let stream = match opened {
        Some(Opened::Stream(stream)) => stream,
        Some(Opened::NotTls(stream)) => {
            drop(slot);
            return shared.lingering.close(stream, NOT_TLS);
        }
        Some(Opened::Failed(stream, error)) => {
            drop(slot);
            shared.handshake_failed(&error, from);
            return shared.lingering.close(stream, b"");
        }
        None => return tracing::debug!(?end, ?from, "no TLS connection in time"),
    };
    let io = TokioIo::new(stream);
    let service = service_fn(|request| {
        let (routes, watch) = (Rc::clone(&shared.routes), watch.clone());
        let access = Arc::clone(&shared.access.borrow());
        Box::pin(async move {
            watch.busy();
            let mut response = match &access.users {
                None => routes.answer(request, loopback).await,
                Some(users) => match users.admit(client.address(), request.headers()).await {
                    Verdict::Right => routes.answer(request, loopback).await,
                    Verdict::Wrong => routes::unauthorized(),
                    Verdict::Busy => routes::too_many_passwords(),
                },
            };
            for (name, value) in &access.headers {
                // A page's own header is stricter.
                response
                    .headers_mut()
                    .entry(name)
                    .or_insert_with(|| value.clone());
            }
            watch.answered();
            Ok::<_, Infallible>(response)
        })
    });
    let mut connection = http1::Builder::new()
        .header_read_timeout(None)
        .max_buf_size(MAX_HEAD)
        .max_headers(MAX_HEADERS)
        // A client may close its sending side after the request and still wants the answer.
        .half_close(true)
        .serve_connection(io, service);
    let mut changed = pin!(has_changed(shared.access.clone(), access));
    let mut is_last = false;
    let work = poll_fn(|cx| {
        if !is_last && changed.as_mut().poll(cx).is_ready() {
            is_last = true;
            Pin::new(&mut connection).graceful_shutdown();
        }
        let done = connection.poll_without_shutdown(cx);
        done.map(|result| tracing::trace!(?result, "connection"))
    });
    let end = watch.guard(work).await;
    let stream = connection.into_parts().io.into_inner();
    drop(slot);
    match end {
        ConnectionEnd::Done => shared.lingering.close(stream, b""),
        ConnectionEnd::Late(ConnectionPhase::Head(_)) => shared.lingering.close(stream, TOO_SLOW),
        ConnectionEnd::Late(_) | ConnectionEnd::Evicted => tracing::trace!(?end, "closed"),
    }
}

/// Ends when another access than this one is in force.
async fn has_changed(mut now: watch::Receiver<Arc<Access>>, access: Arc<Access>) {
    if now.wait_for(|now| !Arc::ptr_eq(now, &access)).await.is_err() {
        // The gate is gone, and so will be the server.
        pending::<()>().await;
    }
}

impl<C> ServerContext<C> {
    /// There is no place. A client that expects TLS could not read why.
    fn refuse(&self, stream: TcpStream, watch: Watch) {
        let words = if self.access.borrow().tls.is_some() {
            b""
        } else {
            FULL
        };
        self.lingering.close(Stream::plain(stream, watch), words);
    }

    /// Logs the first handshake that fails for each reason, and one a minute from then on.
    fn handshake_failed(&self, error: &io::Error, from: Option<SocketAddr>) {
        let logged = reason(error).and_then(|reason| self.failed.borrow_mut().add(reason, Instant::now()));
        match logged {
            Some(unlogged) => tracing::warn!(%error, ?from, unlogged, "TLS handshake failed"),
            None => tracing::debug!(%error, ?from, "no TLS connection"),
        }
    }
}

#[cfg(test)]
mod tests;
