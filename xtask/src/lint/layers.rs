//! Which crate may use which, and where rules of the node's programs may be relaxed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use quote::ToTokens;
use serde_json::Value;

use super::{Report, folders, tree};
use crate::cmd;

struct Row {
    name: &'static str,
    /// Where it may hold unsafe code and relax [`KEPT`]; `None`: nowhere.
    sys: Option<&'static str>,
    kind: Kind,
    /// The crates of the workspace that it may depend on.
    uses: &'static [&'static str],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// No I/O, clock or randomness. Its clippy.toml bans their functions: `cargo xtask docs` writes it.
    Pure,
    /// Runs on a node.
    Node,
    /// For developers and tests.
    Tool,
}
use Kind::{Node, Pure, Tool};

/// Every crate of the workspace.
#[rustfmt::skip]
const CRATES: &[Row] = &[
    Row { kind: Node, name: "nodewarden-collectors", sys: Some("src/sys"), uses: &[] },
    Row { kind: Pure, name: "nodewarden-model", sys: None, uses: &["nodewarden-collectors"] },
    Row { kind: Pure, name: "nodewarden-slurm", sys: None, uses: &["nodewarden-model", "nodewarden-collectors"] },
    Row { kind: Pure, name: "nodewarden-health", sys: None, uses: &["nodewarden-model", "nodewarden-collectors"] },
    Row { kind: Pure, name: "nodewarden-exposition", sys: None, uses: &["nodewarden-model", "nodewarden-collectors"] },
    Row { kind: Node, name: "nodewarden-sys", sys: Some(""), uses: &["nodewarden-collectors"] },
    Row { kind: Node, name: "nodewarden", sys: None, uses: AGENT },
    Row { kind: Tool, name: "fake-nvml", sys: Some(""), uses: &[] },
    Row { kind: Tool, name: "nodewarden-testkit", sys: Some(""), uses: &["fake-nvml"] },
    Row { kind: Tool, name: "nodewarden-fuzz", sys: None, uses: AGENT },
    Row { kind: Tool, name: "docgen", sys: None, uses: AGENT },
    Row { kind: Tool, name: "xtask", sys: None, uses: &["nodewarden-testkit"] },
];

/// What the program is made of, and the program.
const AGENT: &[&str] = &[
    "nodewarden",
    "nodewarden-collectors",
    "nodewarden-exposition",
    "nodewarden-health",
    "nodewarden-model",
    "nodewarden-slurm",
    "nodewarden-sys",
];

/// What a pure crate must not link: system calls, an event loop, random numbers.
const IMPURE: &[&str] = &["fastrand", "getrandom", "libc", "nix", "rand", "rustix", "tokio"];

/// Lints that no program of the node relaxes outside of its `sys`, and groups that hold them.
const KEPT: &[&str] = &[
    "unsafe_code",
    "disallowed_macros",
    "disallowed_methods",
    "disallowed_types",
    "warnings",
    "all",
    "restriction",
    "style",
];

pub(super) fn check() -> Result<Report> {
    let packages = packages()?;
    let mut report = Report {
        problems: dependencies(&packages),
        ..Report::default()
    };
    for (row, package) in known(&packages) {
        let folder = folder(package)?;
        for file in root_files(package) {
            if row.sys.is_none() && !forbids(&file, &folder)? {
                let problem = format!("{}: no `#![forbid(unsafe_code)]`", file.display());
                report.problems.push(problem);
            }
        }
        if row.kind == Tool {
            continue;
        }
        let root = root_files(package).into_iter().next();
        let modules = tree::modules(&root.with_context(|| format!("{}: has no library", row.name))?)?;
        let sys = row.sys.map(|s| folder.join(s));
        report.problems.extend(relaxed(&modules, sys.as_deref()));
        println!("{}", row.name);
        report.problems.extend(folders::check(&modules));
    }
    Ok(report)
}

/// The folders of the pure crates.
///
/// # Errors
/// When one is missing.
pub(crate) fn pure() -> Result<Vec<PathBuf>> {
    let packages = packages()?;
    if let Some(problem) = missing(&packages).next() {
        bail!("{problem}");
    }
    let pure = known(&packages).filter(|(row, _)| row.kind == Pure);
    pure.map(|(_, package)| folder(package)).collect()
}

fn packages() -> Result<Vec<Value>> {
    let metadata = cmd::metadata(false)?;
    let packages = metadata["packages"].as_array();
    Ok(packages.context("cargo metadata names no packages")?.clone())
}

fn known(packages: &[Value]) -> impl Iterator<Item = (&Row, &Value)> {
    packages
        .iter()
        .filter_map(|p| Some((CRATES.iter().find(|r| p["name"] == r.name)?, p)))
}

fn missing(packages: &[Value]) -> impl Iterator<Item = String> {
    let is_there = |row: &&Row| packages.iter().any(|p| p["name"] == row.name);
    let missing = CRATES.iter().filter(move |row| !is_there(row));
    missing.map(|row| format!("{}: in the table of crates, and not in the workspace", row.name))
}

/// Compares the dependencies of packages with the table.
fn dependencies(packages: &[Value]) -> Vec<String> {
    fn name(package: &Value) -> &str {
        package["name"].as_str().unwrap_or_default()
    }
    let ours: BTreeSet<&str> = packages.iter().map(name).collect();
    let mut problems: Vec<String> = missing(packages).collect();
    let unknown = ours.iter().filter(|n| CRATES.iter().all(|r| r.name != **n));
    problems.extend(unknown.map(|n| format!("{n}: in the workspace, and not in the table of crates")));
    for (row, package) in known(packages) {
        let all = package["dependencies"].as_array().into_iter().flatten();
        for used in all.filter(|d| d["kind"] != "dev").map(name) {
            if ours.contains(used) && !row.uses.contains(&used) {
                problems.push(format!("{}: must not depend on {used}", row.name));
            }
            if row.kind == Pure && IMPURE.contains(&used) {
                problems.push(format!("{}: is pure, and depends on {used}", row.name));
            }
        }
    }
    problems
}

/// The root files of a package's library, if it has one, and of its programs.
fn root_files(package: &Value) -> Vec<PathBuf> {
    let targets = package["targets"].as_array().into_iter().flatten();
    let shipped = targets.filter(|t| {
        let kind = t["kind"][0].as_str().unwrap_or_default();
        kind.ends_with("lib") || kind == "bin"
    });
    // Cargo names the library first.
    shipped
        .filter_map(|t| Some(t["src_path"].as_str()?.into()))
        .collect()
}

fn folder(package: &Value) -> Result<PathBuf> {
    let manifest = package["manifest_path"].as_str().map(Path::new);
    let folder = manifest.and_then(Path::parent);
    Ok(folder.context("a package without a folder")?.to_owned())
}

/// Whether rustc refuses unsafe code in the whole crate: `forbid`, which no attribute further down relaxes.
fn forbids(root_file: &Path, folder: &Path) -> Result<bool> {
    let manifest: toml::Table = std::fs::read_to_string(folder.join("Cargo.toml"))?.parse()?;
    let level = manifest
        .get("lints")
        .and_then(|l| l.get("rust")?.get("unsafe_code")?.as_str());
    let attributes = tree::parse(root_file)?.attrs;
    let mut attributes = attributes.iter().map(|a| tree::words(a.meta.to_token_stream()));
    Ok(level == Some("forbid") || attributes.any(|words| words == ["forbid", "unsafe_code"]))
}

fn relaxed(modules: &[tree::Module], sys: Option<&Path>) -> Vec<String> {
    let mut problems = Vec::new();
    for module in modules {
        // `sys/` and `sys.rs`.
        if sys.is_some_and(|s| module.file.with_extension("").starts_with(s)) {
            continue;
        }
        for words in tree::relaxations(module.tokens()) {
            let kept = words.iter().filter(|w| KEPT.contains(&w.as_str()));
            problems
                .extend(kept.map(|w| format!("{}: {w} is relaxed outside of sys", module.file.display())));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, dependencies: &str) -> Value {
        let text = format!(r#"{{"name":"{name}","dependencies":[{dependencies}]}}"#);
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn a_dependency_that_the_table_lacks_is_refused() {
        let all = |of_slurm: &str| -> Vec<String> {
            let dependencies = |row: &Row| {
                if row.name == "nodewarden-slurm" {
                    of_slurm
                } else {
                    ""
                }
            };
            let packages: Vec<Value> = CRATES.iter().map(|r| package(r.name, dependencies(r))).collect();
            super::dependencies(&packages)
        };
        assert_eq!(
            all(r#"{"name":"nodewarden-model","kind":null},{"name":"serde","kind":null}"#),
            [""; 0]
        );
        assert_eq!(all(r#"{"name":"nodewarden-testkit","kind":"dev"}"#), [""; 0]);
        assert_eq!(
            all(r#"{"name":"nodewarden-health","kind":null},{"name":"tokio","kind":null}"#),
            [
                "nodewarden-slurm: must not depend on nodewarden-health",
                "nodewarden-slurm: is pure, and depends on tokio"
            ]
        );
    }

    #[test]
    fn an_unknown_crate_and_a_missing_one_are_refused() {
        let problems = dependencies(&[package("new", "")]);
        assert_eq!(problems.len(), CRATES.len() + 1);
        assert!(problems.contains(&"new: in the workspace, and not in the table of crates".to_owned()));
        assert!(
            problems
                .iter()
                .any(|p| p.starts_with("nodewarden-model: in the table"))
        );
    }

    #[test]
    fn a_lint_of_the_node_is_relaxed_below_sys_alone() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write(
            "lib.rs",
            "#![forbid(unsafe_code)]\nmod sys; mod other; #[cfg(test)] mod tests;",
        );
        write("sys.rs", "#![allow(unsafe_code, reason = \"x\")]");
        let found = |text: &str| {
            write("other.rs", text);
            let modules = tree::modules(&folder.path().join("lib.rs")).unwrap();
            relaxed(&modules, Some(&folder.path().join("sys"))).len()
        };
        assert_eq!(
            found("#[allow(dead_code, reason = \"unsafe_code\")] fn all() { x.expect(1) }"),
            0
        );
        assert_eq!(
            found("#[cfg(test)] mod tests { #![allow(clippy::disallowed_methods)] }"),
            0
        );
        for attribute in [
            "#![allow(clippy::disallowed_methods)]",
            "#[expect(\n    unsafe_code,\n    reason = \"x\"\n)] fn f() {}",
            "#[cfg_attr(a, allow(unsafe_code))] fn f() {}",
            "fn f() { #[allow(clippy::all)] g(); }",
            "macro_rules! m { () => { #[allow(unsafe_code)] fn f() {} } }",
        ] {
            assert_eq!(found(attribute), 1, "{attribute}");
        }
    }
}
