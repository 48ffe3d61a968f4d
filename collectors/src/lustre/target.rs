//! One target of a mount: an MDT or OST, and the client's connection to it.

use std::collections::BTreeMap;

use super::fields;
use super::files::{LustreFiles, Place, Reason};
use super::import::{self, Import};
use super::io_latency;
use super::name::TargetKind;
use super::rpc_stats::{self, Direction, RpcStats};
use super::sources::{
    DIRTY, GRANT, IMPORT, IO_LATENCY, LOCKS, LOST_GRANT, LustreSource, MD_STATS, MDC_RPC_STATS, RPC_STATS,
    STATE, TARGET_STATS, TIMEOUTS, UNUSED_LOCKS,
};
use super::state::{self, Change, ImportState};
use super::stats;
use super::sums::Sums;
use super::totals::{Last, LastCounts, Rows};

/// The state of a target as it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TargetState {
    /// The state of its connection.
    Import(ImportState),
    /// An administrator has switched it off.
    Deactivated,
    /// Its files cannot be read.
    Unreadable,
}

impl TargetState {
    /// All that a target may have.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        let imports = ImportState::ALL.into_iter().map(Self::Import);
        imports.chain([Self::Deactivated, Self::Unreadable])
    }

    /// The value of the label `state`.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Import(state) => state.word(),
            Self::Deactivated => "deactivated",
            Self::Unreadable => "unreadable",
        }
    }

    /// Whether programs that need this target have to wait.
    pub(super) const fn is_faulty(self) -> bool {
        matches!(self, Self::Import(state) if !state.is_healthy())
    }
}

/// Values that go up and down, of the last reading of each file.
#[derive(Clone, Debug, Default)]
pub(super) struct TargetGauges {
    pub(super) dirty: Option<u64>,
    pub(super) grant: Option<u64>,
    pub(super) lost_grant: Option<u64>,
    pub(super) locks: Option<u64>,
    pub(super) unused_locks: Option<u64>,
    pub(super) reply_age: Option<u64>,
    pub(super) in_flight: Option<BTreeMap<Direction, u64>>,
    pub(super) pending: Option<BTreeMap<Direction, u64>>,
}

/// The counters that the last reading of each file had. Others are not shown: their sums would be old.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TargetCounters {
    pub(super) history: bool,
    pub(super) rpcs: bool,
    pub(super) md: bool,
    pub(super) tables: bool,
    pub(super) latencies: bool,
}

/// One target.
#[derive(Debug)]
pub(super) struct Target {
    /// `scratch-OST0003`
    pub(super) name: String,
    pub(super) kind: TargetKind,
    device: String,
    pub(super) state: TargetState,
    pub(super) import: Option<Import>,
    pub(super) gauges: TargetGauges,
    pub(super) has: TargetCounters,
    /// Whether all its files have been read once.
    pub(super) is_known: bool,
    /// `import` was read, or tried, in this reading.
    has_import_now: bool,
    history: Option<Vec<Change>>,
    /// The change to EVICTED with which a target that was switched on again began: its server threw nothing out.
    reactivated: Option<Change>,
    attempts: Last,
    timeouts: Last,
    rows: Rows,
    own_rows: Rows,
    md_rows: Rows,
    tables: LastCounts<(rpc_stats::Table, Direction, u32)>,
    latencies: LastCounts<io_latency::LatencyRow>,
}

impl Target {
    pub(super) fn new(name: &str, kind: TargetKind, device: &str) -> Self {
        Self {
            name: name.to_owned(),
            kind,
            device: device.to_owned(),
            state: TargetState::Unreadable,
            import: None,
            gauges: TargetGauges::default(),
            has: TargetCounters::default(),
            is_known: false,
            has_import_now: false,
            history: None,
            reactivated: None,
            attempts: Last::default(),
            timeouts: Last::default(),
            rows: Rows::default(),
            own_rows: Rows::default(),
            md_rows: Rows::default(),
            tables: LastCounts::default(),
            latencies: LastCounts::default(),
        }
    }

    fn file<T>(
        &self,
        files: &mut LustreFiles,
        source: &'static LustreSource,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        let place = Place {
            subsystem: self.kind.subsystem(),
            device: &self.device,
        };
        files.read(source, place, parse)
    }

    /// Reads the state, which a target has in a short file.
    pub(super) fn read_state(&mut self, files: &mut LustreFiles, sums: &mut Sums) {
        let file = self.file(files, &STATE, state::parse);
        self.has.history = file.is_some();
        self.has_import_now = false;
        let state = match file {
            Some(file) => {
                self.count_changes(file.history, sums);
                Some(file.state)
            }
            None => {
                self.read_import(files, sums);
                self.import.as_ref().and_then(|import| import.state)
            }
        };
        self.set_state(state);
    }

    fn set_state(&mut self, state: Option<ImportState>) {
        let is_off = self.import.as_ref().is_some_and(|import| import.is_deactivated);
        self.state = match state {
            None => TargetState::Unreadable,
            Some(state) if is_off && !state.is_healthy() => TargetState::Deactivated,
            Some(state) => TargetState::Import(state),
        };
    }

    /// Counts what happened since the last reading. Earlier changes are no news: a restart of nodewarden must not look like
    /// an eviction.
    fn count_changes(&mut self, history: Vec<Change>, sums: &mut Sums) {
        let before = self.history.as_ref();
        let news = before.map_or(0, |before| state::news(before, &history));
        let seen = history.len() - news;
        if self.state == TargetState::Deactivated {
            // The client marks its own import so when it connects again (ptlrpc_connect_interpret in ptlrpc/import.c).
            let own = history.iter().skip(seen).find(|c| c.to == ImportState::Evicted);
            self.reactivated = own.copied().or(self.reactivated);
        }
        let of_server: Vec<Change> = history
            .iter()
            .map(|change| match self.reactivated {
                Some(own) if own == *change => Change {
                    to: ImportState::Connecting,
                    ..own
                },
                _ => *change,
            })
            .collect();
        sums.count_changes(&of_server, news);
        sums.see_history(&of_server);
        self.history = Some(history);
    }

    /// Reads `import`, and whether the target is switched off.
    pub(super) fn read_import(&mut self, files: &mut LustreFiles, sums: &mut Sums) {
        if std::mem::replace(&mut self.has_import_now, true) {
            return;
        }
        self.import = self.file(files, &IMPORT, import::parse);
        let Some(import) = &self.import else { return };
        sums.add_import(
            &self.name,
            import.attempts.map(|now| self.attempts.growth(now)),
            import.timeouts.map(|now| self.timeouts.growth(now)),
        );
        if let TargetState::Import(state) = self.state {
            self.set_state(Some(state));
        }
    }

    /// Reads all other files.
    pub(super) fn read_rest(&mut self, files: &mut LustreFiles, sums: &mut Sums) {
        self.is_known = true;
        self.read_import(files, sums);
        let place = Place {
            subsystem: self.kind.subsystem(),
            device: &self.device,
        };
        let stats = read_stats(files, &TARGET_STATS, place);
        self.has.rpcs = stats.is_some();
        if let Some(stats) = stats {
            sums.rpcs.add(&mut self.rows, &stats);
            if let Some(target) = sums.target(&self.name) {
                target.rpcs.add(&mut self.own_rows, &stats);
            }
        }
        if self.kind == TargetKind::Mdt {
            let stats = read_stats(files, &MD_STATS, place);
            self.has.md = stats.is_some();
            if let Some(stats) = stats {
                sums.md.add(&mut self.md_rows, &stats);
            }
        }
        self.gauges.reply_age = self.file(files, &TIMEOUTS, import::last_reply);
        let tables = match self.kind {
            TargetKind::Mdt => &MDC_RPC_STATS,
            TargetKind::Ost => &RPC_STATS,
        };
        let tables = self.file(files, tables, rpc_stats::parse);
        self.take_tables(tables, sums);
        if self.kind == TargetKind::Ost {
            let rows = self.file(files, &IO_LATENCY, |text| Some(io_latency::parse(text)));
            self.has.latencies = rows.is_some();
            if let Some(rows) = rows {
                sums.latencies.add(&mut self.latencies, rows);
            }
            self.gauges.dirty = self.file(files, &DIRTY, fields::number);
            self.gauges.grant = self.file(files, &GRANT, fields::number);
            self.gauges.lost_grant = self.file(files, &LOST_GRANT, fields::number);
        }
        let locks = Place {
            subsystem: "ldlm/namespaces",
            device: &self.device,
        };
        self.gauges.locks = files.read(&LOCKS, locks, fields::number);
        self.gauges.unused_locks = files.read(&UNUSED_LOCKS, locks, fields::number);
    }

    fn take_tables(&mut self, tables: Option<RpcStats>, sums: &mut Sums) {
        self.has.tables = tables.is_some();
        let Some(tables) = tables else {
            (self.gauges.in_flight, self.gauges.pending) = (None, None);
            return;
        };
        sums.tables.add(&mut self.tables, tables.rows);
        self.gauges.in_flight = Some(tables.in_flight);
        self.gauges.pending = Some(tables.pending);
    }
}

/// Reads a `stats` file; lines that are no rows are recorded.
pub(super) fn read_stats(
    files: &mut LustreFiles,
    source: &'static LustreSource,
    place: Place<'_>,
) -> Option<stats::Stats> {
    let stats = files.read(source, place, stats::parse)?;
    if stats.odd > 0 {
        files.fail(source, Reason::Malformed);
    }
    Some(stats)
}
