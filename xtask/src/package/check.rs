//! `cargo xtask package --check`: installs, upgrades, downgrades and removes both packages in root file systems of Debian, and
//! runs the program in each.
//!
//! No systemd runs there. The RPM is installed by this machine's rpm with `--root`, with its scripts and without dependencies:
//! no root of RHEL or SLES can be made here.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, Uid};
use testkit::http;
use testkit::play::Play;
use testkit::ports::Port;

use super::list::{Entry, In, Kind};
use super::{Built, Plan, deb, rpm, tree};
use crate::stage::timed;
use crate::{cmd, deps, roots, supply};

/// Releases of Debian, glibc 2.31 to 2.41. Debian 10, with 2.28, is on no mirror any more.
const SUITES: &[&str] = &["bullseye", "bookworm", "trixie"];

/// The recorded node that the program reads: 8 GPUs.
const RECORDING: &str = "fixtures/demo";

/// The folder of our own files in a root.
const OWN: &str = "check";

const CONFIG: &str = "etc/nodewarden/nodewarden.toml";

/// A file that only the second revision has.
const NEW: &str = "usr/share/doc/nodewarden/new.md";

/// What package managers, and scripts that make users, leave behind.
const LEFT: &[&str] = &[
    "check",
    "etc/.pwd.lock",
    "etc/group-",
    "etc/gshadow-",
    "etc/passwd-",
    "etc/shadow-",
    "var/cache",
    "var/lib/dpkg",
    "var/lib/rpm",
    "var/log",
];

/// Time until the program has read its node.
const START: Duration = Duration::from_secs(60);

/// Tests this build and a next revision of it. The releases are tested side by side: most of the time is waiting for package
/// managers and for the daemon's first readings.
///
/// # Errors
/// When a root cannot be made, or something is not as promised.
pub(super) fn run(plan: Plan, built: &Built, roots: &[PathBuf]) -> Result<()> {
    let stand_in = timed("the stand-in for NVML", supply::stand_in)?;
    let next = timed("next revision", || next(plan, built))?;
    let of_root = |clean: &PathBuf| -> Result<()> {
        for package in [In::Deb, In::Rpm] {
            let place = Place {
                root: clean.with_extension("test"),
                package,
                list: &built.list,
            };
            let files = match package {
                In::Rpm => [&built.rpm, &next.rpm],
                _ => [&built.deb, &next.deb],
            };
            let name = format!("{}, {package:?}", clean.display());
            copy(clean, &place.root)?;
            timed(&name, || place.all(files[0], files[1], &stand_in)).context(name)?;
            fs::remove_dir_all(&place.root)?;
        }
        Ok(())
    };
    timed("roots", || {
        thread::scope(|scope| {
            let running: Vec<_> = roots.iter().map(|root| scope.spawn(|| of_root(root))).collect();
            for one in running {
                one.join().map_err(|_| anyhow!("the test of a root panicked"))??;
            }
            Ok(())
        })
    })
}

/// A clean root of each release. Made while the packages are built.
///
/// # Errors
/// When one cannot be made.
pub(super) fn roots() -> Result<Vec<PathBuf>> {
    let make = |suite: &&str| timed(&format!("root of {suite}"), || roots::plain(suite));
    SUITES.iter().map(make).collect()
}

/// The programs that it starts, and the right to start them.
///
/// # Errors
/// Without root, or when a Debian package cannot be installed.
pub(super) fn prepare() -> Result<()> {
    ensure!(Uid::effective().is_root(), "needs root: mmdebstrap and chroot do");
    deps::install(&[roots::PLAIN, "rpm"])
}

/// The next revision, with one more file. It is installed and thrown away: a fast compression.
fn next(plan: Plan, built: &Built) -> Result<Built> {
    let plan = Plan {
        revision: 2,
        compression: 0,
        ..plan
    };
    let mut list = built.list.clone();
    list.push(Entry::file(NEW, b"# New\n".to_vec()));
    let work = super::empty("next")?;
    let needs = super::elf::needs(&plan.binary, plan.arch)?.debian()?;
    Ok(Built {
        deb: deb::make(&work, &list, &plan, &needs)?,
        rpm: rpm::make(&work, &list, &plan)?,
        list,
    })
}

fn copy(clean: &Path, root: &Path) -> Result<()> {
    if root.exists() {
        fs::remove_dir_all(root)?;
    }
    cmd::run(cmd::program("cp", &["-a"]).arg(clean).arg(root))
}

/// A root in which one kind of package is tested.
struct Place<'a> {
    root: PathBuf,
    package: In,
    list: &'a [Entry],
}

impl Place<'_> {
    fn all(&self, first: &Path, second: &Path, stand_in: &Path) -> Result<()> {
        let own = self.root.join(OWN);
        fs::create_dir_all(&own)?;
        // The folder is systemd's on RHEL and SLES. A root of Debian 11 has its units in /lib.
        fs::create_dir_all(self.root.join("usr/lib/systemd/system"))?;
        let before = self.paths()?;
        self.install(first, false)?;
        self.complete()?;
        ensure!(!self.root.join(NEW).exists(), "{NEW} exists before the upgrade");
        self.program()?;
        self.runs(stand_in)?;

        let config = self.root.join(CONFIG);
        let mut file = File::options().append(true).open(&config)?;
        writeln!(file, "# changed by hand")?;
        let changed = fs::read(&config)?;
        let drop_in = self.root.join("etc/nodewarden/conf.d/10-site.toml");
        fs::write(&drop_in, "")?;
        let state = self.root.join("var/lib/nodewarden");
        fs::create_dir_all(state.join("parent"))?;

        for (file, is_new) in [(second, true), (first, false), (first, false)] {
            self.install(file, !is_new)?;
            self.complete()?;
            ensure!(
                self.root.join(NEW).exists() == is_new,
                "{NEW} after {}",
                file.display()
            );
            ensure!(fs::read(&config)? == changed, "{CONFIG} was not kept");
            self.program()?;
        }

        self.remove()?;
        for entry in tree::of(self.list, self.package).filter(|e| e.kind != Kind::Folder) {
            let is_kept = entry.kind == Kind::Config && self.package == In::Deb;
            let exists = self.root.join(&entry.path).exists();
            ensure!(exists == is_kept, "{} after removal: exists {exists}", entry.path);
        }
        ensure!(
            drop_in.exists() && state.exists(),
            "removal took drop-ins or state"
        );
        if self.package == In::Rpm {
            let saved = config.with_extension("toml.rpmsave");
            ensure!(fs::read(&saved)? == changed, "{} was not kept", saved.display());
            // What docs/operations/install.md has people delete.
            fs::remove_dir_all(self.root.join("etc/nodewarden"))?;
            fs::remove_dir_all(&state)?;
        } else {
            self.comes_back(first)?;
            self.purge()?;
            // It was a mount: empty, or this fails.
            fs::remove_dir(&state)?;
        }
        let left: Vec<PathBuf> = self.paths()?.difference(&before).cloned().collect();
        ensure!(left.is_empty(), "left behind: {left:?}");
        println!("{}: {:?} ok", self.root.display(), self.package);
        Ok(())
    }

    /// The paths in the root, without the traces of package managers.
    fn paths(&self) -> Result<BTreeSet<PathBuf>> {
        let mut all = BTreeSet::new();
        for path in tree::walk(&self.root)? {
            let path = path.strip_prefix(&self.root)?.to_owned();
            if !LEFT.iter().any(|left| path.starts_with(left)) {
                all.insert(path);
            }
        }
        Ok(all)
    }

    /// Everything of the list is there, with its content and mode.
    fn complete(&self) -> Result<()> {
        use std::os::unix::fs::MetadataExt;
        for entry in tree::of(self.list, self.package) {
            let path = self.root.join(&entry.path);
            let found = fs::symlink_metadata(&path).with_context(|| path.display().to_string())?;
            ensure!(
                found.mode() & 0o7777 == entry.mode && found.uid() == 0 && found.gid() == 0,
                "{}: found mode {:o} of {}:{}, expected {:o} of root",
                entry.path,
                found.mode() & 0o7777,
                found.uid(),
                found.gid(),
                entry.mode
            );
            let is_fixed = !matches!(entry.kind, Kind::Folder | Kind::Config);
            if is_fixed && fs::read(&path)? != entry.content {
                bail!("{}: not the content of the package", entry.path);
            }
        }
        let users = fs::read_to_string(self.root.join("etc/passwd"))?;
        ensure!(
            users.contains("nodewarden:x:60800:") && users.contains("nodewarden-nvidia:x:60804:"),
            "no users of nodewarden in passwd"
        );
        let enabled = self
            .root
            .join("etc/systemd/system/multi-user.target.wants/nodewarden.service");
        ensure!(
            enabled.symlink_metadata().is_ok(),
            "{} does not exist",
            enabled.display()
        );
        Ok(())
    }

    fn install(&self, file: &Path, older: bool) -> Result<()> {
        if self.package == In::Rpm {
            let more: &[&str] = if older {
                &["--oldpackage", "--replacepkgs"]
            } else {
                &[]
            };
            let mut rpm = self.rpm(&["-U", "--nodeps"]);
            return cmd::run(rpm.args(more).arg(file));
        }
        let name = file.file_name().context("a package without a name")?;
        fs::copy(file, self.root.join(OWN).join(name))?;
        let path = Path::new("/").join(OWN).join(name);
        cmd::run(self.within(&["dpkg", "--force-confold", "-i"]).arg(path))
    }

    fn remove(&self) -> Result<()> {
        match self.package {
            In::Rpm => cmd::run(&mut self.rpm(&["-e", "nodewarden"])),
            _ => cmd::run(&mut self.within(&["dpkg", "-r", "nodewarden"])),
        }
    }

    /// The package after its removal: the service is started again. No systemd runs in the root, so programs in its place
    /// write down the calls.
    fn comes_back(&self, file: &Path) -> Result<()> {
        let own = self.root.join(OWN);
        for name in ["deb-systemd-invoke", "systemctl"] {
            let stand_in = own.join(name);
            fs::write(
                &stand_in,
                format!("#!/bin/sh\necho {name} \"$@\" >> /{OWN}/calls\n"),
            )?;
            fs::set_permissions(&stand_in, fs::Permissions::from_mode(0o755))?;
        }
        let booted = self.root.join("run/systemd/system");
        fs::create_dir_all(&booted)?;
        let name = file.file_name().context("a package without a name")?;
        let path = format!("PATH=/{OWN}:/usr/sbin:/usr/bin:/sbin:/bin");
        let mut dpkg = self.within(&["env", &path, "dpkg", "--force-confold", "-i"]);
        cmd::run(dpkg.arg(Path::new("/").join(OWN).join(name)))?;
        self.complete()?;
        let calls = fs::read_to_string(own.join("calls"))?;
        ensure!(
            calls.contains("deb-systemd-invoke restart nodewarden.service\n"),
            "installed again after a removal, the service is not started: {calls}"
        );
        fs::remove_dir(&booted)?;
        // Another package may keep files there.
        fs::remove_dir(self.root.join("run/systemd")).ok();
        Ok(())
    }

    /// With a state directory that is a mount, as on a diskless node.
    fn purge(&self) -> Result<()> {
        let state = "\"$0/var/lib/nodewarden\"";
        let exec = format!("mount --bind {state} {state} && exec chroot \"$0\" \"$@\"");
        cmd::run(self.with_proc(&exec).args(["dpkg", "-P", "nodewarden"]))
    }

    /// This machine's rpm. The scripts run in the root.
    fn rpm(&self, args: &[&str]) -> Command {
        let mut rpm = self.with_proc("exec rpm --dbpath /var/lib/rpm --root \"$0\" \"$@\"");
        rpm.args(args);
        rpm
    }

    /// A program of the root.
    fn within(&self, args: &[&str]) -> Command {
        let mut command = self.with_proc("exec chroot \"$0\" \"$@\"");
        command.args(args);
        command
    }

    /// A shell command with the root as `$0` and a /proc in it, which systemd-sysusers needs. Mounts go with it, however
    /// it ends.
    fn with_proc(&self, exec: &str) -> Command {
        let script = format!("mount -t proc proc \"$0/proc\" && {exec}");
        let mut command = cmd::program(
            "unshare",
            &["--mount", "--propagation=private", "sh", "-c", &script],
        );
        command.arg(&self.root);
        command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command.env("DEBIAN_FRONTEND", "noninteractive");
        command
    }

    /// The program starts with the root's glibc and accepts its configuration.
    fn program(&self) -> Result<()> {
        let said = cmd::output(&mut self.within(&["nodewarden", "--version"]))?;
        ensure!(
            said.trim() == format!("nodewarden {}", super::version()?),
            "found {said:?}"
        );
        cmd::run(&mut self.within(&["nodewarden", "config", "check"]))
    }

    /// The daemon reads a recorded node and loads the stand-in for NVML.
    fn runs(&self, stand_in: &Path) -> Result<()> {
        let node = self.root.join(OWN).join("node");
        let play = Play::open(&cmd::root().join(RECORDING), &node)?;
        let library = tree::walk(&node)?
            .into_iter()
            .find(|path| path.ends_with("libnvidia-ml.so.1"))
            .context("the recording has no library of NVML")?;
        fs::copy(stand_in, &library)?;
        // Paths of the host are not those of the root.
        let config = node.join("health.toml");
        let text = fs::read_to_string(&config)?.replace(&*self.root.to_string_lossy(), "");
        fs::write(&config, text)?;
        let port = Port::reserve()?;
        let listen = format!("127.0.0.1:{}", port.number());
        let mut daemon = self.within(&["nodewarden", "run", "--listen", &listen]);
        for (option, name) in [
            ("--recorded", "node"),
            ("--config", "node/health.toml"),
            ("--state-dir", "state"),
            ("--run-dir", "run"),
        ] {
            daemon.arg(option).arg(Path::new("/").join(OWN).join(name));
        }
        let mut daemon = daemon.spawn()?;
        let read = scraped(&listen, &mut daemon);
        let ended = end(&mut daemon);
        drop(play);
        read.and(ended)
    }
}

/// Scrapes until the GPUs are there.
fn scraped(listen: &str, daemon: &mut Child) -> Result<()> {
    let begin = Instant::now();
    let mut last = String::new();
    while begin.elapsed() < START {
        if let Some(status) = daemon.try_wait()? {
            bail!("the daemon ended: {status}");
        }
        let answer = http::get(listen, "/metrics", &[], Duration::from_secs(10));
        if let Ok(answer) = answer
            && let Ok(text) = answer.ok()
        {
            if text.contains("nodewarden_collector_up{collector=\"nvidia\"} 1\n") {
                println!("{} lines of metrics, with NVML", text.lines().count());
                return Ok(());
            }
            last = text.to_owned();
        }
        thread::sleep(Duration::from_millis(200));
    }
    let up: Vec<&str> = last.lines().filter(|l| l.contains("collector_up{")).collect();
    bail!("NVML was not read within {} s: {up:?}", START.as_secs())
}

fn end(daemon: &mut Child) -> Result<()> {
    if daemon.try_wait()?.is_none() {
        kill(Pid::from_raw(i32::try_from(daemon.id())?), Signal::SIGTERM)?;
    }
    let status = daemon.wait()?;
    ensure!(status.success(), "the daemon ended with {status}");
    Ok(())
}
