//! Drain slots: `nodewarden--PARTITION--POOL--NUMBER`.
//!
//! The pool of a cause has as many names as `per_code` allows, so taking one is atomic. The limit of a partition over
//! all causes is a count after that: of the nodes that hold slots, the last one to take its own saw all the others. So
//! a node that counts too many gives its slot back, and never more than the limit go on.

use model::scheduler::PREFIX;

use super::limits::Limits;
use super::reservation::Reservation;

/// Between the parts of a name.
const BETWEEN: &str = "--";
/// The longest part of a name, in characters.
const MOST: usize = 40;

/// From which pool a drain takes its slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pool {
    /// Drains with one cause: the check and the code that the reason begins with.
    Code(String),
    /// Drains whose cause is proven to be one device.
    Device,
    /// Drains during a maintenance.
    Maintenance,
}

impl Pool {
    /// Its part of a name. Names of checks have neither of the two words.
    pub fn word(&self) -> String {
        match self {
            Self::Code(code) => part(code),
            Self::Device => "device".to_owned(),
            Self::Maintenance => "maint".to_owned(),
        }
    }

    /// Its size.
    pub fn size(&self, limits: &Limits) -> u64 {
        match self {
            Self::Code(_) => limits.per_code,
            Self::Device => limits.device,
            Self::Maintenance => limits.drains,
        }
    }

    /// The drains that may stand when one more is written from it.
    pub fn standing(&self, limits: &Limits) -> u64 {
        match self {
            Self::Device => limits.standing_device,
            Self::Code(_) | Self::Maintenance => limits.standing,
        }
    }
}

/// Where the slots of a node are: its partition and the pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place<'a> {
    /// The partition.
    pub partition: &'a str,
    /// The pool.
    pub pool: &'a Pool,
    /// The limits.
    pub limits: Limits,
}

impl Place<'_> {
    fn head(&self) -> String {
        format!(
            "nodewarden{BETWEEN}{}{BETWEEN}{}{BETWEEN}",
            part(self.partition),
            self.pool.word()
        )
    }

    /// Whether a slot of this name is here.
    pub fn has(&self, name: &str) -> bool {
        parts(name) == Some((&part(self.partition), &self.pool.word()))
    }

    /// Whether a slot is of this partition.
    pub fn is_of_partition(&self, slot: &Reservation) -> bool {
        parts(&slot.name).is_some_and(|(partition, _)| partition == part(self.partition))
    }

    /// The slots of this pool that are taken.
    pub fn taken(&self, all: &[Reservation]) -> u64 {
        all.iter().filter(|slot| self.has(&slot.name)).count() as u64
    }

    /// Why none is free, for a person.
    pub fn full(&self, all: &[Reservation]) -> String {
        let (taken, of) = (self.taken(all), self.pool.size(&self.limits));
        if taken < of {
            let drains = self.limits.drains;
            return format!(
                "{drains} of {drains} drain slots of partition {} are taken",
                self.partition
            );
        }
        let pool = match self.pool {
            Pool::Code(code) => format!("for {code}"),
            Pool::Device => "for broken devices".to_owned(),
            Pool::Maintenance => "for nodes in maintenance".to_owned(),
        };
        format!(
            "{taken} of {of} drain slots {pool} of partition {} are taken",
            self.partition
        )
    }

    /// The names that no reservation has. Without any where the partition has as many slots as it may.
    pub fn free(&self, taken: &[Reservation]) -> Vec<String> {
        if self.is_over(taken, 1) {
            return Vec::new();
        }
        let names = (1..=self.pool.size(&self.limits)).map(|n| format!("{}{n}", self.head()));
        names
            .filter(|name| taken.iter().all(|slot| slot.name != *name))
            .collect()
    }

    /// Whether the partition has more slots of all causes than it may, with `more` further ones.
    pub fn is_over(&self, taken: &[Reservation], more: u64) -> bool {
        matches!(self.pool, Pool::Code(_)) && self.count(taken).saturating_add(more) > self.limits.drains
    }

    /// The taken slots that count beside one of this pool.
    pub fn count(&self, taken: &[Reservation]) -> u64 {
        let partition = part(self.partition);
        let own = self.pool.word();
        let is_code = |pool: &str| pool != "device" && pool != "maint";
        let counts = |pool: &str| pool == own || (matches!(self.pool, Pool::Code(_)) && is_code(pool));
        let slots = taken.iter().filter_map(|slot| parts(&slot.name));
        slots
            .filter(|(of, pool)| *of == partition && counts(pool))
            .count() as u64
    }
}

/// What a slot says of its holder, in Features.
pub fn features(node: &str, settings: &str) -> String {
    format!("{node} {settings}")
}

/// The node that holds it.
pub fn holder(slot: &Reservation) -> &str {
    slot.features.split(' ').next().unwrap_or_default()
}

/// Whether a slot was taken under other settings: the nodes of the cluster then disagree about the limits.
pub fn differs(taken: &[Reservation], settings: &str) -> bool {
    let slots = taken.iter().filter(|slot| parts(&slot.name).is_some());
    let mut words = slots.filter_map(|slot| slot.features.split(' ').nth(1));
    words.any(|word| word != settings)
}

/// Partition and pool of a slot's name.
fn parts(name: &str) -> Option<(&str, &str)> {
    let mut parts = name
        .strip_prefix("nodewarden")?
        .strip_prefix(BETWEEN)?
        .split(BETWEEN);
    let (partition, pool, _number) = (parts.next()?, parts.next()?, parts.next()?);
    parts.next().is_none().then_some((partition, pool))
}

/// A part of a name: lower case, digits and single hyphens.
fn part(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars().take(MOST) {
        if c.is_ascii_alphanumeric() {
            out.push(c.to_ascii_lowercase());
        } else if !out.is_empty() && !out.ends_with('-') {
            out.push('-');
        }
    }
    out.truncate(out.trim_end_matches('-').len());
    if out.is_empty() { "none".to_owned() } else { out }
}

/// The cause in a reason of nodewarden: the check that it begins with, or the Xid.
pub fn code(reason: &str) -> &str {
    let mut words = reason.strip_prefix(PREFIX).unwrap_or(reason).split(' ');
    let check = words.next().unwrap_or_default();
    let is_xid = |word: &&str| {
        let number = word.strip_prefix("xid").unwrap_or_default();
        !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
    };
    words.find(is_xid).filter(|_| check == "xid").unwrap_or(check)
}

#[cfg(test)]
#[path = "slot_tests.rs"]
mod tests;
