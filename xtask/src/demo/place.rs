//! The demo's folder, pages and commands.

use std::fs::{self, Permissions};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use tempfile::TempDir;
use testkit::exposition::{self, Sample};
use testkit::http::{self, Response};

use crate::cmd;

/// How long one answer may take.
const ANSWER: Duration = Duration::from_secs(10);

/// Pages to open, with descriptions.
const PAGES: &[(&str, &str)] = &[
    ("status page", "/"),
    ("status, JSON", "/api/v1/status"),
    ("metrics", "/metrics"),
    ("in detail", "/metrics?tier=detail"),
];

/// Pages of other exporters, and a series of a node for which they have content. They are not opened to see it: each page that was
/// scraped has series of its own.
const EXPORTERS: &[(&str, &str, &str, &str)] = &[
    ("as DCGM's", "/metrics/dcgm", "gpu_info", "nvidia"),
    ("as AMD's", "/metrics/amd", "gpu_info", "amd"),
    (
        "as node_exporter's",
        "/metrics/node_exporter",
        "rdma_port_state",
        "",
    ),
    (
        "as gpfs_exporter's",
        "/metrics/gpfs_exporter",
        "gpfs_daemon_up",
        "",
    ),
];

/// What a node has, in words, and a metric with one series for each.
const DEVICES: &[(&str, &str)] = &[
    ("GPUs", "gpu_up"),
    ("RDMA ports", "rdma_port_state"),
    ("mounted filesystems", "mount_size_bytes"),
    ("Lustre clients", "lustre_client_info"),
    ("GPFS filesystems", "gpfs_filesystem_info"),
    ("NVMe controllers", "nvme_info"),
    ("jobs", "slurm_job_info"),
];

/// A folder with a node, and the daemon on it.
pub(crate) struct Place {
    program: PathBuf,
    listen: SocketAddr,
    dir: TempDir,
}

impl Place {
    pub(crate) fn new(program: PathBuf, listen: SocketAddr) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("nodewarden-demo-").tempdir()?;
        // Under root the workers run as other users, who may not read a checkout below a user's home.
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755))?;
        Ok(Self { program, listen, dir })
    }

    pub(super) const fn address(&self) -> SocketAddr {
        self.listen
    }

    pub(crate) fn node(&self) -> PathBuf {
        self.dir.path().join("node")
    }

    pub(super) fn run_dir(&self) -> PathBuf {
        self.dir.path().join("run")
    }

    pub(super) fn program(&self) -> &Path {
        &self.program
    }

    /// The recorded node's configuration. This machine's is not its own.
    fn config(&self) -> Result<PathBuf> {
        let file = self.node().join("health.toml");
        if !file.is_file() {
            fs::write(&file, "")?;
        }
        Ok(file)
    }

    /// The daemon's command.
    pub(super) fn command(&self) -> Result<Command> {
        let mut command = cmd::program(&self.program.to_string_lossy(), &["run", "--recorded"]);
        command
            .arg(self.node())
            .arg("--listen")
            .arg(self.listen.to_string());
        command.arg("--config").arg(self.config()?);
        command.arg("--state-dir").arg(self.dir.path().join("state"));
        command.arg("--run-dir").arg(self.run_dir());
        Ok(command)
    }

    /// A subcommand for this daemon, as printed.
    pub(super) fn subcommand(&self, words: &str) -> Command {
        let mut command = cmd::program(&self.program.to_string_lossy(), &[]);
        command
            .args(words.split(' '))
            .arg("--run-dir")
            .arg(self.run_dir());
        command
    }

    pub(crate) fn get(&self, page: &str) -> Result<String> {
        Ok(self.answer(page)?.ok()?.to_owned())
    }

    pub(crate) fn answer(&self, page: &str) -> Result<Response> {
        http::get(&self.listen.to_string(), page, &[], ANSWER)
    }

    /// Where its pages are.
    pub(crate) fn origin(&self) -> String {
        format!("http://{}", self.listen)
    }

    /// Whether the daemon has read the node.
    pub(super) fn serves(&self) -> bool {
        self.get("/-/ready").is_ok()
    }

    /// Prints what this recording has and what to try with it. `length`: time of its last change.
    pub(super) fn print_where_to_look(&self, length: Duration) -> Result<()> {
        let samples = exposition::check(&self.get("/metrics")?)?;
        println!("\nA recorded node. Nothing here touches this machine's hardware or its Slurm.");
        let source = fs::read_to_string(self.node().join("SOURCE")).unwrap_or_default();
        println!("{}. {}\n", devices(&samples, source.trim_end()), changes(length));
        for (what, page) in pages(&samples) {
            println!("  {what:18} {}{page}", self.origin());
        }
        println!();
        for words in commands(&samples) {
            let (program, run) = (self.program.display(), self.run_dir());
            println!("  {program} {words} --run-dir {}", run.display());
        }
        println!("\nIts time runs from now on. Ctrl-C ends it and removes its files.\n");
        Ok(())
    }
}

/// `GPUs: 8, RDMA ports: 10`, or what its file SOURCE begins with: some sources are not read yet.
fn devices(samples: &[Sample], source: &str) -> String {
    let count = |metric: &str| samples.iter().filter(|s| s.name == metric).count();
    let found: Vec<String> = DEVICES
        .iter()
        .map(|(words, metric)| (words, count(metric)))
        .filter(|(_, count)| *count > 0)
        .map(|(words, count)| format!("{words}: {count}"))
        .collect();
    if found.is_empty() {
        return source
            .split_once(". ")
            .map_or(source, |(first, _)| first)
            .to_owned();
    }
    found.join(", ")
}

fn changes(length: Duration) -> String {
    if length.is_zero() {
        return "Its state does not change.".to_owned();
    }
    format!(
        "Its last change comes {} s after the start; a check may wait minutes before it judges one.",
        length.as_secs()
    )
}

/// Pages with content on this node.
pub(super) fn pages(samples: &[Sample]) -> Vec<(&'static str, &'static str)> {
    let has = |metric: &str, vendor: &str| {
        let mut of = samples.iter().filter(|s| s.name == metric);
        of.any(|s| vendor.is_empty() || s.labels.get("vendor").is_some_and(|found| found == vendor))
    };
    let exporters = EXPORTERS
        .iter()
        .filter(|(_, _, metric, vendor)| has(metric, vendor));
    let mut list = PAGES.to_vec();
    list.extend(exporters.map(|(what, page, ..)| (*what, *page)));
    list
}

/// Commands that show something on this node.
pub(super) fn commands(samples: &[Sample]) -> Vec<String> {
    let mut list = ["status", "status --watch", "why", "check"]
        .map(str::to_owned)
        .to_vec();
    let jobs = samples.iter().filter(|s| s.name == "slurm_job_info");
    if let Some(first) = jobs.filter_map(|s| s.labels.get("jobid")).min() {
        list.extend(["job".to_owned(), format!("job {first}")]);
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(name: &str, label: (&str, &str)) -> Sample {
        let labels = [(label.0.to_owned(), label.1.to_owned())].into();
        Sample {
            name: name.to_owned(),
            labels,
            value: 1.0,
            timestamp: None,
        }
    }

    #[test]
    fn only_a_node_with_jobs_gets_commands_about_jobs_and_the_first_of_its_own() {
        let gpu = sample("gpu_up", ("gpu", "a"));
        assert!(
            !commands(std::slice::from_ref(&gpu))
                .iter()
                .any(|words| words.starts_with("job"))
        );
        assert_eq!(devices(std::slice::from_ref(&gpu), ""), "GPUs: 1");
        let jobs = [
            gpu,
            sample("slurm_job_info", ("jobid", "4712")),
            sample("slurm_job_info", ("jobid", "4711")),
        ];
        assert!(commands(&jobs).contains(&"job 4711".to_owned()));
        assert_eq!(devices(&jobs, ""), "GPUs: 1, jobs: 2");
        assert_eq!(
            devices(&[], "captured: two drives of 6.1 TB. More."),
            "captured: two drives of 6.1 TB"
        );
    }

    #[test]
    fn a_page_of_an_exporter_is_shown_on_a_node_with_its_devices() {
        let shown = |samples: &[Sample]| -> Vec<&str> {
            pages(samples)
                .iter()
                .skip(PAGES.len())
                .map(|(_, page)| *page)
                .collect()
        };
        assert_eq!(shown(&[]), [""; 0]);
        assert_eq!(shown(&[sample("gpu_info", ("vendor", "amd"))]), ["/metrics/amd"]);
        let node = [
            sample("gpu_info", ("vendor", "nvidia")),
            sample("rdma_port_state", ("device", "mlx5_0")),
        ];
        assert_eq!(shown(&node), ["/metrics/dcgm", "/metrics/node_exporter"]);
    }

    #[test]
    fn a_recording_without_steps_does_not_change() {
        assert_eq!(changes(Duration::ZERO), "Its state does not change.");
        assert!(changes(Duration::from_secs(18)).starts_with("Its last change comes 18 s after the start;"));
    }
}
