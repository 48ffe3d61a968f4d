//! The collector as the worker sees it: settings, opening, a recording, its own numbers.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::mpsc;

use super::*;
use crate::{Block, Error, Event, EventBody, Events, Value};

fn recorded(lines: &str) -> (tempfile::TempDir, Env) {
    let dir = tempfile::tempdir().unwrap();
    let mut file = File::create(dir.path().join("kmsg")).unwrap();
    file.write_all(lines.as_bytes()).unwrap();
    let env = Env {
        boot_id: Some("boot".to_owned()),
        ..Env::recorded(dir.path())
    };
    (dir, env)
}

fn watch(source: &mut Source) -> (Result<(), Error>, Vec<Event>) {
    let (to, from) = mpsc::sync_channel(100);
    let result = source.watcher.as_mut().unwrap().run(None, &Events::new(to));
    (result, from.iter().filter(|e| e.count > 0).collect())
}

#[test]
fn a_watcher_says_that_it_listens_once_the_log_was_read_and_not_before() {
    let said = |env: &Env| {
        let mut source = open(env, &Settings::default()).unwrap().unwrap();
        let (to, _from) = mpsc::sync_channel(100);
        let count = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let counts = Arc::clone(&count);
        let out = Events::new(to).heeding(move || {
            counts.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        });
        let result = source.watcher.as_mut().unwrap().run(None, &out);
        (result.is_ok(), count.load(std::sync::atomic::Ordering::SeqCst))
    };
    let (dir, env) = recorded("");
    assert_eq!(said(&env), (true, 1), "nothing was printed");
    std::fs::remove_file(dir.path().join("kmsg")).unwrap();
    std::fs::create_dir(dir.path().join("kmsg")).unwrap();
    assert_eq!(said(&env), (false, 0));
}

fn values(source: &mut Source) -> Vec<(String, Value)> {
    let mut device = source.devices.scan().unwrap().remove(0);
    let mut block = Block::default();
    device.read(&mut block).unwrap();
    block
        .iter()
        .map(|(s, v)| (format!("{}{:?}", s.metric.name, s.labels), v))
        .collect()
}

#[test]
fn settings_are_checked_and_have_defaults() {
    let default = Settings::default();
    assert_eq!(default.get::<PathBuf>(&PATH).unwrap(), Path::new(kmsg::DEV_KMSG));
    assert!(!default.get::<bool>(&ACCEPT_USER).unwrap());
    SPEC.settings("path = '/run/kmsg'\naccept_user = true").unwrap();
    let error = SPEC.settings("pth = 'x'").unwrap_err();
    assert!(error.to_string().contains("pth"), "{error}");
}

#[test]
fn a_recording_is_replayed_as_it_happened_and_ends() {
    let (_dir, env) = recorded(
        "6,1,5,-;nvidia-nvlink: Nvlink Core is being initialized\n SUBSYSTEM=pci\n DEVICE=+pci:0000:3b:00.0\n\
         4,2,6,-;NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n\
         4,3,7,-;NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.\n",
    );
    let mut source = open(&env, &Settings::default()).unwrap().unwrap();
    let (result, events) = watch(&mut source);
    result.unwrap();
    assert_eq!(
        events.iter().map(|e| (e.seq, e.history)).collect::<Vec<_>>(),
        [(2, false), (3, false)]
    );
    assert!(matches!(&events[1].body, EventBody::FallenOffBus { pci } if pci.0 == "0000:3b:00.0"));
    let values = values(&mut source);
    assert_eq!(
        values[0],
        ("nodewarden_kernel_log_records_total[]".to_owned(), Value::U64(3))
    );
    assert_eq!(values.len(), 6);
}

#[test]
fn a_recording_without_a_log_has_no_collector() {
    let dir = tempfile::tempdir().unwrap();
    assert!(
        open(&Env::recorded(dir.path()), &Settings::default())
            .unwrap()
            .is_none()
    );
}

#[test]
fn opening_is_left_to_the_watcher_which_says_why_it_failed() {
    let env = Env {
        boot_id: Some("boot".to_owned()),
        ..Env::default()
    };
    let mut source = open(&env, &SPEC.settings("path = '/nonexistent/kmsg'").unwrap())
        .unwrap()
        .unwrap();
    let (result, events) = watch(&mut source);
    assert_eq!(result.unwrap_err().reason(), "io");
    assert!(events.is_empty());
    assert_eq!(values(&mut source).len(), 6);
}

#[test]
fn every_metric_is_in_the_table_and_keeps_the_naming_rules() {
    let (_dir, env) = recorded("");
    let mut source = open(&env, &Settings::default()).unwrap().unwrap();
    let mut device = source.devices.scan().unwrap().remove(0);
    let mut block = Block::default();
    device.read(&mut block).unwrap();
    assert!(block.iter().all(|(s, _)| SPEC.metrics.contains(&s.metric)));
    for metric in SPEC.metrics {
        assert!(metric.name.starts_with("nodewarden_kernel_log_") && metric.name.ends_with("_total"));
        assert!(metric.help.ends_with('.'));
    }
}
