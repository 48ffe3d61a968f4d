//! `nodewarden completions` and `nodewarden man`: files that a package installs beside the program.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::CommandFactory;
use clap_complete::Shell;

use super::{Cli, screen};
use sys::{files, store};

/// The arguments of `nodewarden completions`.
#[derive(Debug, clap::Args)]
pub(super) struct CompletionsArgs {
    /// Shell.
    #[arg(value_enum)]
    shell: Shell,
}

/// The arguments of `nodewarden man`.
#[derive(Debug, clap::Args)]
pub(super) struct ManArgs {
    /// Existing directory for the pages.
    dir: PathBuf,
}

/// Prints the completions of a shell.
pub(super) fn completions(args: &CompletionsArgs) -> anyhow::Result<ExitCode> {
    screen::print(&script(args.shell), ExitCode::SUCCESS)
}

/// Writes a manual page for the program and for each subcommand.
pub(super) fn man(args: &ManArgs) -> anyhow::Result<ExitCode> {
    let pages = pages()?;
    files::folder(&args.dir).with_context(|| args.dir.display().to_string())?;
    for (name, page) in &pages {
        let path = args.dir.join(name);
        store::replace(&path, page.as_bytes(), 0o644, false).with_context(|| path.display().to_string())?;
    }
    let text = format!("{} pages in {}\n", pages.len(), shown(&args.dir));
    screen::print(&text, ExitCode::SUCCESS)
}

fn shown(path: &Path) -> String {
    screen::clean(&path.display().to_string())
}

/// The public command line, without the arguments passed between processes and the commands for packages.
pub fn visible() -> clap::Command {
    let all = Cli::command();
    let about = all.get_about().cloned().unwrap_or_default();
    let mut visible = clap::Command::new("nodewarden")
        .version(env!("CARGO_PKG_VERSION"))
        .about(about)
        .after_long_help(super::help::PROGRAM)
        .subcommand_required(true)
        .subcommands(all.get_subcommands().filter(|c| !c.is_hide_set()).cloned());
    visible.build();
    visible
}

fn script(shell: Shell) -> String {
    let mut out = Vec::new();
    clap_complete::generate(shell, &mut visible(), "nodewarden", &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// File names and contents.
fn pages() -> anyhow::Result<Vec<(String, String)>> {
    let mut pages = Vec::new();
    collect(&visible(), &mut pages)?;
    Ok(pages)
}

fn collect(command: &clap::Command, pages: &mut Vec<(String, String)>) -> anyhow::Result<()> {
    // Set by `build`: nodewarden-config-check.
    let name = command.get_display_name().unwrap_or("nodewarden");
    let mut text = Vec::new();
    clap_mangen::Man::new(command.clone())
        .title(name.to_uppercase())
        .section("1")
        .source(concat!("nodewarden ", env!("CARGO_PKG_VERSION")))
        .manual("nodewarden")
        .render(&mut text)?;
    pages.push((format!("{name}.1"), String::from_utf8(text)?));
    for sub in command.get_subcommands().filter(|c| c.get_name() != "help") {
        collect(sub, pages)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
