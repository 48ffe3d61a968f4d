//! The controller as a serial map: commands take effect one after the other. It keeps, beside what slurmctld keeps, which
//! slot belongs to which drain.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::super::wall;
use super::{BOOT, HOST};

/// A reservation, in the controller's time.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    name: String,
    features: String,
    start: i64,
    end: i64,
    /// A drain took effect with it.
    is_used: bool,
}

impl Slot {
    fn holder(&self) -> &str {
        self.features.split(' ').next().unwrap()
    }

    fn cause(&self) -> &str {
        self.name.rsplit_once("--").unwrap().0
    }
}

/// The part that is saved, and comes back after a crash.
#[derive(Clone, Debug, Default)]
struct State {
    slots: Vec<Slot>,
    /// The reason of each node that is drained.
    drains: BTreeMap<String, String>,
}

/// A command that changes something, with the times that its client computed.
#[derive(Clone, Debug)]
pub(super) enum Write {
    Create(Slot),
    Delete(String),
    /// `slot`: the one that it was sent with.
    Drain {
        node: String,
        reason: String,
        slot: Option<String>,
    },
    Lift(String),
}

#[derive(Debug, Default)]
pub(super) struct Controller {
    state: State,
    saved: State,
    /// Seconds since the start.
    passed: i64,
    /// What took effect, for the message of a failed test.
    pub(super) history: Vec<String>,
    /// The most drains whose slots stood at the same time: for one cause, and in all.
    pub(super) most_of_cause: usize,
    pub(super) most: usize,
    /// The most drains that stood at the same time.
    pub(super) most_standing: usize,
}

impl Controller {
    /// The real clock moves little meanwhile: agents see slots as much older as the time that passed here.
    fn now(&self) -> i64 {
        wall() + self.passed
    }

    pub(super) fn pass(&mut self, seconds: i64) {
        self.passed += seconds;
        let now = self.now();
        self.state.slots.retain(|slot| slot.end > now);
    }

    pub(super) fn save(&mut self) {
        self.saved = self.state.clone();
    }

    /// What changed since the last save is lost.
    pub(super) fn crash(&mut self) {
        self.state = self.saved.clone();
        self.history
            .push(format!("{} s: crash, back to {:?}", self.passed, self.state));
        self.pass(0);
    }

    pub(super) fn holder(&self, name: &str) -> Option<String> {
        let slot = self.state.slots.iter().find(|slot| slot.name == name)?;
        Some(slot.holder().to_owned())
    }

    pub(super) fn is_drained(&self, node: &str) -> bool {
        self.state.drains.contains_key(node)
    }

    /// The change that a command of an agent asks for, which took this slot last. `None`: it only reads.
    pub(super) fn change(&self, args: &[String], slot: Option<&str>) -> Option<Write> {
        let value = |key: &str| {
            args.iter()
                .find_map(|arg| arg.strip_prefix(key))
                .map(str::to_owned)
        };
        match args[0].as_str() {
            "create" => {
                let minutes: i64 = value("Duration=").unwrap().parse().unwrap();
                Some(Write::Create(Slot {
                    name: value("ReservationName=").unwrap(),
                    features: value("Features=").unwrap(),
                    start: self.now(),
                    end: self.now() + minutes * 60,
                    is_used: false,
                }))
            }
            "delete" => Some(Write::Delete(value("ReservationName=").unwrap())),
            "update" => {
                let node = value("NodeName=").unwrap();
                let reason = value("Reason=").unwrap();
                Some(if args.iter().any(|arg| arg == "State=UNDRAIN") {
                    Write::Lift(node)
                } else {
                    let slot = slot.map(str::to_owned);
                    Write::Drain { node, reason, slot }
                })
            }
            _ => None,
        }
    }

    /// Carries a change out. `Err`: what scontrol says in its place, or what may never happen.
    pub(super) fn apply(&mut self, write: Write) -> Result<(), Refusal> {
        self.history.push(format!("{} s: {write:?}", self.passed));
        let state = &mut self.state;
        match write {
            Write::Create(slot) => {
                if state.slots.iter().any(|taken| taken.name == slot.name) {
                    return Err(Refusal::Said(
                        "Error creating the reservation: Duplicate reservation name",
                    ));
                }
                state.slots.push(slot);
                self.pass(0);
            }
            Write::Delete(name) => {
                if state.slots.iter().any(|slot| slot.name == name && slot.is_used) {
                    return Err(Refusal::Never(format!("{name} was given back after its drain")));
                }
                state.slots.retain(|slot| slot.name != name);
            }
            Write::Drain { node, reason, slot } => {
                if state.drains.insert(node.clone(), reason).is_some() {
                    return Ok(());
                }
                let mut own = state.slots.iter_mut().filter(|slot| slot.holder() == node);
                match own.find(|own| !own.is_used && Some(&own.name) == slot.as_ref()) {
                    Some(slot) => slot.is_used = true,
                    None => {
                        return Err(Refusal::Never(format!(
                            "{node} drained without a slot of its own ({slot:?})"
                        )));
                    }
                }
                self.count();
            }
            Write::Lift(node) => {
                state.drains.remove(&node);
            }
        }
        Ok(())
    }

    fn count(&mut self) {
        let used: Vec<&Slot> = self.state.slots.iter().filter(|slot| slot.is_used).collect();
        let of = |cause: &str| used.iter().filter(|slot| slot.cause() == cause).count();
        let of_cause = used.iter().map(|slot| of(slot.cause())).max().unwrap_or(0);
        self.most_of_cause = self.most_of_cause.max(of_cause);
        self.most = self.most.max(used.len());
        self.most_standing = self.most_standing.max(self.state.drains.len());
    }

    /// What scontrol and sinfo print.
    pub(super) fn read(&self, args: &[String], nodes: usize) -> String {
        let words: Vec<&str> = args.iter().map(String::as_str).collect();
        match words[..] {
            ["show", "reservation", ..] => self.reservations(),
            ["show", "partition", ..] => {
                format!("PartitionName=gpu Nodes=n[0-99] State=UP TotalNodes={nodes} TRES=cpu=1\n")
            }
            ["show", "node", name] => self.node(name),
            ["-h", "-p", ..] => (0..nodes).fold(String::new(), |mut text, node| {
                let name = format!("n{node}");
                let (state, reason) = self.shown(&name);
                writeln!(text, "1|{name}|{state}|2026-11-21T03:20:00|{reason}|").unwrap();
                text
            }),
            ["-h", "-a", "-n", name, ..] => {
                let (state, reason) = self.shown(name);
                format!("{name}|{state}|2026-11-21T03:20:00|root|gpu:h100:8|(null)|(null)|{reason}|\n")
            }
            _ => panic!("{words:?}"),
        }
        .replace('|', "\u{1f}")
    }

    fn shown(&self, node: &str) -> (&str, &str) {
        match self.state.drains.get(node) {
            Some(reason) => ("idle+drain", reason),
            None => ("idle", "none"),
        }
    }

    fn reservations(&self) -> String {
        let at = |time: i64| jiff::Timestamp::from_second(time - self.passed).unwrap();
        let shown = |time| at(time).strftime("%Y-%m-%dT%H:%M:%S").to_string();
        let line = |slot: &Slot| {
            let (start, end) = (shown(slot.start), shown(slot.end));
            format!(
                "ReservationName={} StartTime={start} EndTime={end} Features={} PartitionName=(null)\n",
                slot.name, slot.features
            )
        };
        let lines: String = self.state.slots.iter().map(line).collect();
        if lines.is_empty() {
            "No reservations in the system\n".to_owned()
        } else {
            lines
        }
    }

    fn node(&self, name: &str) -> String {
        let (state, reason) = self.shown(name);
        let state = state.to_ascii_uppercase();
        let boot = jiff::Timestamp::from_second(BOOT)
            .unwrap()
            .strftime("%Y-%m-%dT%H:%M:%S");
        let mut text = format!(
            "NodeName={name} Arch=x86_64 CoresPerSocket=8 \n   Gres=gpu:h100:8\n   \
             NodeAddr=127.0.0.1 NodeHostName={HOST} Version=24.11.5\n   State={state} ThreadsPerCore=1\n   \
             Partitions=gpu \n   BootTime={boot} SlurmdStartTime={boot}\n"
        );
        if reason != "none" {
            writeln!(text, "   Reason={reason} [root@2026-11-21T03:20:00]").unwrap();
        }
        text
    }
}

/// Why a change was not carried out as asked.
#[derive(Debug)]
pub(super) enum Refusal {
    /// scontrol says so.
    Said(&'static str),
    /// The limit is broken.
    Never(String),
}
