//! C2C: the links between a GPU and the processor on its module.

use crate::Block;
use crate::nvidia::fields::{Scale, narrow_counter, push};
use crate::nvidia::metrics as n;
use crate::sys::nvml::{Code, FieldValue, Wanted};

/// The fields of each link, in this order: status, speed in MB/s, and 3 kinds of errors.
const FIELDS: [u32; 5] = [171, 172, 231, 232, 233];
const KINDS: [&str; 3] = ["interrupt", "replay", "replay_back_to_back"];

/// The links.
#[derive(Debug, Default)]
pub(super) struct C2c {
    labels: Vec<String>,
}

impl C2c {
    pub(super) fn new(count: u32) -> Self {
        Self {
            labels: (0..count).map(|link| link.to_string()).collect(),
        }
    }

    pub(super) fn wanted(&self) -> impl Iterator<Item = Wanted> {
        let links = (0..).zip(&self.labels).map(|(link, _)| link);
        links.flat_map(|scope| FIELDS.map(|field| Wanted { field, scope }))
    }

    pub(super) fn push(&self, gpu: &str, get: impl Fn(usize) -> Result<FieldValue, Code>, out: &mut Block) {
        if self.labels.is_empty() {
            return;
        }
        // The driver returns 32 bits.
        let count_at = |at| get(at).ok().and_then(narrow_counter);
        out.u64(&n::C2C_LINKS, &[gpu], self.labels.len() as u64);
        let states: Vec<Option<u64>> = (0..self.labels.len())
            .map(|link| count_at(link * FIELDS.len()).filter(|s| *s <= 1))
            .collect();
        let known = states.iter().all(Option::is_some);
        out.maybe_u64(
            &n::C2C_LINKS_UP,
            &[gpu],
            known.then(|| states.iter().flatten().sum()),
        );
        for (link, label) in self.labels.iter().enumerate() {
            let at = link * FIELDS.len();
            let state = states.get(link).copied().flatten();
            push(&n::C2C_LINK_UP, gpu, &[label], Scale::Times(1), state, out);
            let speed = Scale::Times(1_000_000);
            push(&n::C2C_LINK_SPEED, gpu, &[label], speed, count_at(at + 1), out);
            for (kind, place) in KINDS.into_iter().zip(at + 2..) {
                push(
                    &n::C2C_LINK_ERRORS,
                    gpu,
                    &[label, kind],
                    Scale::Times(1),
                    count_at(place),
                    out,
                );
            }
        }
    }
}
