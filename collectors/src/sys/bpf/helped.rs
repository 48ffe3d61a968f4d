//! The helper's answers, in the kernel's place.

use std::os::fd::AsFd;
use std::path::Path;

use nix::errno::Errno;

use super::{NAME_BYTES, Program, Programs, folder};
use crate::sys::helper::{Client, Question};

/// Asks the helper. A cgroup is opened here, by a process that may open nothing else.
pub(super) struct HelpedPrograms(pub(super) &'static Client);

impl Programs for HelpedPrograms {
    fn attached(&mut self, cgroup: &Path) -> Result<Vec<u32>, Errno> {
        let folder = folder(cgroup)?;
        let bytes = self.0.ask(Question::Attached, Some(folder.as_fd()))?;
        let (ids, _) = bytes.as_chunks();
        Ok(ids.iter().copied().map(u32::from_ne_bytes).collect())
    }

    fn read(&mut self, _: &Path, id: u32) -> Result<Program, Errno> {
        decode(&self.0.ask(Question::Program(id), None)?)
    }
}

/// The reverse of [`super::encode`].
fn decode(bytes: &[u8]) -> Result<Program, Errno> {
    let (name, rest) = bytes.split_first_chunk::<NAME_BYTES>().ok_or(Errno::EBADMSG)?;
    let (is_shown, code) = rest.split_first().ok_or(Errno::EBADMSG)?;
    let name: Vec<u8> = name.iter().copied().take_while(|b| *b != 0).collect();
    Ok(Program {
        name: String::from_utf8_lossy(&name).into_owned(),
        code: (*is_shown != 0).then(|| code.to_vec()),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::encode;
    use super::*;

    proptest! {
        #[test]
        fn a_program_arrives_as_it_was_sent(name in "[ -~]{0,15}", code in proptest::option::of(prop::collection::vec(any::<u8>(), 0..99))) {
            let program = Program { name, code };
            prop_assert_eq!(decode(&encode(&program)).unwrap(), program);
        }

        #[test]
        fn any_bytes_are_a_program_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            prop_assert_eq!(decode(&bytes).is_ok(), bytes.len() > NAME_BYTES);
        }
    }
}
