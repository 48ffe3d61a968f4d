//! The slots of a partition: names, counts, and the property that no interleaving lets more nodes go on than it may.

use proptest::prelude::*;

use super::*;

const LIMITS: Limits = Limits {
    drains: 4,
    per_code: 3,
    device: 16,
    standing: 5,
    standing_device: 20,
};

fn slot(name: &str) -> Reservation {
    Reservation {
        name: name.to_owned(),
        start: 0,
        end: 600,
        features: "n0 4/5%/3/5%/600s".to_owned(),
    }
}

fn slots(names: &[&str]) -> Vec<Reservation> {
    names.iter().map(|name| slot(name)).collect()
}

fn free(pool: &Pool, taken: &[&str]) -> Vec<String> {
    let place = Place {
        partition: "GPU_A",
        pool,
        limits: LIMITS,
    };
    place.free(&slots(taken))
}

#[test]
fn a_cause_has_as_many_names_as_it_may_drain_nodes() {
    let pool = Pool::Code("xid.79".to_owned());
    let all = ["1", "2", "3"].map(|n| format!("nodewarden--gpu-a--xid-79--{n}"));
    assert_eq!(free(&pool, &[]), all);
    assert_eq!(
        free(&pool, &["nodewarden--gpu-a--xid-79--2"]),
        [all[0].clone(), all[2].clone()]
    );
    assert_eq!(
        free(&pool, &["nodewarden--other--xid-79--2", "nodewarden-pause"]),
        all,
        "another partition"
    );
}

#[test]
fn the_partition_s_limit_counts_all_causes_but_neither_devices_nor_maintenance() {
    let pool = Pool::Code("xid.79".to_owned());
    let others = [
        "nodewarden--gpu-a--xid-48--1",
        "nodewarden--gpu-a--xid-48--2",
        "nodewarden--gpu-a--gpu-ecc-uncorrected--1",
        "nodewarden--gpu-a--device--1",
        "nodewarden--gpu-a--maint--1",
    ];
    assert_eq!(free(&pool, &others).len(), 3);
    let mut full = others.to_vec();
    full.push("nodewarden--gpu-a--xid-63--1");
    assert_eq!(free(&pool, &full), [""; 0]);
    assert_eq!(free(&Pool::Device, &full).len(), 15);
    assert_eq!(free(&Pool::Maintenance, &full).len(), 3);
}

#[test]
fn partitions_whose_names_begin_alike_do_not_count_for_each_other() {
    let (one, pool) = ("gpu", Pool::Code("xid.79".to_owned()));
    let place = Place {
        partition: one,
        pool: &pool,
        limits: LIMITS,
    };
    assert_eq!(
        place.count(&slots(&[
            "nodewarden--gpu-xid--xid-79--1",
            "nodewarden--gpu--xid-79--1"
        ])),
        1
    );
}

#[test]
fn any_name_of_a_partition_or_check_gives_a_name_that_slurm_takes() {
    for (text, expected) in [
        ("GPU_A", "gpu-a"),
        ("a--b", "a-b"),
        ("-x-", "x"),
        ("", "none"),
        ("***", "none"),
        ("xid.79", "xid-79"),
    ] {
        assert_eq!(part(text), expected);
    }
    assert_eq!(part(&"x".repeat(500)).len(), MOST);
}

#[test]
fn the_cause_is_the_check_or_the_xid() {
    assert_eq!(
        code("nodewarden:xid gpu GPU-xid7-1 xid79 act=reboot id=abcdefg2"),
        "xid79"
    );
    assert_eq!(code("nodewarden:xid node"), "xid");
    assert_eq!(code("nodewarden:gpu-missing gpu pci:0 xid79"), "gpu-missing");
    assert_eq!(code("nodewarden:gpu-missing"), "gpu-missing");
}

#[test]
fn a_slot_names_its_holder_and_the_settings() {
    let mut taken = slots(&["nodewarden--a--b--1"]);
    taken[0].features = features("gpu-a01.r2", "10/5%/3/5%/600s");
    assert_eq!(holder(&taken[0]), "gpu-a01.r2");
    assert!(!differs(&taken, "10/5%/3/5%/600s"));
    assert!(differs(&taken, "20/5%/3/5%/600s"));
    taken[0].name = "nodewarden-pause".to_owned();
    assert!(!differs(&taken, "20/5%/3/5%/600s"), "the text of a pause is free");
}

/// One node: it reads the names, takes one, reads again, and writes if it does not count too many.
#[derive(Clone, Debug)]
struct Agent {
    pool: Pool,
    name: Option<String>,
    step: u8,
    wrote: bool,
}

/// A step of one node against the controller, which is a map from names to holders.
fn step(agent: &mut Agent, held: &mut Vec<Reservation>, pick: usize) {
    let pool = agent.pool.clone();
    let place = Place {
        partition: "a",
        pool: &pool,
        limits: LIMITS,
    };
    match agent.step {
        0 => {
            let names = place.free(held);
            agent.name = names.get(pick % names.len().max(1)).cloned();
            agent.step = u8::from(agent.name.is_some());
        }
        1 => {
            let name = agent.name.clone().unwrap();
            if held.iter().any(|slot| slot.name == name) {
                agent.step = 0;
            } else {
                held.push(slot(&name));
                agent.step = 2;
            }
        }
        2 if place.is_over(held, 0) => {
            held.retain(|slot| Some(&slot.name) != agent.name.as_ref());
            agent.step = 0;
        }
        2 => agent.step = 3,
        3 => {
            agent.wrote = true;
            agent.step = 4;
        }
        _ => {}
    }
}

proptest! {
    #[test]
    fn in_no_order_of_steps_more_nodes_drain_than_there_are_slots(
        causes in proptest::collection::vec(0_u8..5, 1..30),
        order in proptest::collection::vec((0_usize..30, 0_usize..8), 0..600),
    ) {
        let mut held = Vec::new();
        let of = |cause: u8| if cause == 4 { Pool::Device } else { Pool::Code(format!("xid.{cause}")) };
        let mut agents: Vec<Agent> = causes
            .iter()
            .map(|cause| Agent { pool: of(*cause), name: None, step: 0, wrote: false })
            .collect();
        for (who, pick) in order {
            let len = agents.len();
            step(&mut agents[who % len], &mut held, pick);
        }
        let wrote = |pool: &dyn Fn(&Pool) -> bool| agents.iter().filter(|a| a.wrote && pool(&a.pool)).count() as u64;
        prop_assert!(wrote(&|pool| matches!(pool, Pool::Code(_))) <= LIMITS.drains);
        prop_assert!(wrote(&|pool| *pool == Pool::Device) <= LIMITS.device);
        for cause in 0..4 {
            let own = Pool::Code(format!("xid.{cause}"));
            prop_assert!(wrote(&|pool| *pool == own) <= LIMITS.per_code);
        }
    }

    #[test]
    fn fewer_faults_than_slots_all_drain(
        causes in proptest::collection::vec(0_u8..4, 1..=4),
        order in proptest::collection::vec((0_usize..4, 0_usize..8), 0..40),
    ) {
        // At most three of one cause: the limit of a partition is four.
        prop_assume!((0..4).all(|cause| causes.iter().filter(|c| **c == cause).count() <= 3));
        let mut held = Vec::new();
        let mut agents: Vec<Agent> = causes
            .iter()
            .map(|cause| Agent { pool: Pool::Code(format!("xid.{cause}")), name: None, step: 0, wrote: false })
            .collect();
        for (who, pick) in order {
            let len = agents.len();
            step(&mut agents[who % len], &mut held, pick);
        }
        for _ in 0..20 {
            for (n, agent) in agents.iter_mut().enumerate() {
                step(agent, &mut held, n);
            }
        }
        prop_assert!(agents.iter().all(|agent| agent.wrote));
    }
}
