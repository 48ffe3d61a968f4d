//! The state of a client's connection to a target (`import`), and its history.

/// The states of an import (lustre_import.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum ImportState {
    Closed,
    New,
    Disconnected,
    Connecting,
    Replay,
    ReplayLocks,
    ReplayWait,
    Recover,
    Full,
    Evicted,
    Idle,
    /// A state that this table does not know.
    Unknown,
}

impl ImportState {
    pub(super) const ALL: [Self; 12] = [
        Self::Closed,
        Self::New,
        Self::Disconnected,
        Self::Connecting,
        Self::Replay,
        Self::ReplayLocks,
        Self::ReplayWait,
        Self::Recover,
        Self::Full,
        Self::Evicted,
        Self::Idle,
        Self::Unknown,
    ];

    /// The kernel's word.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Closed => "CLOSED",
            Self::New => "NEW",
            Self::Disconnected => "DISCONN",
            Self::Connecting => "CONNECTING",
            Self::Replay => "REPLAY",
            Self::ReplayLocks => "REPLAY_LOCKS",
            Self::ReplayWait => "REPLAY_WAIT",
            Self::Recover => "RECOVER",
            Self::Full => "FULL",
            Self::Evicted => "EVICTED",
            Self::Idle => "IDLE",
            Self::Unknown => "UNKNOWN",
        }
    }

    pub(super) fn of(word: &str) -> Self {
        let known = Self::ALL.iter().find(|state| state.word() == word);
        known.copied().unwrap_or(Self::Unknown)
    }

    /// Whether requests are answered at once. An unused connection to an OST is closed (IDLE, from 2.12).
    pub(super) const fn is_healthy(self) -> bool {
        matches!(self, Self::Full | Self::Idle)
    }
}

/// One change of state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Change {
    /// Seconds since the epoch.
    pub(super) at: u64,
    pub(super) to: ImportState,
}

/// The file `state`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StateFile {
    pub(super) state: ImportState,
    /// The last changes, the oldest first. The kernel keeps 16.
    pub(super) history: Vec<Change>,
}

/// Reads `current_state: FULL`, then ` - [ 1510766261, CONNECTING ]` for each change. `None`: no current state.
pub(super) fn parse(text: &str) -> Option<StateFile> {
    let mut state = None;
    let mut history = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(word) = line.strip_prefix("current_state:") {
            state = Some(ImportState::of(word.trim()));
        } else if let Some(change) = change(line)
            && history.len() < 64
        {
            history.push(change);
        }
    }
    Some(StateFile {
        state: state?,
        history,
    })
}

fn change(line: &str) -> Option<Change> {
    let pair = line.strip_prefix('-')?.trim();
    let (at, word) = pair.strip_prefix('[')?.strip_suffix(']')?.split_once(',')?;
    let (at, to) = (at.trim().parse().ok()?, ImportState::of(word.trim()));
    Some(Change { at, to })
}

/// The number of changes of `now` that `before` does not hold. The kernel's list is a ring without numbers, and several
/// changes have the same second, so the longest end of `before` that `now` begins with is what was seen.
pub(super) fn news(before: &[Change], now: &[Change]) -> usize {
    let most = before.len().min(now.len());
    let is_seen = |n: &usize| now.get(..*n) == before.get(before.len() - *n..);
    let seen = (0..=most).rev().find(is_seen).unwrap_or(0);
    now.len() - seen
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_state_and_its_history_are_read() {
        let file = parse(
            "current_state: FULL\nstate_history:\n - [ 1510766261, CONNECTING ]\n - [ 1510766262, FULL ]\n - [ x, FULL ]\n",
        );
        let history = vec![
            Change {
                at: 1_510_766_261,
                to: ImportState::Connecting,
            },
            Change {
                at: 1_510_766_262,
                to: ImportState::Full,
            },
        ];
        assert_eq!(
            file,
            Some(StateFile {
                state: ImportState::Full,
                history
            })
        );
        assert_eq!(parse("state_history:\n"), None);
        assert_eq!(
            parse("current_state: <UNKNOWN>\n").unwrap().state,
            ImportState::Unknown
        );
    }

    fn changes(list: &[(u64, ImportState)]) -> Vec<Change> {
        list.iter().map(|(at, to)| Change { at: *at, to: *to }).collect()
    }

    #[test]
    fn an_eviction_within_the_second_of_the_last_reading_is_news() {
        use ImportState::{Connecting, Disconnected, Evicted, Full, Recover};
        let before = changes(&[(1, Connecting), (1, Full), (9, Disconnected)]);
        let now = changes(&[
            (1, Connecting),
            (1, Full),
            (9, Disconnected),
            (9, Evicted),
            (9, Recover),
            (9, Full),
        ]);
        assert_eq!(news(&before, &now), 3);
        assert_eq!(news(&now, &now), 0);
    }

    #[test]
    fn a_ring_that_has_turned_round_is_all_news() {
        use ImportState::{Evicted, Full};
        let before = changes(&[(1, Full), (2, Evicted)]);
        let now = changes(&[(7, Full), (8, Evicted)]);
        assert_eq!(news(&before, &now), now.len());
    }

    proptest! {
        #[test]
        fn of_a_ring_of_16_exactly_the_new_ones_are_news(times in prop::collection::vec(0_u64..1000, 1..60), cut in 0_usize..60) {
            // Different times: no two changes are alike.
            let all: Vec<Change> = times.iter().zip(0..).map(|(t, n)| Change { at: t + 1000 * n, to: ImportState::Full }).collect();
            let cut = cut.min(all.len());
            let ring = |end: usize| &all[end.saturating_sub(16)..end];
            let expected = (all.len() - cut).min(16);
            prop_assert_eq!(news(ring(cut), ring(all.len())), expected);
        }
    }
}
