//! A worker's main loop: frames in on descriptor 0, frames out on the same socket. The end of the input is the only
//! order to stop. With nothing in flight it waits for its socket alone, without a time.

use std::io::{ErrorKind, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use collectors::domain::Signals;
use collectors::sys::helper;
use collectors::{COLLECTORS, DOMAINS, Domain, Env, Spec};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::collector::{CollectorTask, TaskParts, next_look, until};
use super::monitor::PERIOD;
use super::out::Out;
use super::proto::{self, Begin, Decoder, FromWorker, ToWorker};
use crate::figures;
use sys::landlock::FileAccess;
use sys::{self, activation, privileges, processes, sandbox};

/// How often a worker weighs itself, at most: adding up its memory costs more than a reading.
const WEIGH: Duration = Duration::from_secs(60);

/// `nodewarden worker DOMAIN UID GID [HELPER=PID]...`, started by the parent only.
///
/// # Errors
/// When it cannot begin, or the daemon sends garbage.
pub fn main(args: Vec<String>) -> anyhow::Result<ExitCode> {
    start(&args)?;
    Ok(ExitCode::SUCCESS)
}

fn start(args: &[String]) -> anyhow::Result<()> {
    let [domain, uid, gid, helpers @ ..] = args else {
        anyhow::bail!("for the parent only: worker DOMAIN UID GID [HELPER=PID]...")
    };
    let domain = DOMAINS
        .iter()
        .copied()
        .find(|d| d.name == domain)
        .ok_or_else(|| anyhow::anyhow!("unknown domain {domain:?}"))?;
    privileges::drop_to(uid.parse()?, gid.parse()?, domain.capability_mask())?;
    // Its stderr may be a file.
    sys::signals::survive_file_limit()?;
    // A core dump of a GPU driver's user takes long.
    let is_dumped = domain.signals == Signals::Never && privileges::forbid_core_dumps().is_err();
    // Nothing to take from one without a right: of processes with its ids there are only its own.
    if domain.capabilities.is_empty() && !is_dumped {
        privileges::show_own_calls()?;
    }
    sys::set_process_name(&format!("nw-{}", domain.name));
    let helpers = take_helpers(domain, helpers)?;
    run(domain, &helpers, sys::stdin_socket()?, |env, log_level| {
        confine(domain, env);
        // Its thread is started under the filter.
        sys::log::start_worker(log_level);
    })
}

/// Takes the sockets of the helpers, which the parent passes on behind the lock. Returns their places and processes.
fn take_helpers(domain: &Domain, args: &[String]) -> anyhow::Result<Vec<(u8, i32)>> {
    let (mut pids, mut sockets) = (Vec::new(), Vec::new());
    // Not every node needs every helper of the domain.
    for (number, arg) in (1..).zip(args) {
        let found = arg.split_once('=').and_then(|(name, pid)| {
            let mut helpers = (0..).zip(domain.helpers.iter().copied());
            let (place, helper) = helpers.find(|(_, helper)| helper.name == name)?;
            Some((place, helper, pid))
        });
        let (place, helper, pid) = found.ok_or_else(|| {
            let names: Vec<&str> = domain.helpers.iter().map(|helper| helper.name).collect();
            anyhow::anyhow!("found {arg:?}, expected HELPER=PID with a helper of {names:?}")
        })?;
        pids.push((place, pid.parse()?));
        sockets.push((helper, activation::passed(number)?));
    }
    helper::install(sockets);
    Ok(pids)
}

/// Permanent, for the whole process. The daemon shows the result as a series.
fn confine(domain: &Domain, env: &Env) {
    let files = processes::confined(domain.name).then(|| files(env));
    sandbox::enter(domain.name, files.as_ref());
}

pub(crate) fn run(
    domain: &'static Domain,
    helpers: &[(u8, i32)],
    socket: UnixStream,
    begin: impl FnOnce(&Env, &str),
) -> anyhow::Result<()> {
    let out = Out::new(socket.try_clone()?);
    out.send(&FromWorker::Hello {
        build: crate::BUILD.to_owned(),
    });
    let (mut input, mut decoder) = (socket, Decoder::default());
    let first = proto::read_frame(&mut input, &mut decoder)?;
    let Some(ToWorker::Start {
        build,
        log_level,
        env,
        settings,
        collectors,
    }) = first
    else {
        return Ok(());
    };
    anyhow::ensure!(
        build == crate::BUILD,
        "the daemon is build {build}, this worker is {}",
        crate::BUILD
    );

    // Last, and before any thread. Sources are opened, and opened again, under the filter.
    begin(&env, &log_level);
    // Of a worker without devices no reading is asked, which would report its figures.
    helper::wait();
    for frame in weigh(helpers) {
        out.send(&frame);
    }
    let mut tasks: Vec<Arc<CollectorTask>> = Vec::new();
    for Begin {
        number,
        cursor,
        notes,
    } in collectors
    {
        let Some(spec) = COLLECTORS
            .get(usize::from(number))
            .copied()
            .filter(|s| s.domain.name == domain.name)
        else {
            anyhow::bail!("collector {number} does not belong to {}", domain.name);
        };
        let task = Arc::new(CollectorTask::new(TaskParts {
            number,
            spec,
            env: env.clone(),
            settings: settings.clone(),
            cursor,
            notes,
            out: out.clone(),
        })?);
        task.start_open()?;
        tasks.push(task);
    }
    serve(&mut input, &mut decoder, &tasks, &out, helpers)?;
    // The end of a process is a signal to its threads: one inside a GPU driver is waited for, however long it takes.
    while each(&tasks, |task| task.leave()) && domain.signals == Signals::Never {
        thread::sleep(Duration::from_millis(100));
    }
    sys::log::flush();
    Ok(())
}

/// The files of a worker, and of a recording that it reads instead of the node.
fn files(env: &Env) -> FileAccess {
    let mut files = FileAccess::of_worker();
    let tree = env.path("/");
    if tree != Path::new("/") {
        files.read.extend(env.recorded.clone());
        files.read.push(tree);
    }
    files
}

/// The cost of this process and of its helpers.
fn weigh(helpers: &[(u8, i32)]) -> impl Iterator<Item = FromWorker> {
    let helpers = helpers
        .iter()
        .filter_map(|(place, pid)| Some((*place, figures::helper(*pid)?)));
    let own = figures::own().map(FromWorker::Process);
    own.into_iter()
        .chain(helpers.map(|(place, figures)| FromWorker::Helper(place, figures)))
}

/// Serves until the end of the input.
fn serve(
    input: &mut UnixStream,
    decoder: &mut Decoder,
    tasks: &[Arc<CollectorTask>],
    out: &Out,
    helpers: &[(u8, i32)],
) -> anyhow::Result<()> {
    let mut looked = Instant::now();
    // Every collector is being opened.
    let mut look_at = next_look(true, looked);
    let mut bytes = [0; 4096];
    let mut weighed: Option<Instant> = None;
    loop {
        let mut asked = false;
        while let Some(frame) = decoder.take()? {
            if let ToWorker::Read(numbers) = frame {
                asked = true;
                if weighed.is_none_or(|at| at.elapsed() >= WEIGH) {
                    weighed = Some(Instant::now());
                    // Before the answer, which takes it along.
                    for frame in weigh(helpers) {
                        out.queue(&frame);
                    }
                }
                for task in tasks.iter().filter(|j| numbers.contains(&j.parts.number)) {
                    task.ask();
                }
            }
        }
        let now = Instant::now();
        // A watcher is looked at on the occasion of a reading: it blocks so rarely that no timer is worth it.
        if look_at.is_some_and(|at| at <= now) || (asked && now.duration_since(looked) >= PERIOD) {
            looked = now;
            let again = each(tasks, |task| task.look());
            look_at = next_look(again, now);
        } else if look_at.is_none() {
            look_at = next_look(tasks.iter().any(|j| j.is_in_flight()), now);
        }
        let timeout = match look_at.map(until) {
            Some(wait) => PollTimeout::try_from(wait).unwrap_or(PollTimeout::MAX),
            None => PollTimeout::NONE,
        };
        let mut ready = vec![PollFd::new(input.as_fd(), PollFlags::POLLIN)];
        ready.extend(
            tasks
                .iter()
                .map(|j| PollFd::new(j.timer.as_fd(), PollFlags::POLLIN)),
        );
        if poll(&mut ready, timeout).is_err() {
            continue;
        }
        let is_ready = |fd: &PollFd<'_>| fd.any().unwrap_or(true);
        let heard = ready.first().is_some_and(is_ready);
        for (task, fd) in tasks.iter().zip(ready.iter().skip(1)) {
            if is_ready(fd) {
                task.timer();
            }
        }
        if !heard {
            continue;
        }
        match input.read(&mut bytes) {
            Ok(0) => return Ok(()),
            Ok(n) => decoder.push(bytes.get(..n).unwrap_or_default()),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(_) => return Ok(()),
        }
    }
}

/// Asks every task; whether any said yes.
fn each(tasks: &[Arc<CollectorTask>], ask: impl Fn(&Arc<CollectorTask>) -> bool) -> bool {
    tasks.iter().filter(|task| ask(task)).count() > 0
}

/// The name of a collector's thread, as long as the kernel keeps it.
pub(super) fn thread_name(prefix: &str, spec: &Spec) -> String {
    format!("{prefix}:{}", spec.name).chars().take(15).collect()
}

#[cfg(test)]
mod tests;
