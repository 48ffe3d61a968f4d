//! What a scrape costs and leaves behind, in things that can be counted: descriptors, threads, memory, system calls.
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
use std::thread::sleep;
use std::time::Duration;

use common::{LONG, Node};
use testkit::footprint::Footprint;
use testkit::hcas::Hcas;
use testkit::scrape::Scraper;
use testkit::strace::Strace;

/// A reading serves for 10 ms: only a scrape after that makes a new one.
const APART: Duration = Duration::from_millis(11);

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
    // The collector of Ethernet ports begins its thread with its first reading, by its own clock.
    node.until("a thread for each collector", |node| {
        let of_rdma = |f: &Footprint| f.name.starts_with("nw-rdma") && f.threads > 2;
        footprints(node).values().any(of_rdma)
    });
    // A thread that is about to leave counts until it has: the same counts twice.
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
        // A call that another thread interrupts stands on two lines.
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
