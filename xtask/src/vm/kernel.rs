//! Debian's kernel, downloaded and unpacked below target/vm; it is not installed on the host.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::image;
use crate::cmd;

/// The package that always depends on the kernel that this Debian ships now.
const NEWEST: &str = "linux-image-amd64";

/// An unpacked kernel with the headers to build modules.
pub(super) struct Kernel {
    /// As `uname -r` prints it.
    pub(super) release: String,
    /// As its package has it.
    version: String,
    /// Its folder.
    root: PathBuf,
}

/// The newest kernel of this Debian, from the last run where that has it already.
///
/// # Errors
/// When apt does not know it or cannot download it.
pub(super) fn get(work: &Path) -> Result<Kernel> {
    with_lists(|| newest(work))
}

/// Lists of packages may be missing, or older than the archive: then the download fails, and they are fetched once.
fn with_lists<T>(attempt: impl Fn() -> Result<T>) -> Result<T> {
    attempt().or_else(|error| {
        println!("{error:#}: fetching the lists of packages");
        cmd::run(&mut cmd::program("apt-get", &["update", "-q"]))?;
        attempt()
    })
}

fn newest(work: &Path) -> Result<Kernel> {
    let image = depends(NEWEST)?
        .into_iter()
        .find(|p| p.starts_with("linux-image-"))
        .context("linux-image-amd64 depends on no kernel")?;
    let release = image.trim_start_matches("linux-image-").to_owned();
    let headers = format!("linux-headers-{release}");
    let mut packages = vec![image, headers.clone()];
    // The headers of one kernel lie in three packages.
    let parts = depends(&headers)?.into_iter();
    packages.extend(parts.filter(|p| p.starts_with("linux-headers-") || p.starts_with("linux-kbuild-")));

    // Named by versions, not by the release alone: security updates keep the release.
    let versions = packages.iter().map(|p| version(p)).collect::<Result<Vec<_>>>()?;
    let folder = format!("kernel-{release}-{}", versions[0].replace(['/', ':'], "_"));
    let root = work.join(folder);
    let kernel = Kernel {
        release,
        version: versions[0].clone(),
        root,
    };
    if !kernel.root.is_dir() {
        let named = packages.iter().zip(&versions).map(|(p, v)| format!("{p}={v}"));
        keep(&named.collect::<Vec<_>>(), &kernel, work)?;
    }
    println!("kernel {} ({})", kernel.release, versions[0]);
    Ok(kernel)
}

/// Downloads packages, each as NAME=VERSION, and unpacks them into a folder that holds nothing else.
fn unpack(packages: &[String], to: &Path, work: &Path) -> Result<()> {
    let debs = image::empty(&work.join("debs"))?;
    image::empty(to)?;
    let mut download = cmd::program("apt-get", &["download", "-q"]);
    // As root, so that apt does not complain that its own user may not write here.
    download.args(["-o", "APT::Sandbox::User=root"]).args(packages);
    cmd::run(download.current_dir(&debs))?;
    for deb in fs::read_dir(&debs)? {
        cmd::run(cmd::program("dpkg", &["-x"]).arg(deb?.path()).arg(to))?;
    }
    fs::remove_dir_all(&debs)?;
    Ok(())
}

/// Packages of this Debian, downloaded and unpacked below target/vm; from the last run where apt has no newer version.
///
/// # Errors
/// When apt does not know one or cannot download it.
pub(super) fn packages(name: &str, packages: &[&str], work: &Path) -> Result<PathBuf> {
    with_lists(|| {
        let versions = packages.iter().map(|p| version(p)).collect::<Result<Vec<_>>>()?;
        let folder = work.join(format!("{name}-{}", versions.join("+").replace(['/', ':'], "_")));
        if !folder.is_dir() {
            let named = packages.iter().zip(&versions).map(|(p, v)| format!("{p}={v}"));
            let new = work.join(format!("{name}.new"));
            unpack(&named.collect::<Vec<_>>(), &new, work)?;
            // Its name shows that it is complete.
            fs::rename(&new, &folder)?;
        }
        Ok(folder)
    })
}

fn keep(packages: &[String], kernel: &Kernel, work: &Path) -> Result<()> {
    let new = work.join("kernel.new");
    unpack(packages, &new, work)?;
    cmd::run(cmd::program("depmod", &["-b"]).arg(&new).arg(&kernel.release))?;
    // An unpacked kernel is half a gigabyte: only the newest is kept.
    for old in fs::read_dir(work)? {
        let old = old?;
        if old.file_name().to_string_lossy().starts_with("kernel-") {
            fs::remove_dir_all(old.path())?;
        }
    }
    // Its name shows that it is complete.
    fs::rename(&new, &kernel.root)?;
    Ok(())
}

impl Kernel {
    /// The kernel's image.
    pub(super) fn vmlinuz(&self) -> PathBuf {
        self.root.join(format!("boot/vmlinuz-{}", self.release))
    }

    /// The files of these modules and of those that they need, in the order in which they are loaded.
    ///
    /// # Errors
    /// When the kernel does not have one.
    pub(super) fn modules(&self, names: &[&str]) -> Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        for name in names {
            let mut command = cmd::program("modprobe", &["--show-depends", "--set-version"]);
            command.arg(&self.release).arg("-d").arg(&self.root).arg(name);
            let plan = cmd::output(&mut command)?;
            for line in plan.lines() {
                // A module may have options of the host's behind it; other lines are of what is built into the kernel.
                let file = line
                    .strip_prefix("insmod ")
                    .and_then(|l| l.split_whitespace().next());
                let Some(file) = file.map(PathBuf::from) else {
                    continue;
                };
                if !files.contains(&file) {
                    files.push(file);
                }
            }
        }
        Ok(files)
    }

    /// A module that Debian does not configure, built from a folder of its source. It is kept with the kernel.
    ///
    /// # Errors
    /// When the source cannot be downloaded or does not compile.
    pub(super) fn build_own(&self, folder: &str, config: &str, work: &Path) -> Result<PathBuf> {
        let name = folder.rsplit('/').next().unwrap_or(folder);
        let dir = self.root.join("built").join(name);
        let module = dir.join(format!("{name}.ko"));
        if !module.is_file() {
            let source = with_lists(|| self.source(folder, work))?;
            self.build(&source, &dir, &[&format!("{config}=m")])?;
        }
        Ok(module)
    }

    /// A folder of this kernel's source.
    fn source(&self, folder: &str, work: &Path) -> Result<PathBuf> {
        let series: Vec<&str> = self.version.splitn(3, '.').take(2).collect();
        let package = format!("linux-source-{}", series.join("."));
        let (new, source) = (work.join("source.new"), self.root.join("source"));
        unpack(&[format!("{package}={}", self.version)], &new, work)?;
        fs::create_dir_all(&source)?;
        let archive = new.join(format!("usr/src/{package}.tar.xz"));
        let mut tar = cmd::program("tar", &["--extract", "--strip-components=1", "--file"]);
        tar.arg(archive).arg("--directory").arg(&source);
        cmd::run(tar.arg(format!("{package}/{folder}")))?;
        fs::remove_dir_all(&new)?;
        Ok(source.join(folder))
    }

    /// Builds the one module whose source lies in `source`; `config` are further words for make.
    ///
    /// # Errors
    /// When it does not compile.
    pub(super) fn build(&self, source: &Path, dir: &Path, config: &[&str]) -> Result<PathBuf> {
        image::empty(dir)?;
        for file in fs::read_dir(source)? {
            let file = file?;
            fs::copy(file.path(), dir.join(file.file_name()))?;
        }
        let flavour = self
            .root
            .join("usr/src")
            .join(format!("linux-headers-{}", self.release));
        let common = self.release.trim_end_matches("-amd64");
        let common = self
            .root
            .join(format!("usr/src/linux-headers-{common}-common/Makefile"));
        // The flavour's own Makefile only includes the other, by the path that an installed package has.
        let mut make = cmd::program("make", &["-s", "-C"]);
        make.arg(&flavour).arg("-f").arg(&common);
        make.arg(format!("M={}", dir.display()))
            .args(config)
            .arg("modules");
        cmd::run(&mut make)?;
        let mut built = fs::read_dir(dir)?.flatten().map(|entry| entry.path());
        built
            .find(|path| path.extension().is_some_and(|e| e == "ko"))
            .context("make built no module")
    }
}

/// The dependencies of a package's candidate version.
fn depends(package: &str) -> Result<Vec<String>> {
    let text = cmd::output(&mut cmd::program("apt-cache", &["depends", package]))?;
    Ok(text
        .lines()
        .filter_map(|line| line.trim().trim_start_matches('|').strip_prefix("Depends: "))
        .map(str::to_owned)
        .collect())
}

/// The version that apt would install.
///
/// # Errors
/// When apt has none.
pub(super) fn version(package: &str) -> Result<String> {
    let text = cmd::output(&mut cmd::program("apt-cache", &["policy", package]))?;
    match text
        .lines()
        .find_map(|line| line.trim().strip_prefix("Candidate: "))
    {
        Some(version) if version != "(none)" => Ok(version.to_owned()),
        _ => bail!("apt has no candidate for {package}"),
    }
}
