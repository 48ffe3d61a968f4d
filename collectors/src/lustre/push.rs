//! From the counters of a filesystem to its series.

use std::collections::{BTreeMap, BTreeSet};

use super::fields;
use super::metrics as m;
use super::mount::{MOST_FAULTY, Mount};
use super::name::TargetKind;
use super::readahead;
use super::rpc_stats::{Direction, Table};
use super::state::ImportState;
use super::stats::RowUnit;
use super::sums::Sums;
use super::target::{Target, TargetCounters, TargetGauges, TargetState};
use super::totals::{Counts, Total, Totals};
use crate::block::{MAX_LABEL_BYTES, MAX_SERIES};
use crate::{Block, Metric, Value};

/// Operations that every release from 2.5 on counts. They are 0 where the file leaves them out.
#[rustfmt::skip]
const OPS: [&str; 20] = [
    "close", "create", "flock", "fsync", "getattr", "getxattr", "link", "mkdir", "mknod", "mmap", "open", "readdir", "rename",
    "rmdir", "seek", "setattr", "setxattr", "symlink", "truncate", "unlink",
];
/// Rows that describe how long files stay open, and are no operations.
const NO_OPS: [&str; 2] = ["opencount", "openclosetime"];
/// Rows of a target that sum up the others.
const NO_OPCODES: [&str; 5] = [
    "req_waittime",
    "req_active",
    "req_timeout",
    "read_bytes",
    "write_bytes",
];
/// Limit of names of one kind.
const MOST_NAMES: usize = 128;

/// Series of a target.
const OF_TARGET: usize = 5;
/// Series that the states of filesystems and LNet need, and bytes of their labels.
const STATES: usize = 2000;
const STATE_BYTES: usize = 96 << 10;

/// What the figures of targets leave to the states of other filesystems, which checks read.
#[derive(Clone, Copy, Debug)]
pub(super) struct TargetRoom {
    /// The most series of the filesystem.
    pub(super) series: usize,
    /// The most bytes of the labels of its targets.
    pub(super) bytes: usize,
}

impl TargetRoom {
    /// That of each of this many filesystems.
    pub(super) fn of(filesystems: usize) -> Self {
        Self {
            series: (MAX_SERIES - STATES) / filesystems.max(1),
            bytes: (MAX_LABEL_BYTES - STATE_BYTES) / filesystems.max(1),
        }
    }
}

/// A reading in progress.
pub(super) struct Push<'a> {
    pub(super) fs: &'a str,
    pub(super) sums: &'a Sums,
    pub(super) mounts: &'a BTreeMap<String, Mount>,
    pub(super) out: &'a mut Block,
}

fn seconds(sum: u64, unit: RowUnit) -> Option<f64> {
    match unit {
        RowUnit::Time(divisor) => Some(sum as f64 / f64::from(divisor)),
        _ => None,
    }
}

/// The sum. `None`: one of the values is unknown, or there is no value.
fn sum(values: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    let all: Option<Vec<u64>> = values.collect();
    let all = all.filter(|all| !all.is_empty())?;
    all.into_iter().try_fold(0_u64, u64::checked_add)
}

impl Push<'_> {
    fn one(&mut self, metric: &'static Metric, value: Option<u64>) {
        self.out.maybe_u64(metric, &[self.fs], value);
    }

    /// A sum over all mounts.
    fn of_mounts(&mut self, metric: &'static Metric, value: impl Fn(&Mount) -> Option<u64>) {
        let value = sum(self.mounts.values().map(value));
        self.one(metric, value);
    }

    /// Whether a target has counters of this reading or of its last share.
    fn has(&self, of: impl Fn(&TargetCounters) -> bool) -> bool {
        self.all_targets().any(|target| of(&target.has))
    }

    pub(super) fn operations(&mut self) {
        let old = Totals::default();
        let llite = if self.mounts.values().any(|mount| mount.has.llite) {
            &self.sums.llite
        } else {
            &old
        };
        self.one(&m::READ_BYTES, llite.sum("read_bytes"));
        self.one(&m::WRITE_BYTES, llite.sum("write_bytes"));
        self.one(&m::READ_SAMPLES, llite.count("read_bytes"));
        self.one(&m::WRITE_SAMPLES, llite.count("write_bytes"));
        let is_bytes = |total: &Total| total.unit == RowUnit::Bytes;
        for (name, total) in llite.rows().filter(|(_, total)| is_bytes(total)) {
            match name {
                "read_bytes" | "write_bytes" => {}
                "cached_read_bytes" => self.one(&m::CACHED_READ_BYTES, total.sum),
                _ => self.out.maybe_u64(&m::OTHER_BYTES, &[self.fs, name], total.sum),
            }
        }
        let is_op = |(name, total): &(&str, &Total)| !is_bytes(total) && !NO_OPS.contains(name);
        let ops: BTreeMap<&str, &Total> = llite.rows().filter(is_op).take(MOST_NAMES).collect();
        // A row is left out while it has no samples.
        let known = OPS.iter().filter(|_| llite.is_read()).copied();
        let names: BTreeSet<&str> = ops.keys().copied().chain(known).collect();
        for op in names {
            let total = ops.get(op);
            self.out
                .u64(&m::OPS, &[self.fs, op], total.map_or(0, |total| total.count));
            if let Some(time) = total.and_then(|total| seconds(total.sum?, total.unit)) {
                self.out.f64(&m::OP_SECONDS, &[self.fs, op], time);
            }
        }
        let starts = self.mounts.values().filter_map(|mount| mount.start);
        let start = starts.reduce(f64::min).map_or(Value::Absent, Value::F64);
        self.out.push(&m::START_TIME, &[self.fs], start);
        let md = match () {
            () if self.has(|has| has.md) => &self.sums.md,
            () if self.mounts.values().any(|mount| mount.has.lmv) => &self.sums.lmv,
            () => &old,
        };
        for (op, total) in md.rows().take(MOST_NAMES) {
            self.out.u64(&m::MD_OPS, &[self.fs, op], total.count);
        }
    }

    pub(super) fn cache(&mut self) {
        let old = Totals::default();
        let read_ahead = if self.mounts.values().any(|mount| mount.has.read_ahead) {
            &self.sums.read_ahead
        } else {
            &old
        };
        self.one(&m::READAHEAD_HITS, read_ahead.count("hits"));
        self.one(&m::READAHEAD_MISSES, read_ahead.count("misses"));
        for (name, total) in read_ahead.rows().take(MOST_NAMES) {
            if !["hits", "misses"].contains(&name) {
                let labels = [self.fs, readahead::event(name)];
                // From 2.16 on some rows count calls, and sum the pages of each.
                let pages = total.sum.filter(|_| total.unit == RowUnit::Pages);
                let events = pages.unwrap_or(total.count);
                self.out.u64(&m::READAHEAD_EVENTS, &labels, events);
            }
        }
        let field = |name: &'static str| {
            move |mount: &Mount| mount.cache.as_ref()?.get(name).copied().and_then(fields::mib)
        };
        self.of_mounts(&m::CACHE_USED, field("used_mb"));
        self.of_mounts(&m::CACHE_MAX, field("max_cached_mb"));
        self.of_mounts(&m::CACHE_UNEVICTABLE, field("unevict_mb"));
        let has_cache = self.mounts.values().any(|mount| mount.cache.is_some());
        let reclaims = self.sums.reclaims.iter().next().map(|(_, count)| count);
        self.one(&m::CACHE_RECLAIMS, reclaims.filter(|_| has_cache));
        self.of_mounts(&m::UNSTABLE_PAGES, |mount| mount.unstable_pages);
        let has_statahead = self.mounts.values().any(|mount| mount.has.statahead);
        let statahead = self.sums.statahead.iter().filter(|_| has_statahead);
        for (event, count) in statahead.take(MOST_NAMES) {
            self.out.u64(&m::STATAHEAD_EVENTS, &[self.fs, event], count);
        }
    }

    /// All targets of all mounts, MDTs first in each.
    fn all_targets(&self) -> impl Iterator<Item = &Target> {
        self.mounts.values().flat_map(|mount| mount.targets.values())
    }

    pub(super) fn targets(&mut self) {
        for kind in TargetKind::ALL {
            for state in TargetState::all() {
                let is_one = |target: &&Target| target.kind == kind && target.state == state;
                let count = self.all_targets().filter(is_one).count() as u64;
                self.out
                    .u64(&m::TARGETS_STATE, &[self.fs, kind.word(), state.word()], count);
            }
        }
        // Of a target of several mounts, the first unhealthy one.
        let mut faulty: BTreeMap<&str, (&'static str, &str)> = BTreeMap::new();
        let mut of_server: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for target in self.mounts.values().flat_map(|mount| mount.targets.values()) {
            let server = target.import.as_ref().map_or("", |import| &import.server);
            if target.state != TargetState::Deactivated {
                of_server.entry(server).or_default().insert(&target.name);
            }
            if target.state.is_faulty() {
                faulty
                    .entry(&target.name)
                    .or_insert((target.state.word(), server));
            }
        }
        let mut faulty_of: BTreeMap<&str, usize> = BTreeMap::new();
        for (_, server) in faulty.values().filter(|(_, server)| !server.is_empty()) {
            *faulty_of.entry(server).or_default() += 1;
        }
        let all_of = |server: &str| of_server.get(server).map_or(0, BTreeSet::len);
        // A server without any connection needs the name of one target only.
        let is_down = |server: &str| {
            let down = faulty_of.get(server).copied().unwrap_or_default();
            down >= 2 && down >= all_of(server)
        };
        let mut shown = BTreeSet::new();
        let (mut named, late): (Vec<_>, Vec<_>) = faulty
            .iter()
            .partition(|(_, (_, server))| !is_down(server) || shown.insert(*server));
        named.sort_by_key(|(_, (_, server))| !is_down(server));
        named.extend(late);
        named.truncate(MOST_FAULTY);
        named.sort_unstable();
        for (target, (state, server)) in named {
            self.out
                .u64(&m::TARGET_STATE, &[self.fs, target, state, server], 1);
        }
        for (server, count) in &faulty_of {
            let labels = [self.fs, server];
            self.out.u64(&m::SERVER_TARGETS, &labels, all_of(server) as u64);
            self.out.u64(&m::SERVER_FAULTY, &labels, *count as u64);
        }
        let has_history = self.has(|has| has.history);
        for (metric, value) in [
            (&m::EVICTIONS, self.sums.evictions),
            (&m::DISCONNECTS, self.sums.disconnects),
            (&m::LAST_EVICTION, self.sums.last_eviction),
        ] {
            self.one(metric, value.filter(|_| has_history));
        }
        let has_import = self.all_targets().any(|target| target.import.is_some());
        for (metric, value) in [
            (&m::CONNECTION_ATTEMPTS, self.sums.attempts),
            (&m::RPC_TIMEOUTS, self.sums.timeouts),
        ] {
            self.one(metric, value.filter(|_| has_import));
        }
        for kind in TargetKind::ALL {
            let of_kind = self.all_targets().filter(|target| target.kind == kind);
            let in_flight = sum(of_kind.map(|target| target.import.as_ref()?.in_flight));
            self.out
                .maybe_u64(&m::REQUESTS_IN_FLIGHT, &[self.fs, kind.word()], in_flight);
        }
        let is_open = |target: &&Target| target.state == TargetState::Import(ImportState::Full);
        let oldest = self
            .all_targets()
            .filter(is_open)
            .filter_map(|t| t.gauges.reply_age)
            .max();
        self.one(&m::LAST_REPLY_AGE, oldest);
    }

    pub(super) fn requests(&mut self) {
        let old = Totals::default();
        let rpcs = if self.has(|has| has.rpcs) {
            &self.sums.rpcs
        } else {
            &old
        };
        for (direction, row) in [("read", "read_bytes"), ("write", "write_bytes")] {
            self.out
                .maybe_u64(&m::RPC_BYTES, &[self.fs, direction], rpcs.sum(row));
        }
        let opcodes = rpcs.rows().filter(|(name, _)| !NO_OPCODES.contains(name));
        for (opcode, total) in opcodes.take(MOST_NAMES) {
            self.out.u64(&m::RPCS_BY_OPCODE, &[self.fs, opcode], total.count);
            if let Some(time) = total.sum.and_then(|sum| seconds(sum, total.unit)) {
                self.out.f64(&m::RPC_SECONDS, &[self.fs, opcode], time);
            }
        }
        type Of = fn(&TargetGauges) -> Option<&BTreeMap<Direction, u64>>;
        let maps: [(&'static Metric, Of); 2] = [
            (&m::RPCS_IN_FLIGHT, |gauges| gauges.in_flight.as_ref()),
            (&m::PENDING_PAGES, |gauges| gauges.pending.as_ref()),
        ];
        for (metric, of) in maps {
            for direction in Direction::ALL {
                let have = self.all_targets().filter_map(|target| of(&target.gauges));
                let values: Vec<u64> = have.filter_map(|map| map.get(&direction).copied()).collect();
                // A file of a target that was not read may have had one.
                let osts = self.all_targets().filter(|target| target.kind == TargetKind::Ost);
                let is_whole = osts.map(|target| of(&target.gauges)).all(|map| map.is_some());
                if is_whole && !values.is_empty() {
                    let total = sum(values.into_iter().map(Some));
                    self.out.maybe_u64(metric, &[self.fs, direction.word()], total);
                }
            }
        }
        let old = Counts::default();
        let tables = if self.has(|has| has.tables) {
            &self.sums.tables
        } else {
            &old
        };
        for ((table, direction, row), count) in tables.iter().take(4 * MOST_NAMES) {
            let metric = match table {
                Table::Pages => &m::PAGES_PER_RPC,
                Table::InFlight => &m::RPCS_WITH_OTHERS,
            };
            let labels = [self.fs, direction.word(), &row.to_string()];
            self.out.u64(metric, &labels, count);
        }
        let has_latencies = self.has(|has| has.latencies);
        let latencies = self.sums.latencies.iter().filter(|_| has_latencies);
        for ((direction, size, latency), count) in latencies.take(4 * MOST_NAMES) {
            let labels = [self.fs, direction.word(), size, latency];
            self.out.u64(&m::IO_LATENCY, &labels, count);
        }
    }

    pub(super) fn space(&mut self) {
        type Of = fn(&TargetGauges) -> Option<u64>;
        let of_osts: [(&'static Metric, Of); 3] = [
            (&m::DIRTY_BYTES, |gauges| gauges.dirty),
            (&m::GRANT_BYTES, |gauges| gauges.grant),
            (&m::LOST_GRANT_BYTES, |gauges| gauges.lost_grant),
        ];
        for (metric, of) in of_osts {
            let osts = self.all_targets().filter(|target| target.kind == TargetKind::Ost);
            let total = sum(osts.map(|target| of(&target.gauges)));
            self.one(metric, total);
        }
        let locks = sum(self.all_targets().map(|target| target.gauges.locks));
        self.one(&m::LOCKS, locks);
        let unused = sum(self.all_targets().map(|target| target.gauges.unused_locks));
        self.one(&m::UNUSED_LOCKS, unused);
    }

    /// Figures of each target, where they are shown: its state in the first mount that has it, and sums over all mounts.
    pub(super) fn each_target(&mut self, room: TargetRoom) {
        let Some(sums) = &self.sums.targets else { return };
        let mut bytes = 0;
        let mut shown: BTreeMap<&str, Vec<&Target>> = BTreeMap::new();
        for target in self.mounts.values().flat_map(|mount| mount.targets.values()) {
            shown.entry(&target.name).or_default().push(target);
        }
        for (name, targets) in shown {
            let Some(first) = targets.first() else { continue };
            let server = first.import.as_ref().map_or("", |import| &import.server);
            let state = first.state.word();
            // The longest of its words for a direction has 5 bytes.
            bytes += OF_TARGET * (self.fs.len() + name.len() + 5) + state.len() + server.len();
            if self.out.values().len() + OF_TARGET > room.series || bytes > room.bytes {
                self.out.refuse(OF_TARGET as u64);
                continue;
            }
            self.out.info(&m::TARGET_INFO, &[self.fs, name, state, server]);
            let sums = sums.get(name);
            let rpcs = sums.map(|sums| &sums.rpcs);
            let rpcs = rpcs.filter(|_| targets.iter().any(|target| target.has.rpcs));
            for (direction, row) in [("read", "read_bytes"), ("write", "write_bytes")] {
                let labels = [self.fs, name, direction];
                let bytes = rpcs.and_then(|rpcs| rpcs.sum(row));
                self.out.maybe_u64(&m::TARGET_RPC_BYTES, &labels, bytes);
            }
            let imports = || targets.iter().map(|target| target.import.as_ref());
            let has_timeouts = imports().flatten().any(|import| import.timeouts.is_some());
            let timeouts = sums.and_then(|sums| sums.timeouts).filter(|_| has_timeouts);
            self.out
                .maybe_u64(&m::TARGET_TIMEOUTS, &[self.fs, name], timeouts);
            let in_flight = sum(imports().map(|import| import?.in_flight));
            self.out
                .maybe_u64(&m::TARGET_IN_FLIGHT, &[self.fs, name], in_flight);
        }
    }
}
