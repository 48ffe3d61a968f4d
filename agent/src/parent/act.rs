//! Runs the few commands there are, on a thread of its own: `scontrol` on the own node. A thread that does not come
//! back is left to itself; the daemon is told that the outcome is not known.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::parent::slurm::here;
use crate::parent::slurm::memory::DrainMemory;
use crate::parent::slurm::write::Slurm;
use model::scheduler::{Action, ActionId, LookError, NodeState, Outcome};
use sys::poll::Waker;

const RECORDING: &str = "this is a recording: it has no Slurm";

/// How many threads may hang before none is started any more.
const MAX_HUNG: usize = 3;
/// How many requests may wait. The daemon has one look and one act under way at a time.
const MAX_WAITING: usize = 8;

/// What came of a request.
#[derive(Debug)]
pub enum ActReply {
    /// The own node.
    Looked(Result<NodeState, LookError>),
    /// An act.
    Acted(ActionId, Outcome),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ActRequest {
    Look,
    Act(ActionId, Action),
}

impl ActRequest {
    fn unknown(self, why: &str) -> ActReply {
        match self {
            Self::Look => ActReply::Looked(Err(LookError::Failed(why.to_owned()))),
            Self::Act(id, _) => ActReply::Acted(id, Outcome::Unknown(why.to_owned())),
        }
    }
}

/// Carries requests out one after the other.
#[derive(Debug)]
pub struct ActRunner {
    config: slurm::Settings,
    forged_boot_time: Option<i64>,
    /// The daemon looks at a recording: what it finds says nothing about this machine.
    recorded: bool,
    /// Where the parent notes which drain it wrote.
    memory: PathBuf,
    waker: Waker,
    waiting: VecDeque<ActRequest>,
    running: Option<(ActRequest, Instant)>,
    /// Set when the running request is given up: it must not write any more.
    given_up: Arc<AtomicBool>,
    /// The thread that carries out requests, and which generation of configuration it has.
    thread: Option<Sender<ActRequest>>,
    hung: usize,
    answers: Sender<ActReply>,
    /// Raised when a thread is given up: its late answer is then dropped.
    generation: u64,
    done: Receiver<(u64, ActReply)>,
    to_done: Sender<(u64, ActReply)>,
}

impl ActRunner {
    /// A runner and where its answers come out.
    pub fn new(
        config: slurm::Settings,
        forged_boot_time: Option<i64>,
        recorded: bool,
        memory: PathBuf,
        waker: Waker,
    ) -> (Self, Receiver<ActReply>) {
        let (answers, out) = channel();
        let (to_done, done) = channel();
        let runner = Self {
            config,
            forged_boot_time,
            recorded,
            memory,
            waker,
            waiting: VecDeque::new(),
            running: None,
            given_up: Arc::default(),
            thread: None,
            hung: 0,
            answers,
            generation: 0,
            done,
            to_done,
        };
        (runner, out)
    }

    /// Another configuration, for requests from now on.
    pub fn configure(&mut self, config: slurm::Settings) {
        if config != self.config {
            self.config = config;
            // The thread ends when its queue does; what it has begun it finishes, and its answer counts.
            self.thread = None;
        }
    }

    /// Drops what waits: the daemon that asked for it is gone, and a new one decides anew.
    pub fn forget(&mut self) {
        self.waiting.clear();
    }

    /// Reads the own node; a look that is already waiting serves as well.
    pub fn look(&mut self) {
        if !self.waiting.contains(&ActRequest::Look) {
            self.waiting.push_back(ActRequest::Look);
        }
        self.next();
    }

    /// Carries out an act.
    pub fn act(&mut self, id: ActionId, action: Action) {
        if self.waiting.len() >= MAX_WAITING {
            let refused = ActReply::Acted(id, Outcome::Failed("too many requests at once".to_owned()));
            sys::ignore(self.answers.send(refused));
            self.waker.wake();
            return;
        }
        self.waiting.push_back(ActRequest::Act(id, action));
        self.next();
    }

    /// When [`ActRunner::overdue`] is to be asked.
    pub fn deadline(&self) -> Option<Instant> {
        self.running.as_ref().map(|(_, until)| *until)
    }

    /// Takes in what the thread has done, gives up a thread that is over its time, and starts what waits.
    pub fn overdue(&mut self) -> Vec<ActReply> {
        let mut out = Vec::new();
        while let Ok((generation, answer)) = self.done.try_recv() {
            if generation == self.generation {
                self.running = None;
                out.push(answer);
            } else {
                self.hung = self.hung.saturating_sub(1);
            }
        }
        if let Some((request, _)) = self.running.take_if(|(_, until)| *until <= Instant::now()) {
            tracing::error!(
                ?request,
                "no answer from the command thread; it is left to itself"
            );
            self.given_up.store(true, Ordering::Release);
            self.hung += 1;
            self.generation += 1;
            self.thread = None;
            out.push(request.unknown("the command did not come back in time"));
        }
        self.next();
        out
    }

    fn next(&mut self) {
        if self.running.is_some() {
            return;
        }
        let Some(request) = self.waiting.pop_front() else {
            return;
        };
        match self.thread() {
            Some(thread) if thread.send(request.clone()).is_ok() => {
                // Three calls of scontrol at most, each with its own deadline; this one is for what has none.
                let patience = self.config.timeout * 4 + Duration::from_secs(10);
                self.running = Some((request, Instant::now() + patience));
            }
            _ => {
                let answer =
                    request.unknown("commands that do not come back have used up the threads for them");
                sys::ignore(self.answers.send(answer));
                self.thread = None;
                self.waker.wake();
            }
        }
    }

    fn thread(&mut self) -> Option<Sender<ActRequest>> {
        if self.thread.is_none() && self.hung < MAX_HUNG {
            let (to, requests) = channel();
            let (done, waker, generation) = (self.to_done.clone(), self.waker.clone(), self.generation);
            let given_up = Arc::new(AtomicBool::new(false));
            self.given_up = Arc::clone(&given_up);
            let (forged, recorded) = (self.forged_boot_time, self.recorded);
            let mut slurm = Slurm::new(self.config.clone(), here::hostname(), forged.unwrap_or(0))
                .with_memory(DrainMemory::in_file(self.memory.clone()))
                .with_given_up(given_up);
            let started = thread::Builder::new().name("act".to_owned()).spawn(move || {
                for request in requests {
                    let boot_time = forged.or_else(here::boot_time);
                    // Without a boot time nothing is proven: an impossible one fits no node.
                    slurm.set_here(here::hostname(), boot_time.unwrap_or(i64::MIN / 2));
                    let answer = match request {
                        ActRequest::Look if recorded => {
                            ActReply::Looked(Err(LookError::NotHere(RECORDING.to_owned())))
                        }
                        ActRequest::Act(id, _) if recorded => {
                            ActReply::Acted(id, Outcome::NotOurs(RECORDING.to_owned()))
                        }
                        ActRequest::Look => ActReply::Looked(slurm.look()),
                        ActRequest::Act(id, action) => ActReply::Acted(id, slurm.act(&action)),
                    };
                    sys::ignore(done.send((generation, answer)));
                    waker.wake();
                }
            });
            match started {
                Ok(_) => self.thread = Some(to),
                Err(e) => tracing::error!(error = %e, "no thread for commands"),
            }
        }
        self.thread.clone()
    }
}
