//! The Debian package, by dpkg's own programs: control, conffiles, md5sums, scripts.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::list::{Entry, In, Kind};
use super::{DESCRIPTION, MAINTAINER, Plan, SUMMARY, tree};
use crate::cmd;

const SCRIPTS: &[&str] = &["postinst", "prerm", "postrm"];

/// Builds the package below `work`.
///
/// # Errors
/// When dpkg-deb fails.
pub(super) fn make(work: &Path, list: &[Entry], plan: &Plan, depends: &str) -> Result<PathBuf> {
    let root = work.join("deb");
    tree::lay(&root, list, In::Deb)?;
    control(&root, list, plan, depends)?;
    tree::settle(&root, plan.epoch)?;
    let name = format!(
        "nodewarden_{}-{}_{}.deb",
        plan.version,
        plan.revision,
        plan.arch.debian()
    );
    let deb = work.join(name);
    let level = format!("-z{}", plan.compression);
    let mut pack = cmd::program("dpkg-deb", &["--root-owner-group", "-Zxz", &level, "--build"]);
    cmd::run(
        pack.arg(&root)
            .arg(&deb)
            .env("SOURCE_DATE_EPOCH", plan.epoch.to_string()),
    )?;
    Ok(deb)
}

fn control(root: &Path, list: &[Entry], plan: &Plan, depends: &str) -> Result<()> {
    let dir = root.join("DEBIAN");
    fs::create_dir_all(&dir)?;
    for script in SCRIPTS {
        let from = cmd::root().join("packaging/deb").join(script);
        let text = fs::read(&from).with_context(|| from.display().to_string())?;
        fs::write(dir.join(script), text)?;
        fs::set_permissions(dir.join(script), Permissions::from_mode(0o755))?;
    }
    let mut conffiles = String::new();
    let mut sums = String::new();
    let mut kib = 0;
    for entry in tree::of(list, In::Deb).filter(|e| e.kind != Kind::Folder) {
        kib += entry.content.len().div_ceil(1024);
        if entry.kind == Kind::Config {
            conffiles += &format!("/{}\n", entry.path);
        } else {
            let mut sum = cmd::program("md5sum", &[&entry.path]);
            sums += &cmd::output(sum.current_dir(root))?;
        }
    }
    let control = format!(
        "Package: nodewarden
Version: {}-{}
Architecture: {}
Maintainer: {MAINTAINER}
Installed-Size: {kib}
Depends: {depends}, init-system-helpers (>= 1.54)
Suggests: slurm-client
Section: admin
Priority: optional
Description: {SUMMARY}
{}",
        plan.version,
        plan.revision,
        plan.arch.debian(),
        paragraphs(DESCRIPTION)
    );
    for (name, text) in [("conffiles", conffiles), ("md5sums", sums), ("control", control)] {
        fs::write(dir.join(name), text)?;
        fs::set_permissions(dir.join(name), Permissions::from_mode(0o644))?;
    }
    Ok(())
}

fn paragraphs(text: &str) -> String {
    let line = |l: &str| format!(" {}\n", if l.is_empty() { "." } else { l });
    text.lines().map(line).collect()
}
