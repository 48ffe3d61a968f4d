//! What must be so after each input.

use slurm::state::Flag;

use super::{CONFIRMED_AT_MOST, PARTS, PENDING, Part, World};
use crate::Mode;
use crate::audit::{Act, Kind};
use crate::drain::State as DrainState;
use crate::engine::Engine;
use crate::incident::{Incident, Seen, Status};
use crate::settings::Maintenance;
use crate::verdict::Health;

/// A rule by its name, and what to show where it is broken.
macro_rules! rule {
    ($name:literal, $cond:expr, $($text:tt)*) => {
        assert!($cond, concat!($name, ": {}"), format!($($text)*))
    };
}

pub(super) use rule;

impl World {
    /// A daemon that starts from the record shows what the running one shows.
    pub(super) fn check_record(&self) {
        if !self.sim.disk_works || self.sim.disk.is_none() {
            return;
        }
        let shown = |engine: &Engine| {
            let mut view = serde_json::to_value(engine.view()).unwrap();
            let all = view.as_object_mut().unwrap();
            // Of the readings of this run; and counts, which are stored within 2 s.
            for field in ["verdict", "node", "affinity", "comment", "ledger"] {
                all.remove(field);
            }
            all["drain"].as_object_mut().unwrap().remove("guard");
            for incident in all["incidents"].as_array_mut().unwrap() {
                for finding in incident["findings"].as_array_mut().unwrap() {
                    let finding = finding.as_object_mut().unwrap();
                    for field in ["count", "last", "evidence"] {
                        finding.remove(field);
                    }
                }
            }
            view
        };
        let (record, running) = (shown(&self.sim.engine_of_disk()), shown(&self.sim.engine));
        rule!("record", record == running, "{record} {running}");
    }

    /// What must hold after each input.
    pub(super) fn check(&mut self) {
        if self.sim.starts.len() != self.before.starts {
            // It died within a step: what was done before is not judged by what is known after.
            self.after_start();
            self.remember();
        }
        self.check_acts();
        self.check_verdict();
        self.check_book();
        self.check_counts();
        self.remember();
    }

    fn remember(&mut self) {
        let slurm = &self.sim.slurm;
        self.before.drains = slurm.drains;
        self.before.undrains = slurm.undrains;
        self.before.drained = slurm.is_drained();
        self.before.reason = slurm.reason.clone();
        self.before.audit = self.sim.audit.len();
    }

    fn check_acts(&mut self) {
        let (drains, undrains) = (
            self.sim.slurm.drains - self.before.drains,
            self.sim.slurm.undrains - self.before.undrains,
        );
        let new = &self.sim.audit[self.before.audit.min(self.sim.audit.len())..];
        if self.is_plain {
            let written = new.iter().filter(|e| e.kind == Kind::Written).count();
            let lifted = new
                .iter()
                .filter(|e| e.kind == Kind::Lifted && e.act == Some(Act::Undrain))
                .count();
            rule!(
                "audit",
                written == drains as usize && lifted >= undrains as usize,
                "{drains} {undrains} {new:?}"
            );
        }
        if drains > 0 {
            self.check_drain();
        }
        if undrains > 0 {
            self.check_lift();
        }
    }

    fn check_drain(&mut self) {
        let reason = self.sim.slurm.reason.clone().unwrap();
        let check = reason
            .strip_prefix("nodewarden:")
            .and_then(|r| r.split(' ').next())
            .unwrap();
        let id = reason.split("id=").nth(1).unwrap().split(' ').next().unwrap();
        rule!("drain-mode", self.mode_of(check) == Mode::Drain, "{reason}");
        rule!("drain-paused", self.sim.engine.paused().is_none(), "{reason}");
        let incidents = &self.sim.engine.book.incidents;
        let Some(incident) = incidents.iter().find(|i| i.id.0 == id) else {
            panic!("no incident of {reason}");
        };
        rule!("drain-open", incident.status == Status::Open, "{reason}");
        rule!(
            "drain-cause",
            incident.standing().any(|seen| seen.check == check),
            "{reason} {incident:?}"
        );
        let in_maintenance = self.sim.slurm.flags.contains(&Flag::Maint);
        rule!(
            "drain-hold",
            !in_maintenance || self.sim.config.maintenance == Maintenance::Drain,
            "{reason}"
        );
        let Some(part) = Part::of_check(check) else {
            rule!("drain-event-maint", !in_maintenance, "{reason}");
            return;
        };
        let truth = self.truth[&part];
        let is_late = self.now() - self.started >= CONFIRMED_AT_MOST;
        rule!("drain-early", truth.stands || truth.excused, "{reason} {truth:?}");
        let is_bad = truth.last.is_some_and(|(is_bad, _)| is_bad);
        rule!(
            "drain-unconfirmed",
            is_bad || (is_late && truth.last.is_none()) || truth.excused,
            "{reason} {truth:?}"
        );
    }

    fn check_lift(&self) {
        let before = self.before.reason.clone().unwrap_or_default();
        rule!("lift-nothing", self.before.drained, "{before}");
        let is_ours = before.starts_with("nodewarden:") || before.starts_with("gres/gpu");
        rule!("lift-foreign", is_ours, "{before:?}");
        rule!("lift-undrain", self.sim.config.scheduler.undrain, "{before}");
        for part in PARTS {
            let truth = self.truth[&part];
            if self.mode_of(part.pace().check) < Mode::Drain || truth.excused {
                continue;
            }
            let is_pending = truth
                .last
                .is_some_and(|(is_bad, at)| is_bad && self.now() - at < PENDING);
            if truth.bad.is_some() || truth.stands {
                rule!(
                    "lift-stands",
                    !truth.stands,
                    "lifted {before:?} while {part:?} {truth:?}"
                );
                rule!(
                    "lift-pending",
                    !is_pending,
                    "lifted {before:?} while {part:?} {truth:?}"
                );
            }
        }
        for incident in self.sim.engine.book.open().filter(|i| i.lift.is_none()) {
            let drains = |seen: &&Seen| self.sim.engine.policy.of(seen) == Mode::Drain;
            let holds = incident.standing().find(drains);
            rule!(
                "lift-open",
                holds.is_none() || self.sim.slurm.is_drained(),
                "lifted {before:?} with {incident:?}"
            );
        }
    }

    fn check_verdict(&self) {
        let engine = &self.sim.engine;
        let verdict = engine.verdict();
        let open = engine.book.open();
        let counts = |seen: &Seen| engine.policy.own_of(seen) == Mode::Drain;
        let mut broken = open.filter(|i| i.standing().any(counts));
        let broken = broken.next();
        match verdict.health {
            Health::Healthy => rule!("verdict-healthy", broken.is_none(), "{broken:?}"),
            Health::Unhealthy => rule!("verdict-unhealthy", broken.is_some(), "{verdict:?}"),
            Health::Unknown => {}
        }
        let shown = engine
            .book
            .incidents
            .iter()
            .filter(|i| i.status != Status::Cleared)
            .count();
        assert_eq!(verdict.incidents, shown);
    }

    fn check_book(&self) {
        let engine = &self.sim.engine;
        for incident in &engine.book.incidents {
            for seen in &incident.findings {
                assert!(self.jumped || seen.first <= seen.last, "{seen:?}");
                let Some(key) = seen.key.as_ref().filter(|_| seen.resolved.is_none()) else {
                    continue;
                };
                if incident.status != Status::Cleared {
                    rule!(
                        "book-no-end",
                        engine.state.bad.contains(key),
                        "nothing ends {key:?} of {incident:?}"
                    );
                }
            }
            let is_over = self.jumped || incident.closed.is_none_or(|closed| closed >= incident.opened);
            assert!(is_over, "{incident:?}");
            if incident.status == Status::Open {
                let unresolved = incident
                    .findings
                    .iter()
                    .filter(|seen| seen.resolved.is_none())
                    .count();
                rule!(
                    "book-empty",
                    unresolved > 0,
                    "open with nothing left: {incident:?}"
                );
            }
            if incident.behind {
                let state = engine.state.drain.state;
                let holds = matches!(
                    state,
                    DrainState::Drained | DrainState::Lifting | DrainState::Foreign
                );
                rule!("book-behind", holds, "{state:?} behind {incident:?}");
            }
        }
        for key in &engine.state.bad {
            let has = |i: &Incident| i.findings.iter().any(|seen| seen.key.as_ref() == Some(key));
            let known = engine.book.incidents.iter().any(has);
            let is_silenced = self.truth.values().any(|truth| truth.excused);
            rule!(
                "book-unknown",
                known || is_silenced,
                "{key:?} is bad in no incident"
            );
        }
    }

    fn check_counts(&mut self) {
        let state = &self.sim.engine.state;
        let now = [
            state.undrains,
            state.overrides,
            state.pauses,
            state.drains.values().sum(),
            state.would_drain.values().sum(),
            self.sim.engine.book.serial,
        ];
        for (before, now) in self.before.counts.iter().zip(now) {
            rule!("counts", *before <= now, "{:?} {now:?}", self.before.counts);
        }
        self.before.counts = now;
    }
}
