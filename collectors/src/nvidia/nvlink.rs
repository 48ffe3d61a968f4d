//! Links: NVLink between GPUs and switches, and C2C between a GPU and the processor on its module. Values per link
//! are read in the same batch as everything else where the driver allows it.

mod c2c;
mod generation;
mod kinds;
mod totals;

use std::time::{Duration, Instant};

use super::call::Caller;
use super::fields::{Scale, narrow_counter, push};
use super::identity::address;
use super::metrics as n;
use super::simple::real;
use crate::sys::nvml::{Batch, Code, FieldValue, Library, Wanted};
use crate::{Block, Value};
use c2c::C2c;
use generation::Generation;
use kinds::{Answer, LinkValue, kinds};
use totals::{LinkTotal, totals};

/// Maximum number of links.
const MOST: u32 = 72;

/// The field with the number of links.
const LINK_COUNT: u32 = 91;
const C2C_COUNT: u32 = 170;

/// One link.
#[derive(Debug)]
struct NvLink {
    number: u32,
    label: String,
    version: Option<u32>,
    remote_kind: &'static str,
    remote_pci: String,
}

/// The links of one GPU.
#[derive(Debug, Default)]
pub(super) struct Links {
    links: Vec<NvLink>,
    /// The driver answers that there is no link: the GPU has none, or they are switched off.
    has_none: bool,
    kinds: Vec<LinkValue>,
    totals: Vec<LinkTotal>,
    c2c: C2c,
    rate: NvLinkRate,
}

/// Bytes per second over all links, between two readings at least 1 s apart.
#[derive(Debug, Default)]
struct NvLinkRate {
    from: Option<(u64, Instant)>,
    last: Option<f64>,
}

/// A shorter time is inaccurate.
const APART: Duration = Duration::from_secs(1);

impl NvLinkRate {
    #[expect(clippy::cast_precision_loss, reason = "a rate is a real number")]
    fn next(&mut self, bytes: Option<u64>) -> Option<f64> {
        let now = Instant::now();
        let Some(bytes) = bytes else {
            *self = Self::default();
            return None;
        };
        match self.from {
            Some((_, at)) if now.saturating_duration_since(at) < APART => {}
            Some((before, at)) => {
                // The counters restart with the driver.
                let grown = bytes.checked_sub(before);
                self.last = grown.map(|b| b as f64 / now.saturating_duration_since(at).as_secs_f64());
                self.from = Some((bytes, now));
            }
            None => self.from = Some((bytes, now)),
        }
        self.last
    }
}

/// A queried field.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinkWanted {
    pub(super) wanted: Wanted,
    /// Queried only where the driver does not offer the field before it.
    pub(super) is_spare: bool,
}

impl LinkWanted {
    fn first(wanted: Wanted) -> Self {
        Self {
            wanted,
            is_spare: false,
        }
    }

    fn spare(wanted: Wanted) -> Self {
        Self {
            wanted,
            is_spare: true,
        }
    }
}

/// The answers of one link, by the positions of [`Links::kinds`].
type Answers = Vec<Answer>;

impl Links {
    pub(super) fn new(caller: &mut Caller, architecture: &str) -> Self {
        let count = count_of(caller, LINK_COUNT).or_else(|| count_by_state(caller));
        let links: Vec<NvLink> = (0..count.unwrap_or(0))
            .map(|number| NvLink::new(caller, number))
            .collect();
        // All links have one version; a link that is down may not report its own.
        let version = links.iter().find_map(|l| l.version);
        let generation = (!links.is_empty()).then(|| Generation::of(architecture, version));
        Self {
            kinds: generation.map_or_else(Vec::new, kinds),
            totals: generation.map_or_else(Vec::new, totals),
            links,
            has_none: count == Some(0),
            c2c: C2c::new(count_of(caller, C2C_COUNT).unwrap_or(0)),
            rate: NvLinkRate::default(),
        }
    }

    /// Takes over the rate's last readings of the same links.
    pub(super) fn go_on_from(&mut self, before: Self) {
        self.rate = before.rate;
    }

    /// The queried fields: totals, then each link, then C2C.
    pub(super) fn wanted(&self) -> Vec<LinkWanted> {
        let totals = self.totals.iter().filter_map(LinkTotal::wanted);
        let mut wanted: Vec<LinkWanted> = totals.map(LinkWanted::first).collect();
        for link in &self.links {
            for kind in &self.kinds {
                let (first, spare) = kind.wanted(link.number);
                wanted.push(LinkWanted::first(first));
                wanted.extend(spare.map(LinkWanted::spare));
            }
        }
        wanted.extend(self.c2c.wanted().map(LinkWanted::first));
        wanted
    }

    pub(super) fn push(
        &mut self,
        gpu: &str,
        caller: &mut Caller,
        get: impl Fn(usize) -> Result<FieldValue, Code>,
        out: &mut Block,
    ) {
        // In the order of `wanted`.
        let mut places = 0..;
        let mut next = || places.next().map_or(Err(Code::NOT_SUPPORTED), &get);
        let totals: Vec<_> = self
            .totals
            .iter()
            .map(|total| total.wanted().map_or(Err(Code::NOT_SUPPORTED), |_| next()))
            .collect();
        let mut answers = Vec::with_capacity(self.links.len());
        for link in &self.links {
            let answer = |kind: &LinkValue| {
                let (_, spare) = kind.wanted(link.number);
                let first = next();
                kind.answer(first, spare.map(|_| next()))
            };
            answers.push(self.kinds.iter().map(answer).collect::<Answers>());
        }
        if !self.links.is_empty() {
            self.push_all(gpu, caller, &totals, &answers, out);
        } else if self.has_none {
            out.u64(&n::NVLINK_LINKS, &[gpu], 0);
            out.u64(&n::NVLINK_LINKS_UP, &[gpu], 0);
        }
        let behind = places.start;
        self.c2c.push(gpu, |at| get(behind + at), out);
    }

    fn push_all(
        &mut self,
        gpu: &str,
        caller: &mut Caller,
        totals: &[Result<FieldValue, Code>],
        answers: &[Answers],
        out: &mut Block,
    ) {
        let states: Vec<Option<bool>> = self
            .links
            .iter()
            .zip(answers)
            .map(|(link, answers)| self.state(caller, link, answers))
            .collect();
        out.u64(&n::NVLINK_LINKS, &[gpu], self.links.len() as u64);
        // A link that was not read could be up.
        let known = states.iter().all(Option::is_some);
        let up = states.iter().filter(|s| **s == Some(true)).count() as u64;
        out.maybe_u64(&n::NVLINK_LINKS_UP, &[gpu], known.then_some(up));
        let mut bytes = Some(0_u64);
        for (total, answer) in self.totals.iter().zip(totals) {
            let value = total.value(*answer, &self.kinds, answers);
            if total.is_data() {
                bytes = match value {
                    Value::U64(more) => bytes.and_then(|b| b.checked_add(more)),
                    _ => None,
                };
            }
            out.push(total.metric(), &total.labels(gpu), value);
        }
        real(out, &n::NVLINK_THROUGHPUT, &[gpu], self.rate.next(bytes));
        for ((link, answers), state) in self.links.iter().zip(answers).zip(states) {
            let labels = [link.label.as_str()];
            let up = state.map(u64::from);
            push(&n::NVLINK_LINK_UP, gpu, &labels, Scale::Times(1), up, out);
            let info = [
                gpu,
                &link.label,
                version_text(link.version),
                link.remote_kind,
                &link.remote_pci,
            ];
            out.info(&n::NVLINK_LINK_INFO, &info);
            for (kind, answer) in self.kinds.iter().zip(answers) {
                kind.push(gpu, &link.label, *answer, out);
            }
        }
    }

    /// Whether a link is up.
    fn state(&self, caller: &mut Caller, link: &NvLink, answers: &Answers) -> Option<bool> {
        let at = self.kinds.iter().position(LinkValue::is_state)?;
        let answer = *answers.get(at)?;
        let state = match answer {
            Ok(Value::U64(state)) => Some(state),
            Err(code) if code.is_unsupported() => {
                let number = link.number;
                let answer = caller.ask(("GetNvLinkState", number), |l, d| l.nvlink_state(d, number));
                answer.map(u64::from)
            }
            _ => None,
        };
        // 2 is sleep: the link wakes up automatically. 3 is a trained link that carries nothing (R615).
        state.filter(|s| *s <= 3).map(|s| matches!(s, 1 | 2))
    }
}

impl NvLink {
    fn new(caller: &mut Caller, number: u32) -> Self {
        let version = caller.ask(("GetNvLinkVersion", number), |l, d| l.nvlink_version(d, number));
        let kind = caller.ask(("GetNvLinkRemoteDeviceType", number), |l, d| {
            l.nvlink_remote_kind(d, number)
        });
        let remote = caller.ask(("GetNvLinkRemotePciInfo", number), |l, d| {
            l.nvlink_remote(d, number)
        });
        // A switch that is invisible to the node has no address.
        let remote = remote.filter(|pci| pci.address != (0, 0, 0) && pci.address.0 <= 0xffff_fffe);
        Self {
            number,
            label: number.to_string(),
            version,
            remote_kind: match kind {
                Some(0) => "gpu",
                Some(1) => "cpu",
                Some(2) => "switch",
                _ => "unknown",
            },
            remote_pci: remote.as_ref().and_then(address).unwrap_or_default(),
        }
    }
}

/// A version as commonly written.
fn version_text(number: Option<u32>) -> &'static str {
    match number {
        Some(1) => "1.0",
        Some(2) => "2.0",
        Some(3) => "2.2",
        Some(4) => "3.0",
        Some(5) => "3.1",
        Some(6) => "4.0",
        Some(7) => "5.0",
        Some(8) => "6.0",
        _ => "",
    }
}

/// A number of links. One field a call: a field of another kind may make the whole call fail.
fn count_of(caller: &mut Caller, field: u32) -> Option<u32> {
    let mut batch = Batch::new(&[Wanted { field, scope: 0 }]);
    caller.ask(("GetFieldValues", field), |l, d| l.fields(d, &mut batch))?;
    let count = narrow_counter(batch.get(0).ok()?)?;
    u32::try_from(count).ok().filter(|n| *n <= MOST)
}

/// Links, on drivers that do not report their number. `None`: no link answers, which is also the answer of a call that fails.
fn count_by_state(caller: &mut Caller) -> Option<u32> {
    let has = |number: &u32| {
        caller
            .ask(("GetNvLinkState", *number), |l: &Library, d| {
                l.nvlink_state(d, *number)
            })
            .is_some()
    };
    let count = (0..MOST).take_while(has).count();
    u32::try_from(count).ok().filter(|count| *count > 0)
}
