//! The Xid table: meaning, response and clearing of each code. Built in; the site may replace single rows.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;

use collectors::event::{Recovery, Xid};
use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::finding::{Clear, Need, Remedy};

/// The cause of a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// The user's program.
    App,
    /// One GPU.
    Gpu,
    /// NVLink or C2C.
    Link,
    /// Host, slot or power.
    Node,
    /// No fault: nothing to act on.
    Info,
}

/// The response to a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Response {
    /// Counted and shown.
    Observe,
    /// An incident, which never drains.
    Comment,
    /// No new jobs; reset when running jobs have ended.
    DrainAtJobEnd,
    /// No new jobs; an operator decides on the repair.
    DrainNow,
    /// No new jobs; reset the GPU when the node is idle.
    ResetGpu,
    /// No new jobs; reboot or power cycle.
    Reboot,
}

impl Response {
    /// Whether it requires a drain.
    pub const fn drains(self) -> bool {
        !matches!(self, Self::Observe | Self::Comment)
    }

    /// Its remedy.
    pub const fn remedy(self) -> Remedy {
        match self {
            Self::Observe => Remedy::None,
            Self::Comment | Self::DrainNow => Remedy::Inspect,
            Self::DrainAtJobEnd | Self::ResetGpu => Remedy::ResetGpu,
            Self::Reboot => Remedy::Reboot,
        }
    }
}

/// What the node must show before a line from before the first start counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Confirm {
    /// The GPU is not on the PCI bus, or does not respond there.
    GpuAbsent,
}

/// The GPU families that can log a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs, reason = "NVIDIA's own names")]
pub enum Family {
    Ampere,
    Hopper,
    Blackwell,
    GraceBlackwell,
}

/// How to read one register word of an Xid 74. Other bits are events: they follow from another Xid, mean nothing, or
/// are unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Register {
    /// The index of the word in the line, from 0.
    pub word: usize,
    /// Bits that mean a link fault.
    #[serde(default)]
    pub serious: Vec<u32>,
    /// Kinds of bits that mean a link fault from the third time within 24 h.
    #[serde(default)]
    pub repeated: Vec<Vec<u32>>,
    /// The same, from the third time on one link.
    #[serde(default, rename = "repeated-on-link")]
    pub repeated_on_link: Vec<Vec<u32>>,
}

impl Register {
    fn has(&self, words: &[u64], bits: &[u32]) -> bool {
        let word = words.get(self.word).copied().unwrap_or(0);
        bits.iter()
            .any(|bit| word.checked_shr(*bit).unwrap_or(0) & 1 == 1)
    }
}

/// One row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// The code.
    pub code: u32,
    /// Its meaning.
    pub meaning: String,
    /// Its cause.
    pub class: Class,
    /// The response.
    pub action: Response,
    /// A repair must be verified: an operator lifts the drain.
    pub verify: bool,
    /// It proves that one device is broken.
    pub device: bool,
    /// The driver's verdict in the line decides instead of `action`.
    pub by_verdict: bool,
    /// What ends it, besides `nodewarden clear`.
    pub clears: Vec<Clear>,
    /// Facts that the driver's library must show before a reset, a reboot or a verdict clears it.
    pub needs: Vec<Need>,
    /// The condition for a line from before the first start to count.
    pub confirm: Option<Confirm>,
    /// How to read its registers.
    pub registers: Vec<Register>,
    /// The families that can log it; empty: all.
    pub families: Vec<Family>,
    /// The finding with the lowest rank names the incident.
    pub rank: u8,
}

impl Row {
    /// The row of a code that the table lacks: it opens no incident, and is evidence in one of its GPU.
    pub fn unlisted(code: u32) -> Self {
        Self {
            code,
            meaning: String::new(),
            class: Class::Info,
            action: Response::Observe,
            verify: false,
            device: false,
            by_verdict: false,
            clears: Vec::new(),
            needs: Vec::new(),
            confirm: None,
            registers: Vec::new(),
            families: Vec::new(),
            rank: 90,
        }
    }

    /// Whether the line reports that the GPU needs no action.
    pub fn is_well(&self, xid: &Xid) -> bool {
        self.by_verdict && xid.recovery == Some(Recovery::None)
    }

    /// Whether these register words alone mean a link fault.
    pub fn is_serious(&self, words: &[u64]) -> bool {
        self.registers.iter().any(|r| r.has(words, &r.serious))
    }

    /// The kinds in these register words that count when repeated. `link`: the line's, negative if the driver names none.
    pub fn kinds(&self, words: &[u64], link: Option<i32>) -> Vec<String> {
        let link = link.filter(|link| *link >= 0);
        let link = link.map_or_else(|| "any".to_owned(), |link| link.to_string());
        let mut kinds = Vec::new();
        for register in &self.registers {
            let (code, word) = (self.code, register.word);
            let mut add = |all: &[Vec<u32>], on: &str| {
                let seen = all
                    .iter()
                    .enumerate()
                    .filter(|(_, bits)| register.has(words, bits));
                kinds.extend(seen.map(|(at, _)| format!("{code}.{word}.{at}{on}")));
            };
            add(&register.repeated, "");
            add(&register.repeated_on_link, &format!(" link {link}"));
        }
        kinds
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    xid: Vec<RawRow>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RawRow {
    code: Spanned<u32>,
    meaning: String,
    class: Class,
    action: Response,
    #[serde(default)]
    verify: bool,
    #[serde(default)]
    device: bool,
    #[serde(default)]
    by_verdict: bool,
    #[serde(default)]
    clears: Vec<Spanned<Clear>>,
    #[serde(default)]
    needs: Vec<Need>,
    confirm: Option<Confirm>,
    #[serde(default)]
    registers: Vec<Register>,
    #[serde(default)]
    families: Vec<Family>,
    rank: Option<u8>,
}

impl RawRow {
    fn check(self, file: &str, text: &str) -> Result<Row, Error> {
        let code = *self.code.get_ref();
        if let Some(bad) = self
            .clears
            .iter()
            .find(|c| matches!(c.get_ref(), Clear::Condition | Clear::AllClear | Clear::Quiet))
        {
            return Err(Error::at(
                file,
                text,
                Some(bad.span()),
                "found what ends conditions, expected `verdict-none`, `reboot`, `gpu-reset`, `gpu-present` or `person`",
            ));
        }
        let default_rank = if self.action.drains() { 50 } else { 80 };
        Ok(Row {
            code,
            meaning: self.meaning,
            class: self.class,
            action: self.action,
            verify: self.verify,
            device: self.device,
            by_verdict: self.by_verdict,
            clears: self.clears.into_iter().map(Spanned::into_inner).collect(),
            needs: self.needs,
            confirm: self.confirm,
            registers: self.registers,
            families: self.families,
            rank: self.rank.unwrap_or(default_rank),
        })
    }
}

/// Why a table was rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {what}")]
pub struct Error {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The value found and the values expected.
    pub what: String,
}

impl Error {
    fn at(file: &str, text: &str, span: Option<Range<usize>>, what: impl Into<String>) -> Self {
        let end = span.map_or(0, |s| s.start).min(text.len());
        let before = text.as_bytes().get(..end).unwrap_or_default();
        Self {
            file: file.to_owned(),
            line: before.iter().filter(|b| **b == b'\n').count() + 1,
            what: what.into(),
        }
    }
}

/// The table in force.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    rows: BTreeMap<u32, Row>,
}

impl Table {
    /// The built-in rows.
    ///
    /// # Errors
    /// Never, as a test parses the built-in text.
    pub fn built_in() -> Result<Self, Error> {
        Ok(Self {
            rows: parse("xids.toml", include_str!("xids.toml"))?,
        })
    }

    /// Replaces whole rows with those of a site's file.
    ///
    /// # Errors
    /// For an unknown key, a wrong value or a duplicate code, with file and line.
    pub fn overlay(&mut self, file: &str, text: &str) -> Result<(), Error> {
        self.rows.extend(parse(file, text)?);
        Ok(())
    }

    /// The row of a code. `None`: an unknown code, which is an event.
    pub fn row(&self, code: u32) -> Option<&Row> {
        self.rows.get(&code)
    }

    /// Every row, by code.
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.rows.values()
    }
}

fn parse(file: &str, text: &str) -> Result<BTreeMap<u32, Row>, Error> {
    let raw: File = toml::from_str(text).map_err(|e| Error::at(file, text, e.span(), e.message()))?;
    let mut rows = BTreeMap::new();
    for row in raw.xid {
        let span = row.code.span();
        let row = row.check(file, text)?;
        match rows.entry(row.code) {
            Entry::Vacant(slot) => {
                slot.insert(row);
            }
            Entry::Occupied(_) => {
                let what = format!("found a second row for {}, expected one", row.code);
                return Err(Error::at(file, text, Some(span), what));
            }
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests;
