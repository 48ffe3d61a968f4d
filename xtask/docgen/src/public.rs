//! docs/public-interface.txt: the public interface, one item per line. `cargo xtask lint` compares it with its history.

use std::path::Path;

use anyhow::{Context, Result};
use collectors::metric::Tier;
use health::checks::CHECKS;
use nodewarden::own;

use crate::{json, metrics};

const HEAD: &str = "\
# What sites and their tools rely on. Made by `cargo xtask docs`; do not edit.
# A line that changes or goes needs a line in CHANGELOG.md that names it: see CONTRIBUTING.md.
";

/// Sources of JSON, and their types.
const JSON: &[(&str, &str)] = &[
    ("/api/v1/status", "status::StatusReport"),
    ("audit.jsonl", "audit::Line"),
    ("job", "view::JobsView"),
    ("status", "proto::NodeStatus"),
    ("why", "Vec<view::IncidentView>"),
];

pub(crate) fn page(fixtures: &Path) -> Result<String> {
    let root = fixtures.parent().context("fixtures/ has no folder")?;
    let mut lines = Vec::new();
    metrics(&mut lines);
    keys(&mut lines);
    commands(&nodewarden::cli::visible(), "", &mut lines);
    lines.extend(CHECKS.iter().map(|c| {
        let (major, minor, patch) = (c.since.0, c.since.1, c.since.2);
        format!(
            "check {}: {}, at most {}, since {major}.{minor}.{patch}",
            c.id,
            c.may.by_default().word(),
            c.may.at_most().word()
        )
    }));
    let types = json::Types::read(root)?;
    for (name, of) in JSON {
        lines.extend(types.lines(name, of)?);
    }
    // Where a list is empty.
    lines
        .iter_mut()
        .for_each(|line| line.truncate(line.trim_end().len()));
    lines.sort();
    lines.dedup();
    Ok(format!("{HEAD}{}\n", lines.join("\n")))
}

fn metrics(lines: &mut Vec<String>) {
    let collectors = collectors::COLLECTORS.iter().flat_map(|spec| spec.metrics);
    for metric in collectors.chain(own::METRICS).filter(|m| m.tier != Tier::Private) {
        lines.push(format!(
            "metric {}: {} {} {}",
            metric.name,
            metrics::kind(metric.kind),
            metrics::tier(metric.tier),
            metric.labels.join(",")
        ));
        lines.extend(metric.aliases.iter().map(|a| {
            let labels: Vec<&str> = a.labels.iter().map(|(theirs, _)| theirs).collect();
            format!(
                "page {}: {} {} {}",
                a.name,
                a.page,
                metrics::kind(a.kind),
                labels.join(",")
            )
        }));
    }
}

fn keys(lines: &mut Vec<String>) {
    for key in nodewarden::config::keys() {
        let default = key.default.unwrap_or("none");
        lines.push(format!(
            "key {}: {}, default {default}",
            key.name,
            key.kind.describe()
        ));
    }
}

/// A command with its exit codes, options and subcommands.
fn commands(command: &clap::Command, above: &str, lines: &mut Vec<String>) {
    let name = format!("{above}{}", command.get_name());
    let help = command
        .get_after_long_help()
        .map(ToString::to_string)
        .unwrap_or_default();
    let codes = help.split_once("Exit codes:\n").map_or("", |(_, rest)| rest);
    let codes = codes
        .lines()
        .map_while(|l| l.strip_prefix("  ")?.split("  ").next());
    let numbers = codes.filter(|c| c.starts_with(|c: char| c.is_ascii_digit()));
    let numbers = numbers.flat_map(|c| c.split(|c: char| !c.is_ascii_digit() && c != '.'));
    let codes: Vec<&str> = numbers.filter(|n| !n.is_empty()).collect();
    lines.push(format!("command {name}: exits {}", codes.join(" ")));
    let standard = ["help", "version"];
    for argument in command.get_arguments().filter(|a| !a.is_hide_set()) {
        let option = match (argument.get_long(), argument.get_value_names()) {
            (Some(long), _) if standard.contains(&long) => continue,
            (Some(long), _) => format!("--{long}"),
            (None, names) => names.unwrap_or_default().concat(),
        };
        let need = if argument.is_required_set() {
            "required"
        } else {
            "optional"
        };
        let values = argument.get_num_args().unwrap_or_default();
        lines.push(format!("option {name} {option}: {need}, {values} values"));
    }
    for child in command.get_subcommands().filter(|c| c.get_name() != "help") {
        commands(child, &format!("{name} "), lines);
    }
}
