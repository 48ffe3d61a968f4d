//! The list of filesystems as a device of its own: files of /proc that never wait for a server.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::metrics::{
    INFO, NFS_ERRORS, NFS_EXECUTION, NFS_OPERATION_EXECUTION, NFS_OPERATION_REQUESTS,
    NFS_OPERATION_RETRANSMISSIONS, NFS_OPERATION_RTT, NFS_READ_BYTES, NFS_REQUESTS, NFS_RETRANSMISSIONS,
    NFS_RTT, NFS_TIMEOUTS, NFS_WRITE_BYTES, OMITTED, READ_ONLY,
};
use super::nfs::{self, NfsMount, Retransmissions};
use super::table::{self, Filesystem};
use crate::block::{MAX_LABEL_BYTES, MAX_SERIES, Value};
use crate::sys::root;
use crate::{Block, Device, Env, Error, Subject, mountinfo};

/// NFS has 5 KiB of counters for each of its mounts.
const MOST_STATS: u64 = 16 << 20;

/// Limits of filesystems that are listed, and of the bytes of their labels: users can mount, and the probes need room for their
/// own series.
const MOST_LISTED: usize = 256;
const MOST_LABELS: usize = 256 << 10;

/// Series of an NFS mount, and of each of its operations.
const TOTALS: usize = 8;
const OPERATION: usize = 4;
/// Series that probes need, and bytes of their labels.
const PROBES: usize = 1000;
const PROBE_BYTES: usize = 96 << 10;

/// The filesystems of the node, and how many are left out because of the limits. In another tree than the kernel's own, those that this
/// process does not see are listed and never probed: the same path may be another filesystem here.
///
/// # Errors
/// When the list of this process cannot be read, or the tree has none.
pub(super) fn read(env: &Env, excluded: &[String]) -> Result<(Vec<Filesystem>, u64), Error> {
    let of_self = mountinfo::read(&env.path("/proc/self"))?;
    // With hidepid, process 1 is not there.
    let node = mountinfo::read(&env.path("/proc/1")).ok().flatten();
    // A recording has only the node's list, or none.
    let node = match node.as_ref().or(of_self.as_ref()) {
        Some(node) => node,
        None if env.is_live() => return Err(Error::NotRecorded("mountinfo")),
        None => return Ok((Vec::new(), 0)),
    };
    let own = if env.is_live() {
        mountinfo::read("/proc/self".as_ref())?.unwrap_or_default()
    } else {
        of_self.as_ref().unwrap_or(node).clone()
    };
    let all = table::filesystems(node, &own, excluded);
    Ok(within_limits(all))
}

fn within_limits(mut all: Vec<Filesystem>) -> (Vec<Filesystem>, u64) {
    let labels = |f: &Filesystem| 2 * f.point.len() + f.fstype.len() + f.source.len();
    let mut room = MOST_LABELS;
    let fits = |f: &&Filesystem| {
        let rest = room.checked_sub(labels(f));
        room = rest.unwrap_or_default();
        rest.is_some()
    };
    let listed = all.iter().take(MOST_LISTED).take_while(fits).count();
    let omitted = all.len() - listed;
    all.truncate(listed);
    (all, omitted as u64)
}

/// The device.
pub(super) struct List {
    env: Env,
    subject: Subject,
    excluded: Arc<[String]>,
    /// How many filesystems have no probe because of the limit.
    above_limit: Arc<Mutex<u64>>,
    retransmissions: Retransmissions,
}

impl List {
    pub(super) fn new(env: &Env, excluded: &Arc<[String]>, above_limit: &Arc<Mutex<u64>>) -> Self {
        Self {
            env: env.clone(),
            subject: Subject::node(),
            excluded: Arc::clone(excluded),
            above_limit: Arc::clone(above_limit),
            retransmissions: Retransmissions::default(),
        }
    }
}

impl Device for List {
    fn subject(&self) -> &Subject {
        &self.subject
    }

    fn read(&mut self, out: &mut Block) -> Result<(), Error> {
        let (found, unlisted) = read(&self.env, &self.excluded)?;
        for f in &found {
            let name = table::name(&f.point);
            out.info(&INFO, &[&name, &f.fstype, &f.source, f.class.word()]);
            out.u64(&READ_ONLY, &[&name], u64::from(f.is_read_only));
        }
        let hidden = found.iter().filter(|f| !f.is_visible).count() as u64;
        let above = *self.above_limit.lock().unwrap_or_else(PoisonError::into_inner);
        let of_users = found.iter().filter(|f| f.is_visible && f.is_of_a_user).count() as u64;
        let of_kerberos = found.iter().filter(|f| f.is_visible && f.needs_ticket).count() as u64;
        out.u64(&OMITTED, &["hidden"], hidden);
        out.u64(&OMITTED, &["kerberos"], of_kerberos);
        out.u64(&OMITTED, &["limit"], above);
        out.u64(&OMITTED, &["unlisted"], unlisted);
        out.u64(&OMITTED, &["user"], of_users);
        let stats = root::read_lossy_within(&self.env.path("/proc/self/mountstats"), MOST_STATS);
        // The list of mounts is complete without it.
        let stats = stats.unwrap_or_else(|error| {
            out.incomplete(&error);
            None
        });
        let stats = stats.unwrap_or_default();
        let all = nfs::mounts(&stats);
        let name = |m: &NfsMount<'_>| (m.source.clone(), m.point.clone());
        // Of two mounts at one point the later one covers the other.
        let last: BTreeMap<(String, String), usize> = all.iter().map(name).zip(0..).collect();
        self.retransmissions.begin();
        // Bind mounts of one filesystem repeat its counters.
        let is_found = |mount: &NfsMount<'_>| {
            let mut found = found.iter();
            found.any(|f| f.point == mount.point && f.source == mount.source)
        };
        let shown = all.iter().enumerate();
        let shown = shown.filter(|(at, mount)| last.get(&name(mount)) == Some(at) && is_found(mount));
        let shown: Vec<&NfsMount<'_>> = shown.map(|(_, mount)| mount).collect();
        let bytes =
            |f: &Filesystem| 2 * f.point.len() + f.fstype.len() + f.source.len() + f.class.word().len();
        let mut room = Room {
            bytes: found.iter().map(bytes).sum(),
        };
        for mount in &shown {
            show(mount, &mut self.retransmissions, &mut room, out);
        }
        for mount in shown {
            show_operations(mount, &mut self.retransmissions, &mut room, out);
        }
        Ok(())
    }
}

/// What the counters of NFS may take: the probes come later, and need series too.
struct Room {
    /// Bytes of labels so far.
    bytes: usize,
}

impl Room {
    /// Whether this many series with these labels have room; else they are counted as refused.
    fn has(&mut self, series: usize, labels: &[&str], out: &mut Block) -> bool {
        self.bytes += series * labels.iter().map(|label| label.len()).sum::<usize>();
        let is_left =
            out.values().len() + series <= MAX_SERIES - PROBES && self.bytes <= MAX_LABEL_BYTES - PROBE_BYTES;
        if !is_left {
            out.refuse(series as u64);
        }
        is_left
    }
}

fn show(mount: &NfsMount<'_>, retransmissions: &mut Retransmissions, room: &mut Room, out: &mut Block) {
    let name = table::name(&mount.point);
    let labels = [name.as_str()];
    if !room.has(TOTALS, &labels, out) {
        return;
    }
    let all = mount.all();
    out.maybe_u64(&NFS_REQUESTS, &labels, all.map(|c| c.requests));
    let again = all.map(|c| retransmissions.of(mount, "", &c));
    out.maybe_u64(&NFS_RETRANSMISSIONS, &labels, again);
    out.maybe_u64(&NFS_TIMEOUTS, &labels, all.map(|c| c.timeouts));
    out.maybe_u64(&NFS_ERRORS, &labels, all.and_then(|c| c.errors));
    out.push(&NFS_RTT, &labels, seconds(all.map(|c| c.response_ms)));
    out.push(&NFS_EXECUTION, &labels, seconds(all.map(|c| c.request_ms)));
    out.maybe_u64(&NFS_READ_BYTES, &labels, mount.bytes.map(|b| b.0));
    out.maybe_u64(&NFS_WRITE_BYTES, &labels, mount.bytes.map(|b| b.1));
}

fn show_operations(
    mount: &NfsMount<'_>,
    retransmissions: &mut Retransmissions,
    room: &mut Room,
    out: &mut Block,
) {
    let name = table::name(&mount.point);
    for (operation, counts) in &mount.operations {
        let labels = [name.as_str(), *operation];
        if !room.has(OPERATION, &labels, out) {
            continue;
        }
        out.u64(&NFS_OPERATION_REQUESTS, &labels, counts.requests);
        let again = retransmissions.of(mount, operation, counts);
        out.u64(&NFS_OPERATION_RETRANSMISSIONS, &labels, again);
        out.push(&NFS_OPERATION_RTT, &labels, seconds(Some(counts.response_ms)));
        out.push(
            &NFS_OPERATION_EXECUTION,
            &labels,
            seconds(Some(counts.request_ms)),
        );
    }
}

#[expect(clippy::cast_precision_loss, reason = "2^53 ms are 285,000 years")]
fn seconds(ms: Option<u64>) -> Value {
    ms.map_or(Value::Absent, |ms| Value::F64(ms as f64 / 1000.0))
}
