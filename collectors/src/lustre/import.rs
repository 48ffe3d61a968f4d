//! The file `import` of a target: its state, server, requests in flight and time-outs.
//!
//! It looks like YAML and is not always: old ones contain bytes that are no text (LU-5567), and lists may go over several
//! lines. So single keys are looked for, the first of each name.

use super::lnet::LONGEST_NID;
use super::state::ImportState;

/// What an import shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Import {
    /// `None`: not shown.
    pub(super) state: Option<ImportState>,
    /// An administrator has switched the target off.
    pub(super) is_deactivated: bool,
    /// The first nid of its servers, empty if unknown. Unlike that of the current connection, it stays the same while the
    /// client tries one server after the other.
    pub(super) server: String,
    /// Connect requests, including those after IDLE.
    pub(super) attempts: Option<u64>,
    /// Requests without a reply yet.
    pub(super) in_flight: Option<u64>,
    /// Requests that timed out.
    pub(super) timeouts: Option<u64>,
}

/// Reads it. `None`: no import.
pub(super) fn parse(text: &str) -> Option<Import> {
    let mut import = Import::default();
    let (mut current, mut failover) = (None, None);
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some((key, value)) = line.split_once(':') else {
            continue;
        };
        let (key, value) = (key.trim(), value.trim());
        match key {
            "state" if import.state.is_none() => import.state = Some(ImportState::of(value)),
            // `IMPF_DEACTIVE` on later releases.
            "import_flags" => {
                let flags = list(value, &mut lines).to_ascii_lowercase();
                import.is_deactivated = flags.contains("deactive");
            }
            "failover_nids" if failover.is_none() => failover = first_nid(&list(value, &mut lines)),
            "current_connection" if current.is_none() => current = nid(value),
            "connection_attempts" => import.attempts = import.attempts.or(value.parse().ok()),
            "inflight" => import.in_flight = import.in_flight.or(value.parse().ok()),
            "timeouts" => import.timeouts = import.timeouts.or(value.parse().ok()),
            _ => {}
        }
    }
    import.server = failover.or(current).unwrap_or_default();
    import.state.is_some().then_some(import)
}

/// A list in brackets, which may go over several lines.
fn list(value: &str, lines: &mut std::str::Lines<'_>) -> String {
    let mut list = value.to_owned();
    for _ in 0..64 {
        if !list.starts_with('[') || list.contains(']') {
            break;
        }
        match lines.next() {
            Some(line) => list.push_str(line),
            None => break,
        }
    }
    list
}

fn first_nid(list: &str) -> Option<String> {
    list.trim_matches(['[', ']', ' ']).split(',').find_map(nid)
}

/// A nid such as `10.2.0.40@o2ib`, quoted or not. `None`: no connection (`<none>`).
fn nid(word: &str) -> Option<String> {
    let word = word.trim().trim_matches(['"', '\'', ' ']);
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b".:@_-".contains(&b);
    let is_nid = word.contains('@') && word.len() <= LONGEST_NID && word.bytes().all(is_plain);
    is_nid.then(|| word.to_owned())
}

/// Seconds since the last reply: the file `timeouts`, `last reply : 1510851640, 17s ago`; before Lustre 2.10, `0d0h00m17s ago`
/// (`DHMS_FMT` in lprocfs_status.c).
pub(super) fn last_reply(text: &str) -> Option<u64> {
    let line = text
        .lines()
        .find(|line| line.trim_start().starts_with("last reply"))?;
    let (_, age) = line.split_once(':')?.1.split_once(',')?;
    let age = age.trim().strip_suffix("s ago")?;
    let (mut total, mut rest) = (0_u64, age);
    for (unit, seconds) in [('d', 86_400), ('h', 3600), ('m', 60)] {
        if let Some((count, behind)) = rest.split_once(unit) {
            total = total.checked_add(count.parse::<u64>().ok()?.checked_mul(seconds)?)?;
            rest = behind;
        }
    }
    total.checked_add(rest.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const OLD: &str = "import:\n    name: scratch-OST0001-osc-ffff880812345678\n    target: scratch-OST0001_UUID\n    state: FULL\n    connect_flags: [ write_grant, server_lock,\n        version ]\n    connect_data:\n       flags: 0x4af0e3440478\n    import_flags: [ replayable, pingable, connect_tried ]\n    connection:\n       failover_nids: [ 10.2.0.40@o2ib, 10.2.0.41@o2ib ]\n       current_connection: 10.2.0.41@o2ib\n       connection_attempts: 3\n       generation: 2\n       in-progress_invalidations: 0\n    rpcs:\n       inflight: 4\n       unregistering: 0\n       timeouts: 5\n       avg_waittime: 1431 usec\n    service_estimates:\n       services: 1 sec\n       network: 1 sec\n";

    #[test]
    fn the_figures_of_an_import_are_read() {
        let import = parse(OLD).unwrap();
        let expected = Import {
            state: Some(ImportState::Full),
            is_deactivated: false,
            server: "10.2.0.40@o2ib".to_owned(),
            attempts: Some(3),
            in_flight: Some(4),
            timeouts: Some(5),
        };
        assert_eq!(import, expected);
    }

    #[test]
    fn binary_bytes_in_an_import_cost_nothing_else() {
        let mut bytes = OLD.replace("scratch-OST0001_UUID", "@@@").into_bytes();
        for byte in bytes.iter_mut().filter(|b| **b == b'@').take(3) {
            *byte = 0xfe;
        }
        let import = parse(&String::from_utf8_lossy(&bytes)).unwrap();
        assert_eq!(
            (import.timeouts, import.state),
            (Some(5), Some(ImportState::Full))
        );
    }

    #[test]
    fn flags_are_known_in_both_spellings_and_nids_with_and_without_quotes() {
        for flags in [
            "[ invalid, deactive, pingable ]",
            "[ IMPF_INVALID, IMPF_DEACTIVE ]",
        ] {
            let text = OLD.replace("[ replayable, pingable, connect_tried ]", flags);
            assert!(parse(&text).unwrap().is_deactivated, "{flags}");
        }
        let unlisted = OLD.replace("[ 10.2.0.40@o2ib, 10.2.0.41@o2ib ]", "[ ]");
        assert_eq!(parse(&unlisted).unwrap().server, "10.2.0.41@o2ib");
        let quoted = unlisted.replace(": 10.2.0.41@o2ib", ": \"10.2.0.41@o2ib\"");
        assert_eq!(parse(&quoted).unwrap().server, "10.2.0.41@o2ib");
        let without = unlisted.replace(": 10.2.0.41@o2ib", ": <none>");
        assert_eq!(parse(&without).unwrap().server, "");
        assert_eq!(parse("import:\n    name: x\n"), None);
    }

    #[test]
    fn the_age_of_the_last_reply_is_read() {
        let text = "last reply : 1510851640, 17s ago\nnetwork    : cur   1  worst   1 (at 1510766261, 85379s ago)   1   1   1   1\n";
        assert_eq!(last_reply(text), Some(17));
        let old = |age: &str| last_reply(&format!("last reply : 1340951220, {age} ago\n"));
        assert_eq!(old("0d0h00m03s"), Some(3));
        assert_eq!(old("1d2h03m04s"), Some(86_400 + 7200 + 180 + 4));
        assert_eq!((old("1d2h03m"), old("xd0h00m03s"), old("3")), (None, None, None));
        assert_eq!(last_reply("network : cur 1\n"), None);
    }

    proptest! {
        #[test]
        fn no_bytes_break_the_parser(bytes: Vec<u8>, at in 0_usize..600) {
            let mut text = OLD.as_bytes().to_vec();
            text.splice(at.min(text.len())..at.min(text.len()), bytes);
            let text = String::from_utf8_lossy(&text).into_owned();
            if let Some(import) = parse(&text) {
                prop_assert!(import.server.len() <= LONGEST_NID);
            }
            last_reply(&text);
        }
    }
}
