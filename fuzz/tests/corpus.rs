//! Replays every corpus on stable Rust. What the search once found is kept there as a file.

use std::collections::BTreeSet;
use std::path::Path;

/// One folder per target, beside the other fixtures.
const CORPUS: &str = "../fixtures/fuzz";

fn names(folder: &str) -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let entries = std::fs::read_dir(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let name = |e: std::fs::DirEntry| e.path().file_stem().unwrap().to_str().unwrap().to_owned();
    entries.map(|e| name(e.unwrap())).collect()
}

#[test]
fn every_target_survives_its_corpus() {
    for (name, target) in nodewarden_fuzz::TARGETS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(CORPUS).join(name);
        let mut inputs = 0;
        for entry in std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
            let path = entry.unwrap().path();
            println!("{}", path.display());
            target(&std::fs::read(&path).unwrap());
            inputs += 1;
        }
        assert!(inputs > 0, "{name} has an empty corpus");
    }
}

#[test]
fn targets_binaries_and_corpora_are_the_same_names() {
    let targets: BTreeSet<String> = nodewarden_fuzz::TARGETS
        .iter()
        .map(|(n, _)| (*n).to_owned())
        .collect();
    assert_eq!(targets, names("fuzz_targets"));
    assert_eq!(targets, names(CORPUS));
}
