//! `cargo xtask bench nvidia`: eight H100s of the stand-in for NVIDIA's library, read by us and by all-smi.
//!
//! The stand-in answers in less than a microsecond where a driver takes many: these are the programs' own costs, and how
//! often they call the driver says what a real one adds.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;
use testkit::daemon::Daemon;
use testkit::footprint::{self, Footprint};
use testkit::nvml::scenario::Scenario;
use testkit::nvml::scenario::keys::Key;
use testkit::nvml::scenario::value::Time;
use testkit::nvml::{Calls, FakeNvml};
use testkit::scrape::Scraper;
use testkit::wait::{self, PATIENCE};

use super::machine::{self, Cores};
use super::meter::{Cgroup, Meter};
use super::report;
use super::warm::Warm;
use super::{nvidia_peer, program};
use crate::cmd;

/// Of all processes of ours.
const PSS_KIB: u64 = 20 * 1024;
/// The most of all-smi's CPU, and the least of its series.
const CPU_OF_PEER: f64 = 0.4;
const SERIES_OF_PEER: f64 = 1.5;

const SCENARIO: &str = "fixtures/nvidia/h100/nvml.toml";

/// How a program is asked.
enum Asked {
    Tcp(Scraper),
    /// all-smi listens to everybody, or on a socket: here on a socket.
    Socket(PathBuf),
}

/// A program under measurement, with a copy of the library to itself, so that its calls are its own.
pub(super) struct Watched {
    name: String,
    version: String,
    daemon: Daemon,
    meter: Meter,
    asked: Asked,
    library: FakeNvml,
    /// How it calls what the two have in common, and what a unit of it is: utilisation, used memory, temperature, power.
    names: [(&'static str, f64); 4],
}

/// What was measured of it.
struct Figures {
    name: String,
    version: String,
    cpu_ms: f64,
    took_ms: Vec<f64>,
    samples: usize,
    pss_kib: u64,
    /// Of it, the stand-in's library, the files beside it, and what it took of the heap.
    library_kib: u64,
    processes: usize,
    calls: f64,
}

/// Measures both; `ours` leaves us out where it is false.
pub(super) fn run(quick: bool, write: bool, ours: bool) -> Result<()> {
    machine::as_root()?;
    let mut build = cmd::cargo(&["build", "--release", "--locked", "--package=fake-nvml"]);
    if ours {
        build.arg("--package=nodewarden");
    }
    cmd::run(&mut build)?;
    let target = cmd::target_dir()?;
    let work = target.join("bench");
    fs::create_dir_all(&work)?;
    let all_smi = nvidia_peer::get(&work)?;
    let temp = tempfile::Builder::new().prefix("nodewarden-bench-").tempdir()?;
    fs::set_permissions(temp.path(), Permissions::from_mode(0o755))?;
    let cores = machine::ready()?;
    let text = fs::read_to_string(cmd::root().join(SCENARIO)).context(SCENARIO)?;
    // A counter that moves: one stale value fails the run.
    let text = moving(&text)?;
    let scenario = Scenario::parse(&text)?;
    let built = target.join("release/libfake_nvml.so");
    let place = |name: &str| -> Result<(PathBuf, FakeNvml)> {
        let dir = temp.path().join(name);
        fs::create_dir_all(&dir)?;
        fs::set_permissions(&dir, Permissions::from_mode(0o755))?;
        let library = FakeNvml::install_built(&dir, &text, &built)?;
        Ok((dir, library))
    };

    let mut programs = Vec::new();
    let (dir, library) = place("all-smi")?;
    programs.push(all_smi_on(&all_smi, &dir, library, &cores)?);
    if ours {
        let (dir, library) = place("nodewarden")?;
        let program = target.join("release/nodewarden");
        programs.push(nodewarden_on(&program, &dir, (library, &scenario), &cores)?);
    }
    for program in &mut programs {
        program.wait_until_shown(&scenario)?;
    }
    let method = programs.iter().map(|p| p.meter.method()).max_by_key(|m| m.len());
    let machine = report::machine(cores.count, temp.path(), method.unwrap_or_default())?;
    let figures = measure(&mut programs, &scenario, if quick { 20 } else { 60 })?;
    drop(programs);
    println!("\n{}", table(&figures));
    if write {
        let document = cmd::root().join(super::DOCUMENT);
        report::write(&document, report::GPUS, &machine, &table(&figures))?;
    }
    let file = work.join("nvidia.json");
    let all: Vec<_> = figures.iter().map(Figures::json).collect();
    fs::write(&file, serde_json::to_string_pretty(&all)?)?;
    println!("{}", file.display());
    if !quick && ours {
        within_limits(&figures)?;
    }
    Ok(())
}

/// The scenario with a counter that every step moves.
fn moving(text: &str) -> Result<String> {
    let moving = text.replace("\nreplay = 0\n", "\nreplay = { start = 0, per_step = 1 }\n");
    ensure!(moving != text, "{SCENARIO} has no `replay = 0`");
    Ok(moving)
}

/// We show more, and must cost less.
fn within_limits(all: &[Figures]) -> Result<()> {
    let [peer, ours] = all else {
        bail!("two programs were to be measured")
    };
    let (cpu, series) = ours.relative_to(peer);
    ensure!(
        cpu <= CPU_OF_PEER && series >= SERIES_OF_PEER,
        "{cpu:.2} of the CPU of {} and {series:.2} of its series, expected at most {CPU_OF_PEER} and at least {SERIES_OF_PEER}",
        peer.name
    );
    ensure!(
        ours.pss_kib < PSS_KIB,
        "PSS {} KiB, limit {PSS_KIB}",
        ours.pss_kib
    );
    Ok(())
}

fn started(command: &Command, name: &str, cores: &Cores) -> Result<(Daemon, Meter)> {
    let cgroup = Cgroup::create(name);
    let command = program::placed(command, cgroup.as_ref(), cores);
    let daemon = Daemon::start(command)?;
    let meter = Meter::new(cgroup, daemon.pid());
    Ok((daemon, meter))
}

/// nodewarden in a folder below `temp`, which shows the GPUs of the stand-in.
pub(super) fn ours(temp: &Path, cores: &Cores) -> Result<Watched> {
    cmd::run(&mut cmd::cargo(&[
        "build",
        "--release",
        "--locked",
        "--package=fake-nvml",
        "--package=nodewarden",
    ]))?;
    let target = cmd::target_dir()?.join("release");
    let text = fs::read_to_string(cmd::root().join(SCENARIO)).context(SCENARIO)?;
    let text = moving(&text)?;
    let dir = temp.join("gpus");
    fs::create_dir_all(&dir)?;
    fs::set_permissions(&dir, Permissions::from_mode(0o755))?;
    let library = FakeNvml::install_built(&dir, &text, &target.join("libfake_nvml.so"))?;
    let scenario = Scenario::parse(&text)?;
    let mut ours = nodewarden_on(&target.join("nodewarden"), &dir, (library, &scenario), cores)?;
    ours.wait_until_shown(&scenario)?;
    Ok(ours)
}

fn all_smi_on(program: &Path, dir: &Path, library: FakeNvml, cores: &Cores) -> Result<Watched> {
    // It believes in GPUs only where this command lists them.
    let lists = dir.join("nvidia-smi");
    fs::write(
        &lists,
        "#!/bin/sh\necho 'GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-0)'\n",
    )?;
    fs::set_permissions(&lists, Permissions::from_mode(0o755))?;
    let socket = dir.join("socket");
    let path = format!("{}:/usr/bin:/bin", dir.display());
    let mut command = Command::new("env");
    command
        .arg(format!("LD_LIBRARY_PATH={}", dir.display()))
        .arg(format!("PATH={path}"))
        .arg(format!("HOME={}", dir.display()))
        .arg(program)
        .args(["api", "--port", "0", "--interval", "1", "--socket"])
        .arg(&socket);
    let (daemon, meter) = started(&command, "all-smi", cores)?;
    Ok(Watched {
        name: "all-smi".to_owned(),
        version: nvidia_peer::ALL_SMI.version.to_owned(),
        daemon,
        meter,
        asked: Asked::Socket(socket),
        library,
        names: [
            ("all_smi_gpu_utilization", 1.0),
            ("all_smi_gpu_memory_used_bytes", 1.0),
            ("all_smi_gpu_temperature_celsius", 1.0),
            ("all_smi_gpu_power_consumption_watts", 1.0),
        ],
    })
}

fn nodewarden_on(
    program: &Path,
    dir: &Path,
    (library, scenario): (FakeNvml, &Scenario),
    cores: &Cores,
) -> Result<Watched> {
    let config = dir.join("config.toml");
    fs::write(&config, format!("[nvidia]\nlibrary = {:?}\n", library.library()))?;
    let root = dir.join("root");
    fs::create_dir_all(&root)?;
    for process in scenario.gpus.iter().flat_map(|gpu| &gpu.processes) {
        let folder = root.join("proc").join(process.pid.to_string());
        fs::create_dir_all(&folder)?;
        fs::write(
            folder.join("cgroup"),
            "0::/system.slice/slurmstepd.scope/job_1/step_0\n",
        )?;
        fs::write(folder.join("comm"), "python\n")?;
    }
    let mut command = Command::new(program);
    command.args(["run", "--listen", "127.0.0.1:0", "--config"]);
    command.arg(&config).arg("--sysroot").arg(&root);
    for (option, folder) in [("--state-dir", "state"), ("--run-dir", "run")] {
        command.arg(option).arg(dir.join(folder));
    }
    let (daemon, meter) = started(&command, super::OURS, cores)?;
    let line = daemon.wait_for_line("listening on http://127.0.0.1:", PATIENCE)?;
    let address: SocketAddr = program::address(&line).with_context(|| line.clone())?;
    Ok(Watched {
        name: super::OURS.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        daemon,
        meter,
        asked: Asked::Tcp(Scraper::connect(address, "/metrics?collect[]=nvidia")?),
        library,
        names: [
            ("gpu_utilization_ratio", 100.0),
            ("gpu_memory_used_bytes", 1.0),
            ("gpu_temperature_celsius", 1.0),
            ("gpu_power_watts", 1.0),
        ],
    })
}

impl Watched {
    /// Its processes, the first one first.
    pub(super) fn pids(&self) -> Vec<u32> {
        let mut pids = vec![self.daemon.pid()];
        pids.extend(self.daemon.children());
        pids
    }

    /// Moves a counter of each GPU, and scrapes.
    pub(super) fn moved(&mut self) -> Result<()> {
        self.library.step(1)?;
        self.scrape().map(|_| ())
    }

    /// A page, and how long it took.
    fn scrape(&mut self) -> Result<(String, Duration)> {
        let scraped = match &mut self.asked {
            Asked::Tcp(scraper) => scraper.scrape(false).map(|s| (s.page, s.took)),
            Asked::Socket(socket) => over_socket(socket),
        };
        scraped.with_context(|| format!("{}\n{}", self.name, self.daemon.stderr()))
    }

    fn wait_until_shown(&mut self, scenario: &Scenario) -> Result<()> {
        let name = self.name.clone();
        let mut last = String::new();
        let shown = wait::until(&format!("eight GPUs of {name}"), PATIENCE, || {
            let Ok((page, _)) = self.scrape() else {
                return Ok(None);
            };
            let wrong = self.wrong(&page, scenario, 0..=0);
            last = wrong.clone().unwrap_or_default();
            Ok(wrong.is_none().then_some(()))
        });
        shown.with_context(|| format!("{last}\n{}", self.daemon.stderr()))
    }

    /// The first value that is not the scenario's at one of these steps.
    fn wrong(&self, page: &str, scenario: &Scenario, steps: RangeInclusive<u64>) -> Option<String> {
        for gpu in &scenario.gpus {
            let uuid = gpu.text(Key::Uuid).unwrap_or_default();
            let all = |key| -> Vec<f64> {
                let value = gpu.value(key);
                let at = |steps| Time { steps, seconds: 0.0 };
                let values = steps.clone().filter_map(|n| value?.float(at(n)));
                values.collect()
            };
            // The first version of the call counts what is reserved as used.
            let with_reserved = all(Key::MemoryUsed)
                .into_iter()
                .zip(all(Key::MemoryReserved))
                .map(|(used, reserved)| used + reserved);
            let power = all(Key::PowerUsage).into_iter().chain(all(Key::PowerInstant));
            let wanted = [
                all(Key::UtilizationGpu),
                all(Key::MemoryUsed).into_iter().chain(with_reserved).collect(),
                all(Key::TemperatureGpu),
                power.map(|milliwatts| milliwatts / 1e3).collect(),
            ];
            for ((name, unit), wanted) in self.names.iter().zip(wanted) {
                let found = values(page, name, uuid);
                let close = |v: &f64| {
                    wanted
                        .iter()
                        .any(|w| (v * unit - w).abs() <= w.abs() * 1e-6 + 1e-9)
                };
                if !found.iter().any(close) {
                    return Some(format!(
                        "{}: {name} of {uuid}: {found:?}, expected {wanted:?}",
                        self.name
                    ));
                }
            }
        }
        None
    }
}

/// Values of a family's series that name a GPU.
fn values(page: &str, name: &str, uuid: &str) -> Vec<f64> {
    let own = page
        .lines()
        .filter_map(|l| l.strip_prefix(name)?.strip_prefix('{'));
    own.filter(|labels| labels.contains(uuid))
        .filter_map(|labels| labels.rsplit_once("} ")?.1.split(' ').next()?.parse().ok())
        .collect()
}

fn over_socket(socket: &Path) -> Result<(String, Duration)> {
    let begin = Instant::now();
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let took = begin.elapsed();
    ensure!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let (_, page) = answer.split_once("\r\n\r\n").context("no body")?;
    Ok((page.to_owned(), took))
}

/// One scrape a second of each, in turn.
fn measure(programs: &mut [Watched], scenario: &Scenario, scrapes: u32) -> Result<Vec<Figures>> {
    let turn = Duration::from_secs(1) / u32::try_from(programs.len())?;
    let used = |programs: &[Watched]| {
        programs
            .iter()
            .map(|p| p.meter.used())
            .collect::<Result<Vec<_>>>()
    };
    machine::settle(machine::SETTLE)?;
    let _warm = Warm::keep(programs.iter().flat_map(Watched::pids).collect())?;
    let called: Vec<Calls> = programs.iter().map(|p| p.library.calls()).collect();
    let before = used(programs)?;
    let mut took: Vec<Vec<f64>> = programs.iter().map(|_| Vec::new()).collect();
    let mut samples = vec![0; programs.len()];
    let mut next = Instant::now();
    for step in 1..=scrapes {
        for (i, program) in programs.iter_mut().enumerate() {
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
            next += turn;
            program.library.step(1)?;
            let (page, time) = program.scrape()?;
            // The other one reads by its own clock, once a second.
            let mut age = 3;
            if program.name == super::OURS {
                age = 0;
                let replays = values(&page, "gpu_pcie_replays_total", "GPU-");
                let now = f64::from(step);
                ensure!(
                    replays == vec![now; scenario.gpus.len()],
                    "{replays:?}, expected {now}"
                );
            }
            let step = u64::from(step);
            if let Some(wrong) = program.wrong(&page, scenario, step.saturating_sub(age)..=step) {
                bail!("{wrong}");
            }
            took[i].push(time.as_secs_f64() * 1e3);
            samples[i] = page
                .lines()
                .filter(|l| !l.is_empty() && !l.starts_with('#'))
                .count();
        }
    }
    std::thread::sleep(turn);
    let after = used(programs)?;
    let mut figures = Vec::new();
    for (i, program) in programs.iter().enumerate() {
        let (mut feet, mut library_kib) = (Vec::new(), program.library.held() / 1024);
        for pid in program.pids() {
            feet.push(Footprint::read(pid)?);
            library_kib += footprint::mapped(pid, program.library.library())?;
        }
        let calls = program.library.calls().since(&called[i]);
        figures.push(Figures {
            name: program.name.clone(),
            version: program.version.clone(),
            cpu_ms: after[i].saturating_sub(before[i]).as_secs_f64() * 1e3 / f64::from(scrapes),
            took_ms: took[i].clone(),
            samples: samples[i],
            pss_kib: feet.iter().map(|f| f.pss).sum(),
            library_kib,
            processes: feet.len(),
            calls: calls.total() as f64 / f64::from(scrapes),
        });
        // A reading answers scrapes for a while, so that there is no more than one for each.
        let above = calls.above(u64::from(scrapes) + 2);
        if program.name == super::OURS && !above.is_empty() {
            bail!("called more than once a reading: {above:?}");
        }
    }
    Ok(figures)
}

impl Figures {
    fn percentile(&self, share: usize) -> f64 {
        let mut sorted = self.took_ms.clone();
        sorted.sort_by(f64::total_cmp);
        let index = (sorted.len() * share / 100).min(sorted.len().saturating_sub(1));
        sorted.get(index).copied().unwrap_or(f64::NAN)
    }

    /// CPU and series, relative to another's.
    fn relative_to(&self, other: &Self) -> (f64, f64) {
        let series = self.samples as f64 / other.samples as f64;
        (self.cpu_ms / other.cpu_ms, series)
    }

    fn per_series(&self) -> f64 {
        let samples = self.samples.max(1) as f64;
        self.cpu_ms * 1e3 / samples
    }

    fn json(&self) -> serde_json::Value {
        json!({
            "name": self.name, "version": self.version, "cpu_ms_per_scrape": self.cpu_ms, "series": self.samples,
            "cpu_us_per_series": self.per_series(), "p50_ms": self.percentile(50), "p99_ms": self.percentile(99),
            "pss_kib": self.pss_kib, "library_kib": self.library_kib, "processes": self.processes, "nvml_calls_per_second": self.calls,
        })
    }
}

/// The table, in Markdown.
fn table(all: &[Figures]) -> String {
    let rows: [report::Row<Figures>; 9] = [
        ("version", |f, _| f.version.clone()),
        ("CPU of all processes, ms a scrape at one a second", |f, _| {
            format!("{:.2}", f.cpu_ms)
        }),
        ("series on the page", |f, _| f.samples.to_string()),
        ("CPU, us a series", |f, _| format!("{:.2}", f.per_series())),
        ("relative to all-smi: CPU / series", |f, all| {
            let (cpu, series) = all
                .first()
                .map_or((f64::NAN, f64::NAN), |peer| f.relative_to(peer));
            format!("{cpu:.2} / {series:.2}")
        }),
        ("latency p50 / p99, ms", |f, _| {
            format!("{:.2} / {:.2}", f.percentile(50), f.percentile(99))
        }),
        ("PSS of all processes / of it the stand-in, KiB", |f, _| {
            format!("{} / {}", f.pss_kib, f.library_kib)
        }),
        ("processes", |f, _| f.processes.to_string()),
        ("NVML calls a second", |f, _| format!("{:.0}", f.calls)),
    ];
    report::columns(all, |f| f.name.as_str(), &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_one_gpu_of_one_family() {
        let page =
            "# TYPE a gauge\na{x=\"1\",uuid=\"GPU-1\"} 5 1700\na{uuid=\"GPU-2\"} 6\nab{uuid=\"GPU-1\"} 7\n";
        assert_eq!(values(page, "a", "GPU-1"), [5.0]);
        assert_eq!(values(page, "b", "GPU-1"), [0.0; 0]);
    }
}
