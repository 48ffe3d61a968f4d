//! Known faults of the libraries in the program by `xtask/advisories.toml`, where RustSec's database is out of reach.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use crate::cmd;

const FILE: &str = "xtask/advisories.toml";

/// The list.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Known {
    as_of: String,
    searched: Vec<String>,
    /// Package and first fixed version, by the number of the advisory.
    fixed: BTreeMap<String, String>,
}

/// Checks the packages of the program, and prints the date of the list.
///
/// # Errors
/// When a package has a known fault, or was not looked up.
pub(super) fn check() -> Result<()> {
    let text = std::fs::read_to_string(cmd::root().join(FILE)).context(FILE)?;
    let known: Known = toml::from_str(&text).context(FILE)?;
    let packages = packages()?;
    let faults = faults(&known, &packages)?;
    ensure!(faults.is_empty(), "{}", faults.join("\n"));
    println!(
        "advisories: {} packages against {} advisories of {FILE}, as of {}",
        packages.len(),
        known.fixed.len(),
        known.as_of
    );
    Ok(())
}

/// Name and version of each package in the program.
fn packages() -> Result<Vec<(String, String)>> {
    let host = "x86_64-unknown-linux-gnu";
    let args = ["tree", "--locked", "--package=nodewarden", "--target", host];
    let form = ["--edges=normal,build", "--prefix=none", "--format={p}"];
    let tree = cmd::output(&mut cmd::cargo(&[&args[..], &form].concat()))?;
    let mut found: Vec<(String, String)> = tree.lines().filter_map(package).collect();
    found.sort();
    found.dedup();
    Ok(found)
}

/// `name v1.2.3`, and nothing of a path behind it: that is a package of this workspace.
fn package(line: &str) -> Option<(String, String)> {
    let mut words = line.split_whitespace();
    let (name, version) = (words.next()?, words.next()?.strip_prefix('v')?);
    let is_ours = words.any(|word| word.starts_with("(/"));
    (!is_ours).then(|| (name.to_owned(), version.to_owned()))
}

fn faults(known: &Known, packages: &[(String, String)]) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    for (name, version) in packages {
        if !known.searched.contains(name) {
            faults.push(format!(
                "{name}: not in `searched` of {FILE}; look it up in RustSec's database"
            ));
        }
        for (id, fixed) in &known.fixed {
            let Some((of, first)) = fixed.split_once(' ') else {
                bail!("{FILE}: {id}: found {fixed:?}, expected \"PACKAGE VERSION\"");
            };
            if of == name && numbers(version)? < numbers(first)? {
                faults.push(format!("{name} {version}: {id}, fixed since {first}"));
            }
        }
    }
    Ok(faults)
}

/// The three numbers of a version; a part behind `-` or `+` does not count.
fn numbers(version: &str) -> Result<[u64; 3]> {
    let plain = version.split(['-', '+']).next().unwrap_or_default();
    let numbers: Vec<u64> = plain.split('.').map_while(|n| n.parse().ok()).collect();
    <[u64; 3]>::try_from(numbers).map_err(|_| anyhow::anyhow!("version {version:?}: expected three numbers"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> Known {
        Known {
            as_of: "2026-01-01".to_owned(),
            searched: vec!["tokio".to_owned()],
            fixed: [("RUSTSEC-2025-0023".to_owned(), "tokio 1.44.2".to_owned())].into(),
        }
    }

    fn found(name: &str, version: &str) -> Vec<String> {
        faults(&known(), &[(name.to_owned(), version.to_owned())]).unwrap()
    }

    #[test]
    fn a_version_before_the_fix_is_a_fault_and_a_later_one_is_not() {
        assert_eq!(
            found("tokio", "1.44.1"),
            ["tokio 1.44.1: RUSTSEC-2025-0023, fixed since 1.44.2"]
        );
        assert_eq!(found("tokio", "1.9.0").len(), 1);
        for fixed in ["1.44.2", "1.100.0", "2.0.0-rc.1"] {
            assert_eq!(found("tokio", fixed), [""; 0], "{fixed}");
        }
    }

    #[test]
    fn a_package_that_was_not_looked_up_fails() {
        assert!(found("new", "1.0.0")[0].contains("not in `searched`"));
    }

    #[test]
    fn a_package_of_the_workspace_is_none_of_others() {
        assert_eq!(package("nodewarden v0.1.0 (/home/me/nodewarden/agent)"), None);
        assert_eq!(
            package("serde_derive v1.0.2 (proc-macro)"),
            Some(("serde_derive".to_owned(), "1.0.2".to_owned()))
        );
    }

    #[test]
    fn the_list_of_the_project_is_readable() {
        let text = std::fs::read_to_string(cmd::root().join(FILE)).unwrap();
        let known: Known = toml::from_str(&text).unwrap();
        assert!(known.fixed.values().all(|fixed| {
            let (name, version) = fixed.split_once(' ').unwrap();
            known.searched.iter().any(|s| s == name) && numbers(version).is_ok()
        }));
    }
}
