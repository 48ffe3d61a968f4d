//! A measured program: started on its own core and in its own cgroup, and scraped like Prometheus does.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use testkit::daemon::Daemon;
use testkit::hcas::Hcas;
use testkit::scrape::{Scrape, Scraper};
use testkit::wait::PATIENCE;

use super::machine::Cores;
use super::meter::{Cgroup, Meter};

/// Minimum time from the last change to a scrape. nodewarden and the kernel (`lifespan`) reuse values for 10 ms each,
/// so older changes must be on the page.
pub(super) const SETTLED: Duration = Duration::from_millis(12);

/// How to start a program.
pub(super) struct Recipe {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) command: Command,
    /// Part of the line in which the program prints its address.
    pub(super) says: &'static str,
    /// The requested path.
    pub(super) target: &'static str,
    /// Minimum number of counters on a page. Counters of the first page must be on every page.
    pub(super) shows: usize,
}

/// A running program. The processes end before their cgroup is removed.
pub(super) struct Program {
    pub(super) name: String,
    pub(super) version: String,
    daemon: Daemon,
    pub(super) meter: Meter,
    scraper: Scraper,
    required: usize,
    /// Counters on the first page.
    covered: Vec<bool>,
    /// Number of scrapes with stale values, and the first of them.
    stale: (usize, Option<String>),
    /// Uncompressed answers to requests with gzip.
    unpacked: usize,
}

impl Program {
    /// Starts the program, and waits until 2 consecutive pages show the same current counters.
    pub(super) fn start(recipe: Recipe, cores: &Cores, hcas: &mut Hcas) -> Result<Self> {
        let cgroup = Cgroup::create(&recipe.name);
        let command = placed(&recipe.command, cgroup.as_ref(), cores);
        let daemon = Daemon::start(command)?;
        let line = daemon
            .wait_for_line(recipe.says, PATIENCE)
            .context(recipe.name.clone())?;
        let address = address(&line).with_context(|| format!("no address in {line:?}"))?;
        let mut program = Self {
            scraper: Scraper::connect(address, recipe.target)?,
            meter: Meter::new(cgroup, daemon.pid()),
            name: recipe.name,
            version: recipe.version,
            daemon,
            required: recipe.shows,
            covered: Vec::new(),
            stale: (0, None),
            unpacked: 0,
        };
        program.learn(hcas)?;
        Ok(program)
    }

    /// Workers may still be starting, so the counters on 2 consecutive pages count as shown.
    fn learn(&mut self, hcas: &mut Hcas) -> Result<()> {
        let end = std::time::Instant::now() + Duration::from_secs(20);
        loop {
            hcas.advance()?;
            std::thread::sleep(SETTLED);
            let shown = hcas.shown(&self.scraper.scrape(true)?.page);
            let count = shown.iter().filter(|s| **s).count();
            if shown == self.covered && (count >= self.required || std::time::Instant::now() > end) {
                return Ok(());
            }
            self.covered = shown;
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Number of counters on its pages, and the required number.
    pub(super) fn shows(&self) -> (usize, usize) {
        (self.covered.iter().filter(|s| **s).count(), self.required)
    }

    /// Changes every counter, scrapes, and checks the page for the changes.
    pub(super) fn scrape(&mut self, gzip: bool, hcas: &mut Hcas) -> Result<Scrape> {
        hcas.advance()?;
        std::thread::sleep(SETTLED);
        let scrape = self.again(gzip)?;
        self.check(&scrape, hcas);
        Ok(scrape)
    }

    /// Scrapes without checking the page.
    pub(super) fn again(&mut self, gzip: bool) -> Result<Scrape> {
        let scrape = self.scraper.scrape(gzip);
        let scrape = scrape.with_context(|| format!("{}\n{}", self.name, self.daemon.stderr()))?;
        self.unpacked += usize::from(gzip && !scrape.packed);
        Ok(scrape)
    }

    fn check(&mut self, scrape: &Scrape, hcas: &Hcas) {
        let shown = hcas.shown(&scrape.page);
        let lacks = |(now, always): (&bool, &bool)| *always && !*now;
        if let Some(first) = shown.iter().zip(&self.covered).position(lacks) {
            self.stale.0 += 1;
            self.stale.1.get_or_insert_with(|| hcas.name(first).to_owned());
        }
    }

    /// Its processes, the first one first.
    pub(super) fn pids(&self) -> Vec<u32> {
        let mut pids = vec![self.daemon.pid()];
        pids.extend(self.daemon.children());
        pids
    }

    /// Errors on its pages.
    pub(super) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let (shown, required) = self.shows();
        if shown < required {
            faults.push(format!(
                "{}: shows {shown} of {} counters, expected at least {required}",
                self.name,
                self.covered.len()
            ));
        }
        if self.unpacked > 0 {
            faults.push(format!("{}: {} pages without gzip", self.name, self.unpacked));
        }
        if let (stale @ 1.., Some(first)) = &self.stale {
            faults.push(format!(
                "{}: {stale} scrapes with stale values, such as {first}",
                self.name
            ));
        }
        faults
    }
}

/// A program that runs in its own cgroup and on its own core.
pub(super) fn placed(program: &Command, cgroup: Option<&Cgroup>, cores: &Cores) -> Command {
    let mut command = Command::new("/bin/sh");
    // The shell enters the cgroup first, so that all work of the program counts.
    command.args([
        "-c",
        "[ -z \"$1\" ] || echo $$ >\"$1\" || exit 1; shift; exec \"$@\"",
        "sh",
    ]);
    command.arg(cgroup.map(|c| c.procs().into_os_string()).unwrap_or_default());
    if let Some(core) = cores.program {
        command.args(["taskset", "-c", &core.to_string()]);
    }
    command.arg(program.get_program()).args(program.get_args());
    command
}

/// The loopback address in a line.
pub(super) fn address(line: &str) -> Option<SocketAddr> {
    let from = line.find("127.0.0.1:")?;
    let rest = &line[from..];
    let end = rest
        .find(|c: char| !c.is_ascii_digit() && c != '.' && c != ':')
        .unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// node_exporter with only its infiniband collector.
pub(super) fn node_exporter(
    name: &str,
    program: &Path,
    version: String,
    root: &Path,
    shows: usize,
) -> Recipe {
    let mut command = Command::new(program);
    command
        .args(["--web.listen-address=127.0.0.1:0", "--collector.disable-defaults"])
        .arg("--collector.infiniband")
        .arg(format!("--path.sysfs={}", root.join("sys").display()));
    Recipe {
        name: name.to_owned(),
        version,
        command,
        says: "127.0.0.1:",
        target: "/metrics",
        shows,
    }
}

/// The floor program; `page`: as nodewarden's design, with the text of this page.
pub(super) fn floor(name: &str, program: &Path, root: &Path, shows: usize, page: Option<&Path>) -> Recipe {
    let mut command = Command::new(program);
    if let Some(page) = page {
        command.arg("--design").arg(page);
    }
    command.arg(root);
    Recipe {
        name: name.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        command,
        says: "serving",
        target: "/metrics",
        shows,
    }
}

/// nodewarden with its defaults. Its state and sockets are below `work`.
///
/// # Errors
/// When `work` cannot be written.
pub(super) fn nodewarden(
    name: &str,
    program: &Path,
    root: &Path,
    work: &Path,
    shows: usize,
) -> Result<Recipe> {
    let mut command = Command::new(program);
    // The machine may have its own configuration.
    let config = work.join("empty.toml");
    std::fs::create_dir_all(work)?;
    std::fs::write(&config, "")?;
    command.args(["run", "--listen", "127.0.0.1:0"]);
    for (option, path) in [
        ("--config", config),
        ("--sysroot", root.to_owned()),
        ("--state-dir", work.join("state")),
        ("--run-dir", work.join("run")),
    ] {
        command.arg(option).arg(path);
    }
    let version = Command::new(program).arg("--version").output()?;
    let version = String::from_utf8_lossy(&version.stdout).trim().to_owned();
    if version.is_empty() {
        bail!("{}: prints no version", program.display());
    }
    Ok(Recipe {
        name: name.to_owned(),
        version: version.trim_start_matches("nodewarden ").to_owned(),
        command,
        says: "listening on http://127.0.0.1:",
        // The smallest page with every counter of the tree. In the comparison with node_exporter, whose other
        // collectors are off, only the compared counters.
        target: if name == super::OURS_WHOLE {
            "/metrics?tier=detail"
        } else {
            "/metrics?tier=detail&collect[]=rdma"
        },
        shows,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_found_in_what_programs_say() {
        let port = |line| address(line).map(|a| a.port());
        assert_eq!(
            port("level=info msg=\"Listening on\" address=127.0.0.1:4711"),
            Some(4711)
        );
        assert_eq!(port("listening on http://127.0.0.1:80/metrics"), Some(80));
        assert_eq!(port("serving 680 counters on 127.0.0.1:1"), Some(1));
        assert_eq!(port("listening on [::]:9100"), None);
    }
}
