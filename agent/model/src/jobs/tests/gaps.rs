//! Missing readings: one loses nothing, and no job gets the usage of another.

use super::*;

/// The line of job 7, which the last of these closes.
fn line_of(book: &mut Book, nodes: &[(f64, Node)]) -> Line {
    let mut lines = Vec::new();
    for (seconds, node) in nodes {
        assert_eq!(lines, [], "not before the end");
        lines = take(book, node, START + seconds);
        lines.retain(|line| line.job == "7");
    }
    assert_eq!(lines.len(), 1);
    lines.remove(0)
}

#[test]
fn a_gpu_that_is_not_read_once_loses_nothing_and_keeps_its_owner() {
    let (mut book, node) = (Book::default(), Node::new());
    let job = node.with("7", &["nvidia0"]);
    let line = line_of(
        &mut book,
        &[
            (0.0, job.clone()),
            (10.0, job.joules([1100.0, 2000.0])),
            (20.0, job.without_gpus()),
            (30.0, job.joules([1300.0, 2000.0])),
            (40.0, node.joules([1400.0, 2000.0])),
        ],
    );
    assert_eq!(
        (line.gpu_seconds, line.gpu_energy_joules),
        (Some(40.0), Some(400.0))
    );
    assert_eq!(line.gpu_busy_seconds, Some(20.0));
    assert_eq!(line.gpu_throttle_seconds["hw_thermal"], 4.0);
}

#[test]
fn what_is_counted_without_a_job_is_nobodys_and_the_next_job_loses_nothing() {
    let (mut book, node) = (Book::default(), Node::new());
    let job = |number, joules| node.with(number, &["nvidia0"]).joules([joules, 2000.0]);
    for (seconds, node, joules) in [
        (0.0, job("6", 1000.0), None),
        (10.0, node.joules([1100.0, 2000.0]), Some(100.0)),
        (20.0, node.joules([1500.0, 2000.0]), None),
        (30.0, job("7", 2000.0), None),
        (40.0, job("7", 2100.0), None),
        (50.0, node.joules([2250.0, 2000.0]), Some(250.0)),
    ] {
        let lines = take(&mut book, &node, START + seconds);
        let found = lines.first().and_then(|line| line.gpu_energy_joules);
        assert_eq!(found, joules, "after {seconds} s");
    }
}

#[test]
fn one_counter_that_is_not_read_once_loses_nothing() {
    let (mut book, node) = (Book::default(), Node::new());
    let job = node.with("7", &["nvidia0"]);
    let mut without = job.clone();
    without.gpus[0].2 = f64::NAN;
    let line = line_of(
        &mut book,
        &[
            (0.0, job.clone()),
            (10.0, without),
            (20.0, node.joules([1200.0, 2000.0])),
        ],
    );
    assert_eq!(line.gpu_energy_joules, Some(200.0));
}

#[test]
fn a_gpu_that_changed_hands_while_it_was_not_read_gives_neither_what_it_counted_meanwhile() {
    let (mut book, node) = (Book::default(), Node::new());
    let (first, second) = (node.with("7", &["nvidia0"]), node.with("8", &["nvidia0"]));
    take(&mut book, &first, START);
    take(&mut book, &first.joules([1100.0, 2000.0]), START + 10.0);
    let line = &take(&mut book, &second.without_gpus(), START + 20.0)[0];
    assert_eq!((line.job.as_str(), line.gpu_energy_joules), ("7", Some(100.0)));
    take(&mut book, &second.joules([1500.0, 2000.0]), START + 30.0);
    let line = &take(&mut book, &node.joules([1600.0, 2000.0]), START + 40.0)[0];
    assert_eq!((line.job.as_str(), line.gpu_energy_joules), ("8", Some(100.0)));
}

/// The first job still runs: its rules were changed, or it shares the GPU from now on.
#[test]
fn who_comes_to_a_gpu_that_is_not_read_ends_what_is_known_of_it() {
    let (mut book, node) = (Book::default(), Node::new());
    let first = node.with("7", &["nvidia0"]);
    take(&mut book, &first, START);
    let both = first.with("8", &["nvidia0"]);
    take(&mut book, &both.without_gpus(), START + 10.0);
    take(&mut book, &both.joules([1400.0, 2000.0]), START + 20.0);
    let lines = take(&mut book, &node.joules([1500.0, 2000.0]), START + 30.0);
    let energy: Vec<_> = lines.iter().map(|l| l.gpu_energy_joules).collect();
    assert_eq!(energy, [Some(50.0), Some(50.0)]);
}

/// As if Slurm's rules cannot be read, and prologs report the owners.
#[test]
fn who_is_given_a_gpu_that_is_not_read_ends_what_is_known_of_it_too() {
    for (evidence, device, first_has) in [
        ("hook", "nvidia0", 200.0),
        ("mapping_file", "GPU-0", 200.0),
        ("hook", "nvidia1", 400.0),
    ] {
        let (mut book, node) = (Book::default(), Node::new());
        let first = node.with("7", &["nvidia0"]);
        take(&mut book, &first, START);
        take(&mut book, &first.joules([1200.0, 2000.0]), START + 10.0);
        let both = first.given("8", evidence, &[device]);
        take(&mut book, &both.without_gpus(), START + 20.0);
        let lines = take(&mut book, &node.joules([1400.0, 2000.0]), START + 30.0);
        assert_eq!(
            (lines[0].job.as_str(), lines[0].gpu_energy_joules),
            ("7", Some(first_has)),
            "{evidence} {device}"
        );
    }
}

#[test]
fn a_gpu_that_is_lost_is_not_busy_and_one_that_was_not_read_once_is() {
    let (mut book, node) = (Book::default(), Node::new());
    let both = node.with("7", &["nvidia0"]).with("8", &["nvidia1"]);
    let mut lost = both.clone();
    lost.gpus[1].3 = f64::NAN;
    take(&mut book, &both, START);
    take(&mut book, &both, START + 10.0);
    for seconds in [20.0, 30.0, 40.0] {
        take(&mut book, &lost, START + seconds);
    }
    let busy = |book: &Book| {
        book.view()
            .running
            .iter()
            .map(|l| (l.gpu_busy_seconds, l.gpu_watched_seconds()))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        busy(&book),
        [(Some(20.0), 40.0), (Some(10.0), 10.0)],
        "no more than its neighbour"
    );
    take(&mut book, &both, START + 50.0);
    let read = [(Some(25.0), 50.0), (Some(50.0), 50.0)];
    assert_eq!(busy(&book), read, "it was only not read");
}

#[test]
fn what_a_line_rests_on_is_the_best_that_there_ever_was() {
    let (mut book, node) = (Book::default(), Node::new());
    let words = ["mapping_file", "hook", "mapping_file"];
    let best = ["mapping_file", "hook", "hook"];
    let mut at = START;
    for (word, best) in words.into_iter().zip(best) {
        take(&mut book, &node.given("7", word, &["nvidia0"]), at);
        let line = &book.view().running[0];
        assert_eq!(line.evidence.as_deref(), Some(best), "{word}");
        at += 10.0;
    }
    take(&mut book, &node.with("7", &["nvidia0"]), at);
    let lines = take(&mut book, &node, at + 10.0);
    assert_eq!(lines[0].evidence.as_deref(), Some("device_program"));
}

#[test]
fn a_gpu_that_is_not_read_for_long_is_nobodys() {
    let (mut book, node) = (Book::default(), Node::new());
    let job = node.with("7", &["nvidia0"]);
    take(&mut book, &job, START);
    for seconds in [15.0, 30.0, 45.0, 60.0, 75.0, 90.0] {
        take(&mut book, &job.without_gpus(), START + seconds);
    }
    let shown = &book.view().running[0];
    assert_eq!(shown.gpu_seconds, Some(75.0));
    take(&mut book, &job.joules([5000.0, 2000.0]), START + 105.0);
    let line = &take(&mut book, &node.joules([5100.0, 2000.0]), START + 115.0)[0];
    assert_eq!(
        (line.gpu_seconds, line.gpu_energy_joules),
        (Some(85.0), Some(100.0))
    );
}

#[test]
fn a_port_that_is_not_read_once_loses_nothing_and_is_not_of_who_came_meanwhile() {
    let (mut book, node) = (Book::default(), Node::new());
    let of = |node: &Node, sent: Option<u64>| {
        let mut node = node.clone();
        node.sent = sent;
        node
    };
    let (first, both) = (node.with("7", &[]), node.with("7", &[]).with("8", &[]));
    take(&mut book, &of(&first, Some(100)), START);
    take(&mut book, &of(&both, None), START + 10.0);
    take(&mut book, &of(&both, Some(400)), START + 20.0);
    let lines = take(&mut book, &of(&node, Some(500)), START + 30.0);
    let sent: Vec<_> = lines.iter().map(|l| l.node["rdma_transmit_bytes"]).collect();
    assert_eq!(sent, [400.0, 100.0]);
}

#[test]
fn memory_that_was_not_read_is_absent_and_the_most_there_was_stays() {
    let (mut book, node) = (Book::default(), Node::new());
    let job = node.with("7", &["nvidia0"]);
    take(&mut book, &job, START);
    let memory = |book: &Book| {
        let gpu = &book.view().running[0].gpus[0];
        (gpu.memory_bytes, gpu.memory_peak_bytes)
    };
    assert_eq!(memory(&book), (Some(1000.0), Some(1000.0)));
    take(&mut book, &job.without_gpus(), START + 10.0);
    assert_eq!(memory(&book), (None, Some(1000.0)));
    // A lost GPU, whose owner is unknown from then on.
    let mut lost = job.clone();
    lost.gpus.clear();
    take(&mut book, &lost, START + 100.0);
    assert_eq!(memory(&book), (None, Some(1000.0)));
    take(&mut book, &job, START + 101.0);
    assert_eq!(memory(&book), (Some(1000.0), Some(1000.0)));
}
