//! Lines from before the first start act only where the node itself agrees.

use collectors::EventBody;
use collectors::event::Recovery;

use super::sim::*;
use crate::Mode;

fn xid79() -> EventBody {
    EventBody::Xid(xid_of(79))
}

#[test]
fn a_healed_xid_95_in_the_ring_does_not_drain() {
    let mut sim = Sim::new(Mode::Drain);
    sim.history(EventBody::Xid(xid_of(95)));
    sim.pass(600);
    assert_eq!(sim.slurm.drains, 0);
    assert!(sim.incidents().is_empty());
    assert_eq!(sim.engine.view().ledger.xids[&format!("pci:{GPU}")][&95].count, 1);
}

#[test]
fn xid_79_with_the_gpu_gone_drains() {
    for body in [xid79(), EventBody::FallenOffBus { pci: pci(GPU) }] {
        let mut sim = Sim::new(Mode::Drain);
        sim.history(body);
        assert_eq!(sim.slurm.drains, 0, "nothing was seen yet");
        sim.remove_gpu(GPU);
        sim.snapshot();
        assert_eq!(sim.slurm.drains, 1);
        assert_eq!(sim.incidents(), ["xid79 open"]);
    }
}

#[test]
fn xid_79_with_the_gpu_silent_drains() {
    let mut sim = Sim::new(Mode::Drain);
    sim.history(xid79());
    sim.set_gpu(GPU, "nvidia", Some(false));
    sim.snapshot();
    assert_eq!(sim.slurm.drains, 1);
}

#[test]
fn xid_79_with_the_gpu_there_or_reassigned_does_not_drain() {
    for (driver, responding) in [
        ("nvidia", Some(true)),
        ("vfio-pci", None),
        ("vfio-pci", Some(false)),
    ] {
        let mut sim = Sim::new(Mode::Drain);
        sim.history(xid79());
        sim.set_gpu(GPU, driver, responding);
        sim.pass(60);
        sim.remove_gpu(GPU);
        sim.pass(600);
        assert_eq!(sim.slurm.drains, 0, "{driver}");
    }
}

#[test]
fn it_waits_for_a_good_reading_but_not_for_ever() {
    let mut sim = Sim::new(Mode::Drain);
    sim.history(xid79());
    sim.remove_gpu(GPU);
    sim.host.readable = false;
    sim.pass(240);
    assert_eq!(sim.slurm.drains, 0);
    let mut late = sim;
    late.restart();
    late.host.readable = true;
    late.pass(15);
    assert_eq!(late.slurm.drains, 1, "kept over a restart");

    let mut sim = Sim::new(Mode::Drain);
    sim.history(xid79());
    sim.remove_gpu(GPU);
    sim.host.readable = false;
    sim.pass(310);
    sim.host.readable = true;
    sim.pass(60);
    assert_eq!(sim.slurm.drains, 0);
}

#[test]
fn the_drivers_none_takes_history_back() {
    let mut sim = Sim::new(Mode::Drain);
    sim.history(xid79());
    let mut none = xid_of(154);
    none.recovery = Some(Recovery::None);
    sim.history(EventBody::Xid(none));
    sim.remove_gpu(GPU);
    sim.pass(60);
    assert_eq!(sim.slurm.drains, 0);
}

#[test]
fn what_happened_while_we_were_down_is_no_history() {
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(13);
    sim.restart();
    sim.xid(95);
    assert_eq!(sim.slurm.drains, 1);
}

#[test]
fn a_line_of_an_earlier_boot_is_not_confirmed_in_the_next() {
    let mut sim = Sim::new(Mode::Drain);
    sim.history(xid79());
    sim.reboot();
    sim.remove_gpu(GPU);
    sim.pass(600);
    assert_eq!(sim.slurm.drains, 0);
}
