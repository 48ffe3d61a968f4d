//! Runs the few commands, on a thread of its own: `scontrol` on the own node. A thread that does not return is
//! abandoned; the daemon gets an unknown outcome.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::bucket::Bucket;
use crate::parent::slurm::here;
use crate::parent::slurm::write::Slurm;
use crate::parent::state::Records;
use crate::refusals::Refusals;
use model::scheduler::{Action, ActionId, LookError, NOT_WRITTEN, NodeState, Outcome, patience};
use sys::poll::Waker;
use sys::spawn::CommandRunner;

const RECORDING: &str = "this is a recording: it has no Slurm";

/// Limit of hung threads; beyond it none is started.
const MAX_HUNG: usize = 3;
/// Limit of queued requests. The daemon has one look and one act under way at a time.
const MAX_WAITING: usize = 8;

/// Looks at the node: this many at once, and the time in which as many more are allowed. The daemon has one under way
/// at a time and repeats it after 500 ms at the earliest. Without slurmd, it repeats it each second while a drain is
/// required.
const LOOKS: (u32, Duration) = (10, Duration::from_secs(5));
/// Acts likewise. The daemon has one drain or lift and one comment under way. After a failure it waits 2 s, with a
/// comment 5 min; after a success, the next act needs another incident, a person's `clear`, or a condition that stayed
/// clear.
const ACTS: (u32, Duration) = (10, Duration::from_secs(50));

/// The result of a request.
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
    /// Of one that was not begun.
    fn failed(self, why: &str) -> ActReply {
        match self {
            Self::Look => ActReply::Looked(Err(LookError::Failed(why.to_owned()))),
            Self::Act(id, _) => ActReply::Acted(id, Outcome::Failed(format!("{NOT_WRITTEN}{why}"))),
        }
    }

    fn unknown(self, why: &str) -> ActReply {
        match self {
            Self::Look => ActReply::Looked(Err(LookError::Failed(why.to_owned()))),
            Self::Act(id, _) => ActReply::Acted(id, Outcome::Unknown(why.to_owned())),
        }
    }
}

/// A request, and the flag that is set when it is abandoned.
type Order = (ActRequest, Arc<AtomicBool>);

/// Why no thread carries out a request.
#[derive(Debug)]
enum NoThread {
    /// Earlier ones have not returned.
    Limit,
    /// The system starts none.
    NotStarted(io::Error),
}

/// Carries out requests one after the other.
#[derive(Debug)]
pub struct ActRunner {
    config: slurm::Settings,
    forged_boot_time: Option<i64>,
    /// The daemon reads a recording: its findings say nothing about this machine.
    recorded: bool,
    /// Shared with each thread.
    records: Records,
    waker: Waker,
    waiting: VecDeque<ActRequest>,
    running: Option<(ActRequest, Instant)>,
    /// Set when the running request is abandoned: it must not write any more.
    given_up: Arc<AtomicBool>,
    /// The thread that carries out requests.
    thread: Option<Sender<Order>>,
    hung: usize,
    /// Shared with each thread: a scontrol that resists SIGKILL outlives its thread, and no other one is started beside it.
    commands: CommandRunner,
    /// The same for what reads stop files.
    files: CommandRunner,
    answers: Sender<ActReply>,
    /// Raised when a thread is abandoned: its late answer is then dropped.
    generation: u64,
    done: Receiver<(u64, ActReply)>,
    to_done: Sender<(u64, ActReply)>,
    /// Limits outlive the daemon: a restarted one gets no new burst.
    looks: Bucket,
    acts: Bucket,
    /// Copies of the drain's record: they take no act from a drain.
    copies: Bucket,
    refusals: Refusals,
}

impl ActRunner {
    /// A runner and the receiver of its answers.
    pub fn new(
        config: slurm::Settings,
        forged_boot_time: Option<i64>,
        recorded: bool,
        records: Records,
        waker: Waker,
    ) -> (Self, Receiver<ActReply>) {
        let (answers, out) = channel();
        let (to_done, done) = channel();
        let runner = Self {
            config,
            forged_boot_time,
            recorded,
            records,
            waker,
            waiting: VecDeque::new(),
            running: None,
            given_up: Arc::default(),
            thread: None,
            hung: 0,
            commands: CommandRunner::default(),
            files: CommandRunner::default(),
            answers,
            generation: 0,
            done,
            to_done,
            looks: Bucket::new(LOOKS.0, LOOKS.1),
            acts: Bucket::new(ACTS.0, ACTS.1),
            copies: Bucket::new(ACTS.0, ACTS.1),
            refusals: Refusals::default(),
        };
        (runner, out)
    }

    /// Sets the configuration of later requests. An act that is not written yet may not be wanted any more: the daemon
    /// decides it again.
    pub fn configure(&mut self, config: slurm::Settings) {
        self.given_up.store(true, Ordering::Release);
        if config != self.config {
            self.config = config;
            // The thread ends with its queue; the answer to its current request counts. Otherwise it stays: it knows the slot that
            // the stopped drain has taken.
            self.thread = None;
        }
        let (looks, acts) = self
            .waiting
            .drain(..)
            .partition(|request| *request == ActRequest::Look);
        self.waiting = looks;
        let acts: VecDeque<_> = acts;
        for act in acts {
            sys::ignore(self.answers.send(act.failed("the configuration was changed")));
            self.waker.wake();
        }
    }

    /// Drops queued requests: their daemon is gone, and a new one decides again.
    pub fn forget(&mut self) {
        self.waiting.clear();
    }

    /// Before the parent ends: no later write, and no command without its deadline. The outcome of a write is then unknown to the
    /// next daemon, too.
    pub fn stop(&mut self) {
        self.given_up.store(true, Ordering::Release);
        self.commands.kill();
    }

    /// Reads the own node; a queued look serves as well.
    pub fn look(&mut self) {
        if !self.waiting.contains(&ActRequest::Look) {
            if !self.looks.take(1, Instant::now()) {
                let why = "too many requests to read the node: at most 10 at once and 2 each second";
                self.refuse(
                    "looks",
                    why,
                    ActReply::Looked(Err(LookError::Failed(why.to_owned()))),
                );
                return;
            }
            self.waiting.push_back(ActRequest::Look);
        }
        self.next();
    }

    /// Carries out an act.
    pub fn act(&mut self, id: ActionId, action: Action) {
        let limit = match action {
            Action::Mirror { .. } => &mut self.copies,
            _ => &mut self.acts,
        };
        let why = if self.waiting.len() >= MAX_WAITING {
            "too many requests at once"
        } else if !limit.take(1, Instant::now()) {
            "too many requests to change the node: at most 10 at once and 1 each 5 s"
        } else {
            self.waiting.push_back(ActRequest::Act(id, action));
            self.next();
            return;
        };
        let why = format!("{NOT_WRITTEN}{why}");
        self.refuse("acts", &why, ActReply::Acted(id, Outcome::Failed(why.clone())));
    }

    fn refuse(&mut self, kind: &'static str, why: &str, answer: ActReply) {
        if let Some(silent) = self.refusals.add(kind, Instant::now()) {
            tracing::warn!(silent, "request of the daemon refused: {why}");
        }
        sys::ignore(self.answers.send(answer));
        self.waker.wake();
    }

    /// When to call [`ActRunner::overdue`].
    pub fn deadline(&self) -> Option<Instant> {
        self.running.as_ref().map(|(_, until)| *until)
    }

    /// Takes answers, abandons a thread after its time limit, and starts queued requests.
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
                "no answer from the command thread in time; abandoning it"
            );
            self.given_up.store(true, Ordering::Release);
            self.hung += 1;
            self.generation += 1;
            self.thread = None;
            out.push(request.unknown("the command did not return in time"));
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
        let thread = self.thread();
        self.hand_over(request, thread);
    }

    fn hand_over(&mut self, request: ActRequest, thread: Result<Sender<Order>, NoThread>) {
        self.given_up = Arc::default();
        let answer = match thread {
            Ok(thread) if thread.send((request.clone(), Arc::clone(&self.given_up))).is_ok() => {
                // Each command has its own deadline; this one is for code without a deadline.
                let patience = patience(self.config.timeout);
                self.running = Some((request, Instant::now() + patience));
                return;
            }
            Ok(_) => request.failed("the command thread has ended"),
            Err(NoThread::NotStarted(e)) => {
                request.failed(&format!("cannot start a thread for commands: {e}"))
            }
            Err(NoThread::Limit) => {
                request.unknown("earlier commands have not returned; limit of command threads reached")
            }
        };
        sys::ignore(self.answers.send(answer));
        self.thread = None;
        self.waker.wake();
    }

    fn thread(&mut self) -> Result<Sender<Order>, NoThread> {
        if let Some(thread) = &self.thread {
            return Ok(thread.clone());
        }
        if self.hung >= MAX_HUNG {
            return Err(NoThread::Limit);
        }
        let (to, requests) = channel::<Order>();
        let (done, waker, generation) = (self.to_done.clone(), self.waker.clone(), self.generation);
        let (forged, recorded) = (self.forged_boot_time, self.recorded);
        let mut slurm = Slurm::new(self.config.clone(), here::hostname(), forged)
            .with_commands(self.commands.clone(), self.files.clone())
            .with_memory(self.records.drain.clone())
            .with_seen(self.records.slurmd.clone());
        let started = thread::Builder::new().name("act".to_owned()).spawn(move || {
            for (request, given_up) in requests {
                slurm.set_given_up(given_up);
                slurm.set_here(here::hostname(), forged.or_else(here::boot_time));
                let carry_out = AssertUnwindSafe(|| match &request {
                    ActRequest::Look if recorded => {
                        ActReply::Looked(Err(LookError::NotHere(RECORDING.to_owned())))
                    }
                    ActRequest::Act(id, _) if recorded => {
                        ActReply::Acted(*id, Outcome::NotOurs(RECORDING.to_owned()))
                    }
                    ActRequest::Look => ActReply::Looked(slurm.look()),
                    ActRequest::Act(id, action) => ActReply::Acted(*id, slurm.act(action)),
                });
                // Without an answer it would count as one that hangs.
                let answer = catch_unwind(carry_out)
                    .unwrap_or_else(|_| request.unknown("panic in the command thread"));
                sys::ignore(done.send((generation, answer)));
                waker.wake();
            }
        });
        if let Err(e) = started {
            tracing::error!(error = %e, "cannot start a thread for commands");
            return Err(NoThread::NotStarted(e));
        }
        Ok(self.thread.insert(to).clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::scheduler::IncidentId;

    /// With an unknown outcome, the daemon would wait for a write that nothing can carry out.
    #[test]
    fn what_reaches_no_thread_is_unknown_only_beside_earlier_ones_that_hang() {
        let waker = Waker::new().unwrap();
        let (mut runner, answers) =
            ActRunner::new(slurm::Settings::default(), None, true, Records::default(), waker);
        let request = || {
            let incident = IncidentId::parse("aaaaaaaa").unwrap();
            ActRequest::Act(ActionId(1), Action::Uncomment { incident })
        };
        runner.hand_over(
            request(),
            Err(NoThread::NotStarted(io::ErrorKind::WouldBlock.into())),
        );
        let (ended, _) = channel();
        runner.hand_over(request(), Ok(ended));
        runner.hung = MAX_HUNG;
        runner.waiting.push_back(request());
        runner.next();
        let outcomes: Vec<Outcome> = answers
            .try_iter()
            .map(|answer| match answer {
                ActReply::Acted(_, outcome) => outcome,
                other @ ActReply::Looked(_) => panic!("{other:?}"),
            })
            .collect();
        let failed =
            |at: usize, text: &str| matches!(&outcomes[at], Outcome::Failed(why) if why.starts_with(text));
        assert!(
            failed(0, "nothing was written: cannot start a thread for commands: "),
            "{outcomes:?}"
        );
        assert!(
            failed(1, "nothing was written: the command thread has ended"),
            "{outcomes:?}"
        );
        assert!(
            matches!(&outcomes[2], Outcome::Unknown(why) if why.contains("limit of command threads")),
            "{outcomes:?}"
        );
    }

    #[test]
    fn another_configuration_stops_the_acts_that_are_not_written() {
        let waker = Waker::new().unwrap();
        let (mut runner, answers) =
            ActRunner::new(slurm::Settings::default(), None, true, Records::default(), waker);
        let request = |id| {
            let incident = IncidentId::parse("aaaaaaaa").unwrap();
            ActRequest::Act(ActionId(id), Action::Uncomment { incident })
        };
        let of_the_thread = Arc::clone(&runner.given_up);
        runner.running = Some((request(1), Instant::now() + Duration::from_secs(60)));
        runner.waiting = [request(2), ActRequest::Look].into();
        runner.configure(slurm::Settings::default());
        // It looks at this before it writes, and its answer is still waited for.
        assert!(of_the_thread.load(Ordering::Acquire) && runner.running.is_some());
        assert_eq!(runner.waiting, [ActRequest::Look]);
        let answers: Vec<ActReply> = answers.try_iter().collect();
        assert!(
            matches!(&answers[..], [ActReply::Acted(ActionId(2), Outcome::Failed(why))]
                if why == "nothing was written: the configuration was changed"),
            "{answers:?}"
        );
    }

    /// A recording has no Slurm, so each answer says whether the request reached the thread.
    #[test]
    fn a_flood_of_requests_is_refused_beyond_the_limit_and_each_is_answered() {
        let dir = tempfile::tempdir().unwrap();
        let waker = Waker::new().unwrap();
        let (mut runner, answers) = ActRunner::new(
            slurm::Settings::default(),
            Some(0),
            true,
            Records::of(dir.path()),
            waker,
        );
        let (mut done, mut refused) = (0, 0);
        let mut count = |answer: ActReply| match answer {
            ActReply::Acted(_, Outcome::NotOurs(_)) | ActReply::Looked(Err(LookError::NotHere(_))) => {
                done += 1
            }
            ActReply::Acted(_, Outcome::Failed(why)) | ActReply::Looked(Err(LookError::Failed(why))) => {
                assert!(why.contains("too many requests"), "{why}");
                refused += 1;
            }
            other => panic!("{other:?}"),
        };
        let incident = IncidentId::parse("aaaaaaaa").unwrap();
        for n in 0..500 {
            runner.act(
                ActionId(n),
                Action::Undrain {
                    incident: incident.clone(),
                    is_ordered: false,
                    lifts: Vec::new(),
                },
            );
            runner.look();
            while runner.running.is_some() {
                runner.overdue().into_iter().for_each(&mut count);
                thread::yield_now();
            }
            answers.try_iter().for_each(&mut count);
        }
        assert_eq!(done + refused, 1000);
        // 10 of each, and those that fell due meanwhile on a slow machine.
        assert!((20..60).contains(&done), "{done}");
    }
}
