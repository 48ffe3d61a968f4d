//! Check `rdma-configuration`.

use collectors::ethernet::metrics::{DCQCN_ENABLED, FEC_MODE, PFC_ENABLED, PORT_MTU, QOS_TRUST};
use collectors::rdma::metrics::{ROCE_NCCL_GID_INFO, ROCE_V2_GIDS};

use super::host::Port;
use super::sim::*;
use crate::Mode;
use crate::settings::Rdma;

fn node(profile: Rdma) -> Sim {
    let mut config = config(Mode::Drain);
    config.rdma = profile;
    let mut sim = Sim::with(config, None);
    sim.host.ports = (0..8).map(Port::new).collect();
    for port in &mut sim.host.ports {
        port.layer = "Ethernet";
        port.set(&PFC_ENABLED, &["0"], 0.0);
        port.set(&PFC_ENABLED, &["3"], 1.0);
        port.set(&QOS_TRUST, &["dscp"], 1.0);
        port.set(&PORT_MTU, &[], 9000.0);
        port.set(&FEC_MODE, &["rs"], 1.0);
        for point in ["np", "rp"] {
            port.set(&DCQCN_ENABLED, &[point, "3"], 1.0);
        }
        port.set(&ROCE_V2_GIDS, &[], 1.0);
    }
    sim.pass(1000);
    sim
}

fn profile() -> Rdma {
    Rdma {
        pfc: Some(vec![3]),
        trust: Some("dscp".to_owned()),
        ecn: Some(vec![3]),
        mtu: Some(9000),
        fec: Some("rs".to_owned()),
        rate: vec![400],
        firmware: vec!["28.42.1000".to_owned(), "28.43.1014".to_owned()],
        ..Rdma::default()
    }
}

fn evidence(sim: &Sim) -> String {
    sim.engine.view().incidents[0].findings[0].evidence[0].clone()
}

#[test]
fn a_port_that_is_not_as_the_profile_says_comments_and_ends_when_it_is() {
    let mut sim = node(profile());
    assert!(sim.incidents().is_empty());
    sim.host.ports[3].set(&PFC_ENABLED, &["3"], 0.0);
    sim.host.ports[3].set(&PORT_MTU, &[], 1500.0);
    sim.pass(150);
    let drift = "configuration differs: PFC at 0000:13:00.0";
    assert!(
        sim.incidents().contains(&format!("{drift} open")),
        "{:?}",
        sim.incidents()
    );
    assert!(sim.slurm.comment.clone().unwrap().contains("rdma-configuration"));
    assert_eq!(sim.slurm.drains, 0);
    let evidence = evidence(&sim);
    assert!(
        evidence.contains("PFC (rdma_pfc_enabled) is none, expected 3"),
        "{evidence}"
    );
    sim.host.ports[3].set(&PFC_ENABLED, &["3"], 1.0);
    sim.host.ports[3].set(&PORT_MTU, &[], 9000.0);
    sim.pass(150);
    assert!(
        sim.incidents().iter().all(|i| i.ends_with("cleared")),
        "{:?}",
        sim.incidents()
    );
}

#[test]
fn a_profile_counts_for_the_ports_that_it_names_and_no_others() {
    let patterns = |names: &[&str]| -> Vec<collectors::rdma::Pattern> {
        names
            .iter()
            .map(|n| (*n).to_owned().try_into().unwrap())
            .collect()
    };
    let drift = |profile: Rdma| {
        let mut sim = node(profile);
        sim.host.ports[3].set(&PORT_MTU, &[], 1500.0);
        sim.pass(150);
        let ours = sim.incidents();
        ours.iter().any(|i| i.starts_with("configuration differs: MTU"))
    };
    // Its device is mlx5_3.
    for (ports, exclude, counts) in [
        (&[][..], &[][..], true),
        (&["mlx5_*"], &[], true),
        (&["mlx5_3/1"], &[], true),
        (&["mlx5_4"], &[], false),
        (&[], &["mlx5_3"], false),
        (&["mlx5_*"], &["*_3/1"], false),
        (&[], &["mlx5_4"], true),
    ] {
        let found = drift(Rdma {
            ports: patterns(ports),
            exclude: patterns(exclude),
            ..profile()
        });
        assert_eq!(found, counts, "{ports:?} {exclude:?}");
    }
}

#[test]
fn what_the_site_no_longer_asks_for_is_over() {
    let not = |change: fn(&mut Rdma)| {
        let mut sim = node(profile());
        sim.host.ports[3].set(&PORT_MTU, &[], 1500.0);
        sim.pass(150);
        let found = "configuration differs: MTU at 0000:13:00.0";
        assert!(sim.says(found, false), "{:?}", sim.incidents());
        change(&mut sim.config.rdma);
        sim.reload();
        sim.pass(150);
        sim.says(found, true)
    };
    assert!(not(|rdma| rdma.mtu = None));
    assert!(not(
        |rdma| rdma.exclude = vec!["mlx5_3".to_owned().try_into().unwrap()]
    ));
    assert!(not(|rdma| *rdma = Rdma::default()));
    // Another word of the profile, or another port, changes nothing.
    assert!(!not(|rdma| rdma.fec = None));
    assert!(!not(
        |rdma| rdma.exclude = vec!["mlx5_4".to_owned().try_into().unwrap()]
    ));
}

#[test]
fn a_node_that_was_set_up_wrongly_is_well_when_nobody_asks_for_it() {
    let mut sim = node(profile());
    for port in &mut sim.host.ports {
        port.set(&PFC_ENABLED, &["3"], 0.0);
    }
    sim.pass(150);
    assert_eq!(sim.incidents().len(), 1);
    sim.config.rdma.pfc = None;
    sim.reload();
    sim.pass(150);
    assert!(sim.incidents()[0].ends_with("cleared"), "{:?}", sim.incidents());
}

#[test]
fn every_aspect_of_the_profile_is_compared() {
    type Fault = (&'static str, fn(&mut Port));
    let faults: [Fault; 6] = [
        ("trust", |p| {
            p.series.retain(|(m, _, _)| *m != &QOS_TRUST);
            p.set(&QOS_TRUST, &["pcp"], 1.0);
        }),
        ("DCQCN", |p| p.set(&DCQCN_ENABLED, &["rp", "3"], 0.0)),
        ("FEC", |p| {
            p.series.retain(|(m, _, _)| *m != &FEC_MODE);
            p.set(&FEC_MODE, &["off"], 1.0);
        }),
        ("rate", |p| p.rate = Some(25e9)),
        ("firmware", |p| p.firmware = "28.40.1000"),
        ("GID of jobs", |p| {
            p.set(&ROCE_NCCL_GID_INFO, &["3", "RoCE v1"], 1.0)
        }),
    ];
    for (word, break_it) in faults {
        let mut sim = node(profile());
        break_it(&mut sim.host.ports[3]);
        // DCQCN is looked at every ten minutes.
        sim.pass(800);
        // A port that is slower than before is an incident of its own, which names it first.
        let expected = format!("configuration differs: {word} at 0000:13:00.0");
        assert!(sim.says(&expected, false), "{word}: {:?}", sim.incidents());
    }
}

#[test]
fn a_node_that_was_never_set_up_is_one_finding_of_the_node() {
    let mut sim = node(profile());
    for port in &mut sim.host.ports {
        port.set(&PFC_ENABLED, &["3"], 0.0);
    }
    sim.pass(150);
    assert_eq!(
        sim.incidents(),
        ["configuration (PFC) of most Ethernet ports of mlx5_core together open"]
    );
    assert!(sim.slurm.comment.is_some());
    assert_eq!(sim.slurm.drains, 0);
}

#[test]
fn without_a_profile_the_odd_one_out_is_only_shown() {
    let mut sim = node(Rdma::default());
    sim.host.ports[3].set(&PFC_ENABLED, &["3"], 0.0);
    sim.pass(150);
    assert_eq!(
        sim.incidents(),
        ["unlike most of its kind: PFC at 0000:13:00.0 open"]
    );
    assert_eq!(sim.slurm.comment, None);
    sim.host.ports[3].set(&PFC_ENABLED, &["3"], 1.0);
    sim.pass(150);
    assert_eq!(
        sim.incidents(),
        ["unlike most of its kind: PFC at 0000:13:00.0 cleared"]
    );
}

#[test]
fn without_a_profile_all_alike_is_as_it_should_be_whatever_it_is() {
    let mut sim = node(Rdma::default());
    for port in &mut sim.host.ports {
        port.set(&PFC_ENABLED, &["3"], 0.0);
        port.set(&PORT_MTU, &[], 1500.0);
    }
    sim.pass(600);
    assert!(sim.incidents().is_empty());
}

#[test]
fn two_kinds_of_ports_are_no_measure_for_each_other() {
    let mut sim = node(Rdma::default());
    for port in &mut sim.host.ports[4..] {
        port.board = "MT_0000000223";
        port.set(&PORT_MTU, &[], 1500.0);
    }
    sim.pass(600);
    assert!(sim.incidents().is_empty());
}

#[test]
fn what_cannot_be_read_is_neither_drift_nor_its_end() {
    let mut sim = node(profile());
    sim.host.ports[4].series.clear();
    sim.host.ports[3].set(&PORT_MTU, &[], 1500.0);
    sim.pass(150);
    let before = sim.incidents();
    assert!(
        before.iter().all(|i| i.contains("MTU at 0000:13:00.0 open")),
        "{before:?}"
    );
    sim.host.ports[3].series.retain(|(m, _, _)| *m != &PORT_MTU);
    sim.pass(3600);
    assert_eq!(sim.incidents(), before);
}

#[test]
fn a_port_without_a_routable_gid_is_shown() {
    let mut sim = node(Rdma::default());
    sim.host.ports[3].set(&ROCE_V2_GIDS, &[], 0.0);
    sim.pass(150);
    assert_eq!(
        sim.incidents(),
        ["no address: routable RoCE v2 GID at 0000:13:00.0 open"]
    );
    assert_eq!(sim.slurm.comment, None);
}

#[test]
fn a_port_that_never_had_a_routable_gid_is_compared_with_its_kind() {
    for (ports, with_none, found) in [(2, 1, 0), (8, 8, 0), (8, 4, 0), (8, 1, 1)] {
        let mut sim = Sim::with(config(Mode::Drain), None);
        sim.host.ports = (0..ports).map(Port::new).collect();
        for (at, port) in sim.host.ports.iter_mut().enumerate() {
            port.layer = "Ethernet";
            port.set(&ROCE_V2_GIDS, &[], if at < with_none { 0.0 } else { 1.0 });
        }
        sim.pass(1000);
        assert_eq!(sim.incidents().len(), found, "{:?}", sim.incidents());
        // One that had one is missed, also after a restart.
        let last = sim.host.ports.len() - 1;
        if with_none <= last {
            sim.restart();
            sim.host.ports[last].set(&ROCE_V2_GIDS, &[], 0.0);
            sim.pass(1000);
            assert!(sim.incidents().len() > found, "{:?}", sim.incidents());
        }
    }
}

#[test]
fn a_profile_of_ethernet_says_nothing_of_infiniband() {
    let mut config = config(Mode::Drain);
    config.rdma = profile();
    let mut sim = Sim::with(config, None);
    sim.host.ports = (0..8).map(Port::new).collect();
    sim.host.ports[3].set(&PORT_MTU, &[], 2044.0);
    sim.pass(600);
    assert!(sim.incidents().is_empty());
}

#[test]
fn one_look_that_is_told_for_a_minute_is_no_drift() {
    let mut sim = node(profile());
    sim.host.ports[3].set(&PORT_MTU, &[], 1500.0);
    sim.pass(75);
    sim.host.ports[3].set(&PORT_MTU, &[], 9000.0);
    sim.pass(600);
    assert!(sim.incidents().is_empty(), "{:?}", sim.incidents());
    sim.host.ports[3].set(&DCQCN_ENABLED, &["rp", "3"], 0.0);
    sim.pass(630);
    sim.host.ports[3].set(&DCQCN_ENABLED, &["rp", "3"], 1.0);
    sim.pass(600);
    assert!(sim.incidents().is_empty(), "{:?}", sim.incidents());
}

#[test]
fn services_that_set_a_port_up_after_boot_have_ten_minutes() {
    let mut sim = node(profile());
    sim.host.ports[3].set(&PORT_MTU, &[], 1500.0);
    sim.reboot();
    sim.pass(400);
    sim.host.ports[3].set(&PORT_MTU, &[], 9000.0);
    sim.pass(1000);
    assert!(sim.incidents().is_empty(), "{:?}", sim.incidents());
}

#[test]
fn an_aspect_that_cannot_be_seen_does_not_hold_up_another() {
    let mut sim = node(profile());
    sim.host.ports[3].set(&PFC_ENABLED, &["3"], 0.0);
    sim.host.ports[3].set(&PORT_MTU, &[], 1500.0);
    sim.pass(150);
    let drift = |word: &str| format!("configuration differs: {word} at 0000:13:00.0");
    for word in ["PFC", "MTU"] {
        assert!(sim.says(&drift(word), false), "{:?}", sim.incidents());
    }
    sim.host.ports[3].series.retain(|(m, _, _)| *m != &PFC_ENABLED);
    sim.host.ports[3].set(&PORT_MTU, &[], 9000.0);
    sim.pass(600);
    assert!(sim.says(&drift("PFC"), false), "{:?}", sim.incidents());
    assert!(sim.says(&drift("MTU"), true), "{:?}", sim.incidents());
}

#[test]
fn a_group_that_has_no_such_setting_does_not_hold_up_the_end_of_what_all_others_share() {
    let mut sim = node(profile());
    let mut other = Port::new(8);
    (other.layer, other.rate) = ("Ethernet", Some(3.125e9));
    sim.host.ports.push(other);
    for port in &mut sim.host.ports[..8] {
        port.set(&PORT_MTU, &[], 1500.0);
    }
    sim.pass(150);
    let together = "configuration (MTU) of most Ethernet ports of mlx5_core together".to_owned();
    assert!(sim.says(&together, false), "{:?}", sim.incidents());
    for port in &mut sim.host.ports[..8] {
        port.set(&PORT_MTU, &[], 9000.0);
    }
    sim.pass(300);
    assert!(sim.says(&together, true), "{:?}", sim.incidents());
}

#[test]
fn what_all_ports_of_two_drivers_share_are_two_that_end_by_themselves() {
    let mut sim = node(profile());
    for n in 8..16 {
        let mut port = sim.host.ports[n - 8].clone();
        let of = Port::new(n);
        (port.device, port.pci, port.driver) = (of.device, of.pci, "bnxt_en");
        sim.host.ports.push(port);
    }
    sim.pass(300);
    for port in &mut sim.host.ports {
        port.set(&PORT_MTU, &[], 1500.0);
    }
    sim.pass(150);
    for port in &mut sim.host.ports[..8] {
        port.set(&PORT_MTU, &[], 9000.0);
    }
    sim.pass(300);
    let of = |driver| format!("configuration (MTU) of most Ethernet ports of {driver} together");
    assert!(sim.says(&of("mlx5_core"), true), "{:?}", sim.incidents());
    assert!(sim.says(&of("bnxt_en"), false), "{:?}", sim.incidents());
}

#[test]
fn a_profile_may_allow_the_rate_of_storage_ports_too() {
    let mut sim = node(Rdma {
        rate: vec![400, 200],
        ..Rdma::default()
    });
    sim.host.ports[7].rate = Some(12.5e9);
    sim.host.ports[3].rate = Some(25e9);
    sim.pass(300);
    assert!(!sim.says("configuration differs: rate at 0000:13:00.0", false));
    assert!(sim.says("configuration differs: rate at 0000:17:00.0", false));
}
