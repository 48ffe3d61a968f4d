//! One node: the code of production on a thread, whose commands wait until the test answers them.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use model::scheduler::{Action, Outcome};
use slurm::Settings;
use sys::spawn::{CommandOutput, SpawnError};

use super::super::super::find::Boot;
use super::super::super::seen::SeenSlurmd;
use super::super::{LocalSlurmd, Slurm};
use super::{BOOT, HOST};

type Answer = Result<CommandOutput, SpawnError>;

/// In place of programs.
#[derive(Debug)]
pub(in super::super::super) struct Line {
    says: Sender<Said>,
    answers: Mutex<Receiver<Option<Answer>>>,
}

/// The end of the agent's process.
struct Crashed;

impl Line {
    pub(in super::super::super) fn answer(&self, args: &[String]) -> Answer {
        self.says.send(Said::Asks(args.to_vec())).ok();
        let answer = self.answers.lock().unwrap().recv().ok().flatten();
        answer.unwrap_or_else(|| resume_unwind(Box::new(Crashed)))
    }
}

/// What the thread says next.
#[derive(Debug)]
pub(super) enum Said {
    /// A command waits for its answer.
    Asks(Vec<String>),
    /// The act is over. `None`: the agent crashed, and runs again.
    Over(Option<Box<Outcome>>),
}

/// The test's side. The thread ends with it.
#[derive(Debug)]
pub(super) struct Agent {
    acts: Sender<Action>,
    answers: Sender<Option<Answer>>,
    said: Receiver<Said>,
}

impl Agent {
    pub(super) fn start(settings: Settings) -> Self {
        let (acts, to_act) = channel();
        let (answers, to_answer) = channel();
        let (says, said) = channel();
        let line = Arc::new(Line {
            says,
            answers: Mutex::new(to_answer),
        });
        thread::spawn(move || run(&settings, &to_act, &line));
        Self { acts, answers, said }
    }

    pub(super) fn act(&self, action: Action) -> Said {
        self.acts.send(action).unwrap();
        self.said.recv().unwrap()
    }

    /// `None`: the agent crashes.
    pub(super) fn answer(&self, answer: Option<Answer>) -> Said {
        self.answers.send(answer).unwrap();
        self.said.recv().unwrap()
    }
}

fn run(settings: &Settings, acts: &Receiver<Action>, line: &Arc<Line>) {
    let mut slurm = process(settings, line);
    for action in acts {
        let outcome = catch_unwind(AssertUnwindSafe(|| slurm.act(&action)));
        let outcome = match outcome {
            Ok(outcome) => Some(Box::new(outcome)),
            Err(why) if why.is::<Crashed>() => {
                slurm = process(settings, line);
                None
            }
            Err(why) => resume_unwind(why),
        };
        if line.says.send(Said::Over(outcome)).is_err() {
            return;
        }
    }
}

/// A new process: it remembers nothing but its node.
fn process(settings: &Settings, line: &Arc<Line>) -> Slurm {
    let mut seen = SeenSlurmd::default();
    seen.set(&LocalSlurmd {
        node_name: settings.node_name.clone().unwrap(),
        conf: None,
        exe: None,
        process: None,
        boot: Boot::Machine,
    });
    let mut slurm = Slurm::new(settings.clone(), HOST.to_owned(), Some(BOOT))
        .with_seen(seen)
        .with_proc(PathBuf::from("/nonexistent"));
    slurm.scontrol.model = Some(Arc::clone(line));
    slurm
}
