use proptest::prelude::*;

use super::*;
use model::ownership::runs::{AllocatedGpu, Allocations};

const HOUR: u64 = 3600;

/// 31 is an application error, 79 a hardware error, 45 neither.
const fn class(code: u32) -> Option<bool> {
    match code {
        13 | 31 | 43 => Some(true),
        79 => Some(false),
        _ => None,
    }
}

/// Job, user, GPUs in use.
type Job<'a> = (&'a str, &'a str, &'a [&'a str]);

fn tenant((job, user, gpus): Job<'_>, start: i64) -> Allocation {
    let held = AllocatedGpu {
        instances: vec![String::new()],
        used: true,
    };
    Allocation {
        run: Run {
            job: job.to_owned(),
            start,
            cgroup: format!("{job}:{start}"),
        },
        user: user.to_owned(),
        submission: job.to_owned(),
        gpus: gpus.iter().map(|gpu| ((*gpu).to_owned(), held.clone())).collect(),
    }
}

fn hit(code: u32, second: u64) -> Hit {
    Hit {
        pci: PciAddress::default(),
        code,
        instance: None,
        from: Duration::from_secs(second),
        to: Duration::from_secs(second),
        count: 1,
    }
}

#[derive(Default)]
struct Node(Hits);

impl Node {
    fn hit(mut self, job: Job<'_>, start: i64, gpu: &str, code: u32, second: u64) -> Self {
        self.0.add(&tenant(job, start), gpu, &hit(code, second));
        self
    }

    /// The jobs that implicate the GPU.
    fn against(&self, gpu: &str) -> Vec<&str> {
        let suspicion = suspicion(self.0.runs(), gpu, class);
        let runs = suspicion.map(|s| s.runs).unwrap_or_default();
        runs.iter().map(|v| v.run.job.as_str()).collect()
    }
}

const NONE: [&str; 0] = [];

#[test]
fn jobs_of_two_users_speak_against_a_gpu_and_jobs_of_one_do_not() {
    let one = |node: Node| node.hit(("7", "ann", &["a", "b"]), 0, "a", 31, 10);
    assert_eq!(one(Node::default()).against("a"), NONE);
    let two = one(Node::default()).hit(("8", "bob", &["a"]), 500, "a", 13, 600);
    assert_eq!(two.against("a"), ["7", "8"]);
    let same = one(Node::default()).hit(("8", "ann", &["a"]), 500, "a", 13, 600);
    assert_eq!(same.against("a"), NONE);
    // The user of the second is unknown.
    let hidden = one(Node::default()).hit(("8", "", &["a"]), 500, "a", 13, 600);
    assert_eq!(hidden.against("a"), NONE);
}

/// Slurm allocates the first GPU first: all failures are on it.
#[test]
fn without_another_gpu_in_use_it_takes_three_users() {
    let alone = Node::default()
        .hit(("7", "ann", &["a"]), 0, "a", 31, 10)
        .hit(("8", "bob", &["a"]), 500, "a", 13, 600)
        .hit(("9", "bob", &["a"]), 700, "a", 13, 800);
    assert_eq!(alone.against("a"), NONE);
    let three = alone.hit(("10", "cid", &["a"]), 900, "a", 31, 1000);
    assert_eq!(three.against("a"), ["7", "8", "9", "10"]);
}

/// Tasks of an array are jobs to a prolog, and the process on the first GPU of each may be the one that fails.
#[test]
fn jobs_of_one_user_are_never_enough_whatever_else_they_used() {
    for gpus in [&["a"] as &[&str], &["a", "b"]] {
        let mut node = Node::default();
        for n in 0..20_u64 {
            let job = n.to_string();
            node = node.hit((&job, "ann", gpus), 1000 * n.cast_signed(), "a", 31, 1000 * n);
        }
        assert_eq!(node.against("a"), NONE, "{gpus:?}");
        let other = node.hit(("20", "bob", gpus), 20_000, "a", 31, 20_000);
        assert_eq!(other.against("a").len(), if gpus.len() > 1 { 21 } else { 0 });
    }
}

#[test]
fn parts_of_one_submission_have_one_author_where_users_are_hidden() {
    let add = |node: &mut Node, job: &str, gpu: &str, second: u64| {
        let mut part = tenant((job, "", &["a", "b"]), 0);
        part.submission = "5".to_owned();
        node.0.add(&part, gpu, &hit(31, second));
    };
    let mut node = Node::default();
    for second in [10, 600, 1200] {
        add(&mut node, "5", "a", second);
    }
    assert_eq!(node.against("a"), ["5"]);
    add(&mut node, "6", "b", 1300);
    assert_eq!(node.against("a"), NONE, "a program that fails on another GPU too");
}

#[test]
fn a_program_that_fails_on_other_gpus_too_says_nothing() {
    let everywhere = |gpus: &[&str]| {
        let node = Node::default().hit(("8", "bob", &["a", "b"]), 0, "a", 31, 10);
        gpus.iter().fold(node, |node, gpu| {
            node.hit(("7", "ann", &["a", "b"]), 0, gpu, 31, 20)
        })
    };
    assert_eq!(everywhere(&["a", "b"]).against("a"), NONE);
    assert_eq!(everywhere(&["a"]).against("a"), ["8", "7"]);
    // Another job of the same user, on another GPU.
    let elsewhere = everywhere(&["a"]).hit(("9", "ann", &["b"]), 900, "b", 13, 1000);
    assert_eq!(elsewhere.against("a"), NONE);
    assert_eq!(elsewhere.against("b"), NONE);
}

#[test]
fn what_follows_from_a_fault_of_the_hardware_is_not_counted() {
    let node = Node::default()
        .hit(("7", "ann", &["a", "b"]), 0, "a", 31, 10)
        .hit(("8", "bob", &["a", "b"]), 500, "a", 31, 600);
    assert_eq!(node.against("a"), ["7", "8"]);
    let fallen = node.hit(("8", "bob", &["a", "b"]), 500, "b", 79, 601);
    assert_eq!(fallen.against("a"), NONE);
    let no_class = Node::default()
        .hit(("7", "ann", &["a", "b"]), 0, "a", 45, 10)
        .hit(("8", "bob", &["a"]), 500, "a", 45, 600);
    assert_eq!(no_class.against("a"), NONE);
}

#[test]
fn a_job_that_was_requeued_and_hit_again_speaks_against_the_gpu_where_another_was_in_use() {
    let twice = |gpus: &[&str]| {
        Node::default()
            .hit(("7", "ann", gpus), 0, "a", 31, 10)
            .hit(("7", "ann", gpus), 500, "a", 31, 600)
    };
    assert_eq!(twice(&["a", "b"]).against("a"), ["7", "7"]);
    assert_eq!(twice(&["a"]).against("a"), NONE);
    let other = Node::default()
        .hit(("7", "ann", &["a", "b"]), 0, "a", 31, 10)
        .hit(("7", "ann", &["a", "b"]), 500, "b", 31, 600);
    assert_eq!((other.against("a"), other.against("b")), (vec![], vec![]));
    // The other was never in use.
    let mut idle = Node::default();
    for start in [0, 500] {
        let mut tenant = tenant(("7", "ann", &["a", "b"]), start);
        tenant.gpus.get_mut("b").unwrap().used = false;
        idle.0.add(&tenant, "a", &hit(31, u64::try_from(start).unwrap()));
    }
    assert_eq!(idle.against("a"), NONE);
}

#[test]
fn within_one_run_the_third_occasion_counts_and_a_burst_is_one() {
    let job: Job<'_> = ("7", "ann", &["a", "b"]);
    let at = |seconds: &[u64]| {
        let each = seconds.iter();
        each.fold(Node::default(), |node, second| node.hit(job, 0, "a", 31, *second))
    };
    assert_eq!(at(&[10, 11, 12, 40, 80, 120]).against("a"), NONE, "a burst");
    assert_eq!(at(&[10, 600]).against("a"), NONE);
    assert_eq!(at(&[10, 600, 1200]).against("a"), ["7"]);
    let mixed = at(&[10, 600]).hit(job, 0, "a", 13, 1200);
    assert_eq!(
        mixed.against("a"),
        NONE,
        "what follows from one crash has several codes"
    );
}

#[test]
fn it_ages_and_ends_with_a_reset_of_its_gpu_or_another_boot() {
    let two = || {
        Node::default()
            .hit(("7", "ann", &["a", "b"]), 0, "a", 31, HOUR)
            .hit(("8", "bob", &["a"]), 0, "a", 31, 10 * HOUR)
    };
    let mut node = two();
    node.0.age(25 * HOUR * 1000);
    assert_eq!(node.against("a"), ["7", "8"]);
    node.0.age(25 * HOUR * 1000 + 1);
    assert_eq!((node.against("a"), node.0.runs().len()), (vec![], 1));
    let mut node = two();
    assert!(!node.0.forget("b", u64::MAX) && node.0.forget("a", 5 * HOUR * 1000));
    assert_eq!(node.0.runs().len(), 1);
    node.0.rebooted();
    assert!(node.0.runs().is_empty());
}

#[test]
fn it_outlives_a_restart_and_what_a_later_release_adds_is_no_error() {
    let node = Node::default()
        .hit(("7", "ann", &["a", "b"]), 0, "a", 31, 10)
        .hit(("7", "ann", &["a", "b"]), 500, "a", 31, 600);
    let mut json = serde_json::to_value(&node.0).unwrap();
    json["later"] = true.into();
    json["runs"][0]["later"] = true.into();
    json["runs"][0]["gpus"]["a"]["codes"]["31"]["later"] = true.into();
    let hits: Hits = serde_json::from_value(json).unwrap();
    assert_eq!(hits.runs(), node.0.runs());
    assert!(serde_json::from_str::<Hits>("{}").unwrap().runs().is_empty());
}

#[test]
fn an_xid_waits_for_the_next_look_and_one_that_none_comes_for_is_dropped() {
    let (mut hits, mut runs, inventory) = (Hits::default(), Timeline::default(), Inventory::default());
    let look = |runs: &mut Timeline, second| {
        runs.allocated(Allocations {
            at: Duration::from_secs(second),
            all: vec![(Duration::ZERO, tenant(("7", "ann", &["pci:"]), 0))],
        });
    };
    look(&mut runs, 10);
    hits.came(hit(31, 15));
    assert!(!hits.looked(&runs, &inventory, Duration::from_secs(16)));
    look(&mut runs, 20);
    assert!(hits.looked(&runs, &inventory, Duration::from_secs(20)));
    assert_eq!((hits.runs().len(), hits.waiting.len()), (1, 0));
    hits.came(hit(31, 25));
    assert!(!hits.looked(&runs, &inventory, Duration::from_secs(25 + 601)));
    assert!(hits.waiting.is_empty());
}

proptest! {
    #[test]
    fn nothing_grows_without_bound_and_one_user_with_single_gpus_is_never_enough(
        hits in prop::collection::vec((0_u32..400, 0_u64..3, 0_u32..40, 0_u64..100_000), 0..400),
    ) {
        let mut node = Node::default();
        for (job, gpu, code, second) in hits {
            // Of one GPU each.
            let (job, gpu) = (format!("{job}{gpu}"), gpu.to_string());
            let gpus = [gpu.as_str()];
            let start = job.parse().unwrap();
            node = node.hit((&job, "ann", &gpus), start, &gpu, code, second);
            node.0.came(hit(code, second));
        }
        prop_assert!(node.0.runs().len() <= MAX_RUNS && node.0.waiting.len() <= MAX_WAITING);
        for part in node.0.runs().iter().flat_map(|v| v.gpus.values()) {
            prop_assert!(part.codes.len() <= MAX_CODES);
            prop_assert!(part.codes.values().all(|times| times.occasions.len() <= MAX_OCCASIONS));
        }
        for gpu in ["0", "1", "2"] {
            prop_assert_eq!(node.against(gpu), NONE);
        }
    }
}
