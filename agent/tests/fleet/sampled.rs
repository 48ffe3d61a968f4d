//! The parents of a fleet of which a sample runs real commands, and the others answer from memory.

use model::scheduler::{Action, LookError, NodeReason, NodeState, Outcome, Permission};
use slurm::state::{Base, Flag};
use slurm::{action, describe};

use crate::agents::Parents;
use crate::node::Node;

/// Every n-th node is real in all that it does, so that its engine sees one controller.
pub struct Sampled {
    every: usize,
    real: Vec<Node>,
    model: Vec<slurm::state::Node>,
    /// Real looks and acts.
    pub commands: u32,
}

impl Sampled {
    /// One real node in `every`.
    pub fn new(real: Vec<Node>, every: usize) -> Self {
        let idle = |node: usize| slurm::state::Node {
            base: Base::Idle,
            ..slurm::state::Node::named(&format!("model{node}"))
        };
        Self {
            model: (0..real.len() * every).map(idle).collect(),
            every,
            real,
            commands: 0,
        }
    }

    fn real<T>(&mut self, node: usize, run: impl FnOnce(&mut Node) -> T) -> Option<T> {
        if !node.is_multiple_of(self.every) {
            return None;
        }
        self.commands += 1;
        Some(run(&mut self.real[node / self.every]))
    }
}

impl Parents for Sampled {
    fn look(&mut self, node: usize) -> Result<NodeState, LookError> {
        self.real(node, Node::look)
            .unwrap_or_else(|| Ok(describe(&self.model[node])))
    }

    fn act(&mut self, node: usize, action: &Action) -> Outcome {
        self.real(node, |real| real.act(action))
            .unwrap_or_else(|| write(&mut self.model[node], action))
    }
}

/// What slurmctld does, by the rules of the parent.
fn write(node: &mut slurm::state::Node, action: &Action) -> Outcome {
    let shown = describe(node);
    match action::permission(action, node, &shown) {
        Permission::Allowed => {}
        Permission::Already => return Outcome::Already(shown),
        Permission::Foreign => return Outcome::Foreign(shown),
        Permission::Withheld(word) => return Outcome::Withheld(word, shown),
    }
    match action {
        Action::Drain { reason, .. } => {
            node.flags.insert(Flag::Drain);
            node.reason = Some(NodeReason {
                text: reason.as_str().to_owned(),
                user: "root".to_owned(),
                at: Some(1_800_000_000),
            });
        }
        Action::Undrain { .. } => {
            node.flags.remove(&Flag::Drain);
        }
        Action::Mirror { .. } | Action::Comment { .. } | Action::Uncomment { .. } => {}
    }
    Outcome::Done(describe(node))
}
