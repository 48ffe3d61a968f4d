//! Places that depend on the vendor of a GPU. Outside the collectors, each has a reason: everything else uses the rows of
//! `collectors/src/device_files.rs` and the metrics that all vendors share.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use proc_macro2::{TokenStream, TokenTree};

use super::Report;
use crate::cmd;

/// The files, and why they name a vendor. Files about Xids, which only NVIDIA has, need no row.
const DECLARED: &[(&str, &str)] = &[
    (
        "agent/health/src/checks/gpu_application_errors.rs",
        "the command that tests a GPU after Xids",
    ),
    (
        "agent/health/src/checks/gpu_driver_unusable.rs",
        "a check of NVIDIA's library; AMD GPUs need none",
    ),
    (
        "agent/health/src/checks/gpu_memory_held.rs",
        "NVLink-C2C, which only NVIDIA has",
    ),
    (
        "agent/health/src/checks/gpu_nvlink.rs",
        "NVLink and XGMI have metrics of their own",
    ),
    (
        "agent/health/src/reads/gpu_process.rs",
        "names of vendors' services",
    ),
    ("agent/health/src/checks/gpu_setup.rs", "the fabric of NVSwitches"),
    ("agent/health/src/checks/gpu_stalled.rs", "traffic on NVLink"),
    (
        "agent/health/src/checks/kernel_lines.rs",
        "lines of the driver amdgpu are not proven",
    ),
    (
        "agent/health/src/profile.rs",
        "kernel modules, and the number of NVLinks",
    ),
    (
        "agent/health/src/reads/links.rs",
        "NVLink, whose links recover one by one",
    ),
    ("agent/src/cli/help.rs", "examples of `nodewarden release`"),
    (
        "agent/src/cli/status/show/gpus.rs",
        "a product's name without NVIDIA's",
    ),
    (
        "agent/src/cli/why/steps.rs",
        "each vendor's command that resets a GPU",
    ),
    ("agent/src/config/keys.rs", "an example of a kernel module"),
    ("agent/src/config/profile.rs", "the number of NVLinks"),
    ("agent/src/own.rs", "the page of AMD's exporter"),
    ("agent/src/own/amd.rs", "the page of AMD's exporter"),
    ("agent/src/own/dcgm.rs", "the page of NVIDIA's exporter"),
    (
        "agent/src/own/metrics.rs",
        "SXids, and the terms of nvidia-smi topo",
    ),
    (
        "agent/sys/src/forbidden.rs",
        "rights of the worker that runs NVIDIA's library",
    ),
    (
        "agent/sys/src/seccomp/policy.rs",
        "rights of the worker that runs NVIDIA's library",
    ),
];

/// Whether a file is read: code of the daemon that is no test.
fn is_read(name: &str) -> bool {
    let is_code = name.starts_with("agent/") && name.contains("src/") && name.ends_with(".rs");
    let base = name.rsplit('/').next().unwrap_or(name);
    let is_test = name.contains("/tests") || name.contains("/matrix") || name.contains("/sample");
    is_code && !is_test && !name.contains("/xid/") && !matches!(base, "xid.rs" | "xids.rs" | "tests.rs")
}

/// Compares the places with the declared ones, and prints each.
///
/// # Errors
/// When a file cannot be read or is no Rust.
pub(super) fn check() -> Result<Report> {
    let mut found = BTreeMap::new();
    for file in cmd::files()? {
        let name = file.display().to_string();
        if !is_read(&name) {
            continue;
        }
        let text = std::fs::read_to_string(cmd::root().join(&file)).with_context(|| name.clone())?;
        let tokens: TokenStream = text.parse().map_err(|e| anyhow::anyhow!("{name}: {e}"))?;
        let count = places(tokens);
        if count > 0 {
            found.insert(name, count);
        }
    }
    Ok(compared(DECLARED, &found))
}

fn compared(declared: &[(&str, &str)], found: &BTreeMap<String, usize>) -> Report {
    let mut report = Report::default();
    for (name, count) in found {
        match declared.iter().find(|(file, _)| file == name) {
            Some((_, why)) => report
                .remarks
                .push(format!("{name}: names a GPU vendor {count} times: {why}")),
            None => report.problems.push(format!(
                "{name}: names a GPU vendor {count} times; use a row of collectors/src/device_files.rs or a shared metric, or \
                 declare the file in xtask/src/lint/vendors.rs"
            )),
        }
    }
    let gone = declared.iter().filter(|(file, _)| !found.contains_key(*file));
    report.problems.extend(
        gone.map(|(file, _)| format!("{file}: declared in xtask/src/lint/vendors.rs, names no GPU vendor")),
    );
    report
}

/// The number of names and strings of a vendor, without tests and documentation.
fn places(tokens: TokenStream) -> usize {
    let mut count = 0;
    let mut is_test = false;
    let mut after_hash = false;
    for tree in tokens {
        let follows_hash = std::mem::take(&mut after_hash);
        match tree {
            TokenTree::Punct(mark) if mark.as_char() == '#' => after_hash = true,
            TokenTree::Punct(mark) => {
                // `#![...]` is an attribute too.
                after_hash = follows_hash && mark.as_char() == '!';
                // The end of an item, of a field or of an arm.
                is_test &= !matches!(mark.as_char(), ';' | ',');
            }
            TokenTree::Group(group) if follows_hash => {
                let text = group.stream().to_string().replace(' ', "");
                is_test |= text == "cfg(test)";
                if !is_test && !["doc", "command(", "arg("].iter().any(|of| text.starts_with(of)) {
                    count += places(group.stream());
                }
            }
            TokenTree::Group(group) if is_test => {
                is_test = group.delimiter() != proc_macro2::Delimiter::Brace;
            }
            TokenTree::Group(group) => count += places(group.stream()),
            TokenTree::Ident(name) if !is_test => count += usize::from(is_name(&name.to_string())),
            TokenTree::Literal(literal) if !is_test => count += usize::from(is_text(&literal.to_string())),
            TokenTree::Ident(_) | TokenTree::Literal(_) => {}
        }
    }
    count
}

/// Also names like `NvidiaGpu`.
fn is_name(name: &str) -> bool {
    let mut words = name.split('_');
    words.any(|word| {
        let is_amd = word.eq_ignore_ascii_case("amd") || word.starts_with("Amd");
        let word = word.to_ascii_lowercase();
        is_amd || word.contains("nvidia") || word.contains("amdgpu")
    })
}

/// Texts for people write the vendors in capitals, among other words.
fn is_text(literal: &str) -> bool {
    let text = literal.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    let is_alone = text.eq_ignore_ascii_case("nvidia") || text.eq_ignore_ascii_case("amd");
    is_alone || literal.contains("nvidia") || literal.contains("amdgpu")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_strings_count_and_tests_and_texts_do_not() {
        let rust = "//! nvidia\nuse collectors::nvidia::metrics;\n/// amd\nfn is_amd() -> &'static str { \"amdgpu\" }\n\
                    const TEXT: &str = \"An NVIDIA or AMD GPU\"; const LOADED: u8 = 1;\n\
                    #[cfg(test)]\nfn of_test() { nvidia(\"nvidia\") }\n#[cfg(test)] mod nvidia;\nconst AMD: &str = \"amd\";\n";
        assert_eq!(places(rust.parse().unwrap()), 5);
        for (rust, count) in [
            ("fn f(name: &str) { name.strip_prefix(\"NVIDIA \"); }", 1),
            ("struct NvidiaGpu; enum E { AmdGpu, Loaded }", 2),
            ("struct S { #[serde(rename = \"nvidia\")] a: u8 }", 1),
            ("struct S { #[cfg(test)] nvidia: u8, amd: u8 }", 1),
        ] {
            assert_eq!(places(rust.parse().unwrap()), count, "{rust}");
        }
        assert_eq!(
            places(
                "mod a { #[cfg(test)] mod tests { fn nvidia() {} } }"
                    .parse()
                    .unwrap()
            ),
            0
        );
    }

    #[test]
    fn a_place_without_a_row_and_a_row_without_a_place_are_problems() {
        let found = BTreeMap::from([("a.rs".to_owned(), 2), ("b.rs".to_owned(), 1)]);
        let report = compared(&[("a.rs", "why"), ("c.rs", "why")], &found);
        assert_eq!(report.remarks.len(), 1);
        assert_eq!(report.problems.len(), 2);
        assert!(report.problems[0].starts_with("b.rs:") && report.problems[1].starts_with("c.rs:"));
    }

    #[test]
    fn code_of_the_daemon_is_read_and_tests_and_xids_are_not() {
        assert!(is_read("agent/src/own/dcgm.rs") && is_read("agent/model/src/ownership/mod.rs"));
        for name in [
            "agent/tests/amd/jobs.rs",
            "agent/model/src/ownership/tests.rs",
            "agent/health/src/engine/tests/gpus.rs",
            "agent/health/src/checks/xid.rs",
            "collectors/src/nvidia/mod.rs",
        ] {
            assert!(!is_read(name), "{name}");
        }
    }
}
