//! GPUs that their driver declared healthy (Xid 154 "None"). Later readings must confirm it. This state is not stored:
//! after a restart an operator clears the remaining findings.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::Now;
use crate::bounded::MAX_GPUS;

/// The time of the last declaration of each GPU.
#[derive(Debug, Default)]
pub(super) struct Declared(BTreeMap<String, Now>);

impl Declared {
    /// The driver declares a GPU healthy.
    pub(super) fn note(&mut self, gpu: &str, now: Now) {
        if self.0.contains_key(gpu) || self.0.len() < MAX_GPUS {
            self.0.insert(gpu.to_owned(), now);
        }
    }

    /// A later fault occurred.
    pub(super) fn forget(&mut self, gpu: &str) {
        self.0.remove(gpu);
    }

    /// The time up to which a reading made at `read` may end findings.
    pub(super) fn before(&self, gpu: &str, read: Duration) -> Option<Now> {
        self.0.get(gpu).copied().filter(|now| now.boottime < read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_reading_after_the_last_declaration_counts() {
        let mut declared = Declared::default();
        let at = |seconds, wall| Now {
            boottime: Duration::from_secs(seconds),
            wall,
        };
        declared.note("a", at(10, 100));
        let before = |declared: &Declared, gpu, read| declared.before(gpu, Duration::from_secs(read));
        assert_eq!(before(&declared, "a", 10), None);
        assert_eq!(before(&declared, "a", 11), Some(at(10, 100)));
        assert_eq!(before(&declared, "b", 11), None);
        declared.note("a", at(20, 110));
        assert_eq!(before(&declared, "a", 15), None);
        assert_eq!(before(&declared, "a", 21), Some(at(20, 110)));
        declared.forget("a");
        assert_eq!(before(&declared, "a", 22), None);
        for n in 0..1000 {
            declared.note(&n.to_string(), at(1, 1));
        }
        assert_eq!(declared.0.len(), MAX_GPUS);
    }
}
