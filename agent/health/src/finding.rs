//! A finding: one thing that a check found wrong with one subject.

use std::borrow::Cow;

use collectors::{PciAddress, Subject, SubjectKind};
use serde::{Deserialize, Serialize};

/// A fact that only the driver's library reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Need {
    /// A row remap is pending.
    RemapPending,
    /// A row remap failed.
    RemapFailure,
    /// The SRAM error threshold was exceeded.
    SramThreshold,
    /// Every NVLink is up.
    LinksActive,
    /// NVLinks are up or down as intended.
    LinksAsIntended,
}

impl Need {
    /// All needs.
    pub(crate) const ALL: [Self; 5] = [
        Self::RemapPending,
        Self::RemapFailure,
        Self::SramThreshold,
        Self::LinksActive,
        Self::LinksAsIntended,
    ];

    /// The required fact, for output.
    pub const fn words(self) -> &'static str {
        match self {
            Self::RemapPending => "no pending row remap",
            Self::RemapFailure => "no failed row remap",
            Self::SramThreshold => "SRAM errors below the vendor's threshold",
            Self::LinksActive => "every NVLink up",
            Self::LinksAsIntended => "NVLinks as intended",
        }
    }
}

/// What ends a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Clear {
    /// The driver reports that no action is needed.
    VerdictNone,
    /// Another boot, with the subject visibly healthy.
    Reboot,
    /// A reset of the GPU.
    GpuReset,
    /// Only together with a reboot: the GPU is on the bus and answers.
    GpuPresent,
    /// `nodewarden clear`. Ends every finding, listed or not.
    Person,
    /// The condition of the check has been healthy for its span.
    Condition,
    /// The kernel reports that the fault is over.
    AllClear,
    /// No further line of the fault for hours, with the kernel log readable.
    Quiet,
}

impl Clear {
    /// Its name in output.
    pub const fn word(self) -> &'static str {
        match self {
            Self::VerdictNone => "the driver's verdict None",
            Self::Reboot => "a reboot",
            Self::GpuReset => "a GPU reset",
            Self::GpuPresent => "the GPU on the bus again",
            Self::Person => "`nodewarden clear`",
            Self::Condition => "healthy readings",
            Self::AllClear => "the kernel's line that it is over",
            Self::Quiet => "hours without another line",
        }
    }

    /// Why a finding has ended.
    pub const fn happened(self) -> &'static str {
        match self {
            Self::VerdictNone => "the driver's verdict is None",
            Self::Reboot => "the node was rebooted and the fault is gone",
            Self::GpuReset => "the GPU was reset",
            Self::GpuPresent => "the GPU is on the bus again",
            Self::Person => "an operator cleared it",
            Self::Condition | Self::AllClear | Self::Quiet => "healthy again",
        }
    }
}

/// How a finding ends, for output: by its listed ways, once the driver shows its needs, or with `nodewarden clear`.
pub fn ends(clears: &[Clear], needs: &[Need]) -> String {
    let ways: Vec<&str> = clears
        .iter()
        .filter(|c| match c {
            Clear::Person => false,
            // The intended state of the links is unknown.
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
        [] => "`nodewarden clear`".to_owned(),
        ways if clears.contains(&Clear::GpuPresent) => {
            format!("{}{shown}, or `nodewarden clear`", ways.join(" with "))
        }
        ways => format!("{}{shown}, or `nodewarden clear`", ways.join(", ")),
    }
}

/// The repair, from mild to strong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Remedy {
    /// Nothing.
    None,
    /// An operator inspects it.
    Inspect,
    /// A reset of the GPU.
    ResetGpu,
    /// A reboot or power cycle.
    Reboot,
}

impl Remedy {
    /// The value of `act=`.
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
    /// After that: a shared fault ranks after a fault of one device.
    Shared(&'static str),
    /// This one: a row of the Xid table has its own.
    At(u8),
}

/// One thing that a check found wrong with one subject.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The check's id.
    pub check: Cow<'static, str>,
    /// The faulty subject.
    pub subject: Subject,
    /// Its PCI address.
    pub pci: Option<PciAddress>,
    /// `xid79`, or a short text; equal findings have equal details.
    pub detail: String,
    /// Its place among findings.
    pub rank: Rank,
    /// The repair.
    pub remedy: Remedy,
    /// Whether its policy takes the node out of service.
    pub drains: bool,
    /// How it joins an incident.
    pub joins: Joins,
    /// What ends it.
    pub clears: Vec<Clear>,
    /// Facts that must be known before a reboot or a verdict may end it.
    pub needs: Vec<Need>,
    /// The number of occurrences.
    pub count: u64,
    /// The key of its condition, if any. Set by the engine.
    pub key: Option<String>,
    /// The log line or value.
    pub evidence: String,
    /// Its repair must be verified: an operator lifts the drain.
    pub verify: bool,
    /// It proves that one device of this node is broken.
    pub device: bool,
    /// The jobs on the device at that time, by id. Set by the engine if the check names none.
    pub jobs: Vec<String>,
    /// Whether the evidence names processes that are in none of these jobs.
    pub others: bool,
    /// At most a comment, whatever the mode of its check. Also set by the engine for GPUs of which no recording has proven
    /// it.
    pub comments_only: bool,
}

impl Finding {
    /// A finding of a condition, which ends with it. The check sets the other fields.
    pub(super) fn of_condition(check: impl Into<Cow<'static, str>>, subject: Subject) -> Self {
        Self {
            check: check.into(),
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
            verify: false,
            device: false,
            jobs: Vec::new(),
            others: false,
            comments_only: false,
        }
    }

    /// A finding of a condition of a job.
    pub(super) fn of_job(check: &'static str, job: &str) -> Self {
        Self {
            jobs: vec![job.to_owned()],
            ..Self::of_condition(check, Subject::new(SubjectKind::Job, job))
        }
    }
}

/// How a finding joins an incident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joins {
    /// Opens an incident, or joins one of its subject within the settle window.
    Opens,
    /// Follows from another: joins an incident of its subject within the settle window, opens none.
    Follows,
    /// Appears later than the cause: joins any open incident of its subject, else opens one.
    Attaches,
    /// About the number of GPUs: joins also any open incident of a GPU whose remedy is a reboot.
    AttachesToGpu,
}
