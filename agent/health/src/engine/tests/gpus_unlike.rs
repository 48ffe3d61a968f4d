//! Check `gpu-configuration`: a mode or limit of one GPU that others of its model do not have.

use collectors::Metric;
use collectors::gpu::metrics as m;

use super::host::Driven;
use super::sim::*;
use crate::{Mode, Settings};

const PLACES: [&str; 8] = [
    "0000:1b:00.0",
    "0000:3b:00.0",
    "0000:4c:00.0",
    "0000:5e:00.0",
    "0000:9b:00.0",
    "0000:bb:00.0",
    "0000:cc:00.0",
    "0000:de:00.0",
];

const WELL: [(&Metric, u64); 5] = [
    (&m::ECC_MODE, 1),
    (&m::ECC_MODE_PENDING, 1),
    (&m::COMPUTE_MODE, 0),
    (&m::POWER_LIMIT, 700),
    (&m::POWER_LIMIT_DEFAULT, 700),
];

/// A healthy GPU of a product.
fn gpu(at: usize, product: &'static str) -> Driven {
    let info = vec!["", product, PLACES[at], "", "", "", "", "", "580", "hopper"];
    let mut series = vec![(&m::UP, vec![], 1), (&m::INFO, info, 1)];
    series.extend(WELL.map(|(metric, value)| (metric, vec![], value)));
    Driven {
        label: format!("GPU-{at}"),
        series,
        ..Driven::default()
    }
}

/// Sets a value of a GPU. `None`: not reported.
fn set(gpu: &mut Driven, metric: &'static Metric, value: Option<u64>) {
    gpu.series.retain(|(other, ..)| *other != metric);
    gpu.series.extend(value.map(|value| (metric, vec![], value)));
}

/// A node long after boot that would drain for this check, with these products.
fn node(products: &[&'static str]) -> Sim {
    let mut settings: Settings = config(Mode::Drain);
    settings
        .checks
        .insert("gpu-configuration".to_owned(), Mode::Drain);
    let mut sim = Sim::with(settings, None);
    sim.host.driven = products
        .iter()
        .enumerate()
        .map(|(at, name)| gpu(at, name))
        .collect();
    sim.pass(900);
    assert!(sim.incidents().is_empty(), "{:?}", sim.incidents());
    sim
}

/// Changes values of GPUs for ten minutes. The incidents of a node with these products.
fn after(products: &[&'static str], changes: &[(usize, &'static Metric, Option<u64>)]) -> Vec<String> {
    let mut sim = node(products);
    for (at, metric, value) in changes {
        set(&mut sim.host.driven[*at], metric, *value);
    }
    sim.pass(600);
    assert_eq!((sim.slurm.drains, &sim.slurm.comment), (0, &None), "shown");
    sim.incidents()
}

const H100: [&str; 8] = ["H100"; 8];
const NONE: [&str; 0] = [];

/// Each fault: the value of the GPU, and the finding.
const FAULTS: [(&Metric, u64, &str); 4] = [
    (&m::ECC_MODE, 0, "ECC off, unlike similar GPUs"),
    (
        &m::ECC_MODE_PENDING,
        0,
        "ECC off after the next reset, unlike similar GPUs",
    ),
    (
        &m::COMPUTE_MODE,
        2,
        "compute mode prohibited, unlike similar GPUs",
    ),
    (
        &m::POWER_LIMIT,
        300,
        "power limit 300 W, default 700 W, unlike similar GPUs",
    ),
];

#[test]
fn a_mode_or_limit_that_three_gpus_of_the_model_do_not_have_is_shown_until_it_is_right() {
    for (metric, bad, found) in FAULTS {
        for products in [&H100[..], &H100[..4]] {
            let mut sim = node(products);
            let good = sim.host.driven.clone();
            set(&mut sim.host.driven[2], metric, Some(bad));
            sim.pass(75);
            assert_eq!(sim.incidents(), NONE, "{found}: not for long enough");
            sim.pass(60);
            assert_eq!(sim.incidents(), [format!("{found} open")]);
            assert_eq!(sim.slurm.drains, 0, "{found}");
            assert_eq!(sim.slurm.comment, None, "{found}");
            // Unread values end nothing.
            for at in 0..products.len() {
                set(&mut sim.host.driven[at], metric, None);
            }
            sim.pass(600);
            assert_eq!(sim.incidents(), [format!("{found} open")], "unread");
            sim.host.driven = good;
            sim.pass(180);
            assert_eq!(sim.incidents(), [format!("{found} cleared")]);
        }
    }
}

#[test]
fn ecc_that_is_off_until_the_next_reset_is_off() {
    let changes = [(2, &m::ECC_MODE, Some(0)), (2, &m::ECC_MODE_PENDING, Some(0))];
    for changes in [&changes[..], &changes[..1]] {
        assert_eq!(after(&H100, changes), ["ECC off, unlike similar GPUs open"]);
    }
}

#[test]
fn a_gpu_without_a_pending_mode_is_judged_by_the_current_one() {
    let mut changes: Vec<_> = (0..8).map(|at| (at, &m::ECC_MODE_PENDING, None)).collect();
    assert_eq!(after(&H100, &changes), NONE);
    changes.push((3, &m::ECC_MODE, Some(0)));
    assert_eq!(after(&H100, &changes), ["ECC off, unlike similar GPUs open"]);
}

#[test]
fn fewer_than_three_gpus_of_the_model_show_nothing() {
    for (metric, bad, found) in FAULTS {
        let mixed = ["H100", "H100", "H100", "L40S", "L40S", "L40S", "L40S", ""];
        for at in [1, 7] {
            assert_eq!(after(&mixed, &[(at, metric, Some(bad))]), NONE, "{found}");
        }
        assert_eq!(
            after(&mixed, &[(3, metric, Some(bad))]),
            [format!("{found} open")]
        );
        // Those of which it is not known do not count.
        let mut changes = vec![(0, metric, Some(bad))];
        changes.extend((1..6).map(|at| (at, metric, None)));
        assert_eq!(after(&H100, &changes), NONE, "{found}");
    }
}

#[test]
fn what_the_site_set_on_every_gpu_is_not_found() {
    for (metric, bad, found) in FAULTS {
        let changes: Vec<_> = (0..8).map(|at| (at, metric, Some(bad))).collect();
        assert_eq!(after(&H100, &changes), NONE, "{found}");
    }
    // And ends what was found on one before.
    let mut sim = node(&H100);
    for (first, last, state) in [(0, 1, "open"), (1, 8, "cleared")] {
        for gpu in &mut sim.host.driven[first..last] {
            set(gpu, &m::ECC_MODE, Some(0));
        }
        sim.pass(600);
        assert_eq!(sim.incidents(), [format!("ECC off, unlike similar GPUs {state}")]);
    }
}

#[test]
fn a_power_limit_is_compared_with_the_default_and_with_the_others() {
    let all = |watts: [u64; 8]| -> Vec<_> {
        let limits = watts.into_iter().enumerate();
        limits
            .map(|(at, watts)| (at, &m::POWER_LIMIT, Some(watts)))
            .collect()
    };
    // A few watts less; more than the default; a limit of the node, with a board that has a little less.
    for watts in [
        [670, 700, 700, 700, 700, 700, 700, 700],
        [700, 800, 800, 800, 800, 800, 800, 800],
        [490, 500, 500, 500, 500, 500, 500, 500],
    ] {
        assert_eq!(after(&H100, &all(watts)), NONE, "{watts:?}");
    }
    // One of them has less than the limit of the node.
    let found = "power limit 300 W, default 700 W, unlike similar GPUs open";
    assert_eq!(
        after(&H100, &all([300, 500, 500, 500, 500, 500, 500, 500])),
        [found]
    );
    // A board with a lower default is another product in all but name.
    let mut own = all([500, 700, 700, 700, 700, 700, 700, 700]);
    own.push((0, &m::POWER_LIMIT_DEFAULT, Some(500)));
    assert_eq!(after(&H100, &own), NONE);
    own.push((0, &m::POWER_LIMIT_DEFAULT, None));
    assert_eq!(after(&H100, &own), NONE, "unknown");
}

#[test]
fn exclusive_modes_are_the_choice_of_the_site() {
    assert_eq!(after(&H100, &[(2, &m::COMPUTE_MODE, Some(3))]), NONE);
    let exclusive: Vec<_> = (0..7).map(|at| (at, &m::COMPUTE_MODE, Some(3))).collect();
    assert_eq!(after(&H100, &exclusive), NONE);
}

#[test]
fn a_node_that_starts_has_ten_minutes_to_set_its_gpus() {
    let mut sim = node(&H100);
    sim.reboot();
    set(&mut sim.host.driven[2], &m::POWER_LIMIT, Some(300));
    sim.pass(540);
    assert_eq!(sim.incidents(), NONE);
    set(&mut sim.host.driven[2], &m::POWER_LIMIT, Some(700));
    sim.pass(600);
    assert_eq!(sim.incidents(), NONE);
}
