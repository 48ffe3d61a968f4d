//! The lustre collector's metrics. Figures of a filesystem are sums over its mounts and targets, so that their number does not
//! depend on the number of servers.

use crate::metric::{Kind, Metric, Tier, Unit};

const LLITE: &str = "llite.*.stats";
const READ_AHEAD: &str = "llite.*.read_ahead_stats";
const CACHE: &str = "llite.*.max_cached_mb";
const UNSTABLE: &str = "llite.*.unstable_stats";
const STATAHEAD: &str = "llite.*.statahead_stats";
const MD: &str = "mdc.*.md_stats, else lmv.*.md_stats";
const TARGETS: &str = "{osc,mdc}.*.state, import";
const IMPORTS: &str = "{osc,mdc}.*.import";
const HISTORY: &str = "{osc,mdc}.*.state";
const TIMES: &str = "{osc,mdc}.*.timeouts";
const RPCS: &str = "{osc,mdc}.*.stats";
const TABLES: &str = "{osc,mdc}.*.rpc_stats";
const LATENCY: &str = "osc.*.io_latency_stats";
const DIRTY: &str = "osc.*.cur_dirty_bytes";
const GRANT: &str = "osc.*.cur_grant_bytes, cur_lost_grant_bytes";
const LDLM: &str = "ldlm.namespaces.*.lock_count, lock_unused_count";
const MOUNT: &str = "llite.*, version, /proc/1/mountinfo";
const SYSTEM: &str = "health_check";
const LNET: &str = "lnet.stats";
const NIS: &str = "lnet.nis";
const PEERS: &str = "lnet.peers";
const OWN: &str = "nodewarden";

/// Declares one static per metric, and `METRICS` with all of them. A row: static, metric name, kind, unit, tier, labels,
/// source, help.
macro_rules! metrics {
    ($($name:ident $metric:literal $kind:ident $unit:ident $tier:ident [$($label:literal)*] $source:ident $help:literal;)*) => {
        $(
            #[doc = $help]
            pub static $name: Metric = Metric {
                name: $metric,
                kind: Kind::$kind,
                unit: Unit::$unit,
                labels: &[$($label,)*],
                help: $help,
                tier: Tier::$tier,
                source: $source,
                aliases: &[],
            };
        )*
        /// Every metric of this collector.
        pub static METRICS: &[&Metric] = &[$(&$name,)*];
    };
}

metrics! {
    CLIENT_INFO "lustre_client_info" Info None Core ["fs" "client" "mountpoint" "version"] MOUNT
        "A mount of a Lustre filesystem, with its instance, which is another after each mount, its mount point if only one is possible, and the release of the client.";
    READ_BYTES "lustre_client_read_bytes_total" Counter Bytes Core ["fs"] LLITE
        "Bytes that programs have read by system calls, from the page cache too, without mapped files.";
    WRITE_BYTES "lustre_client_write_bytes_total" Counter Bytes Core ["fs"] LLITE
        "Bytes that programs have written by system calls.";
    READ_SAMPLES "lustre_client_read_samples_total" Counter None Core ["fs"] LLITE
        "Read calls that have returned bytes.";
    WRITE_SAMPLES "lustre_client_write_samples_total" Counter None Core ["fs"] LLITE
        "Write calls that have written bytes.";
    CACHED_READ_BYTES "lustre_client_cached_read_bytes_total" Counter Bytes Core ["fs"] LLITE
        "Bytes read by system calls that were in the page cache, which Lustre counts after 2.17.";
    OTHER_BYTES "lustre_client_other_bytes_total" Counter Bytes Detail ["fs" "event"] LLITE
        "Bytes of other events of a mount, such as hybrid I/O and the persistent client cache.";
    OPS "lustre_client_ops_total" Counter None Core ["fs" "op"] LLITE
        "File operations of programs and other events of a mount, by operation.";
    OP_SECONDS "lustre_client_op_seconds_total" Counter Seconds Core ["fs" "op"] LLITE
        "Time that file operations have taken in seconds, by operation, which Lustre counts from 2.14 on.";
    START_TIME "lustre_client_stats_start_time_seconds" Gauge Seconds Detail ["fs"] LLITE
        "Time at which the oldest mount began to count as Unix time in seconds, which Lustre shows from 2.15 on.";
    MD_OPS "lustre_client_md_ops_total" Counter None Core ["fs" "op"] MD
        "Metadata operations that the client has asked servers for, by operation.";
    READAHEAD_HITS "lustre_client_readahead_hits_total" Counter None Core ["fs"] READ_AHEAD
        "Pages read that read-ahead had already fetched.";
    READAHEAD_MISSES "lustre_client_readahead_misses_total" Counter None Core ["fs"] READ_AHEAD
        "Pages read that read-ahead had not fetched.";
    READAHEAD_EVENTS "lustre_client_readahead_events_total" Counter None Detail ["fs" "event"] READ_AHEAD
        "Other events of read-ahead, in the spelling of Lustre 2.15.";
    CACHE_USED "lustre_client_cache_used_bytes" Gauge Bytes Core ["fs"] CACHE
        "Page cache that the client uses for a filesystem in bytes, in steps of 1 MiB.";
    CACHE_MAX "lustre_client_cache_max_bytes" Gauge Bytes Core ["fs"] CACHE
        "Limit of the page cache of a filesystem in bytes.";
    CACHE_RECLAIMS "lustre_client_cache_reclaims_total" Counter None Detail ["fs"] CACHE
        "Times at which pages were taken back because the limit of the page cache was reached.";
    CACHE_UNEVICTABLE "lustre_client_cache_unevictable_bytes" Gauge Bytes Detail ["fs"] CACHE
        "Page cache that cannot be taken back, such as locked memory, in bytes, which Lustre shows from 2.16 on.";
    UNSTABLE_PAGES "lustre_client_unstable_pages" Gauge None Core ["fs"] UNSTABLE
        "Pages sent to servers that have not yet stored them permanently.";
    STATAHEAD_EVENTS "lustre_client_statahead_events_total" Counter None Detail ["fs" "event"] STATAHEAD
        "Events of fetching attributes ahead of a program that lists a folder.";
    TARGETS_STATE "lustre_client_targets" Gauge None Core ["fs" "target_type" "state"] TARGETS
        "Targets of a filesystem by the state of their connection, where deactivated means switched off by an administrator, or by the client because the server refused it, and unreadable that the state is unknown.";
    TARGET_STATE "lustre_client_target_state" Gauge None Core ["fs" "target" "state" "server"] TARGETS
        "Targets whose connection is neither FULL nor IDLE, 1 each, with the state and the first nid of its servers, at most 64 in each filesystem.";
    SERVER_TARGETS "lustre_client_server_targets" Gauge None Private ["fs" "server"] IMPORTS
        "Targets that a server with an unhealthy one has, without deactivated ones.";
    SERVER_FAULTY "lustre_client_server_faulty_targets" Gauge None Private ["fs" "server"] IMPORTS
        "Targets of a server whose connection is neither FULL nor IDLE, also beyond the 64 that have a name.";
    EVICTIONS "lustre_client_evictions_total" Counter None Core ["fs"] HISTORY
        "Times at which a server has evicted this client since nodewarden began to read the filesystem.";
    DISCONNECTS "lustre_client_disconnects_total" Counter None Core ["fs"] HISTORY
        "Connections to targets that were lost since nodewarden began to read the filesystem, without those closed because they were idle.";
    LAST_EVICTION "lustre_client_last_eviction_timestamp_seconds" Gauge Seconds Core ["fs"] HISTORY
        "Unix time of the last eviction among the last 16 changes of each connection in seconds.";
    CONNECTION_ATTEMPTS "lustre_client_connection_attempts_total" Counter None Core ["fs"] IMPORTS
        "Connect requests to targets, including those after idle time.";
    RPC_TIMEOUTS "lustre_client_rpc_timeouts_total" Counter None Core ["fs"] IMPORTS
        "Requests to targets that timed out.";
    REQUESTS_IN_FLIGHT "lustre_client_requests_in_flight" Gauge None Core ["fs" "target_type"] IMPORTS
        "Requests of all kinds that have no reply yet.";
    LAST_REPLY_AGE "lustre_client_last_reply_age_seconds" Gauge Seconds Detail ["fs"] TIMES
        "Longest time since a target with an open connection has replied in seconds.";
    RPC_BYTES "lustre_client_rpc_bytes_total" Counter Bytes Core ["fs" "direction"] RPCS
        "Bytes transferred between client and servers by bulk requests, mapped files included.";
    RPCS_BY_OPCODE "lustre_client_rpcs_total" Counter None Core ["fs" "opcode"] RPCS
        "Requests that servers have answered, by opcode, where obd_ping are those of idle clients.";
    RPC_SECONDS "lustre_client_rpc_seconds_total" Counter Seconds Core ["fs" "opcode"] RPCS
        "Time from sending requests to their replies in seconds, by opcode.";
    RPCS_IN_FLIGHT "lustre_client_rpcs_in_flight" Gauge None Core ["fs" "direction"] TABLES
        "Bulk requests and modifying requests that have no reply yet.";
    PENDING_PAGES "lustre_client_pending_pages" Gauge None Detail ["fs" "direction"] TABLES
        "Pages that wait to be sent or asked for.";
    PAGES_PER_RPC "lustre_client_pages_per_rpc_total" Counter None Detail ["fs" "direction" "pages"] TABLES
        "Bulk requests by their number of pages, rounded up to a power of 2.";
    RPCS_WITH_OTHERS "lustre_client_rpcs_by_in_flight_total" Counter None Detail ["fs" "direction" "in_flight"] TABLES
        "Requests by the number of requests in flight to the target when they were sent.";
    IO_LATENCY "lustre_client_io_latency_total" Counter None Detail ["fs" "direction" "size" "latency"] LATENCY
        "Bulk requests by size and time, in the kernel's words, which Lustre counts from 2.17 on if enabled.";
    DIRTY_BYTES "lustre_client_dirty_bytes" Gauge Bytes Core ["fs"] DIRTY
        "Written bytes in the page cache that have not yet been sent.";
    GRANT_BYTES "lustre_client_grant_bytes" Gauge Bytes Core ["fs"] GRANT
        "Space that servers have reserved for writes of this client in bytes.";
    LOST_GRANT_BYTES "lustre_client_lost_grant_bytes" Gauge Bytes Detail ["fs"] GRANT
        "Reserved space that the client has used up and not yet reported in bytes.";
    LOCKS "lustre_client_locks" Gauge None Detail ["fs"] LDLM
        "Locks that the client holds.";
    UNUSED_LOCKS "lustre_client_unused_locks" Gauge None Detail ["fs"] LDLM
        "Locks that the client holds and does not use, kept for later.";
    TARGET_RPC_BYTES "lustre_client_target_rpc_bytes_total" Counter Bytes Detail ["fs" "target" "direction"] RPCS
        "Bytes transferred between client and one target, with lustre.targets.";
    TARGET_TIMEOUTS "lustre_client_target_rpc_timeouts_total" Counter None Detail ["fs" "target"] IMPORTS
        "Requests to one target that timed out, with lustre.targets.";
    TARGET_IN_FLIGHT "lustre_client_target_requests_in_flight" Gauge None Detail ["fs" "target"] IMPORTS
        "Requests to one target without a reply yet, with lustre.targets.";
    TARGET_INFO "lustre_client_target_info" Info None Detail ["fs" "target" "state" "server"] TARGETS
        "A target with the state of its connection and the first nid of its servers, with lustre.targets.";
    UNREADABLE "lustre_source_unreadable" Gauge None Core ["fs" "source" "reason"] OWN
        "Files of a kind without a complete value in the last reading, by reason: absent, denied (only root may read it), lockdown (the kernel denies it to root too), malformed or io.";
    SOURCE_PLACE "lustre_source_info" Info None Debug ["fs" "source" "folder"] OWN
        "The folder in which files of a kind were found.";
    HEALTHY "lustre_health_check" Gauge None Core [] SYSTEM
        "State of Lustre's modules: 1 healthy, 0 after an internal error (LBUG) or a fault of a server on this node, while a client without connections is 1 too.";
    LNET_MESSAGES "lustre_lnet_messages" Gauge None Detail [] LNET
        "Messages of LNet in flight.";
    LNET_MESSAGES_MAX "lustre_lnet_messages_max" Gauge None Detail [] LNET
        "Largest number of messages of LNet in flight so far.";
    LNET_ERRORS "lustre_lnet_errors_total" Counter None Core [] LNET
        "Errors of LNet, such as messages that could not be sent.";
    LNET_SENT "lustre_lnet_send_count_total" Counter None Core [] LNET
        "Messages sent by LNet.";
    LNET_RECEIVED "lustre_lnet_receive_count_total" Counter None Core [] LNET
        "Messages received by LNet.";
    LNET_ROUTED "lustre_lnet_route_count_total" Counter None Core [] LNET
        "Messages routed by LNet for other nodes.";
    LNET_DROPPED "lustre_lnet_drop_count_total" Counter None Core [] LNET
        "Messages dropped by LNet.";
    LNET_SENT_BYTES "lustre_lnet_send_bytes_total" Counter Bytes Core [] LNET
        "Bytes sent by LNet.";
    LNET_RECEIVED_BYTES "lustre_lnet_receive_bytes_total" Counter Bytes Core [] LNET
        "Bytes received by LNet.";
    LNET_ROUTED_BYTES "lustre_lnet_route_bytes_total" Counter Bytes Core [] LNET
        "Bytes routed by LNet for other nodes.";
    LNET_DROPPED_BYTES "lustre_lnet_drop_bytes_total" Counter Bytes Core [] LNET
        "Bytes dropped by LNet.";
    NI_UP "lustre_lnet_ni_up" Gauge None Core ["nid"] NIS
        "State of a local network interface of LNet: 1 up, 0 down.";
    NI_CREDITS "lustre_lnet_ni_credits" Gauge None Core ["nid"] NIS
        "Messages that an interface can send before others have to wait, negative if messages wait.";
    NI_CREDITS_MAX "lustre_lnet_ni_credits_max" Gauge None Detail ["nid"] NIS
        "Messages that an idle interface can send at once.";
    NI_CREDITS_MIN "lustre_lnet_ni_credits_min" Gauge None Core ["nid"] NIS
        "Lowest number of free credits of an interface so far, negative if messages have had to wait.";
    PEERS_STATE "lustre_lnet_peers" Gauge None Core ["state"] PEERS
        "Peers of LNet by state: up, down, or unknown if LNet does not watch them.";
    PEERS_EXHAUSTED "lustre_lnet_peers_exhausted" Gauge None Detail [] PEERS
        "Peers whose credits have been used up at some time, so that messages had to wait.";
    PEERS_QUEUED "lustre_lnet_peer_queued_bytes" Gauge Bytes Core [] PEERS
        "Bytes that wait for a credit of their peer.";
}
