//! The files of the package, at the paths that they are installed to.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};

use super::Plan;
use crate::{cmd, supply};

/// The program.
pub(super) const BINARY: &str = "usr/bin/nodewarden";
/// What Slurm starts.
const HEALTHCHECK: &str = "usr/libexec/nodewarden/healthcheck";
/// Its documents.
const DOC: &str = "usr/share/doc/nodewarden";

/// What node-problem-detector may load.
const DETECTOR: &str = "packaging/node-problem-detector/nodewarden.json";

/// Files of the repository, and their paths in the package.
const FILES: &[(&str, &str)] = &[
    (
        "systemd/nodewarden.service",
        "usr/lib/systemd/system/nodewarden.service",
    ),
    (
        "systemd/nodewarden.socket",
        "usr/lib/systemd/system/nodewarden.socket",
    ),
    (
        "systemd/nodewarden-act.socket",
        "usr/lib/systemd/system/nodewarden-act.socket",
    ),
    (
        "systemd/nodewarden-act@.service",
        "usr/lib/systemd/system/nodewarden-act@.service",
    ),
    (
        "systemd/nodewarden.sysusers",
        "usr/lib/sysusers.d/nodewarden.conf",
    ),
    (
        "packaging/nodewarden.toml.example",
        "etc/nodewarden/nodewarden.toml",
    ),
    ("packaging/healthcheck", HEALTHCHECK),
    (
        "alerts/jobs.rules.yml",
        "usr/share/doc/nodewarden/alerts/jobs.rules.yml",
    ),
    (
        "alerts/nodewarden.rules.yml",
        "usr/share/doc/nodewarden/alerts/nodewarden.rules.yml",
    ),
    (
        "alerts/nodewarden.prometheusrule.yaml",
        "usr/share/doc/nodewarden/alerts/nodewarden.prometheusrule.yaml",
    ),
    (
        "alerts/alertmanager.example.yml",
        "usr/share/doc/nodewarden/alerts/alertmanager.example.yml",
    ),
    (
        "dashboards/nodewarden-agent.json",
        "usr/share/nodewarden/dashboards/nodewarden-agent.json",
    ),
    (
        "dashboards/nodewarden-cluster.json",
        "usr/share/nodewarden/dashboards/nodewarden-cluster.json",
    ),
    (
        "dashboards/nodewarden-drains.json",
        "usr/share/nodewarden/dashboards/nodewarden-drains.json",
    ),
    (
        "dashboards/nodewarden-fabric.json",
        "usr/share/nodewarden/dashboards/nodewarden-fabric.json",
    ),
    (
        "dashboards/nodewarden-gpu.json",
        "usr/share/nodewarden/dashboards/nodewarden-gpu.json",
    ),
    (
        "dashboards/nodewarden-gpus.json",
        "usr/share/nodewarden/dashboards/nodewarden-gpus.json",
    ),
    (
        "dashboards/nodewarden-job.json",
        "usr/share/nodewarden/dashboards/nodewarden-job.json",
    ),
    (
        "dashboards/nodewarden-node.json",
        "usr/share/nodewarden/dashboards/nodewarden-node.json",
    ),
    (
        "dashboards/nodewarden-storage.json",
        "usr/share/nodewarden/dashboards/nodewarden-storage.json",
    ),
    (
        "dashboards/provisioning.example.yml",
        "usr/share/nodewarden/dashboards/provisioning.example.yml",
    ),
    (
        DETECTOR,
        "usr/share/nodewarden/node-problem-detector/nodewarden.json",
    ),
    (
        "packaging/deb/lintian-overrides",
        "usr/share/lintian/overrides/nodewarden",
    ),
];

/// Folders below docs/ that are for those who run it, not for those who change it.
const DOCUMENTS: &[&str] = &["", "operations", "runbooks"];

/// Where shells look for completions.
const COMPLETIONS: &[(&str, &str)] = &[
    ("bash", "usr/share/bash-completion/completions/nodewarden"),
    ("zsh", "usr/share/zsh/vendor-completions/_nodewarden"),
    ("fish", "usr/share/fish/vendor_completions.d/nodewarden.fish"),
];

/// Makes the tree.
///
/// # Errors
/// When a file is missing.
pub(super) fn make(root: &Path, plan: &Plan) -> Result<()> {
    for (from, to) in FILES {
        let text = fs::read(cmd::root().join(from)).with_context(|| (*from).to_owned())?;
        write(root, to, &text)?;
    }
    // Drop-ins go here.
    fs::create_dir_all(root.join("etc/nodewarden/conf.d"))?;
    documents(root)?;
    let licence = fs::read_to_string(cmd::root().join("LICENSE-MIT"))?;
    let copyright = fs::read_to_string(cmd::root().join("packaging/deb/copyright"))?;
    write(
        root,
        &format!("{DOC}/copyright"),
        (copyright + &paragraph(&licence)).as_bytes(),
    )?;
    write(root, &format!("{DOC}/third-party.md"), third_party()?.as_bytes())?;
    supply::sbom(&root.join(DOC).join("sbom.cdx.json"))?;
    let changes = fs::read(cmd::root().join("CHANGELOG.md"))?;
    write(root, &format!("{DOC}/changelog"), &changes)?;
    gzip(&root.join(DOC).join("changelog"))?;
    write(
        root,
        &format!("{DOC}/changelog.Debian"),
        changelog(plan)?.as_bytes(),
    )?;
    gzip(&root.join(DOC).join("changelog.Debian"))?;

    let binary = root.join(BINARY);
    fs::create_dir_all(binary.parent().context("a program without a folder")?)?;
    supply::strip(&plan.binary, &binary)?;
    own_words(root, &plan.binary)
}

fn documents(root: &Path) -> Result<()> {
    for folder in DOCUMENTS {
        for entry in
            fs::read_dir(cmd::root().join("docs").join(folder)).with_context(|| format!("docs/{folder}"))?
        {
            let path = entry?.path();
            if path.extension().is_some_and(|e| e == "md") {
                let name = path
                    .file_name()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned();
                // Its operators' guide is found at the top.
                let to = match *folder {
                    "runbooks" => format!("{DOC}/runbooks/{name}"),
                    _ => format!("{DOC}/{name}"),
                };
                write(root, &to, &fs::read(&path)?)?;
            }
        }
    }
    Ok(())
}

/// Manual pages and completions, written by the program.
fn own_words(root: &Path, binary: &Path) -> Result<()> {
    let folder = root.join("usr/share/man/man1");
    fs::create_dir_all(&folder)?;
    cmd::run(cmd::program(&binary.to_string_lossy(), &["man"]).arg(&folder))?;
    let mut pages = 0;
    for page in fs::read_dir(&folder)? {
        gzip(&page?.path())?;
        pages += 1;
    }
    ensure!(pages > 0, "{} wrote no manual page", binary.display());
    for (shell, to) in COMPLETIONS {
        write(root, to, printed(binary, &["completions", shell])?.as_bytes())?;
    }
    Ok(())
}

/// What the program prints.
fn printed(binary: &Path, args: &[&str]) -> Result<String> {
    let output = cmd::program(&binary.to_string_lossy(), args).output()?;
    let text = String::from_utf8(output.stdout)?;
    ensure!(
        output.status.success() && !text.trim().is_empty(),
        "{} prints nothing for `{}`",
        binary.display(),
        args.join(" ")
    );
    Ok(text)
}

/// A text as the continuation of a field of a control file.
fn paragraph(text: &str) -> String {
    let lines = text.trim_end().lines().skip(2);
    lines.fold(String::new(), |all, line| {
        let line = if line.is_empty() { "." } else { line };
        all + " " + line + "\n"
    })
}

/// Every library that is linked in, with its licence.
fn third_party() -> Result<String> {
    let metadata = cmd::metadata(true)?;
    let mut lines = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        if package["source"].is_null() {
            continue;
        }
        let field = |name: &str| package[name].as_str().unwrap_or("not stated");
        lines.push(format!(
            "* {} {}: {}\n",
            field("name"),
            field("version"),
            field("license")
        ));
    }
    lines.sort();
    Ok(format!(
        "# Libraries\n\nRust libraries that the program or its tests are built from, and their licences.\n\n{}",
        lines.concat()
    ))
}

fn changelog(plan: &Plan) -> Result<String> {
    let date = cmd::output(&mut cmd::program(
        "date",
        &["--utc", "--rfc-email", &format!("--date=@{}", plan.epoch)],
    ))?;
    Ok(format!(
        "nodewarden ({}) unstable; urgency=medium\n\n  * See changelog.gz.\n\n -- {}  {}\n",
        plan.version,
        super::control::MAINTAINER,
        date.trim()
    ))
}

fn write(root: &Path, to: &str, bytes: &[u8]) -> Result<()> {
    let path = root.join(to);
    fs::create_dir_all(path.parent().context("a file without a folder")?)?;
    fs::write(&path, bytes).with_context(|| path.display().to_string())
}

fn gzip(path: &Path) -> Result<()> {
    cmd::run(cmd::program("gzip", &["-9", "--no-name"]).arg(path))
}

/// Every path of the tree, folders before their content, in an order independent of the disk.
///
/// # Errors
/// When a folder cannot be read.
pub(super) fn walk(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path.clone());
            }
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// Gives everything the modes that Debian wants, whatever the umask was, and one time.
///
/// # Errors
/// When a file cannot be changed.
pub(super) fn settle(root: &Path, epoch: i64) -> Result<()> {
    let time = UNIX_EPOCH + Duration::from_secs(u64::try_from(epoch)?);
    let scripts = root.join("DEBIAN");
    for path in walk(root)?.iter().rev().chain([&root.to_owned()]) {
        let script = path.starts_with(&scripts) && path.extension().is_none() && {
            fs::read(path).is_ok_and(|b| b.starts_with(b"#!"))
        };
        let program =
            path.is_dir() || script || *path == root.join(BINARY) || *path == root.join(HEALTHCHECK);
        let mode = if program { 0o755 } else { 0o644 };
        fs::set_permissions(path, Permissions::from_mode(mode))?;
        fs::File::open(path)?.set_modified(time)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_licence_becomes_lines_of_a_field() {
        assert_eq!(
            paragraph("Title\n\nCopyright\n\nText\n"),
            " Copyright\n .\n Text\n"
        );
    }

    #[test]
    fn rules_for_prometheus_are_shipped_where_the_documents_say() {
        let page = fs::read_to_string(cmd::root().join("docs/operations/prometheus.md")).unwrap();
        for (from, to) in FILES.iter().filter(|(from, _)| from.ends_with(".rules.yml")) {
            assert!(cmd::root().join(from).is_file() && to.starts_with(DOC), "{from}");
            assert!(page.contains(&format!("/{to}")), "{to}");
        }
    }

    /// The fields and rules of node-problem-detector (pkg/custompluginmonitor/types, commit 01a6793b).
    #[test]
    fn the_configuration_of_node_problem_detector_is_one_and_starts_check() {
        let text = fs::read_to_string(cmd::root().join(DETECTOR)).unwrap();
        let all: serde_json::Value = serde_json::from_str(&text).unwrap();
        let known = |value: &serde_json::Value, names: &[&str]| {
            for name in value.as_object().unwrap().keys() {
                assert!(names.contains(&name.as_str()), "{name}");
            }
        };
        known(
            &all,
            &[
                "plugin",
                "pluginConfig",
                "source",
                "metricsReporting",
                "conditions",
                "rules",
            ],
        );
        let plugin = &all["pluginConfig"];
        known(
            plugin,
            &[
                "invoke_interval",
                "timeout",
                "max_output_length",
                "concurrency",
                "enable_message_change_based_condition_update",
                "skip_initial_status",
            ],
        );
        assert_eq!(all["plugin"], "custom");
        // The age in the line changes each time.
        assert_eq!(plugin["enable_message_change_based_condition_update"], false);
        let seconds = |value: &serde_json::Value| -> u64 {
            value
                .as_str()
                .unwrap()
                .strip_suffix('s')
                .unwrap()
                .parse()
                .unwrap()
        };
        assert!(seconds(&plugin["timeout"]) < seconds(&plugin["invoke_interval"]));
        let conditions = all["conditions"].as_array().unwrap();
        for condition in conditions {
            known(condition, &["type", "reason", "message"]);
        }
        let rules = all["rules"].as_array().unwrap();
        assert_eq!(rules.len(), 1);
        for rule in rules {
            known(rule, &["type", "condition", "reason", "path", "args", "timeout"]);
            assert_eq!(rule["type"], "permanent");
            assert!(
                conditions
                    .iter()
                    .any(|condition| condition["type"] == rule["condition"])
            );
            assert_eq!(rule["path"], format!("/{BINARY}"));
            assert_eq!(rule["args"], serde_json::json!(["check"]));
            assert!(seconds(&rule["timeout"]) <= seconds(&plugin["timeout"]));
        }
        let (_, to) = FILES.iter().find(|(from, _)| *from == DETECTOR).unwrap();
        let page = fs::read_to_string(cmd::root().join("docs/operations/custom-checks.md")).unwrap();
        assert!(page.contains(&format!("/{to}")), "{to}");
    }

    #[test]
    fn modes_and_times_do_not_depend_on_who_made_the_files() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        write(&root, BINARY, b"x").unwrap();
        write(&root, "DEBIAN/postinst", b"#!/bin/sh\n").unwrap();
        write(&root, "DEBIAN/control", b"Package: x\n").unwrap();
        fs::set_permissions(root.join(BINARY), Permissions::from_mode(0o600)).unwrap();
        settle(&root, 1_700_000_000).unwrap();
        let mode = |path: &str| fs::metadata(root.join(path)).unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode(BINARY), 0o755);
        assert_eq!(mode("DEBIAN/postinst"), 0o755);
        assert_eq!(mode("DEBIAN/control"), 0o644);
        assert_eq!(mode("usr"), 0o755);
        let time = fs::metadata(root.join("usr/bin")).unwrap().modified().unwrap();
        assert_eq!(time, UNIX_EPOCH + Duration::from_secs(1_700_000_000));
    }
}
