//! `cargo xtask e2e`: tests of the whole program against real programs, as root.
//!
//! They are the groups of test targets that [`GROUPS`] names. Those of `agent/tests/` have `required-features = ["testing"]` in
//! agent/Cargo.toml, so that a plain `cargo test` neither builds nor runs them.

use std::process::Command;

use anyhow::{Result, bail};
use nix::unistd::Uid;
use serde_json::Value;

use crate::roots::{ROOTS, Root};
use crate::stage::Stages;
use crate::{bench, cmd, deps};

/// One group: the name that people give, its test targets, and the Debian packages that they need.
struct Group {
    name: &'static str,
    package: &'static str,
    targets: &'static [&'static str],
    packages: &'static [&'static [&'static str]],
}

const SLURM: &[&str] = &[
    "slurmctld",
    "slurmd",
    "slurm-client",
    "slurm-wlm-basic-plugins",
    "munge",
];

/// The group of which a part is run with the Slurm of each root too.
const WITH_ROOTS: &str = "slurm";

const GROUPS: &[Group] = &[
    Group {
        name: "spine",
        package: "nodewarden",
        targets: &["spine", "prometheus"],
        packages: &[SLURM, &["fuse3", "prometheus", "python3-venv"]],
    },
    // Whose GPUs are: jobs of a real Slurm; with `--full` of other releases too.
    Group {
        name: WITH_ROOTS,
        package: "nodewarden",
        targets: &["jobs"],
        packages: &[SLURM, &["fuse3"]],
    },
    Group {
        name: "faults",
        package: "nodewarden",
        targets: &["faults", "privileges"],
        packages: &[&["fuse3", "iproute2", "openssl", "perl-base", "strace"]],
    },
    // What a scrape costs, in things that can be counted.
    Group {
        name: "size",
        package: "nodewarden",
        targets: &["size"],
        packages: &[&["fuse3", "strace"]],
    },
    // The stand-ins against the real thing.
    Group {
        name: "testkit",
        package: "nodewarden-testkit",
        targets: &["killed"],
        packages: &[SLURM, &["fuse3", "prometheus", "strace", "python3-venv"]],
    },
];

/// Whether a test target is run by `e2e`, and so not by `test`.
pub(crate) fn is_e2e(target: &str) -> bool {
    GROUPS.iter().any(|g| g.targets.contains(&target))
}

/// Runs all of them, or one; `full`: with other releases of Slurm too.
///
/// # Errors
/// When there is none of that name.
pub(crate) fn stages(stages: &mut Stages, name: Option<&str>, full: bool) -> Result<()> {
    let wanted: Vec<&Group> = GROUPS
        .iter()
        .filter(|g| name.is_none_or(|n| n == g.name))
        .collect();
    if wanted.is_empty() {
        let names: Vec<&str> = GROUPS.iter().map(|g| g.name).collect();
        bail!("there is no such group; there are: {}", names.join(" "));
    }
    for group in wanted {
        let stage = format!("e2e {}", group.name);
        if stages.run(&format!("{stage}: packages"), || {
            deps::install(&group.packages.concat())
        }) {
            stages.run(&stage, || run(group));
        } else {
            stages.not_run(&stage, "its packages");
        }
        if full && group.name == WITH_ROOTS {
            for root in ROOTS {
                of_root(stages, root);
            }
        }
    }
    Ok(())
}

/// The table of jobs with a root's Slurm, and that its cluster leaves nothing.
fn of_root(stages: &mut Stages, root: &Root) {
    let stage = format!("e2e slurm {}", root.slurm);
    let packages = [SLURM, &["debootstrap", "fuse3"]].concat();
    let built = stages.run(&format!("{stage}: root"), || {
        deps::install(&packages)?;
        root.build()
    });
    if !built {
        stages.not_run(&stage, "its root");
        return;
    }
    stages.run(&stage, || {
        let leaves = ["test", "--package=nodewarden-testkit", "--lib"];
        let leaves = in_root(
            root,
            &leaves,
            "slurm::tests::a_cluster_in_cgroups_of_each_version",
        );
        let rows = [
            "test",
            "--package=nodewarden",
            "--features=testing",
            "--test=jobs",
        ];
        leaves.and(in_root(root, &rows, "rows::"))
    });
}

/// The tests of that name, of which there must be some, with a root's Slurm.
fn in_root(root: &Root, args: &[&str], name: &str) -> Result<()> {
    let with = |more: &[&str]| -> Result<Command> {
        let mut command = cmd::cargo(args);
        command.args(["--locked", "--profile=ci", "--", name]).args(more);
        command.env("TESTKIT_SLURM_ROOT", root.folder()?);
        Ok(command)
    };
    let list = cmd::output(&mut with(&["--list"])?)?;
    if !list.lines().any(|line| line.ends_with(": test")) {
        bail!("there is no test {name}");
    }
    cmd::run(&mut with(&["--nocapture"])?)
}

fn run(group: &Group) -> Result<()> {
    if !Uid::effective().is_root() {
        bail!("needs root: it starts the daemon with its real users and a Slurm of its own");
    }
    let package = format!("--package={}", group.package);
    let mut command = cmd::cargo(&["test", &package, "--locked", "--profile=ci"]);
    if group.package == "nodewarden" {
        command.arg("--features=testing");
        let metadata = cmd::metadata(false)?;
        for target in group.targets {
            check_declared(&metadata, target)?;
            command.args(["--test", target]);
            if *target == "prometheus" {
                match bench::node_exporter() {
                    Ok(program) => drop(command.env("NODEWARDEN_NODE_EXPORTER", program)),
                    // The one test that needs it fails; the others are run.
                    Err(error) => println!("no node_exporter to compare with: {error:#}"),
                }
            }
        }
    }
    // They mostly wait for each other's processes, so that a few at a time use two cores better.
    command.args(["--", "--nocapture", "--test-threads=3"]);
    cmd::run(&mut command)
}

/// A group that is not there, or that a plain `cargo test` would start, is an error and not an empty success.
fn check_declared(metadata: &Value, name: &str) -> Result<()> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let mut targets = packages.flat_map(|p| p["targets"].as_array().into_iter().flatten());
    let Some(target) = targets.find(|t| t["name"] == name && t["kind"][0] == "test") else {
        bail!("agent/tests/{name}.rs is not there");
    };
    let features = target["required-features"].as_array().into_iter().flatten();
    if !features.into_iter().any(|f| f == "testing") {
        bail!("agent/Cargo.toml must give the test target `{name}` required-features = [\"testing\"]");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_without_the_feature_or_without_a_file_is_refused() {
        let of = |target: &str| -> Value {
            serde_json::from_str(&format!(r#"{{"packages":[{{"targets":[{target}]}}]}}"#)).unwrap()
        };
        let good = r#"{"name":"spine","kind":["test"],"required-features":["testing"]}"#;
        assert!(check_declared(&of(good), "spine").is_ok());
        assert!(check_declared(&of(good), "faults").is_err());
        assert!(check_declared(&of(r#"{"name":"spine","kind":["test"]}"#), "spine").is_err());
        assert!(check_declared(&of(r#"{"name":"spine","kind":["lib"]}"#), "spine").is_err());
    }
}
