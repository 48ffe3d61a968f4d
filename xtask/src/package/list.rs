//! The one list of the package's files, from which the .deb and the .rpm are made.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::{Plan, documents};
use crate::{cmd, supply};

/// What a file is for: how package managers treat it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    /// Run by people or by Slurm.
    Program,
    /// An administrator may change it, and an upgrade keeps the change.
    Config,
    /// Not needed to run.
    Document,
    /// Read by systemd.
    Unit,
    /// Read by other programs.
    Data,
    /// Made and removed with the package.
    Folder,
}

/// Which packages have a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum In {
    Both,
    Deb,
    Rpm,
}

/// One file or folder.
#[derive(Clone)]
pub(super) struct Entry {
    /// Without the first slash.
    pub(super) path: String,
    /// Permissions; the owner is root.
    pub(super) mode: u32,
    pub(super) kind: Kind,
    pub(super) packages: In,
    /// Its content; empty for a folder.
    pub(super) content: Vec<u8>,
}

impl Entry {
    /// A file, whose kind and mode follow from its path.
    pub(super) fn file(path: &str, content: Vec<u8>) -> Self {
        let kind = kind(path);
        Self {
            path: path.to_owned(),
            mode: if kind == Kind::Program { 0o755 } else { 0o644 },
            kind,
            packages: In::Both,
            content,
        }
    }

    fn folder(path: &str) -> Self {
        Self {
            path: path.to_owned(),
            mode: 0o755,
            kind: Kind::Folder,
            packages: In::Both,
            content: Vec::new(),
        }
    }

    /// In one of the packages only.
    fn only(mut self, packages: In) -> Self {
        self.packages = packages;
        self
    }
}

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
    (
        "packaging/examples/20-xids.toml",
        "usr/share/doc/nodewarden/examples/20-xids.toml",
    ),
    (
        "packaging/examples/xids.toml",
        "usr/share/doc/nodewarden/examples/xids.toml",
    ),
    ("agent/health/src/xids.toml", "usr/share/doc/nodewarden/xids.toml"),
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
];

/// Where shells look for completions, in which packages.
const COMPLETIONS: &[(&str, &str, In)] = &[
    (
        "bash",
        "usr/share/bash-completion/completions/nodewarden",
        In::Both,
    ),
    ("zsh", "usr/share/zsh/vendor-completions/_nodewarden", In::Deb),
    ("zsh", "usr/share/zsh/site-functions/_nodewarden", In::Rpm),
    (
        "fish",
        "usr/share/fish/vendor_completions.d/nodewarden.fish",
        In::Both,
    ),
];

/// Makes the list, sorted by path.
///
/// # Errors
/// When a file is missing, or a document has a link to nowhere.
pub(super) fn make(plan: &Plan) -> Result<Vec<Entry>> {
    let mut list = Vec::new();
    for (from, to) in FILES {
        list.push(Entry::file(to, read(from)?));
    }
    // Drop-ins go here.
    list.push(Entry::folder("etc/nodewarden/conf.d"));
    // rpm removes only what it lists, and none of these is in a package that ours needs.
    for shared in [
        "usr/share/fish",
        "usr/share/fish/vendor_completions.d",
        "usr/share/licenses",
        "usr/share/zsh/site-functions",
    ] {
        list.push(Entry::folder(shared).only(In::Rpm));
    }
    for (path, text) in documents::all()? {
        list.push(Entry::file(&format!("{DOC}/{path}"), text.into_bytes()));
    }
    let of_deb = |path: &str, content| Entry::file(path, content).only(In::Deb);
    list.push(of_deb(
        "usr/share/lintian/overrides/nodewarden",
        read("packaging/deb/lintian-overrides")?,
    ));
    let licence = String::from_utf8(read("LICENSE-MIT")?)?;
    let copyright = String::from_utf8(read("packaging/deb/copyright")?)?;
    list.push(of_deb(
        &format!("{DOC}/copyright"),
        (copyright + &paragraph(&licence)).into_bytes(),
    ));
    list.push(of_deb(
        &format!("{DOC}/changelog.Debian.gz"),
        gzip(changelog(plan)?.as_bytes())?,
    ));
    for name in ["LICENSE-APACHE", "LICENSE-MIT"] {
        let path = format!("usr/share/licenses/nodewarden/{name}");
        list.push(Entry::file(&path, read(name)?).only(In::Rpm));
    }
    list.push(Entry::file(
        &format!("{DOC}/changelog.gz"),
        gzip(&read("CHANGELOG.md")?)?,
    ));
    list.push(Entry::file(
        &format!("{DOC}/third-party.md"),
        third_party()?.into_bytes(),
    ));
    list.push(Entry::file(
        &format!("{DOC}/sbom.cdx.json"),
        supply::sbom(plan.arch)?.into_bytes(),
    ));
    let stripped = tempfile::NamedTempFile::new()?;
    supply::strip(plan.arch, &plan.binary, stripped.path())?;
    list.push(Entry::file(BINARY, fs::read(stripped.path())?));
    printed_by_program(&mut list, &plan.printer)?;
    Ok(complete(list))
}

/// With the folders that belong to the package, in order of path.
fn complete(list: Vec<Entry>) -> Vec<Entry> {
    let mut all: BTreeMap<String, Entry> = BTreeMap::new();
    for entry in list {
        for above in Path::new(&entry.path).ancestors().skip(1) {
            let path = above.to_string_lossy();
            if path.split('/').any(|part| part == "nodewarden") {
                let known = all
                    .entry(path.to_string())
                    .or_insert_with(|| Entry::folder(&path).only(entry.packages));
                // What both need is in both.
                if known.packages != entry.packages {
                    known.packages = In::Both;
                }
            }
        }
        all.insert(entry.path.clone(), entry);
    }
    all.into_values().collect()
}

fn kind(path: &str) -> Kind {
    let below = |folder: &str| path.starts_with(folder);
    if path == BINARY || path == HEALTHCHECK {
        Kind::Program
    } else if below("etc/") {
        Kind::Config
    } else if below("usr/lib/systemd/") {
        Kind::Unit
    } else if ["doc", "man", "licenses"]
        .iter()
        .any(|folder| below(&format!("usr/share/{folder}/")))
    {
        Kind::Document
    } else {
        Kind::Data
    }
}

fn read(from: &str) -> Result<Vec<u8>> {
    fs::read(cmd::root().join(from)).with_context(|| from.to_owned())
}

/// Manual pages and completions, written by the program.
fn printed_by_program(list: &mut Vec<Entry>, binary: &Path) -> Result<()> {
    let folder = tempfile::tempdir()?;
    cmd::run(cmd::program(&binary.to_string_lossy(), &["man"]).arg(folder.path()))?;
    let mut sections = Vec::new();
    for page in fs::read_dir(folder.path())? {
        let page = page?;
        let name = page.file_name().to_string_lossy().into_owned();
        let (_, section) = name
            .rsplit_once('.')
            .with_context(|| format!("{name}: a manual page without a section"))?;
        let path = format!("usr/share/man/man{section}/{name}.gz");
        list.push(Entry::file(&path, gzip(&fs::read(page.path())?)?));
        sections.push(section.to_owned());
    }
    for section in ["1", "5", "8"] {
        ensure!(
            sections.iter().any(|s| s == section),
            "{} wrote no manual page of section {section}",
            binary.display()
        );
    }
    for (shell, to, packages) in COMPLETIONS {
        let text = printed(binary, &["completions", shell])?;
        list.push(Entry::file(to, text.into_bytes()).only(*packages));
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
        super::MAINTAINER,
        date.trim()
    ))
}

/// As `gzip -9 -n`: neither time nor name.
fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let file = tempfile::NamedTempFile::new()?;
    fs::write(file.path(), bytes)?;
    let mut command = cmd::program("gzip", &["-9", "--no-name", "--stdout"]);
    let out = command.arg(file.path()).output()?;
    ensure!(out.status.success(), "gzip: {}", out.status);
    Ok(out.stdout)
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
    fn a_path_gives_kind_and_mode_and_folders_are_listed_once() {
        let list = complete(vec![
            Entry::file(BINARY, Vec::new()),
            Entry::file("etc/nodewarden/nodewarden.toml", Vec::new()),
            Entry::folder("etc/nodewarden/conf.d"),
            Entry::file("usr/share/licenses/nodewarden/MIT", Vec::new()).only(In::Rpm),
            Entry::file("usr/share/doc/nodewarden/copyright", Vec::new()).only(In::Deb),
            Entry::file("usr/share/doc/nodewarden/runbooks/xid.md", Vec::new()),
        ]);
        let found: Vec<_> = list
            .iter()
            .map(|e| (e.path.as_str(), e.mode, e.kind, e.packages))
            .collect();
        assert_eq!(
            found,
            [
                ("etc/nodewarden", 0o755, Kind::Folder, In::Both),
                ("etc/nodewarden/conf.d", 0o755, Kind::Folder, In::Both),
                ("etc/nodewarden/nodewarden.toml", 0o644, Kind::Config, In::Both),
                ("usr/bin/nodewarden", 0o755, Kind::Program, In::Both),
                ("usr/share/doc/nodewarden", 0o755, Kind::Folder, In::Both),
                (
                    "usr/share/doc/nodewarden/copyright",
                    0o644,
                    Kind::Document,
                    In::Deb
                ),
                ("usr/share/doc/nodewarden/runbooks", 0o755, Kind::Folder, In::Both),
                (
                    "usr/share/doc/nodewarden/runbooks/xid.md",
                    0o644,
                    Kind::Document,
                    In::Both
                ),
                ("usr/share/licenses/nodewarden", 0o755, Kind::Folder, In::Rpm),
                (
                    "usr/share/licenses/nodewarden/MIT",
                    0o644,
                    Kind::Document,
                    In::Rpm
                ),
            ]
        );
    }
}
