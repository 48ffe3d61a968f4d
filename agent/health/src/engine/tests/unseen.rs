//! What cannot be seen neither begins nor ends anything, and what is well begins nothing, in every order of things.

use proptest::prelude::*;

use super::host::{Link, Port};
use super::sim::*;
use crate::Mode;

/// Why nothing could be seen of the devices.
#[derive(Clone, Copy, Debug)]
enum Unseen {
    Late,
    Absent,
    Gone,
    Disabled,
    Asleep,
    Restart,
    Reboot,
}

fn unseen() -> impl Strategy<Value = Vec<(Unseen, u64)>> {
    use Unseen as U;
    let why = prop::sample::select(vec![
        U::Late,
        U::Absent,
        U::Gone,
        U::Disabled,
        U::Asleep,
        U::Restart,
        U::Reboot,
    ]);
    prop::collection::vec((why, 1_u64..2000), 1..8)
}

/// Eight ports, a GPU and an adapter, all in use.
fn node() -> Sim {
    let mut config = config(Mode::Drain);
    config.gpu_addresses = vec![pci(GPU), pci(GPU2)];
    for check in ["rdma-port-down", "rdma-port-flapping", "pcie-degraded"] {
        config.checks.insert(check.to_owned(), Mode::Drain);
    }
    let mut sim = Sim::with(config, None);
    sim.host.ports = (0..8).map(Port::new).collect();
    sim.host.links = [(GPU, "gpu"), ("0000:10:00.0", "rdma")]
        .into_iter()
        .map(|(pci, function)| Link {
            pci: pci.to_owned(),
            function,
            width: Some(16),
            width_max: 16,
            speed: Some(32e9),
            speed_max: 32e9,
        })
        .collect();
    sim.pass(2000);
    sim
}

/// Everything that the checks look at becomes invisible, in one way or another.
fn hide(sim: &mut Sim, why: Unseen) {
    sim.host.readable = false;
    let mut ports: Vec<Port> = (0..8).map(Port::new).collect();
    for port in &mut ports {
        match why {
            Unseen::Absent => {
                (port.state, port.physical) = (None, None);
                (port.link_downed, port.carrier_down) = (None, None);
            }
            Unseen::Disabled => (port.state, port.physical) = (Some(1), Some(3)),
            // Nothing is known in this state.
            Unseen::Asleep => (port.state, port.physical) = (Some(0), Some(1)),
            _ => port.late = true,
        }
    }
    sim.host.ports = if matches!(why, Unseen::Gone) {
        Vec::new()
    } else {
        ports
    };
    match why {
        Unseen::Restart => sim.restart(),
        Unseen::Reboot => sim.reboot(),
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn unknown_begins_nothing(story in unseen()) {
        let mut sim = node();
        for (why, seconds) in story {
            hide(&mut sim, why);
            sim.pass(seconds);
        }
        prop_assert!(sim.incidents().is_empty(), "{:?}", sim.incidents());
        prop_assert_eq!(sim.slurm.drains, 0);
    }

    #[test]
    fn unknown_ends_nothing(story in unseen()) {
        let mut sim = node();
        for flap in 1..=5 {
            sim.host.ports[5].link_downed = Some(flap);
            sim.pass(60);
        }
        sim.host.ports[3].down();
        sim.host.links[0].width = Some(8);
        sim.host.links[1].speed = Some(16e9);
        sim.remove_gpu(GPU2);
        sim.pass(400);
        let before = sim.incidents();
        prop_assert_eq!(before.iter().filter(|i| i.ends_with(" open")).count(), 5, "{:?}", before);
        for (why, seconds) in story {
            hide(&mut sim, why);
            sim.pass(seconds);
        }
        prop_assert_eq!(sim.incidents(), before);
        prop_assert!(sim.slurm.is_drained());
    }

    #[test]
    fn what_is_well_begins_nothing(times in prop::collection::vec((1_u64..2000, 0..3_u8), 1..12)) {
        let mut sim = node();
        for (seconds, then) in times {
            sim.pass(seconds);
            match then {
                0 => sim.restart(),
                1 => sim.reboot(),
                _ => {}
            }
        }
        prop_assert!(sim.incidents().is_empty());
    }
}
