//! What the guest tells on its console: lines `@@ NAME: ok DETAIL` and `@@ NAME: FAILED DETAIL`.

use anyhow::{Result, bail};

/// The results so far.
#[derive(Default)]
pub(super) struct Report {
    /// By name, with their details.
    passed: Vec<(String, String)>,
    failed: Vec<String>,
}

impl Report {
    /// Takes one line of the console and shows it, if it is for people. Whether the guest has said that it is done.
    pub(super) fn line(&mut self, line: &str) -> bool {
        let Some((_, said)) = line.split_once("@@ ") else {
            // Once something has failed, the logs follow.
            if line.starts_with("boot ") || !self.failed.is_empty() {
                println!("  {line}");
            }
            return false;
        };
        if said == "end" {
            return true;
        }
        println!("{said}");
        // Names hold colons themselves, so the word of the result is what is looked for.
        if let Some((name, detail)) = said.split_once(": ok") {
            self.passed.push((name.to_owned(), detail.trim().to_owned()));
        } else {
            self.failed.push(said.to_owned());
        }
        false
    }

    /// Says what became of the results that were wanted, and returns them with their details.
    ///
    /// # Errors
    /// When one failed, is missing or was not wanted.
    pub(super) fn finish(mut self, wanted: &[&str]) -> Result<Vec<(String, String)>> {
        for name in wanted {
            let failed = self.failed.iter().any(|f| f.starts_with(&format!("{name}: ")));
            if !failed && !self.passed.iter().any(|(p, _)| p == name) {
                println!("{name}: FAILED not reached");
                self.failed.push(format!("{name}: not reached"));
            }
        }
        for (name, _) in &self.passed {
            if !wanted.contains(&name.as_str()) {
                self.failed.push(format!("{name}: not in the list of results"));
            }
        }
        println!("{} passed, {} failed", self.passed.len(), self.failed.len());
        match self.failed.first() {
            None => Ok(self.passed),
            Some(first) => bail!("{first}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finish(lines: &[&str], wanted: &[&str]) -> Result<Vec<(String, String)>> {
        let mut report = Report::default();
        for line in lines {
            report.line(line);
        }
        report.finish(wanted)
    }

    #[test]
    fn passes_only_when_everything_wanted_was_told() {
        let lines = ["boot 1", "@@ a: ok", "noise@@ b: c: ok 12 ms"];
        let told = finish(&lines, &["a", "b: c"]).unwrap();
        assert_eq!(told[1], ("b: c".to_owned(), "12 ms".to_owned()));
        let error = finish(&lines, &["a", "b: c", "d"]).unwrap_err().to_string();
        assert_eq!(error, "d: not reached");
        assert!(finish(&lines, &["a"]).is_err());
        assert!(finish(&[], &["a"]).is_err());
    }

    #[test]
    fn a_failure_is_named_with_its_detail() {
        let lines = ["@@ a: ok", "@@ b: FAILED why", "--- log"];
        let error = finish(&lines, &["a", "b", "c"]).unwrap_err().to_string();
        assert_eq!(error, "b: FAILED why");
    }

    #[test]
    fn the_end_is_known() {
        let mut report = Report::default();
        assert!(!report.line("@@ a: ok"));
        assert!(report.line("@@ end"));
    }
}
