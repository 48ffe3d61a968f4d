//! What must hold in every order of things.

use std::time::Duration;

use collectors::EventBody;
use collectors::event::Recovery;
use proptest::prelude::*;

use super::sim::*;
use crate::{Mode, OrderVerb};
use slurm::state::{Base, Flag};

/// One thing that may happen.
#[derive(Clone, Debug)]
pub(super) enum Happens {
    Xid(u32),
    History(u32),
    Verdict(bool),
    Pass(u64),
    Gpu(u8),
    Edac(u64),
    Listing(bool),
    KernelLog(bool),
    AdminDrains,
    AdminResumes,
    SlurmReplaces,
    Flag(Flag, bool),
    Base(Base),
    Here(bool),
    Readable(bool),
    Disk(bool),
    Trouble(Trouble),
    Restart,
    Reboot,
    Wipe,
    DieBefore(usize),
    ClearFirst,
    Mode(Mode),
}

pub(super) fn happens() -> impl Strategy<Value = Happens> {
    use Happens as H;
    let xid = prop::sample::select(vec![13, 45, 46, 48, 63, 74, 79, 95, 119, 154, 999]);
    let flags = prop::sample::select(vec![
        Flag::Maint,
        Flag::RebootIssued,
        Flag::InvalidReg,
        Flag::Fail,
    ]);
    prop_oneof![
        6 => xid.clone().prop_map(H::Xid),
        1 => xid.prop_map(H::History),
        2 => any::<bool>().prop_map(H::Verdict),
        8 => (1_u64..200).prop_map(H::Pass),
        2 => (0_u8..4).prop_map(H::Gpu),
        1 => (0_u64..3).prop_map(H::Edac),
        1 => any::<bool>().prop_map(H::Listing),
        1 => any::<bool>().prop_map(H::KernelLog),
        2 => Just(H::AdminDrains),
        3 => Just(H::AdminResumes),
        1 => Just(H::SlurmReplaces),
        2 => (flags, any::<bool>()).prop_map(|(f, on)| H::Flag(f, on)),
        1 => prop::sample::select(vec![Base::Idle, Base::Down, Base::Future]).prop_map(H::Base),
        1 => any::<bool>().prop_map(H::Here),
        1 => any::<bool>().prop_map(H::Readable),
        1 => any::<bool>().prop_map(H::Disk),
        2 => prop::sample::select(vec![
            Trouble::TimeoutDone, Trouble::TimeoutLost, Trouble::Failed, Trouble::NotOurs,
        ]).prop_map(H::Trouble),
        1 => Just(H::Restart),
        2 => Just(H::Reboot),
        1 => Just(H::Wipe),
        2 => (1_usize..6).prop_map(H::DieBefore),
        1 => Just(H::ClearFirst),
        1 => prop::sample::select(vec![Mode::Observe, Mode::Comment, Mode::Drain]).prop_map(H::Mode),
    ]
}

pub(super) fn apply(sim: &mut Sim, happens: &Happens) {
    match happens.clone() {
        Happens::Xid(code) => sim.xid(code),
        Happens::History(code) => sim.history(EventBody::Xid(xid_of(code))),
        Happens::Verdict(none) => {
            sim.verdict_154(if none { Recovery::None } else { Recovery::GpuReset });
        }
        Happens::Pass(seconds) => sim.pass(seconds),
        Happens::Gpu(0) => sim.remove_gpu(GPU),
        Happens::Gpu(1) => sim.set_gpu(GPU, "nvidia", Some(false)),
        Happens::Gpu(2) => sim.set_gpu(GPU, "vfio-pci", None),
        Happens::Gpu(_) => sim.set_gpu(GPU, "nvidia", Some(true)),
        Happens::Edac(count) => sim.host.edac = Some(count),
        Happens::Listing(on) => sim.host.readable = on,
        Happens::KernelLog(on) => sim.host.kernel_log = on,
        Happens::AdminDrains => sim.slurm.admin_drains("RMA 1234"),
        Happens::AdminResumes => sim.slurm.admin_resumes(),
        Happens::SlurmReplaces => {
            sim.slurm.reason = Some("gres/gpu count reported lower than configured (1 < 2)".to_owned());
        }
        Happens::Flag(flag, true) => {
            sim.slurm.flags.insert(flag);
        }
        Happens::Flag(flag, false) => {
            sim.slurm.flags.remove(&flag);
        }
        Happens::Base(base) => sim.slurm.base = base,
        Happens::Here(on) => sim.slurm.here = on,
        Happens::Readable(on) => sim.slurm.readable = on,
        Happens::Disk(on) => sim.disk_works = on,
        Happens::Trouble(trouble) => sim.slurm.trouble.push_back(trouble),
        Happens::Restart => sim.restart(),
        Happens::Reboot => sim.reboot(),
        Happens::Wipe => sim.wipe(),
        Happens::DieBefore(effects) => sim.die_before = Some(sim.effects + effects),
        Happens::ClearFirst => {
            if let Some(incident) = sim.engine.view().incidents.first() {
                let id = incident.id.clone();
                sim.try_order(OrderVerb::Clear, &id);
            }
        }
        Happens::Mode(mode) => {
            sim.config.mode = mode;
            sim.reload();
        }
    }
}

pub(super) fn watched(mode: Mode) -> Sim {
    let mut config = config(mode);
    config.gpu_addresses = vec![pci(GPU), pci(GPU2)];
    Sim::with(config, None)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// The model itself refuses what must never be asked: a drain or lift without a store before it in the same
    /// effects, a drain in a mode below drain, a lift that the disk does not prove, a lift that no person ordered
    /// while this boot's kernel log is not known.
    #[test]
    fn whatever_happens(story in prop::collection::vec(happens(), 1..60)) {
        let mut sim = watched(Mode::Drain);
        for happens in &story {
            apply(&mut sim, happens);
            prop_assert!(sim.ids_given_twice().is_empty());
        }
    }

    /// Whatever state it is in, and however Slurm answers: acts and looks are few, and it comes to rest.
    #[test]
    fn acts_are_few(
        story in prop::collection::vec(happens(), 1..40),
        trouble in prop::option::of(prop::sample::select(vec![
            Trouble::TimeoutDone, Trouble::TimeoutLost, Trouble::Failed, Trouble::NotOurs,
        ])),
    ) {
        let mut sim = watched(Mode::Drain);
        for happens in &story {
            apply(&mut sim, happens);
        }
        sim.die_before = None;
        // Without slurmd a look starts no command.
        sim.slurm.here = true;
        sim.slurm.trouble = trouble.into_iter().flat_map(|t| vec![t; 10_000]).collect();
        let (acts, looks) = (sim.acts, sim.looks);
        sim.pass(3600);
        prop_assert!(sim.acts - acts < 120, "{} acts", sim.acts - acts);
        // Where a drain is required and cannot stand: every 2 s for 10 min, then every 10 s.
        prop_assert!(sim.looks - looks < 900, "{} looks", sim.looks - looks);
    }

    /// Whatever cannot be read, and for however long: without a fault there is no drain.
    #[test]
    fn nothing_unknown_drains(story in prop::collection::vec(happens(), 1..60)) {
        let mut sim = watched(Mode::Drain);
        let harmless = |h: &&Happens| {
            matches!(
                h,
                Happens::Pass(_) | Happens::Listing(_) | Happens::KernelLog(_) | Happens::Here(_)
                    | Happens::Readable(_) | Happens::Disk(_) | Happens::Restart | Happens::Reboot
                    | Happens::Wipe | Happens::Gpu(2 | 3) | Happens::History(_) | Happens::Xid(13 | 45 | 63 | 999)
                    | Happens::AdminDrains | Happens::AdminResumes
            )
        };
        for happens in story.iter().filter(harmless) {
            apply(&mut sim, happens);
        }
        prop_assert_eq!(sim.slurm.drains, 0);
    }

    /// Once a person has lifted the drain twice and we have seen it, only a fault drains again.
    #[test]
    fn a_lift_is_obeyed(story in prop::collection::vec(happens(), 1..40)) {
        let mut sim = watched(Mode::Drain);
        sim.xid(79);
        sim.pass(60);
        sim.admin_insists();
        prop_assert_eq!(sim.drain_state(), "overridden");
        let no_fault = |h: &&Happens| {
            matches!(
                h,
                Happens::Pass(_) | Happens::Listing(_) | Happens::KernelLog(_) | Happens::Here(_)
                    | Happens::Readable(_) | Happens::Restart | Happens::Trouble(_) | Happens::DieBefore(_)
                    | Happens::Mode(_) | Happens::Flag(..) | Happens::Xid(13 | 45 | 63 | 999)
            )
        };
        for happens in story.iter().filter(no_fault) {
            apply(&mut sim, happens);
        }
        prop_assert_eq!(sim.slurm.drains, 2);
    }

    /// The invariant: a drain that is required, not forbidden and not held back by an operator stands within 2 s while the
    /// controller answers, whatever happened before.
    #[test]
    fn a_required_drain_stands_within_2_s(story in prop::collection::vec(happens(), 1..40)) {
        let mut sim = watched(Mode::Drain);
        for happens in &story {
            apply(&mut sim, happens);
        }
        sim.die_before = None;
        sim.config.mode = Mode::Drain;
        sim.reload();
        sim.slurm.trouble.clear();
        sim.slurm.flags.clear();
        sim.slurm.base = Base::Idle;
        (sim.slurm.here, sim.slurm.readable, sim.slurm.proven) = (true, true, true);
        sim.host.kernel_log = true;
        sim.log_is_read();
        // A look that began before it was well again has ended.
        sim.pass(330);
        sim.xid(119);
        sim.pass(2);
        prop_assert!(sim.slurm.is_drained(), "{:?}", sim.engine.view().drain);
    }

    /// A reboot that repairs everything, on a node that may be drained: nothing drains for what was before it.
    #[test]
    fn what_a_reboot_repaired_drains_nothing(story in prop::collection::vec(happens(), 1..40)) {
        let mut sim = watched(Mode::Drain);
        // Whether these two are repaired, only the driver's library shows.
        for happens in story.iter().filter(|h| !matches!(h, Happens::Xid(48 | 74))) {
            apply(&mut sim, happens);
        }
        sim.die_before = None;
        sim.config.mode = Mode::Drain;
        sim.slurm.trouble.clear();
        sim.slurm.flags.clear();
        sim.slurm.base = Base::Idle;
        (sim.slurm.here, sim.slurm.readable, sim.slurm.proven) = (true, true, true);
        (sim.host.readable, sim.host.kernel_log, sim.host.edac) = (true, true, Some(0));
        sim.set_gpu(GPU, "nvidia", Some(true));
        let drains = sim.slurm.drains;
        sim.reboot();
        sim.pass(1200);
        prop_assert_eq!(sim.slurm.drains, drains, "{:?}", sim.engine.view().incidents);
    }

    /// When everything works again, a repaired node ends up undrained, and an open fault ends up drained.
    #[test]
    fn it_settles(story in prop::collection::vec(happens(), 1..40)) {
        let mut sim = watched(Mode::Drain);
        let trouble = |h: &&Happens| {
            !matches!(
                h,
                Happens::AdminDrains | Happens::AdminResumes | Happens::SlurmReplaces | Happens::Wipe
                    | Happens::Disk(_) | Happens::Mode(_) | Happens::Base(_) | Happens::Flag(Flag::Fail, _)
                    // It needs a person.
                    | Happens::Xid(48 | 74)
            )
        };
        for happens in story.iter().filter(trouble) {
            apply(&mut sim, happens);
        }
        sim.die_before = None;
        sim.slurm.trouble.clear();
        sim.slurm.flags.retain(|f| *f == Flag::Drain);
        (sim.slurm.here, sim.slurm.readable, sim.host.readable) = (true, true, true);
        sim.host.kernel_log = true;
        sim.xid(95);
        sim.pass(1000);
        prop_assert!(sim.slurm.is_drained());
        prop_assert_eq!(sim.drain_state(), "drained");
        sim.host.edac = Some(0);
        sim.set_gpu(GPU, "nvidia", Some(true));
        sim.reboot();
        sim.pass(1000);
        if sim.engine.view().drain.why.contains("an operator lifts") {
            let id = sim.engine.view().drain.incident;
            sim.try_order(OrderVerb::Clear, &id.unwrap_or_default());
            sim.pass(60);
        }
        prop_assert!(!sim.slurm.is_drained(), "{:?}", sim.engine.view().incidents);
    }
}

/// A few steps that no daemon should take.
#[test]
fn answers_that_nobody_waits_for_change_nothing() {
    use crate::Input;
    use model::scheduler::{ActionId, LookError, Outcome};
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(79);
    let node = super::slurm::Slurm::new().node();
    sim.input(Input::Scheduler(Ok(&node)));
    sim.input(Input::Scheduler(Err(&LookError::NotHere(String::new()))));
    sim.input(Input::Done(ActionId(u64::MAX), &Outcome::Done(node)));
    sim.input(Input::Stored(u64::MAX, false));
    sim.sleep_until(Duration::ZERO);
    sim.tick();
    assert_eq!(sim.drain_state(), "drained");
    assert_eq!(sim.slurm.drains, 1);
}
