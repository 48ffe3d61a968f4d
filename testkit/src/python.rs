//! Python packages for independent checks, each in a virtual environment below target/: the OpenMetrics parser of
//! Prometheus' client, and NVIDIA's wrapper of its management library.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::{exec, wait};

/// The installed package. Each version has its own environment.
const PACKAGE: &str = "prometheus-client==0.26.0";

/// Reads standard input, and prints the numbers of families and samples.
const SCRIPT: &str = "\
import io, sys
from prometheus_client.openmetrics.parser import text_fd_to_metric_families as parse
families = list(parse(io.TextIOWrapper(sys.stdin.buffer, encoding='utf-8', newline='\\n')))
print(len(families), sum(len(f.samples) for f in families))
";

/// Time limit of the installation, which downloads the package.
const INSTALL: Duration = Duration::from_secs(300);

/// Parses `body` as OpenMetrics; returns the numbers of families and samples.
///
/// # Errors
/// When the parser rejects it or cannot be installed.
pub fn check_openmetrics(body: &str) -> Result<(usize, usize)> {
    let mut command = Command::new(interpreter(PACKAGE)?);
    command.args(["-I", "-c", SCRIPT]);
    let said = exec::run(command, body.as_bytes(), wait::PATIENCE)?
        .ok()
        .context("prometheus_client.openmetrics.parser")?
        .stdout;
    let mut numbers = said.split_whitespace().map(str::parse);
    let mut next = || {
        numbers
            .next()
            .context("the parser printed nothing")?
            .context("not a number")
    };
    Ok((next()?, next()?))
}

/// The Python of the environment with a package. The first test that needs it creates it; others wait.
pub(crate) fn interpreter(package: &str) -> Result<PathBuf> {
    let target = target();
    fs::create_dir_all(&target)?;
    let lock = File::create(target.join("python.lock"))?;
    lock.lock()?;
    let dir = target.join(format!("python-{}", package.replace("==", "-")));
    let python = dir.join("bin/python3");
    let done = dir.join("installed");
    if !done.is_file() {
        // Remains of an interrupted installation.
        if dir.exists() {
            fs::remove_dir_all(&dir)?;
        }
        let mut make = Command::new(exec::which("python3")?);
        make.args(["-m", "venv"]).arg(&dir);
        exec::run(make, b"", INSTALL)?
            .ok()
            .context("cannot make a virtual environment; Debian: apt-get install python3-venv")?;
        let mut install = Command::new(&python);
        install.args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            package,
        ]);
        exec::run(install, b"", INSTALL)?
            .ok()
            .with_context(|| format!("cannot install {package}"))?;
        fs::write(&done, package)?;
    }
    ensure!(python.exists(), "{} does not exist", python.display());
    Ok(python)
}

/// The build folder, which contains this program.
pub(crate) fn target() -> PathBuf {
    let program = std::env::current_exe().unwrap_or_default();
    let target = program.ancestors().find(|p| p.join("CACHEDIR.TAG").is_file());
    target.map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"),
        Path::to_owned,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_valid_pages_and_names_the_error_in_others() {
        let good = "# TYPE a counter\n# HELP a A.\na_total{b=\"c\"} 1\n# EOF\n";
        assert_eq!(check_openmetrics(good).unwrap(), (1, 1));
        for (bad, expected) in [
            ("# TYPE a counter\n# HELP a A.\na_total 1\n", "EOF"),
            (
                "# TYPE a counter\n# HELP a A.\na_total -1\n# EOF\n",
                "be negative",
            ),
        ] {
            let error = format!("{:#}", check_openmetrics(bad).unwrap_err());
            assert!(error.to_lowercase().contains(&expected.to_lowercase()), "{error}");
        }
    }
}
