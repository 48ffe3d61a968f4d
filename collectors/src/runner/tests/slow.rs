//! Devices whose readings exceed their slice and return.

use super::*;

/// A runner whose device 0 exceeded its slice once and has returned, with the sender that ends its next readings.
fn after_a_slow_reading(spec: &'static Spec, others: usize) -> (Sender<()>, Runner) {
    let (end, blocks) = gate();
    let quick = (0..others).map(|_| Behaviour::Answers);
    let mut runner = runner(spec, std::iter::once(blocks).chain(quick).collect());
    until("device 0 is late", || {
        read(&mut runner);
        busy(&runner).contains(&"0".to_owned())
    });
    end.send(()).unwrap();
    until("it has returned", || busy(&runner).is_empty());
    runner.take_late(|_, _| {});
    (end, runner)
}

/// Ends the batch as a supervisor does that never gives a call up. Returns the devices that were read.
fn read_without_a_check(runner: &mut Runner) -> Vec<String> {
    let mut got = Vec::new();
    assert!(runner.begin());
    until("the batch is over", || {
        let running = runner.drain(&mut Readings(|r: Reading<'_>, _: &Block| {
            got.push(r.subject.name.clone())
        }));
        !running
    });
    runner.drain(&mut Readings(|r: Reading<'_>, _: &Block| {
        got.push(r.subject.name.clone())
    }));
    got
}

#[test]
fn no_batch_waits_for_a_device_that_was_slow_before() {
    let (end, mut runner) = after_a_slow_reading(&HASTY, 2);
    for _ in 0..3 {
        let got = read_without_a_check(&mut runner);
        assert!(!got.contains(&"0".to_owned()), "{got:?}");
        assert_eq!(busy(&runner), ["0"], "its reading is under way, and reported");
        until("it is slow again", || {
            runner
                .busy()
                .all(|b| b.tid > 0 && b.since.elapsed() > HASTY.slice)
        });
        end.send(()).unwrap();
        until("it has returned", || busy(&runner).is_empty());
        let mut late = Vec::new();
        runner.take_late(|r, b| late.push((r.subject.name.clone(), b.values().len())));
        assert!(late.contains(&("0".to_owned(), 1)), "{late:?}");
    }
}

#[test]
fn a_node_whose_only_device_is_slow_is_read() {
    let (end, mut runner) = after_a_slow_reading(&HASTY, 0);
    assert_eq!(read_without_a_check(&mut runner), [""; 0]);
    end.send(()).unwrap();
    until("it has returned", || busy(&runner).is_empty());
    let mut late = Vec::new();
    runner.take_late(|r, _| late.push(r.subject.name.clone()));
    assert_eq!(late, ["0"]);
}

#[test]
fn a_device_that_is_quick_again_is_read_with_the_others() {
    let (end, mut runner) = after_a_slow_reading(&HASTY, 1);
    drop(end);
    until("both are in one batch", || {
        read_without_a_check(&mut runner).len() == 2
    });
}

#[test]
fn a_thousand_readings_of_a_slow_device_pile_up_no_threads() {
    static OFTEN: Spec = spec("often", Duration::from_millis(20));
    let (end, mut runner) = after_a_slow_reading(&OFTEN, 1);
    for _ in 0..1000 {
        assert!(runner.begin());
        until("the batch is over", || {
            !runner.drain(&mut Readings(|_: Reading<'_>, _: &Block| {}))
        });
    }
    // Its own and the reader.
    until_threads("r:often", 1..=2);
    drop(end);
}

#[test]
fn a_slow_device_that_left_the_list_is_not_read_again() {
    let bus = hotplug::Bus::default();
    let (end, gate) = channel();
    bus.state().gates.push(("slow", gate));
    let readings = bus.plug("slow");
    bus.plug("quick");
    let mut runner = bus.runner(&HASTY);
    until("it is late", || {
        read(&mut runner);
        busy(&runner).contains(&"slow".to_owned())
    });
    end.send(()).unwrap();
    until("it has returned", || busy(&runner).is_empty());
    runner.take_late(|_, _| {});
    let before = readings.load(Ordering::Relaxed);
    bus.unplug("slow");
    for _ in 0..3 {
        read(&mut runner);
    }
    assert_eq!(readings.load(Ordering::Relaxed), before);
    assert_eq!(runner.subjects().len(), 1);
}
