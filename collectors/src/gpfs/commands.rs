//! The commands of GPFS whose output is read from files: which ones, where, and how old a file may be. Nothing here runs one.

use std::time::Duration;

use crate::settings::{Kind, Settings};
use crate::{Block, Error, Subject, SubjectKind};

use super::output::Output;
use super::replies::Faults;
use super::{health, state, waiters};

/// The folder in the run directory.
pub const FOLDER: &str = "gpfs";

/// Limit of a file, in bytes: a waiter takes 250.
pub const MAX_REPLY: usize = 1024 * 1024;

/// Interval of the commands.
pub const EVERY: Duration = Duration::from_secs(300);

/// Time limit of each command.
pub const LIMIT: Duration = Duration::from_secs(30);

/// An older file counts as absent: two of the longest intervals (330 s each) and the longest round (135 s).
pub(super) const STALE: Duration = Duration::from_secs(800);

/// A thread of mmfsd that waits longer is a fault, in seconds: IBM's guides look into such waiters.
pub const LONG_WAIT: f64 = 300.0;

/// The ending of the file that names the reason of a failed run.
pub const FAILED: &str = "failed";

/// The begin of the reason of a run that ended with another exit code than 0.
pub const EXIT_CODE: &str = "exit code";

/// The device whose readings are the output of the commands.
pub fn subject() -> Subject {
    Subject::new(SubjectKind::Worker, "gpfs-commands")
}

crate::keys! {
    pub KEYS;
    COMMANDS = "gpfs.commands": Kind::Boolean, default "false", since "0.1.0",
        "Run `mmgetstate -Y`, `mmdiag --waiters -Y` and `mmhealth node show -Y` every 5 min, in the runner of site commands.\n\
         The first start needs a restart if [commands] is empty.";
    REPLIES = "gpfs.replies": Kind::Path, example "\"/run/site/gpfs\"", rule one_writer, since "0.1.0",
        "Directory of the output of these commands, if a job of the site writes it: mmgetstate.y, mmdiag-waiters.y, mmhealth.y.\n\
         Only root or the user of the worker may write it and its files. Not with gpfs.commands.";
    BIN = "gpfs.bin": Kind::Path, default "\"/usr/lpp/mmfs/bin\"", since "0.1.0",
        "Directory of the programs of GPFS.";
}

/// Files that two write are neither's.
fn one_writer(settings: &Settings) -> Result<(), Error> {
    if settings.get(&COMMANDS)? {
        let message = "gpfs.replies: found with gpfs.commands = true, expected only one of them: nodewarden writes the files itself";
        return Err(Error::Settings(message.to_owned()));
    }
    Ok(())
}

/// One command.
#[derive(Debug)]
pub struct Command {
    /// The label `command`, and the file without its ending.
    pub name: &'static str,
    /// The program in [`BIN`]: the first word of each line of its output.
    pub program: &'static str,
    /// Its fixed arguments.
    pub arguments: &'static [&'static str],
    /// It asks mmfsd itself: once it ends with an error, the last output is that of a daemon that has ended.
    pub(super) asks_daemon: bool,
    /// The series of its output.
    pub(super) show: fn(&Output<'_>, &mut Block, &mut Faults),
}

impl Command {
    /// The name of the file with its output.
    pub fn file(&self) -> String {
        format!("{}.y", self.name)
    }

    /// The name of the file that a failed run leaves: a word, and the reason for people.
    pub fn failed_file(&self) -> String {
        format!("{}.{FAILED}", self.name)
    }
}

/// The state of the node.
pub static MMGETSTATE: Command = Command {
    name: "mmgetstate",
    program: "mmgetstate",
    arguments: &["-Y"],
    asks_daemon: false,
    show: state::show,
};

/// Waiting threads of mmfsd.
pub static WAITERS: Command = Command {
    name: "mmdiag-waiters",
    program: "mmdiag",
    arguments: &["--waiters", "-Y"],
    asks_daemon: true,
    show: waiters::show,
};

/// The state of each component.
pub static MMHEALTH: Command = Command {
    name: "mmhealth",
    program: "mmhealth",
    arguments: &["node", "show", "-Y"],
    asks_daemon: false,
    show: health::show,
};

/// All commands, in the order in which they run.
pub static ALL: [&Command; 3] = [&MMGETSTATE, &WAITERS, &MMHEALTH];

#[cfg(test)]
mod tests {
    use crate::gpfs::SPEC;

    #[test]
    fn either_nodewarden_writes_the_files_or_the_site() {
        let set = |table: &str| SPEC.settings(table);
        assert!(set("replies = \"/x\"\n").is_ok());
        assert!(set("commands = true\n").is_ok());
        let error = set("replies = \"/x\"\ncommands = true\n").unwrap_err();
        assert!(error.to_string().contains("gpfs.commands"), "{error}");
    }
}
