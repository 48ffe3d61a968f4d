//! Asks a library of NVIDIA's everything that the stand-in knows, and writes down what it said as a scenario.
//!
//! Nothing is changed on the node: every function that is called reads. What tells one node from another is replaced.

mod ask;
mod links;
mod mig;
mod plain;
mod system;
#[cfg(test)]
mod tests;
mod write;

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};

use ask::Nvml;

/// A call, and what became of it.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The function.
    pub function: &'static str,
    /// The GPU, and what else it was asked with.
    pub what: String,
    /// What it returned; `None` where the library does not have it.
    pub code: Option<u32>,
    /// How long it took.
    pub took: Duration,
}

/// What a library said.
#[derive(Clone, Debug)]
pub struct Recording {
    /// Every call, in order.
    pub calls: Vec<Asked>,
    /// A scenario that shows the same, in TOML.
    pub scenario: String,
}

/// Exported by the stand-in, and never asked: it clears counters.
pub const CHANGES: &[&str] = &["nvmlDeviceClearFieldValues"];

/// Asks a library everything.
///
/// # Errors
/// When it cannot be loaded or initialised.
pub fn record(library: &Path) -> Result<Recording> {
    let mut nvml = Nvml::load(library)?;
    let code = system::init(&mut nvml);
    ensure!(
        code == Ok(()),
        "{}: nvmlInit_v2 returned {}",
        library.display(),
        code.err().unwrap_or(0)
    );
    let system = system::system(&mut nvml);
    let newer = fake_nvml::field_ids::is_renumbered(&system.driver);
    let mut gpus = Vec::new();
    for index in 0..system.count {
        let Ok(gpu) = system::handle(&mut nvml, index) else {
            // A GPU that the driver refuses has nothing to write down.
            continue;
        };
        let mut table = toml::Table::new();
        plain::ask(&mut nvml, index, gpu, &mut table);
        links::ask(&mut nvml, index, gpu, newer, &mut table);
        mig::ask(&mut nvml, index, gpu, &mut table);
        system::find(&mut nvml, index, gpu, &table);
        write::anonymous(index, &mut table);
        gpus.push(table);
    }
    system::events(&mut nvml);
    system::shutdown(&mut nvml);
    let scenario = write::scenario(&nvml, &system, gpus)?;
    Ok(Recording {
        calls: nvml.asked,
        scenario,
    })
}
