//! Runs scontrol. Its path is never looked at beforehand: Slurm is often installed on a network filesystem, and only
//! the child may touch that.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::find::LocalSlurmd;
use sys::spawn::{CommandLine, CommandOutput, CommandRunner, SpawnError};

/// Where scontrol is looked for, after the configuration and slurmd's neighbourhood.
const PLACES: &[&str] = &[
    "/usr/bin/scontrol",
    "/usr/local/bin/scontrol",
    "/opt/slurm/bin/scontrol",
];

/// scontrol, and the one place where it was found.
#[derive(Debug, Default)]
pub struct Scontrol {
    runner: CommandRunner,
    known: Option<PathBuf>,
}

impl Scontrol {
    /// With the processes that an earlier one could not kill.
    pub fn new(runner: CommandRunner) -> Self {
        Self { runner, known: None }
    }

    /// Runs `scontrol ARGS` against slurmd's cluster.
    ///
    /// # Errors
    /// Like [`CommandRunner::run`]; [`SpawnError::NotFound`] with the first place where none of them has it.
    pub fn run(
        &mut self,
        config: &slurm::Settings,
        found: &LocalSlurmd,
        args: Vec<String>,
    ) -> Result<CommandOutput, SpawnError> {
        let places = match (&config.scontrol, &self.known) {
            (Some(path), _) | (None, Some(path)) => vec![path.clone()],
            (None, None) => places(found.exe.as_deref()),
        };
        let conf = config.conf.as_ref().or(found.conf.as_ref());
        let mut missing = None;
        for program in places {
            let command = CommandLine {
                program: program.clone(),
                args: args.clone(),
                env: environment(conf.map(PathBuf::as_path)),
                input: Vec::new(),
                deadline: deadline(config.timeout),
            };
            match self.runner.run(&command) {
                Err(SpawnError::NotFound(path)) => missing = missing.or(Some(path)),
                result => {
                    self.known = Some(program);
                    return result;
                }
            }
        }
        self.known = None;
        Err(SpawnError::NotFound(
            missing.unwrap_or_else(|| PathBuf::from("scontrol")),
        ))
    }
}

/// `sbin/slurmd` and `bin/scontrol` belong to one installation, which may be anywhere.
fn places(slurmd: Option<&Path>) -> Vec<PathBuf> {
    let mut places = Vec::new();
    if let Some(folder) = slurmd.and_then(Path::parent) {
        places.push(folder.join("scontrol"));
        if let Some(above) = folder.parent() {
            places.push(above.join("bin/scontrol"));
        }
    }
    places.extend(PLACES.iter().map(PathBuf::from));
    let mut seen = std::collections::BTreeSet::new();
    places.retain(|place| seen.insert(place.clone()));
    places
}

/// Nothing is inherited. Times come in UTC, so that no hour of the year is ambiguous.
fn environment(conf: Option<&Path>) -> Vec<(String, String)> {
    let mut env = vec![
        ("PATH".to_owned(), "/usr/bin:/bin".to_owned()),
        ("LC_ALL".to_owned(), "C".to_owned()),
        ("TZ".to_owned(), "UTC0".to_owned()),
        ("SLURM_TIME_FORMAT".to_owned(), "standard".to_owned()),
    ];
    if let Some(conf) = conf.and_then(Path::to_str) {
        env.push(("SLURM_CONF".to_owned(), conf.to_owned()));
    }
    env
}

/// A deadline of 0 would refuse every answer.
fn deadline(configured: Duration) -> Duration {
    configured.max(Duration::from_millis(100))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_to_slurmd_first() {
        let places = places(Some(Path::new("/cm/slurm/24.11/sbin/slurmd")));
        assert_eq!(places[0], Path::new("/cm/slurm/24.11/sbin/scontrol"));
        assert_eq!(places[1], Path::new("/cm/slurm/24.11/bin/scontrol"));
        assert_eq!(places[2], Path::new("/usr/bin/scontrol"));
        let distribution = super::places(Some(Path::new("/usr/sbin/slurmd-wlm")));
        assert_eq!(
            distribution
                .iter()
                .filter(|p| p.as_path() == Path::new("/usr/bin/scontrol"))
                .count(),
            1
        );
    }
}
