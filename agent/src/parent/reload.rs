//! Reads the configuration again, on threads of their own: a file may be on a mount that hangs.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use crate::config::{Loaded, Origin};
use crate::web::WebConfig;
use sys::poll::Waker;

/// Interval of attempts to start a thread.
const RETRY: Duration = Duration::from_secs(2);

/// A reading that takes longer is reported, and the next order does not wait for it.
const LATE: Duration = Duration::from_secs(10);

/// Limit of threads that read.
const MAX_THREADS: usize = 3;

/// What a reading has found.
pub(super) type Found = Result<(Loaded, Option<WebConfig>), String>;

/// The readings of the configuration.
pub(super) struct Reloads {
    /// The last reading. Results of earlier ones are void.
    number: u64,
    /// It has not returned.
    running: Option<Reading>,
    /// Threads of earlier readings that have not returned.
    hung: usize,
    /// Another reload was asked for meanwhile: files may have changed after they were read.
    again: bool,
    /// When to try again to start a thread.
    retry_at: Option<Instant>,
    to_main: Sender<(u64, Origin, Found)>,
    results: Receiver<(u64, Origin, Found)>,
    waker: Waker,
}

#[derive(Default)]
struct Reading {
    /// When it is late; `None`: this was reported.
    late_at: Option<Instant>,
    /// Set by its thread, as soon as the files of the configuration are read.
    web: Arc<OnceLock<PathBuf>>,
}

impl Reloads {
    /// None was asked for yet.
    pub(super) fn new(waker: Waker) -> Self {
        let (to_main, results) = channel();
        Self {
            number: 0,
            running: None,
            hung: 0,
            again: false,
            retry_at: None,
            to_main,
            results,
            waker,
        }
    }

    /// A reload is asked for. Returns whether a reading has begun; without one, the order stays.
    pub(super) fn ask(&mut self, source: &Origin) -> bool {
        let is_new = !std::mem::replace(&mut self.again, true);
        match &self.running {
            Some(reading) if reading.late_at.is_some() => false,
            Some(_) if self.hung + 1 >= MAX_THREADS => {
                if is_new {
                    tracing::error!(
                        "{MAX_THREADS} readings of the configuration have not returned: it is read again when one has, or after a restart"
                    );
                }
                false
            }
            _ => self.start(source),
        }
    }

    fn start(&mut self, source: &Origin) -> bool {
        let (number, web) = (self.number + 1, Arc::<OnceLock<PathBuf>>::default());
        let (to, waker) = (self.to_main.clone(), self.waker.clone());
        let (mut source, named) = (source.clone(), Arc::clone(&web));
        let started = thread::Builder::new().name("config".to_owned()).spawn(move || {
            let found = source.load().and_then(|loaded| {
                if let Some(path) = &loaded.config.web_config_file {
                    sys::ignore(named.set(path.clone()));
                }
                let web = crate::web::of(&loaded.config)?;
                Ok((loaded, web))
            });
            // The parent lives longer than its threads.
            sys::ignore(to.send((number, source, found)));
            waker.wake();
        });
        if let Err(e) = started {
            // The operator's order stays: the file may say that nothing drains.
            if self.retry_at.replace(Instant::now() + RETRY).is_none() {
                let retry = RETRY.as_secs();
                tracing::error!(error = %e, retry, "cannot start a thread to read the configuration; trying again");
            }
            return false;
        }
        self.hung += usize::from(self.running.is_some());
        let late_at = Some(Instant::now() + LATE);
        self.running = Some(Reading { late_at, web });
        (self.number, self.again, self.retry_at) = (number, false, None);
        true
    }

    /// When to call [`Reloads::late`] and [`Reloads::next`].
    pub(super) fn deadline(&self) -> Option<Instant> {
        let late_at = self.running.as_ref().and_then(|reading| reading.late_at);
        [late_at, self.retry_at].into_iter().flatten().min()
    }

    /// Reports once that a reading takes long.
    pub(super) fn late(&mut self) -> Option<String> {
        let reading = self.running.as_mut()?;
        reading.late_at.take_if(|at| *at <= Instant::now())?;
        let file = reading.web.get().map_or_else(
            || "a file of the configuration".to_owned(),
            |path| format!("{} (web_config_file), or a file that it names,", path.display()),
        );
        Some(format!(
            "{file} cannot be read: no answer within {} s",
            LATE.as_secs()
        ))
    }

    /// The result of the last reading, if it has returned.
    pub(super) fn result(&mut self) -> Option<(Origin, Found)> {
        while let Ok((number, source, found)) = self.results.try_recv() {
            if number == self.number {
                self.running = None;
                return Some((source, found));
            }
            self.hung = self.hung.saturating_sub(1);
        }
        None
    }

    /// Begins what was asked for meanwhile. Returns whether a reading has begun.
    pub(super) fn next(&mut self, source: &Origin) -> bool {
        let is_due = self.retry_at.is_none_or(|at| at <= Instant::now());
        self.again && is_due && self.ask(source)
    }
}
