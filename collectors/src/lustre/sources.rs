//! Every file that this collector reads, by name: never all files of a folder. Reading `ping` sends a request, reading
//! `kbytes*`, `files*` or `blocksize` asks every server, and a write clears counters or starts costly statistics.

/// A folder below which Lustre has its files. Which one depends on the file, the release and its vendor, so all that can
/// have a file are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Root {
    Proc,
    Sys,
    /// Only root may open it, unless it was mounted with other permissions.
    Debug,
    ProcNet,
    DebugNet,
}

impl Root {
    /// The folder.
    pub(super) const fn path(self) -> &'static str {
        match self {
            Self::Proc => "/proc/fs/lustre",
            Self::Sys => "/sys/fs/lustre",
            Self::Debug => "/sys/kernel/debug/lustre",
            Self::ProcNet => "/proc/sys/lnet",
            Self::DebugNet => "/sys/kernel/debug/lnet",
        }
    }

    pub(super) const fn is_debugfs(self) -> bool {
        matches!(self, Self::Debug | Self::DebugNet)
    }
}

/// A kind of file.
#[derive(Debug)]
pub(super) struct LustreSource {
    /// Its value of the label `source`.
    pub(super) name: &'static str,
    /// The file's name.
    pub(super) file: &'static str,
    /// Where it may be.
    pub(super) roots: &'static [Root],
    /// Some releases do not have it: absence is no fault, nor is a folder that may not be searched for it.
    pub(super) is_optional: bool,
}

const OLD_AND_ROOT: &[Root] = &[Root::Proc, Root::Debug];
const OPEN: &[Root] = &[Root::Sys, Root::Proc];
const ALL: &[Root] = &[Root::Proc, Root::Sys, Root::Debug];

/// Declares one static per kind of file, and `SOURCES` with all of them.
macro_rules! sources {
    ($($id:ident $name:literal $file:literal $roots:ident $optional:literal;)*) => {
        $(pub(super) static $id: LustreSource = LustreSource {
            name: $name,
            file: $file,
            roots: $roots,
            is_optional: $optional,
        };)*
        /// Every kind of file.
        #[cfg(test)]
        pub(super) static SOURCES: &[&LustreSource] = &[$(&$id,)*];
    };
}

const NET: &[Root] = &[Root::ProcNet, Root::DebugNet];

sources! {
    // Of a mount.
    LLITE_STATS "llite_stats" "stats" OLD_AND_ROOT false;
    READ_AHEAD "read_ahead_stats" "read_ahead_stats" OLD_AND_ROOT false;
    CACHE "max_cached_mb" "max_cached_mb" OLD_AND_ROOT false;
    UNSTABLE "unstable_stats" "unstable_stats" OLD_AND_ROOT true;
    STATAHEAD "statahead_stats" "statahead_stats" OLD_AND_ROOT false;
    // Of a target.
    STATE "state" "state" ALL false;
    IMPORT "import" "import" ALL false;
    TIMEOUTS "timeouts" "timeouts" ALL false;
    RPC_STATS "rpc_stats" "rpc_stats" ALL false;
    MDC_RPC_STATS "mdc_rpc_stats" "rpc_stats" ALL true;
    TARGET_STATS "target_stats" "stats" OLD_AND_ROOT false;
    MD_STATS "md_stats" "md_stats" OLD_AND_ROOT true;
    // Read where no MDT has its own.
    LMV_MD_STATS "lmv_md_stats" "md_stats" OLD_AND_ROOT false;
    DIRTY "cur_dirty_bytes" "cur_dirty_bytes" OPEN false;
    GRANT "cur_grant_bytes" "cur_grant_bytes" OPEN false;
    LOST_GRANT "cur_lost_grant_bytes" "cur_lost_grant_bytes" OPEN true;
    IO_LATENCY "io_latency_stats" "io_latency_stats" OLD_AND_ROOT true;
    // Of a target's lock namespace.
    LOCKS "lock_count" "lock_count" OPEN false;
    UNUSED_LOCKS "lock_unused_count" "lock_unused_count" OPEN false;
    // Of the node.
    VERSION "version" "version" OPEN false;
    HEALTH "health_check" "health_check" OPEN false;
    LNET_STATS "lnet_stats" "stats" NET false;
    LNET_NIS "lnet_nis" "nis" NET false;
    LNET_PEERS "lnet_peers" "peers" NET false;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::helper::DebugFile;

    #[test]
    fn no_file_is_read_that_sends_a_request_or_counts_when_it_is_written() {
        for source in SOURCES {
            let never = ["ping", "blocksize", "extents_stats", "offset_stats", "lazystatfs"];
            assert!(!never.contains(&source.file), "{}", source.file);
            let asks = ["kbytes", "files", "statfs", "lru_size", "force_"];
            assert!(
                !asks.iter().any(|start| source.file.starts_with(start)),
                "{}",
                source.file
            );
            assert!(source.file.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'));
        }
    }

    /// Files in debugfs that the helper would not open.
    #[test]
    fn the_helper_opens_every_source_that_may_be_in_debugfs() {
        let in_debugfs = |source: &&&LustreSource| source.roots.iter().any(|root| root.is_debugfs());
        for source in SOURCES.iter().filter(in_debugfs) {
            let places = [
                ("llite", "scratch-ffff880812345678"),
                ("osc", "scratch-OST0000-osc-ffff880812345678"),
                ("mdc", "scratch-MDT0000-mdc-ffff880812345678"),
                ("", ""),
            ];
            let of = |(subsystem, device): &(&str, &str)| DebugFile::new(subsystem, device, source.file);
            // The files of lmv are in /proc on every release.
            assert!(places.iter().any(|place| of(place).is_some()), "{}", source.name);
        }
    }

    #[test]
    fn no_two_sources_share_a_name() {
        let mut names: Vec<&str> = SOURCES.iter().map(|source| source.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), SOURCES.len());
    }
}
