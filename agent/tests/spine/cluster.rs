//! A node under test that belongs to a real Slurm of its own.

use std::fs;
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use testkit::scontrol_wrapper::{Call, ScontrolWrapper};
use testkit::slurm::{Installation, Slurm, SlurmOptions};

use crate::common::{LONG, Node};

pub struct Cluster {
    // Dropped first: the daemon must not see its Slurm go.
    pub node: Node,
    pub slurm: Slurm,
    pub wrapper: ScontrolWrapper,
    pub name: String,
}

/// Node names differ between tests that run at the same time: the daemon looks for slurmds on the whole machine.
fn prefix() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!(
        "nw{}x{}",
        std::process::id(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    )
}

impl Cluster {
    /// A registered, idle node; the daemon does not run yet. Its mode is drain. Of the Slurm that is installed, or of the one in
    /// the root that `TESTKIT_SLURM_ROOT` names.
    pub fn new() -> Self {
        Self::with(SlurmOptions::default())
    }

    /// With the limit on drains: in a cluster of one node, two of all causes within the window.
    pub fn guarded() -> Self {
        Self::guarded_with(SlurmOptions::default())
    }

    pub fn guarded_with(options: SlurmOptions) -> Self {
        let mut c = Self::with(options);
        c.set("health.guard.mode=\"on\"");
        c
    }

    pub fn with(options: SlurmOptions) -> Self {
        let slurm = Slurm::start(SlurmOptions {
            node_prefix: prefix(),
            installation: Installation::of_environment(),
            slurmd_here: true,
            ..options
        })
        .unwrap();
        // Slurm's times are whole seconds: a drain in the second of slurmctld's start may be one that it lost.
        let second = || std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
        let start = second();
        testkit::wait::until_true("the next second", LONG, || second() > start).unwrap();
        let name = slurm.node_names()[0].clone();
        let wrapper = ScontrolWrapper::new(slurm.programs().unwrap().join("scontrol")).unwrap();
        let mut node = Node::new();
        node.set("health.mode=\"drain\"");
        node.set(&format!("slurm.node_name={name:?}"));
        node.set(&format!("slurm.conf={:?}", slurm.conf()));
        node.set(&format!("slurm.scontrol={:?}", wrapper.path()));
        node.set("slurm.watch=\"250ms\"");
        node.set("slurm.poll=\"250ms\"");
        node.set("slurm.hold=\"0\"");
        // Most tests drain one node more often than a cluster may drain in ten minutes.
        node.set("health.guard.mode=\"off\"");
        Self {
            node,
            slurm,
            wrapper,
            name,
        }
    }

    pub fn state(&self) -> String {
        self.slurm.state(&self.name).unwrap()
    }

    pub fn reason(&self) -> String {
        self.slurm.reason(&self.name).unwrap().unwrap_or_default()
    }

    pub fn is_drained(&self) -> bool {
        self.state().contains("DRAIN")
    }

    /// Looks only where a drain requires one, as a node does with the defaults.
    pub fn seldom(&mut self) -> &mut Self {
        self.set("slurm.watch=\"1h\"");
        self.set("slurm.poll=\"0\"");
        self
    }

    /// The reservations of nodewarden, one a line as scontrol prints them.
    pub fn reservations(&self) -> Vec<String> {
        let shown = self.slurm.scontrol(&["show", "reservation", "-o"]).unwrap();
        let lines = shown.ok().unwrap().stdout;
        lines
            .lines()
            .filter(|line| line.starts_with("ReservationName=nodewarden-"))
            .map(str::to_owned)
            .collect()
    }

    /// Deletes a reservation, as an operator.
    pub fn delete(&self, name: &str) {
        let name = format!("ReservationName={name}");
        self.slurm.scontrol(&["delete", &name]).unwrap().ok().unwrap();
    }

    /// How often slurmctld has drained the node for nodewarden.
    pub fn drains(&self) -> usize {
        let log = self.slurm.controller_log().unwrap();
        let reason = format!("update_node: node {} reason set to: nodewarden:", self.name);
        let lifted = format!("{reason} lifted ");
        log.matches(&reason).count() - log.matches(&lifted).count()
    }

    /// Orders the end of an incident.
    pub fn clear(&self, id: &str, reason: &str) {
        assert_eq!(self.cli(&["clear", id, "--reason", reason]).0, Some(0));
    }

    /// Clears every open incident and waits for the lift.
    pub fn clear_all(&self) {
        for incident in self.open_incidents() {
            let id = incident["id"].as_str().unwrap().to_owned();
            self.clear(&id, "next");
        }
        self.wait_undrained();
        self.wait_drain_state("none");
    }

    /// Waits until Slurm shows DRAIN with nodewarden's reason, and returns the reason.
    pub fn wait_drained(&self) -> String {
        self.node.until("drained by us", |_| {
            self.is_drained() && self.reason().starts_with("nodewarden:")
        });
        self.reason()
    }

    /// Waits for what takes minutes by design.
    pub fn until_patiently(&self, what: &str, condition: impl Fn(&Self) -> bool) {
        let minutes = std::time::Duration::from_secs(240);
        if let Err(error) = testkit::wait::until_true(what, minutes, || condition(self)) {
            panic!("{error}, status: {:#}", self.try_view());
        }
    }

    pub fn wait_undrained(&self) {
        self.slurm
            .wait_state(&self.name, |s| !s.contains("DRAIN"), LONG)
            .unwrap();
    }

    /// Waits until slurmctld has the boot time of the node, which it forgets with a lift.
    pub fn wait_registered(&self) {
        self.until_patiently("slurmd has registered", |c| {
            c.slurm.node(&c.name).unwrap().get("BootTime") != Some("None")
        });
    }

    /// An operator lifts the drain, and again when it comes back.
    pub fn insist(&self) {
        self.wait_drain_state("drained");
        self.slurm.resume(&self.name).unwrap();
        self.node.until("drained again after the lift", |_| {
            self.is_drained() && self.reason().ends_with(" again-after-lift")
        });
        self.wait_drain_state("drained");
        self.slurm.resume(&self.name).unwrap();
        self.node.until("overridden", |n| {
            n.incidents().iter().any(|i| i["state"] == "overridden")
        });
    }

    /// Number of `scontrol update` calls until now, without those that only copy the drain's record.
    pub fn updates(&self) -> usize {
        let is_copy = |call: &Call| call.args.iter().any(|arg| arg.starts_with("Extra="));
        let is_change =
            |call: &&Call| !is_copy(call) || call.args.iter().any(|arg| arg.starts_with("State="));
        self.wrapper.updates().unwrap().iter().filter(is_change).count()
    }

    /// Waits until the daemon has looked at the node `n` more times: whatever it wanted to do, it has had the chance.
    pub fn wait_looks(&self, n: usize) {
        let before = self.wrapper.calls().unwrap().len();
        self.node.until("more looks at the node", |_| {
            self.wrapper.calls().unwrap().len() >= before + n
        });
    }

    /// Lets two health ticks' worth of decisions pass: the daemon has counted another harmless Xid.
    pub fn settle(&self) {
        let gpu = format!("pci:{}", crate::common::GPUS[7]);
        let labels = [("gpu", gpu.as_str()), ("xid", "14")];
        let before = self.node.metric("gpu_xid_errors_total", &labels).unwrap_or(0.0);
        self.node.xid(7, 14);
        self.node.until("a later event is counted", |n| {
            n.metric("gpu_xid_errors_total", &labels).unwrap_or(0.0) > before
        });
    }
}

impl Deref for Cluster {
    type Target = Node;

    fn deref(&self) -> &Node {
        &self.node
    }
}

impl DerefMut for Cluster {
    fn deref_mut(&mut self) -> &mut Node {
        &mut self.node
    }
}

/// A command that waits at a fault until the test has done something. The parent's filter lets no command signal others.
pub struct Meeting {
    reached: PathBuf,
    left: PathBuf,
}

impl Meeting {
    pub fn new(c: &Cluster) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self {
            reached: c.path(&format!("reached-{number}")),
            left: c.path(&format!("left-{number}")),
        }
    }

    /// What the command runs.
    pub fn script(&self) -> String {
        let (reached, left) = (self.reached.display(), self.left.display());
        format!("echo >>{reached}; while [ ! -e {left} ]; do sleep 0.02; done")
    }

    /// Waits until the command is there.
    pub fn wait(&self, c: &Cluster) {
        c.until("the command has come", |_| self.reached.exists());
    }

    /// Lets it go on.
    pub fn leave(&self) {
        fs::write(&self.left, "").unwrap();
    }
}
