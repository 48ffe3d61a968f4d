//! The packaged documents: docs/ as it is in the repository, with links that lead somewhere on the node.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::cmd;
use crate::lint::links;

/// Folders below docs/ that are for those who run it, not for those who change it.
const FOLDERS: &[&str] = &["", "operations", "runbooks"];

/// Only in the repository, relative to docs/: in the package, a link to one of them is plain text.
const SOURCE_ONLY: &[&str] = &["../CONTRIBUTING.md", "../systemd/README.md", "decisions/"];

/// Paths below the folder of documents, and texts.
///
/// # Errors
/// When a document cannot be read, or has a link to a file that is neither packaged nor known to be left out.
pub(super) fn all() -> Result<Vec<(String, String)>> {
    let docs = cmd::root().join("docs");
    let mut read = Vec::new();
    for folder in FOLDERS {
        for entry in fs::read_dir(docs.join(folder)).with_context(|| format!("docs/{folder}"))? {
            let path = entry?.path();
            if path.extension().is_some_and(|e| e == "md") {
                let name = path.strip_prefix(&docs)?.display().to_string();
                read.push((name, fs::read_to_string(&path)?));
            }
        }
    }
    read.sort();
    let names: BTreeSet<String> = read.iter().map(|(name, _)| name.clone()).collect();
    let mut all = Vec::new();
    for (name, text) in read {
        let text = without_source(&name, &text);
        let broken = broken(&names, &name, &text);
        ensure!(
            broken.is_empty(),
            "docs/{name}: not in the package: {}",
            broken.join(" ")
        );
        all.push((name, text));
    }
    Ok(all)
}

/// The target of a link, relative to docs/; `None` for the web, and for a heading of the same page.
fn target(from: &str, link: &str) -> Option<String> {
    if link.contains("://") || link.starts_with("mailto:") || link.starts_with('#') {
        return None;
    }
    let path = link.split('#').next()?;
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// The text, without links into the repository.
fn without_source(name: &str, text: &str) -> String {
    let mut text = text.to_owned();
    let found: Vec<String> = links::links(&text).map(str::to_owned).collect();
    for link in found {
        let outside =
            target(name, &link).is_some_and(|to| SOURCE_ONLY.iter().any(|source| to.starts_with(source)));
        let end = format!("]({link})");
        if outside && let Some(close) = text.find(&end) {
            text.replace_range(close..close + end.len(), "");
            if let Some(open) = text[..close].rfind('[') {
                text.remove(open);
            }
        }
    }
    text
}

/// The links to files that are not in the package.
fn broken(names: &BTreeSet<String>, name: &str, text: &str) -> Vec<String> {
    let gone = |link: &&str| {
        target(name, link).is_some_and(|to| !names.contains(Path::new(&to).to_string_lossy().as_ref()))
    };
    links::links(text).filter(gone).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_link_of_a_packaged_document_leads_into_the_package_or_to_the_web() {
        let all = all().unwrap();
        let names: BTreeSet<String> = all.iter().map(|(name, _)| name.clone()).collect();
        let mut count = 0;
        for (name, text) in &all {
            assert_eq!(broken(&names, name, text), [""; 0], "{name}");
            count += links::links(text).count();
        }
        assert!(count > 200, "{count} links");
        assert!(names.contains("operations/install.md") && names.contains("runbooks/xid.md"));
    }

    #[test]
    fn a_link_into_the_repository_becomes_text_and_one_to_nowhere_is_found() {
        let text = "See [the decision](decisions/0001-x.md), [GPUs](gpus.md#a), [b](https://c/d) and [gone](gone.md).";
        let text = without_source("a.md", text);
        assert_eq!(
            text,
            "See the decision, [GPUs](gpus.md#a), [b](https://c/d) and [gone](gone.md)."
        );
        let names = BTreeSet::from(["gpus.md".to_owned(), "operations/x.md".to_owned()]);
        assert_eq!(broken(&names, "a.md", &text), ["gone.md"]);
        assert_eq!(
            broken(&names, "operations/x.md", "[a](../gpus.md) [b](gpus.md)"),
            ["gpus.md"]
        );
    }

    #[test]
    fn files_that_name_a_packaged_document_name_one() {
        let all = all().unwrap();
        let here = "/usr/share/doc/nodewarden/";
        let mut count = 0;
        for file in [
            "systemd/nodewarden.service",
            "systemd/nodewarden-act.socket",
            "systemd/nodewarden-act@.service",
            "alerts/nodewarden.rules.yml",
            "alerts/jobs.rules.yml",
        ] {
            let text = fs::read_to_string(cmd::root().join(file)).unwrap();
            for rest in text.split(here).skip(1) {
                let name: String = rest.split(".md").next().unwrap().to_owned() + ".md";
                count += 1;
                let template = name.contains("{{");
                assert!(template || all.iter().any(|(n, _)| *n == name), "{file}: {name}");
            }
        }
        assert!(count > 10, "{count}");
    }
}
