//! Files that stop every write while they exist. One may lie on a shared filesystem that does not answer: only a child
//! touches it.

use std::path::PathBuf;
use std::time::Duration;

use model::scheduler::{Held, HeldBy, NOT_WRITTEN, Outcome};
use slurm::Settings;
use sys::spawn::{CommandLine, CommandOutput, CommandRunner, SpawnError};

const STAT: &str = "/usr/bin/stat";
/// An answer that comes later is none.
const PATIENCE: Duration = Duration::from_secs(5);

/// Reads the files of `health.guard.stop_files`.
#[derive(Debug, Default)]
pub(super) struct StopFiles {
    runner: CommandRunner,
}

impl StopFiles {
    /// With the processes that an earlier one could not kill.
    pub(super) fn new(runner: CommandRunner) -> Self {
        Self { runner }
    }

    /// Why nothing may be written. A file that cannot be looked for stops too.
    pub(super) fn held(&mut self, config: &Settings) -> Option<Outcome> {
        let files = &config.guard.stop_files;
        if files.is_empty() {
            return None;
        }
        let mut args = vec!["--printf=%n\\0".to_owned(), "--".to_owned()];
        args.extend(files.iter().filter_map(|file| file.to_str().map(str::to_owned)));
        let command = CommandLine {
            program: PathBuf::from(STAT),
            args,
            env: vec![("LC_ALL".to_owned(), "C".to_owned())],
            input: Vec::new(),
            deadline: PATIENCE,
        };
        match self.runner.run(&command) {
            Ok(output) => answered(&output, files.len()),
            Err(error) => Some(not_answered(&error)),
        }
    }
}

/// What stat's answer about that many files means for the act.
fn answered(output: &CommandOutput, files: usize) -> Option<Outcome> {
    let names = String::from_utf8_lossy(&output.stdout);
    if let Some(name) = names.split('\0').find(|name| !name.is_empty()) {
        return Some(held(HeldBy::Pause, format!("{name} exists")));
    }
    let text = String::from_utf8_lossy(&output.stderr);
    match text.lines().find(|line| !is_missing(line)) {
        None if text.lines().count() == files => None,
        None => Some(refused(&format!(
            "{STAT}: exit code {} and no message",
            output.code
        ))),
        Some(line) => {
            let line: String = line.chars().filter(|c| !c.is_control()).take(200).collect();
            Some(refused(&line))
        }
    }
}

/// A shortage of this machine is mostly over in a moment: the act is tried again as one whose scontrol cannot be started.
fn not_answered(error: &SpawnError) -> Outcome {
    match error {
        SpawnError::Io { .. } | SpawnError::Signalled(_) => Outcome::Failed(format!(
            "{NOT_WRITTEN}cannot look for the stop files: {STAT}: {error}"
        )),
        _ => refused(&format!("{STAT}: {error}")),
    }
}

fn refused(why: &str) -> Outcome {
    held(HeldBy::Refused, format!("cannot look for the stop files: {why}"))
}

/// Whether stat says that a file does not exist. That of uutils (Ubuntu 25.10) adds the number of the error.
fn is_missing(line: &str) -> bool {
    let line = line.strip_suffix(" (os error 2)").unwrap_or(line);
    line.ends_with(": No such file or directory")
}

fn held(by: HeldBy, why: String) -> Outcome {
    Outcome::Held(Held { by, why, guard: None })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn held_with(files: &[PathBuf]) -> Option<Held> {
        let mut config = Settings::default();
        config.guard.stop_files = files.to_vec();
        match StopFiles::default().held(&config)? {
            Outcome::Held(held) => Some(held),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_command_that_cannot_be_started_for_a_moment_is_a_failure_and_no_limit() {
        let fork = SpawnError::Io {
            what: "fork",
            source: std::io::Error::from_raw_os_error(11),
        };
        let failed = not_answered(&fork);
        let text = "nothing was written: cannot look for the stop files: /usr/bin/stat: fork: ";
        assert!(
            matches!(&failed, Outcome::Failed(why) if why.starts_with(text)),
            "{failed:?}"
        );
        let late = not_answered(&SpawnError::TimedOut(PATIENCE));
        assert!(
            matches!(&late, Outcome::Held(held) if held.by == HeldBy::Refused),
            "{late:?}"
        );
    }

    #[test]
    fn any_file_that_exists_stops_and_its_absence_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let (one, two) = (dir.path().join("one"), dir.path().join("no/such/two"));
        assert_eq!(held_with(&[]), None);
        assert_eq!(held_with(&[one.clone(), two.clone()]), None);
        symlink("/", &one).unwrap();
        let held = held_with(&[two, one.clone()]).unwrap();
        assert_eq!(
            (held.by, held.why),
            (HeldBy::Pause, format!("{} exists", one.display()))
        );
    }

    #[test]
    fn the_texts_of_coreutils_and_uutils() {
        for (line, expected) in [
            (
                "stat: cannot statx '/etc/nodewarden/stop': No such file or directory",
                true,
            ),
            (
                "/usr/bin/stat: cannot stat '/etc/nodewarden/stop': No such file or directory (os error 2)",
                true,
            ),
            (
                "stat: cannot stat '/etc/nodewarden/stop': Permission denied",
                false,
            ),
            (
                "/usr/bin/stat: cannot stat '/etc/nodewarden/stop': Permission denied (os error 13)",
                false,
            ),
            (
                "stat: cannot stat '/x: No such file or directory (os error 2)': Input/output error",
                false,
            ),
        ] {
            assert_eq!(is_missing(line), expected, "{line}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_looked_for_stops() {
        let dir = tempfile::tempdir().unwrap();
        let ring = dir.path().join("ring");
        symlink(&ring, &ring).unwrap();
        let held = held_with(&[ring.join("stop")]).unwrap();
        assert_eq!(held.by, HeldBy::Refused);
        assert!(
            held.why.contains("Too many levels of symbolic links"),
            "{}",
            held.why
        );
    }
}
