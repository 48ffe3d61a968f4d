//! Checks `rdma-missing` and `rdma-firmware-timeout`.

use collectors::ethernet::metrics::{LAG_MEMBER_UP, RESTING, UNREADABLE};
use collectors::event::{EventBody, FirmwareFault, KernelLine};
use collectors::{Subject, SubjectKind};

use super::host::Port;
use super::sim::*;
use crate::Mode;
use crate::verdict::Health;

const HOUR: u64 = 3600;
const PCI: &str = "0000:13:00.0";
const GONE: &str = "RDMA adapter not on the PCI bus";
const NO_DEVICE: &str = "mlx5_core has no RDMA device";

/// A node with eight known adapters, with driver and on the bus.
fn node() -> Sim {
    with(Sim::new(Mode::Drain))
}

fn with(mut sim: Sim) -> Sim {
    sim.host.ports = (0..8).map(Port::new).collect();
    let of = |p: &Port| (p.pci.clone(), "mlx5_core", Some(true));
    sim.host.networks = sim.host.ports.iter().map(of).collect();
    sim.pass(1000);
    sim
}

fn open(what: &str) -> Vec<String> {
    vec![format!("{what} open")]
}

#[test]
fn one_that_leaves_the_bus_is_missing_and_ends_when_it_is_back() {
    let mut sim = node();
    let (port, network) = (sim.host.ports.remove(3), sim.host.networks.remove(3));
    sim.pass(60);
    assert!(sim.incidents().is_empty(), "not for long enough");
    sim.pass(120);
    assert_eq!(sim.incidents(), open(GONE));
    assert!(
        sim.slurm
            .comment
            .clone()
            .unwrap()
            .contains("rdma-missing pci 0000:13:00.0")
    );
    assert_eq!(sim.slurm.drains, 0);
    assert_eq!(sim.engine.view().verdict.health, Health::Healthy);
    assert_eq!(
        sim.engine.view().incidents[0].findings[0].evidence,
        [concat!(
            "host_pci_network_info{pci=\"0000:13:00.0\"} not in a complete PCI listing; mlx5_3/1 of mlx5_core was ",
            "present in this boot; 7 of 8 RDMA adapters are visible"
        )]
    );
    sim.host.ports.insert(3, port);
    sim.host.networks.insert(3, network);
    sim.pass(120);
    assert_eq!(sim.incidents(), [format!("{GONE} cleared")]);
}

#[test]
fn one_whose_driver_has_no_device_is_missing() {
    let mut sim = node();
    sim.host.ports.remove(3);
    sim.host.networks[3].2 = Some(false);
    sim.pass(200);
    assert_eq!(sim.incidents(), open(NO_DEVICE));
}

#[test]
fn one_that_was_moved_to_a_containers_namespace_is_elsewhere_and_not_missing() {
    let mut sim = node();
    sim.host.ports.remove(3);
    sim.pass(HOUR);
    assert!(sim.incidents().is_empty());
}

#[test]
fn one_that_was_unbound_or_given_away_is_not_missing() {
    for driver in ["", "vfio-pci", "mlx5_vfio_pci"] {
        let mut sim = node();
        sim.host.ports.remove(3);
        (sim.host.networks[3].1, sim.host.networks[3].2) = (driver, Some(false));
        sim.pass(HOUR);
        assert!(sim.incidents().is_empty(), "{driver}");
    }
}

#[test]
fn one_that_is_configured_and_has_no_driver_is_missing() {
    let mut sim = node();
    sim.config.rdma.addresses = vec![pci(PCI)];
    sim.reload();
    sim.host.ports.remove(3);
    (sim.host.networks[3].1, sim.host.networks[3].2) = ("", Some(false));
    sim.pass(200);
    assert_eq!(sim.incidents(), open("RDMA adapter without a driver"));
}

/// One card with two ports.
fn card(layer: &'static str) -> Sim {
    let mut sim = Sim::new(Mode::Drain);
    sim.host.ports = (0..2).map(Port::new).collect();
    for port in &mut sim.host.ports {
        port.layer = layer;
    }
    sim.host.ports[1].pci = "0000:10:00.1".to_owned();
    let of = |p: &Port| (p.pci.clone(), "mlx5_core", Some(true));
    sim.host.networks = sim.host.ports.iter().map(of).collect();
    sim.pass(1000);
    sim
}

/// Only its own device has the port of the other function.
fn lose_the_second(sim: &mut Sim) {
    sim.host.ports.remove(1);
    sim.host.networks[1].2 = Some(false);
}

#[test]
fn one_port_of_a_card_is_missing_though_the_other_works() {
    // InfiniBand has no bond.
    let mut sim = card("InfiniBand");
    lose_the_second(&mut sim);
    sim.pass(200);
    assert_eq!(sim.incidents(), open(NO_DEVICE));
    // The interface of the other was read, and has no members.
    let mut sim = card("Ethernet");
    sim.host.ports[0].set(&RESTING, &["eth0"], 0.0);
    lose_the_second(&mut sim);
    sim.pass(200);
    assert_eq!(sim.incidents(), open(NO_DEVICE));
}

/// The driver of a bonded function stays bound.
#[test]
fn one_that_is_configured_and_has_no_driver_is_missing_beside_one_that_works() {
    let mut sim = card("Ethernet");
    sim.config.rdma.addresses = vec![pci("0000:10:00.1")];
    sim.reload();
    lose_the_second(&mut sim);
    sim.host.networks[1].1 = "";
    sim.pass(200);
    assert_eq!(sim.incidents(), open("RDMA adapter without a driver"));
}

#[test]
fn a_port_whose_other_may_be_a_bond_is_unknown() {
    type Case = (&'static str, fn(&mut Sim));
    let cases: [Case; 5] = [
        ("its members are not read", |_| {}),
        ("unreadable", |sim| {
            sim.host.ports[0].set(&RESTING, &["eth0"], 0.0);
            sim.host.ports[0].set(&UNREADABLE, &["dcb", "io", "eth0"], 1.0);
        }),
        ("a device with two ports", |sim| {
            sim.host.ports[0].set(&RESTING, &["eth0"], 0.0);
            let mut port = sim.host.ports[0].clone();
            port.number = "2";
            sim.host.ports.push(port);
        }),
        ("no layer", |sim| sim.host.ports[0].layer = ""),
        ("in a container", |sim| drop(sim.host.ports.remove(0))),
    ];
    for (what, change) in cases {
        let mut sim = card("Ethernet");
        lose_the_second(&mut sim);
        change(&mut sim);
        sim.pass(HOUR);
        assert!(sim.incidents().is_empty(), "{what}: {:?}", sim.incidents());
    }
}

#[test]
fn a_port_that_is_bonded_with_the_other_of_its_card_is_part_of_its_device() {
    let mut sim = card("Ethernet");
    lose_the_second(&mut sim);
    sim.host.ports[0].set(&RESTING, &["bond0"], 0.0);
    for member in ["eth0", "eth1"] {
        sim.host.ports[0].set(&LAG_MEMBER_UP, &[member], 1.0);
    }
    sim.pass(HOUR);
    assert!(sim.incidents().is_empty());
    sim.host.networks.remove(1);
    sim.pass(200);
    assert_eq!(sim.incidents(), open(GONE));
}

#[test]
fn a_driver_reload_takes_less() {
    let mut sim = node();
    let ports = std::mem::take(&mut sim.host.ports);
    for network in &mut sim.host.networks {
        network.2 = Some(false);
    }
    sim.pass(90);
    sim.host.ports = ports;
    for network in &mut sim.host.networks {
        network.2 = Some(true);
    }
    sim.pass(600);
    assert!(sim.incidents().is_empty());
}

#[test]
fn a_bus_that_cannot_be_listed_neither_begins_nor_ends_it() {
    let mut sim = node();
    sim.host.readable = false;
    sim.host.ports.remove(3);
    sim.host.networks.remove(3);
    sim.pass(HOUR);
    assert!(sim.incidents().is_empty());
    sim.host.readable = true;
    sim.pass(200);
    assert_eq!(sim.incidents(), open(GONE));
    sim.host.readable = false;
    sim.pass(HOUR);
    assert_eq!(sim.incidents(), open(GONE));
    // An unknown place does not end it either.
    sim.host.readable = true;
    sim.host.networks.push((PCI.to_owned(), "mlx5_core", None));
    sim.pass(HOUR);
    assert_eq!(sim.incidents(), open(GONE));
}

#[test]
fn what_left_before_this_boot_is_not_missed_unless_it_is_configured() {
    let mut sim = node();
    sim.host.ports.remove(3);
    sim.host.networks.remove(3);
    sim.reboot();
    sim.pass(2 * HOUR);
    assert!(sim.incidents().is_empty());
    sim.config.rdma.addresses = vec![pci(PCI)];
    sim.reload();
    sim.pass(200);
    assert_eq!(sim.incidents(), open(GONE));
}

/// An adapter that was taken out, or one of another node's profile.
#[test]
fn one_that_this_boot_has_not_and_no_configuration_names_does_not_drain_after_a_reboot() {
    let mut config = config(Mode::Drain);
    config.checks.insert("rdma-missing".to_owned(), Mode::Drain);
    config.rdma.addresses = vec![pci("0000:99:00.0")];
    let mut sim = with(Sim::with(config, None));
    assert!(sim.slurm.is_drained(), "{:?}", sim.incidents());
    sim.config.rdma.addresses = Vec::new();
    sim.reload();
    sim.slurm.admin_resumes();
    let before = sim.slurm.drains;
    sim.reboot();
    sim.pass(2 * HOUR);
    assert_eq!(sim.slurm.drains, before);
    assert_ne!(sim.engine.view().verdict.health, Health::Unhealthy);
}

/// The profile of another kind of node: no adapter, one of another driver, and a function without a driver.
#[test]
fn one_that_only_the_configuration_expected_ends_when_the_address_leaves_it() {
    for (slot, restarts) in [
        (None, false),
        (None, true),
        (Some("i40e"), true),
        (Some(""), false),
    ] {
        let mut sim = node();
        if let Some(driver) = slot {
            sim.host
                .networks
                .push(("0000:99:00.0".to_owned(), driver, Some(false)));
        }
        sim.config.rdma.addresses = vec![pci("0000:99:00.0"), pci(PCI)];
        sim.reload();
        sim.pass(200);
        assert_eq!(sim.incidents().len(), 1, "{slot:?}: {:?}", sim.incidents());
        sim.config.rdma.addresses = vec![pci(PCI)];
        sim.reload();
        if restarts {
            sim.restart();
        }
        sim.pass(200);
        let left = sim.incidents().into_iter().filter(|text| text.ends_with("open"));
        assert_eq!(left.count(), 0, "{slot:?}: {:?}", sim.incidents());
    }
}

/// A card that died is not on the bus after the reboot either: what holds its drain is not the configuration.
#[test]
fn one_that_an_earlier_boot_had_stays_missing_although_no_configuration_names_it() {
    for is_configured in [false, true] {
        let mut config = config(Mode::Drain);
        config.checks.insert("rdma-missing".to_owned(), Mode::Drain);
        let mut sim = with(Sim::with(config, None));
        if is_configured {
            let all = sim.host.ports.iter().map(|port| port.pci.as_str());
            sim.config.rdma.addresses = all.map(pci).collect();
            sim.reload();
        }
        sim.host.ports.remove(3);
        sim.host.networks.remove(3);
        sim.pass(200);
        assert!(sim.slurm.is_drained());
        sim.reboot();
        sim.pass(HOUR);
        sim.config.rdma.addresses.clear();
        sim.reload();
        sim.pass(2 * HOUR);
        assert_eq!(sim.incidents(), open(GONE), "{is_configured}");
        assert!(sim.slurm.is_drained());
    }
}

#[test]
fn it_outlives_a_restart_of_this_program() {
    let mut sim = node();
    sim.restart();
    sim.host.ports.remove(3);
    sim.host.networks.remove(3);
    sim.restart();
    sim.pass(200);
    assert_eq!(sim.incidents(), open(GONE));
}

mod firmware {
    use super::*;

    const DEAF: &str = "firmware of mlx5_core does not answer";

    fn body(address: &str, what: FirmwareFault) -> EventBody {
        EventBody::Firmware {
            pci: pci(address),
            driver: "mlx5_core".to_owned(),
            what,
        }
    }

    #[test]
    fn a_command_that_is_not_answered_comments_and_ends_after_six_hours() {
        let mut sim = node();
        sim.event(body(PCI, FirmwareFault::CommandTimeout));
        sim.event(body(PCI, FirmwareFault::LateCompletion));
        sim.pass(60);
        assert_eq!(sim.incidents(), open(DEAF));
        assert_eq!(sim.slurm.drains, 0);
        assert!(
            sim.slurm
                .comment
                .clone()
                .unwrap()
                .contains("rdma-firmware-timeout")
        );
        assert_eq!(
            sim.engine.view().incidents[0].findings[0].evidence,
            [concat!(
                "kernel log: line 2; mlx5_3/1: rdma_firmware_faults_total{pci=\"0000:13:00.0\"} within 6 h: ",
                "1 command_timeout, 1 late_completion, expected none"
            )]
        );
        let counted = &sim.engine.view().ledger.firmware[PCI];
        assert_eq!(counted["command_timeout"].count, 1);
        sim.pass(6 * HOUR - 200);
        assert_eq!(sim.incidents(), open(DEAF));
        sim.pass(600);
        assert_eq!(sim.incidents(), [format!("{DEAF} cleared")]);
    }

    #[test]
    fn an_adapter_that_serves_no_rdma_is_counted_and_not_judged() {
        let mut sim = node();
        sim.event(body("0000:c1:00.0", FirmwareFault::CommandTimeout));
        sim.pass(600);
        assert!(sim.incidents().is_empty());
        assert!(sim.engine.view().ledger.firmware.contains_key("0000:c1:00.0"));
    }

    /// What came after a lift is not counted from 0, so that its end is seen.
    #[test]
    fn a_fault_between_the_second_lift_and_its_discovery_is_an_incident_that_ends() {
        let mut config = config(Mode::Drain);
        for check in ["network-adapter-error", "rdma-firmware-timeout"] {
            config.checks.insert(check.to_owned(), Mode::Drain);
        }
        let mut sim = Sim::with(config, None);
        sim.host.ports = (0..8).map(Port::new).collect();
        sim.pass(1000);
        sim.event(EventBody::Kernel(KernelLine {
            row: "adapter-hot".to_owned(),
            subject: Subject::new(SubjectKind::Pci, PCI),
        }));
        sim.pass(60);
        sim.slurm.admin_resumes();
        sim.pass(60);
        assert_eq!(sim.slurm.drains, 2);
        sim.slurm.readable = false;
        sim.pass(15);
        sim.slurm.admin_resumes();
        sim.event(body(PCI, FirmwareFault::CommandTimeout));
        sim.pass(60);
        sim.slurm.readable = true;
        sim.pass(60);
        assert_eq!((sim.slurm.drains, sim.drain_state().as_str()), (3, "drained"));
        assert!(sim.reason().starts_with("nodewarden:rdma-firmware-timeout "));
        sim.pass(5 * HOUR);
        assert!(sim.slurm.is_drained());
        sim.pass(2 * HOUR);
        assert!(!sim.slurm.is_drained(), "{:?}", sim.incidents());
        assert_eq!(sim.drain_state(), "none");
    }

    #[test]
    fn an_old_line_says_nothing_about_now() {
        let mut sim = node();
        sim.history(body(PCI, FirmwareFault::Fatal));
        sim.pass(600);
        assert!(sim.incidents().is_empty());
    }

    #[test]
    fn a_log_that_cannot_be_read_ends_nothing() {
        let mut sim = node();
        sim.event(body(PCI, FirmwareFault::Unresponsive));
        sim.pass(60);
        sim.host.kernel_log = false;
        sim.pass(7 * HOUR);
        assert_eq!(sim.incidents(), open(DEAF));
        sim.host.kernel_log = true;
        sim.pass(5 * HOUR);
        assert_eq!(sim.incidents(), open(DEAF), "not read for six hours yet");
        sim.pass(2 * HOUR);
        assert_eq!(sim.incidents(), [format!("{DEAF} cleared")]);
    }

    /// EFA's driver logs nothing.
    #[test]
    fn a_command_of_efa_without_completion_comments_and_refused_ones_do_not() {
        use collectors::rdma::metrics::DEVICE_HW_COUNTER;

        const DEAF: &str = "firmware of efa does not answer";
        let mut sim = node();
        let port = &mut sim.host.ports[3];
        port.driver = "efa";
        port.layer = "Unknown";
        for (counter, count) in [("no_completion_cmds", 7.0), ("cmds_err", 7.0)] {
            port.set(&DEVICE_HW_COUNTER, &[counter], count);
        }
        sim.pass(300);
        sim.host.ports[3].add(&DEVICE_HW_COUNTER, &["cmds_err"], 100.0);
        sim.pass(300);
        assert!(sim.incidents().is_empty(), "{:?}", sim.incidents());
        sim.host.ports[3].add(&DEVICE_HW_COUNTER, &["no_completion_cmds"], 1.0);
        sim.pass(60);
        assert_eq!(sim.incidents(), open(DEAF));
        let evidence = &sim.engine.view().incidents[0].findings[0].evidence[0];
        assert!(
            evidence.contains("counter=\"no_completion_cmds\"} 8, expected not to grow")
                && evidence.contains("1 no_completion_cmds"),
            "{evidence}"
        );
        assert_eq!(sim.slurm.drains, 0);
        // Not read for a while: the absence of faults is unproven.
        let series = std::mem::take(&mut sim.host.ports[3].series);
        sim.pass(7 * HOUR);
        assert_eq!(sim.incidents(), open(DEAF));
        sim.host.ports[3].series = series;
        sim.pass(7 * HOUR);
        assert_eq!(sim.incidents(), [format!("{DEAF} cleared")]);
    }
}
