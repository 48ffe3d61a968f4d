//! `nodewarden completions` and `nodewarden man`: files that a package installs beside the program.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::CommandFactory;
use clap_complete::Shell;

use super::{Cli, screen};
use sys::{files, store};

mod settings;

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
    /// Directory for the pages; created if it is missing.
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

/// File names and contents: sections 1 (commands), 5 (configuration), 8 (the daemon).
fn pages() -> anyhow::Result<Vec<(String, String)>> {
    let mut pages = vec![("nodewarden.toml.5".to_owned(), settings::page())];
    collect(&visible(), &mut pages)?;
    Ok(pages)
}

/// The command that is a daemon.
const DAEMON: &str = "nodewarden-run";

fn collect(command: &clap::Command, pages: &mut Vec<(String, String)>) -> anyhow::Result<()> {
    // Set by `build`: nodewarden-config-check.
    let name = command.get_display_name().unwrap_or("nodewarden");
    let section = if name == DAEMON { "8" } else { "1" };
    let mut text = Vec::new();
    clap_mangen::Man::new(command.clone())
        .title(name.to_uppercase())
        .section(section)
        .source(SOURCE)
        .manual("nodewarden")
        .render(&mut text)?;
    // clap_mangen expects all commands in one section.
    let escaped = DAEMON.replace('-', "\\-");
    let mut text = String::from_utf8(text)?.replace(&format!("{escaped}(1)"), &format!("{escaped}(8)"));
    text.push_str(&see_also(name));
    pages.push((format!("{name}.{section}"), text));
    for sub in command.get_subcommands().filter(|c| c.get_name() != "help") {
        collect(sub, pages)?;
    }
    Ok(())
}

/// What the foot of a page names.
const SOURCE: &str = concat!("nodewarden ", env!("CARGO_PKG_VERSION"));

/// The section of related pages.
fn see_also(of: &str) -> String {
    let others = [("nodewarden", "1"), ("nodewarden.toml", "5"), (DAEMON, "8")];
    let others = others.iter().filter(|(name, _)| *name != of);
    let list: Vec<String> = others
        .map(|(name, section)| format!("\\fB{}\\fR({section})", name.replace('-', "\\-")))
        .collect();
    format!(".SH \"SEE ALSO\"\n{}\n", list.join(", "))
}

#[cfg(test)]
mod tests;
