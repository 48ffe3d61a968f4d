//! The guest's results on its console: lines `@@ NAME: ok DETAIL` and `@@ NAME: FAILED DETAIL`.

use anyhow::{Result, bail};

/// The results so far.
#[derive(Default)]
pub(super) struct Report {
    /// By name, with their details.
    passed: Vec<(String, String)>,
    failed: Vec<String>,
}

impl Report {
    /// Reads one line of the console; prints results and logs. Returns whether the guest is done.
    pub(super) fn line(&mut self, line: &str) -> bool {
        let Some((_, said)) = line.split_once("@@ ") else {
            // After a failure, the guest prints its logs.
            if line.starts_with("boot ") || !self.failed.is_empty() {
                println!("  {line}");
            }
            return false;
        };
        if said == "end" {
            return true;
        }
        println!("{said}");
        // Names contain colons, so search for the word of the result.
        if let Some((name, detail)) = said.split_once(": ok") {
            self.passed.push((name.to_owned(), detail.trim().to_owned()));
        } else {
            self.failed.push(said.to_owned());
        }
        false
    }

    /// Prints missing and failed results, and returns all results with their details.
    ///
    /// # Errors
    /// When a result failed, is missing or is not in the list.
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
    fn passes_only_if_all_expected_results_were_reported() {
        let lines = ["boot 1", "@@ a: ok", "noise@@ b: c: ok 12 ms"];
        let results = finish(&lines, &["a", "b: c"]).unwrap();
        assert_eq!(results[1], ("b: c".to_owned(), "12 ms".to_owned()));
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
    fn the_end_is_recognised() {
        let mut report = Report::default();
        assert!(!report.line("@@ a: ok"));
        assert!(report.line("@@ end"));
    }
}
