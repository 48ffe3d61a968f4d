//! A tree of small files as one text, so that a recorded node can be reviewed in one file.
//!
//! One entry a line; paths are relative to the tree's root, a line that begins with `#` is a comment:
//!
//! ```text
//! sys/class/infiniband/mlx5_0/ports/1/state = 4: ACTIVE
//! sys/class/infiniband/mlx5_0/device -> ../../devices/pci0000:00/0000:18:00.0
//! sys/class/net/
//! proc/cpuinfo <<END
//! processor : 0
//! END
//! sys/bus/pci/devices/0000:18:00.0/config = hex:15b31021
//! sys/class/net/ib0 !
//! ```
//!
//! `=` writes the text and a line feed, `= hex:` bytes, `<<WORD` the lines up to `WORD`, `->` a symbolic link, a path
//! that ends in `/` a folder, and `!` removes the path. Files are written in place: a reader with an open descriptor
//! sees the new text, as with sysfs.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, bail};

/// One entry of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A file with these bytes.
    File(Vec<u8>),
    /// A symbolic link to this target.
    Link(String),
    /// A folder.
    Folder,
    /// The path is removed.
    Removed,
}

/// Reads a tree's text: paths and entries in order. `name` is the file, for errors.
///
/// # Errors
/// The line that cannot be read, with what was expected.
pub fn parse(name: &str, text: &str) -> Result<Vec<(String, Entry)>> {
    let mut entries = Vec::new();
    let mut lines = text.lines().zip(1..);
    while let Some((line, number)) = lines.next() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let place = || format!("{name}:{number}: {line:?}");
        let (path, entry) = if let Some((path, word)) = line.split_once(" <<") {
            let mut content = String::new();
            loop {
                let (next, _) = lines
                    .next()
                    .with_context(|| format!("{}: no line {word}", place()))?;
                if next == word {
                    break;
                }
                content.push_str(next);
                content.push('\n');
            }
            (path, Entry::File(content.into_bytes()))
        } else if let Some((path, hex)) = line.split_once(" = hex:") {
            (path, Entry::File(bytes(hex).with_context(place)?))
        } else if let Some((path, text)) = line.split_once(" = ") {
            (path, Entry::File(format!("{text}\n").into_bytes()))
        } else if let Some(path) = line.strip_suffix(" =") {
            (path, Entry::File(Vec::new()))
        } else if let Some((path, target)) = line.split_once(" -> ") {
            (path, Entry::Link(target.to_owned()))
        } else if let Some(path) = line.strip_suffix(" !") {
            (path, Entry::Removed)
        } else if let Some(path) = line.strip_suffix('/') {
            (path, Entry::Folder)
        } else {
            bail!(
                "{}: expected `path = text`, `path <<WORD`, `path -> target`, `path/` or `path !`",
                place()
            );
        };
        let plain = Path::new(path)
            .components()
            .all(|c| matches!(c, Component::Normal(_)));
        if path.is_empty() || !plain {
            bail!("{}: expected a path below the tree's root", place());
        }
        entries.push((path.to_owned(), entry));
    }
    Ok(entries)
}

fn bytes(hex: &str) -> Result<Vec<u8>> {
    let digits = hex.as_bytes();
    if !digits.len().is_multiple_of(2) {
        bail!("expected an even number of hexadecimal digits");
    }
    let byte = |pair: &[u8]| Ok(u8::from_str_radix(std::str::from_utf8(pair)?, 16)?);
    digits.chunks(2).map(byte).collect()
}

/// Applies a tree's text to a folder.
///
/// # Errors
/// A line that cannot be read, or a file that cannot be written.
pub fn lay(file: &Path, over: &Path) -> Result<()> {
    let name = file.display().to_string();
    let text = fs::read_to_string(file).with_context(|| name.clone())?;
    for (path, entry) in parse(&name, &text)? {
        put(&over.join(&path), &entry).with_context(|| format!("{name}: {path}"))?;
    }
    Ok(())
}

/// Unpacks a case: its `root.tree` becomes the folder `root`, its other files are copied beside it. The steps stay.
///
/// # Errors
/// A line that cannot be read, or a file that cannot be written.
pub fn unpack(case: &Path, to: &Path) -> Result<()> {
    folders(&to.join("root"))?;
    for entry in fs::read_dir(case).with_context(|| case.display().to_string())? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default();
        if name == "root.tree" {
            lay(&path, &to.join("root"))?;
        } else if path.is_file() {
            put(&to.join(name), &Entry::File(fs::read(&path)?))?;
        }
    }
    Ok(())
}

/// Applies a step of a case to its unpacked folder: its files to `root`; its netlink answers (`steps/<n>.netlink`)
/// are appended.
///
/// # Errors
/// A line that cannot be read, or a file that cannot be written.
pub fn lay_step(step: &Path, case: &Path) -> Result<()> {
    lay(step, &case.join("root"))?;
    answer(&step.with_extension("netlink"), case)
}

/// Appends netlink answers to the existing ones. A missing file adds none.
///
/// # Errors
/// A file that cannot be read or written.
pub fn answer(file: &Path, case: &Path) -> Result<()> {
    if !file.is_file() {
        return Ok(());
    }
    let text = fs::read(file).with_context(|| file.display().to_string())?;
    let mut all = OpenOptions::new()
        .append(true)
        .create(true)
        .open(case.join("netlink"))?;
    // In one write, so that no reader sees a part of it.
    all.write_all(&text)?;
    Ok(())
}

/// The files `steps/<n>.tree` of a case, by number. Empty if the folder is missing.
///
/// # Errors
/// A folder that cannot be listed, or a file in it with another name.
pub fn steps(case: &Path) -> Result<Vec<PathBuf>> {
    let folder = case.join("steps");
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(&folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "netlink") && path.with_extension("tree").is_file() {
            continue;
        }
        let number = path.extension().filter(|e| *e == "tree").and(path.file_stem());
        let number: u64 = number.and_then(|n| n.to_str()?.parse().ok()).with_context(|| {
            format!(
                "{}: expected `<number>.tree`, optionally with `<number>.netlink`",
                path.display()
            )
        })?;
        found.push((number, path));
    }
    found.sort();
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

/// Writes one entry, readable by all users as in sysfs.
///
/// # Errors
/// The kernel's error.
pub fn put(path: &Path, entry: &Entry) -> Result<()> {
    if let Some(parent) = path.parent() {
        folders(parent)?;
    }
    let there = fs::symlink_metadata(path);
    match entry {
        Entry::Folder => folders(path)?,
        Entry::File(content) => {
            // Truncated only afterwards: a reader must not find it empty.
            let mut file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(false)
                .open(path)?;
            file.write_all(content)?;
            file.set_len(content.len() as u64)?;
            file.set_permissions(fs::Permissions::from_mode(0o644))?;
        }
        Entry::Link(target) => {
            if there.is_ok() {
                fs::remove_file(path)?;
            }
            symlink(target, path)?;
        }
        Entry::Removed => match there {
            Ok(kind) if kind.is_dir() => fs::remove_dir_all(path)?,
            Ok(_) => fs::remove_file(path)?,
            Err(_) => {}
        },
    }
    Ok(())
}

fn folders(path: &Path) -> Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        folders(parent)?;
    }
    fs::create_dir(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_entry() {
        let text = "# a comment\n\na/b = 4: ACTIVE\na/l -> ../b\nf/\nm <<END\none\ntwo\nEND\nx = hex:00ff\ne =\ng !\n";
        let file = |t: &str| Entry::File(t.as_bytes().to_vec());
        let expected = [
            ("a/b", file("4: ACTIVE\n")),
            ("a/l", Entry::Link("../b".to_owned())),
            ("f", Entry::Folder),
            ("m", file("one\ntwo\n")),
            ("x", Entry::File(vec![0, 255])),
            ("e", file("")),
            ("g", Entry::Removed),
        ];
        let found = parse("t", text).unwrap();
        assert_eq!(found, expected.map(|(p, e)| (p.to_owned(), e)));
    }

    #[test]
    fn an_error_names_file_and_line() {
        for (text, part) in [
            ("a = 1\nb\n", "t:2: \"b\": expected"),
            ("../a = 1\n", "t:1: \"../a = 1\": expected a path below"),
            ("/a = 1\n", "t:1"),
            ("a <<END\nb\n", "t:1: \"a <<END\": no line END"),
            ("a = hex:0\n", "t:1"),
        ] {
            let error = format!("{:#}", parse("t", text).unwrap_err());
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn a_step_adds_its_answers_of_netlink_to_those_of_the_case() {
        let dir = tempfile::tempdir().unwrap();
        let (case, to) = (dir.path().join("case"), dir.path().join("to"));
        fs::create_dir_all(case.join("steps")).unwrap();
        for (file, text) in [
            ("root.tree", "a = 1\n"),
            ("netlink", "> rdma 1 1\n"),
            ("steps/1.tree", "a = 2\n"),
            ("steps/1.netlink", "> rdma 2 2\n"),
            ("steps/2.tree", "a = 3\n"),
        ] {
            fs::write(case.join(file), text).unwrap();
        }
        fs::create_dir(&to).unwrap();
        unpack(&case, &to).unwrap();
        let found = steps(&case).unwrap();
        assert_eq!(found.len(), 2);
        for step in found {
            lay_step(&step, &to).unwrap();
        }
        let text = |file| fs::read_to_string(to.join(file)).unwrap();
        assert_eq!(
            (text("root/a"), text("netlink")),
            ("3\n".into(), "> rdma 1 1\n> rdma 2 2\n".into())
        );
        fs::write(case.join("steps/3.netlink"), "").unwrap();
        assert!(steps(&case).is_err(), "answers without their tree");
    }

    #[test]
    fn a_file_is_written_in_place() {
        let dir = tempfile::tempdir().unwrap();
        let (tree, root) = (dir.path().join("tree"), dir.path().join("root"));
        fs::write(&tree, "a/b = 1\na/l -> b\nc/d = 2\n").unwrap();
        lay(&tree, &root).unwrap();
        let mut kept = fs::File::open(root.join("a/b")).unwrap();
        fs::write(&tree, "a/b = 23\na/l -> ../c\nc/d !\n").unwrap();
        lay(&tree, &root).unwrap();
        let mut text = String::new();
        std::io::Read::read_to_string(&mut kept, &mut text).unwrap();
        assert_eq!(text, "23\n");
        assert_eq!(fs::read_link(root.join("a/l")).unwrap(), Path::new("../c"));
        assert!(!root.join("c/d").exists());
    }
}
