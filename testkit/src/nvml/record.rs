//! Calls every function of the stand-in in NVIDIA's library, and writes the answers as a scenario.
//!
//! The recording changes nothing on the node: all called functions only read. It replaces values that identify a node.

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

/// A call and its result.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The function.
    pub function: &'static str,
    /// The GPU and the other arguments.
    pub what: String,
    /// The return code; `None` if the library lacks the function.
    pub code: Option<u32>,
    /// Duration.
    pub took: Duration,
}

/// The recorded answers of a library.
#[derive(Clone, Debug)]
pub struct Recording {
    /// Every call, in order.
    pub calls: Vec<Asked>,
    /// A scenario with the same answers, in TOML.
    pub scenario: String,
}

/// Exported by the stand-in and never called here: it clears counters.
pub const CHANGES: &[&str] = &["nvmlDeviceClearFieldValues"];

/// Records a library.
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
    let ids = fake_nvml::field_ids::Numbering::of(&system.driver);
    let mut gpus = Vec::new();
    for index in 0..system.count {
        let Ok(gpu) = system::handle(&mut nvml, index) else {
            // A GPU without a handle cannot be recorded.
            continue;
        };
        let mut table = toml::Table::new();
        plain::ask(&mut nvml, index, gpu, &mut table);
        links::ask(&mut nvml, index, gpu, ids, &mut table);
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
