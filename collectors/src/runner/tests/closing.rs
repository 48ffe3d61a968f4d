//! Devices whose closing blocks or fails.

use super::hotplug::{Bus, End, observe};
use super::*;

/// A bus with a good device and one whose closing waits until the test sends something, and has begun.
fn stuck(spec: &'static Spec) -> (Bus, Runner, Sender<()>) {
    let bus = Bus::default();
    let (open, gate) = channel();
    bus.state().ends.push(("a", End::Blocks(gate)));
    bus.plug("a");
    bus.plug("b");
    let mut runner = bus.runner(spec);
    bus.unplug("a");
    until("it is being closed", || {
        observe(&mut runner);
        busy(&runner) == ["closing"]
    });
    (bus, runner, open)
}

#[test]
fn a_device_whose_closing_blocks_costs_the_others_nothing() {
    static CLOSES: Spec = spec("closes", Duration::from_millis(20));
    let (bus, mut runner, open) = stuck(&CLOSES);
    for _ in 0..1000 {
        observe(&mut runner);
    }
    read_until(&mut runner, &["b"]);
    assert!(busy(&runner).contains(&"closing".to_owned()) && runner.is_closing());
    until_threads("d:closes", 1..=1);
    until_threads("r:closes", 0..=1);

    drop(open);
    until("it is closed", || !runner.is_closing());
    // And the object that the second scan replaced.
    assert_eq!(bus.state().closed, 2);
    until_threads("d:closes", 0..=0);
}

#[test]
fn what_waits_behind_one_whose_closing_blocks_is_bounded_and_the_rest_is_left_open() {
    static LEAVES: Spec = spec("leaves", Duration::from_millis(20));
    let (bus, mut runner, open) = stuck(&LEAVES);
    until("more are left than wait", || {
        bus.state().changed = true;
        observe(&mut runner);
        runner.left_open() >= 100
    });
    until_threads("d:leaves", 1..=1);
    let (left_open, before) = (runner.left_open(), bus.state().closed);
    assert!(before <= 1, "what came before it: {before}");

    drop(open);
    until("what waited is closed", || !runner.is_closing());
    let closed = bus.state().closed;
    assert!((1..=1025).contains(&(closed - before)), "{closed}");
    assert_eq!(runner.left_open(), left_open);
}

#[test]
fn a_panic_while_a_device_is_closed_costs_that_device_only() {
    let bus = Bus::default();
    bus.state().ends.push(("a", End::Panics));
    bus.plug("a");
    bus.plug("b");
    bus.plug("c");
    let mut runner = bus.runner(&PATIENT);
    bus.unplug("a");
    bus.unplug("b");
    observe(&mut runner);
    until("both are closed", || !runner.is_closing());
    // And the object that the second scan replaced.
    assert_eq!(bus.state().closed, 3);
    read_until(&mut runner, &["c"]);
}

#[test]
fn a_panic_in_the_first_scan_is_an_error() {
    struct Bug;
    impl Devices for Bug {
        fn scan(&mut self) -> Result<Vec<Box<dyn Device>>, Error> {
            panic!("a bug in a scan");
        }
    }
    let mut source = Source {
        devices: Box::new(Bug),
        watcher: None,
    };
    let error = Runner::new(&PATIENT, &mut source).err().unwrap();
    assert_eq!(error.reason(), "panic");
}
