//! `scontrol show reservation -o`: the reservations of nodewarden, and the arguments that make them.

use std::time::Duration;

use jiff::tz::TimeZone;

use crate::parse::seconds;

/// What the name of every reservation of nodewarden begins with.
pub const PREFIX: &str = "nodewarden-";
/// The reservation that pauses every node of the cluster.
pub const PAUSE: &str = "nodewarden-pause";
/// A node whose clock is behind sees the start of a pause in the future, and one whose clock is ahead sees its end in the
/// past: by at most this, because Slurm rejects messages of clocks that differ by more (seconds). slurmctld removes a
/// reservation 30 s after its end.
const SKEW: i64 = 300;

/// A reservation of nodewarden.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// Its name.
    pub name: String,
    /// Its begin and end, in seconds since the epoch by the clock of the node that made it.
    pub start: i64,
    /// See `start`.
    pub end: i64,
    /// Features: an opaque text, because the reservation has no nodes.
    pub features: String,
}

/// What `scontrol` prints where there are none.
const NONE: &str = "No reservations in the system";

/// Why an answer is no list of reservations.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("scontrol show reservation, line {line}: found {found:?}, expected ReservationName=, or `{NONE}`")]
pub struct ParseError {
    /// The line, from 1.
    pub line: usize,
    /// The found text, cut to 80 characters.
    pub found: String,
}

/// The reservations of nodewarden in the answer.
///
/// # Errors
/// When it begins with something else, or one of nodewarden has no times: the pause could be in it.
pub fn ours(text: &str, zone: &TimeZone) -> Result<Vec<Reservation>, ParseError> {
    let mut all = Vec::new();
    let (mut is_list, mut is_empty) = (false, false);
    for (at, line) in text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
    {
        let bad = || ParseError {
            line: at + 1,
            found: line.chars().take(80).collect(),
        };
        match line.strip_prefix("ReservationName=") {
            Some(name) => {
                is_list = true;
                if name.starts_with(PREFIX) {
                    all.push(reservation(line, zone).ok_or_else(bad)?);
                }
            }
            // A Comment is printed with its line breaks. A line of it that looks like a pause only stops writes.
            None if is_list => {}
            None if line.trim_end() == NONE => is_empty = true,
            None => return Err(bad()),
        }
    }
    if !is_list && !is_empty {
        return Err(ParseError {
            line: 1,
            found: String::new(),
        });
    }
    Ok(all)
}

fn reservation(line: &str, zone: &TimeZone) -> Option<Reservation> {
    // Times come before the free text, which could forge them.
    let mut words = line.split(' ').filter(|word| !word.is_empty());
    let name = words.next()?.strip_prefix("ReservationName=")?;
    let start = words.next()?.strip_prefix("StartTime=")?;
    let end = words.next()?.strip_prefix("EndTime=")?;
    let features = line
        .split_once(" Features=")
        .and_then(|(_, rest)| rest.rsplit_once(" PartitionName="))
        .map_or("", |(features, _)| features);
    Some(Reservation {
        name: name.to_owned(),
        start: seconds(start, zone)?,
        end: seconds(end, zone)?,
        features: features.to_owned(),
    })
}

/// The pause of the cluster at this time: until when, and what its Features say. Its state is no criterion: it says
/// INACTIVE before the begin too.
pub fn pause(reservations: &[Reservation], wall: i64) -> Option<(i64, &str)> {
    reservations
        .iter()
        .filter(|reservation| reservation.name == PAUSE)
        .find(|pause| pause.start <= wall.saturating_add(SKEW) && wall < pause.end.saturating_add(SKEW))
        .map(|pause| (pause.end, pause.features.as_str()))
}

/// The arguments of scontrol that create a reservation without nodes. Slurm counts whole minutes.
pub fn create(name: &str, window: Duration, features: &str) -> Vec<String> {
    let minutes = window.as_secs().div_ceil(60).max(1);
    [
        "create".to_owned(),
        "reservation".to_owned(),
        format!("ReservationName={name}"),
        "StartTime=now".to_owned(),
        format!("Duration={minutes}"),
        "Users=root".to_owned(),
        "Flags=ANY_NODES".to_owned(),
        "BurstBuffer=nodewarden:0".to_owned(),
        format!("Features={features}"),
    ]
    .to_vec()
}

/// The arguments that list all reservations. One alone costs the same.
pub fn show() -> Vec<String> {
    ["show", "reservation", "-o"].map(str::to_owned).to_vec()
}

/// The arguments that delete one.
pub fn delete(name: &str) -> Vec<String> {
    vec!["delete".to_owned(), format!("ReservationName={name}")]
}

/// What `scontrol create` answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Created {
    /// It exists now.
    Yes,
    /// The name is taken.
    Taken,
    /// slurmctld does not create it: a missing permission, or an unknown flag.
    Refused,
    /// Nothing is known: it may exist.
    Unknown,
}

/// Words of scontrol for a missing answer: the reservation may be created later.
const NO_ANSWER: &[&str] = &[
    "Unexpected message received",
    "timed out",
    "Unable to contact",
    "Connection refused",
    "communication",
];

/// Reads the answer by its exit code and texts.
pub fn created(code: i32, text: &str) -> Created {
    if code == 0 {
        Created::Yes
    } else if text.contains("Duplicate reservation name") {
        Created::Taken
    } else if NO_ANSWER.iter().any(|words| text.contains(words)) {
        Created::Unknown
    } else {
        Created::Refused
    }
}

/// Fuzz target: no panic; only reservations of ours.
pub fn fuzz(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let all = ours(&text, &TimeZone::UTC).unwrap_or_default();
    debug_assert!(all.iter().all(|reservation| reservation.name.starts_with(PREFIX)));
    pause(&all, 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOT: &str = "ReservationName=nodewarden--p1--xid-79--1 StartTime=2026-11-23T19:57:08 EndTime=2026-11-23T20:07:08 \
        Duration=00:10:00 Nodes=(null) NodeCnt=0 CoreCnt=0 Features=n00007 10/5%/3/5%/600s PartitionName=(null) \
        Flags=ANY_NODES TRES=(null) Users=root Groups=(null) Accounts=(null) Licenses=(null) State=ACTIVE \
        BurstBuffer=nodewarden:0 Watts=n/a MaxStartDelay=(null)";
    const START: i64 = 1_795_463_828;

    fn pause_of(features: &str, start: &str, end: &str) -> String {
        SLOT.replace("nodewarden--p1--xid-79--1", PAUSE)
            .replace("n00007 10/5%/3/5%/600s", features)
            .replace("2026-11-23T19:57:08", start)
            .replace("2026-11-23T20:07:08", end)
    }

    #[test]
    fn a_slot_as_22_05_prints_it() {
        let all = ours(&format!("{SLOT}\n"), &TimeZone::UTC).unwrap();
        assert_eq!(
            all,
            [Reservation {
                name: "nodewarden--p1--xid-79--1".to_owned(),
                start: START,
                end: START + 600,
                features: "n00007 10/5%/3/5%/600s".to_owned(),
            }]
        );
    }

    #[test]
    fn none_and_those_of_others_are_no_reservations_of_ours() {
        let other = SLOT.replace("nodewarden-", "maintenance-");
        for text in [
            "No reservations in the system\n",
            "\nNo reservations in the system\n\n",
            &other,
        ] {
            assert_eq!(ours(text, &TimeZone::UTC), Ok(Vec::new()));
        }
    }

    #[test]
    fn an_answer_that_is_no_list_could_hide_a_pause() {
        for text in [
            "",
            "\n",
            "hello\n",
            "ReservationName=nodewarden-x\n",
            "hello\nReservationName=a b\n",
            "No reservations in the system\nhello\n",
        ] {
            assert!(ours(text, &TimeZone::UTC).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_comment_with_line_breaks_hides_neither_its_reservation_nor_the_next() {
        let other = SLOT.replace("nodewarden-", "maintenance-");
        let pause = pause_of(
            "by alice: network work",
            "2026-11-23T19:57:08",
            "2026-11-23T20:07:08",
        );
        let text = format!(
            "{other} Comment=power work\nsee ticket 12\n\nNo reservations in the system\n{SLOT}\n{pause}\n"
        );
        let all = ours(&text, &TimeZone::UTC).unwrap();
        let names: Vec<&str> = all.iter().map(|found| found.name.as_str()).collect();
        assert_eq!(names, ["nodewarden--p1--xid-79--1", PAUSE]);
        // In a comment it stops writes at most.
        let forged = format!("{other} Comment=a\n{pause}\n");
        let all = ours(&forged, &TimeZone::UTC).unwrap();
        assert!(super::pause(&all, START).is_some());
    }

    #[test]
    fn a_pause_counts_by_its_times_and_its_text_keeps_spaces() {
        let text = pause_of(
            "by alice: network work",
            "2026-11-23T19:57:08",
            "2026-11-23T20:07:08",
        );
        let all = ours(&text, &TimeZone::UTC).unwrap();
        assert_eq!(
            pause(&all, START + 5),
            Some((START + 600, "by alice: network work"))
        );
        assert_eq!(pause(&all, START + 900), None, "over");
        assert!(pause(&all, START + 700).is_some(), "a clock that is ahead");
        assert_eq!(
            pause(&all, START - 200).map(|(end, _)| end),
            Some(START + 600),
            "a clock that is behind"
        );
        assert_eq!(pause(&all, START - 3600), None, "planned for later");
        assert_eq!(
            pause(&ours(SLOT, &TimeZone::UTC).unwrap(), START),
            None,
            "a slot is no pause"
        );
    }

    #[test]
    fn a_text_cannot_forge_the_times() {
        let forged = "x EndTime=2030-01-01T00:00:00 PartitionName=a";
        let all = ours(
            &pause_of(forged, "2026-11-23T19:57:08", "2026-11-23T20:07:08"),
            &TimeZone::UTC,
        )
        .unwrap();
        assert_eq!((all[0].end, all[0].features.as_str()), (START + 600, forged));
    }

    #[test]
    fn only_a_duplicate_name_is_a_refusal_in_favour_of_another() {
        for (code, text, expected) in [
            (0, "Reservation created: nodewarden--p1--xid-79--1", Created::Yes),
            (
                1,
                "Error creating the reservation: Duplicate reservation name",
                Created::Taken,
            ),
            (
                1,
                "Error creating the reservation: Invalid user id",
                Created::Refused,
            ),
            (
                1,
                "Error creating the reservation: Invalid time specified",
                Created::Refused,
            ),
            (
                1,
                "Error creating the reservation: Unexpected message received",
                Created::Unknown,
            ),
            (
                1,
                "slurm_load_reservations error: Unable to contact slurm controller (connect failure)",
                Created::Unknown,
            ),
            (1, "Socket timed out on send/recv operation", Created::Unknown),
        ] {
            assert_eq!(created(code, text), expected, "{text}");
        }
    }

    #[test]
    fn a_window_is_rounded_up_to_whole_minutes() {
        let has = |window, minutes: &str| {
            create("nodewarden--a--b--1", Duration::from_secs(window), "n0")
                .contains(&format!("Duration={minutes}"))
        };
        assert!(has(600, "10") && has(601, "11") && has(1, "1"));
    }
}
