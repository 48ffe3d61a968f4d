//! The words of scontrol's `State=`: a base state, then flags joined by `+`. 20.11 puts sinfo's compact words and
//! suffix characters in front.

use std::collections::BTreeSet;

use super::state::{Base, Flag};

/// A parsed `State=` value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Words {
    /// The base state; [`Base::Unknown`] where no word names one.
    pub base: Base,
    /// The flags.
    pub flags: BTreeSet<Flag>,
    /// Words that are not in the tables below.
    pub unknown: Vec<String>,
}

const BASES: &[(&str, Base)] = &[
    ("UNKNOWN", Base::Unknown),
    ("DOWN", Base::Down),
    ("IDLE", Base::Idle),
    ("ALLOCATED", Base::Allocated),
    ("ERROR", Base::Error),
    ("MIXED", Base::Mixed),
    ("FUTURE", Base::Future),
];

/// Every spelling of a flag. `POWER` is 20.11's word for a node that Slurm has switched off.
const FLAGS: &[(&str, Flag)] = &[
    ("RESERVED", Flag::Reserved),
    ("RES", Flag::Reserved),
    ("UNDRAIN", Flag::Undrain),
    ("CLOUD", Flag::Cloud),
    ("DRAIN", Flag::Drain),
    ("COMPLETING", Flag::Completing),
    ("NOT_RESPONDING", Flag::NotResponding),
    ("NO_RESPOND", Flag::NotResponding),
    ("POWERED_DOWN", Flag::PoweredDown),
    ("POWER", Flag::PoweredDown),
    ("FAIL", Flag::Fail),
    ("POWERING_UP", Flag::PoweringUp),
    ("MAINTENANCE", Flag::Maint),
    ("MAINT", Flag::Maint),
    ("REBOOT_REQUESTED", Flag::RebootRequested),
    ("REBOOT", Flag::RebootRequested),
    ("REBOOT_CANCEL", Flag::RebootCancel),
    ("CANCEL_REBOOT", Flag::RebootCancel),
    ("POWERING_DOWN", Flag::PoweringDown),
    ("DYNAMIC_FUTURE", Flag::DynamicFuture),
    ("REBOOT_ISSUED", Flag::RebootIssued),
    ("PLANNED", Flag::Planned),
    ("INVALID_REG", Flag::InvalidReg),
    ("INVAL", Flag::InvalidReg),
    ("POWER_DOWN", Flag::PowerDown),
    ("POWER_UP", Flag::PowerUp),
    ("POWER_DRAIN", Flag::PowerDrain),
    ("DYNAMIC_NORM", Flag::DynamicNorm),
    ("BLOCKED", Flag::Blocked),
    ("EXTERNAL", Flag::External),
];

/// Compact words that stand for a base state and a flag at once.
const COMPACT: &[(&str, Base, Flag)] = &[
    ("DRAINED", Base::Idle, Flag::Drain),
    ("DRAINING", Base::Allocated, Flag::Drain),
    ("FAILING", Base::Allocated, Flag::Fail),
];

/// sinfo's suffix characters.
const SUFFIXES: &[(char, Flag)] = &[
    ('*', Flag::NotResponding),
    ('~', Flag::PoweredDown),
    ('#', Flag::PoweringUp),
    ('!', Flag::PowerDown),
    ('%', Flag::PoweringDown),
    ('$', Flag::Maint),
    ('@', Flag::RebootRequested),
    ('^', Flag::RebootIssued),
    ('-', Flag::Planned),
];

/// Parses a `State=` value. Never fails: unknown words are listed.
pub fn read(value: &str) -> Words {
    let mut base = None;
    let mut flags = BTreeSet::new();
    let mut unknown = Vec::new();
    for whole in value.split('+') {
        let mut word = whole;
        while let Some((rest, flag)) = cut_suffix(word) {
            word = rest;
            flags.insert(flag);
        }
        if let Some((_, known)) = BASES.iter().find(|(name, _)| *name == word) {
            // A second base state is a contradiction: it is kept as an unknown word, which withholds every write.
            if base.is_some() {
                unknown.push(whole.to_owned());
            } else {
                base = Some(*known);
            }
        } else if let Some((_, flag)) = FLAGS.iter().find(|(name, _)| *name == word) {
            flags.insert(*flag);
        } else if let Some((_, compact, flag)) = COMPACT.iter().find(|(name, ..)| *name == word) {
            base.get_or_insert(*compact);
            flags.insert(*flag);
        } else if word.is_empty() && base.is_some() {
            // `ALLOCATED+`: sinfo's suffix for a job that is ending.
            flags.insert(Flag::Completing);
        } else {
            unknown.push(whole.to_owned());
        }
    }
    // 20.11 prints `MAINT` or `RESERVED` in place of IDLE. With an unknown word the base may be in that word.
    let base = base.unwrap_or(if unknown.is_empty() {
        Base::Idle
    } else {
        Base::Unknown
    });
    Words { base, flags, unknown }
}

fn cut_suffix(word: &str) -> Option<(&str, Flag)> {
    SUFFIXES
        .iter()
        .find_map(|(c, flag)| word.strip_suffix(*c).map(|rest| (rest, *flag)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn state(value: &str) -> (Base, Vec<Flag>, Vec<String>) {
        let words = read(value);
        (words.base, words.flags.into_iter().collect(), words.unknown)
    }

    #[test]
    fn words_of_all_versions() {
        use Flag::*;
        let rows: &[(&str, Base, &[Flag])] = &[
            ("IDLE", Base::Idle, &[]),
            ("MIXED+DRAIN", Base::Mixed, &[Drain]),
            ("IDLE+DRAIN+INVALID_REG", Base::Idle, &[Drain, InvalidReg]),
            ("DOWN+CLOUD+REBOOT_ISSUED", Base::Down, &[Cloud, RebootIssued]),
            ("IDLE+MAINTENANCE+RESERVED", Base::Idle, &[Reserved, Maint]),
            ("IDLE*+DRAIN", Base::Idle, &[Drain, NotResponding]),
            ("DOWN*~", Base::Down, &[NotResponding, PoweredDown]),
            ("IDLE~+POWER", Base::Idle, &[PoweredDown]),
            ("MIXED-", Base::Mixed, &[Planned]),
            ("MAINT*", Base::Idle, &[NotResponding, Maint]),
            ("REBOOT^", Base::Idle, &[RebootRequested, RebootIssued]),
            ("DRAINING@", Base::Allocated, &[Drain, RebootRequested]),
            ("ALLOCATED++DRAIN", Base::Allocated, &[Drain, Completing]),
        ];
        for (value, base, flags) in rows {
            assert_eq!(state(value), (*base, flags.to_vec(), vec![]), "{value}");
        }
    }

    #[test]
    fn unknown_words_are_kept() {
        assert_eq!(
            state("IDLE+QUARANTINED"),
            (Base::Idle, vec![], vec!["QUARANTINED".into()])
        );
        assert_eq!(state("?"), (Base::Unknown, vec![], vec!["?".into()]));
        assert_eq!(state(""), (Base::Unknown, vec![], vec![String::new()]));
        assert_eq!(state("IDLE+DOWN"), (Base::Idle, vec![], vec!["DOWN".into()]));
    }

    proptest! {
        #[test]
        fn a_known_base_and_flags_come_back(base in 0..BASES.len(), flags in prop::collection::vec(0..FLAGS.len(), 0..6)) {
            let mut text = BASES[base].0.to_owned();
            for flag in &flags {
                text.push('+');
                text.push_str(FLAGS[*flag].0);
            }
            let words = read(&text);
            prop_assert_eq!(words.base, BASES[base].1);
            prop_assert_eq!(words.flags, flags.iter().map(|f| FLAGS[*f].1).collect());
            prop_assert!(words.unknown.is_empty());
        }

        #[test]
        fn anything_else_is_never_silently_dropped(word in "[A-Z_?]{1,12}") {
            let words = read(&format!("IDLE+{word}"));
            prop_assert!(!words.flags.is_empty() || !words.unknown.is_empty());
        }
    }
}
