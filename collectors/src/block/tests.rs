use super::*;
use crate::metric::{Buckets, Tier, Unit};

const fn metric(name: &'static str, kind: Kind) -> Metric {
    Metric {
        name,
        kind,
        unit: Unit::None,
        labels: &["l"],
        help: "M.",
        tier: Tier::Core,
        source: "test",
        aliases: &[],
    }
}

static M: Metric = metric("m", Kind::Gauge);
static H: Metric = metric("h", Kind::Histogram(Buckets::new(&[0.5, 1.0])));

fn histogram(count: u64) -> Option<Histogram<'static>> {
    Some(Histogram {
        buckets: &[1, 3],
        sum: 9.5,
        count,
    })
}

#[test]
fn an_unchanged_reading_keeps_the_layout_object() {
    let mut block = Block::default();
    block.u64(&M, &["a"], 1);
    block.u64(&M, &["b"], 2);
    block.finish();
    let first = Arc::clone(block.layout());
    block.clear();
    block.u64(&M, &["a"], 3);
    block.push(&M, &["b"], Value::Absent);
    block.finish();
    assert!(Arc::ptr_eq(&first, block.layout()));
    assert_eq!(block.values(), [Value::U64(3), Value::Absent]);
}

#[test]
fn neighbours_with_equal_labels_share_them() {
    let mut block = Block::default();
    block.u64(&M, &["a"], 1);
    block.histogram(&H, &["a"], histogram(3));
    block.u64(&M, &["b"], 2);
    block.finish();
    let [first, parts @ .., last] = block.layout().as_slice() else {
        panic!("{:?}", block.layout());
    };
    assert_eq!(parts.len(), H.slots());
    assert!(parts.iter().all(|s| Arc::ptr_eq(&s.labels, &first.labels)));
    assert_eq!(*first.labels, ["a"]);
    assert_eq!(*last.labels, ["b"]);
}

#[test]
fn a_kept_mark_is_that_of_its_labels() {
    let mut block = Block::default();
    block.u64(&M, &["a"], 1);
    block.finish();
    let first = Arc::clone(block.layout());
    block.clear();
    block.push_marked(Mark::of(&M, &["a"]), &M, &["a"], Value::U64(2));
    block.finish();
    assert!(Arc::ptr_eq(&first, block.layout()));
    assert_ne!(Mark::of(&M, &["a"]), Mark::of(&M, &["b"]));
    assert_ne!(Mark::of(&M, &["a"]), Mark::of(&H, &["a"]));
}

#[test]
fn a_value_is_added_again_only_to_the_next_series_of_the_layout() {
    let [a, b] = ["a", "b"].map(|label| Mark::of(&M, &[label]));
    let mut block = Block::default();
    assert!(!block.again(a, Value::U64(1)), "no layout");
    block.u64(&M, &["a"], 1);
    block.u64(&M, &["b"], 1);
    block.finish();
    block.clear();
    assert!(!block.again(b, Value::U64(2)), "a comes first");
    assert!(block.again(a, Value::U64(2)) && block.again(b, Value::Absent));
    assert!(!block.again(a, Value::U64(3)), "past the last one");
    block.finish();
    assert_eq!(block.values(), [Value::U64(2), Value::Absent]);
}

static TWO: Metric = Metric {
    labels: &["l", "k"],
    ..metric("two", Kind::Gauge)
};

#[test]
fn marks_depend_on_every_label_whatever_came_before() {
    let mut block = Block::default();
    for labels in [
        ["a", "b"],
        ["a", "c"],
        ["", "ab"],
        ["ab", ""],
        ["b", "a"],
        ["a", "b"],
    ] {
        assert_eq!(block.mark(&TWO, &labels), Mark::of(&TWO, &labels), "{labels:?}");
        assert_eq!(block.mark(&M, &labels[..1]), Mark::of(&M, &labels[..1]));
    }
    let all = [["a", "b"], ["a", "c"], ["", "ab"], ["ab", ""], ["b", "a"]];
    for (at, one) in all.iter().enumerate() {
        for other in &all[at + 1..] {
            assert_ne!(Mark::of(&TWO, one), Mark::of(&TWO, other));
        }
    }
}

#[test]
fn a_series_that_is_not_named_again_leaves_the_layout() {
    let mut block = Block::default();
    block.u64(&M, &["a"], 1);
    block.u64(&M, &["b"], 2);
    block.finish();
    block.clear();
    block.u64(&M, &["b"], 2);
    block.finish();
    assert_eq!(block.layout().len(), 1);
    assert_eq!(*block.layout()[0].labels, ["b"]);
    assert_eq!(block.layout().capacity(), 1);
}

#[test]
fn a_histogram_is_one_value_for_each_part_and_keeps_its_place() {
    let mut block = Block::default();
    block.histogram(&H, &["a"], histogram(4));
    block.u64(&M, &["a"], 1);
    block.finish();
    let parts: Vec<Part> = block.layout().iter().map(|s| s.part).collect();
    let bucket = Part::Bucket;
    assert_eq!(
        parts,
        [
            bucket(0),
            bucket(1),
            bucket(2),
            Part::Sum,
            Part::Count,
            Part::Whole
        ]
    );
    let whole = Value::U64;
    assert_eq!(
        block.values(),
        [whole(1), whole(3), whole(4), Value::F64(9.5), whole(4), whole(1)]
    );
    let first = Arc::clone(block.layout());
    block.clear();
    block.histogram(&H, &["a"], None);
    block.u64(&M, &["a"], 2);
    block.finish();
    assert!(Arc::ptr_eq(&first, block.layout()));
    assert_eq!(block.values()[..5], [Value::Absent; 5]);
}

#[test]
fn another_thing_in_a_histograms_place_makes_a_new_layout() {
    let mut block = Block::default();
    block.histogram(&H, &["a"], histogram(4));
    block.clear();
    block.u64(&M, &["a"], 1);
    block.histogram(&H, &["b"], histogram(5));
    block.finish();
    assert_eq!((block.layout().len(), block.values().len()), (6, 6));
}

#[test]
fn of_a_million_series_the_limit_is_kept_and_the_rest_counted_at_every_reading() {
    let names: Vec<String> = (0..1_000_000).map(|n| n.to_string()).collect();
    let mut block = Block::default();
    let mut layout = None;
    for _ in 0..2 {
        block.clear();
        for name in &names {
            block.u64(&M, &[name], 1);
        }
        block.finish();
        assert_eq!(block.values().len(), MAX_SERIES);
        assert_eq!(block.refused(), 1_000_000 - MAX_SERIES as u64);
        let before = layout.replace(Arc::clone(block.layout()));
        assert!(before.is_none_or(|b| Arc::ptr_eq(&b, block.layout())));
    }
}

#[test]
fn devices_of_one_collector_share_the_limit_and_give_it_back() {
    let budget = Arc::default();
    let names: Vec<String> = (0..MAX_SERIES).map(|n| n.to_string()).collect();
    let fill = |block: &mut Block, n: usize| {
        block.clear();
        names.iter().take(n).for_each(|name| block.u64(&M, &[name], 1));
        block.finish();
        (block.layout().len(), block.refused())
    };
    let (mut a, mut b) = (Block::within(&budget), Block::within(&budget));
    assert_eq!(fill(&mut a, MAX_SERIES - 3), (MAX_SERIES - 3, 0));
    assert_eq!(fill(&mut b, 5), (3, 2));
    // A histogram is shown whole or not at all.
    b.clear();
    b.u64(&M, &["x"], 1);
    b.histogram(&H, &["a"], histogram(4));
    b.finish();
    assert_eq!((b.layout().len(), b.refused()), (1, 5));
    assert_eq!(fill(&mut a, 1), (1, 0));
    assert_eq!(fill(&mut b, 5), (5, 0));
    drop(b);
    assert_eq!(fill(&mut a, MAX_SERIES), (MAX_SERIES, 0));
}

#[test]
fn long_labels_are_limited_too() {
    let long = "x".repeat(MAX_LABEL_BYTES / 4);
    let mut block = Block::default();
    for n in 0..10 {
        block.u64(&M, &[&format!("{n}{long}")], 1);
    }
    block.finish();
    assert_eq!((block.layout().len(), block.refused()), (3, 7));
}
