//! GPUs of two dies (MI250): the first die counts the energy of both, and the second has no counter.

use super::*;

/// Two modules of two dies, with these serial numbers; what the first dies have counted.
fn node(serials: [&'static str; 4], joules: [f64; 2]) -> Node {
    let none = f64::NAN;
    Node {
        gpus: vec![
            ("GPU-0", "0", joules[0], 0.5),
            ("GPU-1", "1", none, 0.97),
            ("GPU-2", "2", joules[1], 0.5),
            ("GPU-3", "3", none, 0.97),
        ],
        serials: serials.to_vec(),
        ..Node::new()
    }
}

const SERIALS: [&str; 4] = ["A", "A", "B", "B"];
const UNKNOWN: [&str; 4] = [""; 4];
/// As a driver may show them that reads a number of each die.
const OF_DIES: [&str; 4] = ["A", "B", "C", "D"];
const BEFORE: [f64; 2] = [1000.0, 2000.0];
const AFTER: [f64; 2] = [1100.0, 2300.0];

/// The energy of each job, by its number, after 10 s with these devices.
fn energy(serials: [&'static str; 4], jobs: &[(&'static str, &[&'static str])]) -> Vec<Option<f64>> {
    let mut book = Book::default();
    let running = jobs.iter().fold(node(serials, BEFORE), |node, (job, devices)| {
        node.with(job, devices)
    });
    take(&mut book, &running, START);
    let lines = take(&mut book, &node(serials, AFTER), START + 10.0);
    assert_eq!(lines.len(), jobs.len());
    for line in &lines {
        assert_eq!(line.gpu_seconds, Some(10.0 * line.gpus.len() as f64));
        assert!(line.gpu_busy_seconds.is_some());
    }
    lines.iter().map(|line| line.gpu_energy_joules).collect()
}

#[test]
fn the_energy_of_a_module_is_known_only_while_its_dies_have_the_same_jobs() {
    let of = |jobs: &[(&'static str, &[&'static str])]| energy(SERIALS, jobs);
    assert_eq!(of(&[("7", &["nvidia0", "nvidia1"])]), [Some(100.0)]);
    assert_eq!(of(&[("7", &["nvidia0"]), ("8", &["nvidia1"])]), [None, None]);
    assert_eq!(
        of(&[("7", &["nvidia0"])]),
        [None],
        "what the free die takes is unknown"
    );
    assert_eq!(
        of(&[("7", &["nvidia0", "nvidia1"]), ("8", &["nvidia2"])]),
        [Some(100.0), None]
    );
}

#[test]
fn a_die_whose_module_is_unknown_may_be_of_any_module() {
    for serials in [UNKNOWN, OF_DIES] {
        let of = |jobs: &[(&'static str, &[&'static str])]| energy(serials, jobs);
        let all = ["nvidia0", "nvidia1", "nvidia2", "nvidia3"];
        assert_eq!(of(&[("7", &all)]), [Some(400.0)]);
        assert_eq!(of(&[("7", &all[..2]), ("8", &all[2..])]), [None, None]);
    }
}

#[test]
fn a_die_that_has_changed_hands_since_the_last_reading_ends_what_is_known() {
    let mut book = Book::default();
    let first = node(SERIALS, BEFORE).with("7", &["nvidia0"]);
    take(&mut book, &first.with("8", &["nvidia1"]), START);
    // Job 8 ends, and its die is added to job 7.
    let both = node(SERIALS, AFTER).with("7", &["nvidia0", "nvidia1"]);
    take(&mut book, &both, START + 10.0);
    let mut later = node(SERIALS, AFTER);
    later.gpus[0].2 += 30.0;
    let lines = take(&mut book, &later, START + 20.0);
    assert_eq!(lines[0].gpu_energy_joules, Some(30.0));
}
