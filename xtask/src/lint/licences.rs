//! Licences and origins of every package we link, against deny.toml. A few milliseconds, where cargo-deny would first
//! have to be compiled; `ci --full` runs that one too, for advisories.

use anyhow::{Context, Result};
use serde_json::Value;

use super::Report;
use crate::cmd;

const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

pub(super) fn check() -> Result<Report> {
    let text = std::fs::read_to_string(cmd::root().join("deny.toml")).context("deny.toml")?;
    let allowed = allowed(&text)?;
    let metadata = cmd::metadata(true)?;
    let packages = metadata["packages"]
        .as_array()
        .context("cargo metadata names no packages")?;
    let mut report = Report::default();
    for package in packages {
        let name = format!("{} {}", word(package, "name"), word(package, "version"));
        let licence = word(package, "license");
        if !satisfied(licence, &allowed) {
            report
                .problems
                .push(format!("{name}: licence `{licence}` is not allowed by deny.toml"));
        }
        if package["source"]
            .as_str()
            .is_some_and(|source| source != CRATES_IO)
        {
            report
                .problems
                .push(format!("{name}: comes from {}", package["source"]));
        }
    }
    println!("{} packages", packages.len());
    Ok(report)
}

fn word<'a>(package: &'a Value, key: &str) -> &'a str {
    package[key].as_str().unwrap_or_default()
}

/// The list `licenses.allow` of deny.toml.
fn allowed(text: &str) -> Result<Vec<String>> {
    let table: toml::Table = text.parse()?;
    let list = table
        .get("licenses")
        .and_then(|l| l.get("allow"))
        .and_then(toml::Value::as_array);
    let list = list.context("deny.toml has no licenses.allow")?;
    Ok(list
        .iter()
        .filter_map(|l| l.as_str().map(str::to_owned))
        .collect())
}

/// Whether an SPDX expression can be met with allowed licences. Old manifests write `/` for OR.
fn satisfied(expression: &str, allowed: &[String]) -> bool {
    let spaced = expression
        .replace('(', " ( ")
        .replace(')', " ) ")
        .replace('/', " OR ");
    let mut words = spaced.split_whitespace().peekable();
    let met = either(&mut words, allowed);
    met && words.next().is_none()
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn either(words: &mut Words<'_>, allowed: &[String]) -> bool {
    let mut met = both(words, allowed);
    while words.next_if_eq(&"OR").is_some() {
        met |= both(words, allowed);
    }
    met
}

fn both(words: &mut Words<'_>, allowed: &[String]) -> bool {
    let mut met = one(words, allowed);
    while words.next_if_eq(&"AND").is_some() {
        met &= one(words, allowed);
    }
    met
}

fn one(words: &mut Words<'_>, allowed: &[String]) -> bool {
    if words.next_if_eq(&"(").is_some() {
        let met = either(words, allowed);
        return words.next_if_eq(&")").is_some() && met;
    }
    let Some(licence) = words.next() else { return false };
    let licence = match words.next_if_eq(&"WITH").and_then(|_| words.next()) {
        Some(exception) => format!("{licence} WITH {exception}"),
        None => licence.to_owned(),
    };
    allowed.contains(&licence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_read_as_spdx_means_them() {
        let allowed = ["MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned);
        for good in [
            "MIT",
            "GPL-3.0 OR MIT",
            "MIT/GPL-3.0",
            "Apache-2.0 WITH LLVM-exception OR GPL-3.0",
            "MIT AND (GPL-3.0 OR Apache-2.0)",
        ] {
            assert!(satisfied(good, &allowed), "{good}");
        }
        for bad in [
            "",
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "GPL-3.0 WITH LLVM-exception",
            "(MIT",
            "MIT GPL-3.0",
            "OR",
        ] {
            assert!(!satisfied(bad, &allowed), "{bad}");
        }
    }
}
