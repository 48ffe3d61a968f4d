//! libFuzzer on the target that the environment names.
#![no_main]

use std::sync::LazyLock;

use nodewarden_fuzz::{TARGETS, Target};

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let wanted = std::env::var("FUZZ_TARGET").expect("FUZZ_TARGET names a target");
    let found = TARGETS.iter().find(|(name, _)| *name == wanted);
    found
        .unwrap_or_else(|| panic!("FUZZ_TARGET: no target `{wanted}`"))
        .1
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| TARGET(data));
