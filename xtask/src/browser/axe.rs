//! axe-core, which finds faults of accessibility: one script from npm's registry, pinned, below target/browser. Never
//! linked or shipped.

use std::fs;
use std::path::Path;

use anyhow::{Result, ensure};

use crate::{cmd, deps};

const VERSION: &str = "4.14.1";
/// SHA-256 of its package.
const SUM: &str = "e6b0ce02b84d892e2e33e403485e7f3d6c29e2be6df65daf44d89ba564139745";

/// The script, from the last run where that has it already. Its checksum is checked each time.
///
/// # Errors
/// When the registry does not answer, or sends another package.
pub(super) fn script(work: &Path) -> Result<String> {
    let package = work.join(format!("axe-core-{VERSION}.tgz"));
    if !package.is_file() {
        if !cmd::exists("npm") {
            deps::install(&["npm"])?;
        }
        let wanted = format!("axe-core@{VERSION}");
        let mut pack = cmd::program("npm", &["pack", "--silent", "--pack-destination"]);
        cmd::run(pack.arg(work).arg(wanted))?;
    }
    let found = cmd::output(cmd::program("sha256sum", &[]).arg(&package))?;
    if !found.starts_with(SUM) {
        fs::remove_file(&package)?;
    }
    ensure!(
        found.starts_with(SUM),
        "{}: found {found:?}, expected {SUM}",
        package.display()
    );
    let mut unpack = cmd::program("tar", &["-xzO", "package/axe.min.js", "-f"]);
    cmd::output(unpack.arg(&package))
}
