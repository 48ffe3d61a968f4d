//! The daemon's start: privileges first, then everything that touches files, then the loop.

use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;

use collectors::sys::{boot, root};
use collectors::{BootId, Env};

use super::audit::Trail;
use super::event_loop::{Daemon, DaemonParts};
use super::fleet::Fleet;
use super::jobs;
use super::mailbox::{Mailbox, Message};
use super::sockets;
use super::store::{self, Publisher};
use super::web;
use crate::http::{self, ListenPlan, Server};
use crate::link::{CANNOT_START, Init, ToDaemon};
use crate::own::{OwnFacts, Page};
use crate::screen::{chain, complain};
use crate::web::Gate;
use health::Now;
use health::engine::{Engine, Identity};
use health::policy::Policy;
use model::snapshot::Snapshot;
use sys::landlock::FileAccess;
use sys::packet::{Packets, Received};
use sys::poll::{Poll, Waker};
use sys::{self, privileges};

const MACHINE_ID: &str = "/etc/machine-id";
const HOST_NAME: &str = "/proc/sys/kernel/hostname";

/// `nodewarden daemon UID GID`, started by the parent only.
///
/// # Errors
/// None: a daemon that cannot start says why and ends with [`CANNOT_START`], which its parent understands.
pub fn main(args: Vec<String>) -> anyhow::Result<ExitCode> {
    match start(&args) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(e) => {
            complain(&chain(&e));
            Ok(ExitCode::from(CANNOT_START))
        }
    }
}

fn start(args: &[String]) -> anyhow::Result<()> {
    let [uid, gid] = args else {
        anyhow::bail!("for the parent only: daemon UID GID")
    };
    privileges::drop_to(uid.parse()?, gid.parse()?, 0)?;
    sys::signals::survive_file_limit()?;
    sys::set_process_name("nodewarden");
    let mut parent = Packets::new(OwnedFd::from(sys::stdin_socket()?));
    let Some(init) = first_packet(&mut parent)? else {
        return Ok(());
    };
    anyhow::ensure!(
        init.build == crate::BUILD,
        "the parent is build {}, this daemon {}",
        init.build,
        crate::BUILD
    );
    let Some(web) = web::receive(&mut parent)? else {
        return Ok(());
    };
    let Some(sockets) = sockets::receive(&mut parent, init.sockets)? else {
        return Ok(());
    };
    crate::screen::zone();
    // Before any thread. The parent has reported a kernel without filters.
    let sandbox = sys::sandbox::enter("daemon", Some(&files(&init)));
    sys::log::start(&init.loaded.config.log_level)?;
    if sandbox.landlock == Some(false) {
        tracing::warn!("{}", sandbox.missing.join("; "));
    }

    let engine = restore(&init)?;
    #[expect(clippy::cast_precision_loss, reason = "seconds since the epoch fit")]
    let facts = OwnFacts {
        config_error: init.config_error.is_some(),
        state_unused: init.state_dir.is_none(),
        web_config_error: web.as_ref().map(|_| false),
        started: jiff::Timestamp::now().as_millisecond() as f64 / 1000.0,
        mode: init.loaded.config.health.mode,
        max_jobs: init.loaded.config.max_jobs(),
        metrics: Arc::new(init.loaded.config.metrics.clone()),
        access: init.loaded.config.access,
        parent_seccomp: init.parent_seccomp,
        operators: init.loaded.config.health.operators.clone().into(),
        rdma: Arc::new(init.loaded.config.health.rdma.clone()),
        ..OwnFacts::default()
    };
    let page = Arc::new(Page {
        snapshot: Arc::new(Snapshot::empty(boot::boottime())),
        view: Arc::new(engine.view()),
        facts: facts.clone(),
    });
    let (to, messages) = channel();
    let waker = Waker::new()?;
    let mailbox = Mailbox::new(to, waker.clone(), page);
    let answer = mailbox.clone();
    let store = store::start(init.state_dir.as_deref(), move |stored| {
        answer.send(Message::Stored(stored));
    })?;
    let access = web::access(web.as_deref())?;
    let scheme = access.scheme();
    let gate = Gate::new(access);
    let server = serve(&init, sockets, &mailbox, (&gate, scheme))?;
    let mut fleet = Fleet::new(init.env.clone(), init.loaded.config.collectors.clone());
    fleet.set_log_level(&init.loaded.config.log_level);
    fleet.set_commands(&init.loaded.config.health.commands);
    let boot = boot::boot_id(&Env::default())?;
    let mut book = jobs::restore(&init.run_dir, &boot);
    let lines = init.state_dir.as_deref().map(jobs::recall).unwrap_or_default();
    book.remember(lines, facts.started);
    let acknowledge = mailbox.clone();
    let mut daemon = Daemon::new(DaemonParts {
        parent,
        messages,
        mailbox,
        waker,
        store,
        publisher: Publisher::start(&init.run_dir)?,
        trail: Trail::start(init.state_dir.as_deref())?,
        notifies: init.loaded.config.notify.is_some(),
        engine,
        fleet,
        facts,
        boot,
        listen: init.loaded.config.listen.clone(),
        gate,
        heartbeat: init.heartbeat,
        jobs: book,
        keeper: jobs::start(init.state_dir.as_deref(), &init.run_dir, move |record| {
            acknowledge.send(Message::Recorded(record));
        })?,
    })?;
    let ended = daemon.run();
    server.finish();
    Ok(ended?)
}

/// What the daemon reads and writes.
fn files(init: &Init) -> FileAccess {
    let folders = [Some(&init.run_dir), init.state_dir.as_ref()];
    let mut files = FileAccess::of_daemon(folders.into_iter().flatten().cloned().collect());
    // The id may be a link to another folder.
    let own = ["/proc/sys/kernel/random", MACHINE_ID, HOST_NAME].map(|path| init.env.path(path));
    files.read.extend(own);
    files
}

/// Starts to serve. An address in use ends a start in a terminal. A service or a restarted daemon, whose node has no other
/// watch, goes on without and waits for it, since any user may hold the port; and all do for an address of no interface.
///
/// The manager's sockets are served in any case; of `listen` what they do not serve already.
fn serve(
    init: &Init,
    mut sockets: Vec<TcpListener>,
    mailbox: &Mailbox,
    (gate, scheme): (&Gate, &'static str),
) -> anyhow::Result<Server> {
    let control = http::bind_control(&init.run_dir)?;
    let plan = ListenPlan::new(&init.loaded.config.listen).with_scheme(scheme);
    let mut plan = plan.beside(&sockets);
    sockets.extend(plan.first(!init.waits_to_listen)?);
    let server = http::spawn(mailbox.clone(), sockets, Some(control), gate)?;
    if plan.goes_on() {
        let doors = server.doors();
        let thread = thread::Builder::new().name("listen".to_owned());
        thread.spawn(move || plan.keep(&doors))?;
    }
    Ok(server)
}

fn first_packet(parent: &mut Packets) -> anyhow::Result<Option<Box<Init>>> {
    match next_packet(parent)? {
        None => Ok(None),
        Some((ToDaemon::Init(init), _)) => Ok(Some(init)),
        Some(_) => anyhow::bail!("protocol error from the parent: first packet is not Init"),
    }
}

/// Waits for one packet. `None`: the parent has gone.
pub(super) fn next_packet(parent: &mut Packets) -> anyhow::Result<Option<(ToDaemon, Option<OwnedFd>)>> {
    let mut poll = Poll::new()?;
    poll.add(&*parent, 0)?;
    loop {
        match parent.receive()? {
            Received::Closed => return Ok(None),
            Received::Nothing => {
                poll.wait(None)?;
            }
            Received::Packet(bytes, fd) => return Ok(Some((postcard::from_bytes(&bytes)?, fd))),
        }
    }
}

/// The engine with its record. A record that cannot be used is set aside, named in the log, and never undone from.
fn restore(init: &Init) -> anyhow::Result<Engine> {
    let policy = init.loaded.policy().map_err(anyhow::Error::msg)?;
    let boot = boot::boot_id(&init.env)?;
    let wall = jiff::Timestamp::now().as_second();
    let now = Now {
        boottime: boot::boottime(),
        wall,
    };
    let engine = match &init.state_dir {
        Some(dir) => recorded(&store::record_path(dir), &identity(&init.env), policy, boot, now)?,
        None => Engine::new(policy, boot, None, now)?,
    };
    Ok(if init.env.is_live() {
        engine
    } else {
        engine.replaying()
    })
}

/// This machine, as far as it is known.
fn identity(env: &Env) -> Identity {
    let text = |path| root::read_text(&env.path(path)).ok().flatten();
    Identity::new(text(MACHINE_ID), text(HOST_NAME))
}

fn recorded(
    path: &Path,
    machine: &Identity,
    policy: Policy,
    boot: BootId,
    now: Now,
) -> anyhow::Result<Engine> {
    let record = match sys::store::load(path) {
        Ok(record) => record,
        Err(e) => {
            // It may hold what only it can prove: it must not be overwritten.
            set_aside(path, &e.to_string());
            None
        }
    };
    let restored = Engine::new(policy.clone(), boot.clone(), record.as_deref(), now);
    let engine = match restored.and_then(|engine| engine.on(machine.clone())) {
        Ok(engine) => engine,
        Err(e) => {
            set_aside(path, &e.to_string());
            Engine::new(policy, boot, None, now)?.on(machine.clone())?
        }
    };
    for lost in engine.lost() {
        tracing::error!("record: cannot use the stored state of a check, starting empty: {lost}");
    }
    Ok(engine)
}

fn set_aside(path: &Path, why: &str) {
    match sys::store::set_aside(path) {
        Ok(aside) => tracing::error!("cannot use the record, renamed to {}: {why}", aside.display()),
        Err(io) => tracing::error!(
            "cannot use the record {} ({why}), and cannot rename it: {io}",
            path.display()
        ),
    }
}
