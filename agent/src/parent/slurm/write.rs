//! Reads the own node and carries out the acts: look, prove, decide, write, look again.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use collectors::sys::boot::ticks_per_second;
use jiff::tz::TimeZone;

use super::find::{self, Boot, LocalSlurmd, Search};
use super::guard::Slots;
use super::memory::DrainMemory;
use super::scontrol::Scontrol;
use super::seen::SeenSlurmd;
use super::stop::StopFiles;
use model::scheduler::{
    Action, Author, Guard, IncidentId, LookError, NOT_WRITTEN, NodeState, Outcome, Permission,
};
use slurm::state::{Base, Flag, Node};
use slurm::{Settings, action, describe, parse, proof, sinfo, texts};
use sys::spawn::{self, CommandRunner};

/// The own node. Every call may block for [`patience`](model::scheduler::patience): call it on a thread of its own.
#[derive(Debug)]
pub struct Slurm {
    pub(super) config: Settings,
    hostname: String,
    boot_time: Option<i64>,
    uid: u32,
    proc: PathBuf,
    pub(super) scontrol: Scontrol,
    stop: StopFiles,
    pub(super) slots: Slots,
    /// The node whose host name and boot time matched, with the slurmd that ran then. Until that slurmd ends, sinfo reads it.
    proven: Option<(LocalSlurmd, Node)>,
    /// The proven slurmd of this boot, also of an earlier parent.
    seen: SeenSlurmd,
    memory: DrainMemory,
    /// The drain that was recorded is gone, and no other was seen since.
    is_gone: bool,
    /// The start of slurmctld, as read after that.
    started: Option<i64>,
    /// How often it was asked for.
    asked: u8,
    /// The request was abandoned: it must not write any more.
    given_up: Arc<AtomicBool>,
}

/// What sinfo shows of the node.
enum Known {
    Shown(Box<Node>),
    /// scontrol must prove it first.
    Unproven,
    /// scontrol shows it this time.
    Failed(String),
}

/// Why there is no answer, and whether it is a time-out.
pub(super) enum Silence {
    Late(String),
    Said(LookError),
}

impl Silence {
    /// The outcome of an act that was not begun.
    pub(super) fn before_write(self) -> Box<Outcome> {
        Box::new(match self {
            Self::Late(why) => Outcome::NotBegun(why),
            Self::Said(LookError::NotHere(why) | LookError::NotOurs(why)) => Outcome::NotOurs(why),
            Self::Said(LookError::Failed(why)) => Outcome::Failed(format!("{NOT_WRITTEN}{why}")),
        })
    }
}

impl From<Silence> for LookError {
    fn from(silence: Silence) -> Self {
        match silence {
            Silence::Late(why) => Self::Failed(why),
            Silence::Said(error) => error,
        }
    }
}

impl Slurm {
    /// `hostname`: this machine's. `boot_time`: in seconds since the epoch; without it no boot time of a node is proven.
    pub fn new(config: Settings, hostname: String, boot_time: Option<i64>) -> Self {
        Self {
            config,
            hostname,
            boot_time,
            uid: nix::unistd::geteuid().as_raw(),
            proc: PathBuf::from("/proc"),
            scontrol: Scontrol::default(),
            stop: StopFiles::default(),
            slots: Slots::default(),
            proven: None,
            seen: SeenSlurmd::default(),
            memory: DrainMemory::default(),
            is_gone: false,
            started: None,
            asked: 0,
            given_up: Arc::default(),
        }
    }

    /// Records its own drain in a file that only the parent can write.
    #[must_use]
    pub fn with_memory(mut self, memory: DrainMemory) -> Self {
        self.memory = memory;
        self
    }

    /// Keeps the proven slurmd of this boot in a file that only the parent can write.
    #[must_use]
    pub fn with_seen(mut self, seen: SeenSlurmd) -> Self {
        self.seen = seen;
        self
    }

    /// Looks for slurmd in a stand-in for `/proc`: a machine that plays many nodes has too many processes.
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub fn with_proc(mut self, proc: PathBuf) -> Self {
        self.proc = proc;
        self
    }

    /// Runs scontrol here, and so not beside one that resists SIGKILL. `files` reads stop files in the same way.
    #[must_use]
    pub fn with_commands(mut self, commands: CommandRunner, files: CommandRunner) -> Self {
        self.scontrol = Scontrol::new(commands);
        self.stop = StopFiles::new(files);
        self
    }

    /// Once this is set, nothing is written: the requester already got an unknown outcome.
    pub fn set_given_up(&mut self, given_up: Arc<AtomicBool>) {
        self.given_up = given_up;
    }

    /// Updates name and boot time: a clock that is set, or a late name, changes them.
    pub fn set_here(&mut self, hostname: String, boot_time: Option<i64>) {
        self.hostname = hostname;
        self.boot_time = boot_time;
    }

    /// Reads the own node, proven to be this machine.
    ///
    /// # Errors
    /// No slurmd here, not proven to be this machine, or no answer.
    pub fn look(&mut self) -> Result<NodeState, LookError> {
        let (found, node) = self.look_for(None)?;
        if self.config.guard.on {
            // Read beside the proof, so that a drain does not wait for it. A failure is repeated with the drain.
            self.partition(&found).ok();
        }
        let mut shown = describe(&node);
        if self.is_gone && shown.drained == Some(false) {
            // Lifted by an operator, or lost in a crash of slurmctld: the time of its start distinguishes them, and without
            // it the daemon would take a loss for a lift.
            if self.started.is_none() && self.asked < TRIES {
                self.asked += 1;
                match self.controller_started(&found) {
                    Ok(started) => self.started = started,
                    // scontrol also asks the other slurmctlds, of which one may be off for weeks.
                    Err(silence) if self.asked < TRIES => return Err(silence.into()),
                    Err(_) => {
                        tracing::warn!("slurmctld does not say when it started; the drain counts as lifted")
                    }
                }
            }
            shown.controller_started = self.started;
        }
        Ok(shown)
    }

    fn controller_started(&mut self, found: &LocalSlurmd) -> Result<Option<i64>, Silence> {
        let args = vec!["show".to_owned(), "config".to_owned()];
        let result = self.scontrol.run(&self.config, found, args);
        let started = |output: &spawn::CommandOutput| {
            let text = String::from_utf8_lossy(&output.stdout);
            sinfo::controller_started(&text, &TimeZone::UTC)
        };
        // Where no slurmctld answers its last question, it ends with 1 after all it has printed.
        if let Some(started) = result.as_ref().ok().and_then(started) {
            return Ok(Some(started));
        }
        answer("scontrol show config", result).map(|_| None)
    }

    /// Carries out an action, if the node's current state permits it.
    pub fn act(&mut self, action: &Action) -> Outcome {
        if !action::is_ours(action) {
            return Outcome::Failed(format!("{NOT_WRITTEN}not a reason or incident of nodewarden"));
        }
        if let Some(outcome) = self.stopped(action) {
            return outcome;
        }
        let Ready {
            found,
            node: before,
            guard,
        } = match self.ready(action) {
            Ok(ready) => ready,
            Err(outcome) => return *outcome,
        };
        let shown = describe(&before);
        let permission = self.permission(action, &before, &shown);
        if guard.is_some() && permission != Permission::Allowed {
            self.give_back(&found);
        }
        match permission {
            Permission::Allowed => {}
            Permission::Already => return Outcome::Already(shown),
            Permission::Foreign => return Outcome::Foreign(shown),
            Permission::Withheld(word) => return Outcome::Withheld(word, shown),
        }
        // The file may be younger than the commands before. The slot stays, for the next try: its end is a write, too.
        if let Some(outcome) = self.stopped(action) {
            return outcome;
        }
        if self.given_up.load(Ordering::Acquire) {
            return Outcome::NotBegun("the request was abandoned".to_owned());
        }
        let refused = match self.update(&found, action, &before) {
            Ok(refused) => refused,
            Err(why) => return Outcome::Unknown(why),
        };
        // Also after a refusal: "timed out" may be returned for a completed write.
        match self.look_for(Some(&found)) {
            Ok((_, after)) => match action::outcome(action, &after, refused) {
                Outcome::Done(node) => Outcome::Done(NodeState { guard, ..node }),
                other => other,
            },
            Err(Silence::Late(why) | Silence::Said(LookError::Failed(why))) => {
                Outcome::Unknown(format!("written, but reading it back failed: {why}"))
            }
            Err(Silence::Said(error)) => {
                Outcome::Unknown(format!("written, but reading it back failed: {error}"))
            }
        }
    }

    /// Whether a stop file forbids the act, or cannot be looked for.
    fn stopped(&mut self, action: &Action) -> Option<Outcome> {
        if is_ordered(action) {
            return None;
        }
        self.stop.held(&self.config)
    }

    /// The node before an act, read last: what a person writes during the other commands is then seen. A drain has its slot
    /// before it, so that what is read includes what others wrote with theirs.
    fn ready(&mut self, action: &Action) -> Result<Ready, Box<Outcome>> {
        let is_drain = matches!(action, Action::Drain { .. });
        let found = self.find(None).map_err(Silence::before_write)?;
        if !is_drain || !self.config.guard.on {
            if !is_ordered(action) {
                self.not_paused(&found)?;
            }
            let (found, node) = self.look_for(Some(&found)).map_err(Silence::before_write)?;
            return Ok(Ready {
                found,
                node,
                guard: None,
            });
        }
        // Without a proof in this boot, the node is read before anything is taken in its name.
        let (found, first) = match self.proven_node(&found) {
            Some(_) => (found, None),
            None => self
                .look_for(None)
                .map(|(found, node)| (found, Some(node)))
                .map_err(Silence::before_write)?,
        };
        let proven = self.proven_node(&found).or(first).ok_or_else(|| {
            Box::new(Outcome::NotOurs(
                "slurmctld has no boot time of the node".to_owned(),
            ))
        })?;
        let taken = self.take_slot(&found, &proven, action)?;
        let node = match taken.own {
            // Another drain: only sinfo of the node alone shows who set it.
            Some(node) if node.has(Flag::Drain) || node.has(Flag::Fail) || node.base == Base::Down => {
                self.look_for(Some(&found)).map_err(Silence::before_write)?.1
            }
            Some(node) => {
                self.accept(&found, &node, false).map_err(Silence::before_write)?;
                node
            }
            // It may have left the partition.
            None => {
                self.forget_proof();
                self.look_for(None).map_err(Silence::before_write)?.1
            }
        };
        Ok(Ready {
            found,
            node,
            guard: Some(taken.guard),
        })
    }

    /// The permission of the state table; a drain with slurmctld's own text is lifted only if our record shows that
    /// it had our reason before.
    fn permission(&self, action: &Action, node: &Node, shown: &NodeState) -> Permission {
        let permission = action::permission(action, node, shown);
        match action {
            Action::Undrain { incident, .. }
                if permission == Permission::Allowed
                    && shown.author == Author::Scheduler
                    && !self.memory.is(incident) =>
            {
                Permission::Foreign
            }
            _ => permission,
        }
    }

    /// `expected`: the slurmd that the act is for; it must still be the same one.
    fn look_for(&mut self, expected: Option<&LocalSlurmd>) -> Result<(LocalSlurmd, Node), Silence> {
        let found = self.find(expected)?;
        let (state, is_fresh) = match self.known(&found)? {
            Known::Shown(state) => (*state, false),
            Known::Unproven => (self.show(&found)?, true),
            Known::Failed(why) => {
                let state = self.show(&found)?;
                self.scontrol.sinfo_failed(&why);
                (state, true)
            }
        };
        self.accept(&found, &state, is_fresh)?;
        Ok((found, state))
    }

    /// Proves that the node is this machine, and notes whether our drain stands.
    fn accept(&mut self, found: &LocalSlurmd, state: &Node, is_fresh: bool) -> Result<(), Silence> {
        let boot_time = self.boot_of(found);
        let own = proof::Own {
            name: &found.node_name,
            hostname: &self.hostname,
            boot_time,
            proven: self.is_proven(found),
        };
        proof::prove(state, own).map_err(|doubt| {
            self.proven = None;
            if doubt.is_other_boot {
                self.seen.forget();
            }
            Silence::Said(LookError::NotOurs(match found.boot {
                Boot::Machine => doubt.why,
                Boot::Start | Boot::At(_) => {
                    format!("{} (slurmd runs with -b: its start is the boot)", doubt.why)
                }
            }))
        })?;
        if is_fresh {
            self.proven = Some((found.clone(), state.clone()));
            self.slots.partition = None;
            self.seen.set(&LocalSlurmd {
                boot: match found.boot {
                    Boot::Machine => Boot::Machine,
                    Boot::Start | Boot::At(_) => boot_time.map_or(found.boot, Boot::At),
                },
                ..found.clone()
            });
        }
        let reason = state.reason.as_ref().filter(|_| state.has(Flag::Drain));
        let reason = reason.map_or("", |reason| reason.text.as_str());
        // Of an act of this parent or of an earlier one, answered or not: the reason is the proof.
        if let Some(incident) = texts::incident_of(reason).and_then(IncidentId::parse) {
            self.memory.drained(&incident);
            (self.is_gone, self.started, self.asked) = (false, None, 0);
            self.slots.used();
        } else if texts::is_slurm_text(reason) {
            self.slots.used();
        } else {
            self.is_gone |= self.memory.is_any();
            self.memory.over();
        }
        Ok(())
    }

    /// The boot time that this slurmd reports, if it runs on this machine.
    fn boot_of(&self, found: &LocalSlurmd) -> Option<i64> {
        match found.boot {
            Boot::Machine => self.boot_time,
            Boot::At(time) => Some(time),
            Boot::Start => {
                let (_, ticks) = found.process?;
                let since = i64::try_from(ticks / ticks_per_second()).ok()?;
                Some(self.boot_time?.saturating_add(since))
            }
        }
    }

    /// Whether the node of this slurmd was proven in this boot.
    fn is_proven(&self, found: &LocalSlurmd) -> bool {
        let proven = self.proven.as_ref().map(|(slurmd, _)| &slurmd.node_name);
        // An earlier parent's proof holds for the slurmd that runs: another machine may have taken the name of one that ended.
        proven == Some(&found.node_name) || (found.process.is_some() && self.seen.is(found))
    }

    /// The next request proves the node again.
    pub(super) fn forget_proof(&mut self) {
        self.proven = None;
        self.slots.partition = None;
    }

    /// The slurmd of this machine. `expected`: the one that the act is for.
    fn find(&self, expected: Option<&LocalSlurmd>) -> Result<LocalSlurmd, Silence> {
        let search = Search {
            proc: &self.proc,
            uid: self.uid,
            hostname: &self.hostname,
            wanted: self.config.node_name.as_deref(),
        };
        Ok(match expected {
            Some(found) => found.clone(),
            // The name that was proven in this boot stays: a drain does not wait for slurmd.
            None => match (
                find::find(&search),
                self.seen.get(self.config.node_name.as_deref()),
            ) {
                (Err(find::NotFound::NoSlurmd(_)), Some(seen)) => seen,
                (found, _) => found.map_err(|why| Silence::Said(why.into()))?,
            },
        })
    }

    /// The partitions of the proven node.
    pub(super) fn proven_partitions(&self) -> Vec<String> {
        let node = self.proven.as_ref().map(|(_, node)| node);
        node.map(|node| node.partitions.clone()).unwrap_or_default()
    }

    /// The node as it was proven, if its slurmd still runs.
    fn proven_node(&self, found: &LocalSlurmd) -> Option<Node> {
        let (slurmd, node) = self.proven.as_ref()?;
        (slurmd == found && node.boot_time.is_some()).then(|| node.clone())
    }

    /// The node that is proven, as sinfo shows it now.
    fn known(&mut self, found: &LocalSlurmd) -> Result<Known, Silence> {
        let Some(proven) = self.proven_node(found) else {
            return Ok(Known::Unproven);
        };
        let args = sinfo::args(&found.node_name);
        let output = match self.scontrol.sinfo(&self.config, found, args) {
            Ok(output) if output.code == 0 => output,
            // scontrol may work all the same.
            Ok(output) => return Ok(Known::Failed(said(&output))),
            Err(error @ (spawn::SpawnError::TimedOut(_) | spawn::SpawnError::Stuck { .. })) => {
                return Err(Silence::Late(format!("sinfo: {error}")));
            }
            Err(error) => return Ok(Known::Failed(error.to_string())),
        };
        let text = String::from_utf8_lossy(&output.stdout);
        let Some(state) = sinfo::node(&text, &proven, &TimeZone::UTC) else {
            return Ok(Known::Failed(
                "it does not show every field of the node, or the node is in no partition".to_owned(),
            ));
        };
        self.scontrol.sinfo_works();
        Ok(Known::Shown(Box::new(Node {
            has_extra: state.has_extra && self.config.mirror,
            ..state
        })))
    }

    /// The node with its identity. slurmctld sends the whole node table for it.
    fn show(&mut self, found: &LocalSlurmd) -> Result<Node, Silence> {
        let name = &found.node_name;
        let args = vec!["show".to_owned(), "node".to_owned(), name.clone()];
        let result = self.scontrol.run(&self.config, found, args);
        // One that was proven is looked for again soon: slurmctld may have read a wrong slurm.conf.
        if !self.is_proven(found)
            && let Ok(output) = &result
            && said(output).ends_with(&format!("Node {name} not found"))
        {
            let why = format!(
                "scontrol show node: node {name} not found; set slurm.node_name to the NodeName of this machine in slurm.conf"
            );
            return Err(Silence::Said(LookError::NotOurs(why)));
        }
        let output = answer("scontrol show node", result)?;
        let text = String::from_utf8_lossy(&output.stdout);
        parse::show_node(&text, name, &TimeZone::UTC).map_err(|error| failed(error.to_string()))
    }

    /// Writes. `Ok(Some)`: slurmctld's refusal. `Err`: no answer in time.
    fn update(
        &mut self,
        found: &LocalSlurmd,
        action: &Action,
        before: &Node,
    ) -> Result<Option<String>, String> {
        let mut args = vec!["update".to_owned(), format!("NodeName={}", found.node_name)];
        match action {
            Action::Drain { reason, .. } => {
                self.slots.sent();
                args.push("State=DRAIN".to_owned());
                args.push(format!("Reason={}", reason.as_str()));
            }
            Action::Undrain { .. } => {
                args.push("State=UNDRAIN".to_owned());
                // Slurm 24.11 keeps the reason: a later drain without one would look like ours, and NHC would drain with it.
                args.push(format!("Reason={}", texts::NO_REASON));
            }
            Action::Mirror { .. } => {}
            Action::Comment { text, .. } => args.push(format!("Comment={}", text.as_str())),
            Action::Uncomment { .. } => args.push("Comment=".to_owned()),
        }
        if let Some(extra) = action::extra(action, before) {
            args.push(format!("Extra={extra}"));
        }
        match self.scontrol.run(&self.config, found, args) {
            Ok(output) if output.code == 0 => Ok(None),
            Ok(output) => Ok(Some(said(&output))),
            Err(error @ (spawn::SpawnError::TimedOut(_) | spawn::SpawnError::Signalled(_))) => {
                Err(format!("scontrol update: {error}"))
            }
            Err(error) => Ok(Some(error.to_string())),
        }
    }
}

/// How often the start of slurmctld is asked for.
const TRIES: u8 = 4;

/// Whether a person ordered it: no pause holds it.
fn is_ordered(action: &Action) -> bool {
    matches!(action, Action::Undrain { is_ordered: true, .. })
}

/// What an act needs.
struct Ready {
    found: LocalSlurmd,
    node: Node,
    guard: Option<Guard>,
}

/// The output of a command that succeeded.
pub(super) fn answer(
    what: &str,
    result: Result<spawn::CommandOutput, spawn::SpawnError>,
) -> Result<spawn::CommandOutput, Silence> {
    match result {
        Ok(output) if output.truncated => {
            Err(failed(format!("{what}: more than {} bytes", spawn::MAX_OUTPUT)))
        }
        Ok(output) if output.code == 0 => Ok(output),
        Ok(output) => Err(failed(format!("{what}: {}", said(&output)))),
        Err(error @ (spawn::SpawnError::TimedOut(_) | spawn::SpawnError::Stuck { .. })) => {
            Err(Silence::Late(format!("{what}: {error}")))
        }
        Err(error) => Err(failed(format!("{what}: {error}"))),
    }
}

pub(super) fn failed(why: String) -> Silence {
    Silence::Said(LookError::Failed(why))
}

/// The hint that precedes each failure of munge, also where munged does not run.
const MUNGE_HINT: &str = "If munged is up, restart with";

/// The first line of scontrol's error output that is no hint.
pub(super) fn said(output: &spawn::CommandOutput) -> String {
    let text = [&output.stderr, &output.stdout]
        .iter()
        .find_map(|bytes| {
            let text = String::from_utf8_lossy(bytes);
            text.lines()
                .map(str::trim)
                .find(|l| !l.is_empty() && !l.contains(MUNGE_HINT))
                .map(str::to_owned)
        })
        .unwrap_or_else(|| "no message".to_owned());
    let text: String = text.chars().filter(|c| !c.is_control()).take(200).collect();
    format!("exit code {}, {text}", output.code)
}

#[cfg(test)]
#[path = "write_tests.rs"]
pub(super) mod tests;

#[cfg(test)]
#[path = "between_tests.rs"]
mod between_tests;

#[cfg(test)]
#[path = "boot_tests.rs"]
mod boot_tests;
