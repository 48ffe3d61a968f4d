//! Xid 74: the registers of an NVLink error, and errors that count only when repeated. Links that are missed, and the fabric.

use collectors::EventBody;
use collectors::event::Recovery;
use collectors::gpu::metrics as m;
use collectors::nvidia::metrics as n;

use super::gpus::{driven, energy, node, show, well};
use super::host::Driven;
use super::sim::*;
use crate::{Mode, OrderVerb};

fn nvlink(sim: &mut Sim, words: &[u64]) {
    nvlink_of(sim, None, words);
}

fn nvlink_of(sim: &mut Sim, link: Option<i32>, words: &[u64]) {
    let mut xid = xid_of(74);
    xid.link = link;
    xid.words = words.to_vec();
    sim.event(EventBody::Xid(xid));
}

#[test]
fn an_nvlink_error_drains_by_its_registers() {
    for (words, drains) in [
        (&[][..], 1),
        (&[1 << 16], 1),
        (&[1 << 1 | 1 << 20], 0),
        (&[1 << 0 | 1 << 23 | 1 << 30, 1 << 13], 0),
        (&[1 << 4], 0),
        (&[1 << 1 | 1 << 21], 1),
        // An unlisted bit.
        (&[1 << 31], 0),
        (&[0, 0, 1 << 13], 1),
        (&[0, 0, 1], 0),
        (&[0, 0, 0, 1 << 16], 0),
        (&[0, 0, 0, 1 << 18], 1),
        (&[0, 0, 0, 0, 1 << 20], 0),
    ] {
        let mut sim = Sim::new(Mode::Drain);
        nvlink(&mut sim, words);
        assert_eq!(sim.slurm.drains, drains, "{words:x?}");
    }
}

fn nvlink5(sim: &mut Sim, code: u32, fatal: bool) {
    let mut xid = xid_of(code);
    (xid.fatal, xid.link) = (Some(fatal), Some(10));
    sim.event(EventBody::Xid(xid));
}

#[test]
fn a_fatal_error_of_nvlink_5_and_a_failed_c2c_link_are_shown_and_never_drain() {
    for (code, fatal) in [(145, Some(true)), (149, Some(true)), (173, None)] {
        let mut sim = Sim::new(Mode::Drain);
        nvlink5(&mut sim, 145, false);
        assert!(sim.incidents().is_empty());
        let fault = |sim: &mut Sim| match fatal {
            Some(fatal) => nvlink5(sim, code, fatal),
            None => sim.xid(code),
        };
        fault(&mut sim);
        nvlink5(&mut sim, 145, false);
        // Later lines of the same fault.
        sim.pass(100);
        nvlink5(&mut sim, 144, true);
        nvlink5(&mut sim, code, false);
        assert_eq!(sim.incidents(), [format!("xid{code} open")]);
        assert_eq!((sim.slurm.drains, sim.slurm.is_drained()), (0, false));
        let comment = sim.slurm.comment.clone().unwrap();
        assert!(comment.starts_with("nodewarden:xid gpu "), "{comment}");
        sim.verdict_154(Recovery::None);
        sim.pass(100);
        assert_eq!(sim.incidents(), [format!("xid{code} cleared")]);

        fault(&mut sim);
        sim.reboot();
        sim.pass(100);
        assert!(sim.engine.view().incidents.iter().all(|i| i.state == "cleared"));
    }
}

#[test]
fn a_verdict_behind_a_fatal_error_of_nvlink_5_is_the_same_incident() {
    for order in [[149, 154], [154, 149]] {
        let mut sim = Sim::new(Mode::Drain);
        for code in order {
            match code {
                154 => sim.verdict_154(Recovery::GpuReset),
                _ => nvlink5(&mut sim, code, true),
            }
        }
        assert_eq!(sim.incidents(), ["xid154 open"]);
        assert_eq!(sim.engine.view().incidents[0].findings.len(), 2);
        assert_eq!(sim.engine.view().incidents[0].act, "reset-gpu");
        assert_eq!(sim.slurm.drains, 1);
        sim.verdict_154(Recovery::None);
        sim.pass(600);
        assert_eq!(sim.incidents(), ["xid154 cleared"]);
        assert!(!sim.slurm.is_drained());
    }
}

#[test]
fn a_reset_ends_a_fatal_error_of_nvlink_5() {
    let mut sim = node(Mode::Drain, vec![driven(well())]);
    show(&mut sim, energy(5000));
    sim.pass(60);
    nvlink5(&mut sim, 149, true);
    show(&mut sim, energy(6000));
    sim.pass(60);
    assert_eq!(sim.incidents(), ["xid149 open"]);
    show(&mut sim, energy(10));
    sim.pass(60);
    assert_eq!(sim.incidents(), ["xid149 cleared"]);
}

#[test]
fn c2c_links_that_are_down_are_shown_and_never_drain() {
    let c2c = |up| vec![(&n::C2C_LINKS, vec![], 10), (&n::C2C_LINKS_UP, vec![], up)];
    let mut sim = node(Mode::Drain, vec![driven(well())]);
    show(&mut sim, c2c(10));
    sim.pass(120);
    assert!(sim.incidents().is_empty());
    show(&mut sim, c2c(0));
    sim.pass(120);
    assert_eq!(sim.incidents(), ["0 of 10 C2C links up open"]);
    assert_eq!(sim.slurm.drains, 0);
    // The states cannot be read.
    let mut unread = c2c(0);
    unread.pop();
    show(&mut sim, unread);
    sim.pass(300);
    assert_eq!(sim.incidents(), ["0 of 10 C2C links up open"]);
    show(&mut sim, c2c(10));
    sim.pass(120);
    assert_eq!(sim.incidents(), ["0 of 10 C2C links up cleared"]);
}

#[test]
fn nvlink_errors_of_one_kind_drain_from_the_third_within_a_day() {
    let mut sim = Sim::new(Mode::Drain);
    for drains in [0, 0, 1] {
        nvlink(&mut sim, &[1 << 4]);
        sim.restart();
        assert_eq!(sim.slurm.drains, drains, "more than twice, over restarts");
    }
    let mut sim = Sim::new(Mode::Drain);
    // Other kinds and old ones do not count.
    for words in [&[1 << 1][..], &[1 << 1], &[1 << 4], &[1 << 4], &[0, 0, 1]] {
        nvlink(&mut sim, words);
    }
    sim.now.wall += 30 * 24 * 3600;
    nvlink(&mut sim, &[1 << 4]);
    nvlink(&mut sim, &[1 << 27]);
    nvlink(&mut sim, &[1 << 5]);
    assert_eq!(sim.slurm.drains, 0);
    nvlink(&mut sim, &[1 << 5 | 1 << 29]);
    assert_eq!(sim.slurm.drains, 1);
}

/// NVIDIA's catalog, WORKFLOW_NVLINK_ERR: "more than 2 times on the same link", and "repeatedly".
#[test]
fn ecc_errors_of_nvlinks_are_counted_per_link_and_unexpected_ones_per_gpu() {
    for (words, drains) in [
        (&[1 << 4][..], 0),
        (&[0, 0, 1 << 6], 0),
        (&[0, 0, 0, 0, 1 << 28], 0),
        (&[1 << 27], 1),
        (&[0, 0, 1 << 16], 1),
        (&[0, 0, 1 << 17], 1),
    ] {
        let mut sim = Sim::new(Mode::Drain);
        for link in [2, 5, 9] {
            nvlink_of(&mut sim, Some(link), words);
        }
        assert_eq!(sim.slurm.drains, drains, "{words:x?}");
        for _ in 0..2 {
            nvlink_of(&mut sim, Some(5), words);
        }
        assert_eq!(sim.slurm.drains, 1, "{words:x?}");
    }
    // The driver names no link.
    let mut sim = Sim::new(Mode::Drain);
    for link in [None, Some(-1), Some(-1)] {
        nvlink_of(&mut sim, link, &[1 << 4]);
    }
    assert_eq!(sim.slurm.drains, 1);
}

#[test]
fn a_remedy_of_a_repeated_error_starts_its_count_again() {
    let error = |sim: &mut Sim| nvlink_of(sim, Some(12), &[1 << 4]);
    let reads = |sim: &mut Sim, joules| {
        let mut series = energy(joules);
        series.extend([(&n::NVLINK_LINKS, vec![], 18), (&n::NVLINK_LINKS_UP, vec![], 18)]);
        show(sim, series);
        sim.pass(60);
    };
    for remedy in ["clear", "verdict", "reset", "reboot"] {
        let mut sim = node(Mode::Drain, vec![driven(well())]);
        reads(&mut sim, 5000);
        for _ in 0..3 {
            error(&mut sim);
        }
        let id = sim.engine.view().incidents[0].id.clone();
        match remedy {
            "clear" => drop(sim.order(OrderVerb::Clear, &id).unwrap()),
            "verdict" => sim.verdict_154(Recovery::None),
            "reset" => reads(&mut sim, 10),
            _ => sim.reboot(),
        }
        reads(&mut sim, 20);
        assert_eq!(sim.incidents(), ["xid74 cleared"], "{remedy}");
        if remedy != "clear" {
            sim.clear_repaired();
        }
        assert!(!sim.slurm.is_drained(), "{remedy}");
        for drains in [1, 1, 2] {
            error(&mut sim);
            sim.pass(15);
            assert_eq!(sim.slurm.drains, drains, "{remedy}");
        }
    }
}

#[test]
fn an_old_reset_forgets_no_later_repeated_error() {
    let mut sim = node(Mode::Drain, vec![driven(well())]);
    for joules in [5000, 10] {
        show(&mut sim, energy(joules));
        sim.pass(60);
    }
    // The clock is set back behind the reset.
    sim.now.wall -= 3600;
    for drains in [0, 0, 1] {
        nvlink_of(&mut sim, Some(12), &[1 << 4]);
        sim.pass(60);
        assert_eq!(sim.slurm.drains, drains);
    }
}

#[test]
fn a_reboot_forgets_repeated_errors_only_where_it_is_a_remedy() {
    let row = "[[xid]]\ncode = 74\nmeaning = \"link\"\nclass = \"link\"\naction = \"drain-now\"\n\
               registers = [{ word = 0, repeated = [[4]] }]\n";
    let mut config = config(Mode::Drain);
    config.xids = Some("/etc/nodewarden/xids.toml".into());
    let mut sim = Sim::with(config, Some(row));
    for drains in [0, 0, 1] {
        nvlink_of(&mut sim, Some(12), &[1 << 4]);
        sim.reboot();
        assert_eq!(sim.slurm.drains, drains, "an operator decides on the repair");
    }
}

#[test]
fn a_record_with_repeated_errors_of_an_earlier_version_is_read() {
    let mut sim = Sim::new(Mode::Drain);
    sim.pass(20);
    let mut old = sim.record();
    let wall = sim.now.wall;
    let times = serde_json::json!({format!("pci:{GPU}"): {"74.0.0": [wall, wall]}});
    old["checks"]["xid"] = serde_json::json!({"pending": [], "repeats": times});
    sim.set_record(&old);
    sim.restart();
    assert!(sim.engine.lost().is_empty(), "{:?}", sim.engine.lost());
    nvlink_of(&mut sim, Some(12), &[1 << 4]);
    assert_eq!(sim.slurm.drains, 0, "the earlier ones may be of other links");
}

#[test]
fn a_site_may_drain_a_node_whose_gpu_has_not_joined_its_fabric_and_never_for_a_slow_one() {
    let (joined, unhealthy) = ("fabric: not joined open", "fabric: unhealthy open");
    for (state, health, expected, drains) in [
        (1, None, joined, true),
        (2, None, joined, true),
        (3, Some(2), unhealthy, false),
    ] {
        let mut settings = config(Mode::Drain);
        settings.checks.insert("gpu-fabric".to_owned(), Mode::Drain);
        let mut sim = Sim::with(settings, None);
        let mut series = vec![(&n::FABRIC_STATE, vec![], state)];
        series.extend(health.map(|health| (&n::FABRIC_HEALTH_SUMMARY, vec![], health)));
        sim.host.driven = vec![driven(well())];
        sim.pass(900);
        show(&mut sim, series);
        sim.pass(600);
        assert_eq!(sim.incidents(), [expected]);
        assert_eq!(sim.slurm.is_drained(), drains, "{expected}");
    }
}

#[test]
fn a_gpu_that_leaves_an_unhealthy_fabric_is_a_new_fault() {
    let mut settings = config(Mode::Drain);
    settings.checks.insert("gpu-fabric".to_owned(), Mode::Drain);
    let mut sim = Sim::with(settings, None);
    sim.host.driven = vec![driven(well())];
    sim.pass(900);
    for (state, drains) in [(3, false), (2, true)] {
        show(
            &mut sim,
            vec![
                (&n::FABRIC_STATE, vec![], state),
                (&n::FABRIC_HEALTH_SUMMARY, vec![], 2),
            ],
        );
        sim.pass(600);
        assert_eq!(sim.slurm.is_drained(), drains, "{state}");
    }
}

fn linked(ups: &[u64]) -> Vec<Driven> {
    let gpu = |(at, up): (usize, &u64)| Driven {
        label: format!("GPU-{at}"),
        series: vec![
            (&m::UP, vec![], 1),
            (&n::NVLINK_LINKS, vec![], 18),
            (&n::NVLINK_LINKS_UP, vec![], *up),
        ],
        late: None,
        ..Driven::default()
    };
    ups.iter().enumerate().map(gpu).collect()
}

#[test]
fn a_link_that_was_up_or_that_every_peer_has_is_missed() {
    for first in [[18, 18, 18, 18], [18, 17, 18, 18]] {
        let mut sim = Sim::new(Mode::Drain);
        sim.host.driven = linked(&first);
        sim.pass(900);
        sim.host.driven = linked(&[18, 17, 18, 18]);
        sim.pass(120);
        assert_eq!(sim.incidents(), ["17 of 18 NVLinks up open"]);
        assert_eq!(sim.slurm.drains, 0, "the fabric is shared");
        sim.host.driven = linked(&[18; 4]);
        sim.pass(120);
        assert_eq!(sim.incidents(), ["17 of 18 NVLinks up cleared"]);
    }
}

/// Four A100 with 12 links each, of which four lead to each other one, or all to switches.
fn ampere(ups: &[u64; 4], mig: u64, remote: &'static str) -> Vec<Driven> {
    let mut gpus = linked(ups);
    for (at, gpu) in gpus.iter_mut().enumerate() {
        let info = vec!["nvidia", "A100", "", "", "", "", "", "", "580", "ampere"];
        gpu.series[1].2 = 12;
        gpu.series.push((&m::INFO, info, 1));
        gpu.series
            .push((&m::MIG_MODE, vec![], if at == 0 { mig } else { 0 }));
        let link = vec!["0", "3.0", remote, ""];
        gpu.series.push((&n::NVLINK_LINK_INFO, link, 1));
    }
    gpus
}

#[test]
fn links_that_lead_to_an_a100_with_mig_are_not_missed_without_switches() {
    for (remote, found) in [("gpu", 0), ("switch", 3)] {
        let mut sim = Sim::new(Mode::Drain);
        sim.host.driven = ampere(&[12; 4], 0, remote);
        sim.pass(900);
        sim.host.driven = ampere(&[0, 8, 8, 8], 1, remote);
        sim.pass(600);
        assert_eq!(sim.incidents().len(), found, "{remote}: {:?}", sim.incidents());
        sim.host.driven = ampere(&[12, 8, 12, 12], 0, remote);
        sim.pass(600);
        let open = sim.incidents().into_iter().filter(|i| i.ends_with("open"));
        assert_eq!(open.collect::<Vec<_>>(), ["8 of 12 NVLinks up open"], "{remote}");
    }
}

/// Two GPUs on which the driver reports this number of links, all of them up.
fn with_links(all: u64) -> Vec<Driven> {
    let mut gpus = linked(&[all; 2]);
    for gpu in &mut gpus {
        gpu.series[1].2 = all;
    }
    gpus
}

#[test]
fn gpus_without_links_are_found_where_the_site_expects_some_until_it_no_longer_does() {
    let mut sim = Sim::new(Mode::Drain);
    sim.host.driven = with_links(0);
    sim.pass(900);
    assert_eq!(sim.incidents(), [""; 0], "as on a GPU without NVLink");
    sim.config.expect.nvlinks = Some(18);
    sim.reload();
    sim.pass(120);
    let found = "NVLinks down together with those of most GPUs";
    assert_eq!(sim.incidents(), vec![format!("{found} open"); 2]);
    sim.config.expect.nvlinks = None;
    sim.reload();
    sim.pass(120);
    assert_eq!(sim.incidents(), vec![format!("{found} cleared"); 2]);
}

#[test]
fn a_gpu_that_lost_all_its_links_is_not_repaired_by_that() {
    let mut sim = Sim::new(Mode::Drain);
    sim.host.driven = linked(&[18, 18]);
    sim.pass(900);
    sim.host.driven = linked(&[18, 17]);
    sim.pass(120);
    assert_eq!(sim.incidents(), ["17 of 18 NVLinks up open"]);
    sim.host.driven = with_links(0);
    sim.pass(600);
    let all = "NVLinks down together with those of most GPUs open";
    assert_eq!(sim.incidents(), ["17 of 18 NVLinks up open", all]);
}

#[test]
fn what_most_gpus_have_is_the_fabrics_and_what_one_keeps_afterwards_is_its_own() {
    let mut sim = Sim::new(Mode::Comment);
    sim.host.driven = linked(&[18; 4]);
    sim.pass(900);
    sim.host.driven = linked(&[17, 17, 17, 17]);
    sim.pass(120);
    assert_eq!(
        sim.incidents(),
        vec!["NVLinks down together with those of most GPUs open"; 4]
    );
    assert_eq!(sim.slurm.comment, None, "nothing of it is the node's");
    sim.host.driven = linked(&[18, 17, 18, 18]);
    sim.pass(240);
    let mut incidents = sim.incidents();
    incidents.sort();
    assert_eq!(
        incidents,
        [
            "17 of 18 NVLinks up open",
            "NVLinks down together with those of most GPUs cleared",
            "NVLinks down together with those of most GPUs cleared",
            "NVLinks down together with those of most GPUs cleared",
        ]
    );
    assert!(sim.slurm.comment.is_some());
}

#[test]
fn parts_whose_links_lead_nowhere_miss_none() {
    let mut sim = node(Mode::Drain, linked(&[0, 0, 0, 0]));
    sim.pass(3600);
    assert!(sim.incidents().is_empty());
}

/// GPUs with 18 links, and one on which the driver counts fewer. All are up.
fn one_with(links: u64, product: &'static str) -> Vec<Driven> {
    let mut gpus = linked(&[18; 5]);
    for (at, gpu) in gpus.iter_mut().enumerate() {
        let name = if at == 0 { product } else { "H100" };
        let labels = vec!["nvidia", name, "", "", "", "", "", "", "580", "hopper"];
        gpu.series.push((&m::INFO, labels, 1));
    }
    gpus[0].series[1].2 = links;
    gpus[0].series[2].2 = links;
    gpus
}

#[test]
fn a_gpu_with_fewer_links_is_missed_by_peers_of_its_product() {
    for (links, product, expected) in [
        (0, "H100", &["0 of 18 NVLinks up open"][..]),
        (17, "H100", &["17 of 18 NVLinks up open"]),
        (0, "L4", &[]),
        (12, "A100", &[]),
    ] {
        let mut sim = Sim::new(Mode::Drain);
        sim.host.driven = one_with(links, product);
        sim.pass(900);
        assert_eq!(sim.incidents(), expected, "{product}");
        // A peer is not read: no repair.
        sim.host.driven[1].series = vec![(&m::UP, vec![], 0)];
        sim.host.driven[2].series = vec![(&m::UP, vec![], 0)];
        sim.pass(600);
        let incidents = sim.incidents();
        assert!(
            expected.iter().all(|found| incidents.iter().any(|i| i == found)),
            "{incidents:?}"
        );
    }
}
