//! `nodewarden run`: resolves options and configuration, then becomes the parent.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use collectors::Env;

use super::run_args::RunArgs;
use crate::config::Origin;
use crate::parent::{self, ParentSetup};
use crate::screen::complain;
use crate::web;
use sys::privileges::is_root;

/// Runs until stopped.
///
/// # Errors
/// When start-up fails.
pub fn run(args: RunArgs) -> anyhow::Result<ExitCode> {
    let dirs = args.dirs();
    let mut source = Origin::new(args.config.clone(), args.sets(), dirs.run.clone());
    let (loaded, config_error) = match source.load() {
        Ok(loaded) => (loaded, None),
        Err(e) => match source.kept() {
            Some(loaded) => {
                complain(&format!(
                    "the last good configuration stays in force. Errors:\n{e}"
                ));
                (loaded, Some(e))
            }
            None => bail!("{e}"),
        },
    };
    // Never the last good one, and never plain HTTP instead.
    let web = web::of(&loaded.config).map_err(anyhow::Error::msg)?;
    let env = environment(&args)?;
    if !is_root() {
        complain(
            "not root: workers run as this user, some readings lack rights, and nodewarden cannot drain this node",
        );
    }
    parent::run(ParentSetup {
        loaded,
        config_error,
        web,
        source,
        forged_boot_time: args.forged_boot_time(),
        env,
        run_dir: absolute(&dirs.run)?,
        state_dir: absolute(&dirs.state)?,
    })
}

fn environment(args: &RunArgs) -> anyhow::Result<Env> {
    let mut env = args.env();
    // Workers do not inherit the working directory.
    env.sysroot = absolute(&env.sysroot)?;
    env.recorded = env.recorded.as_deref().map(absolute).transpose()?;
    if !env.sysroot.is_dir() {
        bail!("{}: no such directory", env.sysroot.display());
    }
    Ok(env)
}

fn absolute(path: &Path) -> anyhow::Result<PathBuf> {
    std::path::absolute(path).with_context(|| path.display().to_string())
}
