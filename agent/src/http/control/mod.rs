//! `control.sock`: one JSON request per line, one JSON reply per line. SO_PEERCRED identifies the client: every user
//! may read, of jobs what `access.jobs` allows; root, the daemon's own user and `health.operators` may give orders.

mod device_values;
pub mod gpus;
mod limits;
pub mod mounts;
pub mod ports;
mod profile;
mod proto;
mod readings;
mod refused;
pub mod release;
pub(crate) mod users;
mod viewer;

use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::sync::oneshot;
use tokio::task::spawn_local;
use tokio::time::timeout;

use self::limits::{ControlLimits, ControlPermit};
use self::refused::Asked;
use self::release::{ReleaseGuard, release};
use self::viewer::Viewer;
use super::Core;
use crate::refusals::Refusals;
use health::{Order, OrderVerb};
use model::scheduler::IncidentId;
use sys::send;

pub use gpus::{GpuView, of_subject, place, subject_at};
pub use mounts::MountView;
pub use ports::PortView;
pub use proto::{CollectorView, CommandView, DeviceView, LeaseView, NodeStatus, Reply, Request, WorkerView};
pub(super) use viewer::is_of_jobs;

/// The socket's name in the run directory.
pub const SOCKET: &str = "control.sock";

/// Limit of a request, in bytes.
const MAX_LINE: u64 = 64 * 1024;

/// Limit of a reason, in bytes.
const MAX_REASON: usize = 500;
/// The longest pause, in seconds.
pub const MAX_PAUSE: u64 = 30 * 24 * 3600;

/// Time-out for receiving a request or sending a reply.
const TRANSFER: Duration = Duration::from_secs(10);

/// Time-out for the core to answer an order.
const ORDER: Duration = Duration::from_secs(15);

/// How refusals of requests begin, for clients that may not repeat the text after it.
pub(crate) const NOT_PERMITTED: &str = "permission denied";
/// As [`NOT_PERMITTED`].
pub(crate) const TOO_MANY: &str = "too many connections";
/// As [`NOT_PERMITTED`].
pub(crate) const INVALID: &str = "invalid request";
/// As [`NOT_PERMITTED`].
pub(crate) const NOT_UTF8: &str = "the page is not UTF-8";

/// Accepts until the server ends.
pub(super) async fn accept<C: Core>(listener: UnixListener, core: C) {
    let listener = match tokio::net::UnixListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "cannot accept on the control socket"),
    };
    let limits = ControlLimits::new();
    let mut failed = Refusals::default();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let Ok(peer) = stream.peer_cred() else { continue };
                let (uid, pid) = (peer.uid(), peer.pid());
                match limits.take(uid, may_order(uid, &core)) {
                    Some(permit) => drop(spawn_local(serve(stream, (uid, pid), core.clone(), permit))),
                    None => refuse(&stream),
                }
            }
            Err(error) => {
                if let Some(unlogged) = failed.add("accept", Instant::now()) {
                    tracing::warn!(%error, unlogged, "cannot accept on the control socket");
                }
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

fn refuse(stream: &UnixStream) {
    let reply = Reply::Refused(format!(
        "{TOO_MANY} of users without the right to give orders; try again"
    ));
    if let Ok(mut text) = serde_json::to_vec(&reply) {
        text.push(b'\n');
        sys::ignore(send::now(stream, &text));
    }
}

/// Root, the daemon's own user, and the operators.
fn may_order<C: Core>(uid: u32, core: &C) -> bool {
    let operators = &core.page().facts.operators;
    let own = nix::unistd::geteuid().as_raw();
    uid == 0
        || uid == own
        || (!operators.is_empty() && users::listed(uid, users::name(uid).as_deref(), operators))
}

async fn serve<C: Core>(stream: UnixStream, (uid, pid): (u32, Option<i32>), core: C, _permit: ControlPermit) {
    let (read, mut write) = stream.into_split();
    let mut read = BufReader::new(read);
    let mut lease: Option<ReleaseGuard<C>> = None;
    // During a release the command holds this connection too, whatever user it runs as.
    let mut shared = false;
    loop {
        let mut line = Vec::new();
        let mut bounded = (&mut read).take(MAX_LINE);
        if lease.as_ref().is_some_and(|l| l.left().is_zero()) {
            return;
        }
        // The client of a release is silent while its command runs.
        let wait = lease.as_ref().map_or(TRANSFER, ReleaseGuard::left);
        let got = timeout(wait, bounded.read_until(b'\n', &mut line)).await;
        if !matches!(got, Ok(Ok(1..))) {
            return;
        }
        let whole = line.ends_with(b"\n");
        let request = serde_json::from_slice::<Request>(&line);
        let asked = request.as_ref().ok().and_then(Asked::of);
        let reply = match request {
            _ if !whole => Reply::Refused(format!(
                "request too long: expected one line of less than {MAX_LINE} bytes"
            )),
            Ok(request) if shared && !matches!(request, Request::Status | Request::Resume) => Reply::Refused(
                "after a release this connection accepts `status` and `resume` only".to_owned(),
            ),
            Ok(Request::Release { domain, seconds }) => {
                let released = release(&domain, seconds, (uid, pid), &core);
                let released = tokio::select! {
                    released = released => released,
                    // The client is gone, so no reply is needed.
                    () = gone(&mut read) => return,
                };
                // The client asks the next daemon.
                let Some((reply, granted)) = released else { return };
                shared |= granted.is_some();
                lease = granted;
                reply
            }
            Ok(Request::Resume) => match lease.take() {
                Some(lease) => {
                    drop(lease);
                    Reply::Done("release ended".to_owned())
                }
                None => Reply::Refused("no release on this connection".to_owned()),
            },
            Ok(request) => answer(request, uid, &core).await,
            Err(error) => Reply::Refused(format!("{INVALID}: {error}")),
        };
        if let Some(asked) = asked {
            asked.report(&reply, uid, &core);
        }
        let Ok(mut text) = serde_json::to_vec(&reply) else {
            return;
        };
        text.push(b'\n');
        let sent = timeout(TRANSFER, write.write_all(&text)).await;
        if !whole || !matches!(sent, Ok(Ok(()))) {
            return;
        }
    }
}

/// Waits until the peer has closed. Data that it sent stays unread.
async fn gone(read: &mut (impl AsyncBufRead + Unpin)) {
    if read.fill_buf().await.is_ok_and(|bytes| !bytes.is_empty()) {
        std::future::pending::<()>().await;
    }
}

async fn answer<C: Core>(request: Request, uid: u32, core: &C) -> Reply {
    let page = core.page();
    let viewer = Viewer::new(uid, may_order(uid, core), &page.facts);
    match request {
        Request::Status => viewer.status(NodeStatus::of(&page, core.now())),
        Request::Why { id: None } => {
            let open = page.view.incidents.iter().filter(|i| i.closed.is_none());
            Reply::Incidents(open.map(|i| viewer.incident(i)).collect())
        }
        Request::Why { id: Some(id) } => match page.view.incidents.iter().find(|i| i.id == id) {
            Some(incident) => Reply::Incidents(vec![viewer.incident(incident)]),
            None => Reply::Refused(format!("unknown incident {id}")),
        },
        Request::Ack { id, reason } => order(about(OrderVerb::Ack, &id), &reason, uid, core).await,
        Request::Clear { id, reason } => order(about(OrderVerb::Clear, &id), &reason, uid, core).await,
        Request::Pause { seconds, reason } => order(pause(seconds), &reason, uid, core).await,
        Request::Unpause { reason } => order(Ok(OrderVerb::Resume), &reason, uid, core).await,
        Request::Jobs => Reply::Jobs(viewer.jobs()),
        Request::Profile => profile::learn(&page, core.now()),
        Request::Readings if may_order(uid, core) => readings::of(core).await,
        Request::Readings => Reply::Refused(not_permitted(uid)),
        // They belong to a connection, not to a request.
        Request::Release { .. } | Request::Resume => Reply::Refused("not possible in this state".to_owned()),
    }
}

fn not_permitted(uid: u32) -> String {
    format!("{NOT_PERMITTED}: uid {uid} is neither root nor in health.operators")
}

/// An order about an incident.
fn about(verb: fn(IncidentId) -> OrderVerb, id: &str) -> Result<OrderVerb, String> {
    IncidentId::parse(id)
        .map(verb)
        .ok_or_else(|| format!("invalid incident id {id:?}, see `nodewarden why`"))
}

/// A pause without an end would be forgotten.
fn pause(seconds: u64) -> Result<OrderVerb, String> {
    if (1..=MAX_PAUSE).contains(&seconds) {
        Ok(OrderVerb::Pause { seconds })
    } else {
        Err(format!(
            "invalid pause: found {seconds} s, expected 1 s to {MAX_PAUSE} s"
        ))
    }
}

async fn order<C: Core>(verb: Result<OrderVerb, String>, reason: &str, uid: u32, core: &C) -> Reply {
    if !may_order(uid, core) {
        return Reply::Refused(not_permitted(uid));
    }
    let verb = match verb {
        Ok(verb) => verb,
        Err(why) => return Reply::Refused(why),
    };
    let reason = reason.trim();
    if reason.is_empty() || reason.len() > MAX_REASON || reason.chars().any(char::is_control) {
        return Reply::Refused(format!(
            "invalid reason: expected one line of 1 to {MAX_REASON} bytes"
        ));
    }
    let order = Order {
        verb,
        reason: reason.to_owned(),
        by: users::name(uid).unwrap_or_else(|| uid.to_string()),
        uid,
    };
    let Order { verb, by, .. } = &order;
    let incident = verb.incident().map(ToString::to_string);
    tracing::info!(verb = verb.word(), incident, by, uid, reason, "order");
    let (reply, done) = oneshot::channel();
    core.order(order, reply);
    match timeout(ORDER, done).await {
        Ok(Ok(reply)) => reply,
        Ok(Err(_)) => Reply::Refused("the daemon is stopping".to_owned()),
        Err(_) => Reply::Refused(
            "the daemon did not answer in time; the request may still be carried out".to_owned(),
        ),
    }
}

#[cfg(test)]
mod tests;
