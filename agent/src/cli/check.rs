//! `nodewarden check`: prints the verdict for health-check programs. It reads one file and contacts no process, so it
//! cannot hang.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use collectors::Env;
use collectors::sys::boot;

use super::{dirs, screen};
use health::verdict::{FILE, Health, Verdict};
use sys::trust::{self, Expected, OpenError};
use sys::users;

/// For how long after a drain a prolog may fail. Slurm selected the job before; and a person does not lift a drain so
/// soon, whose next job would fail by a verdict that does not know of the lift.
const FRESH_DRAIN: u64 = 60_000;

/// Limit of its size, in bytes.
const MAX_VERDICT: u64 = 64 * 1024;

/// UNKNOWN of a plugin of Nagios, also for an invalid command line.
pub(super) const NAGIOS_UNKNOWN: u8 = 3;

/// The form of the output.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Format {
    /// `healthy, ...`; exits with 0 healthy, 1 unhealthy, 2 unknown.
    Plain,
    /// `NODEWARDEN OK - ... | incidents=0`; exits with 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN.
    Nagios,
}

/// The arguments of `nodewarden check`.
#[derive(Debug, clap::Args)]
pub(super) struct CheckArgs {
    /// Output and exit codes: plain, or nagios for a plugin of Nagios, Icinga or Naemon.
    #[arg(long, value_enum, default_value_t = Format::Plain)]
    format: Format,
    /// For a prolog: exit 1 only on an unhealthy node in the first minute of nodewarden's drain.
    #[arg(long, conflicts_with = "format")]
    prolog: bool,
    /// The daemon's run directory.
    #[arg(long, value_name = "DIR")]
    run_dir: Option<PathBuf>,
    /// Use this boot id.
    #[cfg(feature = "testing")]
    #[arg(long, hide = true)]
    boot_id: Option<String>,
    /// Use this time since boot, in milliseconds.
    #[cfg(feature = "testing")]
    #[arg(long, hide = true)]
    boottime_ms: Option<u64>,
}

impl CheckArgs {
    #[cfg(feature = "testing")]
    fn env(&self) -> Env {
        Env {
            boot_id: self.boot_id.clone(),
            ..Env::default()
        }
    }

    #[cfg(not(feature = "testing"))]
    fn env(&self) -> Env {
        Env::default()
    }

    #[cfg(feature = "testing")]
    fn now(&self) -> Duration {
        self.boottime_ms
            .map_or_else(boot::boottime, Duration::from_millis)
    }

    #[cfg(not(feature = "testing"))]
    fn now(&self) -> Duration {
        boot::boottime()
    }
}

/// Prints the verdict and returns its exit code.
pub(super) fn check(args: &CheckArgs) -> ExitCode {
    let path = dirs::to_read(args.run_dir.as_deref()).join(FILE);
    let judged = match boot::boot_id(&args.env()) {
        Ok(boot) => judge_file(&path, &boot.0, || args.now()),
        Err(error) => Judged::unknown(error.to_string()),
    };
    let (line, code) = match args.format {
        _ if args.prolog => judged.prolog(),
        Format::Plain => judged.plain(),
        Format::Nagios => judged.nagios(),
    };
    screen::tell(&format!("{line}\n"), ExitCode::from(code))
}

/// Judges the verdict file. The clock is read after the file: a verdict that replaces another in between is not from the
/// future.
fn judge_file(path: &Path, boot: &str, now: impl FnOnce() -> Duration) -> Judged {
    match read(path) {
        Ok(Some(text)) => judge(&text, boot, now()),
        Ok(None) => {
            let text = format!(
                "no verdict: {} does not exist; the daemon is down or its run directory is full (systemctl status \
                 nodewarden; df /run)",
                path.display()
            );
            Judged::unknown(text)
        }
        Err(error) => Judged::unknown(error.to_string()),
    }
}

/// The verdict at the time of the call.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Judged {
    pub(super) health: Health,
    pub(super) text: String,
    /// The number of open incidents. `None`: unknown.
    incidents: Option<usize>,
    /// A drain stands for at most [`FRESH_DRAIN`].
    is_just_drained: bool,
}

impl Judged {
    fn unknown(text: impl Into<String>) -> Self {
        Self {
            health: Health::Unknown,
            text: text.into(),
            incidents: None,
            is_just_drained: false,
        }
    }

    /// `healthy, TEXT`. Not cut to the terminal's width: this line goes into logs and slurmctld's reason.
    fn line(&self) -> String {
        let (word, mark) = (self.health.word(), mark(self.health));
        format!("{word}{mark} {}", screen::clean(&self.text))
    }

    /// The line and the exit code.
    fn plain(&self) -> (String, u8) {
        let code = match self.health {
            Health::Healthy => 0,
            Health::Unhealthy => 1,
            Health::Unknown => 2,
        };
        (self.line(), code)
    }

    /// The same for a prolog, whose failure drains the node: where nodewarden does not, it does not fail either.
    fn prolog(&self) -> (String, u8) {
        match self.plain() {
            (line, 1) if !self.is_just_drained => (
                format!("{line}; the job may run: not drained in the last minute"),
                0,
            ),
            plain => plain,
        }
    }

    /// The same as a plugin of Nagios: `|` is what separates its text from its figures.
    fn nagios(&self) -> (String, u8) {
        let (word, code) = match (self.health, self.incidents) {
            (Health::Healthy, Some(0) | None) => ("OK", 0),
            (Health::Healthy, Some(_)) => ("WARNING", 1),
            (Health::Unhealthy, _) => ("CRITICAL", 2),
            (Health::Unknown, _) => ("UNKNOWN", NAGIOS_UNKNOWN),
        };
        let text = self.line().replace('|', "/");
        let figures = self.incidents.map(|n| format!(" | incidents={n}"));
        let figures = figures.unwrap_or_default();
        (format!("NODEWARDEN {word} - {text}{figures}"), code)
    }
}

/// The mark between the verdict and its text. The text of `healthy` is no reason for it: it names open incidents.
const fn mark(health: Health) -> char {
    match health {
        Health::Healthy => ',',
        Health::Unhealthy | Health::Unknown => ':',
    }
}

/// Reads the verdict: a file of the daemon, of the run directory's owner or of root.
fn read(path: &Path) -> Result<Option<String>, OpenError> {
    let [own, root] = trust::own();
    let folder = path
        .parent()
        .and_then(|run| collectors::sys::root::owner(run).ok().flatten());
    let owners = [
        own,
        root,
        folder.unwrap_or(root),
        users::daemon().uid,
        users::DAEMON_UID,
    ];
    let expected = Expected {
        owners: &owners,
        most: MAX_VERDICT,
        private: true,
    };
    trust::read_text(path, &expected)
}

/// Judges the content of the verdict file at time `now` of boot `boot`.
pub(super) fn judge(text: &str, boot: &str, now: Duration) -> Judged {
    let verdict: Verdict = match serde_json::from_str(text) {
        Ok(verdict) => verdict,
        Err(error) => return Judged::unknown(format!("the verdict cannot be read: {error}")),
    };
    let now = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
    let seconds = |millis: u64| millis / 1000;
    if verdict.boot != boot {
        return Judged::unknown("the verdict is from before the last boot");
    }
    if verdict.at_ms > now {
        return Judged::unknown("the verdict is from the future");
    }
    let age = seconds(now - verdict.at_ms);
    if now > verdict.valid_until_ms {
        return Judged::unknown(format!(
            "the last verdict has expired, the daemon is down or stuck, or its run directory is read-only (age {age}s; \
             journalctl -u nodewarden)"
        ));
    }
    Judged {
        health: verdict.health,
        text: format!("{} (age {age}s)", verdict.text),
        incidents: Some(verdict.incidents),
        is_just_drained: verdict
            .drained_ms
            .is_some_and(|since| now.saturating_sub(since) <= FRESH_DRAIN),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(health: Health) -> String {
        let verdict = Verdict {
            health,
            text: "all good".to_owned(),
            incidents: 0,
            boot: "b".to_owned(),
            at_ms: 10_000,
            valid_until_ms: 55_000,
            drained_ms: None,
            blind: None,
        };
        serde_json::to_string(&verdict).unwrap()
    }

    fn at(text: &str, boot: &str, millis: u64) -> (Health, String) {
        let judged = judge(text, boot, Duration::from_millis(millis));
        (judged.health, judged.text)
    }

    #[test]
    fn each_form_has_its_line_and_its_exit_code() {
        let cases = [
            (
                Health::Healthy,
                Some(0),
                ("healthy, a|b", 0),
                ("OK - healthy, a/b | incidents=0", 0),
            ),
            (
                Health::Healthy,
                Some(2),
                ("healthy, a|b", 0),
                ("WARNING - healthy, a/b | incidents=2", 1),
            ),
            (
                Health::Unhealthy,
                Some(1),
                ("unhealthy: a|b", 1),
                ("CRITICAL - unhealthy: a/b | incidents=1", 2),
            ),
            (
                Health::Unknown,
                Some(3),
                ("unknown: a|b", 2),
                ("UNKNOWN - unknown: a/b | incidents=3", 3),
            ),
            (
                Health::Unknown,
                None,
                ("unknown: a|b", 2),
                ("UNKNOWN - unknown: a/b", 3),
            ),
        ];
        for (health, incidents, plain, (nagios, code)) in cases {
            let judged = Judged {
                health,
                text: "a|b".to_owned(),
                incidents,
                is_just_drained: false,
            };
            assert_eq!(judged.plain(), (plain.0.to_owned(), plain.1));
            assert_eq!(judged.nagios(), (format!("NODEWARDEN {nagios}"), code));
        }
    }

    #[test]
    fn a_prolog_fails_only_in_the_first_minute_of_a_drain() {
        let file = |health, drained_ms| {
            let verdict: Verdict = serde_json::from_str(&verdict(health)).unwrap();
            serde_json::to_string(&Verdict {
                drained_ms,
                valid_until_ms: 500_000,
                ..verdict
            })
            .unwrap()
        };
        let code = |health, drained, now| {
            judge(&file(health, drained), "b", Duration::from_millis(now))
                .prolog()
                .1
        };
        for (health, drained, now, expected) in [
            (Health::Unhealthy, Some(9_000), 11_000, 1),
            (Health::Unhealthy, Some(9_000), 69_000, 1),
            (Health::Unhealthy, Some(9_000), 70_000, 0),
            // Observed, paused, held by the limit, or of a daemon without the field.
            (Health::Unhealthy, None, 11_000, 0),
            (Health::Healthy, Some(9_000), 11_000, 0),
            (Health::Unknown, Some(9_000), 11_000, 2),
        ] {
            assert_eq!(
                code(health, drained, now),
                expected,
                "{health:?} {drained:?} {now}"
            );
        }
        let (line, _) = judge(&file(Health::Unhealthy, None), "b", Duration::from_millis(11_000)).prolog();
        assert_eq!(
            line,
            "unhealthy: all good (age 1s); the job may run: not drained in the last minute"
        );
    }

    #[test]
    fn a_verdict_of_an_earlier_build_names_no_incidents() {
        let old = verdict(Health::Healthy).replace("\"incidents\":0,", "");
        assert!(!old.contains("incidents"));
        let judged = judge(&old, "b", Duration::from_millis(11_000));
        assert_eq!((judged.health, judged.incidents), (Health::Healthy, Some(0)));
    }

    #[test]
    fn a_verdict_that_replaces_another_during_the_call_is_not_from_the_future() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        let publish = |verdict: &str| sys::store::replace(&path, verdict.as_bytes(), 0o644, false).unwrap();
        publish(&verdict(Health::Healthy));
        let judged = judge_file(&path, "b", || {
            let newer = verdict(Health::Unhealthy).replace("10000", "12000");
            publish(&newer);
            Duration::from_millis(11_000)
        });
        assert_eq!(
            (judged.health, &*judged.text),
            (Health::Healthy, "all good (age 1s)")
        );
    }

    #[test]
    fn a_valid_verdict_is_passed_on_with_its_age() {
        for health in [Health::Healthy, Health::Unhealthy, Health::Unknown] {
            let (said, text) = at(&verdict(health), "b", 13_999);
            assert_eq!((said, text.as_str()), (health, "all good (age 3s)"));
        }
        assert_eq!(at(&verdict(Health::Healthy), "b", 55_000).0, Health::Healthy);
    }

    #[test]
    fn anything_else_is_unknown_and_says_why() {
        let good = verdict(Health::Healthy);
        for (text, boot, millis, why) in [
            ("", "b", 11_000, "cannot be read"),
            ("{}", "b", 11_000, "cannot be read"),
            (&good[..20], "b", 11_000, "cannot be read"),
            (&good, "other", 11_000, "before the last boot"),
            (&good, "b", 9_999, "from the future"),
            (&good, "b", 55_001, "expired"),
        ] {
            let (health, said) = at(text, boot, millis);
            assert_eq!(health, Health::Unknown);
            assert!(said.contains(why), "{said}");
        }
    }
}
