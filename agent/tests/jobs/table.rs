//! What nodewarden knows about the GPUs of jobs, by release and configuration of Slurm. `rows.rs` tests each row on a real
//! cluster; `cargo xtask docs` writes the table into docs/operations/jobs.md.

/// A configuration, and what nodewarden then knows about the GPUs of every kind of job.
#[derive(Debug)]
pub struct Row {
    /// Such as (22, 5).
    pub release: (u32, u32),
    /// The cgroup version: 1 or 2.
    pub cgroup: u32,
    /// Prolog and epilog run `nodewarden hook`, on every node of a job.
    pub has_hook: bool,
    /// `ConstrainDevices`.
    pub is_constrained: bool,
    pub answer: Answer,
}

/// What the daemon reports about the GPUs of a job, on each of its nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Exactly the GPUs that the controller allocated, with this evidence.
    Exact(&'static str),
    /// No GPUs, for this reason.
    Unknown(&'static str),
}

use Answer::{Exact, Unknown};

/// A kind of job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Plain,
    Array,
    /// The first component of a heterogeneous job, where the batch script runs.
    Het,
    /// The other component, on another node, where nothing runs yet.
    HetOther,
    /// Two concurrent steps that together use only a part of the job's GPUs.
    Steps,
    TwoNodes,
    /// Two jobs with shards of one GPU.
    Shards,
    /// All GPUs of a node.
    Whole,
    /// No GPU, on a node that has some.
    None,
}

impl Kind {
    pub const ALL: [Self; 9] = [
        Self::Plain,
        Self::Array,
        Self::Het,
        Self::HetOther,
        Self::Steps,
        Self::TwoNodes,
        Self::Shards,
        Self::Whole,
        Self::None,
    ];

    pub const fn word(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Array => "array",
            Self::Het => "heterogeneous, first component",
            Self::HetOther => "heterogeneous, second component",
            Self::Steps => "several steps",
            Self::TwoNodes => "two nodes",
            Self::Shards => "shards of one GPU",
            Self::Whole => "whole node",
            Self::None => "without a GPU",
        }
    }
}

impl Row {
    /// The kinds of job that this release supports: shards need 22.05.
    pub fn kinds(&self) -> Vec<Kind> {
        let is_known = |kind: &Kind| *kind != Kind::Shards || self.release >= (22, 5);
        Kind::ALL.into_iter().filter(is_known).collect()
    }

    pub fn title(&self) -> String {
        let (year, month) = self.release;
        let hook = if self.has_hook { ", hook" } else { "" };
        let devices = yes(self.is_constrained);
        format!(
            "Slurm {year}.{month:02}, cgroup v{}{hook}, ConstrainDevices={devices}",
            self.cgroup
        )
    }
}

const fn row(release: (u32, u32), cgroup: u32, has_hook: bool, is_constrained: bool, answer: Answer) -> Row {
    Row {
        release,
        cgroup,
        has_hook,
        is_constrained,
        answer,
    }
}

const PROGRAM: Answer = Exact("device_program");
const HOOK: Answer = Exact("hook");
/// Neither device program nor hook. Slurm 20.11 reports no GPUs to prologs, so its hook does not know them either.
const NOTHING: Answer = Unknown("none");

/// Columns: release, cgroup, hook, ConstrainDevices.
#[rustfmt::skip]
pub const TABLE: &[Row] = &[
    row((20, 11), 1, false, false, NOTHING),
    row((20, 11), 1, false, true, NOTHING),
    row((20, 11), 1, true, false, NOTHING),
    row((20, 11), 1, true, true, NOTHING),
    row((22, 5), 1, false, false, NOTHING),
    row((22, 5), 1, false, true, NOTHING),
    row((22, 5), 1, true, false, HOOK),
    row((22, 5), 1, true, true, HOOK),
    row((22, 5), 2, false, false, NOTHING),
    row((22, 5), 2, false, true, PROGRAM),
    row((22, 5), 2, true, false, HOOK),
    row((22, 5), 2, true, true, PROGRAM),
    row((24, 11), 1, false, false, NOTHING),
    row((24, 11), 1, false, true, NOTHING),
    row((24, 11), 1, true, false, HOOK),
    row((24, 11), 1, true, true, HOOK),
    row((24, 11), 2, false, false, NOTHING),
    row((24, 11), 2, false, true, PROGRAM),
    row((24, 11), 2, true, false, HOOK),
    row((24, 11), 2, true, true, PROGRAM),
    row((26, 5), 1, false, false, NOTHING),
    row((26, 5), 1, false, true, NOTHING),
    row((26, 5), 1, true, false, HOOK),
    row((26, 5), 1, true, true, HOOK),
    row((26, 5), 2, false, false, NOTHING),
    row((26, 5), 2, false, true, PROGRAM),
    row((26, 5), 2, true, false, HOOK),
    row((26, 5), 2, true, true, PROGRAM),
];

/// As slurm.conf spells it.
pub const fn yes(is: bool) -> &'static str {
    if is { "yes" } else { "no" }
}
