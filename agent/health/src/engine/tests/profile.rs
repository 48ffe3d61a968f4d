//! The checks of `health.expect`: what the node lacks is found, what is unreadable or elsewhere on purpose is not.

use collectors::gpu::metrics as m;
use collectors::nvidia::metrics as n;

use collectors::mounts::metrics::INFO;
use collectors::{Block, Subject};

use super::host::{Driven, Machine, Port, snapshot};
use super::sim::*;
use crate::profile::Profile;
use crate::settings::{Expect, Rdma, Settings};
use crate::{Mode, OrderVerb};

const TIB: u64 = 1 << 40;

fn profile() -> Expect {
    Expect {
        gpus: Some(2),
        gpu_models: vec!["H100".to_owned()],
        gpu_drivers: vec!["570".to_owned(), "580".to_owned()],
        gpu_vbios: vec!["96.00".to_owned()],
        nvlinks: Some(18),
        rdma_ports: Some(8),
        memory: Some(2 * TIB),
        cpus: Some(224),
        mounts: vec!["/gpfs".to_owned(), "/my data".to_owned()],
        modules: vec!["nvidia_peermem".to_owned(), "ib_umad".to_owned()],
    }
}

fn gpu(label: &str, at: &'static str, vbios: &'static str, links: u64) -> Driven {
    let info = vec!["nvidia", "H100", at, "0", "0", "", "", vbios, "580", "hopper"];
    Driven {
        label: label.to_owned(),
        series: vec![
            (&m::UP, vec![], 1),
            (&m::INFO, info, 1),
            (&n::NVLINK_LINKS, vec![], 18),
            (&n::NVLINK_LINKS_UP, vec![], links),
        ],
        ..Driven::default()
    }
}

/// A node in this mode that meets the profile.
fn node(settings: Settings) -> Sim {
    let mut sim = Sim::with(settings, None);
    sim.host.ports = (0..8).map(Port::new).collect();
    sim.host.networks = sim
        .host
        .ports
        .iter()
        .map(|p| (p.pci.clone(), "mlx5_core", Some(true)))
        .collect();
    sim.host.driven = vec![gpu("GPU-1", GPU, "96.00", 18), gpu("GPU-2", GPU2, "96.00", 18)];
    sim.host.machine = Machine {
        memory: Some(2_164_135_043_072),
        cpus: Some(224),
        modules: Some("ib_core,ib_umad,nvidia,nvidia_peermem"),
        mounts: vec![("/", "xfs"), ("/gpfs", "gpfs"), ("/my data", "nfs4")],
        whole: true,
    };
    sim.pass(1200);
    assert!(sim.incidents().is_empty(), "{:?}", sim.incidents());
    sim
}

fn expecting() -> Sim {
    node(Settings {
        expect: profile(),
        ..config(Mode::Drain)
    })
}

/// The check, subject and detail of each open incident.
fn open(sim: &Sim) -> Vec<String> {
    let view = sim.engine.view();
    let open = view.incidents.iter().filter(|i| i.closed.is_none());
    open.map(|i| format!("{} {}: {}", i.check, i.subject, i.detail))
        .collect()
}

/// Takes something away from a node, which is a finding, and gives it back, which ends it.
fn taken_away(take: fn(&mut Sim), found: &str) {
    let mut sim = expecting();
    let before = sim.host.clone();
    take(&mut sim);
    sim.pass(75);
    assert!(
        open(&sim).is_empty(),
        "{found}: not for long enough: {:?}",
        open(&sim)
    );
    sim.pass(60);
    assert_eq!(open(&sim), [found]);
    assert_eq!(sim.slurm.drains, 0, "{found}: it comments");
    assert!(sim.slurm.comment.is_some(), "{found}");
    sim.host = before;
    sim.pass(180);
    assert!(open(&sim).is_empty(), "{found}: {:?}", open(&sim));
}

#[test]
fn what_is_taken_away_is_a_finding_with_found_and_expected_and_ends_when_it_is_back() {
    taken_away(
        |sim| sim.host.machine.memory = Some(2_164_135_043_072 / 32 * 31),
        "memory-missing node: memory: 1.90 TiB found, 2.00 TiB expected",
    );
    taken_away(
        |sim| sim.host.machine.cpus = Some(223),
        "cpu-missing node: CPUs online: 223 found, 224 expected",
    );
    taken_away(
        |sim| sim.host.machine.modules = Some("ib_core,ib_umad,nvidia,nvidia_peermem_old"),
        "module-missing node: module nvidia_peermem not loaded",
    );
    taken_away(
        |sim| sim.host.machine.mounts.retain(|(point, _)| *point != "/my data"),
        "mount-missing node: /my data not mounted",
    );
    taken_away(
        |sim| sim.host.ports[3].down(),
        "rdma-ports-missing node: RDMA ports up: 7 found, 8 expected",
    );
    taken_away(
        |sim| sim.host.driven[1] = gpu("GPU-2", GPU2, "96.01", 18),
        "gpu-configuration gpu GPU-2: VBIOS: 96.01 found, 96.00 expected",
    );
}

#[test]
fn an_absent_gpu_drains_unless_its_address_is_judged_already() {
    let mut sim = expecting();
    sim.host.driven.pop();
    sim.remove_gpu(GPU2);
    sim.pass(60);
    assert_eq!(
        open(&sim),
        ["gpu-missing node: GPUs on the PCI bus: 1 found, 2 expected"]
    );
    assert_eq!(sim.slurm.drains, 1);

    let mut sim = node(Settings {
        expect: profile(),
        gpu_addresses: vec![pci(GPU), pci(GPU2)],
        ..config(Mode::Drain)
    });
    sim.host.driven.pop();
    sim.remove_gpu(GPU2);
    sim.pass(300);
    let found = open(&sim);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].ends_with(&format!("{GPU2} not on the PCI bus")),
        "{found:?}"
    );
}

#[test]
fn links_that_were_never_up_are_found_against_the_profile_only() {
    for (expect, found) in [(profile(), 1), (Expect::default(), 0)] {
        let mut sim = Sim::with(
            Settings {
                expect: Expect {
                    nvlinks: expect.nvlinks,
                    ..Expect::default()
                },
                ..config(Mode::Comment)
            },
            None,
        );
        sim.host.driven = vec![gpu("GPU-1", GPU, "96.00", 16), gpu("GPU-2", GPU2, "96.00", 18)];
        sim.pass(1200);
        assert_eq!(open(&sim).len(), found, "{:?}", open(&sim));
        if found > 0 {
            assert_eq!(open(&sim), ["gpu-nvlink-down gpu GPU-1: 16 of 18 NVLinks up"]);
        }
    }
}

#[test]
fn what_is_unreadable_neither_begins_nor_ends_a_finding() {
    let blind = |sim: &mut Sim| {
        sim.host.machine = Machine::default();
        sim.host.driven.clear();
        sim.host.readable = false;
        for port in &mut sim.host.ports {
            (port.state, port.physical) = (None, None);
        }
    };
    let mut sim = expecting();
    blind(&mut sim);
    sim.pass(3600);
    assert!(
        !open(&sim)
            .iter()
            .any(|i| i.contains("expected") || i.contains("not ")),
        "{:?}",
        open(&sim)
    );

    let mut sim = expecting();
    sim.host.machine.cpus = Some(1);
    sim.host.machine.mounts.clear();
    sim.pass(150);
    let found = open(&sim);
    assert_eq!(
        found,
        [
            "cpu-missing node: CPUs online: 1 found, 224 expected",
            "mount-missing node: /gpfs not mounted",
        ]
    );
    blind(&mut sim);
    sim.pass(3600);
    assert!(
        found.iter().all(|one| open(&sim).contains(one)),
        "{:?}",
        open(&sim)
    );
}

#[test]
fn a_table_that_was_not_read_to_its_end_says_only_what_is_mounted() {
    let mut sim = expecting();
    sim.host.machine.whole = false;
    sim.host.machine.mounts.pop();
    sim.pass(3600);
    assert!(open(&sim).is_empty());
}

#[test]
fn an_automounter_mounts_when_someone_looks() {
    let mut sim = expecting();
    sim.host.machine.mounts[2].1 = "autofs";
    sim.pass(3600);
    assert!(open(&sim).is_empty());
}

/// A site lists the home of a service: an indirect map mounts it below its own folder at the first access.
#[test]
fn an_automounter_mounts_below_its_folder_when_someone_looks() {
    for (above, finding) in [
        ("autofs", None),
        ("xfs", Some("mount-missing node: /home/svc not mounted")),
    ] {
        let mut sim = expecting();
        sim.config.expect.mounts = vec!["/home/svc".to_owned()];
        sim.host.machine.mounts = vec![("/", "xfs"), ("/home", above), ("/home/svc", "nfs4")];
        sim.reload();
        sim.pass(600);
        assert_eq!(open(&sim), [""; 0], "{above}");
        sim.host.machine.mounts.pop();
        sim.pass(3600);
        assert_eq!(open(&sim), Vec::from_iter(finding), "{above}");
    }
    // Mounted by it, and a folder below that one is not.
    let mut sim = expecting();
    sim.config.expect.mounts = vec!["/home/svc/data".to_owned()];
    sim.host.machine.mounts = vec![("/", "xfs"), ("/home", "autofs"), ("/home/svc", "nfs4")];
    sim.reload();
    sim.pass(3600);
    assert_eq!(open(&sim), ["mount-missing node: /home/svc/data not mounted"]);
}

/// The mounts of a profile of this node, with the sources of those of NFS.
fn learned(mounts: Vec<(&'static str, &'static str)>, sources: &[(&str, &str)]) -> Vec<String> {
    let mut sim = expecting();
    sim.host.machine.mounts = mounts;
    let mut list = Block::default();
    for (point, source) in sources {
        list.info(&INFO, &[point, "nfs4", source, "network"]);
    }
    sim.host.others = vec![("mounts", Subject::node(), Ok(list))];
    let snapshot = snapshot(&sim.host, sim.now.boottime);
    Profile::of(&snapshot, &Rdma::default()).expect.mounts
}

#[test]
fn a_mount_that_an_automounter_made_is_not_learned() {
    let mounts = vec![
        ("/", "nfs4"),
        ("/home", "autofs"),
        ("/home/alice", "nfs4"),
        ("/direct", "nfs4"),
        ("/homes", "lustre"),
    ];
    assert_eq!(learned(mounts, &[]), ["/direct", "/homes"]);
}

#[test]
fn a_submount_that_the_client_of_nfs_made_is_not_learned() {
    let mounts = vec![
        ("/", "nfs4"),
        ("/data", "nfs4"),
        ("/data/fixed", "nfs4"),
        ("/data/vol1", "nfs4"),
        ("/data/vol1/sub", "nfs4"),
        ("/database", "nfs4"),
    ];
    let sources = [
        ("/", "nas:/images/node"),
        ("/data", "nas:/"),
        ("/data/fixed", "nas:/export/fixed"),
        ("/data/vol1", "nas:/vol1"),
        ("/data/vol1/sub", "nas:/vol1/sub"),
        ("/database", "nas:/base"),
    ];
    assert_eq!(learned(mounts, &sources), ["/data", "/data/fixed", "/database"]);
}

#[test]
fn memory_that_kernel_and_firmware_keep_is_not_missing() {
    let mut sim = expecting();
    // A crash kernel of 2 GiB, and pages that the kernel took out of use.
    sim.host.machine.memory = Some(2_164_135_043_072 - (3 << 30));
    sim.pass(3600);
    assert!(open(&sim).is_empty());
}

#[test]
fn a_gpu_or_an_adapter_that_was_given_away_is_not_missing() {
    let mut sim = expecting();
    sim.host.driven.pop();
    sim.set_gpu(GPU2, "vfio-pci", None);
    // In a virtual machine, and in the namespace of a container.
    sim.host.ports.remove(0);
    sim.host.networks[0] = (sim.host.networks[0].0.clone(), "vfio-pci", None);
    sim.host.ports.remove(0);
    sim.pass(3600);
    assert!(open(&sim).is_empty(), "{:?}", open(&sim));
    // One more is really down.
    sim.host.ports[0].down();
    sim.pass(150);
    assert_eq!(
        open(&sim),
        ["rdma-ports-missing node: RDMA ports up: 5 found, 8 expected"]
    );
}

#[test]
fn ports_that_the_site_excludes_do_not_count() {
    let mut settings = config(Mode::Drain);
    settings.expect.rdma_ports = Some(7);
    settings.rdma.exclude = vec![serde_json::from_str("\"mlx5_0\"").unwrap()];
    let mut sim = node(settings);
    sim.host.ports[1].down();
    sim.pass(150);
    assert_eq!(
        open(&sim),
        ["rdma-ports-missing node: RDMA ports up: 6 found, 7 expected"]
    );
}

/// An InfiniBand port without a cable says so.
#[test]
fn a_disabled_port_is_not_up() {
    let mut settings = config(Mode::Drain);
    settings.expect.rdma_ports = Some(8);
    let mut sim = node(settings);
    (sim.host.ports[1].state, sim.host.ports[1].physical) = (Some(1), Some(3));
    sim.pass(150);
    assert_eq!(
        open(&sim),
        ["rdma-ports-missing node: RDMA ports up: 7 found, 8 expected"]
    );
}

#[test]
fn a_node_that_starts_has_ten_minutes_to_become_complete() {
    let mut sim = expecting();
    let whole = sim.host.machine.clone();
    sim.reboot();
    sim.host.machine.modules = Some("");
    sim.host.machine.mounts.clear();
    sim.pass(540);
    assert!(open(&sim).is_empty(), "{:?}", open(&sim));
    sim.host.machine = whole;
    sim.pass(600);
    assert!(open(&sim).is_empty(), "{:?}", open(&sim));
}

#[test]
fn a_key_that_is_removed_ends_its_finding() {
    let mut sim = expecting();
    sim.host.machine = Machine {
        memory: Some(TIB),
        cpus: Some(1),
        modules: Some(""),
        mounts: Vec::new(),
        whole: true,
    };
    sim.host.driven = vec![gpu("GPU-1", GPU, "1", 18), gpu("GPU-2", GPU2, "96.00", 18)];
    sim.host.ports[0].down();
    sim.pass(150);
    assert_eq!(open(&sim).len(), 6, "one of each check: {:?}", open(&sim));
    sim.host.ports[0].up();
    sim.config.expect = Expect::default();
    sim.reload();
    sim.pass(180);
    assert!(open(&sim).is_empty(), "{:?}", open(&sim));
}

#[test]
fn what_a_person_cleared_is_quiet_until_it_was_right_once() {
    let mut sim = expecting();
    sim.host.machine.cpus = Some(112);
    sim.pass(150);
    let id = sim.engine.view().incidents[0].id.clone();
    sim.order(OrderVerb::Clear, &id).unwrap();
    sim.pass(3600);
    assert!(open(&sim).is_empty(), "{:?}", open(&sim));
    sim.host.machine.cpus = Some(224);
    sim.pass(180);
    sim.host.machine.cpus = Some(112);
    sim.pass(150);
    assert_eq!(open(&sim).len(), 1);
}

#[test]
fn without_a_profile_nothing_is_judged() {
    let mut sim = node(config(Mode::Drain));
    sim.host.machine = Machine {
        memory: Some(1),
        cpus: Some(1),
        modules: Some(""),
        mounts: Vec::new(),
        whole: true,
    };
    sim.pass(3600);
    assert!(open(&sim).is_empty());
}
