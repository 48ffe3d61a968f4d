//! Reads and checks everything that a configuration says, the Xid table that it names included.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use collectors::sys::root;
use health::checks::CHECKS;
use health::policy::Policy;
use serde::{Deserialize, Serialize};
use sys::store;

use super::{Config, DEFAULT_FILE, Place};

/// A configuration and the text of the Xid table that it names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// The text of `health.xids`, where it is set.
    pub xids: Option<String>,
}

impl Loaded {
    /// What the engine is allowed to do.
    ///
    /// # Errors
    /// A text for people that names the file and line, or the key, with what was found and what was expected.
    pub fn policy(&self) -> Result<Policy, String> {
        Policy::new(&self.config.health, self.xids.as_deref())
    }
}

/// A configuration and the files that it came from, in order.
#[derive(Debug)]
pub struct Read {
    /// The configuration.
    pub loaded: Loaded,
    /// The files.
    pub files: Vec<PathBuf>,
    /// Where each key was set last, by its name.
    pub set: BTreeMap<&'static str, Place>,
}

/// Where a configuration comes from, to read it again.
#[derive(Clone, Debug)]
pub struct Origin {
    file: Option<PathBuf>,
    sets: Vec<String>,
    last_good: PathBuf,
    /// Files of the last good reading. The main one must not vanish: that would silently mean the defaults.
    files: Vec<PathBuf>,
}

impl Origin {
    /// Of this file, or the default one, and these options; the last good configuration is kept in `last_good`.
    pub fn new(file: Option<PathBuf>, sets: Vec<String>, last_good: PathBuf) -> Self {
        Self {
            file,
            sets,
            last_good,
            files: Vec::new(),
        }
    }

    /// Reads and checks everything.
    ///
    /// # Errors
    /// Every problem there is, one a line, each with its file and line.
    pub fn load(&mut self) -> Result<Loaded, String> {
        let read = read(self.file.as_deref(), &self.sets)?;
        let main = self.file.clone().unwrap_or_else(|| PathBuf::from(DEFAULT_FILE));
        if self.files.contains(&main) && !read.files.contains(&main) {
            return Err(format!(
                "{}: no such file; it was there at the last reading",
                main.display()
            ));
        }
        self.files = read.files;
        let mut loaded = read.loaded;
        if let Some(run) = self.last_good.parent() {
            loaded.config.tell_jobs(run);
        }
        Ok(loaded)
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
    pub fn kept(&self) -> Option<Loaded> {
        let text = store::load(&self.last_good).ok()??;
        let (build, file, sets, loaded): (String, Option<PathBuf>, Vec<String>, Loaded) =
            serde_json::from_str(&text).ok()?;
        (build == crate::BUILD && file == self.file && sets == self.sets).then_some(loaded)
    }
}

/// Reads `file`, what lies beside it and the options.
///
/// # Errors
/// Every problem there is, one a line, each with its file and line.
pub fn read(file: Option<&Path>, sets: &[String]) -> Result<Read, String> {
    let known: Vec<_> = CHECKS.iter().map(|c| (c.id, c.may.at_most())).collect();
    let parsed = Config::load(file, sets, &known).map_err(|e| e.to_string())?;
    let xids = match &parsed.config.health.xids {
        None => None,
        Some(path) => match root::read_text(path) {
            Ok(Some(text)) => Some(text),
            Ok(None) => return Err(format!("{}: no such file (health.xids)", path.display())),
            Err(e) => return Err(format!("{e} (health.xids)")),
        },
    };
    let loaded = Loaded {
        config: parsed.config,
        xids,
    };
    loaded.policy()?;
    Ok(Read {
        loaded,
        files: parsed.files,
        set: parsed.set,
    })
}
