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

/// Limit of its size, in bytes.
const MAX_VERDICT: u64 = 64 * 1024;

/// The arguments of `nodewarden check`.
#[derive(Debug, clap::Args)]
pub(super) struct CheckArgs {
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
    fn clock(&self) -> (Env, Duration) {
        let env = Env {
            boot_id: self.boot_id.clone(),
            ..Env::default()
        };
        let now = self
            .boottime_ms
            .map_or_else(boot::boottime, Duration::from_millis);
        (env, now)
    }

    #[cfg(not(feature = "testing"))]
    fn clock(&self) -> (Env, Duration) {
        (Env::default(), boot::boottime())
    }
}

/// Prints the verdict and returns its exit code.
pub(super) fn check(args: &CheckArgs) -> ExitCode {
    let path = dirs::to_read(args.run_dir.as_deref()).join(FILE);
    let (env, now) = args.clock();
    let (health, text) = match (read(&path), boot::boot_id(&env)) {
        (Ok(Some(text)), Ok(boot)) => judge(&text, &boot.0, now),
        (Ok(None), _) => {
            let text = format!(
                "no verdict: {} does not exist; is the daemon running? (systemctl start nodewarden)",
                path.display()
            );
            (Health::Unknown, text)
        }
        (Err(error), _) => (Health::Unknown, error.to_string()),
        (_, Err(error)) => (Health::Unknown, error.to_string()),
    };
    let (word, code) = match health {
        Health::Healthy => ("healthy", 0),
        Health::Unhealthy => ("unhealthy", 1),
        Health::Unknown => ("unknown", 2),
    };
    // Not cut to the terminal's width: this line goes into logs and slurmctld's reason.
    screen::tell(
        &format!("{word}{} {}\n", mark(health), screen::clean(&text)),
        ExitCode::from(code),
    )
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
pub(super) fn judge(text: &str, boot: &str, now: Duration) -> (Health, String) {
    let verdict: Verdict = match serde_json::from_str(text) {
        Ok(verdict) => verdict,
        Err(error) => return (Health::Unknown, format!("the verdict cannot be read: {error}")),
    };
    let now = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
    let seconds = |millis: u64| millis / 1000;
    if verdict.boot != boot {
        return (
            Health::Unknown,
            "the verdict is from before the last boot".to_owned(),
        );
    }
    if verdict.at_ms > now {
        return (Health::Unknown, "the verdict is from the future".to_owned());
    }
    if now > verdict.valid_until_ms {
        let age = seconds(now - verdict.at_ms);
        let text = format!(
            "the last verdict has expired, the daemon is down or stuck (age {age}s; journalctl -u nodewarden)"
        );
        return (Health::Unknown, text);
    }
    let age = seconds(now - verdict.at_ms);
    (verdict.health, format!("{} (age {age}s)", verdict.text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(health: Health) -> String {
        let verdict = Verdict {
            health,
            text: "all good".to_owned(),
            boot: "b".to_owned(),
            at_ms: 10_000,
            valid_until_ms: 55_000,
        };
        serde_json::to_string(&verdict).unwrap()
    }

    fn at(text: &str, boot: &str, millis: u64) -> (Health, String) {
        judge(text, boot, Duration::from_millis(millis))
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
