//! The list of libraries in the program, as CycloneDX 1.5: a form that scanners for known faults read.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::Arch;
use crate::cmd;

/// The program.
const PROGRAM: &str = "nodewarden";

/// The list as JSON. The same commit gives the same bytes.
///
/// # Errors
/// When cargo fails.
pub(crate) fn text(arch: Arch) -> Result<String> {
    let mut command = cmd::cargo(&["metadata", "--format-version=1", "--locked"]);
    let host = arch.target();
    let metadata = cmd::output(command.arg(format!("--filter-platform={host}")))?;
    let list = list(&serde_json::from_str(&metadata)?)?;
    let components = list["components"].as_array().map_or(0, Vec::len);
    println!("list of libraries: {components} components");
    Ok(serde_json::to_string_pretty(&list)? + "\n")
}

fn list(metadata: &Value) -> Result<Value> {
    let packages: BTreeMap<&str, &Value> = entries(&metadata["packages"], "id").collect();
    let nodes: BTreeMap<&str, &Value> = entries(&metadata["resolve"]["nodes"], "id").collect();
    let (root, program) = packages
        .iter()
        .find(|(_, p)| p["name"] == PROGRAM)
        .context("cargo metadata knows no package nodewarden")?;
    let mut linked: BTreeSet<&str> = BTreeSet::new();
    let mut open = vec![*root];
    while let Some(id) = open.pop() {
        if linked.insert(id) {
            open.extend(linked_by(nodes.get(id).copied()));
        }
    }
    let shown = |id: &&str| packages.get(id).copied();
    let components: Vec<Value> = linked
        .iter()
        .filter(|id| *id != root)
        .filter_map(shown)
        .map(component)
        .collect();
    let depends = |id: &&str| -> Option<Value> {
        let mut on: Vec<String> = linked_by(nodes.get(id).copied())
            .filter_map(|on| Some(reference(packages.get(on)?)))
            .collect();
        on.sort();
        on.dedup();
        Some(json!({ "ref": reference(packages.get(id)?), "dependsOn": on }))
    };
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": component(program) },
        "components": components,
        "dependencies": linked.iter().filter_map(depends).collect::<Vec<_>>(),
    }))
}

fn entries<'a>(list: &'a Value, key: &'static str) -> impl Iterator<Item = (&'a str, &'a Value)> {
    let list = list.as_array().into_iter().flatten();
    list.filter_map(move |entry| Some((entry[key].as_str()?, entry)))
}

/// The libraries linked into a package: neither those that build it nor those that test it.
fn linked_by(node: Option<&Value>) -> impl Iterator<Item = &str> {
    let dependencies = node.and_then(|n| n["deps"].as_array()).into_iter().flatten();
    dependencies
        .filter(|d| entries(&d["dep_kinds"], "kind").count() < d["dep_kinds"].as_array().map_or(0, Vec::len))
        .filter_map(|d| d["pkg"].as_str())
}

fn component(package: &Value) -> Value {
    let text = |key: &str| package[key].as_str().unwrap_or_default();
    let mut component = json!({
        "type": if text("name") == PROGRAM { "application" } else { "library" },
        "bom-ref": reference(package),
        "name": text("name"),
        "version": text("version"),
    });
    if package["license"].is_string() {
        component["licenses"] = json!([{ "expression": text("license").replace('/', " OR ") }]);
    }
    // Packages of this repository are in no registry.
    if package["source"].is_string() {
        component["purl"] = json!(reference(package));
    }
    component
}

fn reference(package: &Value) -> String {
    let text = |key: &str| package[key].as_str().unwrap_or_default();
    format!("pkg:cargo/{}@{}", text("name"), text("version"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_linked_is_listed_and_what_builds_or_tests_is_not() {
        let package = |name: &str, source: Value| json!({ "id": format!("{name} 1"), "name": name, "version": "1.0.0", "license": "MIT/Apache-2.0", "source": source });
        let dep = |name: &str, kinds: &[Value]| {
            let kinds: Vec<Value> = kinds.iter().map(|kind| json!({ "kind": kind })).collect();
            json!({ "pkg": format!("{name} 1"), "dep_kinds": kinds })
        };
        let registry = json!("registry+https://github.com/rust-lang/crates.io-index");
        let metadata = json!({
            "packages": [
                package(PROGRAM, Value::Null),
                package("hyper", registry.clone()),
                package("bytes", registry.clone()),
                package("cc", registry.clone()),
                package("tempfile", registry),
            ],
            "resolve": { "nodes": [
                { "id": "nodewarden 1", "deps": [
                    dep("hyper", &[Value::Null, json!("dev")]),
                    dep("tempfile", &[json!("dev")]),
                ] },
                { "id": "hyper 1", "deps": [dep("bytes", &[Value::Null]), dep("cc", &[json!("build")])] },
                { "id": "bytes 1", "deps": [] },
                { "id": "cc 1", "deps": [] },
                { "id": "tempfile 1", "deps": [] },
            ] },
        });
        let list = list(&metadata).unwrap();
        let names: Vec<&str> = entries(&list["components"], "name")
            .map(|(name, _)| name)
            .collect();
        assert_eq!(names, ["bytes", "hyper"]);
        assert_eq!(list["components"][1]["purl"], "pkg:cargo/hyper@1.0.0");
        assert_eq!(
            list["components"][1]["licenses"][0]["expression"],
            "MIT OR Apache-2.0"
        );
        assert_eq!(list["metadata"]["component"]["type"], "application");
        let hyper = entries(&list["dependencies"], "ref")
            .find(|(of, _)| of.contains("hyper"))
            .unwrap();
        assert_eq!(hyper.1["dependsOn"], json!(["pkg:cargo/bytes@1.0.0"]));
    }
}
