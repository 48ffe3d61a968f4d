//! A check's `since` is the version that first contains it. A copied `since` of a released version is wrong: the check
//! would drain at once at sites whose `health.baseline` is that version.

use std::collections::BTreeSet;

/// The checks in the lines of the public interface that are new since the last release, and whose `since` is not the next
/// version. `released`: the last released version, if any. `version`: the one in Cargo.toml.
pub(super) fn wrong(before: &str, now: &str, released: Option<&str>, version: &str) -> Vec<String> {
    let old: BTreeSet<&str> = before.lines().filter_map(check).map(|(id, _)| id).collect();
    let new = now.lines().filter_map(check).filter(|(id, _)| !old.contains(id));
    new.filter_map(|(id, since)| {
        if since != version {
            Some(format!(
                "check {id}: since {since}, expected {version}, the version in Cargo.toml"
            ))
        } else if released == Some(version) {
            Some(format!(
                "check {id}: {version} is released without it: raise the version in Cargo.toml"
            ))
        } else {
            None
        }
    })
    .collect()
}

/// The id and version in `check ID: MODE, at most MODE, since VERSION`.
fn check(line: &str) -> Option<(&str, &str)> {
    let (id, rest) = line.strip_prefix("check ")?.split_once(": ")?;
    Some((id, rest.rsplit_once(", since ")?.1))
}

/// The version in `## [VERSION]`, the heading of a release in the changelog.
pub(super) fn version_of(heading: &str) -> Option<&str> {
    Some(heading.strip_prefix("## [")?.split_once(']')?.0)
}

/// `version` below `[workspace.package]` of Cargo.toml.
pub(super) fn version(manifest: &str) -> Option<String> {
    let manifest: toml::Table = manifest.parse().ok()?;
    let version = manifest.get("workspace")?.get("package")?.get("version")?;
    Some(version.as_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "check a: drain, at most drain, since 0.1.0\nkey a: string\n";

    /// With a second check of this version.
    fn found(since: &str, released: Option<&str>, version: &str) -> usize {
        let now = format!("{BEFORE}check b: observe, at most drain, since {since}\n");
        wrong(BEFORE, &now, released, version).len()
    }

    #[test]
    fn a_check_after_a_release_has_the_next_version() {
        assert_eq!(found("0.2.0", Some("0.1.0"), "0.2.0"), 0);
        assert_eq!(found("0.1.0", Some("0.1.0"), "0.2.0"), 1);
        assert_eq!(found("0.3.0", Some("0.1.0"), "0.2.0"), 1);
        // The version was not raised after the release.
        assert_eq!(found("0.1.0", Some("0.1.0"), "0.1.0"), 1);
        assert_eq!(found("0.1.0", None, "0.1.0"), 0);
        assert_eq!(wrong(BEFORE, BEFORE, Some("0.1.0"), "0.2.0"), [""; 0]);
    }

    #[test]
    fn versions_are_read_from_changelog_and_manifest() {
        assert_eq!(version_of("## [0.1.0] - 2026-01-01"), Some("0.1.0"));
        let manifest = "[workspace.package]\nversion = \"0.2.0\"\n";
        assert_eq!(version(manifest).as_deref(), Some("0.2.0"));
    }
}
