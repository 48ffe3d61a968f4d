//! Without systemd: a child of the parent that accepts connections, and the parent's handle on it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use nix::unistd::Pid;
use sys::poll::Poll;
use sys::{activation, dirs, files, fork, reap};

use super::{Client, ConfigArgs, FOLDER, SOCKET, SYSTEM_RUN, SYSTEM_SOCKET, instance};

/// Limit of connections at a time: 16 checks of the site, 3 commands that resist SIGKILL, and notifications.
const MOST: usize = 24;

const LISTENER: u64 = 0;
const LIFE: u64 = 1;

/// Why there is no runner.
#[derive(Debug, thiserror::Error)]
#[error("no site command can run: {}: {source}", path.display())]
pub struct RunnerError {
    path: PathBuf,
    source: io::Error,
}

/// The parent's side: where to ask, and the child without systemd.
#[derive(Debug)]
pub struct Runner {
    socket: PathBuf,
    child: Option<(Pid, OwnedFd)>,
}

impl Runner {
    /// The runner of systemd, for a daemon that systemd has started in the system's run directory; else a child, which must be
    /// started before this process restricts itself.
    ///
    /// # Errors
    /// When folder, socket or process cannot be made.
    pub fn start(run_dir: &Path, config: &[String]) -> Result<Self, RunnerError> {
        if std::env::var_os("NOTIFY_SOCKET").is_some() && run_dir == Path::new(SYSTEM_RUN) {
            if files::listens(Path::new(SYSTEM_SOCKET)) {
                return Ok(Self {
                    socket: SYSTEM_SOCKET.into(),
                    child: None,
                });
            }
            tracing::warn!(
                "nodewarden-act.socket is not active: site commands run inside the sandbox of nodewarden.service. \
                 Run `systemctl enable --now nodewarden-act.socket` and restart nodewarden"
            );
        }
        let folder = dirs::own_path(run_dir).join(FOLDER);
        let socket = folder.join(SOCKET);
        let failed = |source| RunnerError {
            path: folder.clone(),
            source,
        };
        dirs::own(run_dir)
            .and_then(|_| dirs::private(&folder))
            .map_err(|e| failed(io::Error::other(e)))?;
        let listener = files::listen_unix(&socket, 0o600).map_err(failed)?;
        let (ours, theirs) = UnixStream::pair().map_err(failed)?;
        let mut args = vec![
            "act".to_owned(),
            "serve".to_owned(),
            folder.to_string_lossy().into_owned(),
        ];
        args.extend_from_slice(config);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let pid = fork::start_self(&args, listener.as_fd(), &[theirs.as_fd()]).map_err(failed)?;
        Ok(Self {
            socket,
            child: Some((pid, ours.into())),
        })
    }

    /// A client; each call blocks until the command has ended, so not on a main loop.
    pub fn client(&self) -> Client {
        Client::new(&self.socket)
    }

    /// Takes the exit of the child. It is not started again: this process is restricted by now, and a child would be too.
    pub fn reap(&mut self) {
        if let Some((pid, _)) = &self.child
            && let Some(code) = reap::ended(*pid)
        {
            tracing::error!(
                ?code,
                "the runner of site commands ended; restart nodewarden to run site commands"
            );
            self.child = None;
        }
    }
}

/// The child's main: a thread for each connection, until the parent ends. Then it waits for commands that still run.
pub(super) fn serve(folder: &Path, config: &ConfigArgs) -> anyhow::Result<()> {
    let listener = sys::stdin_listener()?;
    // Its end is that of the parent.
    let life = activation::passed(0)?;
    sys::log::start("info")?;
    let mut poll = Poll::new()?;
    poll.add(&listener, LISTENER)?;
    poll.add(&life, LIFE)?;
    let running = Arc::new(AtomicUsize::new(0));
    loop {
        let ready = poll.wait(None)?;
        if ready.contains(&LIFE) {
            break;
        }
        let Ok((stream, _)) = listener.accept() else {
            continue;
        };
        if running.load(Ordering::Acquire) >= MOST {
            continue;
        }
        running.fetch_add(1, Ordering::AcqRel);
        let (folder, config, done) = (folder.to_owned(), config.clone(), Arc::clone(&running));
        let thread = thread::Builder::new().name("act".to_owned()).spawn(move || {
            instance::run(stream, &folder, &config);
            done.fetch_sub(1, Ordering::AcqRel);
        });
        if thread.is_err() {
            running.fetch_sub(1, Ordering::AcqRel);
        }
    }
    while running.load(Ordering::Acquire) > 0 {
        thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}
