//! Reads and checks a configuration, including the Xid table that it names.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use collectors::Settings;
use collectors::sys::root;
use health::checks;
use health::policy::Policy;
use serde::{Deserialize, Serialize};
use sys::{dirs, store};

use super::{Config, DEFAULT_FILE, Place, keys};

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

/// The file, if one was named, and the options `--set`.
type LastStart = (Option<PathBuf>, Vec<String>);

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
            // Other processes, which read the same, have other working directories.
            file: file.map(|file| std::path::absolute(&file).unwrap_or(file)),
            sets,
            run,
            files: Vec::new(),
        }
    }

    /// The options with which another process of ours reads the same.
    pub fn arguments(&self) -> Vec<String> {
        let file = self
            .file
            .iter()
            .flat_map(|file| ["--config".to_owned(), file.to_string_lossy().into_owned()]);
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

    /// The file and the options of the last start since boot that had a good configuration. `Ok(None)`: there was none.
    ///
    /// # Errors
    /// Why they are unknown, without a name of the site.
    pub fn of_last_start(run: &Path) -> Result<Option<LastStart>, &'static str> {
        let path = Self::new(None, Vec::new(), run.to_owned()).last_good();
        let Some(text) = store::load_own(&path).map_err(|_| {
            "the record of the daemon's last start cannot be read: run as the user that starts it, usually root"
        })?
        else {
            return Ok(None);
        };
        let (_, file, sets, _): (String, Option<PathBuf>, Vec<String>, serde_json::Value) =
            serde_json::from_str(&text)
                .map_err(|_| "the record of the daemon's last start is of another version")?;
        // Earlier versions kept it as it was given.
        if file.as_deref().is_some_and(Path::is_relative) {
            return Err("the daemon was started with a relative path of its configuration file");
        }
        Ok(Some((file, sets)))
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
            found => {
                let why = found
                    .err()
                    .map_or_else(|| "does not exist".to_owned(), |e| e.to_string());
                let place = parsed.set.get(keys::XIDS.name);
                let place = place.map(|place| format!("{place}: ")).unwrap_or_default();
                return Err(format!(
                    "{place}health.xids: found {path:?}, expected a file that can be read: {why}"
                ));
            }
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

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "a test writes its own files")]

    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// `nodewarden bundle` resolved it in its own folder.
    #[test]
    fn a_relative_file_is_of_the_working_directory_at_the_start() {
        let origin = Origin::new(Some("etc/n.toml".into()), Vec::new(), PathBuf::new());
        let expected = std::env::current_dir().unwrap().join("etc/n.toml");
        assert_eq!(origin.file.as_deref(), Some(expected.as_path()));
        assert_eq!(origin.arguments(), ["--config", expected.to_str().unwrap()]);
    }

    #[test]
    fn a_file_of_xids_that_cannot_be_read_is_named_with_the_line_of_its_key() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("n.toml");
        for (path, why) in [("/no/xids.toml", "does not exist"), ("/", "/: Is a directory")] {
            fs::write(&file, format!("[health]\nxids = \"{path}\"\n")).unwrap();
            let error = read(Some(&file), &[]).unwrap_err();
            let place = format!("{}:2:8: health.xids: found \"{path}\"", file.display());
            assert!(error.starts_with(&place) && error.contains(why), "{error}");
        }
    }

    /// A line of the example, without the mark of a row that is not in force.
    fn key(line: &str) -> &str {
        line.strip_prefix('#')
            .filter(|rest| !rest.is_empty() && !rest.starts_with(' '))
            .unwrap_or(line)
    }

    /// What `nodewarden config check` reads, with the drop-in's file of rows in this repository, also with every example in force.
    #[test]
    fn the_shipped_example_of_xids_is_accepted_and_replaces_rows() {
        let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/examples");
        let drop_in = fs::read_to_string(examples.join("20-xids.toml")).unwrap();
        let rows = fs::read_to_string(examples.join("xids.toml")).unwrap();
        let all: String = rows.lines().map(|line| key(line).to_owned() + "\n").collect();
        let built_in = health::xids::Table::built_in().unwrap();
        for (text, codes) in [(&rows, &[94][..]), (&all, &[94, 109])] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("xids.toml");
            fs::write(&path, text).unwrap();
            assert!(drop_in.contains("/etc/nodewarden/xids.toml\""), "{drop_in}");
            let drop_in = drop_in.replace("/etc/nodewarden/xids.toml\"", &format!("{}\"", path.display()));
            fs::create_dir(dir.path().join("conf.d")).unwrap();
            fs::write(dir.path().join("conf.d/20-xids.toml"), drop_in).unwrap();
            let main = dir.path().join("nodewarden.toml");
            fs::write(&main, "").unwrap();
            let read = read(Some(&main), &[]).unwrap();
            let policy = read.loaded.policy().unwrap();
            let table = &policy.site.xids;
            let changed: Vec<u32> = table
                .rows()
                .filter(|row| built_in.row(row.code) != Some(row))
                .map(|row| row.code)
                .collect();
            let mut codes = codes.to_vec();
            codes.sort_unstable();
            assert_eq!(changed, codes);
            let acts = |table: &health::xids::Table, code| table.row(code).map(|row| row.action);
            for code in codes {
                assert_ne!(acts(table, code), acts(&built_in, code), "Xid {code}");
            }
        }
    }

    #[test]
    fn the_last_start_is_known_absent_or_unknown_for_a_reason() {
        let run = tempfile::tempdir().unwrap();
        let of = || Origin::of_last_start(run.path());
        assert_eq!(of(), Ok(None));
        let path = Origin::new(None, Vec::new(), run.path().to_owned()).last_good();
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let write = |text: &str| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        };
        write(r#"["build", "/etc/canary.toml", ["health.mode=\"drain\""], {}]"#);
        let known = (
            Some("/etc/canary.toml".into()),
            vec!["health.mode=\"drain\"".to_owned()],
        );
        assert_eq!(of(), Ok(Some(known)));
        write(r#"["build", "canary.toml", [], {}]"#);
        assert!(of().unwrap_err().contains("relative path"));
        write("{}");
        assert!(of().unwrap_err().contains("another version"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        assert!(of().unwrap_err().contains("cannot be read"));
    }
}
