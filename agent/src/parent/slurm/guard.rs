//! A drain slot for this node: taken before a drain is written, and never given back once it is. The protocol and its
//! proof are in docs/decisions/0020-drain-slots.md.

use std::hash::{BuildHasher, RandomState};

use jiff::tz::TimeZone;

use super::find::LocalSlurmd;
use super::write::{Silence, Slurm, answer, failed, said};
use model::scheduler::{Action, Guard, Held, HeldBy, LookError, Outcome};
use slurm::guard::partition::{self, Partition};
use slurm::guard::reservation::{self, Created, Reservation};
use slurm::guard::slot::{self, Place, Pool};
use slurm::guard::table::{self, Table};
use slurm::state::Node;
use sys::spawn::SpawnError;

/// State between drains.
#[derive(Debug, Default)]
pub(super) struct Slots {
    /// The partition of the proven node.
    pub(super) partition: Option<Partition>,
    /// The slot that was taken, or may have been, and with which no drain is known to stand.
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    name: String,
    /// A drain was sent with it, and may still take effect: it serves the next try, but is never given back.
    is_sent: bool,
}

impl Slots {
    /// A drain is about to be sent with the open slot.
    pub(super) fn sent(&mut self) {
        if let Some(open) = &mut self.open {
            open.is_sent = true;
        }
    }

    /// The drain stands that was sent with the open slot: the next one needs another.
    pub(super) fn used(&mut self) {
        self.open.take_if(|open| open.is_sent);
    }
}

/// A slot of this node.
pub(super) struct Taken {
    pub(super) guard: Guard,
    /// The own node, where the table of the partition shows it.
    pub(super) own: Option<Node>,
}

/// The most slots of one node at the same time: drain, lift and drain again within a window.
const MOST_OWN: usize = 5;
/// A slot that ends within this time is not deleted (seconds).
const ENDS_SOON: i64 = 60;

/// The partition of a node in none: it takes no jobs.
const NO_PARTITION: &str = "none";

impl Slurm {
    /// The largest partition of the node.
    pub(super) fn partition(&mut self, found: &LocalSlurmd) -> Result<Partition, Silence> {
        if let Some(partition) = &self.slots.partition {
            return Ok(partition.clone());
        }
        let names = self.proven_partitions();
        let none = Partition {
            name: NO_PARTITION.to_owned(),
            nodes: 0,
        };
        let partition = if names.is_empty() {
            none
        } else {
            let args = ["show", "partition", "-o"].map(str::to_owned).to_vec();
            let text = self.ask("scontrol show partition", found, args)?;
            partition::largest(&text, &names).ok_or_else(|| {
                let names = names.join(",");
                failed(format!(
                    "scontrol show partition: none of the node's partitions ({names})"
                ))
            })?
        };
        self.slots.partition = Some(partition.clone());
        Ok(partition)
    }

    /// Whether a person paused the cluster.
    ///
    /// # Errors
    /// The outcome of an act that waits for its end, or does not know.
    pub(super) fn not_paused(&mut self, found: &LocalSlurmd) -> Result<(), Box<Outcome>> {
        self.reservations(found).map(|_| ())
    }

    /// Takes a slot for a drain.
    ///
    /// # Errors
    /// The outcome of a drain without one.
    pub(super) fn take_slot(
        &mut self,
        found: &LocalSlurmd,
        proven: &Node,
        action: &Action,
    ) -> Result<Taken, Box<Outcome>> {
        let partition = self.partition(found).map_err(Silence::before_write)?;
        let pool = pool(action);
        let limits = self.config.guard.limits(partition.nodes);
        let place = Place {
            partition: &partition.name,
            pool: &pool,
            limits,
        };
        let settings = self.config.guard.word();
        let mut guard = Guard {
            partition: partition.name.clone(),
            pool: pool.word(),
            slot: None,
            slots: pool.size(&limits),
            taken: 0,
            standing: None,
            most: pool.standing(&limits),
            differs: false,
            window_seconds: self.config.guard.window.as_secs(),
        };
        let mut before = self.reservations(found)?;
        let reusable = self.reusable(&before, &place, &proven.name);
        if reusable.is_none() {
            self.give_back_old(found, &mut before, &proven.name);
        }
        let own = before.iter().filter(|taken| slot::holder(taken) == proven.name);
        // The one that serves this drain is no further one.
        if reusable.is_none() && own.count() >= MOST_OWN {
            let why = format!("this node has {MOST_OWN} drain slots already");
            return Err(held(HeldBy::Guard, why, Some(guard)));
        }
        let (name, created) = match reusable {
            Some(name) => (name, None),
            None => {
                let Some(name) = pick(place.free(&before)) else {
                    guard.taken = place.taken(&before);
                    guard.differs = slot::differs(&before, &settings);
                    return Err(held(HeldBy::Guard, place.full(&before), Some(guard)));
                };
                let created = self.create(found, &name, &slot::features(&proven.name, &settings));
                (name, Some(created))
            }
        };
        let after = match &created {
            // It was just read.
            None => before,
            Some(_) => self.reservations(found)?,
        };
        guard.taken = place.taken(&after);
        guard.differs = slot::differs(&after, &settings);
        self.check(found, &name, &proven.name, created, &after)?;
        if place.is_over(&after, 0) {
            self.delete(found, &name);
            return Err(held(HeldBy::Guard, place.full(&after), Some(guard)));
        }
        guard.slot = Some(name);
        let table = self.table(found, &partition, proven)?;
        if let Some(table) = &table {
            guard.standing = Some(table.count());
            // slurmctld counts each node that a cloud may ever start.
            let nodes = partition.nodes.min(table.nodes);
            guard.most = pool.standing(&self.config.guard.limits(nodes));
            let slots = after.iter().filter(|taken| place.is_of_partition(taken));
            self.stands(found, &guard, table.coming(slots, &proven.name).len() as u64)
                .map_err(|why| held(HeldBy::Standing, why, Some(guard.clone())))?;
        }
        Ok(Taken {
            guard,
            own: table.and_then(|table| table.own),
        })
    }

    /// Whether one more drain may stand. Nodes that are about to write count: of those that go on, the last to take its slot saw
    /// those of all others.
    fn stands(&mut self, found: &LocalSlurmd, guard: &Guard, coming: u64) -> Result<(), String> {
        let (standing, most) = (guard.standing.unwrap_or_default(), guard.most);
        let of = format!(
            "{standing} nodes of partition {} are drained by nodewarden",
            guard.partition
        );
        if standing >= most {
            // The slot stays: who keeps one does not take another, so the table is read rarely.
            return Err(format!("{of}, at most {most} may be: a person must act"));
        }
        if standing.saturating_add(coming) >= most {
            if let Some(slot) = &guard.slot {
                self.delete(found, slot);
            }
            return Err(format!(
                "{of} and {coming} more have a slot, at most {most} may be"
            ));
        }
        Ok(())
    }

    /// The slot that this node has and has not used.
    fn reusable(&self, all: &[Reservation], place: &Place<'_>, node: &str) -> Option<String> {
        let Open { name, .. } = self.slots.open.as_ref().filter(|open| place.has(&open.name))?;
        let slot = all.iter().find(|slot| slot.name == *name)?;
        // An old one is taken again: used just before its end, it would count in this window and not in the next.
        let is_young = slot.end.saturating_sub(wall()) > slot.end.saturating_sub(slot.start) / 2;
        (slot::holder(slot) == node && is_young && self.has_time(slot)).then(|| name.clone())
    }

    /// Gives an unused slot back that is too old or of another pool. One that the list does not show as this node's is
    /// another's by now, and one that ends soon could be when the request arrives.
    fn give_back_old(&mut self, found: &LocalSlurmd, all: &mut Vec<Reservation>, node: &str) {
        let Some(old) = self.slots.open.take().filter(|open| !open.is_sent) else {
            return;
        };
        let is_ours = |slot: &Reservation| slot.name == old.name && slot::holder(slot) == node;
        let has_time = |slot: &Reservation| slot.end.saturating_sub(wall()) > ENDS_SOON;
        // Where it may be deleted later, its name is not taken again.
        if all.iter().any(|slot| is_ours(slot) && has_time(slot)) && self.delete(found, &old.name) {
            all.retain(|slot| !is_ours(slot));
        }
    }

    /// Whether a write ends before the slot does: at most four commands follow.
    fn has_time(&self, slot: &Reservation) -> bool {
        let needed = self.config.timeout.as_secs().saturating_mul(4).saturating_add(5);
        slot.end.saturating_sub(wall()) > i64::try_from(needed).unwrap_or(i64::MAX)
    }

    /// Whether the slot is this node's, with enough time left.
    fn check(
        &mut self,
        found: &LocalSlurmd,
        name: &str,
        node: &str,
        created: Option<(Created, String)>,
        all: &[Reservation],
    ) -> Result<(), Box<Outcome>> {
        let Some(slot) = all
            .iter()
            .find(|slot| slot.name == name && slot::holder(slot) == node)
        else {
            let (answer, said) = created.unwrap_or((Created::Unknown, "it is gone".to_owned()));
            return Err(match answer {
                Created::Refused => {
                    self.slots.open = None;
                    let why = format!("slurmctld creates no reservation for a drain slot: {said}");
                    held(HeldBy::Refused, why, None)
                }
                Created::Taken => {
                    self.slots.open = None;
                    failed(format!("another node took the drain slot {name}")).before_write()
                }
                // It may be created yet: this node then finds it.
                Created::Yes | Created::Unknown => {
                    failed(format!("drain slot {name} is not there: {said}")).before_write()
                }
            });
        };
        let left = slot.end.saturating_sub(wall());
        let most = i64::try_from(self.config.guard.window.as_secs()).unwrap_or(i64::MAX);
        // Slurm counts whole minutes.
        if self.has_time(slot) && left <= most.saturating_add(90) {
            return Ok(());
        }
        self.delete(found, name);
        let why = format!(
            "drain slot {name} ends in {left} s, which is not health.guard.window: was the clock set?"
        );
        Err(held(HeldBy::Refused, why, None))
    }

    /// The reservations of nodewarden.
    fn reservations(&mut self, found: &LocalSlurmd) -> Result<Vec<Reservation>, Box<Outcome>> {
        let text = self
            .ask("scontrol show reservation", found, reservation::show())
            .map_err(Silence::before_write)?;
        let all = reservation::ours(&text, &TimeZone::UTC)
            .map_err(|error| failed(error.to_string()).before_write())?;
        if let Some((end, who)) = reservation::pause(&all, wall()) {
            let left = end.saturating_sub(wall()).max(0);
            let why = format!(
                "the cluster is paused for {left} s ({}): {who}",
                reservation::PAUSE
            );
            return Err(held(HeldBy::Pause, why, None));
        }
        Ok(all)
    }

    fn create(&mut self, found: &LocalSlurmd, name: &str, features: &str) -> (Created, String) {
        self.slots.open = Some(Open {
            name: name.to_owned(),
            is_sent: false,
        });
        let args = reservation::create(name, self.config.guard.window, features);
        match self.scontrol.run(&self.config, found, args) {
            Ok(output) => {
                let text =
                    [&output.stderr, &output.stdout].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
                (reservation::created(output.code, &text.concat()), said(&output))
            }
            Err(error @ (SpawnError::NotFound(_) | SpawnError::Denied(_))) => {
                (Created::Refused, error.to_string())
            }
            Err(error) => (Created::Unknown, error.to_string()),
        }
    }

    /// Gives the slot back that was taken for an act which the node's state does not allow.
    pub(super) fn give_back(&mut self, found: &LocalSlurmd) {
        if let Some(open) = &self.slots.open {
            let name = open.name.clone();
            self.delete(found, &name);
        }
    }

    /// Gives a slot back with which no drain was sent. It ends automatically otherwise. Returns whether it is gone.
    fn delete(&mut self, found: &LocalSlurmd, name: &str) -> bool {
        if self.slots.open.as_ref().is_some_and(|open| open.is_sent) {
            return false;
        }
        self.slots.open = None;
        let deleted = answer(
            "scontrol delete",
            self.scontrol.run(&self.config, found, reservation::delete(name)),
        );
        if let Err(Silence::Late(why) | Silence::Said(LookError::Failed(why))) = &deleted {
            tracing::debug!(slot = name, why, "drain slot not deleted");
        }
        deleted.is_ok()
    }

    /// The partition's nodes. `None`: the partition has no nodes.
    fn table(
        &mut self,
        found: &LocalSlurmd,
        partition: &Partition,
        proven: &Node,
    ) -> Result<Option<Table>, Box<Outcome>> {
        if partition.nodes == 0 {
            return Ok(None);
        }
        let args = table::args(&partition.name);
        let result = match self.scontrol.sinfo(&self.config, found, args) {
            Err(error @ SpawnError::NotFound(_)) => {
                self.give_back(found);
                let why = format!("standing drains cannot be counted: {error}");
                return Err(held(HeldBy::Refused, why, None));
            }
            result => result,
        };
        let output = answer("sinfo", result).map_err(Silence::before_write)?;
        let text = String::from_utf8_lossy(&output.stdout);
        match table::read(&text, proven, &TimeZone::UTC) {
            Some(table) => Ok(Some(table)),
            None => {
                // The partition may be gone: both are read again.
                self.forget_proof();
                let why = format!("sinfo -p {}: no nodes, or of another form", partition.name);
                Err(failed(why).before_write())
            }
        }
    }

    fn ask(&mut self, what: &str, found: &LocalSlurmd, args: Vec<String>) -> Result<String, Silence> {
        let output = answer(what, self.scontrol.run(&self.config, found, args))?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

fn pool(action: &Action) -> Pool {
    match action {
        Action::Drain {
            in_maintenance: true, ..
        } => Pool::Maintenance,
        Action::Drain { is_device: true, .. } => Pool::Device,
        Action::Drain { reason, .. } => Pool::Code(slot::code(reason.as_str()).to_owned()),
        Action::Undrain { .. }
        | Action::Mirror { .. }
        | Action::Comment { .. }
        | Action::Uncomment { .. } => Pool::Code(String::new()),
    }
}

/// Any of these names: nodes that choose at the same time seldom choose the same.
fn pick(mut names: Vec<String>) -> Option<String> {
    if names.is_empty() {
        return None;
    }
    let random = RandomState::new().hash_one(names.len());
    let at = usize::try_from(random).unwrap_or(usize::MAX) % names.len();
    Some(names.swap_remove(at))
}

fn held(by: HeldBy, why: String, guard: Option<Guard>) -> Box<Outcome> {
    Box::new(Outcome::Held(Held { by, why, guard }))
}

fn wall() -> i64 {
    jiff::Timestamp::now().as_second()
}

#[cfg(test)]
#[path = "guard_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "guard_fleet/mod.rs"]
pub(super) mod fleet;
