//! Countable costs of a scrape: descriptors, threads, memory, system calls.
//!
//! Needs root, FUSE and strace.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    unreachable_pub,
    missing_docs,
    reason = "a test fails by panicking, and looks at the process from outside"
)]

#[path = "../common/mod.rs"]
mod common;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::chown;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use common::{LONG, Node};
use testkit::footprint::{self, Footprint};
use testkit::hcas::Hcas;
use testkit::proc;
use testkit::scrape::Scraper;
use testkit::strace::Strace;
use testkit::tree::{self, Entry};

/// A reading is reused for 10 ms: only a later scrape causes a new one.
const APART: Duration = Duration::from_millis(11);
/// Threads that begin with their first use.
const LATE: [&str; 4] = ["act", "r:tasks", "r:ethernet", "r:mounts"];

/// A node with eight GPUs and ten adapters, which runs, and a scraper of it.
fn node() -> (Node, Hcas, Scraper) {
    let mut node = Node::new();
    let hcas = Hcas::build(&node.path("root"), 10).unwrap();
    node.start();
    let address = node.address().unwrap().parse().unwrap();
    let scraper = Scraper::connect(address, "/metrics?tier=detail").unwrap();
    (node, hcas, scraper)
}

fn pids(node: &Node) -> Vec<u32> {
    let daemon = node.daemon();
    std::iter::once(daemon.pid()).chain(daemon.children()).collect()
}

fn footprints(node: &Node) -> BTreeMap<u32, Footprint> {
    let read = |pid| (pid, Footprint::read(pid).unwrap());
    pids(node).into_iter().map(read).collect()
}

fn counts(footprints: &BTreeMap<u32, Footprint>) -> BTreeMap<u32, (usize, usize)> {
    let count = |(pid, f): (&u32, &Footprint)| (*pid, (f.fds, f.threads));
    footprints.iter().map(count).collect()
}

/// Names of all threads.
fn threads(node: &Node) -> Vec<String> {
    let tasks = pids(node).into_iter().flat_map(|pid| proc::tasks(pid).unwrap());
    // One may end meanwhile.
    tasks.filter_map(|task| proc::comm(task).ok()).collect()
}

#[test]
fn two_thousand_scrapes_leave_processes_descriptors_and_threads_as_they_were() {
    let (node, mut hcas, mut scraper) = node();
    let mut scrape = |count: usize| {
        for number in 0..count {
            if number.is_multiple_of(50) {
                hcas.advance().unwrap();
            }
            sleep(APART);
            assert!(scraper.scrape(number.is_multiple_of(2)).unwrap().samples() > 0);
        }
    };
    scrape(200);
    // The parent's begins with the first look at Slurm, after up to 30 s; that of a collector with a clock of its own with the
    // first reading, after up to 60 s.
    let started = testkit::wait::until_true("a thread for each use", 3 * LONG, || {
        let all = threads(&node);
        LATE.iter().all(|late| all.iter().any(|thread| thread == late))
    });
    started.unwrap();
    // A thread that is ending still counts: wait for the same counts twice.
    let mut before = footprints(&node);
    node.until("it has settled", |node| {
        sleep(Duration::from_millis(500));
        let last = std::mem::replace(&mut before, footprints(node));
        counts(&last) == counts(&before)
    });
    scrape(2_000);
    let mut after = BTreeMap::new();
    let same = testkit::wait::until_true("the same counts", LONG, || {
        after = footprints(&node);
        counts(&after) == counts(&before)
    });
    assert!(same.is_ok(), "before {before:#?}\nafter {after:#?}");
    for (pid, before) in &before {
        let after = &after[pid];
        let most = before.rss + (before.rss / 20).max(1024);
        assert!(
            after.rss <= most,
            "KiB of memory: before {before:?}, after {after:?}"
        );
    }
}

#[test]
fn a_scrape_makes_about_one_system_call_for_each_file() {
    const SCRAPES: usize = 30;
    /// Frames of ten adapters, the files beside the counters, HTTP, and now and then the other collectors.
    const BESIDES: usize = 300;
    let (node, hcas, mut scraper) = node();
    let traces: Vec<Strace> = pids(&node)
        .into_iter()
        .map(|pid| Strace::attach(pid).unwrap())
        .collect();
    for _ in 0..SCRAPES {
        sleep(APART);
        scraper.scrape(true).unwrap();
    }
    let mut names: BTreeMap<String, usize> = BTreeMap::new();
    for trace in traces {
        // A call that another thread interrupts is on two lines.
        let calls = trace.finish().unwrap().into_iter();
        for call in calls.filter(|c| !c.text.starts_with("<... ")) {
            *names.entry(call.name).or_default() += 1;
        }
    }
    let each = names.values().sum::<usize>() / SCRAPES;
    assert!(
        each > 0 && each <= hcas.len() + BESIDES,
        "{each} a scrape: {names:?}"
    );
}

/// Times that threads slept and were woken, by thread name. Threads of one name are added up.
fn wake_ups(node: &Node) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    for ((_, tid), count) in footprint::voluntary_switches(&pids(node)).unwrap() {
        // One may end meanwhile.
        if let Ok(name) = proc::comm(tid) {
            *all.entry(name).or_default() += count;
        }
    }
    all
}

#[test]
fn a_scrape_wakes_each_thread_on_its_way_once() {
    const SCRAPES: u16 = 50;
    /// The request and the page; the request and the worker's answer; the daemon's request; the worker's.
    const WAKE_UPS: [(&str, f64); 4] = [
        ("http", 2.0),
        ("nodewarden", 2.0),
        ("nw-rdma", 1.0),
        ("r:rdma", 1.0),
    ];
    /// Health ticks, heartbeats and other collectors.
    const BESIDES: f64 = 0.8;
    let mut node = Node::new();
    Hcas::build(&node.path("root"), 10).unwrap();
    node.start();
    let address = node.address().unwrap().parse().unwrap();
    let mut scraper = Scraper::connect(address, "/metrics?collect[]=rdma").unwrap();
    // Later than the ticks of the first seconds.
    node.until("the first verdicts", |_| scraper.scrape(true).is_ok());
    sleep(Duration::from_secs(8));
    let before = wake_ups(&node);
    for _ in 0..SCRAPES {
        sleep(Duration::from_millis(30));
        scraper.scrape(true).unwrap();
    }
    let after = wake_ups(&node);
    for (name, expected) in WAKE_UPS {
        let count = u32::try_from(after[name] - before[name]).unwrap();
        let each = f64::from(count) / f64::from(SCRAPES);
        println!("{name}: woken {each:.2} times a scrape");
        // A thread that finds its next work before it sleeps is not woken for it.
        assert!(
            each > 0.5 && each <= expected + BESIDES,
            "{name}: {each:.2}, expected {expected}: {before:?} {after:?}"
        );
    }
}

/// A cgroup of Slurm's with its own program of rules, as `fixtures/demo` has them.
fn job(node: &Node, number: usize) {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/demo/root.tree");
    let text = fs::read_to_string(fixture).unwrap();
    let mut lines = text.lines().filter(|line| line.contains("/job_4713"));
    let program = lines
        .find_map(|line| line.strip_prefix("bpf/")?.split_once(" = "))
        .unwrap()
        .1;
    let folder = format!("system.slice/slurmstepd.scope/job_{number}");
    let write = |path: String, text: &str| {
        let entry = Entry::File(format!("{text}\n").into_bytes());
        tree::put(&node.path("root").join(path), &entry).unwrap();
    };
    for (file, text) in [
        ("cgroup.events", "populated 1\nfrozen 0"),
        ("cpu.stat", "usage_usec 2500000\nuser_usec 1\nsystem_usec 1"),
        ("memory.current", "4096"),
        ("memory.peak", "8192"),
        ("memory.max", "max"),
        (
            "memory.events",
            "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\noom_group_kill 0",
        ),
        ("pids.current", "11"),
        ("step_extern/slurm/cgroup.procs", "500"),
        ("step_0/slurm/cgroup.procs", "501"),
    ] {
        write(format!("sys/fs/cgroup/{folder}/{file}"), text);
    }
    write(format!("bpf/{folder}"), program);
}

/// The daemons of all jobs' steps, and whose they are: found once for each job.
fn daemons(node: &Node) {
    for pid in [500, 501] {
        let folder = node.path("root").join(format!("proc/{pid}"));
        let stat = format!(
            "{pid} (slurmstepd) S 1 {pid} {pid} 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 100 {}\n",
            "0 ".repeat(30)
        );
        tree::put(&folder.join("stat"), &Entry::File(stat.into_bytes())).unwrap();
        chown(&folder, Some(1000), Some(1000)).unwrap();
    }
}

#[test]
fn two_hundred_jobs_cost_some_calls_each() {
    const JOBS: usize = 200;
    const SCRAPES: usize = 20;
    /// Eight files, the check of its identity, and its program. One descriptor per file would exceed the limit.
    const EACH: usize = 40;
    let mut node = Node::new();
    tree::put(
        &node.path("root/sys/fs/cgroup/cgroup.controllers"),
        &Entry::File(b"cpu memory pids\n".to_vec()),
    )
    .unwrap();
    for number in 0..JOBS {
        job(&node, 1000 + number);
    }
    daemons(&node);
    node.start();
    let shown = |n: &Node| {
        let page = n.try_metrics().unwrap_or_default();
        page.iter().filter(|s| s.name == "slurm_job_info").count()
    };
    node.until("all jobs are shown", |n| shown(n) == JOBS);
    let worker = node.worker_pid("slurm");
    let ticks = || footprint::cpu(worker).unwrap();
    let address = node.address().unwrap().parse().unwrap();
    let mut scraper = Scraper::connect(address, "/metrics").unwrap();
    // A reading serves for 200 ms.
    let mut scrape = || {
        sleep(Duration::from_millis(250));
        scraper.scrape(true).unwrap();
    };
    let before = ticks();
    (0..SCRAPES).for_each(|_| scrape());
    let took = (ticks() - before) / u32::try_from(SCRAPES).unwrap();
    let trace = Strace::attach(worker).unwrap();
    (0..SCRAPES).for_each(|_| scrape());
    let calls = trace.finish().unwrap();
    let mut names: BTreeMap<String, usize> = BTreeMap::new();
    for call in calls.into_iter().filter(|c| !c.text.starts_with("<... ")) {
        *names.entry(call.name).or_default() += 1;
    }
    let each = names.values().sum::<usize>() / SCRAPES;
    println!("{JOBS} jobs: {each} system calls and {took:?} of processor time a reading: {names:?}");
    assert!(
        (JOBS..=JOBS * EACH).contains(&each),
        "{each} a reading: {names:?}"
    );
}

#[test]
fn a_reading_of_sixty_four_partitions_costs_some_calls_each() {
    const GPUS: usize = 8;
    const SCRAPES: usize = 20;
    /// Five calls for each of about 30 files, and for each of the 64 files of 8 processes.
    const EACH: usize = 420;
    let mut node = Node::new();
    let case = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/amd/mi300x-cpx");
    testkit::mi300x::divided(&case, &node.path("root"), GPUS).unwrap();
    // Without its own boot id, the tree has the running kernel's.
    fs::remove_dir_all(node.path("root/proc/sys")).unwrap();
    node.start();
    let shown = |n: &Node| {
        let page = n.try_metrics().unwrap_or_default();
        page.iter().filter(|s| s.name == "gpu_instance_info").count()
    };
    node.until("all partitions are shown", |n| shown(n) == 8 * GPUS);
    let worker = node.worker_pid("amd");
    let address = node.address().unwrap().parse().unwrap();
    let mut scraper = Scraper::connect(address, "/metrics").unwrap();
    // A reading serves for 500 ms.
    let mut scrape = || {
        sleep(Duration::from_millis(550));
        scraper.scrape(true).unwrap();
    };
    scrape();
    let trace = Strace::attach(worker).unwrap();
    (0..SCRAPES).for_each(|_| scrape());
    let mut names: BTreeMap<String, usize> = BTreeMap::new();
    for call in trace
        .finish()
        .unwrap()
        .into_iter()
        .filter(|c| !c.text.starts_with("<... "))
    {
        *names.entry(call.name).or_default() += 1;
    }
    let each = names.values().sum::<usize>() / SCRAPES;
    println!("{GPUS} MI300X in 64 partitions: {each} system calls a reading: {names:?}");
    assert!(
        (GPUS..=GPUS * EACH).contains(&each),
        "{each} a reading: {names:?}"
    );
}
