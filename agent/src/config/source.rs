//! The texts that a configuration is made of: the file, its drop-ins, and the `--set` options, in that order.

use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use collectors::sys::root;

use super::error::{Place, Problem};
use sys::link;

/// The file that is read when none is named.
pub const DEFAULT_FILE: &str = "/etc/nodewarden/nodewarden.toml";

/// The most that one file may hold, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// One text.
pub(super) struct Source {
    /// The file, or the whole option.
    name: String,
    /// Its TOML.
    pub(super) text: String,
    /// Whether positions inside it mean anything to a person.
    positions: bool,
}

impl Source {
    fn file(path: &Path, text: String) -> Self {
        Self {
            name: path.display().to_string(),
            text,
            positions: true,
        }
    }

    /// One `--set KEY=VALUE`.
    pub(super) fn option(set: &str) -> Self {
        Self {
            name: format!("--set '{set}'"),
            text: set.to_owned(),
            positions: false,
        }
    }

    /// Whether this is a `--set` option.
    pub(super) fn is_option(&self) -> bool {
        !self.positions
    }

    /// The position of a byte.
    pub(super) fn place(&self, offset: usize) -> Place {
        let (mut line, mut column) = (0, 0);
        if self.positions {
            let before = self.text.get(..offset).unwrap_or(&self.text);
            line = before.matches('\n').count() + 1;
            column = before.rsplit('\n').next().map_or(0, |l| l.chars().count()) + 1;
        }
        Place {
            source: self.name.clone(),
            line,
            column,
        }
    }
}

/// A link without a file at its end. It never counts as "not there": the site has a configuration.
const NOWHERE: &str = "the link leads nowhere";

/// Reads the file and its drop-ins. A file that was named must be there; the default one need not.
pub(super) fn read(file: Option<&Path>, problems: &mut Vec<Problem>) -> (Vec<Source>, Vec<PathBuf>) {
    read_at(file.unwrap_or(Path::new(DEFAULT_FILE)), file.is_some(), problems)
}

fn read_at(main: &Path, is_named: bool, problems: &mut Vec<Problem>) -> (Vec<Source>, Vec<PathBuf>) {
    let (mut sources, mut paths) = (Vec::new(), Vec::new());
    let mut take = |path: &Path, required: bool, problems: &mut Vec<Problem>| match one(path) {
        Ok(Some(text)) => {
            sources.push(Source::file(path, text));
            paths.push(path.to_owned());
        }
        Ok(None) if link::is_there(path) => problems.push(whole(path, NOWHERE)),
        Ok(None) if !required => {}
        Ok(None) => problems.push(whole(path, "no such file")),
        Err(problem) => problems.push(problem),
    };
    take(main, is_named, problems);
    let above = main.parent().unwrap_or(Path::new(""));
    // The whole folder may be a link into a filesystem that is not there yet.
    if !is_named && link::is_there(above) && matches!(root::list(above), Ok(None)) {
        problems.push(whole(above, NOWHERE));
    }
    let folder = above.join("conf.d");
    // Not there means that there are no drop-ins; a link that leads nowhere, or a folder that cannot be listed, is an error.
    if link::is_there(&folder) {
        match root::list(&folder) {
            Ok(None) => problems.push(whole(&folder, NOWHERE)),
            Ok(names) => {
                for name in names.unwrap_or_default() {
                    if name.ends_with(".toml") && !name.starts_with('.') {
                        take(&folder.join(name), true, problems);
                    }
                }
            }
            Err(e) => problems.push(whole(&folder, &reason(&e))),
        }
    }
    (sources, paths)
}

fn one(path: &Path) -> Result<Option<String>, Problem> {
    let failed = |e: collectors::Error| whole(path, &reason(&e));
    let Some(file) = root::open(path).map_err(failed)? else {
        return Ok(None);
    };
    // It has no content until a program writes, and would count as an empty file.
    if file.metadata().is_ok_and(|found| found.file_type().is_fifo()) {
        return Err(whole(path, "found a FIFO, expected a file"));
    }
    let Some(bytes) = root::read_open(path, file, MAX_FILE + 1).map_err(failed)? else {
        return Ok(None);
    };
    if bytes.len() as u64 > MAX_FILE {
        return Err(whole(path, "larger than 1 MiB"));
    }
    String::from_utf8(bytes).map(Some).map_err(|e| {
        let good = e.utf8_error().valid_up_to();
        let text = String::from_utf8_lossy(e.as_bytes().get(..good).unwrap_or_default()).into_owned();
        Problem {
            place: Source::file(path, text).place(good),
            message: "found a byte that is not UTF-8, expected UTF-8 text".to_owned(),
        }
    })
}

/// The path is in the place already.
fn reason(error: &collectors::Error) -> String {
    match error {
        collectors::Error::Io { source, .. } => source.to_string(),
        other => other.to_string(),
    }
}

fn whole(path: &Path, message: &str) -> Problem {
    Problem {
        place: Place {
            source: path.display().to_string(),
            line: 0,
            column: 0,
        },
        message: message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn found_at(main: &Path, is_named: bool) -> Vec<String> {
        let mut problems = Vec::new();
        let (sources, _) = read_at(main, is_named, &mut problems);
        assert!(sources.is_empty());
        let text = |p: Problem| format!("{}: {}", p.place.source, p.message);
        problems.into_iter().map(text).collect()
    }

    #[test]
    fn a_link_that_leads_nowhere_is_no_missing_default_file() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, away) = (dir.path().join("nodewarden"), dir.path().join("shared"));
        let main = folder.join("nodewarden.toml");
        assert!(found_at(&main, false).is_empty(), "not there");
        symlink(&away, &folder).unwrap();
        let problem = |path: &Path| vec![format!("{}: the link leads nowhere", path.display())];
        assert_eq!(found_at(&main, false), problem(&folder));
        #[allow(clippy::disallowed_methods, reason = "a test's own folder")]
        std::fs::create_dir(&away).unwrap();
        assert!(found_at(&main, false).is_empty(), "a folder without a file");
        symlink("/no/such/file", &main).unwrap();
        for is_named in [false, true] {
            assert_eq!(found_at(&main, is_named), problem(&main));
        }
    }
}
