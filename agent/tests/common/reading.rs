//! One reading of a recorded node, for tests without the program.

use std::time::Duration;

use collectors::runner::{Reading, Runner};
use collectors::{Block, COLLECTORS, Env, Settings};
use health::Now;
use model::snapshot::{DeviceState, Presence, Snapshot};
use testkit::play::Driver;
use testkit::wait::{PATIENCE, until_true};

/// An arbitrary time, long after boot.
const START: Duration = Duration::from_secs(100_000);

/// The time after the first tick.
pub(crate) fn now(after: Duration) -> Now {
    let wall = 1_800_000_000 + i64::try_from(after.as_secs()).unwrap();
    Now {
        boottime: START + after,
        wall,
    }
}

/// Reads every collector once, as the workers would.
pub(crate) fn snapshot(env: &Env, settings: &Settings, driver: Option<&Driver>, at: Duration) -> Snapshot {
    let mut snapshot = Snapshot::empty(at);
    for (state, spec) in snapshot.collectors_mut().zip(COLLECTORS.iter().copied()) {
        let settings = match driver {
            Some(driver) if spec.name == "nvidia" => spec.settings(&driver.settings()).unwrap(),
            _ => settings.of(spec.keys.iter().copied()),
        };
        let mut source = match (spec.open)(env, &settings) {
            Ok(Some(source)) => source,
            Ok(None) => {
                state.presence = Presence::NotHere;
                continue;
            }
            Err(e) => {
                state.presence = Presence::Failed(e.reason().to_owned(), e.to_string());
                continue;
            }
        };
        state.presence = Presence::Open;
        state.watcher = source.watcher.is_some().then_some(Ok(()));
        let mut runner = Runner::new(spec, &mut source).unwrap();
        let devices = &mut state.devices;
        let mut take = |reading: Reading<'_>, block: &Block| {
            devices.push(DeviceState::of(reading, block, at));
        };
        runner.read(&mut take);
        // On a slow machine too, no reading of a fixture is late.
        until_true("no reading is late", PATIENCE, || {
            runner.take_late(&mut take);
            runner.busy().next().is_none()
        })
        .unwrap();
    }
    snapshot
}
