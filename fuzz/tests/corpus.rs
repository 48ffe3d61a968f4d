//! Replays every corpus on stable Rust. What the search once found is kept there as a file.

use std::collections::BTreeSet;
use std::path::Path;

/// One folder per target, beside the other fixtures.
const CORPUS: &str = "../fixtures/fuzz";

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
fn every_corpus_has_a_target() {
    let targets = nodewarden_fuzz::TARGETS
        .iter()
        .map(|(name, _)| (*name).to_owned());
    let corpora = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(CORPUS)).unwrap();
    let corpora = corpora.map(|e| e.unwrap().file_name().into_string().unwrap());
    assert_eq!(targets.collect::<BTreeSet<_>>(), corpora.collect());
}
