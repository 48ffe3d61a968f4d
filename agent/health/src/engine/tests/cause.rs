//! What names an act: the finding that causes it, where another finding names the incident.

use collectors::event::Recovery;

use super::sim::*;
use super::unreadable::gpu;
use crate::Mode;
use crate::audit::Kind;
use crate::verdict::Health;

/// A GPU that cannot be read, which may only comment, and then Xid 154 of it.
fn unreadable_then_154(mode: Mode) -> Sim {
    let mut sim = Sim::new(mode);
    sim.host.driven = vec![gpu(None)];
    sim.pass(900);
    sim.host.driven = vec![gpu(Some("unknown"))];
    // `pass` takes a snapshot every 15 s, and the Xid must come within the settle window.
    for _ in 0..40 {
        if sim.incidents().is_empty() {
            sim.pass(15);
        }
    }
    sim.verdict_154(Recovery::GpuReset);
    sim.pass(1);
    assert_eq!(sim.incidents(), ["cannot be read: unknown open"]);
    sim
}

#[test]
fn reason_counts_verdict_and_audit_name_the_finding_that_drains() {
    let sim = unreadable_then_154(Mode::Drain);
    let reason = sim.reason();
    assert!(
        reason.starts_with("nodewarden:xid gpu GPU-1 xid154 act="),
        "{reason}"
    );
    let view = sim.engine.view();
    assert_eq!(view.drains, [("xid".to_owned(), 1)]);
    let incident = &view.incidents[0];
    assert_eq!(
        (incident.check.as_str(), incident.cause.as_str()),
        ("gpu-unreadable", "xid")
    );
    assert_eq!(view.verdict.health, Health::Unhealthy);
    assert!(
        view.verdict.text.starts_with("xid154 gpu GPU-1 act="),
        "{}",
        view.verdict.text
    );
    let written = sim
        .audit
        .iter()
        .find(|entry| entry.kind == Kind::Written)
        .unwrap();
    assert_eq!(written.check.as_deref(), Some("xid"));
    assert_eq!(written.detail.as_deref(), Some("xid154"));
    assert!(written.evidence[0].starts_with("line "), "{:?}", written.evidence);
}

#[test]
fn a_suppressed_drain_counts_for_the_check_that_would_drain() {
    let sim = unreadable_then_154(Mode::Observe);
    assert_eq!(sim.engine.view().would_drain, [("xid".to_owned(), 1)]);
}

#[test]
fn the_comment_names_the_finding_that_comments() {
    let mut config = config(Mode::Comment);
    config.gpu_addresses = vec![pci(GPU)];
    config.checks.insert("xid".to_owned(), Mode::Observe);
    let mut sim = Sim::with(config, None);
    sim.xid(79);
    sim.remove_gpu(GPU);
    sim.pass(60);
    assert_eq!(sim.engine.view().incidents.len(), 1, "{:?}", sim.incidents());
    let comment = sim.slurm.comment.unwrap();
    assert!(comment.starts_with("nodewarden:gpu-missing gpu "), "{comment}");
}

/// The record is lost, and the fault is seen again: its drain goes on, whichever finding the reason names.
#[test]
fn the_drain_of_a_lost_record_is_found_by_the_finding_that_it_names() {
    let mut config = config(Mode::Drain);
    config.gpu_addresses = vec![pci(GPU)];
    config.checks.insert("xid".to_owned(), Mode::Observe);
    let mut sim = Sim::with(config, None);
    sim.slurm.has_extra = false;
    sim.xid(79);
    sim.remove_gpu(GPU);
    sim.pass(60);
    let reason = sim.reason();
    assert!(reason.starts_with("nodewarden:gpu-missing gpu "), "{reason}");
    sim.wipe();
    sim.xid(79);
    sim.pass(60);
    let view = sim.engine.view();
    assert!(
        reason.ends_with(&view.incidents[0].id),
        "{reason}: {:?}",
        view.incidents
    );
}

/// A verdict names what drains first, and how much more is open.
#[test]
fn an_unhealthy_verdict_names_the_other_open_incidents() {
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(95);
    sim.pass(60);
    let first = sim.engine.view().verdict.text;
    assert!(!first.contains("more open"), "{first}");
    sim.host.edac = Some(1);
    sim.pass(60);
    let text = sim.engine.view().verdict.text;
    assert_eq!(
        text,
        format!("{first}; and 1 more open incident: edac-uncorrected memory_controller mc0")
    );
}

/// Slurm has one reason, which is written once.
#[test]
fn a_reason_whose_incident_is_closed_or_needs_more_is_called_outdated() {
    let outdated = |sim: &Sim| sim.engine.view().outdated_reason();
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(95);
    sim.pass(60);
    assert_eq!(outdated(&sim), None);
    sim.xid(79);
    assert!(sim.reason().contains("xid95 act=reset-gpu"), "{}", sim.reason());
    assert_eq!(outdated(&sim), None, "another incident, which Slurm cannot show");
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(95);
    sim.pass(5);
    sim.xid(79);
    assert_eq!(
        outdated(&sim).as_deref(),
        Some("the reason in Slurm says act=reset-gpu, the remedy is reboot now")
    );
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(95);
    sim.pass(60);
    sim.host.edac = Some(1);
    sim.pass(60);
    let ids: Vec<String> = sim.engine.view().incidents.iter().map(|i| i.id.clone()).collect();
    sim.order(crate::OrderVerb::Clear, &ids[0]).unwrap();
    sim.pass(60);
    assert_eq!(
        outdated(&sim),
        Some(format!(
            "the reason in Slurm names {}, which is closed; the drain is for {} (act=reboot)",
            ids[0], ids[1]
        ))
    );
}

/// One incident at a time is in the node's Comment, and a person's text stays there.
#[test]
fn the_view_has_the_incident_that_the_comment_names() {
    let mut settings = config(Mode::Comment);
    settings.scheduler.poll = std::time::Duration::from_secs(300);
    let mut sim = Sim::with(settings, None);
    sim.xid(95);
    sim.pass(60);
    sim.host.edac = Some(1);
    sim.pass(60);
    let view = sim.engine.view();
    assert_eq!(view.incidents.len(), 2);
    assert_eq!(view.comment.as_ref(), Some(&view.incidents[0].id));
    assert_eq!(view.node.as_deref(), Some("n0"));
    sim.slurm.comment = Some("alice: looked at it".to_owned());
    sim.pass(3600);
    assert_eq!(sim.engine.view().comment, None);
    let mut sim = Sim::new(Mode::Comment);
    sim.slurm.comment = Some("alice: looked at it".to_owned());
    sim.xid(95);
    sim.pass(60);
    assert_eq!(sim.engine.view().comment, None);
}
