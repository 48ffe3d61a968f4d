//! Instructions for a page and for a frame, counted by callgrind and compared with xtask/instructions.toml. The counts
//! do not depend on the load of the machine.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::cmd;

const BASELINE: &str = "xtask/instructions.toml";

/// The measured tasks: arguments of `agent/examples/instructions.rs`.
const WORKS: &[&str] = &["page", "core", "detail", "frame"];

/// Greatest share of the instructions of a page of tier detail that one of tier core may need.
const CORE_OF_DETAIL: f64 = 0.85;

/// Repetitions in the longer and in the shorter run. Their difference excludes the start and the first repetition.
const MANY: u64 = 60;
const FEW: u64 = 10;

/// Allowed change in percent: hash seeds and the C library's choice of routines cause small changes.
const MAY: u64 = 3;

/// Counts the instructions, and compares them or writes them.
///
/// # Errors
/// When a count has changed by more than allowed, in either direction.
pub(super) fn run(bless: bool) -> Result<()> {
    cmd::run(&mut cmd::cargo(&[
        "build",
        "--locked",
        "--profile=ci",
        "--package=nodewarden",
        // As the tests have built the library.
        "--features=testing",
        "--example=instructions",
    ]))?;
    let program = cmd::target_dir()?.join("ci/examples/instructions");
    let dir = tempfile::tempdir()?;
    let mut now = BTreeMap::new();
    for work in WORKS {
        let count = |rounds| count(&program, work, rounds, dir.path());
        let each = (count(MANY)? - count(FEW)?) / (MANY - FEW);
        println!("{work}: {each} instructions");
        now.insert((*work).to_owned(), each);
    }
    if let Some(share) = core_of_detail(&now) {
        println!("core: {share:.2} of detail");
        if share > CORE_OF_DETAIL {
            bail!("core: {share:.2} of detail, expected at most {CORE_OF_DETAIL}");
        }
    }
    let file = cmd::root().join(BASELINE);
    let text = std::fs::read_to_string(&file).unwrap_or_default();
    let mut all: BTreeMap<String, BTreeMap<String, u64>> = toml::from_str(&text).context(BASELINE)?;
    let architecture = std::env::consts::ARCH.to_owned();
    if bless {
        all.insert(architecture, now);
        std::fs::write(&file, written(&all)?)?;
        return Ok(());
    }
    let then = all.get(&architecture).cloned().unwrap_or_default();
    let moved = moved(&then, &now);
    if !moved.is_empty() {
        bail!(
            "{}\nif the change is intended: cargo xtask bench instructions --bless",
            moved.join("\n")
        );
    }
    Ok(())
}

fn count(program: &Path, work: &str, rounds: u64, dir: &Path) -> Result<u64> {
    let out = dir.join("callgrind");
    let mut command = cmd::program("valgrind", &["-q", "--tool=callgrind"]);
    command.arg(format!("--callgrind-out-file={}", out.display()));
    // Without these settings, libc's memory copies depend on the processor's widest registers.
    command.env(
        "GLIBC_TUNABLES",
        "glibc.cpu.hwcaps=-AVX,-AVX2,-AVX512F,-AVX512VL,-ERMS,-FSRM",
    );
    cmd::run(command.arg(program).args([work, &rounds.to_string()]))?;
    let text = std::fs::read_to_string(&out).context("callgrind wrote nothing")?;
    let total = text.lines().find_map(|l| l.strip_prefix("totals:"));
    Ok(total.context("callgrind wrote no totals")?.trim().parse()?)
}

fn core_of_detail(now: &BTreeMap<String, u64>) -> Option<f64> {
    Some(*now.get("core")? as f64 / *now.get("detail")? as f64)
}

fn moved(then: &BTreeMap<String, u64>, now: &BTreeMap<String, u64>) -> Vec<String> {
    let judge = |(work, now): (&String, &u64)| match then.get(work) {
        None => Some(format!("{work}: {now} instructions, but {BASELINE} has no entry")),
        Some(then) => (now.abs_diff(*then) * 100 > then * MAY)
            .then(|| format!("{work}: {now} instructions, expected {then} +/- {MAY} %")),
    };
    now.iter().filter_map(judge).collect()
}

fn written(all: &BTreeMap<String, BTreeMap<String, u64>>) -> Result<String> {
    let mut text = "# Instructions that callgrind counts, profile ci, pinned toolchain, Debian 12.\n\
                    # Written by `cargo xtask bench instructions --bless`.\n"
        .to_owned();
    for (architecture, works) in all {
        writeln!(text, "\n[{architecture}]")?;
        for (work, count) in works {
            writeln!(text, "{work} = {count}")?;
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(page: u64) -> BTreeMap<String, u64> {
        BTreeMap::from([("page".to_owned(), page)])
    }

    #[test]
    fn a_count_may_move_three_percent_either_way() {
        let then = counts(100_000);
        for (now, faults) in [(100_000, 0), (103_000, 0), (103_001, 1), (97_000, 0), (96_999, 1)] {
            assert_eq!(moved(&then, &counts(now)).len(), faults, "{now}");
        }
        assert_eq!(moved(&BTreeMap::new(), &then).len(), 1);
    }

    #[test]
    fn a_core_page_is_compared_with_a_detail_page() {
        let now = BTreeMap::from([("core".to_owned(), 17), ("detail".to_owned(), 20)]);
        assert_eq!(core_of_detail(&now), Some(CORE_OF_DETAIL));
        assert_eq!(core_of_detail(&counts(1)), None);
    }

    #[test]
    fn what_is_blessed_is_read_back() {
        let all = BTreeMap::from([("x86_64".to_owned(), counts(7))]);
        let back: BTreeMap<String, BTreeMap<String, u64>> = toml::from_str(&written(&all).unwrap()).unwrap();
        assert_eq!(back, all);
    }
}
