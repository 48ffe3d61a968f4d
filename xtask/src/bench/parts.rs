//! `cargo xtask bench where`: what one scrape costs each process, on four trees.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use nix::sys::signal::Signal;
use testkit::daemon::Daemon;
use testkit::proc;
use testkit::scrape::Scraper;
use testkit::tree;
use testkit::wait::{self, PATIENCE};

use super::machine;
use super::program::{self, Program};
use super::{DOCUMENT, OURS, OURS_WHOLE, Place, nvidia, report};
use crate::cmd;

/// A client with one OST and one MDT.
const LUSTRE: &str = "fixtures/lustre/healthy";

/// System calls that are named for each process.
const NAMED: usize = 5;

/// How much is measured.
#[derive(Clone, Copy)]
struct Plan {
    settle: Duration,
    /// Scrapes, one a second.
    scrapes: u32,
    /// Scrapes under strace.
    traced: u32,
}

const FULL: Plan = Plan {
    settle: machine::SETTLE,
    scrapes: 60,
    traced: 20,
};

const QUICK: Plan = Plan {
    settle: Duration::from_secs(2),
    scrapes: 3,
    traced: 2,
};

/// Counts of one process, all threads together.
#[derive(Clone, Copy, Default)]
struct Counts {
    cpu_ns: u64,
    /// Voluntary switches: each ends with a wake-up.
    sleeps: u64,
    preempted: u64,
}

/// One process.
#[derive(Default)]
struct Part {
    name: String,
    counts: Counts,
    /// By name, in all traced scrapes.
    calls: BTreeMap<String, u64>,
    /// Writes to other processes of ours, and their bytes, in all traced scrapes.
    writes: u64,
    bytes: u64,
    /// Threads whose write to another process has not returned yet.
    writing: BTreeSet<String>,
}

/// All processes on one tree.
struct Tree {
    title: &'static str,
    plan: Plan,
    parts: Vec<Part>,
}

/// Measures all trees, and prints the tables or writes them.
///
/// # Errors
/// When a program does not start or answer.
pub(super) fn run(quick: bool, write: bool) -> Result<()> {
    let plan = if quick { QUICK } else { FULL };
    ensure!(cmd::exists("strace"), "needs strace");
    let place = Place::new()?;
    let cores = machine::ready()?;
    let mut trees = Vec::new();

    for (title, folder, name) in [("InfiniBand", "ib", OURS), ("Whole node", "whole", OURS_WHOLE)] {
        if name == OURS_WHOLE {
            tree::unpack(&cmd::root().join(super::NODE), &place.temp.path().join(folder))?;
        }
        let mut hcas = place.adapters(folder)?;
        let recipe = place.nodewarden(name, folder, hcas.len())?;
        let mut program = Program::start(recipe, &cores, &mut hcas)?;
        let pids = program.pids();
        trees.push(measure(title, plan, &pids, &mut || {
            program.scrape(true, &mut hcas).map(|_| ())
        })?);
    }

    let mut gpus = nvidia::ours(place.temp.path(), &cores)?;
    let pids = gpus.pids();
    trees.push(measure("8 GPUs of the stand-in", plan, &pids, &mut || {
        gpus.moved()
    })?);
    drop(gpus);

    tree::unpack(&cmd::root().join(LUSTRE), &place.temp.path().join("lustre"))?;
    let recipe = place.nodewarden(OURS, "lustre", 0)?;
    let daemon = Daemon::start(program::placed(&recipe.command, None, &cores))?;
    let line = daemon.wait_for_line(recipe.says, PATIENCE)?;
    let address = program::address(&line).with_context(|| line.clone())?;
    let mut scraper = Scraper::connect(address, "/metrics?tier=detail")?;
    wait::until("Lustre on the page", PATIENCE, || {
        let page = scraper.scrape(true)?.page;
        Ok(page.contains("\nlustre_").then_some(()))
    })?;
    let mut pids = vec![daemon.pid()];
    pids.extend(daemon.children());
    trees.push(measure("Lustre client", plan, &pids, &mut || {
        scraper.scrape(true).map(|_| ())
    })?);

    let table: Vec<String> = trees.iter().map(table).collect();
    let table = table.join("\n");
    println!("\n{table}");
    if write {
        let method = format!("schedstat of each thread, exact to 1 us; {}", instructions());
        let machine = report::machine(cores.count, place.temp.path(), &method)?;
        report::write(&cmd::root().join(DOCUMENT), report::WHERE, &machine, &table)?;
    }
    Ok(())
}

/// Whether this machine counts instructions of a process.
fn instructions() -> &'static str {
    let perf = cmd::exists("perf")
        .then(|| cmd::program("perf", &["stat", "-x,", "-e", "instructions:u", "true"]).output());
    let counted = perf.and_then(Result::ok).is_some_and(|out| {
        let text = String::from_utf8_lossy(&out.stderr);
        text.split(',')
            .next()
            .is_some_and(|n| n.trim().parse::<u64>().is_ok())
    });
    if counted {
        "instructions: see `perf stat`, which has counters here"
    } else {
        "no instructions: this machine gives perf no counters"
    }
}

fn measure(
    title: &'static str,
    plan: Plan,
    pids: &[u32],
    scrape: &mut dyn FnMut() -> Result<()>,
) -> Result<Tree> {
    println!("{title}: {} processes", pids.len());
    machine::settle(plan.settle)?;
    let read = || pids.iter().map(|pid| counts(*pid)).collect::<Result<Vec<_>>>();
    let before = read()?;
    for _ in 0..plan.scrapes {
        scrape()?;
        std::thread::sleep(Duration::from_secs(1));
    }
    let after = read()?;
    let mut parts = Vec::new();
    for ((pid, before), after) in pids.iter().zip(before).zip(after) {
        parts.push(Part {
            name: name(*pid)?,
            counts: Counts {
                cpu_ns: after.cpu_ns.saturating_sub(before.cpu_ns),
                sleeps: after.sleeps.saturating_sub(before.sleeps),
                preempted: after.preempted.saturating_sub(before.preempted),
            },
            ..Part::default()
        });
    }
    // Last: strace slows a program down, and its workers may then be late.
    let texts = traced(pids, plan.traced, scrape)?;
    for (part, text) in parts.iter_mut().zip(texts) {
        text.lines().for_each(|line| part.call(line));
    }
    Ok(Tree { title, plan, parts })
}

fn name(pid: u32) -> Result<String> {
    Ok(named(&proc::cmdline(pid)?))
}

/// `worker rdma` of `nodewarden worker rdma 60803 60803`: the words that are no options, ids or helpers.
fn named(words: &[String]) -> String {
    let is_name = |w: &&str| w.bytes().all(|b| b.is_ascii_lowercase());
    let plain = words.iter().skip(1).map(String::as_str).take_while(is_name);
    let name = plain.collect::<Vec<_>>().join(" ");
    if name == "run" { "parent".to_owned() } else { name }
}

/// Threads that end between two readings are not counted.
fn counts(pid: u32) -> Result<Counts> {
    let mut all = Counts::default();
    for tid in proc::tasks(pid)? {
        let (Ok(times), Ok(status)) = (
            fs::read_to_string(format!("/proc/{pid}/task/{tid}/schedstat")),
            proc::Status::read_task(pid, tid),
        ) else {
            continue;
        };
        let on_cpu = times.split(' ').next().context("empty schedstat")?;
        all.cpu_ns += on_cpu.parse::<u64>()?;
        all.sleeps += status.get("voluntary_ctxt_switches")?.parse::<u64>()?;
        all.preempted += status.get("nonvoluntary_ctxt_switches")?.parse::<u64>()?;
    }
    Ok(all)
}

/// One strace for each process, and what each wrote.
fn traced(pids: &[u32], scrapes: u32, scrape: &mut dyn FnMut() -> Result<()>) -> Result<Vec<String>> {
    let dir = tempfile::tempdir()?;
    let mut tracers = Vec::new();
    for pid in pids {
        let file = dir.path().join(pid.to_string());
        let mut command = cmd::program(
            "strace",
            &["-f", "-yy", "-qq", "-s", "0", "-e", "signal=none", "-o"],
        );
        command.arg(&file).args(["-p", &pid.to_string()]);
        let tracer = Daemon::start(command)?;
        wait::until("strace attached", PATIENCE, || {
            ensure!(tracer.ended()?.is_none(), "strace: {}", tracer.stderr());
            let status = proc::Status::read(*pid)?;
            Ok((status.get("TracerPid")? == tracer.pid().to_string()).then_some(()))
        })?;
        tracers.push((tracer, file));
    }
    for _ in 0..scrapes {
        scrape()?;
        // What the scrape left to do belongs to it.
        std::thread::sleep(Duration::from_millis(200));
    }
    let mut texts = Vec::new();
    for (tracer, file) in tracers {
        tracer.signal(Signal::SIGINT)?;
        tracer.wait(PATIENCE)?;
        texts.push(String::from_utf8_lossy(&fs::read(file)?).into_owned());
    }
    Ok(texts)
}

impl Part {
    /// Counts a line of strace: `TID name(ARGUMENTS) = RESULT`. A call that another thread interrupts is on two lines.
    fn call(&mut self, line: &str) {
        // A process with one thread has no ids in its lines.
        let with_id = line
            .split_once(' ')
            .filter(|(id, _)| id.bytes().all(|b| b.is_ascii_digit()));
        let (thread, call) = with_id.unwrap_or(("", line));
        let call = call.trim_start();
        let result = || {
            call.rsplit_once(" = ")
                .and_then(|(_, n)| n.trim().parse::<u64>().ok())
        };
        if call.starts_with("<... ") {
            if self.writing.remove(thread) {
                self.bytes += result().unwrap_or(0);
            }
            return;
        }
        let Some((name, rest)) = call.split_once('(') else {
            return;
        };
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
            return;
        }
        *self.calls.entry(name.to_owned()).or_default() += 1;
        let is_write = ["write", "writev", "sendto", "sendmsg"].contains(&name);
        let descriptor = rest.split(',').next().unwrap_or_default();
        if is_write && descriptor.contains("<UNIX") {
            self.writes += 1;
            if rest.ends_with("<unfinished ...>") {
                self.writing.insert(thread.to_owned());
            }
            self.bytes += result().unwrap_or(0);
        }
    }

    /// `pread64 680, futex 4`: the most frequent calls of a scrape.
    fn named(&self, scrapes: f64) -> String {
        let mut all: Vec<(&String, &u64)> = self.calls.iter().collect();
        all.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
        let mut text = String::new();
        for (name, count) in all.into_iter().take(NAMED) {
            let comma = if text.is_empty() { "" } else { ", " };
            let _ = write!(text, "{comma}{name} {:.1}", *count as f64 / scrapes);
        }
        text
    }
}

fn table(tree: &Tree) -> String {
    let mut text = format!(
        "{}, each a scrape:\n\n| process | CPU us | wake-ups | preempted | system calls | writes to links | bytes | most frequent calls |\n\
         |---|---|---|---|---|---|---|---|\n",
        tree.title
    );
    let (scrapes, traced) = (f64::from(tree.plan.scrapes), f64::from(tree.plan.traced));
    for part in &tree.parts {
        let counts = part.counts;
        let _ = writeln!(
            text,
            "| {} | {:.0} | {:.1} | {:.1} | {:.1} | {:.1} | {:.0} | {} |",
            part.name,
            counts.cpu_ns as f64 / 1e3 / scrapes,
            counts.sleeps as f64 / scrapes,
            counts.preempted as f64 / scrapes,
            part.calls.values().sum::<u64>() as f64 / traced,
            part.writes as f64 / traced,
            part.bytes as f64 / traced,
            part.named(traced)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_and_writes_to_links_are_read() {
        let mut part = Part::default();
        for line in [
            "12 pread64(7</sys/class/x>, \"\"..., 64, 0) = 2",
            "12  write(3<UNIX-STREAM:[10->11]>, \"\"..., 100) = 100",
            "13 writev(9<TCP:[127.0.0.1:1->127.0.0.1:2]>, [{...}], 2) = 500",
            "13 sendmsg(3<UNIX-SEQPACKET:[10->11]>, {msg_name=NULL, ...}, 0 <unfinished ...>",
            "12 <... read resumed>\"\"..., 100) = 7",
            "13 <... sendmsg resumed>) = 20",
            "recvmsg(4<UNIX-STREAM:[10->11]>, {msg_name=NULL, ...}, 0) = 0",
            "13 +++ exited with 0 +++",
        ] {
            part.call(line);
        }
        assert_eq!(part.calls.values().sum::<u64>(), 5);
        assert_eq!((part.writes, part.bytes), (2, 120));
        assert_eq!(
            part.named(2.0),
            "pread64 0.5, recvmsg 0.5, sendmsg 0.5, write 0.5, writev 0.5"
        );
    }

    #[test]
    fn processes_are_named_by_their_words() {
        let named = |line: &str| named(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(named("nodewarden run --listen x"), "parent");
        assert_eq!(named("exe daemon 60800 60800"), "daemon");
        assert_eq!(named("exe worker slurm 60805 60805 bpf=1 proc=2"), "worker slurm");
    }

    #[test]
    fn sleeps_of_a_process_are_counted() {
        let script = ["-c", "while :; do sleep 0.01; done"];
        let mut child = std::process::Command::new("sh").args(script).spawn().unwrap();
        let counted = || counts(child.id()).unwrap();
        let before = counted().sleeps;
        let waited = testkit::wait::until_true("another sleep", testkit::wait::PATIENCE, || {
            let now = counted();
            now.sleeps > before && now.cpu_ns > 0
        });
        child.kill().unwrap();
        child.wait().unwrap();
        waited.unwrap();
    }
}
