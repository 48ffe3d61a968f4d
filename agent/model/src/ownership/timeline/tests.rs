use super::*;
use crate::ownership::Evidence;

const NOW: i64 = 1_795_227_100;

fn owners(all: &[(&str, &str)]) -> impl Iterator<Item = Owner> {
    let owner = |(gpu, job): &(&str, &str)| Owner {
        gpu: (*gpu).to_owned(),
        gpu_instance: String::new(),
        job: (*job).to_owned(),
        evidence: Evidence::DeviceProgram,
        parts: None,
        share: 1.0,
    };
    all.iter().map(owner)
}

fn on(timeline: &Timeline, gpu: &str, when: When) -> Vec<String> {
    timeline.on(&Subject::gpu(gpu), when)
}

#[test]
fn what_happens_now_is_of_whoever_is_there() {
    let mut timeline = Timeline::default();
    timeline.see(owners(&[("0", "7"), ("1", "8")]), Duration::ZERO, NOW);
    assert_eq!(on(&timeline, "0", When::At(NOW)), ["7"]);
    assert_eq!(on(&timeline, "2", When::At(NOW)), [""; 0]);
    // The next owner is unknown until the next look.
    timeline.left("7", Duration::ZERO);
    assert_eq!(on(&timeline, "0", When::At(NOW)), [""; 0]);
    assert_eq!(on(&timeline, "1", When::At(NOW)), ["8"]);
    timeline.see(owners(&[("0", "9"), ("1", "8")]), Duration::ZERO, NOW);
    assert_eq!(on(&timeline, "0", When::At(NOW)), ["9"]);
}

#[test]
fn what_is_read_late_is_of_nobody_who_came_after_it() {
    let mut timeline = Timeline::default();
    timeline.see(owners(&[("0", "7"), ("1", "8")]), Duration::ZERO, NOW - 60);
    timeline.see(owners(&[("0", "9"), ("1", "8")]), Duration::ZERO, NOW - 10);
    timeline.see(owners(&[("0", "9"), ("1", "8")]), Duration::ZERO, NOW);
    assert_eq!(on(&timeline, "0", When::At(NOW - 30)), [""; 0]);
    assert_eq!(on(&timeline, "1", When::At(NOW - 30)), ["8"]);
    assert_eq!(on(&timeline, "0", When::At(NOW - 10)), ["9"]);
}

#[test]
fn what_happened_since_the_last_tick_is_of_whoever_was_there_all_the_time() {
    let mut timeline = Timeline::default();
    timeline.see(owners(&[("0", "7"), ("1", "8")]), Duration::ZERO, NOW);
    assert_eq!(
        on(&timeline, "0", When::SinceTick),
        ["7"],
        "the first look is all there is"
    );
    timeline.ticked();
    timeline.see(owners(&[("1", "8")]), Duration::ZERO, NOW);
    timeline.see(owners(&[("0", "9"), ("1", "8")]), Duration::ZERO, NOW);
    assert_eq!(
        on(&timeline, "0", When::SinceTick),
        [""; 0],
        "it may have been 7 or 9"
    );
    assert_eq!(on(&timeline, "1", When::SinceTick), ["8"]);
    timeline.ticked();
    timeline.see(owners(&[("0", "9"), ("1", "8")]), Duration::ZERO, NOW);
    assert_eq!(on(&timeline, "0", When::SinceTick), ["9"]);
}

#[test]
fn what_happened_long_ago_is_nobodys() {
    let mut timeline = Timeline::default();
    timeline.see(owners(&[("0", "7")]), Duration::ZERO, NOW);
    assert_eq!(on(&timeline, "0", When::Long), [""; 0]);
}
