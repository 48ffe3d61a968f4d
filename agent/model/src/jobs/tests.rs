mod ended;
mod epilogs;
mod gaps;
mod modules;
mod orders;
mod xids;

use std::collections::BTreeMap;
use std::time::Duration;

use super::*;
use crate::ledger::Count;
use crate::sample::jobs::{Node, START};
use crate::snapshot::Presence;

/// Takes a snapshot, and returns the lines that it closes.
fn take(book: &mut Book, node: &Node, wall: f64) -> Vec<Line> {
    book.take(&node.snapshot(wall), &BTreeMap::new(), wall);
    closed(book)
}

fn closed(book: &mut Book) -> Vec<Line> {
    book.closed().iter().map(|line| (**line).clone()).collect()
}

#[test]
fn a_job_has_a_line_when_it_has_ended() {
    let (mut book, node) = (Book::default(), Node::new());
    let mut running = node.with("7", &["nvidia1"]);
    assert_eq!(take(&mut book, &running, START + 1.0), []);
    running.sent = Some(500);
    assert_eq!(
        take(&mut book, &running.joules([1100.0, 2600.0]), START + 11.0),
        []
    );
    let mut after = node.joules([1200.0, 2900.0]);
    after.sent = Some(800);
    let lines = take(&mut book, &after, START + 16.0);
    let expected = Line {
        job: "7".to_owned(),
        user: "1000".to_owned(),
        account: "proja".to_owned(),
        began: START,
        ended: Some(START + 16.0),
        gpus: vec![GpuUse {
            gpu: "GPU-1".to_owned(),
            seconds: Some(15.0),
            busy_seconds: Some(15.0),
            watched_seconds: Some(15.0),
            energy_joules: Some(900.0),
            memory_bytes: Some(1000.0),
            memory_peak_bytes: Some(1000.0),
            throttle_seconds: [("hw_thermal".to_owned(), 9.0)].into(),
            ..GpuUse::default()
        }],
        evidence: Some("device_program".to_owned()),
        gpu_seconds: Some(15.0),
        gpu_busy_seconds: Some(15.0),
        gpu_energy_joules: Some(900.0),
        gpu_throttle_seconds: [("hw_thermal".to_owned(), 9.0)].into(),
        cpu_seconds: Some(1.5),
        memory_peak_bytes: Some(4096.0),
        node: [("rdma_transmit_bytes".to_owned(), 800.0)].into(),
        readings: 2,
        ..Line::default()
    };
    assert_eq!(lines, [expected]);
    assert_eq!(take(&mut book, &node, START + 30.0), [], "once");
    assert_eq!(book.view().results["unknown"], 1);
    assert_eq!(book.view().results["completed_or_cancelled"], 0);
}

#[test]
fn bytes_and_metadata_operations_of_filesystems_are_the_nodes() {
    let (mut book, node) = (Book::default(), Node::new());
    let mut running = node.with("7", &["nvidia0"]);
    running.files = Some([1000, 10]);
    take(&mut book, &running, START);
    let mut after = node.with("8", &["nvidia0"]);
    after.files = Some([5000, 12]);
    let of = |line: &Line, name: &str| line.node.get(name).copied();
    let lines = take(&mut book, &after, START + 15.0);
    assert_eq!(of(&lines[0], "lustre_read_bytes"), Some(4000.0));
    // Opens and closes; reads are no metadata.
    assert_eq!(of(&lines[0], "gpfs_metadata_operations"), Some(6.0));
    assert_eq!(of(&lines[0], "lustre_write_bytes"), None, "never read");
    // Mounted again: its counters begin at 0.
    let mut end = node.clone();
    end.files = Some([7, 0]);
    let lines = take(&mut book, &end, START + 30.0);
    assert_eq!(of(&lines[0], "lustre_read_bytes"), None);
}

#[test]
fn shards_have_a_part_each_and_of_a_gpu_that_nobody_has_nothing_is_given() {
    let (mut book, node) = (Book::default(), Node::new());
    let both = node.with("7", &["nvidia0"]).with("8", &["nvidia0"]);
    take(&mut book, &both, START);
    let lines = take(&mut book, &node.joules([1100.0, 9000.0]), START + 10.0);
    let sums: Vec<_> = lines
        .iter()
        .map(|l| {
            let memory = l.gpus[0].memory_peak_bytes;
            (
                l.job.as_str(),
                l.gpu_seconds,
                l.gpu_energy_joules,
                l.gpu_busy_seconds,
                memory,
                l.shared,
            )
        })
        .collect();
    assert_eq!(
        sums,
        [
            ("7", Some(5.0), Some(50.0), Some(2.5), Some(500.0), true),
            ("8", Some(5.0), Some(50.0), Some(2.5), Some(500.0), true)
        ]
    );
}

#[test]
fn shards_of_different_number_have_parts_of_different_size() {
    let (mut book, mut node) = (Book::default(), Node::new());
    node.parts = Some(2);
    let mut both = node.with("7", &["nvidia0"]);
    both.parts = Some(1);
    let both = both.with("8", &["nvidia0"]);
    take(&mut book, &both, START);
    let lines = take(&mut book, &node.joules([1090.0, 9000.0]), START + 9.0);
    let sums: Vec<_> = lines
        .iter()
        .map(|l| (l.job.as_str(), l.gpu_seconds, l.gpu_energy_joules))
        .collect();
    assert_eq!(sums, [("7", Some(6.0), Some(60.0)), ("8", Some(3.0), Some(30.0))]);
}

/// A reloaded driver resets its counters; a lost GPU has none.
#[test]
fn a_counter_that_went_back_is_left_out_and_one_that_is_gone_is_absent() {
    let (mut book, node) = (Book::default(), Node::new());
    let running = node.with("7", &["nvidia0"]);
    take(&mut book, &running, START);
    take(&mut book, &running.joules([10.0, 2000.0]), START + 10.0);
    take(&mut book, &running.joules([40.0, 2000.0]), START + 20.0);
    let lines = take(&mut book, &node.joules([40.0, 2000.0]), START + 20.0);
    assert_eq!(lines[0].gpu_energy_joules, Some(30.0));

    let mut lost = node.with("8", &["nvidia0"]);
    lost.gpus.clear();
    take(&mut book, &lost, START + 30.0);
    let mut after = node.clone();
    after.gpus.clear();
    let lines = take(&mut book, &after, START + 40.0);
    assert_eq!(
        (lines[0].gpu_energy_joules, lines[0].gpu_busy_seconds),
        (None, None)
    );
    assert_eq!(lines[0].gpus, []);
}

#[test]
fn while_nobody_looks_nothing_ends() {
    let (mut book, node) = (Book::default(), Node::new());
    take(&mut book, &node.with("7", &["nvidia0"]), START);
    let mut blind = node.clone();
    blind.presence = Presence::Unknown;
    assert_eq!(take(&mut book, &blind, START + 10.0), []);
    let late = node.with("7", &["nvidia0"]).late("7");
    assert_eq!(take(&mut book, &late, START + 20.0), []);
    let mut new = node.with("7", &["nvidia0"]);
    new.is_new = true;
    assert_eq!(take(&mut book, &new, START + 25.0), []);
    let lines = take(&mut book, &node, START + 30.0);
    assert_eq!((lines.len(), lines[0].gpu_seconds), (1, Some(30.0)));
}

#[test]
fn what_happened_while_nobody_looked_for_long_is_nobodys() {
    let (mut book, node) = (Book::default(), Node::new());
    let running = node.with("7", &["nvidia0"]);
    take(&mut book, &running, START);
    take(&mut book, &running.joules([9000.0, 2000.0]), START + 3600.0);
    let lines = take(&mut book, &node.joules([9100.0, 2000.0]), START + 3610.0);
    assert_eq!(
        (lines[0].gpu_seconds, lines[0].gpu_energy_joules),
        (Some(10.0), Some(100.0))
    );
}

/// The kernel reports the job at once; its reading may be from before.
#[test]
fn a_job_that_was_told_of_and_never_read_has_a_line_too() {
    let (mut book, node) = (Book::default(), Node::new());
    book.began("job_7", None, START);
    book.began("system", None, START);
    assert_eq!(take(&mut book, &node, START + 0.1), [], "not read yet");
    book.left("job_7", None, START + 0.4);
    assert_eq!(take(&mut book, &node, START + 0.5), [], "an epilog may report it");
    let lines = take(&mut book, &node, START + 30.5);
    assert_eq!(lines.len(), 1);
    assert_eq!((lines[0].job.as_str(), lines[0].readings), ("7", 0));
    assert_eq!(
        (lines[0].gpu_seconds, lines[0].unread),
        (None, Some(Unread::NoReading))
    );
    assert_eq!((lines[0].began, lines[0].ended), (START, Some(START + 0.5)));
    // Its end was not reported, as after an overflow of the kernel's queue.
    book.began("job_8", None, START);
    assert_eq!(take(&mut book, &node, START + 30.0), []);
    take(&mut book, &node, START + 31.0);
    assert_eq!(take(&mut book, &node, START + 61.0)[0].job, "8");
}

/// As on a node of short jobs whose epilogs report nothing.
#[test]
fn of_too_many_lines_that_wait_for_an_epilog_the_first_is_closed() {
    let (mut book, node) = (Book::default(), Node::new());
    let mut lines = Vec::new();
    for job in 1..=1026_u32 {
        let began = START + f64::from(job) / 100.0;
        book.began(&format!("job_{job}"), None, began);
        book.left(&format!("job_{job}"), None, began + 0.005);
        lines.extend(take(&mut book, &node, began + 0.008));
    }
    let jobs: Vec<String> = lines.into_iter().map(|line| line.job).collect();
    assert_eq!(jobs, ["1", "2"]);
}

#[test]
fn a_job_that_is_requeued_has_a_line_for_each_run() {
    let (mut book, node) = (Book::default(), Node::new());
    take(&mut book, &node.with("7", &["nvidia0"]), START);
    // Reported by the kernel.
    book.left("job_7", None, START + 5.0);
    book.began("job_7", None, START + 5.0);
    assert_eq!(closed(&mut book).len(), 1);
    // Seen by its readings only.
    let mut second = node.clone();
    (second.life, second.began) = ("2", START + 5.5);
    assert_eq!(take(&mut book, &second.with("7", &["nvidia1"]), START + 6.0), []);
    let mut third = node.clone();
    (third.life, third.began) = ("3", START + 8.0);
    let lines = take(&mut book, &third.with("7", &["nvidia0"]), START + 9.0);
    assert_eq!((lines.len(), lines[0].gpus[0].gpu.as_str()), (1, "GPU-1"));
    assert_eq!(take(&mut book, &node, START + 12.0)[0].gpus[0].gpu, "GPU-0");
}

/// A worker that was started again counts the runs in a cgroup from 0.
#[test]
fn a_second_run_in_a_cgroup_goes_on_over_a_restart_of_the_worker() {
    let (mut book, mut node) = (Book::default(), Node::new());
    node.life = "500.1";
    take(&mut book, &node.with("7", &["nvidia0"]), START);
    (node.life, node.is_new) = ("500", true);
    assert_eq!(take(&mut book, &node.with("7", &["nvidia0"]), START + 5.0), []);
    node.is_new = false;
    assert_eq!(take(&mut book, &node.with("7", &["nvidia0"]), START + 10.0), []);
    assert_eq!(take(&mut book, &Node::new(), START + 15.0)[0].readings, 2);
}
