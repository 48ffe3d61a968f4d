//! Replays every corpus on stable Rust, cut and changed in ways that are the same in every run. What the search once found is
//! kept there as a file.

use std::collections::BTreeSet;
use std::path::Path;

use nodewarden_fuzz::Target;

/// One folder per target, beside the other fixtures.
const CORPUS: &str = "../fixtures/fuzz";

/// Most cuts of a seed: each of a short one.
const CUTS: usize = 1000;
/// Changed copies of a seed.
const MUTATIONS: u32 = 400;

/// A small generator of its own, so that a failure can be repeated anywhere.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 11).unwrap() % end.max(1)
    }
}

fn mutate(bytes: &mut Vec<u8>, numbers: &mut Numbers, other: &[u8]) {
    const TOKENS: [&[u8]; 16] = [
        b"NVRM: Xid (",
        b"PCI:",
        b"):",
        b": ",
        b"\\x",
        b"(",
        b")",
        b"0x",
        b"-1",
        b"99999999999999999999",
        b" Fatal ",
        b"\n",
        b"=",
        b",",
        b"\"",
        b"[",
    ];
    let at = numbers.below(bytes.len() + 1);
    match numbers.below(6) {
        0 => bytes.truncate(at),
        1 => bytes.insert(at, u8::try_from(numbers.below(256)).unwrap()),
        2 if at < bytes.len() => bytes[at] ^= 1 << numbers.below(8),
        3 if at < bytes.len() => drop(bytes.remove(at)),
        4 => drop(bytes.splice(at..at, TOKENS[numbers.below(TOKENS.len())].iter().copied())),
        _ => bytes.extend_from_slice(&other[numbers.below(other.len())..]),
    }
}

fn replay(target: Target, seeds: &[Vec<u8>]) {
    let mut numbers = Numbers(0x2545_f491_4f6c_dd1d);
    for seed in seeds {
        target(seed);
        for end in (0..seed.len()).step_by(seed.len() / CUTS + 1) {
            target(&seed[..end]);
        }
        for _ in 0..MUTATIONS {
            let mut bytes = seed.clone();
            for _ in 0..=numbers.below(4) {
                let other = numbers.below(seeds.len());
                mutate(&mut bytes, &mut numbers, &seeds[other]);
            }
            target(&bytes);
        }
    }
}

#[test]
fn every_target_survives_its_corpus() {
    for (name, target) in nodewarden_fuzz::TARGETS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(CORPUS).join(name);
        let entries = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
        let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        assert!(!paths.is_empty(), "{name} has an empty corpus");
        println!("{name}: {} files", paths.len());
        let seeds: Vec<Vec<u8>> = paths.iter().map(|path| std::fs::read(path).unwrap()).collect();
        replay(*target, &seeds);
    }
}

#[test]
fn every_corpus_has_a_target() {
    let targets = nodewarden_fuzz::TARGETS
        .iter()
        .map(|(name, _)| (*name).to_owned());
    let corpora = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(CORPUS)).unwrap();
    let corpora = corpora.map(|e| e.unwrap().file_name().into_string().unwrap());
    assert_eq!(targets.collect::<BTreeSet<_>>(), corpora.collect());
}
