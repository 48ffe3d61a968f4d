//! promtool, the reference reader of metrics and rules.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};

use crate::{exec, wait};

/// `promtool check metrics`: an error if it cannot parse `body` or prints any remark.
pub fn check_metrics(body: &str) -> Result<()> {
    let mut command = Command::new(exec::which("promtool")?);
    command.args(["check", "metrics"]);
    let output = exec::run(command, body.as_bytes(), wait::PATIENCE)?;
    if output.code != Some(0) || !output.stdout.is_empty() || !output.stderr.is_empty() {
        bail!(
            "promtool: exit {:?}\n{}{}",
            output.code,
            output.stdout,
            output.stderr
        );
    }
    Ok(())
}

/// `promtool check rules`.
pub fn check_rules(file: &Path) -> Result<()> {
    let mut command = Command::new(exec::which("promtool")?);
    command.args(["check", "rules"]).arg(file);
    exec::run(command, b"", wait::PATIENCE)?.ok().map(drop)
}

/// `promtool test rules`: unit tests of alerts.
pub fn test_rules(file: &Path) -> Result<()> {
    let mut command = Command::new(exec::which("promtool")?);
    command.args(["test", "rules"]).arg(file);
    exec::run(command, b"", wait::PATIENCE)?.ok().map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_good_metrics_and_names_bad_ones() {
        check_metrics("# HELP a_total Help.\n# TYPE a_total counter\na_total{x=\"y\"} 1\n").unwrap();
        let error = check_metrics("# HELP a Help.\n# TYPE a counter\na 1\n")
            .unwrap_err()
            .to_string();
        assert!(error.contains("_total"), "{error}");
        assert!(check_metrics("a b c\n").is_err());
    }

    #[test]
    fn checks_and_tests_rules() {
        let dir = tempfile::tempdir().unwrap();
        let rules = dir.path().join("rules.yml");
        std::fs::write(
            &rules,
            "groups: [{name: g, rules: [{alert: A, expr: up == 0}]}]\n",
        )
        .unwrap();
        check_rules(&rules).unwrap();
        let tests = |expected: &str| {
            let file = dir.path().join("tests.yml");
            let text = format!(
                "rule_files: [rules.yml]\nevaluation_interval: 1m\ntests:\n- interval: 1m\n  input_series:\n  \
                 - {{series: 'up', values: '0 0'}}\n  alert_rule_test:\n  \
                 - {{eval_time: 1m, alertname: A, exp_alerts: [{expected}]}}\n"
            );
            std::fs::write(&file, text).unwrap();
            test_rules(&file)
        };
        tests("{}").unwrap();
        assert!(tests("").is_err());
        std::fs::write(
            &rules,
            "groups: [{name: g, rules: [{alert: A, expr: 'up =='}]}]\n",
        )
        .unwrap();
        assert!(check_rules(&rules).is_err());
    }
}
