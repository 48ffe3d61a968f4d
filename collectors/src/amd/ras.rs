//! RAS: counts of memory and logic errors by block, and bad pages. kernel: `amdgpu_ras.c`, `amdgpu_aca.c`.
//!
//! A read of the counts asks the firmware, so they are read at an interval, and when the cheap list of events has moved.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::files::GpuFiles;
use super::metrics as n;
use crate::Block;
use crate::gpu::metrics as m;

/// The interval of the counts.
const SLOWLY: Duration = Duration::from_secs(300);
/// The interval until every block was read once.
const UNREAD: Duration = Duration::from_secs(60);
/// Readings after which the totals leave out blocks that none of them could read: 10 min, unless events come.
const ATTEMPTS: u32 = 10;
/// The most bytes of the list of bad pages: 28 for each, of which a GPU that works has fewer than 2048.
const PAGES: usize = 256 * 1024;
/// The bit of memory in the mask of features.
const MEMORY: u64 = 1;
/// Kinds of errors, by their word in a file.
const KINDS: [(&str, &str); 3] = [("ce", "corrected"), ("ue", "uncorrected"), ("de", "deferred")];
/// States of bad pages, by their letter in the file.
const STATES: [(&str, &str); 3] = [("R", "retired"), ("P", "pending"), ("F", "failed")];
/// Rows of the list of events.
const EVENTS: [(&str, &str); 3] = [
    ("Fatal Error", "fatal_error"),
    ("Poison Creation", "poison_creation"),
    ("Poison Consumption", "poison_consumption"),
];

/// The counts of one block; a kind that the file does not have is `None`.
type Counts = [Option<u64>; KINDS.len()];

/// What was last read.
#[derive(Debug, Default)]
pub(super) struct Ras {
    read: Option<Instant>,
    /// The list of events at the last reading of the counts.
    events: Option<String>,
    /// By block; `None` until its file was read.
    blocks: BTreeMap<String, Option<Counts>>,
    /// Readings of the counts so far.
    attempts: u32,
    /// Blocks that the totals leave out, also if they can be read later.
    left_out: BTreeSet<String>,
    pages: Option<[u64; STATES.len()]>,
    has_memory_ecc: Option<bool>,
}

impl Ras {
    /// Reads what is due, and pushes everything.
    pub(super) fn read(&mut self, gpu: &str, files: &GpuFiles, out: &mut Block) {
        let events = files.text("ras/event_state");
        if self.read.is_none_or(|at| at.elapsed() >= self.interval())
            || (events.is_some() && events != self.events)
        {
            self.read_counts(files);
            self.events.clone_from(&events);
            self.read = Some(Instant::now());
        }
        for (row, event) in EVENTS {
            if let Some(text) = &events {
                out.maybe_u64(&n::RAS_EVENTS, &[gpu, event], event_count(text, row));
            }
        }
        if let Some(has) = self.has_memory_ecc {
            out.u64(&m::ECC_MODE, &[gpu], u64::from(has));
        }
        for (at, (_, kind)) in KINDS.into_iter().enumerate() {
            let of = |counts: &Counts| counts.get(at).copied().flatten();
            let counted = self
                .blocks
                .iter()
                .filter(|(block, _)| !self.left_out.contains(*block));
            let all = counted.filter_map(|(_, counts)| counts.as_ref().and_then(of));
            if let Some(total) = all.reduce(u64::saturating_add) {
                // Old errors of a block would look like new ones when it is read later.
                let total = self.is_whole().then_some(total);
                out.maybe_u64(&m::ECC_ERRORS, &[gpu, kind, "volatile"], total);
            }
            for (block, counts) in &self.blocks {
                if let Some(count) = counts.as_ref().and_then(of) {
                    out.u64(&m::ECC_LOCATION_ERRORS, &[gpu, kind, "volatile", block], count);
                }
            }
        }
        for (count, (_, state)) in self.pages.iter().flatten().zip(STATES) {
            out.u64(&n::BAD_PAGES, &[gpu, state], *count);
        }
    }

    /// Whether every block of the totals was read once.
    fn is_whole(&self) -> bool {
        let mut all = self.blocks.iter();
        all.all(|(block, counts)| counts.is_some() || self.left_out.contains(block))
    }

    fn interval(&self) -> Duration {
        if self.is_whole() { SLOWLY } else { UNREAD }
    }

    fn read_counts(&mut self, files: &GpuFiles) {
        let features = files.text("ras/features");
        self.has_memory_ecc = features.as_deref().and_then(mask).map(|mask| mask & MEMORY != 0);
        let mut found = BTreeMap::new();
        for name in files.list("ras") {
            let Some(block) = block_of(&name) else { continue };
            let counts = files.text(&format!("ras/{name}")).and_then(|text| counts(&text));
            // A block that cannot be read now keeps its last counts.
            let known = counts.or_else(|| self.blocks.get(block).copied().flatten());
            found.insert(block.to_owned(), known);
        }
        self.blocks = found;
        self.attempts = self.attempts.saturating_add(1);
        if self.attempts >= ATTEMPTS && self.blocks.values().any(Option::is_some) {
            let unread = self.blocks.iter().filter(|(_, counts)| counts.is_none());
            self.left_out.extend(unread.map(|(block, _)| block.clone()));
        }
        self.pages = files
            .records("ras/gpu_vram_bad_pages", PAGES)
            .map(|text| pages(&text));
    }
}

/// The block of a file of counts: `umc_err_count`, or `aca_umc` of newer drivers.
fn block_of(file: &str) -> Option<&str> {
    file.strip_suffix("_err_count")
        .or_else(|| file.strip_prefix("aca_"))
}

/// Whether a count comes from a fault of the driver's query, which adds 1048560 each time while the GPU sleeps.
pub(crate) const fn is_bogus(count: u64) -> bool {
    count > 0 && count.is_multiple_of(1_048_560)
}

/// The counts of lines `ue: N`, in any order. `None`: the driver has none now.
fn counts(text: &str) -> Option<Counts> {
    let value = |word: &str| {
        let line = text
            .lines()
            .find_map(|line| line.trim().strip_prefix(word)?.strip_prefix(':'));
        line?.trim().parse().ok().filter(|count| !is_bogus(*count))
    };
    let counts = KINDS.map(|(word, _)| value(word));
    counts.iter().any(Option::is_some).then_some(counts)
}

/// The mask of `feature mask: 0x...`.
fn mask(text: &str) -> Option<u64> {
    let (_, hex) = text.lines().next()?.rsplit_once("0x")?;
    u64::from_str_radix(hex.trim(), 16).ok()
}

/// The count of `Fatal Error: count:N, last_seqno:N`.
fn event_count(text: &str, row: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.trim().strip_prefix(row))?;
    let (_, count) = line.split_once("count:")?;
    count.split(',').next()?.trim().parse().ok()
}

/// Pages by state, from lines `0x... : 0x... : R`. A line that the driver repeats, as at the border of two reads, is one
/// page.
fn pages(text: &str) -> [u64; STATES.len()] {
    let lines: BTreeSet<&str> = text.lines().map(str::trim).collect();
    STATES.map(|(letter, _)| {
        let is_it = |line: &&&str| line.rsplit(':').next().is_some_and(|last| last.trim() == letter);
        lines.iter().filter(is_it).count() as u64
    })
}

/// For fuzzing.
pub(crate) fn check(text: &str) {
    let lines = text.lines().count() as u64;
    assert!(pages(text).iter().sum::<u64>() <= lines);
    counts(text);
    mask(text);
    for (row, _) in EVENTS {
        event_count(text, row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_by_their_word_in_any_order() {
        assert_eq!(counts("ue: 1\nce: 20\n"), Some([Some(20), Some(1), None]));
        assert_eq!(counts("ce: 2\nde: 3\nue: 0"), Some([Some(2), Some(0), Some(3)]));
        assert_eq!(counts("ue: 2097120\nce: 4\n"), Some([Some(4), None, None]));
    }

    #[test]
    fn a_driver_that_has_no_counts_now_has_no_zeros() {
        for text in ["Query currently inaccessible", "", "ue: -1\nce: x"] {
            assert_eq!(counts(text), None, "{text}");
        }
    }

    #[test]
    fn both_kinds_of_files_name_their_block() {
        assert_eq!(block_of("umc_err_count"), Some("umc"));
        assert_eq!(block_of("aca_xgmi_wafl"), Some("xgmi_wafl"));
        assert_eq!(block_of("features"), None);
    }

    #[test]
    fn a_block_that_was_not_read_is_read_again_sooner() {
        let mut ras = Ras::default();
        ras.blocks
            .insert("umc".to_owned(), Some([Some(0), Some(0), None]));
        assert_eq!(ras.interval(), SLOWLY);
        ras.blocks.insert("gfx".to_owned(), None);
        assert_eq!(ras.interval(), UNREAD);
    }

    #[test]
    fn events_and_pages_are_counted() {
        let text =
            "current seqno: 4\nFatal Error: count:0, last_seqno:0\nPoison Creation: count:3, last_seqno:4\n";
        assert_eq!(event_count(text, "Poison Creation"), Some(3));
        assert_eq!(event_count(text, "Poison Consumption"), None);
        let text = "0x00001234 : 0x00001000 : R\n0x00001235 : 0x00001000 : P\n0x00001236 : 0x00001000 : R\n";
        assert_eq!(pages(text), [2, 1, 0]);
        let repeated =
            "0x00001234 : 0x00001000 : R\n0x00001235 : 0x00001000 : R\n0x00001235 : 0x00001000 : R\n";
        assert_eq!(pages(repeated), [2, 0, 0]);
        assert_eq!(pages(""), [0; 3]);
        assert_eq!(mask("feature mask: 0xff007\n"), Some(0xF_F007));
    }
}
