//! The clippy.toml of each pure crate: the root's, and what a crate without I/O, clock and threads never calls. Clippy
//! reads the nearest one alone.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result, bail};
use syn::{ImplItem, Item, Type, Visibility};

use crate::cmd;
use crate::lint::{layers, tree};

const HEAD: &str =
    "# Made by `cargo xtask docs` from clippy.toml of the root and xtask/src/bans.rs; do not edit.\n";
const REASON: &str = "a pure crate does no I/O, reads no clock and starts no thread";

const METHODS: &str = "disallowed-methods";
const TYPES: &str = "disallowed-types";

/// Paths that are banned, by the key of clippy.toml: a prefix, and words that are put after it.
const BANNED: &[(&str, &str, &str)] = &[
    ("disallowed-macros", "std::", "dbg eprint eprintln print println"),
    (
        METHODS,
        "std::fs::",
        "canonicalize copy create_dir create_dir_all exists hard_link metadata read read_dir read_link read_to_string \
         remove_dir remove_dir_all remove_file rename set_permissions symlink_metadata write",
    ),
    (
        METHODS,
        "std::path::Path::",
        "canonicalize exists is_dir is_file is_symlink metadata read_dir read_link symlink_metadata try_exists",
    ),
    (METHODS, "std::process::", "abort exit id"),
    (
        METHODS,
        "std::env::",
        "args args_os current_dir current_exe remove_var set_current_dir set_var temp_dir var var_os vars vars_os",
    ),
    (
        METHODS,
        "std::time::",
        "Instant::elapsed Instant::now SystemTime::elapsed SystemTime::now",
    ),
    (METHODS, "std::thread::", "current park scope sleep spawn"),
    (METHODS, "std::io::", "stderr stdin stdout"),
    (METHODS, "std::net::", "ToSocketAddrs::to_socket_addrs"),
    (TYPES, "std::fs::", "DirBuilder File OpenOptions"),
    (TYPES, "std::process::", "Child Command"),
    (TYPES, "std::net::", "TcpListener TcpStream UdpSocket"),
    (
        TYPES,
        "std::os::unix::net::",
        "UnixDatagram UnixListener UnixStream",
    ),
    (TYPES, "std::thread::", "Builder JoinHandle"),
    (TYPES, "std::hash::", "RandomState"),
];

/// The modules of the collectors that read the node; the others contain data.
const READERS: &[&str] = &["env", "runner", "sys"];

/// By key: every path with its reason.
type Bans = BTreeMap<String, BTreeMap<String, String>>;

/// Writes the files; with `check`, fails if one differs.
///
/// # Errors
/// When a crate is missing, or a file is out of date.
pub(crate) fn run(check: bool) -> Result<()> {
    let root = std::fs::read_to_string(cmd::root().join("clippy.toml")).context("clippy.toml")?;
    let text = text(&root, &readers(&cmd::root().join("collectors/src/lib.rs"))?)?;
    for folder in layers::pure()? {
        let file = folder.join("clippy.toml");
        if !check {
            std::fs::write(&file, &text)?;
        } else if std::fs::read_to_string(&file).ok().as_ref() != Some(&text) {
            bail!("{}: out of date; run `cargo xtask docs`", file.display());
        }
    }
    Ok(())
}

fn text(root: &str, readers: &BTreeSet<(&'static str, String)>) -> Result<String> {
    let root: toml::Table = root.parse().context("clippy.toml")?;
    let mut out = HEAD.to_owned();
    let mut bans = Bans::new();
    let ours = BANNED.iter().flat_map(|(key, prefix, words)| {
        words
            .split_whitespace()
            .map(move |word| (*key, format!("{prefix}{word}")))
    });
    for (key, path) in ours.chain(readers.iter().cloned()) {
        bans.entry(key.to_owned())
            .or_default()
            .insert(path, REASON.to_owned());
    }
    for (key, value) in root {
        if !key.starts_with("disallowed-") {
            out += &format!("{key} = {value}\n");
            continue;
        }
        let rows: Vec<BTreeMap<String, String>> = value.try_into().with_context(|| key.clone())?;
        for row in rows {
            let word = |name: &str| {
                row.get(name)
                    .cloned()
                    .with_context(|| format!("{key}: a row without {name}"))
            };
            bans.entry(key.clone())
                .or_default()
                .entry(word("path")?)
                .or_insert(word("reason")?);
        }
    }
    for (key, paths) in bans {
        let rows = paths
            .iter()
            .map(|(path, reason)| format!("    {{ path = {path:?}, reason = {reason:?} }},\n"));
        out += &format!("{key} = [\n{}]\n", rows.collect::<String>());
    }
    Ok(out)
}

/// The public functions of [`READERS`], and their types that do something.
fn readers(root_file: &Path) -> Result<BTreeSet<(&'static str, String)>> {
    let mut found = BTreeSet::new();
    for module in tree::modules(root_file)? {
        if !module.is_public || !module.path.first().is_some_and(|m| READERS.contains(&m.as_str())) {
            continue;
        }
        let path = |name: String| format!("collectors::{}::{name}", module.path.join("::"));
        let is_public = |visibility: &Visibility| matches!(visibility, Visibility::Public(_));
        found.extend(module.items.iter().filter_map(|item| match item {
            Item::Fn(f) if is_public(&f.vis) => Some((METHODS, path(f.sig.ident.to_string()))),
            Item::Impl(block) if block.trait_.is_none() => {
                let does = |i: &ImplItem| matches!(i, ImplItem::Fn(f) if is_public(&f.vis));
                let Type::Path(of) = &*block.self_ty else {
                    return None;
                };
                let name = of.path.segments.last()?.ident.to_string();
                block.items.iter().any(does).then(|| (TYPES, path(name)))
            }
            _ => None,
        }));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bans_of_the_root_are_kept_with_their_reasons() {
        let root = "a = true\ndisallowed-methods = [{ path = \"x::y\", reason = \"z\" }]\n";
        let text = text(
            root,
            &BTreeSet::from([(TYPES, "collectors::env::Env".to_owned())]),
        )
        .unwrap();
        let table: toml::Table = text.parse().unwrap();
        assert_eq!(table["a"], toml::Value::Boolean(true));
        assert!(text.contains("{ path = \"x::y\", reason = \"z\" }"), "{text}");
        for path in ["std::fs::read", "std::time::Instant::now", "collectors::env::Env"] {
            assert!(
                text.contains(&format!("{{ path = {path:?}, reason = {REASON:?} }}")),
                "{text}"
            );
        }
    }

    #[test]
    fn functions_that_read_the_node_are_found() {
        let found = readers(&cmd::root().join("collectors/src/lib.rs")).unwrap();
        for (key, name) in [
            (METHODS, "collectors::sys::root::read_text"),
            (TYPES, "collectors::env::Env"),
            (TYPES, "collectors::runner::Runner"),
        ] {
            assert!(found.contains(&(key, name.to_owned())), "{name}: {found:?}");
        }
        assert!(!found.iter().any(|(_, name)| name.ends_with("::Task")));
    }
}
