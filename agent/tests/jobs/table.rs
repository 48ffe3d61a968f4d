//! What is known of the GPUs of jobs, by release and configuration of Slurm. `rows.rs` tries each row on a real cluster, and
//! `cargo xtask docs` writes the table into docs/operations/jobs.md.

/// A configuration, and what is known of the GPUs of every kind of job under it.
#[derive(Debug)]
pub struct Row {
    /// Such as (22, 5).
    pub release: (u32, u32),
    /// The version of cgroups: 1 or 2.
    pub cgroup: u32,
    /// Prolog and epilog run `nodewarden hook`, on every node of a job.
    pub has_hook: bool,
    /// `ConstrainDevices`.
    pub is_constrained: bool,
    pub answer: Answer,
}

/// What the daemon says of the GPUs of a job, on each of its nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Exactly those that the controller has given it, with this evidence.
    Exact(&'static str),
    /// Nothing, for this reason.
    Unknown(&'static str),
}

use Answer::{Exact, Unknown};

/// A kind of job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Plain,
    Array,
    /// The first part of a heterogeneous job, in which its batch script runs.
    Het,
    /// The other part, on another node, in which nothing runs yet.
    HetOther,
    /// Two steps at once, which have not all of the job's GPUs.
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
            Self::Het => "heterogeneous",
            Self::HetOther => "heterogeneous, other part",
            Self::Steps => "several steps",
            Self::TwoNodes => "two nodes",
            Self::Shards => "shards of one GPU",
            Self::Whole => "whole node",
            Self::None => "without a GPU",
        }
    }
}

impl Row {
    /// The kinds of job that this release knows: shards came with 22.05.
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
/// Without a device program and a hook. 20.11 gives prologs no GPUs, so that its hook does not know them either.
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

/// As slurm.conf says it.
pub const fn yes(is: bool) -> &'static str {
    if is { "yes" } else { "no" }
}
