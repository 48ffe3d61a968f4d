//! Checks about jobs and their GPUs: when they fire, and what stays unknown.

use collectors::Metric;
use collectors::ethernet::metrics::LAG_MEMBER_UP;
use collectors::gpu::metrics as m;
use collectors::nvidia::metrics as n;
use collectors::rdma::metrics::{PORT_RCV_DATA, PORT_XMIT_DATA};

use super::host::{Driven, Job, Port};
use super::sim::*;
use crate::Mode;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const POD: &str = "pod1a2b3c4d-0000-4000-8000-00000000abcd";

/// Pid, cgroup (`?`: unknown), program (empty: unknown), memory.
pub(super) type Process = (&'static str, &'static str, &'static str, u64);

/// The readings of a GPU.
#[derive(Clone)]
pub(super) struct Card {
    minor: &'static str,
    processes: Vec<Process>,
    used: u64,
    busy: u64,
    pub(super) more: Vec<(&'static Metric, Vec<&'static str>, u64)>,
}

impl Card {
    pub(super) fn new(minor: &'static str) -> Self {
        Self {
            minor,
            processes: Vec::new(),
            used: 0,
            busy: 0,
            more: Vec::new(),
        }
    }

    /// A GPU with these processes.
    pub(super) fn with(minor: &'static str, processes: &[Process]) -> Self {
        Self {
            processes: processes.to_vec(),
            used: processes.iter().map(|p| p.3).sum(),
            ..Self::new(minor)
        }
    }

    fn shown(&self) -> Driven {
        let minor = self.minor;
        let pci = match minor {
            "0" => GPU,
            "1" => GPU2,
            _ => "",
        };
        let info = vec!["nvidia", "H100", pci, minor, minor, "", "", "", "580", "hopper"];
        let count = u64::try_from(self.processes.len()).unwrap();
        let mut series = vec![
            (&m::UP, vec![], 1),
            (&m::INFO, info, 1),
            (&m::UTILIZATION, vec![], self.busy),
            (&m::MEMORY_USED, vec![""], self.used),
            (&m::PROCESSES, vec![], count),
            (&m::PROCESSES_SEEN, vec![], 1),
            (&m::GRAPHICS_PROCESSES, vec![], 0),
        ];
        for (pid, folder, program, memory) in &self.processes {
            series.push((&m::PROCESS_OWNED, vec!["", pid], *memory));
            if *folder != "?" {
                series.push((&m::PROCESS_PLACE, vec!["", pid, folder], 1));
            }
            if !program.is_empty() {
                series.push((&m::PROCESS_PROGRAM, vec!["", pid, program], 1));
            }
        }
        series.retain(|(metric, ..)| self.more.iter().all(|(other, ..)| other != metric));
        series.extend(self.more.iter().cloned());
        Driven {
            label: format!("GPU-{minor}"),
            series,
            late: None,
            ..Driven::default()
        }
    }
}

pub(super) fn job(number: &'static str, devices: &[&'static str]) -> Job {
    Job {
        number,
        devices: devices.to_vec(),
        ..Job::default()
    }
}

/// A job with unreadable device rules.
fn unread(number: &'static str) -> Job {
    Job {
        reason: "denied",
        ..job(number, &[])
    }
}

pub(super) fn show(sim: &mut Sim, cards: &[Card], jobs: &[Job]) {
    sim.host.driven = cards.iter().map(Card::shown).collect();
    sim.host.jobs = jobs.to_vec();
}

/// Whether the evidence may be about others than the jobs.
fn has_others(sim: &Sim) -> bool {
    sim.engine.view().incidents[0].findings[0].others
}

/// A node long after boot, with these GPUs and jobs for this time.
fn node(cards: &[Card], jobs: &[Job], seconds: u64) -> Sim {
    let mut sim = Sim::new(Mode::Drain);
    show(&mut sim, cards, jobs);
    sim.pass(seconds);
    sim
}

pub(super) fn evidence(sim: &Sim) -> String {
    sim.engine.view().incidents[0].findings[0].evidence.join("; ")
}

pub(super) fn jobs_of(sim: &Sim) -> Vec<String> {
    sim.engine.view().incidents[0].findings[0].jobs.clone()
}

const OWN: Process = ("500", "job_7", "python3", GIB);
const FOREIGN: &str = "used by a process outside of its jobs";
const BOOKED: &str = "used by a pod besides its job";
const HELD: &str = "memory in use after its job";

#[test]
fn a_process_in_no_job_on_a_jobs_gpu_is_found_names_the_job_and_ends_with_it() {
    let outside = ("900", "", "train.sh", GIB);
    let jobs = [job("7", &["nvidia0"])];
    let mut sim = node(&[Card::with("0", &[OWN, outside])], &jobs, 60);
    assert_eq!(sim.incidents(), [format!("{FOREIGN} open")]);
    assert_eq!((jobs_of(&sim), has_others(&sim)), (vec!["7".to_owned()], true));
    let line = evidence(&sim);
    assert!(
        line.contains("\"train.sh\" (pid 900) in no job") && line.contains("job 7"),
        "{line}"
    );
    assert_eq!(
        (sim.slurm.drains, sim.slurm.comment.is_some()),
        (0, true),
        "a comment at most"
    );
    // An unreadable state ends no finding.
    show(&mut sim, &[Card::with("0", &[OWN, ("900", "?", "", GIB)])], &jobs);
    sim.pass(600);
    assert_eq!(sim.incidents(), [format!("{FOREIGN} open")]);
    show(&mut sim, &[Card::with("0", &[OWN])], &jobs);
    sim.pass(120);
    assert_eq!(sim.incidents(), [format!("{FOREIGN} cleared")]);
}

#[test]
fn a_process_of_another_job_is_foreign_where_its_rules_are_known() {
    let other = ("900", "job_8", "python3", GIB);
    let cards = [Card::with("0", &[OWN, other])];
    let known = node(&cards, &[job("7", &["nvidia0"]), job("8", &["nvidia1"])], 60);
    assert_eq!(known.incidents(), [format!("{FOREIGN} open")]);
    for others in [
        // Two shards of one GPU, a job with unknown rules, and one that is not listed yet.
        vec![job("7", &["nvidia0"]), job("8", &["nvidia0"])],
        vec![job("7", &["nvidia0"]), unread("8")],
        vec![job("7", &["nvidia0"])],
    ] {
        assert!(node(&cards, &others, 600).incidents().is_empty(), "{others:?}");
    }
}

#[test]
fn services_and_unknown_processes_are_not_foreign() {
    let jobs = [job("7", &["nvidia0"])];
    for process in [
        ("900", "", "nv-hostengine", GIB),
        ("900", "", "nvidia-cuda-mps", GIB),
        ("900", POD, "dcgm-exporter", GIB),
        // It has ended, or is in another PID namespace.
        ("900", "?", "", GIB),
        ("900", "", "", GIB),
    ] {
        let sim = node(&[Card::with("0", &[OWN, process])], &jobs, 600);
        assert!(sim.incidents().is_empty(), "{process:?} {:?}", sim.incidents());
    }
}

#[test]
fn the_name_of_a_service_hides_no_process_of_a_job_or_session() {
    let jobs = [job("7", &["nvidia0"]), job("8", &["nvidia1"])];
    for place in ["job_8", "user.slice"] {
        for name in ["nvidia-smi", "Xorg", "nvidia-cuda-mps"] {
            let sim = node(&[Card::with("0", &[OWN, ("900", place, name, GIB)])], &jobs, 60);
            assert_eq!(sim.incidents(), [format!("{FOREIGN} open")], "{place} {name}");
        }
    }
    let sim = left(("900", "user.slice", "nvidia-smi", GIB), 120);
    assert_eq!(sim.incidents(), [format!("{HELD} open")]);
}

#[test]
fn a_process_that_renames_itself_is_still_the_same() {
    let jobs = [job("7", &["nvidia0"])];
    let mut sim = node(&[Card::with("0", &[OWN])], &jobs, 60);
    for name in ["a", "b", "c", "d"] {
        show(
            &mut sim,
            &[Card::with("0", &[OWN, ("900", "", name, GIB)])],
            &jobs,
        );
        sim.pass(15);
    }
    assert_eq!(sim.incidents(), [format!("{FOREIGN} open")]);
    show(&mut sim, &[Card::with("0", &[("900", "", "e", GIB)])], &[]);
    sim.pass(120);
    assert!(
        sim.incidents().contains(&format!("{HELD} open")),
        "{:?}",
        sim.incidents()
    );
}

#[test]
fn without_device_rules_no_process_is_foreign() {
    let outside = ("900", "", "train.sh", GIB);
    let cards = [Card::with("0", &[OWN, outside])];
    for jobs in [vec![], vec![unread("7")], vec![job("7", &["nvidia1"])]] {
        assert!(node(&cards, &jobs, 600).incidents().is_empty(), "{jobs:?}");
    }
}

#[test]
fn processes_that_come_and_go_are_not_foreign() {
    let mut sim = node(&[Card::with("0", &[OWN])], &[job("7", &["nvidia0"])], 60);
    for pid in ["901", "902", "903", "904", "905", "906"] {
        let outside = (pid, "", "probe", MIB);
        show(
            &mut sim,
            &[Card::with("0", &[OWN, outside])],
            &[job("7", &["nvidia0"])],
        );
        sim.pass(15);
    }
    assert!(sim.incidents().is_empty(), "{:?}", sim.incidents());
}

#[test]
fn a_pod_on_a_jobs_gpu_is_double_booked_and_not_merely_foreign() {
    let in_pod = ("900", POD, "python3", GIB);
    let jobs = [job("7", &["nvidia0"])];
    let mut sim = node(&[Card::with("0", &[OWN, in_pod])], &jobs, 60);
    assert_eq!(sim.incidents(), [format!("{BOOKED} open")]);
    assert_eq!((jobs_of(&sim), has_others(&sim)), (vec!["7".to_owned()], true));
    assert!(evidence(&sim).contains("in pod 1a2b3c4d-0000-4000-8000-00000000abcd"));
    assert_eq!(sim.slurm.drains, 0);
    // The job ends, and only the pod uses the GPU.
    show(&mut sim, &[Card::with("0", &[in_pod])], &[]);
    sim.pass(300);
    assert_eq!(sim.incidents(), [format!("{BOOKED} cleared")]);
    // An unallocated GPU.
    let sim = node(&[Card::with("0", &[in_pod])], &[job("7", &["nvidia1"])], 300);
    assert!(sim.incidents().is_empty());
}

/// As with Soperator: Docker's containers of a job are in the pod of slurmd, not in the cgroup of the job.
#[test]
fn a_process_in_the_pod_of_the_jobs_slurmd_is_not_double_booked() {
    let cards = [Card::with("0", &[OWN, ("900", POD, "python3", GIB)])];
    let of = |pod| Job {
        pod,
        ..job("7", &["nvidia0"])
    };
    let own = node(&cards, &[of(&POD["pod".len()..])], 300);
    assert!(own.incidents().is_empty(), "{:?}", own.incidents());
    let other = node(&cards, &[of("ffffffff-0000-4000-8000-00000000abcd")], 60);
    assert_eq!(other.incidents(), [format!("{BOOKED} open")]);
}

#[test]
fn each_instance_is_judged_separately() {
    let part = |instance: &'static str, pid: &'static str, folder: &'static str| {
        [
            (&m::PROCESS_OWNED, vec![instance, pid], GIB),
            (&m::PROCESS_PLACE, vec![instance, pid, folder], 1),
            (&m::PROCESS_PROGRAM, vec![instance, pid, "python3"], 1),
        ]
    };
    let mut card = Card::new("0");
    card.more = vec![
        (&m::INSTANCE_INFO, vec!["1/0", "", ""], 1),
        (&m::INSTANCE_INFO, vec!["2/0", "", ""], 1),
        (&m::PROCESSES, vec![], 2),
        (&m::MEMORY_USED, vec!["1/0"], GIB),
        (&m::MEMORY_USED, vec!["2/0"], GIB),
    ];
    card.more.extend(part("1/0", "500", "job_7"));
    card.more.extend(part("2/0", "900", ""));
    let of_the_other = node(&[card.clone()], &[job("7", &["nvidia0/1/0"])], 300);
    assert!(
        of_the_other.incidents().is_empty(),
        "{:?}",
        of_the_other.incidents()
    );
    let mut sim = node(&[card.clone()], &[job("7", &["nvidia0/1/0", "nvidia0/2/0"])], 300);
    assert_eq!(sim.incidents(), [format!("{FOREIGN} on instance 2/0 open")]);
    // The instances changed: findings of a removed instance end.
    card.more.retain(|(_, labels, _)| labels.first() != Some(&"2/0"));
    card.more.retain(|(metric, ..)| *metric != &m::PROCESSES);
    card.more.push((&m::PROCESSES, vec![], 1));
    show(&mut sim, &[card], &[job("7", &["nvidia0/1/0"])]);
    sim.pass(300);
    assert_eq!(sim.incidents(), [format!("{FOREIGN} on instance 2/0 cleared")]);
}

/// A job on a GPU and another process, and then only the process.
fn left(process: Process, seconds: u64) -> Sim {
    let mut sim = node(&[Card::with("0", &[OWN, process])], &[job("7", &["nvidia0"])], 15);
    show(&mut sim, &[Card::with("0", &[process])], &[]);
    sim.pass(seconds);
    sim
}

#[test]
fn what_still_holds_memory_a_minute_after_its_job_is_found_and_ends_when_it_goes() {
    let outside = ("900", "", "train.sh", GIB);
    assert!(
        left(outside, 60).incidents().is_empty(),
        "an epilog may be at work"
    );
    let mut sim = left(outside, 120);
    assert_eq!(sim.incidents(), [format!("{HELD} open")]);
    assert_eq!((jobs_of(&sim), has_others(&sim)), (vec!["7".to_owned()], true));
    let line = evidence(&sim);
    assert!(
        line.contains("\"train.sh\" (pid 900)") && line.contains("expected less than"),
        "{line}"
    );
    assert_eq!(sim.slurm.drains, 0);
    show(&mut sim, &[Card::new("0")], &[]);
    sim.pass(120);
    assert_eq!(sim.incidents(), [format!("{HELD} cleared")]);
}

#[test]
fn memory_without_a_process_is_found_only_where_it_is_far_more_than_a_driver_takes() {
    for (used, coherent, found) in [
        (4 * GIB, false, true),
        (600 * MIB, false, false),
        (4 * GIB, true, false),
    ] {
        let mut card = Card::with("0", &[OWN]);
        if coherent {
            card.more.push((&n::C2C_LINKS, vec![], 1));
        }
        let mut sim = node(&[card.clone()], &[job("7", &["nvidia0"])], 60);
        (card.processes, card.used) = (vec![], used);
        show(&mut sim, &[card], &[]);
        sim.pass(600);
        assert_eq!(!sim.incidents().is_empty(), found, "{used} {coherent}");
    }
}

/// In a container the driver lists no process of the host. A display is not a leftover.
#[test]
fn that_no_process_is_listed_says_nothing_where_none_could_be() {
    let cases: [(&'static Metric, u64, bool); 4] = [
        (&m::PROCESSES_SEEN, 1, true),
        (&m::PROCESSES_SEEN, 0, false),
        (&m::GRAPHICS_PROCESSES, 0, true),
        (&m::GRAPHICS_PROCESSES, 2, false),
    ];
    for (metric, value, found) in cases {
        let mut card = Card::with("0", &[OWN]);
        card.more = vec![(metric, vec![], value)];
        let mut sim = node(&[card.clone()], &[job("7", &["nvidia0"])], 60);
        (card.processes, card.used) = (vec![], 4 * GIB);
        show(&mut sim, &[card], &[]);
        sim.pass(600);
        assert_eq!(!sim.incidents().is_empty(), found, "{} {value}", metric.name);
    }
}

#[test]
fn later_processes_services_and_unknown_ones_are_no_leftovers() {
    let mut sim = node(&[Card::with("0", &[OWN])], &[job("7", &["nvidia0"])], 60);
    // An operator tests the GPU, and a pod uses it.
    let new = [
        ("901", "", "dcgmproftester1", 4 * GIB),
        ("902", POD, "python3", 4 * GIB),
    ];
    show(&mut sim, &[Card::with("0", &new)], &[]);
    sim.pass(600);
    assert!(sim.incidents().is_empty(), "{:?}", sim.incidents());
    for process in [
        ("900", "", "nv-hostengine", GIB),
        ("900", "?", "", GIB),
        // Of a job that is not listed.
        ("900", "job_9", "python3", GIB),
    ] {
        let sim = left(process, 600);
        assert!(sim.incidents().is_empty(), "{process:?} {:?}", sim.incidents());
    }
}

#[test]
fn whether_a_gpu_is_free_is_known_only_where_every_job_is() {
    let mut sim = node(&[Card::with("0", &[OWN])], &[job("7", &["nvidia0"])], 60);
    let mut card = Card::new("0");
    card.used = 4 * GIB;
    let mut broken = job("8", &["nvidia1"]);
    broken.broken = true;
    for jobs in [vec![unread("8")], vec![broken], vec![job("8", &["nvidia0/1/0"])]] {
        show(&mut sim, &[card.clone()], &jobs);
        sim.pass(600);
        assert!(sim.incidents().is_empty(), "{jobs:?}");
    }
    // The driver reports one minor number for two GPUs: their device files are unknown.
    let mut twin = Card::new("1");
    twin.more.push((
        &m::INFO,
        vec!["nvidia", "H100", GPU2, "1", "0", "", "", "", "", ""],
        1,
    ));
    show(&mut sim, &[card.clone(), twin], &[]);
    sim.pass(600);
    assert!(sim.incidents().is_empty());
    show(&mut sim, &[card], &[job("8", &["nvidia1"])]);
    sim.pass(120);
    assert_eq!(sim.incidents(), [format!("{HELD} open")]);
    show(&mut sim, &[Card::with("0", &[OWN])], &[job("9", &["nvidia0"])]);
    sim.pass(15);
    sim.pass(120);
    assert!(sim.says(HELD, true), "another job has it: {:?}", sim.incidents());
}

const IDLE: &str = "has GPUs that it does not use";

#[test]
fn a_gpu_that_a_job_leaves_idle_for_half_an_hour_is_found_once_for_the_job() {
    let cards = [Card::with("0", &[OWN]), Card::new("1")];
    let jobs = [job("7", &["nvidia0", "nvidia1"])];
    let mut sim = node(&cards, &jobs, 1700);
    assert!(sim.incidents().is_empty());
    sim.pass(200);
    assert_eq!(sim.incidents(), [format!("{IDLE} open")]);
    let view = sim.engine.view();
    assert_eq!(view.incidents[0].subject, "job 7");
    assert_eq!((jobs_of(&sim), has_others(&sim)), (vec!["7".to_owned()], false));
    assert!(
        evidence(&sim).contains("2 of 2 GPUs of job 7: GPU-0, GPU-1"),
        "{}",
        evidence(&sim)
    );
    assert_eq!(
        (sim.slurm.drains, sim.slurm.comment.is_some()),
        (0, false),
        "it is observed only"
    );
    // One GPU is used again, the other stays idle.
    let busy = Card {
        busy: 1,
        ..cards[0].clone()
    };
    show(&mut sim, &[busy.clone(), cards[1].clone()], &jobs);
    sim.pass(300);
    assert_eq!(sim.incidents(), [format!("{IDLE} open")]);
    let other = Card {
        busy: 1,
        ..Card::new("1")
    };
    show(&mut sim, &[busy, other], &jobs);
    sim.pass(300);
    assert_eq!(sim.incidents(), [format!("{IDLE} cleared")]);
}

#[test]
fn the_finding_of_an_idle_job_ends_with_it() {
    let mut sim = node(&[Card::new("0")], &[job("7", &["nvidia0"])], 2000);
    assert_eq!(sim.incidents(), [format!("{IDLE} open")]);
    // While jobs cannot be listed, its end is unknown.
    let mut broken = job("8", &[]);
    broken.broken = true;
    show(&mut sim, &[Card::new("0")], &[broken]);
    sim.pass(600);
    assert_eq!(sim.incidents(), [format!("{IDLE} open")]);
    show(&mut sim, &[Card::new("0")], &[job("8", &["nvidia0"])]);
    sim.pass(300);
    assert_eq!(sim.incidents(), [format!("{IDLE} cleared")]);
}

#[test]
fn a_gpu_with_any_life_in_it_or_that_cannot_be_read_is_not_idle() {
    let jobs = [job("7", &["nvidia0"])];
    // Every 10 min: more memory, another process, or some work.
    let changes: [fn(&mut Card); 3] = [
        |card| card.used += 16 * MIB,
        |card| {
            card.processes[0].0 = if card.processes[0].0 == "500" {
                "501"
            } else {
                "500"
            }
        },
        |card| card.busy = 1 - card.busy,
    ];
    for change in changes {
        let mut card = Card::with("0", &[OWN]);
        let mut sim = node(&[card.clone()], &jobs, 60);
        for _ in 0..10 {
            change(&mut card);
            show(&mut sim, &[card.clone()], &jobs);
            sim.pass(600);
        }
        assert!(sim.incidents().is_empty(), "{:?}", sim.incidents());
    }
    let mut transcodes = Card::with("0", &[OWN]);
    transcodes.more = vec![(&m::DECODER_UTILIZATION, vec![], 1)];
    assert!(
        node(&[transcodes], &jobs, 4000).incidents().is_empty(),
        "work without a kernel"
    );
    let mut without = Card::new("0");
    without.more = vec![(&m::PROCESSES, vec![], 1)];
    assert!(
        node(&[without], &jobs, 4000).incidents().is_empty(),
        "an unlisted process"
    );
    assert!(
        node(&[Card::new("0")], &[unread("7")], 4000)
            .incidents()
            .is_empty()
    );
}

const STALLED: &str = "GPUs busy without work";

/// A spinning GPU: fully utilized, at 1/4 of its power, without traffic.
fn turning(minor: &'static str, pid: &'static str) -> Card {
    let mut card = Card::with(minor, &[(pid, "job_7", "python3", GIB)]);
    card.busy = 1;
    card.more = vec![
        (&m::MEMORY_UTILIZATION, vec![], 0),
        (&m::POWER, vec![], 120),
        (&m::POWER_LIMIT, vec![], 700),
        (&n::NVLINK_TRANSMITTED, vec![], 5000),
        (&n::NVLINK_RECEIVED, vec![], 5000),
    ];
    card
}

fn set(card: &mut Card, metric: &'static Metric, value: u64) {
    for (of, _, now) in &mut card.more {
        if *of == metric {
            *now = value;
        }
    }
}

/// Two spinning GPUs, and a port without traffic.
fn stalled() -> (Sim, Vec<Card>, Vec<Job>) {
    let mut sim = Sim::new(Mode::Drain);
    let mut port = Port::new(0);
    port.set(&PORT_XMIT_DATA, &[], 1000.0);
    port.set(&PORT_RCV_DATA, &[], 1000.0);
    sim.host.ports = vec![port];
    let cards = vec![turning("0", "500"), turning("1", "501")];
    let jobs = vec![job("7", &["nvidia0", "nvidia1"])];
    show(&mut sim, &cards, &jobs);
    (sim, cards, jobs)
}

#[test]
fn gpus_that_turn_for_ten_minutes_with_nothing_moving_are_stalled() {
    let (mut sim, mut cards, jobs) = stalled();
    sim.pass(580);
    assert!(sim.incidents().is_empty(), "{:?}", sim.incidents());
    sim.pass(120);
    assert_eq!(sim.incidents(), [format!("{STALLED} open")]);
    assert_eq!(sim.engine.view().incidents[0].subject, "job 7");
    assert_eq!(jobs_of(&sim), ["7"]);
    let line = evidence(&sim);
    assert!(
        line.contains("gpu_power_watts 120 to 120") && line.contains("job 7: GPU-0, GPU-1"),
        "{line}"
    );
    assert_eq!(
        (sim.slurm.drains, sim.slurm.comment.is_some()),
        (0, false),
        "it is observed only"
    );
    set(&mut cards[1], &m::POWER, 600);
    show(&mut sim, &cards, &jobs);
    sim.pass(120);
    assert_eq!(sim.incidents(), [format!("{STALLED} cleared")]);
}

/// Its other link carries what the job sends.
#[test]
fn a_bond_that_lost_a_member_may_move_data() {
    let (mut sim, ..) = stalled();
    for _ in 0..60 {
        let port = &mut sim.host.ports[0];
        port.layer = "Ethernet";
        port.set(&LAG_MEMBER_UP, &["eth0"], 0.0);
        port.add(&PORT_RCV_DATA, &[], 1e9);
        sim.pass(30);
    }
    assert!(!sim.says(STALLED, false), "{:?}", sim.incidents());
}

#[test]
fn the_one_that_rests_is_named_and_a_single_gpu_is_not_judged() {
    let (mut sim, cards, _) = stalled();
    let mut rests = Card::with("2", &[("502", "job_7", "python3", GIB)]);
    rests.more = vec![(&m::POWER, vec![], 70)];
    show(
        &mut sim,
        &[cards[0].clone(), cards[1].clone(), rests.clone()],
        &[job("7", &["nvidia0", "nvidia1", "nvidia2"])],
    );
    sim.pass(700);
    assert_eq!(sim.incidents(), [format!("{STALLED} open")]);
    assert!(evidence(&sim).ends_with("idle: GPU-2"), "{}", evidence(&sim));

    let (mut sim, cards, _) = stalled();
    show(
        &mut sim,
        &[cards[0].clone(), rests],
        &[job("7", &["nvidia0", "nvidia2"])],
    );
    sim.pass(1500);
    assert!(sim.incidents().is_empty(), "{:?}", sim.incidents());
}

#[test]
fn whatever_moves_or_is_not_known_is_no_stall() {
    type Change = fn(&mut Sim, &mut [Card], u64);
    let changes: [(&str, Change); 9] = [
        ("power", |_, cards, _| set(&mut cards[0], &m::POWER, 300)),
        ("power that changes", |_, cards, turn| {
            set(&mut cards[0], &m::POWER, 120 + 50 * (turn % 2));
        }),
        ("memory", |_, cards, _| {
            set(&mut cards[0], &m::MEMORY_UTILIZATION, 1)
        }),
        ("NVLink", |_, cards, turn| {
            set(&mut cards[0], &n::NVLINK_TRANSMITTED, turn * 1_000_000_000);
        }),
        ("RDMA", |sim, _, _| {
            sim.host.ports[0].add(&PORT_RCV_DATA, &[], 1e9)
        }),
        ("a pause", |_, cards, turn| {
            cards[0].busy = u64::from(turn % 8 != 0)
        }),
        ("no power limit", |_, cards, _| {
            cards[0].more.retain(|(metric, ..)| *metric != &m::POWER_LIMIT);
        }),
        ("no NVLink counters", |_, cards, _| {
            cards[0]
                .more
                .retain(|(metric, ..)| *metric != &n::NVLINK_RECEIVED);
        }),
        ("no RDMA counters", |sim, _, _| sim.host.ports[0].series.clear()),
    ];
    for (what, change) in changes {
        let (mut sim, mut cards, jobs) = stalled();
        for turn in 0..60 {
            change(&mut sim, &mut cards, turn);
            show(&mut sim, &cards, &jobs);
            sim.pass(30);
        }
        let stalls = |line: &String| line.starts_with(STALLED);
        assert!(
            !sim.incidents().iter().any(stalls),
            "{what}: {:?}",
            sim.incidents()
        );
    }
}

#[test]
fn gpus_that_are_not_one_jobs_alone_are_not_called_stalled() {
    for jobs in [
        vec![job("7", &["nvidia0", "nvidia1"]), job("8", &["nvidia0"])],
        vec![unread("7")],
        vec![job("7", &["nvidia0"]), job("8", &["nvidia1"])],
    ] {
        let (mut sim, cards, _) = stalled();
        show(&mut sim, &cards, &jobs);
        sim.pass(1200);
        let stalls = |line: &String| line.starts_with(STALLED);
        assert!(
            !sim.incidents().iter().any(stalls),
            "{jobs:?} {:?}",
            sim.incidents()
        );
    }
}
