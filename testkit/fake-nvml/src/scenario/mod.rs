//! Scenarios: the values of the stand-in. README.md of this crate describes the file.

pub mod gpm;
mod gpu;
pub mod keys;
mod part;
pub mod same;
#[cfg(test)]
mod tests;
pub mod value;

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::functions::Function;
pub use gpu::{Gpu, Link, LinkKey, Of, link_field, metric_ids};
pub use part::{MigDevice, Process, ProcessKind, Profile};

/// A node with its GPUs.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// What moves its counters.
    pub clock: Clock,
    /// How long a step is, for rates per second.
    pub step_seconds: f64,
    /// Functions that this driver does not have.
    pub missing: Vec<String>,
    /// Functions that fail with UNKNOWN.
    pub failing: Vec<String>,
    /// The return code of nvmlDeviceGetFieldValues for ECC errors and counts of NVLink 5 in one call; 0: success.
    pub mixed_fields: u32,
    /// The driver.
    pub system: System,
    /// Its GPUs in NVML's order.
    pub gpus: Vec<Gpu>,
    /// The same GPUs after their work has ended; empty without `[idle]`.
    pub idle: Vec<Gpu>,
}

/// What moves the counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Clock {
    /// Steps, which the control file sets.
    #[default]
    Step,
    /// The clock.
    Real,
}

/// The driver.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct System {
    /// Version of the driver.
    pub driver: String,
    /// Version of the library.
    pub nvml: String,
    /// CUDA version, such as 13000 for 13.0.
    pub cuda: i32,
    /// Branch of the driver, such as `r580_00`.
    pub branch: Option<String>,
    /// The return code of nvmlInit; 0: success.
    #[serde(default)]
    pub init: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    clock: Clock,
    #[serde(default = "one")]
    step_seconds: f64,
    #[serde(default)]
    missing: Vec<String>,
    #[serde(default)]
    failing: Vec<String>,
    #[serde(default)]
    mixed_fields: u32,
    system: System,
    #[serde(default)]
    gpu: toml::Table,
    idle: Option<toml::Table>,
    #[serde(default)]
    gpus: Vec<toml::Table>,
}

const fn one() -> f64 {
    1.0
}

/// As many as handles can tell apart.
pub const MOST_GPUS: usize = 64;

impl Scenario {
    /// Reads a file.
    ///
    /// # Errors
    /// When it cannot be read or is not in form; names the file and the key.
    pub fn load(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        Self::parse(&text).with_context(|| path.display().to_string())
    }

    /// Reads a text.
    ///
    /// # Errors
    /// When it is invalid; names the key.
    pub fn parse(text: &str) -> Result<Self> {
        let file: File = toml::from_str(text)?;
        ensure!(file.gpus.len() <= MOST_GPUS, "gpus: more than {MOST_GPUS}");
        for (key, names) in [("missing", &file.missing), ("failing", &file.failing)] {
            for name in names {
                ensure!(
                    crate::functions::NAMES.contains(&name.as_str()),
                    "{key}: the stand-in has no function {name}"
                );
            }
        }
        let (mut gpus, mut idle) = (Vec::new(), Vec::new());
        for (i, own) in file.gpus.into_iter().enumerate() {
            let mut table = file.gpu.clone();
            lay_over(&mut table, own);
            if let Some(at_rest) = &file.idle {
                let mut table = table.clone();
                lay_over(&mut table, at_rest.clone());
                idle.push(Gpu::new(table).with_context(|| format!("gpu {i}, idle"))?);
            }
            gpus.push(Gpu::new(table).with_context(|| format!("gpu {i}"))?);
        }
        Ok(Self {
            clock: file.clock,
            step_seconds: file.step_seconds,
            missing: file.missing,
            failing: file.failing,
            mixed_fields: file.mixed_fields,
            system: file.system,
            gpus,
            idle,
        })
    }
}

/// Merges tables; any other value replaces the old one.
fn lay_over(table: &mut toml::Table, own: toml::Table) {
    for (key, value) in own {
        match (table.get_mut(&key), value) {
            // A value that moves is a table too, and one whole.
            (Some(toml::Value::Table(below)), toml::Value::Table(own)) if !moves(&own) => {
                lay_over(below, own)
            }
            (_, value) => drop(table.insert(key, value)),
        }
    }
}

fn moves(table: &toml::Table) -> bool {
    ["start", "per_step", "per_second", "steps"]
        .iter()
        .any(|k| table.get(*k).is_some_and(|v| !v.is_table()))
}

impl Scenario {
    /// Whether the driver does not have that function.
    pub fn lacks(&self, function: Function) -> bool {
        self.missing.iter().any(|missing| missing == function.name())
    }

    /// A node without GPUs, for a library that has found no scenario.
    #[must_use]
    pub fn empty() -> Self {
        Self {
            clock: Clock::Step,
            step_seconds: 1.0,
            missing: Vec::new(),
            failing: Vec::new(),
            mixed_fields: 0,
            system: System {
                driver: String::new(),
                nvml: String::new(),
                cuda: 0,
                branch: None,
                init: 0,
            },
            gpus: Vec::new(),
            idle: Vec::new(),
        }
    }
}
