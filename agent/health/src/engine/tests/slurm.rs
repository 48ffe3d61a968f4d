//! slurmctld with one node, and the parent in front of it.

use std::collections::{BTreeSet, VecDeque};

use model::scheduler::{Action, Guard, Held, HeldBy, LookError, NodeReason, NodeState, Outcome, Permission};
use slurm::describe;
use slurm::state::{Base, Flag, Node};

/// How the next act or look comes out, where not as it should.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// The act happens, and the answer says that it is not known.
    TimeoutDone,
    /// The act happens when [`Slurm::catch_up`] is called, and the answer says that it is not known.
    TimeoutLate,
    /// The act does not happen, and the answer says that it is not known.
    TimeoutLost,
    /// A command before the write gets no answer.
    NotBegun,
    Failed,
    NotOurs,
}

/// slurmctld's view of the one node, with the parent's rules about what may be written.
#[derive(Debug)]
pub(super) struct Slurm {
    pub(super) flags: BTreeSet<Flag>,
    pub(super) base: Base,
    pub(super) reason: Option<String>,
    pub(super) user: String,
    pub(super) gres: String,
    pub(super) here: bool,
    /// The controller's entry matches this machine.
    pub(super) proven: bool,
    pub(super) readable: bool,
    pub(super) controller_started: Option<i64>,
    pub(super) trouble: VecDeque<Trouble>,
    late: Vec<Action>,
    pub(super) comment: Option<String>,
    /// How often it was written.
    pub(super) comments: u32,
    pub(super) extra: Option<String>,
    /// This version has Extra.
    pub(super) has_extra: bool,
    /// The time of the reason, by slurmctld's clock. It differs with every drain.
    pub(super) reason_at: i64,
    pub(super) drains: u32,
    pub(super) undrains: u32,
    /// The undrains that write Extra and leave DRAIN.
    pub(super) keeps_drain: u32,
    /// What the parent holds each drain for, and whether it does so for a device that is proven to be broken.
    pub(super) held: Option<HeldBy>,
    pub(super) device_held: bool,
    /// Slots for nodes in maintenance are free.
    pub(super) maintenance_free: bool,
    /// The slot that the next drain gets.
    pub(super) slot: Option<String>,
    /// Drains that were asked for and held.
    pub(super) tries: u32,
}

impl Slurm {
    pub(super) fn new() -> Self {
        Self {
            flags: BTreeSet::new(),
            base: Base::Idle,
            reason: None,
            user: "root".to_owned(),
            gres: "gpu:h100:2".to_owned(),
            here: true,
            proven: true,
            readable: true,
            controller_started: None,
            trouble: VecDeque::new(),
            late: Vec::new(),
            comment: None,
            comments: 0,
            extra: None,
            has_extra: true,
            reason_at: 1_699_999_999,
            drains: 0,
            undrains: 0,
            keeps_drain: 0,
            held: None,
            device_held: true,
            maintenance_free: false,
            slot: None,
            tries: 0,
        }
    }

    pub(super) fn is_drained(&self) -> bool {
        self.flags.contains(&Flag::Drain)
    }

    pub(super) fn admin_drains(&mut self, reason: &str) {
        self.flags.insert(Flag::Drain);
        self.reason = Some(reason.to_owned());
        self.user = "bob".to_owned();
        self.reason_at += 1;
    }

    /// `State=RESUME`.
    pub(super) fn admin_resumes(&mut self) {
        self.admin_undrains();
        self.flags.remove(&Flag::RebootRequested);
    }

    /// `State=UNDRAIN`: a requested reboot stays.
    pub(super) fn admin_undrains(&mut self) {
        self.flags.remove(&Flag::Drain);
        // 24.11 keeps printing the old reason.
    }

    /// `scontrol cancel_reboot`: any drain ends with the request (22.05.8, 24.11.5), except where it has `nextstate=RESUME`.
    pub(super) fn admin_cancels_reboot(&mut self, resumes: bool) {
        if self.flags.remove(&Flag::RebootRequested) && !resumes {
            self.flags.remove(&Flag::Drain);
            self.reason = None;
        }
    }

    pub(super) fn node(&self) -> NodeState {
        NodeState {
            controller_started: self.controller_started,
            ..describe(&self.shown())
        }
    }

    fn shown(&self) -> Node {
        Node {
            name: "n0".to_owned(),
            hostname: "n0".to_owned(),
            base: self.base,
            flags: self.flags.clone(),
            unknown_words: Vec::new(),
            reason: self.reason.clone().map(|text| NodeReason {
                text,
                user: self.user.clone(),
                at: Some(self.reason_at),
            }),
            comment: self.comment.clone(),
            extra: self.extra.clone(),
            has_extra: self.has_extra,
            boot_time: None,
            slurmd_start_time: None,
            gres: self.gres.clone(),
            partitions: vec!["gpu".to_owned()],
        }
    }

    /// Whether the parent holds this act.
    fn holds(&self, action: &Action) -> Option<Held> {
        let by = self.held?;
        let is_held = match action {
            Action::Drain {
                in_maintenance: true, ..
            } if self.maintenance_free => false,
            Action::Drain { is_device, .. } => self.device_held || !is_device,
            Action::Undrain { is_ordered, .. } => by == HeldBy::Pause && !is_ordered,
            Action::Mirror { .. } | Action::Comment { .. } | Action::Uncomment { .. } => by == HeldBy::Pause,
        };
        is_held.then(|| Held {
            by,
            why: format!("held by {}", by.word()),
            guard: Some(guard(None)),
        })
    }

    pub(super) fn look(&self) -> Result<NodeState, LookError> {
        if !self.here {
            return Err(LookError::NotHere("no slurmd".to_owned()));
        }
        if !self.readable {
            return Err(LookError::Failed("scontrol hung".to_owned()));
        }
        if !self.proven {
            return Err(LookError::NotOurs("other boot time".to_owned()));
        }
        Ok(self.node())
    }

    pub(super) fn act(&mut self, action: &Action) -> Outcome {
        if !self.here {
            return Outcome::NotOurs("no slurmd".to_owned());
        }
        if !self.readable {
            return Outcome::Failed("scontrol hung".to_owned());
        }
        if !self.proven {
            return Outcome::NotOurs("other boot time".to_owned());
        }
        match self.trouble.pop_front() {
            Some(Trouble::Failed) => return Outcome::Failed("refused".to_owned()),
            Some(Trouble::NotOurs) => return Outcome::NotOurs("other boot time".to_owned()),
            Some(Trouble::TimeoutLate) => {
                self.late.push(action.clone());
                return Outcome::Unknown("timed out".to_owned());
            }
            Some(Trouble::TimeoutLost) => return Outcome::Unknown("timed out".to_owned()),
            Some(Trouble::NotBegun) => return Outcome::NotBegun("sinfo: timed out".to_owned()),
            Some(Trouble::TimeoutDone) => {
                self.write(action);
                return Outcome::Unknown("timed out".to_owned());
            }
            None => {}
        }
        if let Some(held) = self.holds(action) {
            self.tries += u32::from(matches!(action, Action::Drain { .. }));
            return Outcome::Held(held);
        }
        self.write(action)
    }

    /// What lay in slurmctld's queue happens, without anybody looking before.
    pub(super) fn catch_up(&mut self) {
        for action in std::mem::take(&mut self.late) {
            if let Some(extra) = slurm::action::extra(&action, &self.shown()) {
                self.extra = Some(extra).filter(|text| !text.is_empty());
            }
            match action {
                Action::Drain { reason, .. } => {
                    self.reason_at += 1;
                    self.flags.insert(Flag::Drain);
                    self.reason = Some(reason.as_str().to_owned());
                    self.user = "root".to_owned();
                    self.drains += 1;
                }
                Action::Undrain { .. } => {
                    self.flags.remove(&Flag::Drain);
                    self.undrains += 1;
                }
                Action::Mirror { .. } | Action::Comment { .. } | Action::Uncomment { .. } => {}
            }
        }
    }

    fn write(&mut self, action: &Action) -> Outcome {
        let node = self.shown();
        let shown = describe(&node);
        let verdict = slurm::action::permission(action, &node, &shown);
        match verdict {
            Permission::Allowed => {}
            Permission::Already => return Outcome::Already(shown),
            Permission::Foreign => return Outcome::Foreign(shown),
            Permission::Withheld(word) => return Outcome::Withheld(word, shown),
        }
        if let Some(extra) = slurm::action::extra(action, &node) {
            self.extra = Some(extra).filter(|text| !text.is_empty());
        }
        match action {
            Action::Mirror { .. } => {}
            Action::Drain { reason, .. } => {
                self.reason_at += 1;
                self.flags.insert(Flag::Drain);
                self.reason = Some(reason.as_str().to_owned());
                self.user = "root".to_owned();
                self.drains += 1;
            }
            Action::Undrain { .. } => {
                if self.keeps_drain == 0 {
                    self.flags.remove(&Flag::Drain);
                }
                self.keeps_drain = self.keeps_drain.saturating_sub(1);
                self.undrains += 1;
            }
            Action::Comment { text, .. } => {
                self.comment = Some(text.as_str().to_owned());
                self.comments += 1;
            }
            Action::Uncomment { .. } => self.comment = None,
        }
        let mut node = self.node();
        if self.slot.is_some() && matches!(action, Action::Drain { .. }) {
            node.guard = Some(guard(self.slot.clone()));
        }
        Outcome::Done(node)
    }
}

/// A pool whose slots are all taken.
fn guard(slot: Option<String>) -> Guard {
    Guard {
        partition: "gpu".to_owned(),
        pool: "xid-79".to_owned(),
        slot,
        slots: 3,
        taken: 3,
        standing: None,
        most: 5,
        differs: false,
        window_seconds: 600,
    }
}
