//! node_exporter as Debian ships it: downloaded, checked, unpacked below target/bench, never installed.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::cmd;

const POOL: &str = "http://deb.debian.org/debian/pool/main/p/prometheus-node-exporter";
const PACKAGE: &str = "prometheus-node-exporter";

/// One version of it.
pub(super) struct Peer {
    pub(super) name: &'static str,
    /// The suite that has it, and how its versions begin there.
    suite: &'static str,
    begins: &'static str,
    /// Known packages: architecture, version, SHA-256.
    known: &'static [(&'static str, &'static str, &'static str)],
    /// The least counters of the tree that it shows; so a peer that reads nothing is noticed.
    pub(super) shows: usize,
}

/// The one that the limits compare with.
pub(super) const NEW: Peer = Peer {
    name: "node_exporter 1.11",
    suite: "sid",
    begins: "1.11.",
    known: &[(
        "amd64",
        "1.11.1-3",
        "eb42d44b6fcd5040722f5b27b31578bdaeed890f08be24f3592339267ae0e135",
    )],
    shows: 500,
};

/// The one that most clusters run.
pub(super) const OLD: Peer = Peer {
    name: "node_exporter 1.5",
    suite: "bookworm",
    begins: "1.5.",
    known: &[(
        "amd64",
        "1.5.0-1+b6",
        "8cb5b39627595ea2cf3cd27be593e0e9af87023d29e1c5b8487e2f9510097e09",
    )],
    shows: 200,
};

/// Its program, from the last run where that has it already.
///
/// # Errors
/// When the archive does not have it.
pub(super) fn get(peer: &Peer, work: &Path) -> Result<PathBuf> {
    let folder = work.join(format!("peers/{}", peer.name.replace(' ', "-")));
    let program = folder.join("usr/bin").join(PACKAGE);
    if program.is_file() {
        return Ok(program);
    }
    let new = work.join("peers/new");
    if new.exists() {
        fs::remove_dir_all(&new)?;
    }
    fs::create_dir_all(&new)?;
    let deb = new.join("package.deb");
    let pinned = pinned(peer, &deb);
    // Sid keeps the newest package only: once the pinned one has gone, apt's signatures vouch for its successor.
    pinned.or_else(|error| {
        println!("{error:#}: asking apt");
        newest(peer, &new, &deb)
    })?;
    cmd::run(cmd::program("dpkg", &["-x"]).arg(&deb).arg(&new))?;
    fs::remove_file(&deb)?;
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    // Its name shows that it is complete.
    fs::rename(&new, &folder)?;
    Ok(program)
}

fn pinned(peer: &Peer, deb: &Path) -> Result<()> {
    let architecture = cmd::output(&mut cmd::program("dpkg", &["--print-architecture"]))?;
    let architecture = architecture.trim();
    let known = peer.known.iter().find(|(a, ..)| *a == architecture);
    let (_, version, sum) = known.with_context(|| format!("no known package for {architecture}"))?;
    let uri = format!("{POOL}/{PACKAGE}_{version}_{architecture}.deb");
    let mut helper = cmd::program("/usr/lib/apt/apt-helper", &["download-file", &uri]);
    cmd::run(helper.arg(deb).arg(format!("SHA256:{sum}")))
}

/// Through lists of apt's that are our own, so that the machine's stay as they are.
fn newest(peer: &Peer, work: &Path, deb: &Path) -> Result<()> {
    let apt = work.join("apt");
    for part in ["lists/partial", "cache/archives/partial"] {
        fs::create_dir_all(apt.join(part))?;
    }
    let list = apt.join("sources.list");
    let keys = "/usr/share/keyrings/debian-archive-keyring.gpg";
    let line = format!(
        "deb [signed-by={keys}] http://deb.debian.org/debian {} main\n",
        peer.suite
    );
    fs::write(&list, line)?;
    let get = |args: &[&str]| {
        let mut command = cmd::program("apt-get", &["-q", "-o", "Dir::Etc::sourceparts=-"]);
        for (key, value) in [
            ("Dir::Etc::sourcelist", list.as_path()),
            ("Dir::State::lists", &apt.join("lists")),
            ("Dir::Cache", &apt.join("cache")),
            ("APT::Sandbox::User", Path::new("root")),
        ] {
            command.arg("-o").arg(format!("{key}={}", value.display()));
        }
        cmd::run(command.args(args).current_dir(&apt))
    };
    get(&["update"])?;
    get(&["download", PACKAGE])?;
    for entry in fs::read_dir(&apt)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some(version) = name.strip_prefix(&format!("{PACKAGE}_")) {
            if !version.starts_with(peer.begins) {
                bail!(
                    "{} has {name}; the benchmark is made for {}*",
                    peer.suite,
                    peer.begins
                );
            }
            fs::rename(entry.path(), deb)?;
            fs::remove_dir_all(&apt)?;
            return Ok(());
        }
    }
    bail!("apt downloaded no {PACKAGE}")
}

/// The version that the program prints.
pub(super) fn version(program: &Path) -> Result<String> {
    let mut command = cmd::program(&program.to_string_lossy(), &["--version"]);
    // Older ones print it to stderr.
    let out = command.output()?;
    let text = String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned();
    let word = |after: &str| {
        let rest = text.split_once(after)?.1.trim_start();
        Some(rest.split([' ', ',', ')', '\n']).next()?.to_owned())
    };
    // The revision is Debian's version.
    word("revision:")
        .or_else(|| word("version"))
        .with_context(|| format!("{}: no version in {text:?}", program.display()))
}
