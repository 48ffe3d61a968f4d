//! One mount of a filesystem, with its targets.

use std::collections::BTreeMap;

use super::fields;
use super::files::{LustreFiles, Place};
use super::name::{self, TargetKind};
use super::sources::{CACHE, LLITE_STATS, LMV_MD_STATS, READ_AHEAD, STATAHEAD, UNSTABLE};
use super::sums::Sums;
use super::target::{Target, TargetState, read_stats};
use super::totals::{LastCounts, Rows};

/// A reading takes at least this many targets, or a quarter of all, beyond their state: with 1,000 targets it would
/// otherwise read 9,000 files at once.
const LEAST_SHARE: usize = 64;
const SHARES: usize = 4;
/// Limit of unhealthy targets that are looked at closely and shown by name.
pub(super) const MOST_FAULTY: usize = 64;

/// The counters that the last reading of each file had. Others are not shown: their sums would be old.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MountCounters {
    pub(super) llite: bool,
    pub(super) read_ahead: bool,
    pub(super) statahead: bool,
    pub(super) lmv: bool,
}

/// One mount.
#[derive(Debug)]
pub(super) struct Mount {
    fs: String,
    /// 16 hexadecimal digits.
    pub(super) instance: String,
    pub(super) targets: BTreeMap<(TargetKind, String), Target>,
    /// The first target of the next share.
    next: usize,
    /// Fields of max_cached_mb; `None`: not read.
    pub(super) cache: Option<BTreeMap<String, u64>>,
    pub(super) unstable_pages: Option<u64>,
    pub(super) start: Option<f64>,
    pub(super) has: MountCounters,
    rows: Rows,
    read_ahead: Rows,
    md: Rows,
    statahead: LastCounts<String>,
    reclaims: LastCounts<()>,
}

impl Mount {
    pub(super) fn new(fs: &str, instance: &str) -> Self {
        Self {
            fs: fs.to_owned(),
            instance: instance.to_owned(),
            targets: BTreeMap::new(),
            next: 0,
            cache: None,
            unstable_pages: None,
            start: None,
            has: MountCounters::default(),
            rows: Rows::default(),
            read_ahead: Rows::default(),
            md: Rows::default(),
            statahead: LastCounts::default(),
            reclaims: LastCounts::default(),
        }
    }

    /// Reads its own files, the state of each target, and all files of a share of them. `devices` are the names in the
    /// folders of MDTs and OSTs.
    pub(super) fn read(&mut self, files: &mut LustreFiles, sums: &mut Sums, devices: [&[String]; 2]) {
        self.read_own(files, sums);
        self.list(devices);
        self.read_targets(files, sums);
        let mut mdts = self
            .targets
            .values()
            .filter(|target| target.kind == TargetKind::Mdt);
        self.has.lmv = false;
        if mdts.clone().next().is_some() && !mdts.any(|mdt| mdt.has.md) {
            let device = format!("{}-clilmv-{}", self.fs, self.instance);
            let place = Place {
                subsystem: "lmv",
                device: &device,
            };
            if let Some(stats) = read_stats(files, &LMV_MD_STATS, place) {
                self.has.lmv = true;
                sums.lmv.add(&mut self.md, &stats);
            }
        }
    }

    fn read_own(&mut self, files: &mut LustreFiles, sums: &mut Sums) {
        let device = format!("{}-{}", self.fs, self.instance);
        let place = Place {
            subsystem: "llite",
            device: &device,
        };
        let stats = read_stats(files, &LLITE_STATS, place);
        self.start = stats.as_ref().and_then(|stats| stats.start);
        self.has.llite = stats.is_some();
        if let Some(stats) = stats {
            sums.llite.add(&mut self.rows, &stats);
        }
        let stats = read_stats(files, &READ_AHEAD, place);
        self.has.read_ahead = stats.is_some();
        if let Some(stats) = stats {
            sums.read_ahead.add(&mut self.read_ahead, &stats);
        }
        let some = |text: &str| Some(fields::parse(text)).filter(|fields| !fields.is_empty());
        self.cache = files.read(&CACHE, place, some);
        if let Some(count) = self.cache.as_ref().and_then(|cache| cache.get("reclaim_count")) {
            sums.reclaims.add(&mut self.reclaims, [((), *count)]);
        }
        let unstable = files.read(&UNSTABLE, place, some);
        self.unstable_pages = unstable.and_then(|fields| fields.get("unstable_pages").copied());
        let fields = files.read(&STATAHEAD, place, some);
        self.has.statahead = fields.is_some();
        if let Some(fields) = fields {
            sums.statahead.add(&mut self.statahead, fields);
        }
    }

    /// Forgets targets that are gone, and adds new ones.
    fn list(&mut self, devices: [&[String]; 2]) {
        for (kind, devices) in TargetKind::ALL.into_iter().zip(devices) {
            let instance = &self.instance;
            let found: BTreeMap<&str, &String> = devices
                .iter()
                .filter_map(|device| Some((name::target(device, kind, instance)?, device)))
                .collect();
            self.targets
                .retain(|(of, name), _| *of != kind || found.contains_key(name.as_str()));
            for (name, device) in found {
                let key = (kind, name.to_owned());
                self.targets
                    .entry(key)
                    .or_insert_with(|| Target::new(name, kind, device));
            }
        }
    }

    fn read_targets(&mut self, files: &mut LustreFiles, sums: &mut Sums) {
        let count = self.targets.len();
        let share = count.div_ceil(SHARES).max(LEAST_SHARE);
        let mut faulty = 0;
        for (at, target) in self.targets.values_mut().enumerate() {
            target.read_state(files, sums);
            let after = (at + count - self.next.min(count)) % count;
            if !target.is_known || target.kind == TargetKind::Mdt || after < share {
                target.read_rest(files, sums);
            } else if target.state.is_faulty() || target.state == TargetState::Deactivated {
                faulty += 1;
                if faulty <= MOST_FAULTY {
                    target.read_import(files, sums);
                }
            }
        }
        self.next = if share >= count {
            0
        } else {
            (self.next + share) % count
        };
    }
}
