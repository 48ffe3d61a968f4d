//! `nodewarden run`: resolves options and configuration, then becomes the parent.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use collectors::Env;

use super::loading;
use super::run_args::RunArgs;
use super::screen::complain;
use crate::config::{Config, DEFAULT_FILE};
use crate::parent::{self, Setup};
use crate::sys::privileges::is_root;
use crate::sys::store;

/// Where a configuration comes from, to read it again.
#[derive(Clone, Debug)]
pub struct Source {
    file: Option<PathBuf>,
    sets: Vec<String>,
    last_good: PathBuf,
    /// Files of the last good reading. The main one must not vanish: that would silently mean the defaults.
    files: Vec<PathBuf>,
}

/// A configuration and the text of the Xid table that it names.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// The text of `health.xids`, where it is set.
    pub xids: Option<String>,
}

impl Source {
    /// Reads and checks everything.
    ///
    /// # Errors
    /// Every problem there is, one a line, each with its file and line.
    pub fn load(&mut self) -> Result<Loaded, String> {
        let read = loading::read(self.file.as_deref(), &self.sets)?;
        let main = self.file.clone().unwrap_or_else(|| PathBuf::from(DEFAULT_FILE));
        if self.files.contains(&main) && !read.loaded.files.contains(&main) {
            return Err(format!(
                "{}: no such file; it was there at the last reading",
                main.display()
            ));
        }
        self.files = read.loaded.files;
        let mut config = read.loaded.config;
        if let Some(run) = self.last_good.parent() {
            config.tell_jobs(run);
        }
        Ok(Loaded {
            config,
            xids: read.xids,
        })
    }

    /// Keeps a good configuration for a start with a bad one. The run directory is root's, so nobody else can put
    /// words into it.
    pub fn keep(&self, loaded: &Loaded) {
        let kept = serde_json::to_string(&(crate::BUILD, &self.file, &self.sets, loaded))
            .map_err(std::io::Error::other);
        if let Err(e) = kept.and_then(|json| store::replace(&self.last_good, json.as_bytes(), 0o600, false)) {
            tracing::warn!(path = %self.last_good.display(), error = %e, "the last good configuration is not kept");
        }
    }

    /// The last good configuration of an earlier start with the same build and options, since the machine's boot. With
    /// other options somebody is trying something, and wants to see the error.
    fn kept(&self) -> Option<Loaded> {
        let text = store::load(&self.last_good).ok()??;
        let (build, file, sets, loaded): (String, Option<PathBuf>, Vec<String>, Loaded) =
            serde_json::from_str(&text).ok()?;
        (build == crate::BUILD && file == self.file && sets == self.sets).then_some(loaded)
    }
}

/// Runs until stopped.
///
/// # Errors
/// When it cannot begin.
pub fn run(args: RunArgs) -> anyhow::Result<ExitCode> {
    let dirs = args.dirs();
    let mut source = Source {
        file: args.config.clone(),
        sets: args.sets(),
        last_good: dirs.run.join("config.last-good"),
        files: Vec::new(),
    };
    let (loaded, config_error) = match source.load() {
        Ok(loaded) => (loaded, None),
        Err(e) => match source.kept() {
            Some(loaded) => {
                complain(&format!("the last good configuration stays in force:\n{e}"));
                (loaded, Some(e))
            }
            None => bail!("{e}"),
        },
    };
    let env = environment(&args)?;
    if !is_root() {
        complain(
            "not root: workers run as this user, reads that need more say so, and Slurm takes no orders",
        );
    }
    parent::run(Setup {
        loaded,
        config_error,
        source,
        forged_boot_time: args.forged_boot_time(),
        env,
        run_dir: absolute(&dirs.run)?,
        state_dir: absolute(&dirs.state)?,
    })
}

fn environment(args: &RunArgs) -> anyhow::Result<Env> {
    let mut env = args.env();
    // Workers do not keep our working directory in mind.
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
