//! Gives every build its own id, so that a worker started from a replaced binary is noticed.

use std::time::{SystemTime, UNIX_EPOCH};

fn main() {
    // A reproducible build sets SOURCE_DATE_EPOCH; its version distinguishes it.
    let stamp = std::env::var("SOURCE_DATE_EPOCH").unwrap_or_else(|_| {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |d| d.as_secs())
            .to_string()
    });
    println!("cargo:rustc-env=NODEWARDEN_BUILD={stamp}");
    println!("cargo:rerun-if-env-changed=SOURCE_DATE_EPOCH");
    for source in [
        "src",
        "exposition/src",
        "health/src",
        "model/src",
        "slurm/src",
        "sys/src",
        "../collectors/src",
    ] {
        println!("cargo:rerun-if-changed={source}");
    }
}
