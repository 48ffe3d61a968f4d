//! One GPU's driver call never returns. A separate test target: it counts this process's threads.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a test reads its own process"
)]

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use collectors::gpu::metrics::UP;
use collectors::runner::{Operation, Runner};
use collectors::{Env, Value, nvidia};
use testkit::nvml::{FakeNvml, Fault};

/// Time-out of each wait.
const LONG: Duration = Duration::from_secs(60);
const STUCK: usize = 3;

/// The reader threads.
fn readers() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|t| std::fs::read_to_string(t.unwrap().path().join("comm")).ok());
    names.filter(|name| name.trim() == "r:nvidia").count()
}

/// The subjects that answered in one reading.
fn answered(runner: &mut Runner) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    runner.read(|reading, block| {
        let up = block.iter().find(|(series, _)| *series.metric == UP);
        assert_eq!(
            up.map(|(_, value)| value),
            Some(Value::U64(1)),
            "{}",
            reading.subject
        );
        seen.insert(reading.subject.name.clone());
    });
    seen
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < LONG, "waited {LONG:?} for this: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_gpu_whose_call_never_returns_costs_itself_and_one_thread_over_a_thousand_readings() {
    let dir = tempfile::tempdir().unwrap();
    let case = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/nvidia/h100/nvml.toml");
    let driver = FakeNvml::install(dir.path(), &case).unwrap();
    let settings = nvidia::SPEC
        .settings(&format!("library = {:?}", driver.library()))
        .unwrap();
    let opened = (nvidia::SPEC.open)(&Env::recorded(dir.path()), &settings).unwrap();
    let mut runner = Runner::new(&nvidia::SPEC, &mut opened.unwrap()).unwrap();
    until("all eight answer", || answered(&mut runner).len() == 8);

    let number = u32::try_from(STUCK).unwrap();
    driver
        .break_call(number, "nvmlDeviceGetTemperatureV", Fault::Blocks)
        .unwrap();
    let stuck = format!("GPU-00000000-0000-4000-8000-00000000010{STUCK}");
    let is_stuck = |runner: &Runner| {
        let names = runner.busy().filter_map(|b| match b.what {
            Operation::Device(_, subject) => Some(subject.name),
            Operation::List | Operation::Closing => None,
        });
        names.collect::<Vec<_>>() == [stuck.clone()]
    };
    until("the call is given up", || {
        answered(&mut runner);
        is_stuck(&runner)
    });
    let before = driver.calls();
    let mut most = 0;
    for _ in 0..1000 {
        let mut seen = answered(&mut runner);
        // A neighbour may be late too on a busy machine; its thread ends once it has answered.
        until("the neighbours are done", || {
            runner.take_late(|reading, _| {
                seen.insert(reading.subject.name.clone());
            });
            is_stuck(&runner)
        });
        assert!(seen.len() == 7 && !seen.contains(&stuck), "{seen:?}");
        most = most.max(readers());
    }
    // Of a thread left over by each reading there would be hundreds.
    assert!(most <= 20, "{most} threads");
    until("at most the stuck one and the reader are left", || {
        (1..=2).contains(&readers())
    });
    let calls = driver.calls().since(&before);
    assert_eq!(
        calls.of_gpu(u8::try_from(STUCK).unwrap()),
        0,
        "it is not queried again"
    );

    driver.lift().unwrap();
    until("it answers again", || answered(&mut runner).contains(&stuck));
    // A neighbour may be late here too.
    until("nothing is busy", || {
        runner.take_late(|_, _| {});
        runner.busy().count() == 0
    });
}
