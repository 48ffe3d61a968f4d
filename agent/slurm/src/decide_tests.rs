use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;

use super::*;
use crate::describe;
use model::scheduler::NodeReason;

/// As the health engine asks.
fn undrain(state: &Node, id: &IncidentId) -> Permission {
    describe(state).undrain(id).clone()
}

const BASES: &[Base] = &[
    Base::Unknown,
    Base::Down,
    Base::Idle,
    Base::Allocated,
    Base::Error,
    Base::Mixed,
    Base::Future,
];

const FLAGS: &[Flag] = &[
    Flag::Reserved,
    Flag::Undrain,
    Flag::Cloud,
    Flag::Completing,
    Flag::NotResponding,
    Flag::PoweredDown,
    Flag::Fail,
    Flag::PoweringUp,
    Flag::Maint,
    Flag::RebootRequested,
    Flag::RebootCancel,
    Flag::PoweringDown,
    Flag::DynamicFuture,
    Flag::RebootIssued,
    Flag::Planned,
    Flag::InvalidReg,
    Flag::PowerDown,
    Flag::PowerUp,
    Flag::PowerDrain,
    Flag::DynamicNorm,
    Flag::Blocked,
    Flag::External,
];

const REASONS: &[(&str, &str)] = &[
    ("none", ""),
    ("ours", "nodewarden:xid.79 gpu3 act=reboot id=abcdefg2"),
    (
        "ours+",
        "nodewarden:xid.79 gpu3 act=reboot id=abcdefg2 : reboot complete",
    ),
    ("other", "nodewarden:xid.48 gpu1 act=reset id=zzzzzzz7"),
    ("foreign", "bob: fan tray"),
    ("slurm", "gres/gpu count reported lower than configured (7 < 8)"),
    ("slurmd", "Kill task failed"),
];

fn id() -> IncidentId {
    IncidentId::parse("abcdefg2").unwrap()
}

fn node(base: Base, flags: &[Flag], reason: &str) -> Node {
    Node {
        name: "n0".into(),
        hostname: "host1".into(),
        base,
        flags: flags.iter().copied().collect::<BTreeSet<_>>(),
        unknown_words: vec![],
        reason: (!reason.is_empty()).then(|| NodeReason {
            text: reason.into(),
            user: "root".into(),
            at: Some(1),
        }),
        comment: None,
        extra: None,
        has_extra: false,
        boot_time: Some(1),
        slurmd_start_time: Some(1),
        gres: String::new(),
        partitions: Vec::new(),
    }
}

fn word(verdict: Permission) -> String {
    match verdict {
        Permission::Allowed => "WRITE".to_owned(),
        Permission::Already => "already".to_owned(),
        Permission::Foreign => "foreign".to_owned(),
        Permission::Withheld(why) => format!("({why})"),
    }
}

/// Every base state, with every flag, without and with DRAIN, with every kind of reason.
fn table() -> String {
    let mut out = String::from("Action on a node, by state and owner of the reason.\n");
    for (title, decide) in [
        (
            "drain",
            (|state, _| drain(state)) as fn(&Node, &IncidentId) -> Permission,
        ),
        ("undrain", undrain),
    ] {
        write!(out, "\n{title:<34}").unwrap();
        for (name, _) in REASONS {
            write!(out, " {name:<18}").unwrap();
        }
        out.push('\n');
        let none = std::iter::once(None);
        for flag in none.chain(FLAGS.iter().map(Some)) {
            for base in BASES {
                for drained in [false, true] {
                    let mut flags: Vec<Flag> = flag.copied().into_iter().collect();
                    let mut state = format!("{base:?}");
                    if drained {
                        flags.push(Flag::Drain);
                        state.push_str("+Drain");
                    }
                    if let Some(flag) = flag {
                        write!(state, "+{flag:?}").unwrap();
                    }
                    write!(out, "{state:<34}").unwrap();
                    for (_, reason) in REASONS {
                        let verdict = decide(&node(*base, &flags, reason), &id());
                        write!(out, " {:<18}", word(verdict)).unwrap();
                    }
                    out.truncate(out.trim_end().len());
                    out.push('\n');
                }
            }
        }
    }
    out
}

#[test]
#[allow(clippy::disallowed_methods, reason = "tests read and rewrite fixtures")]
fn the_whole_table() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/scontrol/state-table.txt");
    let now = table();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &now).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap();
    for (line, (was, is)) in golden.lines().zip(now.lines()).enumerate() {
        assert_eq!(was, is, "line {}; UPDATE_GOLDEN=1 rewrites the file", line + 1);
    }
    assert_eq!(golden.len(), now.len());
}

/// What must hold over all pairs of flags, whatever the table says.
#[test]
fn nothing_is_written_over_a_person_or_into_a_change_in_progress() {
    for base in BASES {
        for one in FLAGS {
            for two in FLAGS.iter().chain(&[Flag::Drain]) {
                for (whose, reason) in REASONS {
                    let state = node(*base, &[*one, *two], reason);
                    let (drain, undrain) = (drain(&state), undrain(&state, &id()));
                    let stands = state.has(Flag::Drain) || state.has(Flag::Fail) || *base == Base::Down;
                    if *whose == "foreign" && stands {
                        assert_ne!(drain, Permission::Allowed, "{state:?}");
                    }
                    if undrain == Permission::Allowed {
                        assert!(state.has(Flag::Drain) && *base != Base::Down && !state.has(Flag::Fail));
                        assert!(["ours", "ours+", "slurm"].contains(whose), "{state:?}");
                    }
                    if WITHHELD.iter().any(|(flag, _)| state.has(*flag)) {
                        // Jobs start until the reboot is issued.
                        let only_requested = WITHHELD
                            .iter()
                            .all(|(flag, _)| (*flag == Flag::RebootRequested) == state.has(*flag));
                        let may = only_requested && !state.has(Flag::Drain);
                        assert!(may || drain != Permission::Allowed, "{state:?}");
                        assert_ne!(undrain, Permission::Allowed, "{state:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn an_unknown_word_stops_everything() {
    for (_, reason) in REASONS {
        let mut state = node(Base::Idle, &[Flag::Drain], reason);
        state.unknown_words = vec!["QUARANTINED".into()];
        assert_eq!(drain(&state), Permission::Withheld("unknown_state".into()));
        assert_eq!(
            undrain(&state, &id()),
            Permission::Withheld("unknown_state".into())
        );
    }
}

#[test]
fn texts_that_mean_another_problem_are_left() {
    for reason in [
        "Prolog error",
        "Epilog error",
        "Kill task failed",
        "Not responding",
    ] {
        let state = node(Base::Idle, &[Flag::Drain], reason);
        assert_eq!(drain(&state), Permission::Foreign);
        assert_eq!(undrain(&state, &id()), Permission::Foreign);
    }
}

#[test]
fn comments() {
    let text = Reason::new("nodewarden:xid.79 gpu3 act=reboot id=abcdefg2").unwrap();
    let with = |comment: &str, flags: &[Flag]| {
        let mut state = node(Base::Idle, flags, "");
        state.comment = (!comment.is_empty()).then(|| comment.to_owned());
        state
    };
    assert_eq!(comment(&with("", &[]), &text), Permission::Allowed);
    assert_eq!(
        comment(&with("", &[Flag::Maint]), &text),
        Permission::Withheld("maint".into())
    );
    assert_eq!(comment(&with(text.as_str(), &[]), &text), Permission::Already);
    assert_eq!(
        comment(&with("nodewarden:old id=abcdefg3", &[]), &text),
        Permission::Allowed
    );
    assert_eq!(comment(&with("asset 12345", &[]), &text), Permission::Foreign);
    assert_eq!(
        comment(&with("nodewarden:old\nasset 1", &[]), &text),
        Permission::Foreign
    );
    assert_eq!(uncomment(&with("", &[]), &id()), Permission::Already);
    assert_eq!(uncomment(&with(text.as_str(), &[]), &id()), Permission::Allowed);
    assert_eq!(
        uncomment(&with("nodewarden:x id=zzzzzzz7", &[]), &id()),
        Permission::Already
    );
    assert_eq!(uncomment(&with("asset 12345", &[]), &id()), Permission::Foreign);
}
