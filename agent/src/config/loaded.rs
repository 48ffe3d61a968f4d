//! Reads and checks a configuration, including the Xid table that it names.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use collectors::Settings;
use collectors::sys::root;
use health::checks;
use health::policy::Policy;
use serde::{Deserialize, Serialize};
use sys::{dirs, store};

use super::{Config, DEFAULT_FILE, Place};

/// A configuration and the text of its Xid table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// The text of `health.xids`, if set.
    pub xids: Option<String>,
}

impl Loaded {
    /// The engine's policy.
    ///
    /// # Errors
    /// A text that names the file and line, or the key, with the found and the expected value.
    pub fn policy(&self) -> Result<Policy, String> {
        Policy::new(&self.config.health, self.xids.as_deref())
    }
}

/// A configuration and its files, in order.
#[derive(Debug)]
pub struct Read {
    /// The configuration.
    pub loaded: Loaded,
    /// The values that are set.
    pub settings: Settings,
    /// The files.
    pub files: Vec<PathBuf>,
    /// Where each key was last set, by its name.
    pub set: BTreeMap<&'static str, Place>,
}

/// The source of a configuration, to read it again.
#[derive(Clone, Debug)]
pub struct Origin {
    file: Option<PathBuf>,
    sets: Vec<String>,
    run: PathBuf,
    /// Files of the last good reading. If the main file vanished, the defaults would silently apply.
    files: Vec<PathBuf>,
}

impl Origin {
    /// From this file, or the default one, and these options; the last good configuration is kept in the run directory.
    pub fn new(file: Option<PathBuf>, sets: Vec<String>, run: PathBuf) -> Self {
        Self {
            file,
            sets,
            run,
            files: Vec::new(),
        }
    }

    /// The options with which another process of ours reads the same.
    pub fn arguments(&self) -> Vec<String> {
        let file = self.file.iter().flat_map(|file| {
            let file = std::path::absolute(file).unwrap_or_else(|_| file.clone());
            ["--config".to_owned(), file.to_string_lossy().into_owned()]
        });
        let sets = self.sets.iter().flat_map(|set| ["--set".to_owned(), set.clone()]);
        file.chain(sets).collect()
    }

    /// Reads and checks the configuration.
    ///
    /// # Errors
    /// Every error, one a line, with file and line.
    pub fn load(&mut self) -> Result<Loaded, String> {
        let read = read(self.file.as_deref(), &self.sets)?;
        let main = self.file.clone().unwrap_or_else(|| PathBuf::from(DEFAULT_FILE));
        if self.files.contains(&main) && !read.files.contains(&main) {
            return Err(format!(
                "{}: no such file, but it existed at the last reading; restore it, or restart to use the defaults",
                main.display()
            ));
        }
        self.files = read.files;
        let mut loaded = read.loaded;
        loaded.config.tell_jobs(&self.run);
        loaded.config.tell_gpfs(&self.run);
        Ok(loaded)
    }

    /// The last good configuration, in the folder that only the parent's user may enter.
    fn last_good(&self) -> PathBuf {
        dirs::own_path(&self.run).join("config.last-good")
    }

    /// Keeps a good configuration for a start with a bad one. The parent has created its folder.
    pub fn keep(&self, loaded: &Loaded) {
        let kept = serde_json::to_string(&(crate::BUILD, &self.file, &self.sets, loaded))
            .map_err(std::io::Error::other);
        let path = self.last_good();
        if let Err(e) = kept.and_then(|json| store::replace(&path, json.as_bytes(), 0o600, false)) {
            tracing::warn!(path = %path.display(), error = %e, "cannot store the last good configuration");
        }
    }

    /// The file and the options of the last start since boot that had a good configuration. `None`: there was none, or this
    /// user may not read the run directory's folder of root.
    pub fn of_last_start(run: &Path) -> Option<(Option<PathBuf>, Vec<String>)> {
        let path = Self::new(None, Vec::new(), run.to_owned()).last_good();
        let text = store::load_own(&path).ok()??;
        let (_, file, sets, _): (String, Option<PathBuf>, Vec<String>, serde_json::Value) =
            serde_json::from_str(&text).ok()?;
        Some((file, sets))
    }

    /// The last good configuration of an earlier start with the same build and options since boot. With other options
    /// the user expects to see the error.
    pub fn kept(&self) -> Option<Loaded> {
        let text = store::load_own(&self.last_good()).ok()??;
        let (build, file, sets, loaded): (String, Option<PathBuf>, Vec<String>, Loaded) =
            serde_json::from_str(&text).ok()?;
        (build == crate::BUILD && file == self.file && sets == self.sets).then_some(loaded)
    }
}

/// Reads `file`, its `conf.d` and the options.
///
/// # Errors
/// Every error, one a line, with file and line.
pub fn read(file: Option<&Path>, sets: &[String]) -> Result<Read, String> {
    let known: Vec<_> = checks::configurable().map(|c| (c.id, c.may.at_most())).collect();
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
        settings: parsed.settings,
        files: parsed.files,
        set: parsed.set,
    })
}
