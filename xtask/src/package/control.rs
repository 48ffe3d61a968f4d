//! What dpkg reads: control, conffiles, md5sums, scripts.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::{Plan, tree};
use crate::cmd;

/// Who answers for the package. There is no public address yet.
pub(super) const MAINTAINER: &str = "nodewarden developers <developers@nodewarden.invalid>";

/// Files that an administrator may change and an upgrade keeps.
const CONFFILES: &[&str] = &["/etc/nodewarden/nodewarden.toml"];

const SCRIPTS: &[&str] = &["postinst", "prerm", "postrm"];

const DESCRIPTION: &str = "health checks, metrics and drains for GPU cluster nodes
 nodewarden watches one node of a GPU cluster: it reads its hardware, serves
 Prometheus metrics, and takes the node out of Slurm when its hardware is
 broken.
 .
 As installed it observes: it counts what it would have drained and changes
 nothing.";

/// Writes the folder DEBIAN of the tree.
///
/// # Errors
/// When a file is missing.
pub(super) fn make(root: &Path, plan: &Plan, depends: &str) -> Result<()> {
    let dir = root.join("DEBIAN");
    fs::create_dir_all(&dir)?;
    for script in SCRIPTS {
        let from = cmd::root().join("packaging/deb").join(script);
        fs::write(
            dir.join(script),
            fs::read(&from).with_context(|| from.display().to_string())?,
        )?;
    }
    fs::write(dir.join("conffiles"), CONFFILES.join("\n") + "\n")?;
    let mut kib = 0;
    let mut sums = String::new();
    for path in tree::walk(root)?.iter().filter(|p| p.is_file()) {
        let name = path.strip_prefix(root)?.display().to_string();
        kib += fs::metadata(path)?.len().div_ceil(1024);
        let conffile = CONFFILES.iter().any(|c| c.trim_start_matches('/') == name);
        if !name.starts_with("DEBIAN/") && !conffile {
            let mut sum = cmd::program("md5sum", &[&name]);
            sums += &cmd::output(sum.current_dir(root))?;
        }
    }
    fs::write(dir.join("md5sums"), sums)?;
    let control = format!(
        "Package: nodewarden
Version: {}
Architecture: {}
Maintainer: {MAINTAINER}
Installed-Size: {kib}
Depends: {depends}, init-system-helpers (>= 1.54)
Suggests: slurm-client
Section: admin
Priority: optional
Description: {DESCRIPTION}
",
        plan.version, plan.architecture
    );
    fs::write(dir.join("control"), control)?;
    Ok(())
}
