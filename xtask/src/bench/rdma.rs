//! `cargo xtask bench rdma`: cost of a port's counters by netlink and by sysfs files, in a guest with soft-RoCE.

use anyhow::{Context, Result, ensure};

use super::report;
use crate::{cmd, vm};

/// The worker's work for a number of pages.
#[derive(Debug, PartialEq)]
struct Way {
    ports: f64,
    pages: f64,
    /// CPU time in nanoseconds.
    ns: f64,
    /// Files read.
    reads: f64,
    /// All system calls.
    calls: f64,
    /// Messages sent to the kernel.
    asked: f64,
}

/// Measures both ways.
///
/// # Errors
/// When the guest reports no result, or netlink saves no calls.
pub(super) fn run(write: bool) -> Result<()> {
    let results = vm::bench()?;
    let detail = |name: &str| {
        let found = results.iter().find(|(n, _)| n == name);
        found.map(|(_, detail)| detail.as_str()).context(name.to_owned())
    };
    let (netlink, sysfs) = (Way::parse(detail("netlink")?)?, Way::parse(detail("sysfs")?)?);
    let table = table(&netlink, &sysfs);
    println!("\n{table}\ncompared with node_exporter, on ten InfiniBand adapters: `cargo xtask bench`");
    if write {
        let method = format!(
            "instructions, 8 ns each, in QEMU with Linux {}; profile ci",
            detail("kernel")?
        );
        let cores = std::thread::available_parallelism()?.get();
        let machine = report::machine(cores, cmd::root(), &method)?;
        report::write(&cmd::root().join(super::DOCUMENT), report::RDMA, &machine, &table)?;
    }
    judge(&netlink, &sysfs)
}

impl Way {
    fn parse(detail: &str) -> Result<Self> {
        let value = |name: &str| -> Result<f64> {
            let mut words = detail.split_whitespace().filter_map(|w| w.split_once('='));
            let found = words.find(|(n, _)| *n == name);
            let (_, value) = found.with_context(|| format!("no {name} in {detail}"))?;
            value.parse().with_context(|| format!("{name} in {detail}"))
        };
        Ok(Self {
            ports: value("ports")?,
            pages: value("pages")?,
            ns: value("ns")?,
            reads: value("reads")?,
            calls: value("calls")?,
            asked: value("asked")?,
        })
    }

    fn a_page(&self, what: f64) -> f64 {
        what / self.pages
    }

    fn a_port(&self, what: f64) -> f64 {
        what / self.pages / self.ports
    }
}

/// The table, in Markdown.
fn table(netlink: &Way, sysfs: &Way) -> String {
    type Cell = fn(&Way) -> f64;
    let rows: [(&str, Cell); 6] = [
        ("worker's time, us a port and reading", |w| w.a_port(w.ns) / 1e3),
        ("files read, a port and reading", |w| w.a_port(w.reads)),
        ("messages to the kernel, a port and reading", |w| {
            w.a_port(w.asked)
        }),
        ("system calls, a port and reading", |w| w.a_port(w.calls)),
        ("worker's time, ms a scrape", |w| w.a_page(w.ns) / 1e6),
        ("system calls of the worker, a scrape", |w| w.a_page(w.calls)),
    ];
    let mut text = "| | netlink | sysfs | ratio |\n|---|---|---|---|\n".to_owned();
    for (what, cell) in rows {
        let (a, b) = (cell(netlink), cell(sysfs));
        let ratio = if b > 0.0 {
            format!("{:.2}", a / b)
        } else {
            "-".to_owned()
        };
        text += &format!("| {what} | {a:.1} | {b:.1} | {ratio} |\n");
    }
    text
}

/// Checks counts only: times depend on the machine.
fn judge(netlink: &Way, sysfs: &Way) -> Result<()> {
    ensure!(
        netlink.asked > 0.0 && sysfs.a_port(sysfs.reads) > 15.0,
        "expected messages by netlink in one run, and more than 15 files read per port in the other"
    );
    ensure!(
        netlink.ns > 0.0 && sysfs.ns > 0.0,
        "no CPU time of the worker: {} ns by netlink, {} ns by files",
        netlink.ns,
        sysfs.ns
    );
    ensure!(
        netlink.a_port(netlink.asked) <= 3.0,
        "{:.1} messages per port, expected at most 3",
        netlink.a_port(netlink.asked)
    );
    ensure!(
        netlink.calls < sysfs.calls * 0.6,
        "{:.0} system calls by netlink, {:.0} by files: expected a ratio below 0.6",
        netlink.calls,
        sysfs.calls
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(text: &str) -> Way {
        Way::parse(text).unwrap()
    }

    #[test]
    fn figures_are_those_of_a_port_and_of_a_page() {
        let netlink = way("ports=10 pages=50 ns=50000000 reads=1000 calls=5000 asked=500");
        let sysfs = way("ports=10 pages=50 ns=100000000 reads=10000 calls=20000 asked=0");
        let table = table(&netlink, &sysfs);
        for row in [
            "| worker's time, us a port and reading | 100.0 | 200.0 | 0.50 |",
            "| messages to the kernel, a port and reading | 1.0 | 0.0 | - |",
            "| system calls of the worker, a scrape | 100.0 | 400.0 | 0.25 |",
        ] {
            assert!(table.contains(row), "{table}");
        }
        assert!(judge(&netlink, &sysfs).is_ok());
        for ns in [0.0, -1.0] {
            assert!(judge(&Way { ns, ..netlink }, &sysfs).is_err());
            assert!(judge(&netlink, &Way { ns, ..sysfs }).is_err());
        }
    }

    #[test]
    fn a_guest_that_read_files_both_times_fails() {
        let files = way("ports=10 pages=50 ns=1 reads=10000 calls=20000 asked=0");
        assert!(judge(&files, &files).is_err());
        assert!(Way::parse("ports=10 pages=50 ns=1 reads=1").is_err());
    }
}
