//! A finding: one thing that a check found wrong with one subject.

use collectors::{PciAddress, Subject, SubjectKind};
use serde::{Deserialize, Serialize};

/// A fact that only the driver's library tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Need {
    /// A row remap waits for a reset.
    RemapPending,
    /// A row remap failed.
    RemapFailure,
    /// The SRAM error threshold was passed.
    SramThreshold,
    /// Every NVLink is up.
    LinksActive,
    /// NVLinks are up or down as they were meant to be.
    LinksAsIntended,
}

impl Need {
    /// Each of them.
    pub(crate) const ALL: [Self; 5] = [
        Self::RemapPending,
        Self::RemapFailure,
        Self::SramThreshold,
        Self::LinksActive,
        Self::LinksAsIntended,
    ];

    /// What must be seen, for people.
    pub const fn words(self) -> &'static str {
        match self {
            Self::RemapPending => "no row remap that waits",
            Self::RemapFailure => "no row remap that failed",
            Self::SramThreshold => "SRAM errors below the maker's limit",
            Self::LinksActive => "every NVLink up",
            Self::LinksAsIntended => "links as they were meant to be",
        }
    }
}

/// What ends a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Clear {
    /// The driver says that nothing needs to be done any more.
    VerdictNone,
    /// Another boot, with the subject well in it as far as that can be seen.
    Reboot,
    /// A reset of the GPU.
    GpuReset,
    /// Only together with a reboot: the GPU is on the bus and answers.
    GpuPresent,
    /// A person says so. Ends everything, listed or not.
    Person,
    /// What the check looks at is well again, and has been for a while.
    Condition,
}

impl Clear {
    /// The word for people.
    pub const fn word(self) -> &'static str {
        match self {
            Self::VerdictNone => "the driver's verdict None",
            Self::Reboot => "a reboot",
            Self::GpuReset => "a GPU reset",
            Self::GpuPresent => "the GPU on the bus again",
            Self::Person => "a person",
            Self::Condition => "the condition itself",
        }
    }

    /// Why a finding has ended, once it happened.
    pub const fn happened(self) -> &'static str {
        match self {
            Self::VerdictNone => "the driver's verdict is None",
            Self::Reboot => "the node was rebooted and nothing of it is left",
            Self::GpuReset => "the GPU was reset",
            Self::GpuPresent => "the GPU is on the bus again",
            Self::Person => "a person says so",
            Self::Condition => "well again",
        }
    }
}

/// How something ends, in words: by the ways that its row lists, once the driver shows what the row needs, or by a person.
pub fn ends(clears: &[Clear], needs: &[Need]) -> String {
    let ways: Vec<&str> = clears
        .iter()
        .filter(|c| match c {
            Clear::Person => false,
            // Nobody says how links were meant to be.
            _ => !needs.contains(&Need::LinksAsIntended),
        })
        .map(|c| c.word())
        .collect();
    let shown: Vec<&str> = needs.iter().map(|n| n.words()).collect();
    let shown = if shown.is_empty() {
        String::new()
    } else {
        format!(" (once the driver shows {})", shown.join(" and "))
    };
    match ways.as_slice() {
        [] => "a person".to_owned(),
        ways if clears.contains(&Clear::GpuPresent) => format!("{}{shown}, or a person", ways.join(" with ")),
        ways => format!("{}{shown}, or a person", ways.join(", ")),
    }
}

/// What repairs it, from mild to strong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Remedy {
    /// Nothing.
    None,
    /// A person looks.
    Inspect,
    /// A reset of the GPU.
    ResetGpu,
    /// A reboot or power cycle.
    Reboot,
}

impl Remedy {
    /// The word behind `act=`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Inspect => "inspect",
            Self::ResetGpu => "reset-gpu",
            Self::Reboot => "reboot",
        }
    }
}

/// The place of a finding among those of an incident: the first names the incident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rank {
    /// That of its check, or of this part of it, in `checks::order`.
    Of(&'static str),
    /// Behind that: devices that share a fault rank after a device that has one.
    Shared(&'static str),
    /// This one: a row of the Xid table has its own.
    At(u8),
}

/// One thing that a check found wrong with one subject.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The check's id.
    pub check: &'static str,
    /// What is wrong.
    pub subject: Subject,
    /// Where it is on the PCI bus.
    pub pci: Option<PciAddress>,
    /// `xid79`, or a few words; equal findings have equal details.
    pub detail: String,
    /// Its place among findings.
    pub rank: Rank,
    /// What repairs it.
    pub remedy: Remedy,
    /// Whether its policy takes the node out of service.
    pub drains: bool,
    /// How it comes into an incident.
    pub joins: Joins,
    /// What ends it.
    pub clears: Vec<Clear>,
    /// What must be known before a reboot or a verdict may end it, and is not.
    pub needs: Vec<Need>,
    /// How often it was seen.
    pub count: u64,
    /// The condition behind it, where there is one. Set by the engine.
    pub key: Option<String>,
    /// The line or value behind it.
    pub evidence: String,
    /// The jobs that had the device then, by number. Set by the engine where the check does not name any.
    pub jobs: Vec<String>,
}

impl Finding {
    /// One of a condition, which ends with it; the check says the rest.
    pub(super) fn of_condition(check: &'static str, subject: Subject) -> Self {
        Self {
            check,
            subject,
            pci: None,
            detail: String::new(),
            rank: Rank::Of(""),
            remedy: Remedy::None,
            drains: false,
            joins: Joins::Opens,
            clears: vec![Clear::Condition],
            needs: Vec::new(),
            count: 1,
            key: None,
            evidence: String::new(),
            jobs: Vec::new(),
        }
    }

    /// One of a condition of a job.
    pub(super) fn of_job(check: &'static str, job: &str) -> Self {
        Self {
            jobs: vec![job.to_owned()],
            ..Self::of_condition(check, Subject::new(SubjectKind::Job, job))
        }
    }
}

/// How a finding comes into an incident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joins {
    /// Opens one, or joins one of its subject within the settle window.
    Opens,
    /// Only explains another: joins one of its subject within the settle window, opens none.
    Follows,
    /// Is seen later than the cause: joins any open one of its subject, else opens one.
    Attaches,
}
