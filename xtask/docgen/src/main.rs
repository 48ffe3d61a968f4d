//! Writes the documents that are generated from nodewarden's tables, for `cargo xtask docs`. A separate crate, so that
//! xtask itself compiles without the daemon.

mod amd_exporter;
mod checks;
mod configuration;
mod jobs;
mod json;
mod kernel_lines;
mod metrics;
mod public;
mod runbooks;
mod security;
#[path = "../../src/lint/tree.rs"]
#[allow(dead_code, reason = "the lints use the rest of it")]
mod tree;
mod xids;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

/// One document: its name below docs/, and the function that makes its text from the fixtures.
type Page = (&'static str, fn(&Path) -> Result<String>);

const PAGES: &[Page] = &[
    ("../packaging/nodewarden.toml.example", |_| {
        Ok(nodewarden::config::render_default())
    }),
    ("amd-exporter.md", |_| amd_exporter::page()),
    ("checks.md", |_| Ok(checks::page())),
    ("configuration.md", |_| Ok(configuration::page())),
    ("kernel-lines.md", |_| Ok(kernel_lines::page())),
    ("metrics.md", |fixtures| {
        Ok(metrics::page(&metrics::captured(fixtures)?))
    }),
    ("operations/jobs.md", jobs::page),
    ("public-interface.txt", public::page),
    ("runbooks/README.md", runbooks::page),
    ("security.md", |_| Ok(security::page())),
    ("xids.md", |_| xids::page()),
];

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("docgen: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let mut args = std::env::args_os().skip(1);
    let folder = PathBuf::from(args.next().context("usage: docgen FOLDER [--check]")?);
    let check = args.next().is_some_and(|a| a == "--check");
    let fixtures = folder.parent().context("docs has no folder")?.join("fixtures");
    let mut stale = Vec::new();
    for (name, page) in PAGES {
        let path = folder.join(name);
        let text = page(&fixtures)?;
        if check {
            if std::fs::read_to_string(&path).ok().as_deref() != Some(text.as_str()) {
                stale.push(*name);
            }
        } else {
            std::fs::write(&path, text).with_context(|| path.display().to_string())?;
        }
    }
    if !stale.is_empty() {
        bail!("out of date: {}; run `cargo xtask docs`", stale.join(" "));
    }
    Ok(())
}

/// Text that does not end its table cell, and whose file name patterns are not taken for emphasis. Between backticks only the
/// bar needs an escape.
fn cell(text: &str) -> String {
    let escaped = |(n, part): (usize, &str)| match n % 2 {
        0 => part.replace('*', "\\*").replace('_', "\\_"),
        _ => part.to_owned(),
    };
    let parts: Vec<String> = text.split('`').enumerate().map(escaped).collect();
    parts.join("`").replace('|', "\\|")
}
