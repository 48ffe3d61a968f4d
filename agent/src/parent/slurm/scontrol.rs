//! Runs scontrol, and sinfo beside it. Its path is never looked at beforehand: Slurm is often installed on a network
//! filesystem, and only the child may touch that.

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

/// A scontrol that ran, and the slurmd for which it was found: an upgrade beside the old installation starts another one.
#[derive(Debug)]
struct Known {
    program: PathBuf,
    slurmd: Option<PathBuf>,
}

/// scontrol, and the one place where it was found.
#[derive(Debug, Default)]
pub struct Scontrol {
    runner: CommandRunner,
    known: Option<Known>,
    /// The log has that scontrol reads the node in place of sinfo.
    without_sinfo: bool,
    /// Answers in place of programs.
    #[cfg(test)]
    pub(super) model: Option<std::sync::Arc<super::guard::fleet::Line>>,
}

impl Scontrol {
    /// With the processes that an earlier one could not kill.
    pub fn new(runner: CommandRunner) -> Self {
        Self {
            runner,
            ..Self::default()
        }
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
        let places = match (&config.scontrol, self.known(found)) {
            (Some(path), _) | (None, Some(path)) => vec![path.clone()],
            (None, None) => places(found.exe.as_deref()),
        };
        let mut missing = None;
        for program in places {
            match self.execute(&command(config, found, program.clone(), args.clone())) {
                Err(SpawnError::NotFound(path)) => missing = missing.or(Some(path)),
                result => {
                    self.known = Some(Known {
                        program,
                        slurmd: found.exe.clone(),
                    });
                    return result;
                }
            }
        }
        self.known = None;
        Err(SpawnError::NotFound(
            missing.unwrap_or_else(|| PathBuf::from("scontrol")),
        ))
    }

    /// Runs `sinfo ARGS` of the same installation.
    ///
    /// # Errors
    /// Like [`CommandRunner::run`]; [`SpawnError::NotFound`] if no sinfo exists beside scontrol.
    pub fn sinfo(
        &mut self,
        config: &slurm::Settings,
        found: &LocalSlurmd,
        args: Vec<String>,
    ) -> Result<CommandOutput, SpawnError> {
        let sinfo = Path::new("sinfo").to_owned();
        let scontrol = config.scontrol.as_ref().or_else(|| self.known(found));
        let program = scontrol.map(|path| path.with_file_name("sinfo"));
        let program = program.ok_or(SpawnError::NotFound(sinfo))?;
        self.execute(&command(config, found, program, args))
    }

    /// The one that ran for this slurmd.
    fn known(&self, found: &LocalSlurmd) -> Option<&PathBuf> {
        let known = self.known.as_ref().filter(|known| known.slurmd == found.exe)?;
        Some(&known.program)
    }

    fn execute(&mut self, command: &CommandLine) -> Result<CommandOutput, SpawnError> {
        #[cfg(test)]
        if let Some(model) = &self.model {
            return model.answer(&command.args);
        }
        self.runner.run(command)
    }

    /// sinfo showed the node.
    pub fn sinfo_works(&mut self) {
        self.without_sinfo = false;
    }

    /// scontrol showed the node in place of sinfo. sinfo is tried again each time: only it shows an empty Extra.
    pub fn sinfo_failed(&mut self, why: &str) {
        if !std::mem::replace(&mut self.without_sinfo, true) {
            tracing::info!("the node is read with scontrol, because sinfo cannot be used: {why}");
        }
    }
}

fn command(
    config: &slurm::Settings,
    found: &LocalSlurmd,
    program: PathBuf,
    args: Vec<String>,
) -> CommandLine {
    let conf = config.conf.as_ref().or(found.conf.as_ref());
    CommandLine {
        program,
        args,
        env: environment(conf.map(PathBuf::as_path)),
        input: Vec::new(),
        deadline: deadline(config.timeout),
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
        // With FederationParameters=fed_display, sinfo shows equal names of all clusters.
        ("SINFO_LOCAL".to_owned(), "1".to_owned()),
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

    /// The old installation stays on the disk for the way back.
    #[test]
    #[allow(clippy::disallowed_methods, reason = "a test makes the installations")]
    fn another_slurmd_has_another_scontrol_and_sinfo() {
        let dir = tempfile::tempdir().unwrap();
        for (version, program) in [("23.11", "/bin/true"), ("24.11", "/bin/false")] {
            let bin = dir.path().join(version).join("bin");
            std::fs::create_dir_all(&bin).unwrap();
            for name in ["scontrol", "sinfo"] {
                std::os::unix::fs::symlink(program, bin.join(name)).unwrap();
            }
        }
        let of = |version: &str| LocalSlurmd {
            node_name: "n1".to_owned(),
            conf: None,
            exe: Some(dir.path().join(version).join("sbin/slurmd")),
            process: None,
            boot: super::super::find::Boot::Machine,
        };
        let config = slurm::Settings {
            timeout: Duration::from_secs(60),
            ..slurm::Settings::default()
        };
        let mut scontrol = Scontrol::default();
        for version in ["23.11", "23.11", "24.11", "23.11"] {
            let found = of(version);
            let code = i32::from(version == "24.11");
            assert_eq!(scontrol.run(&config, &found, Vec::new()).unwrap().code, code);
            assert_eq!(scontrol.sinfo(&config, &found, Vec::new()).unwrap().code, code);
        }
        assert!(
            scontrol.sinfo(&config, &of("24.11"), Vec::new()).is_err(),
            "not found yet"
        );
    }

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
