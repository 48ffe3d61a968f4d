//! A driver that does not answer about one GPU when the worker starts.

use super::*;
use crate::runner::Operation;

/// The readings that have not returned.
fn busy(node: &Node) -> Vec<String> {
    let busy = node.runner.as_ref().unwrap().busy();
    busy.map(|b| match b.what {
        Operation::Device(_, subject) => subject.name,
        other => format!("{other:?}"),
    })
    .collect()
}

/// Which GPUs are up, by number.
fn up_numbers(seen: &Seen) -> Vec<u32> {
    (0..8)
        .filter(|n| get(seen, &m::UP, &[&gpu(*n)]) == Some(1.0))
        .collect()
}

/// The calls that the first scan makes about a GPU, and the ways in which one does not return.
const CALLS: [(&str, Fault); 4] = [
    ("nvmlDeviceGetHandleByIndex", Fault::Blocks),
    ("nvmlDeviceGetHandleByIndex", Fault::Spins),
    ("nvmlDeviceGetUUID", Fault::Blocks),
    ("nvmlDeviceGetSerial", Fault::Blocks),
];

const OTHERS: [u32; 7] = [0, 1, 2, 4, 5, 6, 7];

#[test]
fn a_gpu_that_blocks_the_first_scan_of_the_next_worker_costs_only_itself() {
    for (call, fault) in CALLS {
        let mut node = Node::of("h100");
        node.read_until("all answer", |seen| up(seen) == up_but(&[]));
        node.driver.break_call(3, call, fault.clone()).unwrap();
        node.restart();
        let seen = node.read();
        assert_eq!(up_numbers(&seen), OTHERS, "{call} {fault:?}");
        assert_eq!(
            get(&seen, &m::UP, &[&gpu(3)]),
            None,
            "not down: it has not answered"
        );
        assert_eq!(busy(&node), [gpu(3)], "under its own name");
        assert_eq!(up_numbers(&node.read()), OTHERS, "in each reading");
        node.driver.lift().unwrap();
        let seen = node.read_until("it answers", |seen| up(seen) == up_but(&[]));
        assert_eq!(info(&seen, &m::INFO, &gpu(3), 4), Some("3".to_owned()), "index");
        assert!(info(&seen, &m::INFO, &gpu(3), 6).is_some_and(|serial| !serial.is_empty()));
    }
}

/// The second scan must not wait again for a call that is still away, nor make it again.
#[test]
fn a_call_that_does_not_return_is_made_once_by_all_scans() {
    let mut node = Node::of("h100");
    node.driver
        .break_call(3, "nvmlDeviceGetHandleByIndex", Fault::Blocks)
        .unwrap();
    node.read();
    let before = node.driver.calls();
    for instance in 0..5 {
        // A change that causes a scan.
        node.write(
            &format!("proc/driver/nvidia/capabilities/gpu0/mig/gi{instance}/access"),
            "",
        );
        let seen = node.read();
        assert_eq!(up_numbers(&seen), OTHERS);
    }
    let calls = node.driver.calls().since(&before);
    assert_eq!((calls.of("nvmlDeviceGetCount"), calls.of_gpu(3)), (5, 0));
}

#[test]
fn a_gpu_that_no_worker_has_named_is_named_by_the_kernel_or_by_its_index() {
    let addresses = ["1b", "43", "52", "61", "9d", "c3", "d1", "df"];
    for (has_bus, has_file, name) in [
        (true, true, gpu(3)),
        (true, false, "pci:0000:61:00.0".to_owned()),
        (false, false, "index:3".to_owned()),
    ] {
        let mut node = Node::of("h100");
        for bus in addresses.iter().filter(|_| has_bus) {
            node.add_pci(&format!("0000:{bus}:00.0"), "nvidia");
        }
        if has_file {
            let information = format!("GPU UUID: \t {}\n", gpu(3));
            node.write("proc/driver/nvidia/gpus/0000:61:00.0/information", &information);
        }
        node.driver
            .break_call(3, "nvmlDeviceGetHandleByIndex", Fault::Blocks)
            .unwrap();
        let by_address = node.driver.calls();
        let seen = node.read();
        assert_eq!(up_numbers(&seen), OTHERS, "{name}");
        assert_eq!(busy(&node), [name.as_str()]);
        let calls = node.driver.calls().since(&by_address);
        assert_eq!(
            calls.of("nvmlDeviceGetHandleByPciBusId"),
            0,
            "it is asked about once"
        );
        node.driver.lift().unwrap();
        let seen = node.read_until("it answers", |seen| up(seen) == up_but(&[]));
        assert_eq!(get(&seen, &m::UP, &[name.as_str()]).is_some(), name == gpu(3));
    }
}

/// A driver without persistence mode initialises each GPU in its first call.
#[test]
fn a_gpu_whose_first_call_takes_longer_than_the_scan_waits_is_read() {
    let mut node = Node::of("h100");
    node.read_until("all answer", |seen| up(seen) == up_but(&[]));
    node.driver
        .break_call(3, "nvmlDeviceGetHandleByIndex", Fault::Slow(2500))
        .unwrap();
    node.restart();
    assert_eq!(up_numbers(&node.read()), OTHERS);
    node.read_until("it answers", |seen| up(seen) == up_but(&[]));
}

/// The end of the process is a signal to its threads.
#[test]
fn the_process_must_not_end_while_a_question_of_the_scan_is_inside_the_driver() {
    let mut node = Node::of("h100");
    node.driver
        .break_call(3, "nvmlDeviceGetHandleByIndex", Fault::Blocks)
        .unwrap();
    let mut source = node.open().unwrap().unwrap();
    let runner = Runner::new(&SPEC, &mut source).unwrap();
    assert_eq!(runner.busy().count(), 0, "no reading has begun");
    assert!(runner.is_asking());
    node.driver.lift().unwrap();
    until("it has returned", || !runner.is_asking());
    node.runner = Some(runner);
    node.read_until("all answer", |seen| up(seen) == up_but(&[]));
}
