//! Reloads of the driver; GPUs whose MIG mode changes.

use super::*;

#[test]
fn a_driver_that_was_loaded_again_is_opened_again() {
    let mut node = Node::of("h100");
    node.read_until("all answer", |seen| up(seen) == up_but(&[]));
    node.driver.reload().unwrap();
    let seen = node.read();
    assert_eq!(up(&seen), vec![0.0; 8]);
    assert_eq!(
        get(&seen, &m::UNAVAILABLE_INFO, &[&gpu(0), "no_driver"]),
        Some(1.0)
    );
    let seen = node.read_until("all answer again", |seen| up(seen) == up_but(&[]));
    assert!(get(&seen, &m::TEMPERATURE, &[&gpu(7)]).is_some());
}

#[test]
fn the_list_is_read_again_where_the_kernel_shows_a_change() {
    let mut node = Node::of("h100");
    node.read_until("all answer", |seen| up(seen) == up_but(&[]));
    let before = node.driver.calls();
    node.write("proc/driver/nvidia/version", "NVRM version: 580.95.05\n");
    node.read();
    assert_eq!(node.driver.calls().since(&before).of("nvmlDeviceGetCount"), 1);
    let before = node.driver.calls();
    node.read();
    assert_eq!(node.driver.calls().since(&before).of("nvmlDeviceGetCount"), 0);
}

/// The instances of a GPU, by their labels.
fn instances(seen: &Seen, gpu: &str) -> Vec<String> {
    let start = format!("{} {gpu}|", m::INSTANCE_INFO.name);
    let labels = seen.keys().filter_map(|k| k.strip_prefix(&start));
    labels
        .filter_map(|l| l.split('|').next())
        .map(str::to_owned)
        .collect()
}

#[test]
fn a_gpu_is_divided_and_joined_while_it_is_read() {
    let mut node = Node::of("a100-mig");
    let whole = "GPU-00000000-0000-4000-8000-000000000202";
    node.read_until("it answers", |seen| get(seen, &m::UP, &[whole]) == Some(1.0));
    node.driver.mig(2, "").unwrap();
    let seen = node.read_until("it is whole", |seen| {
        get(seen, &m::UTILIZATION, &[whole]).is_some()
    });
    assert_eq!(instances(&seen, whole), Vec::<String>::new());
    assert_eq!(get(&seen, &m::MIG_MODE, &[whole]), Some(0.0));
    assert!(get(&seen, &m::MEMORY_USED, &[whole, ""]).is_some());

    node.driver.mig(2, "mixed").unwrap();
    let seen = node.read_until("it is divided", |seen| !instances(seen, whole).is_empty());
    assert_eq!(get(&seen, &m::UP, &[whole]), Some(1.0));
    assert_eq!(get(&seen, &m::MIG_MODE, &[whole]), Some(1.0));
    let parts = instances(&seen, whole);
    assert!(parts.len() >= 2, "{parts:?}");
    for part in &parts {
        assert!(get(&seen, &m::MEMORY_USED, &[whole, part]).is_some(), "{part}");
    }
    assert_eq!(
        get(&seen, &m::MEMORY_USED, &[whole, ""]),
        None,
        "it would count twice"
    );
    assert_eq!(get(&seen, &m::UTILIZATION, &[whole]), None);

    // Other instances in the same mode: the old handles end, and the instances are listed again.
    node.driver.mig(2, "seven").unwrap();
    node.read_until("it is divided otherwise", |seen| {
        let now = instances(seen, whole);
        now.len() == 7
            && now
                .iter()
                .all(|part| get(seen, &m::MEMORY_USED, &[whole, part]).is_some())
    });

    node.driver.mig(2, "").unwrap();
    let seen = node.read_until("it is joined", |seen| {
        instances(seen, whole).is_empty() && get(seen, &m::UTILIZATION, &[whole]).is_some()
    });
    assert!(get(&seen, &m::MEMORY_USED, &[whole, ""]).is_some());
    // The other GPUs are unaffected.
    let other = "GPU-00000000-0000-4000-8000-000000000201";
    assert_eq!(instances(&seen, other).len(), 7);
}

#[test]
fn a_scan_leaves_the_other_gpus_what_they_remember() {
    let mut node = Node::of("h100");
    node.read_until("all answer", |seen| up(seen) == up_but(&[]));
    let calls = |seen: &Seen| {
        let count = format!("{} {}", m::DRIVER_CALL.name, gpu(0));
        seen.get(&count).copied().unwrap_or(0.0)
    };
    let before = node.driver.calls();
    let earlier = calls(&node.read());
    node.write("proc/driver/nvidia/gpus/0000:1b:00.0/information", "");
    node.driver.lose(2).unwrap();
    let seen = node.read_until("it is lost", |seen| up(seen) == up_but(&[2]));
    let asked = node.driver.calls().since(&before);
    assert!(asked.of("nvmlDeviceGetCount") >= 1, "there was a scan");
    assert_eq!(
        asked.of("nvmlDeviceGetNvLinkVersion"),
        0,
        "what is known is not asked again"
    );
    assert!(calls(&seen) >= earlier);
}

/// Its handle is another one, and the driver loses it at the first question.
#[test]
fn a_gpu_that_is_lost_while_it_is_opened_again_goes_on_counting_calls() {
    let mut node = Node::of("h100");
    node.read_until("all answer", |seen| up(seen) == up_but(&[]));
    let calls = |seen: &Seen| seen.get(&format!("{} {}", m::DRIVER_CALL.name, gpu(2))).copied();
    let earlier = calls(&node.read()).unwrap();
    let lost = Fault::Code(code::GPU_IS_LOST);
    let call = "nvmlDeviceGetPowerManagementDefaultLimit";
    node.driver.break_call(2, call, lost).unwrap();
    node.driver.reload().unwrap();
    let seen = node.read_until("it is lost", |seen| up(seen) == up_but(&[2]));
    assert!(calls(&seen) > Some(earlier), "{:?} after {earlier}", calls(&seen));
}

#[test]
fn an_instance_that_leaves_while_it_is_asked_about_takes_no_counters_along() {
    let text = fs::read_to_string(scenario("h100")).unwrap();
    let counting = text.replace(
        "gpm = { GRAPHICS_UTIL",
        "gpm = { SM_CYCLES_ELAPSED = 5000.0, GRAPHICS_UTIL",
    );
    assert_ne!(text, counting);
    let mut node = Node::with(&counting);
    node.driver.mig(0, "halves").unwrap();
    let counted = |seen: &Seen| {
        ["1/0", "2/0"]
            .iter()
            .all(|part| get(seen, &metrics::SM_CYCLES, &[&gpu(0), part]).is_some())
    };
    node.read_until("both instances count", counted);
    // How the driver answers about a removed instance, and about ids that it does not know.
    let refusal = Fault::Code(Code::INVALID_ARGUMENT.0);
    node.driver.break_call(0, "nvmlGpmMetricsGet", refusal).unwrap();
    std::thread::sleep(Duration::from_millis(1100));
    let before = node.driver.calls();
    assert!(!counted(&node.read()));
    assert_eq!(node.driver.calls().since(&before).of("nvmlGpmMetricsGet"), 9);
    node.driver.lift().unwrap();
    node.read_until("both instances count again", counted);
}
