//! The public interface does not change unnoticed. docs/public-interface.txt lists it, and `cargo xtask docs --check`
//! compares it with the tables. Every line that it had since the last release must still exist. Otherwise, a section
//! `### Changed` or `### Removed` of the changelog's first part must name its item. New checks have the next version.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::{Report, since};
use crate::cmd;

const FILE: &str = "docs/public-interface.txt";
const CHANGELOG: &str = "CHANGELOG.md";

pub(super) fn check() -> Result<Report> {
    let problems = check_in(cmd::root())?;
    Ok(Report {
        problems,
        ..Report::default()
    })
}

fn check_in(root: &Path) -> Result<Vec<String>> {
    let read = |name: &str| std::fs::read_to_string(root.join(name)).with_context(|| name.to_owned());
    let (now, changelog) = (read(FILE)?, read(CHANGELOG)?);
    let git = |args: &[&str]| cmd::output(cmd::program("git", args).current_dir(root));
    if git(&["rev-parse", "--is-shallow-repository"])?.trim() != "false" {
        bail!("needs the history since the last release: git fetch --unshallow");
    }
    // The last release is the commit that added the second part of the changelog; it changes nothing itself.
    let mut range = "HEAD".to_owned();
    let mut released = String::new();
    let release = changelog.lines().filter(|l| l.starts_with("## [")).nth(1);
    if let Some(release) = release {
        let log = git(&[
            "log",
            "--format=%H",
            "--reverse",
            &format!("-S{release}"),
            "--",
            CHANGELOG,
        ])?;
        let before = format!("{}^", log.lines().next().unwrap_or("HEAD"));
        range = format!("{before}..HEAD");
        released = git(&["show", &format!("{before}:{FILE}")]).unwrap_or_default();
    }
    // -m and --full-history: also lines that a merge dropped.
    let log = git(&[
        "log",
        "-p",
        "-m",
        "--full-history",
        "--format=",
        &range,
        "--",
        FILE,
    ])?;
    let added = log.lines().filter_map(|l| l.strip_prefix('+'));
    let ever = released.lines().chain(added.filter(|l| !l.starts_with("++ ")));
    let mut problems = unnamed(ever, &now, &changelog);
    let version = since::version(&read("Cargo.toml")?).context("Cargo.toml: no version")?;
    let release = release.and_then(since::version_of);
    problems.extend(since::wrong(&released, &now, release, &version));
    Ok(problems)
}

/// Removed or changed lines whose item the changelog does not name.
fn unnamed<'a>(ever: impl Iterator<Item = &'a str>, now: &str, changelog: &str) -> Vec<String> {
    let now: BTreeSet<&str> = now.lines().collect();
    let named = named(changelog);
    let gone: BTreeSet<&str> = ever
        .filter(|line| !line.is_empty() && !line.starts_with('#') && !now.contains(line))
        .collect();
    let item = |line: &'a str| {
        line.split_once(": ")
            .unwrap_or((line, ""))
            .0
            .split_once(' ')
            .map(|(_, item)| item)
    };
    let is_named = |line: &str, item: Option<&str>| {
        item.is_some_and(|item| named.iter().any(|n| covers(n, item))) || named.contains(&line)
    };
    gone.into_iter()
        .filter(|line| !is_named(line, item(line)))
        .map(|line| {
            format!(
                "{FILE}: changed or removed: {line}\n       name `{}` below Changed or Removed in {CHANGELOG}'s first part",
                item(line).unwrap_or(line)
            )
        })
        .collect()
}

/// Words in backticks below `### Changed` and `### Removed` of the first part.
fn named(changelog: &str) -> Vec<&str> {
    let part = changelog.split("\n## [").nth(1).unwrap_or_default();
    let sections = part.split("\n### ").skip(1);
    let listed = sections.filter(|s| s.starts_with("Changed") || s.starts_with("Removed"));
    listed.flat_map(|s| s.split('`').skip(1).step_by(2)).collect()
}

/// A name covers itself only, because a text may mention `health` for another reason. `status.view.*` and `gpu_nvlink_*` cover
/// what begins so.
fn covers(name: &str, item: &str) -> bool {
    match name.strip_suffix('*') {
        Some(start) => !start.is_empty() && item.starts_with(start),
        None => item == name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = "# Made.\njson status.view.a[].b: string\nkey health.mode: string \"observe\"\n\
                         metric gpu_up: gauge core gpu\n";

    /// Number of problems if only these lines are left.
    fn problems(now: &str, changelog: &str) -> usize {
        unnamed(LINES.lines(), now, changelog).len()
    }

    #[test]
    fn the_changelog_must_name_items_changed_or_removed_since_the_last_release() {
        let without = LINES.replace("metric gpu_up: gauge core gpu\n", "");
        let log = |text: &str| format!("# Changelog\n\n## [Unreleased]\n\n{text}\n\n## [0.1.0]\n");
        assert_eq!(problems(LINES, &log("")), 0);
        assert_eq!(
            problems(&format!("{LINES}metric more: gauge core\n"), &log("")),
            0
        );
        assert_eq!(
            problems(&without, &log("### Removed\n\n- `gpu_up`: never used.")),
            0
        );
        assert_eq!(
            problems(&without, &log("### Changed\n\n- `gpu_*` are `other_*`.")),
            0
        );
        for text in [
            "",
            "### Added\n\n- `gpu_up`",
            "### Removed\n\n- gpu_up",
            "### Removed\n\n- `gpu_u`",
            "### Removed\n\n- `*`",
            "\n## [0.1.0]\n\n### Removed\n\n- `gpu_up`",
        ] {
            assert_eq!(problems(&without, &log(text)), 1, "{text}");
        }
        let other = LINES.replace("observe", "drain");
        assert_eq!(problems(&other, &log("### Removed\n\n- `gpu_up`")), 1);
        assert_eq!(problems(&other, &log("### Changed\n\n- `health.mode`")), 0);
        for (text, left) in [
            ("`status.view.*`, `health.mode`, `gpu_up`", 0),
            ("`status.view.a[]*`, `health.*`, `gpu_up`", 0),
            // Mentioned, but not as what changed.
            ("`status`, `status.view`, `health`, `gpu_up`", 2),
        ] {
            assert_eq!(
                problems("", &log(&format!("### Removed\n\n- {text}"))),
                left,
                "{text}"
            );
        }
    }

    #[test]
    fn a_clone_is_checked_too_and_a_shallow_one_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("a");
        std::fs::create_dir_all(root.join("docs")).unwrap();
        std::fs::write(root.join("Cargo.toml"), "workspace.package.version = \"0.3.0\"\n").unwrap();
        let git = |folder: &Path, args: &[&str]| {
            let name = [
                "-c",
                "user.name=a",
                "-c",
                "user.email=a@b",
                "-c",
                "init.defaultBranch=main",
            ];
            cmd::output(cmd::program("git", &name).args(args).current_dir(folder)).unwrap()
        };
        let commit = |public: &str, changelog: &str| {
            std::fs::write(root.join(FILE), public).unwrap();
            std::fs::write(root.join(CHANGELOG), changelog).unwrap();
            git(&root, &["add", "."]);
            git(&root, &["commit", "-qm", "x"]);
        };
        let log = "# Changelog\n\n## [Unreleased]\n";
        let clone = |name: &str, more: &[&str]| {
            let to = folder.path().join(name);
            let from = format!("file://{}", root.display());
            git(folder.path(), &[&["clone", "-q"], more, &[&from, name]].concat());
            to
        };
        git(&root, &["init", "-q"]);
        commit(LINES, log);
        assert_eq!(check_in(&root).unwrap(), [""; 0]);
        std::fs::write(root.join(FILE), "").unwrap();
        assert_eq!(check_in(&root).unwrap().len(), 3);
        commit("key a: string\n", log);
        commit("", log);
        assert_eq!(check_in(&clone("b", &[])).unwrap().len(), 4);
        assert!(check_in(&clone("c", &["--depth=1"])).is_err());
        // A release covers changes before it, and no change in its own commit.
        commit("key b: string\n", log);
        let released = "# Changelog\n\n## [Unreleased]\n\n## [0.1.0]\n";
        commit("key b: string\n", released);
        assert_eq!(check_in(&root).unwrap(), [""; 0]);
        commit("key c: string\n", released);
        assert_eq!(check_in(&root).unwrap().len(), 1);
        commit(
            "key d: string\n",
            &format!("{released}## [0.2.0]\n").replace("0.1.0", "0.3.0"),
        );
        assert_eq!(check_in(&root).unwrap().len(), 1);
    }
}
