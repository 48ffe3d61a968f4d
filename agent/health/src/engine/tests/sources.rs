//! One fault that both the kernel log and the driver's library report.

use collectors::EventBody;
use collectors::event::{Recovery, Xid, XidSource};

use super::sim::*;
use crate::{Input, Mode};

/// The library reports an Xid.
fn library_reports(sim: &mut Sim, code: u32) {
    let xid = Xid {
        source: XidSource::Nvml,
        ..xid_of(code)
    };
    let event = sim.event_of(EventBody::Xid(xid));
    sim.input(Input::Event("nvidia", &event));
}

fn counted(sim: &Sim, code: u32) -> u64 {
    let gpu = format!("pci:{GPU}");
    let view = sim.engine.view();
    view.ledger
        .xids
        .get(&gpu)
        .and_then(|codes| codes.get(&code))
        .map_or(0, |n| n.count)
}

#[test]
fn a_fault_counts_once_and_drains_once_in_any_order_of_sources() {
    for library_first in [true, false] {
        let mut sim = Sim::new(Mode::Drain);
        if library_first {
            library_reports(&mut sim, 95);
            sim.pass(3);
            sim.xid(95);
        } else {
            sim.xid(95);
            sim.pass(3);
            library_reports(&mut sim, 95);
        }
        assert_eq!((counted(&sim, 95), sim.slurm.drains), (1, 1));
        let view = sim.engine.view();
        let reports = &view.ledger.xid_reports[&format!("pci:{GPU}")][&95];
        assert_eq!((reports["kernel_log"], reports["nvml"]), (1, 1));
        assert_eq!(sim.incidents(), ["xid95 open"]);
        assert_eq!(view.incidents[0].findings[0].count, 1);
    }
}

#[test]
fn a_later_xid_of_either_source_is_another_fault() {
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(31);
    library_reports(&mut sim, 31);
    sim.pass(5);
    library_reports(&mut sim, 31);
    assert_eq!(counted(&sim, 31), 2);
    sim.pass(300);
    sim.xid(31);
    assert_eq!(counted(&sim, 31), 3);
}

#[test]
fn a_restart_between_the_two_reports_counts_nothing_twice() {
    let mut sim = Sim::new(Mode::Drain);
    library_reports(&mut sim, 95);
    sim.pass(5);
    sim.restart();
    sim.xid(95);
    assert_eq!((counted(&sim, 95), sim.slurm.drains), (1, 1));
}

#[test]
fn the_registers_in_the_kernels_line_decide_on_an_nvlink_error_not_the_bare_code() {
    let mut sim = Sim::new(Mode::Drain);
    library_reports(&mut sim, 74);
    sim.pass(5);
    assert_eq!(sim.slurm.drains, 0);
    let serious = Xid {
        words: vec![1 << 8, 0, 0, 0, 0],
        ..xid_of(74)
    };
    sim.event(EventBody::Xid(serious));
    assert_eq!((counted(&sim, 74), sim.slurm.drains), (1, 1));
}

#[test]
fn the_verdict_in_the_kernels_line_counts_although_the_library_was_first() {
    let mut sim = Sim::new(Mode::Drain);
    library_reports(&mut sim, 154);
    assert_eq!(sim.slurm.drains, 0);
    sim.verdict_154(Recovery::GpuReset);
    assert_eq!((counted(&sim, 154), sim.slurm.drains), (1, 1));
    library_reports(&mut sim, 154);
    sim.verdict_154(Recovery::None);
    assert!(
        sim.incidents().iter().all(|i| i.ends_with("cleared")),
        "{:?}",
        sim.incidents()
    );
}

#[test]
fn what_the_library_reports_besides_xids_is_counted_and_nothing_else() {
    let mut sim = Sim::new(Mode::Drain);
    let body = EventBody::Driver {
        pci: pci(GPU),
        what: collectors::event::DriverEvent::FatalPoison,
    };
    let event = sim.event_of(body);
    sim.input(Input::Event("nvidia", &event));
    let view = sim.engine.view();
    assert_eq!(
        view.ledger.driver_events[&format!("pci:{GPU}")]["fatal_poison"].count,
        1
    );
    assert!(sim.incidents().is_empty());
}

#[test]
fn events_of_a_port_are_counted_and_never_drain() {
    let mut sim = Sim::new(Mode::Drain);
    let down = |port: &str| {
        EventBody::Rdma(collectors::event::RdmaChange {
            device: "mlx5_0".to_owned(),
            port: port.to_owned(),
            what: collectors::event::RdmaEvent::LinkDown,
        })
    };
    for body in [down("1"), down("1"), EventBody::Overrun { lost: None }] {
        let event = sim.event_of(body);
        sim.input(Input::Event("rdma", &event));
        // A repeated delivery.
        sim.input(Input::Event("rdma", &event));
    }
    let view = sim.engine.view();
    let events = &view.ledger.rdma_events;
    assert_eq!(events["mlx5_0"]["1"]["link_down"].count, 2);
    assert_eq!(events[""][""]["lost"].count, 1);
    assert_eq!(view.ledger.overruns, 0, "the kernel's log lost nothing");
    assert!(sim.incidents().is_empty());
}
