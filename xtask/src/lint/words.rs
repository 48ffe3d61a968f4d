//! Prose: spelling, by `typos`, and words that readers who are not native speakers would not search for.

use std::path::Path;

use anyhow::{Context, Result};
use proc_macro2::{TokenStream, TokenTree};

use super::Report;
use crate::{cmd, deps};

/// Words and what to write in their place. A final `*` stands for any ending; a capital is meant as one.
const NOT: &[(&str, &str)] = &[
    ("a word of", "say what it is"),
    ("anew", "again"),
    ("by itself", "automatically"),
    ("for want of", "for lack of; by the OOM killer"),
    ("has to be there", "must exist"),
    ("heed*", "use, consider"),
    ("ill", "unhealthy, faulty"),
    ("it is of", "name the noun: the job, the time"),
    ("mend*", "correct, repair"),
    ("nobody", "unknown; name who does not"),
    ("readings running", "consecutive readings"),
    ("so long", "as long; give the time"),
    ("so many", "give the number"),
    ("so much", "give the amount"),
    ("somebody", "a user, an administrator, another program"),
    ("takes orders", "accepts requests"),
    ("tells", "reports, returns, shows"),
    ("there is none", "none exists; absent"),
    ("told", "reported, returned, told apart: distinguished"),
    ("What is", "name the subject"),
    ("whoever", "the user who, the program that"),
];

/// Where the words stand.
const SELF: &str = "xtask/src/lint/words.rs";
/// What pip calls it, with a built program for every platform that we build on.
const TYPOS: &str = "typos==1.52.0";

/// Spelling, of code too: identifiers are read as well.
///
/// # Errors
/// When `typos` cannot be installed or finds something.
pub(super) fn spelling() -> Result<()> {
    if cmd::exists("typos") {
        return cmd::run(&mut cmd::program("typos", &[]));
    }
    let folder = cmd::target_dir()?.join("typos");
    let typos = folder.join("bin/typos").display().to_string();
    if !Path::new(&typos).exists() {
        let venv = || cmd::run(cmd::program("python3", &["-m", "venv"]).arg(&folder));
        venv().or_else(|_| deps::install(&["python3-venv"]).and_then(|()| venv()))?;
        let pip = folder.join("bin/pip").display().to_string();
        cmd::run(&mut cmd::program(&pip, &["install", "--quiet", TYPOS]))
            .with_context(|| format!("`pip install {TYPOS}`"))?;
    }
    cmd::run(&mut cmd::program(&typos, &[]))
}

/// The words of [`NOT`] in documents, comments and strings.
///
/// # Errors
/// When a file cannot be read or is no Rust.
pub(super) fn check() -> Result<Report> {
    let mut report = Report::default();
    for file in cmd::files()? {
        let name = file.display().to_string();
        let Some(kind) = kind(&name) else {
            continue;
        };
        let text = std::fs::read_to_string(cmd::root().join(&file)).with_context(|| name.clone())?;
        let prose = match kind {
            Kind::Rust => prose(&text).with_context(|| name.clone())?,
            Kind::Document => text,
            Kind::Commented => hash_comments(&text),
        };
        let found = found(&prose).into_iter();
        report
            .problems
            .extend(found.map(|(word, better)| format!("{name}: `{word}`: {better}")));
    }
    Ok(report)
}

/// Where a file has prose.
enum Kind {
    Rust,
    Document,
    /// Comments start with `#`.
    Commented,
}

/// `None`: it has none, or prose of others.
fn kind(name: &str) -> Option<Kind> {
    let base = name.rsplit('/').next().unwrap_or(name);
    let (_, ending) = base.rsplit_once('.').unwrap_or((base, ""));
    let is_script = ending.is_empty() && (name.starts_with("packaging/") || name.starts_with("xtask/vm/"));
    match ending {
        _ if name.starts_with("fixtures/") || name == SELF => None,
        "rs" => Some(Kind::Rust),
        "md" => Some(Kind::Document),
        "example" | "py" | "service" | "sh" | "socket" | "sysusers" | "toml" | "yaml" | "yml" => {
            Some(Kind::Commented)
        }
        _ => is_script.then_some(Kind::Commented),
    }
}

/// The comments of scripts, units and configurations, a line each.
fn hash_comments(text: &str) -> String {
    let comments = text.lines().filter_map(|line| {
        let is_comment = |(at, _): &(usize, &str)| *at == 0 || line[..*at].ends_with(char::is_whitespace);
        let start = line.match_indices('#').find(is_comment)?.0;
        Some(&line[start..])
    });
    comments.collect::<Vec<_>>().join("\n")
}

/// Comments and strings with a blank in them, a line each.
fn prose(rust: &str) -> Result<String> {
    let comments = rust.lines().filter_map(|line| {
        let start = if line.trim_start().starts_with("//") {
            line.find("//")
        } else {
            line.find(" // ")
        };
        start.map(|start| line[start..].trim_matches(['/', '!', ' ']).to_owned())
    });
    let mut prose: Vec<String> = comments.collect();
    let tokens: TokenStream = rust.parse().map_err(|e| anyhow::anyhow!("{e}"))?;
    strings(tokens, &mut prose);
    Ok(prose.join("\n"))
}

fn strings(tokens: TokenStream, prose: &mut Vec<String>) {
    for tree in tokens {
        match tree {
            // Doc comments are attributes by now, and were taken as comments.
            TokenTree::Group(group) => {
                let is_doc = |tree: TokenTree| matches!(tree, TokenTree::Ident(word) if word == "doc");
                if !group.stream().into_iter().next().is_some_and(is_doc) {
                    strings(group.stream(), prose);
                }
            }
            TokenTree::Literal(literal) => {
                let text = literal.to_string();
                if text.contains('"') && text.contains(' ') {
                    prose.push(text.replace("\\n", "\n"));
                }
            }
            _ => {}
        }
    }
}

/// Each word that stands there, with what to write.
fn found(prose: &str) -> Vec<(&'static str, &'static str)> {
    // A phrase may be broken over two lines.
    let text: Vec<&str> = prose
        .split(|c: char| c.is_whitespace() || c == '`')
        .filter(|w| !w.is_empty())
        .collect();
    let is = |word: &str, wanted: &str| {
        let word = word.trim_matches(|c: char| !c.is_alphanumeric());
        let word = word.strip_suffix("'s").unwrap_or(word);
        match wanted.strip_suffix('*') {
            Some(start) => word
                .get(..start.len())
                .is_some_and(|s| s.eq_ignore_ascii_case(start)),
            None if wanted.starts_with(char::is_uppercase) => word == wanted,
            None => word.eq_ignore_ascii_case(wanted),
        }
    };
    let mut found = Vec::new();
    for (phrase, better) in NOT {
        let wanted: Vec<&str> = phrase.split(' ').collect();
        let here = text
            .windows(wanted.len())
            .filter(|words| words.iter().zip(&wanted).all(|(w, p)| is(w, p)));
        found.extend(here.map(|_| (*phrase, *better)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_in_prose_and_not_in_code() {
        let rust = concat!(
            "//! It is mended\n// by\nfn told() { let whoever = \"ill\"; } // told\n",
            "/// for want\n/// of it\nconst A: &str = \"so long ago\"; const B: &str = \"https://told\";\n",
        );
        let words: Vec<&str> = found(&prose(rust).unwrap())
            .iter()
            .map(|(word, _)| *word)
            .collect();
        assert_eq!(words, ["for want of", "mend*", "so long", "told"]);
        assert_eq!(found("What is it? what is it; still, until: (told)").len(), 2);
        assert_eq!(found("It is nobody's, (somebody's)").len(), 2, "possessives too");
    }

    #[test]
    fn comments_of_scripts_units_and_configurations_are_read() {
        let script = "#!/bin/sh\n# nobody's\nsu nobody -c 'echo $#' # it tells\nurl=http://a#told\n";
        let words: Vec<&str> = found(&hash_comments(script)).iter().map(|(w, _)| *w).collect();
        assert_eq!(words, ["nobody", "tells"]);
        for name in [
            "systemd/nodewarden.service",
            "packaging/deb/postinst",
            "deny.toml",
        ] {
            assert!(matches!(kind(name), Some(Kind::Commented)), "{name}");
        }
        assert!(kind("fixtures/a.toml").is_none() && kind("Cargo.lock").is_none());
    }
}
