//! `nodewarden run`: resolves options and configuration, then becomes the parent.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use collectors::Env;

use super::run_args::RunArgs;
use crate::config::Origin;
use crate::parent::{self, ParentSetup};
use crate::screen::complain;
use crate::web;
use sys::privileges::is_root;

/// A step of the start that takes longer is reported.
const SLOW: Duration = Duration::from_secs(5);

/// Runs until stopped.
///
/// # Errors
/// When start-up fails.
pub fn run(args: RunArgs) -> anyhow::Result<ExitCode> {
    let dirs = args.dirs();
    let mut source = Origin::new(args.config.clone(), args.sets(), dirs.run.clone());
    let (loaded, config_error) = match with_notice("the configuration", || source.load()) {
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
    let web = with_notice("web_config_file (or a file that it names)", || {
        web::of(&loaded.config)
    });
    let web = web.map_err(anyhow::Error::msg)?;
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

/// Takes a step of the start that reads files. A line reports one that takes long: a mount may hang.
fn with_notice<T>(what: &str, step: impl FnOnce() -> T) -> T {
    let (over, is_over) = channel::<()>();
    thread::scope(move |scope| {
        let watch = move || {
            if is_over.recv_timeout(SLOW) == Err(RecvTimeoutError::Timeout) {
                complain(&format!(
                    "{what} is still being read: nodewarden starts as soon as it is"
                ));
            }
        };
        // Without a thread, this line is missing.
        sys::ignore(
            thread::Builder::new()
                .name("watch".to_owned())
                .spawn_scoped(scope, watch),
        );
        let taken = step();
        drop(over);
        taken
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
