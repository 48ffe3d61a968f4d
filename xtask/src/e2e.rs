//! `cargo xtask e2e`: tests of the whole program with real programs, as root.
//!
//! [`GROUPS`] lists the test targets. Those of `agent/tests/` have `required-features = ["testing"]` in
//! agent/Cargo.toml, so that a plain `cargo test` neither builds nor runs them.

use std::process::Command;

use anyhow::{Result, bail};
use nix::unistd::Uid;
use serde_json::Value;

use crate::roots::{ROOTS, Root};
use crate::stage::Stages;
use crate::{bench, cmd, deps};

/// A group: its name on the command line, its test targets, and the Debian packages that they need.
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

/// The groups that also run, in part, with the Slurm of each root.
const SPINE: &str = "spine";
const JOBS: &str = "slurm";

/// The modules of `spine` that depend on the release of Slurm.
const OF_EACH_RELEASE: &[&str] = &[
    "crash_slots::",
    "diskless::",
    "guard::",
    "maintenance::",
    "outages::",
    "people::",
    "register::",
    "slurmd::",
    "straight::",
];

/// Tests at a time: they mostly wait for processes.
const AT_A_TIME: usize = 4;

const GROUPS: &[Group] = &[
    Group {
        name: SPINE,
        package: "nodewarden",
        targets: &["spine", "prometheus"],
        packages: &[
            SLURM,
            &[
                "fuse3",
                "openssl",
                "prometheus",
                "prometheus-alertmanager",
                "python3-venv",
            ],
        ],
    },
    // GPUs of jobs, with a real Slurm; with `--full` also other releases.
    Group {
        name: JOBS,
        package: "nodewarden",
        targets: &["jobs"],
        packages: &[SLURM, &["fuse3"]],
    },
    // What many agents cost one slurmctld; with `--full` also its limits of time.
    Group {
        name: "fleet-slurm",
        package: "nodewarden",
        targets: &["fleet"],
        packages: &[SLURM],
    },
    Group {
        name: "faults",
        package: "nodewarden",
        targets: &["faults", "privileges"],
        packages: &[&["fuse3", "iproute2", "openssl", "perl-base", "strace"]],
    },
    // Filesystems and mmfsd that do not answer; with `--full` also the finding, which takes minutes.
    Group {
        name: "mounts",
        package: "nodewarden",
        targets: &["mounts"],
        packages: &[&["fuse3"]],
    },
    // What each process, and a stranger, can do to the next.
    Group {
        name: "walls",
        package: "nodewarden",
        targets: &["walls"],
        packages: &[&[
            "curl",
            "fuse3",
            "iproute2",
            "openssl",
            "perl-base",
            "procps",
            "python3",
            "strace",
        ]],
    },
    // Values of AMD GPUs, compared with AMD's library.
    Group {
        name: "rocm-smi",
        package: "nodewarden",
        targets: &["rocm_smi"],
        packages: &[&["librocm-smi64-1", "python3"]],
    },
    // Countable costs of a scrape.
    Group {
        name: "size",
        package: "nodewarden",
        targets: &["size"],
        packages: &[&["fuse3", "strace"]],
    },
    // The stand-ins compared with the real programs.
    Group {
        name: "testkit",
        package: "nodewarden-testkit",
        targets: &["killed"],
        packages: &[SLURM, &["fuse3", "prometheus", "strace", "python3-venv"]],
    },
];

/// Whether `e2e` runs a test target, and so `test` does not.
pub(crate) fn is_e2e(target: &str) -> bool {
    GROUPS.iter().any(|g| g.targets.contains(&target))
}

/// Runs all groups, or one; `full`: also with other releases of Slurm, and with limits that depend on the machine.
///
/// # Errors
/// When no group has that name.
pub(crate) fn stages(stages: &mut Stages, name: Option<&str>, full: bool) -> Result<()> {
    let wanted: Vec<&Group> = GROUPS
        .iter()
        .filter(|g| name.is_none_or(|n| n == g.name))
        .collect();
    if wanted.is_empty() {
        let names: Vec<&str> = GROUPS.iter().map(|g| g.name).collect();
        bail!("unknown group, expected one of: {}", names.join(" "));
    }
    for group in wanted {
        let stage = format!("e2e {}", group.name);
        if stages.run(&format!("{stage}: packages"), || {
            deps::install(&group.packages.concat())
        }) {
            stages.run(&stage, || run(group, full));
        } else {
            stages.not_run(&stage, "its packages");
        }
        if full && [SPINE, JOBS].contains(&group.name) {
            for root in ROOTS {
                of_root(stages, root, group.name);
            }
        }
    }
    Ok(())
}

/// Tests a group with a root's Slurm.
fn of_root(stages: &mut Stages, root: &Root, group: &str) {
    let stage = format!("e2e {group} {}", root.slurm);
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
        if group == SPINE {
            return spine_in_root(root);
        }
        let leaves = ["test", "--package=nodewarden-testkit", "--lib"];
        // Its cluster leaves nothing behind.
        let leaves = in_root(
            root,
            &leaves,
            &["slurm::tests::a_cluster_in_cgroups_of_each_version"],
            &[],
        );
        leaves.and(in_root(root, &of_target("jobs"), &["rows::"], &[]))
    });
}

fn spine_in_root(root: &Root) -> Result<()> {
    // A subcommand runs this machine's scontrol, and 20.11 has neither Extra nor INVALID_REG.
    let mut more = vec!["--skip=guard::here_"];
    if root.slurm == "20.11" {
        more.extend(["--skip=diskless::", "--skip=register::our_drain"]);
    }
    in_root(root, &of_target("spine"), OF_EACH_RELEASE, &more)
}

fn of_target(target: &str) -> [&str; 5] {
    [
        "test",
        "--package=nodewarden",
        "--features=testing",
        "--test",
        target,
    ]
}

/// Runs the tests of these names with a root's Slurm. A name without a test is an error.
fn in_root(root: &Root, args: &[&str], names: &[&str], more: &[&str]) -> Result<()> {
    let with = |names: &[&str], more: &[&str]| -> Result<Command> {
        let mut command = cmd::cargo(args);
        command
            .args(["--locked", "--profile=ci", "--"])
            .args(names)
            .args(more);
        command.env("TESTKIT_SLURM_ROOT", root.folder()?);
        Ok(command)
    };
    for name in names {
        cmd::require_test(&mut with(&[name], &["--list"])?, name)?;
    }
    cmd::run_tests(&mut with(names, &[&["--nocapture"], more].concat())?, AT_A_TIME)
}

fn run(group: &Group, full: bool) -> Result<()> {
    if !Uid::effective().is_root() {
        bail!("needs root: the tests start the daemon with its real users, and a Slurm cluster");
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
                    // The one test that needs it fails; the others run.
                    Err(error) => println!("node_exporter is missing for the comparison: {error:#}"),
                }
            }
        }
    }
    command.args(["--", "--nocapture"]);
    if full {
        command.env("NODEWARDEN_LIMITS", "1");
    } else {
        // They take a minute each.
        command.arg("--skip=in_full_");
    }
    cmd::run_tests(&mut command, AT_A_TIME)
}

/// A target that is missing, or that a plain `cargo test` would run, is an error and not an empty success.
fn check_declared(metadata: &Value, name: &str) -> Result<()> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let mut targets = packages.flat_map(|p| p["targets"].as_array().into_iter().flatten());
    let Some(target) = targets.find(|t| t["name"] == name && t["kind"][0] == "test") else {
        bail!("agent/tests/{name}.rs does not exist");
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
    fn a_target_without_the_feature_or_without_a_file_is_an_error() {
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
