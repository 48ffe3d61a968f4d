//! Contents and times of records.

use std::time::Duration;

use collectors::event::Recovery;
use collectors::{BootId, EventBody};

use super::sim::*;
use crate::engine::{Engine, RestoreError};
use crate::record::seal;
use crate::{Effect, Input, Mode, OrderVerb};

#[test]
fn the_record_of_an_event_holds_the_cursor_and_the_event_is_known_from_then_on() {
    let mut sim = Sim::new(Mode::Observe);
    let event = sim.event_of(EventBody::Xid(xid_of(79)));
    let effects = sim.engine.step(sim.now, Input::Event("kernel_log", &event));
    let [Effect::Store(record), ..] = effects.as_slice() else {
        panic!("{effects:?}");
    };
    assert_eq!(record_of(&record.json)["cursors"]["kernel_log"]["seq"], 1);
    assert!(
        sim.engine
            .step(sim.now, Input::Event("kernel_log", &event))
            .is_empty()
    );
}

#[test]
fn a_flood_of_lines_is_no_flood_of_records() {
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(119);
    sim.xid(999);
    sim.pass(10);
    let start = sim.now.boottime;
    let mut stores = Vec::new();
    for n in 0..2000_u32 {
        sim.now.boottime = start + Duration::from_millis(u64::from(n) * 10);
        // A repeated line of an incident, an event, an unknown code.
        let code = [95, 13, 999][n as usize % 3];
        let event = sim.event_of(EventBody::Xid(xid_of(code)));
        for effect in sim.engine.step(sim.now, Input::Event("kernel_log", &event)) {
            if let Effect::Store(record) = effect {
                stores.push(record_of(&record.json)["cursors"]["kernel_log"]["seq"].as_u64());
            }
        }
    }
    assert!((10..=11).contains(&stores.len()), "{stores:?}");
    let last = stores.last().copied().flatten();
    assert!(last.is_some_and(|seq| (1700..2002).contains(&seq)), "{last:?}");
    sim.pass(2);
    assert_eq!(sim.stored_event("kernel_log"), Some(2002));
    // A change of an incident is stored immediately.
    let before = sim.stores;
    sim.xid(79);
    assert!(sim.stores > before);
    assert_eq!(sim.stored_event("kernel_log"), Some(2003));
}

#[test]
fn counts_that_wait_for_a_record_are_stored_when_the_daemon_ends() {
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(119);
    sim.pass(10);
    sim.xid(119);
    sim.xid(119);
    assert_eq!(sim.stored_event("kernel_log"), Some(2), "the count waits");
    let effects = sim.engine.finish(sim.now);
    assert!(matches!(effects.as_slice(), [Effect::Store(_)]), "{effects:?}");
    sim.run(effects);
    assert_eq!(sim.stored_event("kernel_log"), Some(3));
    assert!(sim.engine.finish(sim.now).is_empty(), "nothing waits");
    let counts = sim.engine.ledger().clone();
    sim.restart();
    assert_eq!(*sim.engine.ledger(), counts);
}

#[test]
fn progress_alone_is_stored_every_ten_seconds_at_most() {
    let mut sim = Sim::new(Mode::Observe);
    let mut stores = 0;
    let start = sim.now.boottime;
    for tenth in 0..600 {
        sim.now.boottime = start + Duration::from_millis(tenth * 100);
        let body = if tenth % 2 == 0 {
            EventBody::Progress
        } else {
            EventBody::Overrun { lost: Some(3) }
        };
        let event = sim.event_of(body);
        let effects = sim.engine.step(sim.now, Input::Event("kernel_log", &event));
        stores += effects.iter().filter(|e| matches!(e, Effect::Store(_))).count();
    }
    assert_eq!(stores, 6);
    let deadline = sim.engine.next_deadline().unwrap();
    assert!(deadline <= sim.now.boottime + Duration::from_secs(10));
    sim.sleep_until(sim.now.boottime + Duration::from_secs(10));
    sim.tick();
    assert_eq!(sim.stored_event("kernel_log"), Some(600));
    assert_eq!(sim.engine.view().ledger.lost_records, 900);
}

#[test]
fn a_snapshot_in_which_nothing_is_new_stores_nothing() {
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(79);
    sim.pass(60);
    let before = sim.disk.clone();
    sim.pass(3600);
    assert!(std::sync::Arc::ptr_eq(&before.unwrap(), &sim.disk.unwrap()));
}

#[test]
fn a_record_that_was_not_stored_is_stored_later() {
    let mut sim = Sim::new(Mode::Drain);
    sim.disk_works = false;
    sim.xid(119);
    sim.admin_insists();
    assert_eq!(sim.drain_state(), "overridden");
    sim.disk_works = true;
    sim.pass(310);
    // The operator's undrain persists, and the line is not delivered again.
    sim.restart();
    sim.pass(60);
    assert_eq!(sim.engine.cursors()["kernel_log"].seq, 1);
    assert_eq!((sim.drain_state().as_str(), sim.slurm.drains), ("overridden", 2));
}

/// Drained, and repaired while the record cannot be stored.
fn repaired_without_a_record() -> Sim {
    let mut sim = Sim::holding();
    sim.xid(119);
    sim.pass(15);
    sim.disk_works = false;
    sim.verdict_154(Recovery::None);
    sim.pass(3600);
    sim
}

/// The next start would find the incident open and the drain gone.
#[test]
fn nothing_is_lifted_automatically_while_the_record_cannot_be_stored() {
    for restarts in [false, true] {
        let mut sim = repaired_without_a_record();
        let drain = sim.engine.view().drain;
        assert!(sim.slurm.is_drained());
        assert!(drain.why.contains("the record cannot be stored"), "{drain:?}");
        sim.disk_works = true;
        if restarts {
            sim.restart();
            sim.verdict_154(Recovery::None);
        }
        sim.pass(3600);
        assert!(!sim.slurm.is_drained(), "{restarts}");
        sim.restart();
        sim.pass(600);
        assert_eq!((sim.slurm.drains, sim.engine.view().overrides), (1, 0));
        assert_eq!(sim.incidents(), ["xid119 cleared"]);
    }
}

#[test]
fn an_operator_lifts_a_drain_while_the_record_cannot_be_stored() {
    let mut sim = repaired_without_a_record();
    let id = sim.engine.view().drain.incident.unwrap();
    sim.order(OrderVerb::Clear, &id).unwrap();
    assert!(!sim.slurm.is_drained());
}

/// Neither the lift of the recorded drain nor the next drain reached the disk.
#[test]
fn a_later_drain_than_that_of_the_record_is_own_and_root_lifts_it() {
    for is_over in [false, true] {
        let mut sim = Sim::new(Mode::Drain);
        sim.by_root = true;
        sim.xid(119);
        sim.pass(60);
        let recorded = sim.engine.view().incidents[0].id.clone();
        let reason = sim.reason().replace(&recorded, "abcdefgh");
        sim.slurm.admin_drains(&reason);
        sim.slurm.user = "root".to_owned();
        sim.restart();
        if is_over {
            sim.verdict_154(Recovery::None);
        }
        sim.pass(600);
        let drain = sim.engine.view().drain;
        assert_eq!(
            (drain.state.as_str(), drain.recorded),
            ("drained", false),
            "{is_over}"
        );
        assert!(!drain.why.contains("operator"), "{drain:?}");
        assert_eq!(sim.slurm.undrains, 0, "not automatically");
        sim.order(OrderVerb::Clear, "abcdefgh").unwrap();
        sim.pass(60);
        assert!(!sim.slurm.is_drained(), "{is_over}");
        assert_eq!((sim.slurm.drains, sim.engine.view().overrides), (1, 0));
    }
}

/// Who ordered the end of the recorded one has not seen the other.
#[test]
fn an_order_for_the_recorded_drain_does_not_lift_a_later_one() {
    let mut sim = Sim::new(Mode::Drain);
    sim.by_root = true;
    sim.xid(119);
    sim.pass(60);
    let recorded = sim.engine.view().incidents[0].id.clone();
    let reason = sim
        .reason()
        .replace(&recorded, "abcdefgh")
        .replace("xid119", "xid79");
    sim.slurm.admin_drains(&reason);
    sim.slurm.user = "root".to_owned();
    sim.restart();
    sim.order(OrderVerb::Clear, &recorded).unwrap();
    sim.pass(600);
    assert!(sim.slurm.is_drained());
    assert_eq!(sim.slurm.undrains, 0);
    sim.order(OrderVerb::Clear, "abcdefgh").unwrap();
    sim.pass(60);
    assert!(!sim.slurm.is_drained());
}

#[test]
fn a_disk_that_stays_full_is_tried_with_longer_pauses() {
    let mut sim = Sim::new(Mode::Drain);
    // The first look changes the record too.
    sim.pass(900);
    sim.disk_works = false;
    sim.xid(13);
    let before = sim.stores;
    sim.pass(10 + 20 + 40 + 80 + 160 - 1);
    assert_eq!(sim.stores - before, 4);
    sim.pass(24 * 3600);
    assert!((250..300).contains(&(sim.stores - before)));
    sim.disk_works = true;
    sim.pass(310);
    let stored = sim.stores;
    sim.pass(3600);
    assert_eq!(sim.stores, stored);
}

#[test]
fn everything_comes_back() {
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(79);
    sim.xid(45);
    sim.pass(60);
    let before = serde_json::to_value(sim.engine.view()).unwrap();
    sim.restart();
    sim.snapshot();
    let after = serde_json::to_value(sim.engine.view()).unwrap();
    for key in ["incidents", "drain", "drains", "ledger"] {
        assert_eq!(before[key], after[key], "{key}");
    }
    assert_eq!(sim.engine.cursors()["kernel_log"].seq, 2);
}

#[test]
fn a_record_of_an_earlier_release_loads() {
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(119);
    sim.pass(60);
    let mut record = sim.record();
    let mut drop = |path: &str, key: &str| {
        let object = record.pointer_mut(path).unwrap().as_object_mut().unwrap();
        assert!(object.remove(key).is_some(), "{path}/{key}");
    };
    for key in ["known", "checks", "bad", "overrides", "comment"] {
        drop("", key);
    }
    for key in ["late", "ordered", "taken"] {
        drop("/drain", key);
    }
    drop("/incidents/0", "began_ms");
    sim.set_record(&record);
    sim.restart();
    sim.pass(60);
    assert_eq!(sim.drain_state(), "drained");
    sim.verdict_154(Recovery::None);
    assert_eq!((sim.slurm.drains, sim.slurm.undrains), (1, 1));
    sim.set_record(&serde_json::json!({}));
    sim.restart();
}

#[test]
fn a_record_that_cannot_be_used_is_refused() {
    let sim = Sim::new(Mode::Drain);
    let new = |text: &str| {
        let engine = Engine::new(sim.policy(), BootId("b".to_owned()), Some(text), sim.now);
        engine.map(drop).unwrap_err()
    };
    let newer = seal("{}").replace(":3,", ":4,");
    assert_eq!(new(&newer), RestoreError::Newer { found: 4, known: 3 });
    // The last one has no checksum: no release wrote such a record.
    for text in [&seal("{\"incidents\": 7}"), "{}", "\0\0\0", "", "{\"schema\":2}"] {
        assert!(matches!(new(text), RestoreError::Broken(_)), "{text}");
    }
}

/// Of the records without a checksum, every second one was believed.
#[test]
fn a_record_of_which_any_bit_has_changed_is_refused() {
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(79);
    sim.pass(60);
    let record = sim.disk.as_deref().unwrap().as_bytes().to_vec();
    let mut believed = Vec::new();
    for bit in 0..record.len() * 8 {
        let mut bytes = record.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let text = std::str::from_utf8(&bytes);
        if text.is_ok_and(|text| crate::record::open(text).is_ok()) {
            believed.push(bit);
        }
    }
    assert_eq!(believed, Vec::<usize>::new());
}

/// The watcher compares it with the log, and sends what the log holds again.
#[test]
fn a_cursor_ahead_of_the_log_hides_no_event() {
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(13);
    sim.pass(60);
    let mut record = sim.record();
    record["cursors"]["kernel_log"]["seq"] = 1_000_000.into();
    sim.set_record(&record);
    sim.restart_unread();
    let mut ahead = sim.event_of(EventBody::CursorAhead {
        cursor: 1_000_000,
        newest: Some(1),
    });
    sim.seq = 1;
    (ahead.seq, ahead.count) = (0, 0);
    sim.input(Input::Event("kernel_log", &ahead));
    sim.log_is_read();
    sim.xid(79);
    sim.pass(10);
    assert_eq!(sim.drain_state(), "drained");
    assert_eq!(sim.engine.cursors()["kernel_log"].seq, 2);
    // A cursor that the log confirms is kept.
    ahead.body = EventBody::CursorAhead {
        cursor: 2,
        newest: Some(2),
    };
    sim.input(Input::Event("kernel_log", &ahead));
    assert_eq!(sim.engine.cursors()["kernel_log"].seq, 2);
}

#[test]
fn a_record_of_the_first_release_keeps_its_conditions() {
    let mut config = config(Mode::Drain);
    config.gpu_addresses = vec![pci(GPU)];
    let mut sim = Sim::with(config, None);
    sim.remove_gpu(GPU);
    sim.pass(60);
    assert!(sim.slurm.is_drained());
    let mut old = sim.record();
    assert_eq!(old["bad"], serde_json::json!([GPU, "gres"]));
    old.as_object_mut().unwrap().remove("checks");
    for finding in old["incidents"][0]["findings"].as_array_mut().unwrap() {
        assert!(finding.as_object_mut().unwrap().remove("key").is_some());
    }
    sim.set_record(&old);
    sim.restart();
    sim.pass(600);
    assert_eq!(sim.slurm.drains, 1);
    sim.set_gpu(GPU, "nvidia", Some(true));
    sim.pass(120);
    assert!(
        sim.incidents().iter().all(|i| i.ends_with(" cleared")),
        "{:?}",
        sim.incidents()
    );
}

#[test]
fn each_watcher_goes_on_where_it_was_itself() {
    let mut sim = Sim::new(Mode::Observe);
    sim.xid(79);
    sim.xid(45);
    let mut other = sim.event_of(EventBody::Overrun { lost: None });
    other.seq = 1;
    sim.input(Input::Event("other", &other));
    // The kernel log had the same sequence number.
    assert!(sim.engine.step(sim.now, Input::Event("other", &other)).is_empty());
    sim.pass(60);
    sim.restart();
    let cursors = sim.engine.cursors();
    assert_eq!((cursors["kernel_log"].seq, cursors["other"].seq), (2, 1));
}

#[test]
fn what_a_collector_notes_is_kept_over_a_restart_and_stored_once() {
    let mut sim = Sim::new(Mode::Observe);
    sim.input(Input::Notes("nvidia", "eight of them"));
    sim.pass(60);
    let stores = sim.stores;
    sim.input(Input::Notes("nvidia", "eight of them"));
    sim.pass(60);
    assert_eq!(sim.stores, stores, "equal notes change nothing");
    sim.restart();
    assert_eq!(sim.engine.notes()["nvidia"], "eight of them");
    sim.input(Input::Notes("nvidia", "seven of them"));
    assert_eq!(sim.engine.notes()["nvidia"], "seven of them");
}

#[test]
fn a_record_holds_the_cursor_of_every_watcher() {
    let mut sim = Sim::new(Mode::Observe);
    let mut other = sim.event_of(EventBody::Progress);
    other.seq = 7;
    sim.engine.step(sim.now, Input::Event("other", &other));
    let event = sim.event_of(EventBody::Xid(xid_of(79)));
    let effects = sim.engine.step(sim.now, Input::Event("kernel_log", &event));
    let [Effect::Store(record), ..] = effects.as_slice() else {
        panic!("{effects:?}");
    };
    let cursors = &record_of(&record.json)["cursors"];
    assert_eq!(cursors["kernel_log"]["seq"], event.seq);
    assert_eq!(cursors["other"]["seq"], 7);
}

#[test]
fn a_check_whose_state_cannot_be_read_costs_no_other() {
    let mut sim = Sim::new(Mode::Drain);
    sim.host.edac = Some(3);
    sim.pass(60);
    let mut record = sim.record();
    assert_eq!(
        record["checks"],
        serde_json::json!({"edac-uncorrected": {"mc0": 3}})
    );
    record["checks"]["xid"] = 7.into();
    record["checks"]["of-another-release"] = 7.into();
    sim.set_record(&record);
    sim.restart();
    let lost: Vec<_> = sim
        .engine
        .lost()
        .iter()
        .filter_map(|l| l.split(':').next())
        .collect();
    assert_eq!(lost, ["xid", "of-another-release"]);
    sim.pass(60);
    let view = sim.engine.view();
    assert_eq!(
        (view.incidents.len(), view.incidents[0].findings[0].count),
        (1, 3)
    );
}
