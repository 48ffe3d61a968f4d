//! The daemon's status, reduced: numbers, words of closed sets, addresses of hardware and pseudonyms. Every field is listed here;
//! a field that the status gets later is in no bundle until it is.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::labels;
use super::names::{self, Names, number, one_of, word};
use crate::http::control::{CollectorView, GpuView, MountView, NodeStatus, PortView, WorkerView};
use crate::own::DRAIN_STATES;
use health::view::{FindingView, IncidentView};
use model::ledger::{Count, Ledger};

/// Verdict, drain, hardware, collectors and workers.
pub(super) fn status(status: &NodeStatus, names: &mut Names) -> Value {
    let view = &status.view;
    let counted = |counts: &[(String, u64)], names: &mut Names| -> Value {
        let one = |(check, n): &(String, u64)| (names.check(check), json!(n));
        counts.iter().map(one).collect::<serde_json::Map<_, _>>().into()
    };
    let gpus: Vec<Value> = status.gpus.iter().map(|g| gpu(g, names)).collect();
    let ports: Vec<Value> = status.ports.iter().map(|p| port(p, names)).collect();
    let mounts = by_content(status.mounts.iter().map(|m| mount(m, names)).collect());
    let commands = status.commands.iter().map(|c| {
        json!({
            "check": names.check(&c.check),
            "result": one_of(&c.result, &["healthy", "unhealthy", "unknown", "timed_out", "failed", "none"]),
            "age_ms": c.age_ms,
            "took_ms": c.took_ms,
        })
    });
    let commands = by_content(commands.collect());
    json!({
        "version": word(&status.version),
        "started": status.started,
        "config_error": status.config_error,
        "restart_needed": status.restart_needed,
        "state_unused": status.state_unused,
        "mode": status.mode.word(),
        "verdict": {
            "health": view.verdict.health.word(),
            "incidents": view.verdict.incidents,
            "at_ms": view.verdict.at_ms,
            "valid_until_ms": view.verdict.valid_until_ms,
            "drained_ms": view.verdict.drained_ms,
        },
        "drain": {
            "state": one_of(&view.drain.state, DRAIN_STATES),
            "incident": view.drain.incident.as_deref().map(names::incident),
            "since": view.drain.since,
            "recorded": view.drain.recorded,
            "held": view.drain.held.map(|held| held.word()),
            "guard": view.drain.guard.as_ref().map(|guard| json!({
                "slots": guard.slots,
                "taken": guard.taken,
                "standing": guard.standing,
                "most": guard.most,
                "differs": guard.differs,
                "has_slot": guard.slot.is_some(),
            })),
        },
        "pause": view.pause.as_ref().map(|pause| json!({ "since": pause.since, "until": pause.until })),
        "pauses": view.pauses,
        "would_drain": counted(&view.would_drain, names),
        "drains": counted(&view.drains, names),
        "undrains": view.undrains,
        "overrides": view.overrides,
        "gpus": gpus,
        "ports": ports,
        "mounts": mounts,
        "collectors": status.collectors.iter().map(collector).collect::<Vec<Value>>(),
        "workers": status.workers.iter().map(worker).collect::<Vec<Value>>(),
        "commands": commands,
    })
}

fn words(texts: &[String]) -> Vec<String> {
    texts.iter().map(|text| word(text)).collect()
}

fn gpu(gpu: &GpuView, names: &mut Names) -> Value {
    json!({
        "collector": word(&gpu.collector),
        "gpu": names.gpu(&gpu.gpu),
        "pci": names.pci(&gpu.pci).text(),
        "index": number(&gpu.index),
        "name": word(&gpu.name),
        "utilization": gpu.utilization,
        "memory_used": gpu.memory_used,
        "memory_total": gpu.memory_total,
        "temperature": gpu.temperature,
        "power": gpu.power,
        "power_limit": gpu.power_limit,
        "instances": gpu.instances,
        "up": gpu.up,
        "trouble": words(&gpu.trouble),
        "jobs": gpu.jobs.iter().map(|job| names.of("job", job)).collect::<BTreeSet<_>>(),
    })
}

fn port(port: &PortView, names: &mut Names) -> Value {
    json!({
        "port": names.subject("rdma_port", &port.port),
        "link_layer": one_of(&port.link_layer, &["InfiniBand", "Ethernet", ""]),
        "netdev": names.of("interface", &port.netdev),
        "pci": names.pci(&port.pci).text(),
        "state": word(&port.state),
        "rate": port.rate,
        "up": port.up,
        "trouble": words(&port.trouble),
    })
}

fn mount(mount: &MountView, names: &mut Names) -> Value {
    json!({
        "mount": names.of("mount", &mount.mountpoint),
        "fstype": word(&mount.fstype),
        "class": one_of(&mount.class, &["parallel", "network", "local", ""]),
        "size": mount.size,
        "available": mount.available,
        "up": mount.up,
    })
}

/// The text of an error may hold a path; its kind is a word.
fn collector(collector: &CollectorView) -> Value {
    json!({
        "name": part(&collector.name),
        "state": one_of(&collector.state, &["absent", "unknown", "ok", "failed", "late"]),
        "reason": word(&collector.reason),
        "devices": collector.devices,
        "series": collector.series,
        "age_ms": collector.age_ms,
        "troubled": collector.troubled.len(),
    })
}

fn worker(worker: &WorkerView) -> Value {
    json!({
        "name": part(&worker.name),
        "runs": worker.pid.is_some(),
        "starts": worker.starts,
        "down": word(&worker.down),
        "stuck_slots": worker.stuck_slots,
        "released_s": worker.lease.as_ref().and_then(|lease| lease.left),
    })
}

fn part(name: &str) -> String {
    if names::is_part(name) {
        name.to_owned()
    } else {
        names::WITHHELD.to_owned()
    }
}

/// Incidents, open and closed.
pub(super) fn incidents(status: &NodeStatus, names: &mut Names) -> Value {
    let incidents = status.view.incidents.iter();
    incidents.map(|i| incident(i, names)).collect()
}

fn incident(incident: &IncidentView, names: &mut Names) -> Value {
    json!({
        "id": names::incident(&incident.id),
        "state": one_of(&incident.state, &["open", "cleared", "overridden"]),
        "subject_kind": word(&incident.subject_kind),
        "subject": names.subject(&incident.subject_kind, &incident.subject_name),
        "pci": names.pci(&incident.pci).text(),
        "check": names.check(&incident.check),
        "xid": xid(&incident.detail),
        "act": word(&incident.act),
        "acts": incident.acts,
        "drains": incident.drains,
        "mode": incident.mode.word(),
        "could": incident.could.word(),
        "since": incident.since,
        "closed": incident.closed,
        // Who acknowledged it, and why, are not here, nor are the lines of the history.
        "acknowledged": incident.ack.as_ref().map(|(_, at, _)| at),
        "history": incident.history.iter().map(|(at, _)| at).collect::<Vec<_>>(),
        "findings": incident.findings.iter().map(|f| finding(f, names)).collect::<Vec<_>>(),
    })
}

fn finding(finding: &FindingView, names: &mut Names) -> Value {
    let evidence: Vec<Value> = (finding.evidence.iter())
        .filter_map(|line| evidence(line, names))
        .collect();
    json!({
        "check": names.check(&finding.check),
        "xid": xid(&finding.detail),
        "count": finding.count,
        "first": finding.first,
        "last": finding.last,
        "jobs": finding.jobs.iter().map(|job| names.of("job", job)).collect::<BTreeSet<_>>(),
        "others": finding.others,
        "lines": finding.evidence.len(),
        "evidence": evidence,
    })
}

/// The code of `xid79` or `sxid12028`, the only details without free text.
fn xid(detail: &str) -> Option<String> {
    let code = detail.strip_prefix('s').unwrap_or(detail).strip_prefix("xid")?;
    let is_code = (1..=6).contains(&code.len()) && code.bytes().all(|b| b.is_ascii_digit());
    is_code.then(|| detail.to_owned())
}

/// Of evidence such as `metric{labels} value ...`: metric and value. Other lines may quote the kernel's log or a process.
fn evidence(line: &str, names: &mut Names) -> Option<Value> {
    let (name, labels, value) = super::readings::evidence(line)?;
    let metric = labels::metric(name)?;
    let value: f64 = value.parse().ok()?;
    let shown = labels.iter().filter_map(|(label, text)| {
        let shown = labels::show((metric.name, label), text, &labels, names)?;
        Some((label.clone(), json!(shown)))
    });
    let shown: serde_json::Map<String, Value> = shown.collect();
    Some(json!({ "metric": metric.name, "labels": shown, "value": value }))
}

/// The counts of events: what the parser made of lines of the kernel's log, never the lines.
pub(super) fn events(status: &NodeStatus, names: &mut Names) -> Value {
    let ledger = &status.view.ledger;
    json!({
        "xids": xids(ledger, names),
        "sxids": rows(&ledger.sxids, |name, codes| codes.iter().map(|(code, n)| {
            counted(json!({ "nvswitch": names.gpu(name), "sxid": code }), *n)
        }).collect()),
        "fallen_off_bus": rows(&ledger.fallen_off_bus, |name, n| {
            vec![counted(json!({ "gpu": names.gpu(name) }), *n)]
        }),
        "driver_events": rows(&ledger.driver_events, |name, events| events.iter().map(|(event, n)| {
            counted(json!({ "gpu": names.gpu(name), "event": word(event) }), *n)
        }).collect()),
        "rdma_events": rows(&ledger.rdma_events, |device, ports| ports.iter().flat_map(|(port, events)| {
            let device = names.rdma(device);
            events.iter().map(move |(event, n)| {
                counted(json!({ "device": device, "port": number(port), "event": word(event) }), *n)
            })
        }).collect()),
        "firmware": rows(&ledger.firmware, |pci, events| events.iter().map(|(event, n)| {
            counted(json!({ "pci": names.pci(pci).text(), "event": word(event) }), *n)
        }).collect()),
        "kernel_lines": rows(&ledger.kernel_lines, |row, kinds| {
            let mut lines = Vec::new();
            for (kind, subjects) in kinds {
                for (name, n) in subjects {
                    let line = json!({ "row": word(row), "kind": word(kind), "subject": names.subject(kind, name) });
                    lines.push(counted(line, *n));
                }
            }
            lines
        }),
        "lost_records": ledger.lost_records,
        "overruns": ledger.overruns,
        "uncounted": ledger.uncounted,
    })
}

fn xids(ledger: &Ledger, names: &mut Names) -> Value {
    rows(&ledger.xids, |gpu, codes| {
        let one = |(code, n): (&u32, &Count)| {
            let reports = ledger.xid_reports.get(gpu).and_then(|codes| codes.get(code));
            let reports = reports.into_iter().flatten();
            let reports: serde_json::Map<_, _> =
                reports.map(|(source, n)| (word(source), json!(n))).collect();
            counted(
                json!({ "gpu": names.gpu(gpu), "xid": code, "reports": reports }),
                *n,
            )
        };
        codes.iter().map(one).collect()
    })
}

/// The rows of a table of counts.
fn rows<T>(
    table: &std::collections::BTreeMap<String, T>,
    mut row: impl FnMut(&str, &T) -> Vec<Value>,
) -> Value {
    let mut all = Vec::new();
    for (name, content) in table {
        all.extend(row(name, content));
    }
    by_content(all)
}

/// Rows by what they show: their order was that of names.
fn by_content(mut rows: Vec<Value>) -> Value {
    rows.sort_by_cached_key(Value::to_string);
    rows.into()
}

fn counted(mut row: Value, n: Count) -> Value {
    if let Some(fields) = row.as_object_mut() {
        fields.insert("count".to_owned(), json!(n.count));
        fields.insert("last".to_owned(), json!(n.last));
    }
    row
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::own::sample;

    /// The sample, with `text` in each field of free text, and `word` where nodewarden or a driver chooses the word.
    fn hostile(text: &str, word: &str) -> NodeStatus {
        let page = sample::page();
        let mut status = NodeStatus::of(&page, sample::AT + Duration::from_secs(1));
        let (canary, word) = (|| text.to_owned(), || word.to_owned());
        status.view.verdict.text = canary();
        status.view.verdict.boot = canary();
        status.view.drain.why = canary();
        status.view.drain.reason = Some(canary());
        status.view.pause = Some(health::pause::Pause {
            by: canary(),
            reason: canary(),
            since: 1,
            until: 2,
        });
        status.view.ledger.kernel_lines =
            [(word(), [(word(), [(canary(), Count::default())].into())].into())].into();
        status.view.ledger.rdma_events =
            [(canary(), [(canary(), [(word(), Count::default())].into())].into())].into();
        status.gpus.push(GpuView {
            gpu: canary(),
            pci: canary(),
            index: canary(),
            name: word(),
            ..GpuView::default()
        });
        status.ports.push(PortView {
            port: canary(),
            netdev: canary(),
            trouble: vec![word()],
            ..PortView::default()
        });
        status.mounts.push(MountView {
            mountpoint: canary(),
            source: canary(),
            trouble: vec![canary()],
            ..MountView::default()
        });
        status.commands.push(crate::http::control::CommandView {
            check: canary(),
            result: canary(),
            why: canary(),
            age_ms: None,
            took_ms: None,
        });
        assert!(!status.view.incidents.is_empty() && !status.collectors.is_empty());
        for i in &mut status.view.incidents {
            i.check = canary();
            for text in [
                &mut i.subject,
                &mut i.subject_name,
                &mut i.detail,
                &mut i.meaning,
                &mut i.clears,
                &mut i.pci,
                &mut i.state,
                &mut i.id,
            ] {
                *text = canary();
            }
            i.act = word();
            i.ack = Some((canary(), 7, canary()));
            i.history.push((8, canary()));
            for finding in &mut i.findings {
                finding.detail = canary();
                finding.jobs = vec![canary()];
                finding.evidence = vec![
                    canary(),
                    format!("mount_read_only{{mountpoint=\"{}\"}} 1 expected 0", canary()),
                ];
            }
        }
        for gpu in &mut status.gpus {
            gpu.trouble = vec![word()];
            gpu.jobs = vec![canary()];
        }
        for collector in &mut status.collectors {
            collector.text = canary();
            collector.reason = word();
            collector.troubled = vec![crate::http::control::DeviceView {
                subject: canary(),
                text: canary(),
            }];
        }
        for worker in &mut status.workers {
            worker.lease = Some(crate::http::control::LeaseView {
                by: canary(),
                left: Some(1),
            });
        }
        status
    }

    /// Names of people, hosts and mounts need no character that words lack.
    #[test]
    fn no_name_without_a_sign_comes_through_a_field_of_free_text() {
        for name in ["canary", "canary-2.site", "Canary 3", "canary:4", "4711canary"] {
            let parts = parts(&hostile(name, "word"));
            for part in &parts {
                assert!(!part.to_string().to_lowercase().contains("canary"), "{part:#}");
            }
            assert!(parts[1][0]["act"] == "word", "{:#}", parts[1]);
        }
    }

    fn parts(status: &NodeStatus) -> [Value; 3] {
        let mut names = Names::default();
        [
            super::status(status, &mut names),
            incidents(status, &mut names),
            events(status, &mut names),
        ]
    }

    #[test]
    fn no_free_text_of_the_status_comes_through() {
        let parts = parts(&hostile("/canary/path", "/canary/path"));
        for part in &parts {
            assert!(!part.to_string().contains("canary"), "{part:#}");
        }
        let incident = &parts[1][0];
        assert_eq!(
            (
                &incident["acknowledged"],
                &incident["history"][incident["history"].as_array().unwrap().len() - 1]
            ),
            (&json!(7), &json!(8))
        );
        assert_eq!(
            incident["findings"][0]["evidence"][0]["metric"],
            "mount_read_only"
        );
        assert_eq!(incident["findings"][0]["evidence"][0]["value"], 1.0);
        assert_eq!(parts[0]["pause"], json!({ "since": 1, "until": 2 }));
    }

    #[test]
    fn a_detail_is_a_code_or_left_out() {
        assert_eq!(xid("xid79").as_deref(), Some("xid79"));
        assert_eq!(xid("sxid12028").as_deref(), Some("sxid12028"));
        for detail in ["xid", "xidcanary", "xid79 canary", "canary", "ssxid1"] {
            assert_eq!(xid(detail), None, "{detail}");
        }
    }
}
