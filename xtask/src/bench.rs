//! `cargo xtask bench`.

use anyhow::{Result, bail};

/// Runs one benchmark. A wish for one that is not there fails: no figure is better than none that anybody measured.
pub(crate) fn run(name: Option<&str>) -> Result<()> {
    match name {
        None => {
            println!("there are no benchmarks yet");
            Ok(())
        }
        Some(name) => bail!("there is no benchmark `{name}`; there are none yet"),
    }
}
