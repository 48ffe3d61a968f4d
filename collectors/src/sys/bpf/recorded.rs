//! The file `bpf/<path of the cgroup>` below the root of a recording, in the kernel's place.

use std::path::{Path, PathBuf};

use nix::errno::Errno;

use super::{Program, Programs};
use crate::Error;
use crate::sys::root;

/// The folder in the root of a recording. A step lays the next answers over it like any other file.
const FOLDER: &str = "bpf";
const EXPECTED: &str =
    "`none`, `error EPERM`, or the program's number, name and instructions in hexadecimal or `withheld`";

/// What was recorded of one cgroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RecordedAttachment {
    /// It has no program.
    None,
    /// It must not be asked.
    Denied,
    /// It has one.
    One(u32, Program),
}

/// Answers what was recorded. A cgroup that was not recorded has no program.
pub(super) struct RecordedPrograms {
    root: PathBuf,
}

impl RecordedPrograms {
    pub(super) fn new(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
        }
    }

    fn answer(&self, cgroup: &Path) -> Result<RecordedAttachment, Errno> {
        let below = cgroup.strip_prefix(&self.root).map_err(|_| Errno::ENOENT)?;
        let below = below.strip_prefix("sys/fs/cgroup").map_err(|_| Errno::ENOENT)?;
        let file = self.root.join(FOLDER).join(below);
        let told = |error: Error| {
            tracing::error!(%error, "a recording that cannot be read");
            Errno::EIO
        };
        match root::read_text(&file).map_err(told)? {
            Some(text) => parse(&file.display().to_string(), &text).map_err(told),
            None => Ok(RecordedAttachment::None),
        }
    }
}

impl Programs for RecordedPrograms {
    fn attached(&mut self, cgroup: &Path) -> Result<Vec<u32>, Errno> {
        match self.answer(cgroup)? {
            RecordedAttachment::None => Ok(Vec::new()),
            RecordedAttachment::Denied => Err(Errno::EPERM),
            RecordedAttachment::One(id, _) => Ok(vec![id]),
        }
    }

    fn read(&mut self, cgroup: &Path, id: u32) -> Result<Program, Errno> {
        match self.answer(cgroup)? {
            RecordedAttachment::One(now, program) if now == id => Ok(program),
            RecordedAttachment::Denied => Err(Errno::EPERM),
            RecordedAttachment::None | RecordedAttachment::One(..) => Err(Errno::ENOENT),
        }
    }
}

/// Reads one answer. `file` is for errors.
pub(crate) fn parse(file: &str, text: &str) -> Result<RecordedAttachment, Error> {
    let wrong = || Error::parse(file, text.trim(), EXPECTED);
    let words: Vec<&str> = text.split_whitespace().collect();
    match words.as_slice() {
        ["none"] => Ok(RecordedAttachment::None),
        ["error", "EPERM"] => Ok(RecordedAttachment::Denied),
        [id, name, code] => {
            let code = match *code {
                "withheld" => None,
                hex => Some(bytes(hex).ok_or_else(wrong)?),
            };
            let name = (*name).to_owned();
            let id = id.parse().map_err(|_| wrong())?;
            Ok(RecordedAttachment::One(id, Program { name, code }))
        }
        _ => Err(wrong()),
    }
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = hex.as_bytes().as_chunks::<2>();
    let digit = |b: u8| char::from(b).to_digit(16).and_then(|d| u8::try_from(d).ok());
    let each = |&[high, low]: &[u8; 2]| Some(digit(high)? << 4 | digit(low)?);
    rest.is_empty().then(|| pairs.iter().map(each).collect())?
}
