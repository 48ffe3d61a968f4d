//! NVIDIA's own library as Debian ships it in non-free: downloaded, checked, unpacked below target/, never installed.
//! Without a driver it returns an error, as on a node whose driver is unloaded.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::{exec, python};

const POOL: &str = "http://deb.debian.org/debian/pool/non-free/n/nvidia-graphics-drivers";
const PACKAGE: &str = "libnvidia-ml1";
const SUITE: &str = "bookworm";

/// Known packages: architecture, version, SHA-256.
const KNOWN: &[(&str, &str, &str)] = &[(
    "amd64",
    "535.261.03-1",
    "c729da6ab729309dc3f481fe4d38f04ea03b0793154b0962b60117d2f37d082e",
)];

/// How long a download may take.
const DOWNLOAD: Duration = Duration::from_secs(300);

/// NVIDIA's library.
#[derive(Debug)]
pub struct RealNvml;

impl RealNvml {
    /// Where it lies. The first test that needs it downloads it; others wait.
    ///
    /// # Errors
    /// When Debian's archive does not have it, or this is no Debian.
    pub fn fetch() -> Result<PathBuf> {
        let target = python::target();
        fs::create_dir_all(&target)?;
        let lock = File::create(target.join("libnvidia-ml.lock"))?;
        lock.lock()?;
        let folder = target.join("libnvidia-ml");
        if !folder.is_dir() {
            let new = target.join("libnvidia-ml.new");
            if new.exists() {
                fs::remove_dir_all(&new)?;
            }
            fs::create_dir_all(&new)?;
            let deb = new.join("package.deb");
            // The suite keeps its newest package alone: once the known one has gone, apt's signatures vouch for its
            // successor.
            known(&deb)
                .or_else(|error| newest(&new, &deb).with_context(|| format!("after {error:#}")))
                .context("NVIDIA's library from Debian's non-free")?;
            let mut unpack = Command::new(exec::which("dpkg")?);
            unpack.arg("-x").arg(&deb).arg(&new);
            exec::run(unpack, b"", DOWNLOAD)?.ok()?;
            fs::remove_file(&deb)?;
            // Its name shows that it is complete.
            fs::rename(&new, &folder)?;
        }
        let below = folder.join("usr/lib");
        find(&below)?.with_context(|| format!("no libnvidia-ml.so.* below {}", below.display()))
    }
}

fn architecture() -> Result<String> {
    let mut command = Command::new(exec::which("dpkg")?);
    command.arg("--print-architecture");
    Ok(exec::run(command, b"", DOWNLOAD)?.ok()?.stdout.trim().to_owned())
}

fn known(deb: &Path) -> Result<()> {
    let architecture = architecture()?;
    let known = KNOWN.iter().find(|(a, ..)| *a == architecture);
    let (_, version, sum) = known.with_context(|| format!("no known package for {architecture}"))?;
    let mut helper = Command::new("/usr/lib/apt/apt-helper");
    helper
        .arg("download-file")
        .arg(format!("{POOL}/{PACKAGE}_{version}_{architecture}.deb"))
        .arg(deb)
        .arg(format!("SHA256:{sum}"));
    exec::run(helper, b"", DOWNLOAD)?.ok().map(drop)
}

/// Through lists of apt's that are our own, so that the machine's stay as they are.
fn newest(work: &Path, deb: &Path) -> Result<()> {
    let apt = work.join("apt");
    for part in ["lists/partial", "cache/archives/partial"] {
        fs::create_dir_all(apt.join(part))?;
    }
    let list = apt.join("sources.list");
    let keys = "/usr/share/keyrings/debian-archive-keyring.gpg";
    fs::write(
        &list,
        format!("deb [signed-by={keys}] http://deb.debian.org/debian {SUITE} non-free\n"),
    )?;
    for action in [&["update"][..], &["download", PACKAGE]] {
        let mut get = Command::new(exec::which("apt-get")?);
        get.args([
            "-q",
            "-o",
            "Dir::Etc::sourceparts=-",
            "-o",
            "APT::Sandbox::User=root",
        ]);
        for (key, value) in [
            ("Dir::Etc::sourcelist", list.as_path()),
            ("Dir::State::lists", &apt.join("lists")),
            ("Dir::Cache", &apt.join("cache")),
        ] {
            get.arg("-o").arg(format!("{key}={}", value.display()));
        }
        get.args(action).current_dir(&apt);
        exec::run(get, b"", DOWNLOAD)?.ok()?;
    }
    for entry in fs::read_dir(&apt)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with(PACKAGE) && name.ends_with(".deb") {
            fs::rename(entry.path(), deb)?;
            fs::remove_dir_all(&apt)?;
            return Ok(());
        }
    }
    bail!("apt downloaded no {PACKAGE}")
}

/// The library itself: the name without a version is a link that only an installation makes.
fn find(dir: &Path) -> Result<Option<PathBuf>> {
    for entry in fs::read_dir(dir).with_context(|| dir.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            if let Some(found) = find(&path)? {
                return Ok(Some(found));
            }
        } else if path
            .file_name()
            .is_some_and(|n| n.to_string_lossy().starts_with("libnvidia-ml.so."))
            && !path.is_symlink()
        {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nvml::scenario::Scenario;

    #[test]
    fn without_a_driver_nvidias_library_says_that_none_is_loaded() {
        let path = RealNvml::fetch().unwrap();
        // SAFETY: it runs nothing but its own set-up.
        let nvml = unsafe { nvml_wrapper_sys::bindings::NvmlLib::new(&path) }.unwrap();
        // SAFETY: takes nothing.
        let code = unsafe { nvml.nvmlInit_v2() };
        if Path::new("/proc/driver/nvidia/version").exists() {
            // Of this version, or of another.
            assert!([0, 18].contains(&code), "{code}");
        } else {
            assert_eq!(code, crate::nvml::code::DRIVER_NOT_LOADED);
        }
    }

    #[test]
    fn nvidias_library_has_what_the_stand_in_has_but_for_what_an_older_driver_is_said_to_lack() {
        let path = RealNvml::fetch().unwrap();
        // SAFETY: as above.
        let library = unsafe { libloading::Library::new(&path) }.unwrap();
        let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/nvidia/a100-mig/nvml.toml");
        let scenario = Scenario::load(&fixture).unwrap();
        let version = path.to_string_lossy().into_owned();
        assert!(
            version.ends_with(".so.1") || version.contains(&scenario.system.driver[..4]),
            "{version}"
        );
        let mut wrong = Vec::new();
        for name in fake_nvml::functions::NAMES {
            // SAFETY: this only looks up the symbol.
            let has = unsafe { library.get::<*const ()>(name.as_bytes()) }.is_ok();
            let lacks = scenario.missing.iter().any(|m| m == name);
            if has == lacks {
                wrong.push((name, has));
            }
        }
        assert!(wrong.is_empty(), "name, and whether {version} has it: {wrong:?}");
    }
}
