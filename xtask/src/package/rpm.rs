//! The package for RHEL and SLES, by rpm's own program: a spec file from the list.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::list::{Entry, In, Kind};
use super::{DESCRIPTION, MAINTAINER, Plan, SUMMARY, tree};
use crate::cmd;

const SCRIPTS: &[&str] = &["post", "preun", "postun", "posttrans"];

/// Settings of rpmbuild. The program is already stripped, and the build machine's name and time are no input.
const DEFINES: &[&str] = &[
    "__os_install_post %{nil}",
    "_build_id_links none",
    "debug_package %{nil}",
    "_buildhost localhost",
    "use_source_date_epoch_as_buildtime 1",
    "clamp_mtime_to_source_date_epoch 1",
    "source_date_epoch_from_changelog 0",
];

/// Builds the package below `work`. rpmbuild finds the libraries that the program needs.
///
/// # Errors
/// When rpmbuild fails.
pub(super) fn make(work: &Path, list: &[Entry], plan: &Plan) -> Result<PathBuf> {
    let files = work.join("rpm");
    tree::lay(&files, list, In::Rpm)?;
    tree::settle(&files, plan.epoch)?;
    let spec = work.join("nodewarden.spec");
    fs::write(&spec, self::spec(list, plan, &files)?)?;
    let top = work.join("rpmbuild");
    let arch = plan.arch.name();
    let mut build = cmd::program("rpmbuild", &["-bb", "--quiet"]);
    build.arg(format!("--target={arch}"));
    build.arg(format!("--define=_topdir {}", top.display()));
    // xz: EL8's rpm reads it.
    build.arg(format!("--define=_binary_payload w{}.xzdio", plan.compression));
    build.args(DEFINES.iter().map(|define| format!("--define={define}")));
    build.arg(&spec).env("SOURCE_DATE_EPOCH", plan.epoch.to_string());
    cmd::run(&mut build)?;
    let name = format!("nodewarden-{}-{}.{arch}.rpm", plan.version, plan.revision);
    let rpm = work.join(&name);
    let made = top.join("RPMS").join(arch).join(&name);
    fs::rename(&made, &rpm).with_context(|| made.display().to_string())?;
    Ok(rpm)
}

fn spec(list: &[Entry], plan: &Plan, files: &Path) -> Result<String> {
    let date = cmd::output(
        cmd::program(
            "date",
            &["--utc", "+%a %b %d %Y", &format!("--date=@{}", plan.epoch)],
        )
        .env("LC_ALL", "C"),
    )?;
    let mut spec = format!(
        "Name: nodewarden
Version: {version}
Release: {revision}
Summary: {SUMMARY}
License: Apache-2.0 OR MIT
Packager: {MAINTAINER}

%description
{DESCRIPTION}
%install
mkdir -p %{{buildroot}}
cp -a '{files}/.' %{{buildroot}}/

",
        version = plan.version,
        revision = plan.revision,
        files = files.display(),
    );
    for script in SCRIPTS {
        let from = cmd::root().join("packaging/rpm").join(script);
        let text = fs::read_to_string(&from).with_context(|| from.display().to_string())?;
        write!(spec, "%{script}\n{}\n", text.replace('%', "%%"))?;
    }
    spec += "%files\n";
    for entry in tree::of(list, In::Rpm) {
        spec += &line(entry);
    }
    write!(
        spec,
        "\n%changelog\n* {} {MAINTAINER} - {}-{}\n- See /usr/share/doc/nodewarden/changelog.gz.\n",
        date.trim(),
        plan.version,
        plan.revision
    )?;
    Ok(spec)
}

fn line(entry: &Entry) -> String {
    let kind = match entry.kind {
        Kind::Config => "%config(noreplace) ",
        Kind::Document if entry.path.contains("/licenses/") => "%license ",
        Kind::Document => "%doc ",
        Kind::Folder => "%dir ",
        Kind::Program | Kind::Unit | Kind::Data => "",
    };
    format!("{kind}%attr({:04o},root,root) \"/{}\"\n", entry.mode, entry.path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upgrade_keeps_a_changed_configuration_and_the_rest_is_owned_by_root() {
        for (path, expected) in [
            (
                "etc/nodewarden/nodewarden.toml",
                "%config(noreplace) %attr(0644,root,root) \"/etc/nodewarden/nodewarden.toml\"\n",
            ),
            (
                "usr/bin/nodewarden",
                "%attr(0755,root,root) \"/usr/bin/nodewarden\"\n",
            ),
            (
                "usr/share/licenses/nodewarden/M",
                "%license %attr(0644,root,root) \"/usr/share/licenses/nodewarden/M\"\n",
            ),
            (
                "usr/share/doc/nodewarden/x.md",
                "%doc %attr(0644,root,root) \"/usr/share/doc/nodewarden/x.md\"\n",
            ),
        ] {
            assert_eq!(line(&Entry::file(path, Vec::new())), expected);
        }
    }
}
