//! Storage of other hosts: net/sunrpc/clnt.c, fs/nfs/nfs4state.c, fs/lockd, Lustre's ptlrpc and ldlm, LNet.

use super::form::{at, lustre};
use super::{Ends, Meaning, ROW, Row};
use crate::SubjectKind::Server;

const fn fault(ends: Ends) -> Meaning {
    Meaning::Fault {
        check: "storage-server",
        ends,
    }
}

pub(super) static ROWS: &[Row] = &[
    Row {
        id: "nfs-not-responding",
        what: "an NFS server does not respond",
        about: Server,
        meaning: fault(Ends::Answer),
        forms: &[at("nfs: server <> not responding, still trying")],
        ..ROW
    },
    Row {
        id: "nfs-locks-not-responding",
        what: "the lock service of an NFS server does not respond",
        about: Server,
        meaning: fault(Ends::Line),
        forms: &[
            at("lockd: server <> not responding, still trying"),
            at("statd: server <> not responding, still trying"),
        ],
        ..ROW
    },
    // A soft mount: the program got an error, and no line follows when the server is back.
    Row {
        id: "nfs-timed-out",
        what: "an NFS server did not respond in time",
        about: Server,
        meaning: fault(Ends::Quiet(1)),
        forms: &[
            at("nfs: server <> not responding, timed out"),
            at("lockd: server <> not responding, timed out"),
        ],
        ..ROW
    },
    Row {
        id: "nfs-ok",
        what: "an NFS server responds again",
        about: Server,
        meaning: Meaning::AllClear(&["nfs-not-responding", "nfs-locks-not-responding", "nfs-timed-out"]),
        forms: &[
            at("nfs: server <> OK"),
            at("lockd: server <> OK"),
            at("statd: server <> OK"),
        ],
        ..ROW
    },
    Row {
        id: "nfs-state-lost",
        what: "locks or open files of an NFS server were lost",
        about: Server,
        meaning: fault(Ends::Quiet(6)),
        forms: &[
            at("NFS: *Lock reclaim failed"),
            at("NFS: state manager: reclaim * failed on NFSv4 server <> with error "),
            at("NFS: nfs4_reclaim_open_state: unhandled error"),
        ],
        ..ROW
    },
    // Such as a Kerberos key of the node that has expired. The client tries again.
    Row {
        id: "nfs-not-renewed",
        what: "an NFSv4 client could not renew its state with a server",
        about: Server,
        meaning: fault(Ends::Quiet(6)),
        forms: &[at("NFS: state manager* failed on NFSv4 server <> with error ")],
        ..ROW
    },
    // Only mounts and changes of the configuration need that server. No reading shows its connection.
    Row {
        id: "lustre-mgs-lost",
        what: "the connection to a Lustre management server was lost",
        about: Server,
        meaning: fault(Ends::Quiet(1)),
        forms: &[lustre(
            "<>: Connection to MGS (at * was lost; in progress operations ",
        )],
        ..ROW
    },
    // The client then deactivates the target itself (2.17 and builds of vendors), as an administrator may.
    Row {
        id: "lustre-denied",
        what: "a Lustre server refused this client",
        about: Server,
        meaning: fault(Ends::Answer),
        forms: &[lustre("<>: connection denied by ")],
        ..ROW
    },
    Row {
        id: "lustre-lost",
        what: "the connection to a Lustre target was lost",
        about: Server,
        meaning: fault(Ends::Answer),
        forms: &[lustre("<>: Connection to * was lost; in progress operations ")],
        ..ROW
    },
    Row {
        id: "lustre-evicted",
        what: "a Lustre server evicted this client",
        about: Server,
        meaning: fault(Ends::Quiet(6)),
        forms: &[
            lustre("<>: This client was evicted by "),
            lustre("This client was evicted by <>;"),
        ],
        ..ROW
    },
    Row {
        id: "lustre-restored",
        what: "the connection to a Lustre target is back",
        about: Server,
        meaning: Meaning::AllClear(&["lustre-lost", "lustre-mgs-lost", "lustre-denied"]),
        forms: &[lustre("<>: Connection restored to ")],
        ..ROW
    },
    Row {
        id: "lustre-request",
        what: "a request to a Lustre server failed",
        forms: &[
            lustre("@@@ Request sent has failed due to network error"),
            lustre("@@@ Request sent has timed out for "),
            lustre("*: operation * to node * failed: rc = "),
        ],
        ..ROW
    },
    Row {
        id: "lnet-timeout",
        what: "LNet does not reach a peer",
        meaning: fault(Ends::Quiet(6)),
        about: Server,
        forms: &[
            lustre("Timed out tx for <>: % seconds"),
            lustre("Timed out RDMA with <> (%)"),
            lustre("Timed out tx: "),
            lustre("Timeout error while writing to <>"),
            lustre("There was an unexpected network error while writing to <>"),
        ],
        ..ROW
    },
];
