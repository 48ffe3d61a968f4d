//! The counters of NFS mounts in /proc/self/mountstats: what the client counts, without a question to a server.

use std::collections::BTreeMap;

use crate::mountinfo::unescaped;

/// Counters of one operation, since the mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) requests: u64,
    /// Transmissions; at least one for each request that was sent.
    pub(super) transmissions: u64,
    /// Transmissions beyond one for each request, of each operation.
    pub(super) retransmissions: u64,
    pub(super) timeouts: u64,
    /// Milliseconds between transmission and reply.
    pub(super) response_ms: u64,
    /// Milliseconds from queue to completion.
    pub(super) request_ms: u64,
    /// `None`: a kernel before 5.3.
    pub(super) errors: Option<u64>,
}

impl Counts {
    fn add(&mut self, other: &Self) {
        self.requests = self.requests.saturating_add(other.requests);
        self.transmissions = self.transmissions.saturating_add(other.transmissions);
        self.retransmissions = self.retransmissions.saturating_add(other.retransmissions);
        self.timeouts = self.timeouts.saturating_add(other.timeouts);
        self.response_ms = self.response_ms.saturating_add(other.response_ms);
        self.request_ms = self.request_ms.saturating_add(other.request_ms);
        self.errors = self.errors.zip(other.errors).map(|(a, b)| a.saturating_add(b));
    }
}

/// The retransmissions that were shown. The kernel counts requests and transmissions together and does not read them so
/// (net/sunrpc/stats.c, `rpc_clnt_show_stats()`): their difference may be one too large, and may not go back afterwards.
#[derive(Debug, Default)]
pub(super) struct Retransmissions {
    /// By mount and operation, those above 0: counts, and the number shown.
    shown: BTreeMap<(String, String, String), (Counts, u64)>,
    before: BTreeMap<(String, String, String), (Counts, u64)>,
}

impl Retransmissions {
    /// A reading begins: mounts that it does not have are forgotten.
    pub(super) fn begin(&mut self) {
        self.before = std::mem::take(&mut self.shown);
    }

    /// The number to show for an operation of a mount; for all of them, `operation` is empty.
    pub(super) fn of(&mut self, mount: &NfsMount<'_>, operation: &str, now: &Counts) -> u64 {
        let key = (mount.source.clone(), mount.point.clone(), operation.to_owned());
        let last = self
            .before
            .get(&key)
            .filter(|(last, _)| now.requests >= last.requests && now.transmissions >= last.transmissions);
        let shown = last.map_or(0, |(_, shown)| *shown).max(now.retransmissions);
        if shown > 0 {
            self.shown.insert(key, (*now, shown));
        }
        shown
    }
}

/// The counters of one mount.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NfsMount<'a> {
    /// `server:/export`.
    pub(super) source: String,
    pub(super) point: String,
    /// Bytes read from and written to the server.
    pub(super) bytes: Option<(u64, u64)>,
    /// Operations that were used, by name.
    pub(super) operations: Vec<(&'a str, Counts)>,
}

impl NfsMount<'_> {
    /// The sum over all operations. `None`: no operation could be read.
    pub(super) fn all(&self) -> Option<Counts> {
        let (_, first) = self.operations.first()?;
        let mut sum = *first;
        for (_, counts) in self.operations.iter().skip(1) {
            sum.add(counts);
        }
        Some(sum)
    }
}

/// The NFS mounts of the text. A line that cannot be read hides no other one.
pub(super) fn mounts(text: &str) -> Vec<NfsMount<'_>> {
    let mut all: Vec<NfsMount<'_>> = Vec::new();
    let mut is_nfs = false;
    for line in text.lines() {
        if let Some((source, point, fstype)) = device(line) {
            is_nfs = matches!(fstype, "nfs" | "nfs4");
            if is_nfs {
                all.push(NfsMount {
                    source,
                    point,
                    ..NfsMount::default()
                });
            }
        } else if let (true, Some(mount)) = (is_nfs, all.last_mut()) {
            let Some((name, values)) = line.trim_start().split_once(':') else {
                continue;
            };
            if name == "bytes" {
                mount.bytes = bytes(values);
            } else if let Some(counts) = counts(values).filter(|_| is_operation(name)) {
                mount.operations.push((name, counts));
            }
        }
    }
    all
}

/// `device nas:/home mounted on /home with fstype nfs4 statvers=1.1`.
fn device(line: &str) -> Option<(String, String, &str)> {
    let rest = line
        .strip_prefix("device ")
        .or_else(|| line.strip_prefix("no device "))?;
    let (source, rest) = rest.split_once("mounted on ")?;
    let (point, rest) = rest.rsplit_once(" with fstype ")?;
    let fstype = rest.split(' ').next()?;
    Some((unescaped(source.trim_end()), unescaped(point), fstype))
}

fn is_operation(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
}

/// Fields: normal read, normal write, direct read, direct write, read from server, written to server, pages.
fn bytes(values: &str) -> Option<(u64, u64)> {
    let mut fields = values.split_whitespace().skip(4);
    let read = fields.next()?.parse().ok()?;
    let written = fields.next()?.parse().ok()?;
    Some((read, written))
}

/// Fields: requests, transmissions, major time-outs, bytes sent, bytes received, milliseconds in the queue, until the reply,
/// in all, and errors since Linux 5.3. `None`: not read, or never used.
fn counts(values: &str) -> Option<Counts> {
    let fields: Vec<u64> = values
        .split_whitespace()
        .map_while(|field| field.parse().ok())
        .collect();
    let [
        requests,
        transmissions,
        timeouts,
        _,
        _,
        _,
        response_ms,
        request_ms,
        rest @ ..,
    ] = fields.as_slice()
    else {
        return None;
    };
    (*requests > 0 || *transmissions > 0).then(|| Counts {
        requests: *requests,
        transmissions: *transmissions,
        retransmissions: transmissions.saturating_sub(*requests),
        timeouts: *timeouts,
        response_ms: *response_ms,
        request_ms: *request_ms,
        errors: rest.first().copied(),
    })
}

/// Any bytes: no panic.
pub(crate) fn check(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for mount in mounts(&text) {
        assert_eq!(mount.all().is_some(), !mount.operations.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &str = "device proc mounted on /proc with fstype proc\n\
device nas:/home mounted on /home\\040dir with fstype nfs4 statvers=1.1\n\
\topts:\trw,vers=4.2,hard\n\
\tage:\t120\n\
\tbytes:\t9 8 0 0 4096 2048 1 1 \n\
\tRPC iostats version: 1.1  p/v: 100003/4 (nfs)\n\
\txprt:\ttcp 822 0 2 0 10 66 66 0 66 0 2 66 0\n\
\tper-op statistics\n\
\t        NULL: 0 0 0 0 0 0 0 0 0\n\
\t        READ: 10 12 1 1640 5000 7 900 1000 2\n\
\t       WRITE: 5 5 0 8888 600 1 50 60 0\n\
device /dev/sda1 mounted on / with fstype ext4\n\
\t        READ: 9 9 9 9 9 9 9 9 9\n";

    #[test]
    fn each_operation_that_was_used_has_its_counts() {
        let all = mounts(TEXT);
        assert_eq!(all.len(), 1);
        let home = &all[0];
        assert_eq!(home.source, "nas:/home");
        assert_eq!(
            (home.point.as_str(), home.bytes),
            ("/home dir", Some((4096, 2048)))
        );
        let names: Vec<&str> = home.operations.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["READ", "WRITE"]);
        // The kernel reads its counters one after the other: more requests than transmissions hide none of another operation.
        let odd = TEXT.replace("WRITE: 5 5", "WRITE: 5 4");
        assert_eq!(mounts(&odd)[0].all().unwrap().retransmissions, 2);
        let sum = home.all().unwrap();
        assert_eq!((sum.requests, sum.retransmissions, sum.timeouts), (15, 2, 1));
        assert_eq!(
            (sum.response_ms, sum.request_ms, sum.errors),
            (950, 1060, Some(2))
        );
    }

    /// As READ is read between its two counters.
    #[test]
    fn a_difference_of_two_counters_does_not_go_back() {
        let mut shown = Retransmissions::default();
        let mut read = |requests: u64, transmissions: u64| {
            let text = TEXT.replace("READ: 10 12", &format!("READ: {requests} {transmissions}"));
            let all = mounts(&text);
            shown.begin();
            let sum = shown.of(&all[0], "", &all[0].all().unwrap());
            (sum, shown.of(&all[0], "READ", &all[0].operations[0].1))
        };
        assert_eq!(read(100, 150), (50, 50));
        assert_eq!(read(100, 151), (51, 51), "one request has ended between the two");
        assert_eq!(read(101, 151), (51, 51));
        assert_eq!(read(110, 162), (52, 52));
        assert_eq!(read(10, 12), (2, 2), "it was mounted again");
    }

    #[test]
    fn a_kernel_before_5_3_counts_no_errors() {
        let old = TEXT.replace(" 1000 2\n", " 1000\n").replace(" 60 0\n", " 60\n");
        assert_eq!(mounts(&old)[0].all().unwrap().errors, None);
    }

    #[test]
    fn a_line_that_cannot_be_read_hides_no_other_one() {
        let odd = TEXT.replace("READ: 10 12", "READ: ten 12");
        let names: Vec<&str> = mounts(&odd)[0].operations.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["WRITE"]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken(data in proptest::collection::vec(any::<u8>(), 0..300)) {
            check(&data);
        }
    }
}
