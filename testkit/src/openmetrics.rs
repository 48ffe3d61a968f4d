//! A strict reader of OpenMetrics 1.0: it asks for what the specification asks of a producer, not for what readers
//! forgive.

use std::collections::{BTreeMap, HashMap, HashSet};

use anyhow::{Context, Result, bail, ensure};

use crate::exposition::{Sample, is_name, parse, unescape};

/// One family.
#[derive(Clone, Debug, Default)]
pub struct Family {
    /// Its name, which samples extend.
    pub name: String,
    /// `counter`, `gauge`, `histogram`, `info` or `unknown`.
    pub kind: String,
    /// Its unit; empty without a unit.
    pub unit: String,
    /// Its help, unescaped.
    pub help: String,
    /// Its samples, in order.
    pub samples: Vec<Sample>,
}

/// Reads a whole page; the first fault is an error with its line.
pub fn check(body: &str) -> Result<Vec<Family>> {
    let body = body
        .strip_suffix("# EOF\n")
        .context("the last line is not `# EOF`")?;
    ensure!(
        body.is_empty() || body.ends_with('\n'),
        "no newline before `# EOF`"
    );
    let mut families: Vec<Family> = Vec::new();
    for (number, line) in (1..).zip(body.split_terminator('\n')) {
        let step = match line.strip_prefix("# ") {
            Some(descriptor) => describe(descriptor, &mut families),
            None => sample(line, &mut families),
        };
        step.with_context(|| format!("line {number}: {line}"))?;
    }
    names(&families)?;
    for family in &families {
        whole(family).with_context(|| format!("family {}", family.name))?;
    }
    Ok(families)
}

/// TYPE comes first, then UNIT if present, then HELP; each once, and all before the first sample.
fn describe(descriptor: &str, families: &mut Vec<Family>) -> Result<()> {
    let mut words = descriptor.splitn(3, ' ');
    let (word, name, rest) = (words.next(), words.next(), words.next());
    let (name, rest) = (name.context("no name")?, rest.context("nothing said")?);
    ensure!(is_name(name, true), "bad name {name:?}");
    if word == Some("TYPE") {
        let known = ["counter", "gauge", "histogram", "info", "unknown"];
        ensure!(known.contains(&rest), "unknown type {rest:?}");
        ensure!(families.iter().all(|f| f.name != name), "the family comes twice");
        families.push(Family {
            name: name.to_owned(),
            kind: rest.to_owned(),
            ..Family::default()
        });
        return Ok(());
    }
    let family = families.last_mut().filter(|f| f.name == name);
    let family = family.context("not below the family's TYPE")?;
    ensure!(family.samples.is_empty() && family.help.is_empty(), "too late");
    match word {
        Some("UNIT") => {
            ensure!(family.unit.is_empty(), "UNIT comes twice");
            ensure!(
                name.ends_with(&format!("_{rest}")),
                "the name does not end in the unit"
            );
            ensure!(family.kind != "info", "an info has no unit");
            family.unit = rest.to_owned();
        }
        Some("HELP") => {
            ensure!(!rest.is_empty(), "empty HELP");
            // A quote that is not escaped ends a string.
            ensure!(
                !rest.replace("\\\\", "").replace("\\\"", "").contains('"'),
                "bare quote"
            );
            family.help = unescape(rest, true)?;
        }
        _ => bail!("neither TYPE, UNIT nor HELP"),
    }
    Ok(())
}

fn sample(line: &str, families: &mut [Family]) -> Result<()> {
    ensure!(!line.is_empty(), "empty line");
    ensure!(!line.contains(" # "), "exemplars are not for us");
    let sample = parse(line)?;
    ensure!(!line.contains(",}"), "comma before the brace");
    ensure!(sample.timestamp.is_none(), "time stamp");
    let family = families.last_mut().context("no TYPE before the sample")?;
    ensure!(!family.help.is_empty(), "no HELP before the sample");
    let suffix = sample.name.strip_prefix(&family.name);
    let suffix = suffix.with_context(|| format!("not of family {}", family.name))?;
    match (family.kind.as_str(), suffix) {
        ("counter", "_total") | ("histogram", "_count") => {
            ensure!(sample.value >= 0.0, "negative or not a number");
        }
        ("info", "_info") => ensure!(sample.value == 1.0, "an info is 1"),
        ("histogram", "_bucket") => {
            let le = sample.label("le").context("bucket without le")?;
            ensure!(
                le == "+Inf" || le.contains('.') || le.contains('e'),
                "le {le:?} is not canonical"
            );
            ensure!(sample.value >= 0.0, "negative bucket");
        }
        ("histogram", "_sum") | ("gauge" | "unknown", "") => {}
        (kind, suffix) => bail!("a {kind} has no sample {suffix:?}"),
    }
    family.samples.push(sample);
    Ok(())
}

/// No family's samples may be taken for another's.
fn names(families: &[Family]) -> Result<()> {
    let mut taken: HashMap<String, &str> = HashMap::new();
    for family in families {
        let suffixes: &[&str] = match family.kind.as_str() {
            "counter" => &["", "_total", "_created"],
            "info" => &["", "_info"],
            "histogram" => &["", "_bucket", "_sum", "_count", "_created"],
            _ => &[""],
        };
        for suffix in suffixes {
            let name = format!("{}{suffix}", family.name);
            if let Some(other) = taken.insert(name.clone(), &family.name) {
                bail!("{name} is of family {other} and of {}", family.name);
            }
        }
    }
    Ok(())
}

/// No sample twice; a histogram's buckets ascend, are contiguous, and end in +Inf, which is its count.
fn whole(family: &Family) -> Result<()> {
    ensure!(!family.samples.is_empty(), "no sample");
    let mut seen = HashSet::new();
    for sample in &family.samples {
        ensure!(
            seen.insert((&sample.name, sample.labels.iter().collect::<Vec<_>>())),
            "{} {:?} comes twice",
            sample.name,
            sample.labels
        );
    }
    if family.kind != "histogram" {
        return Ok(());
    }
    let mut groups: Vec<(BTreeMap<String, String>, Vec<&Sample>)> = Vec::new();
    for sample in &family.samples {
        let mut labels = sample.labels.clone();
        labels.remove("le");
        match groups.last_mut() {
            Some((last, group)) if *last == labels => group.push(sample),
            _ => {
                ensure!(
                    groups.iter().all(|(l, _)| *l != labels),
                    "{labels:?} is not contiguous"
                );
                groups.push((labels, vec![sample]));
            }
        }
    }
    for (labels, group) in groups {
        histogram(&family.name, &group).with_context(|| format!("{labels:?}"))?;
    }
    Ok(())
}

fn histogram(name: &str, group: &[&Sample]) -> Result<()> {
    let mut last = (f64::NEG_INFINITY, 0.0);
    let one = |suffix: &str| {
        let mut found = group.iter().filter(|s| s.name == format!("{name}{suffix}"));
        found
            .next()
            .map(|s| s.value)
            .with_context(|| format!("no {suffix}"))
    };
    for sample in group {
        let Some(le) = sample.label("le") else { continue };
        let le: f64 = le.parse().context("le")?;
        ensure!(
            le > last.0 && sample.value >= last.1,
            "bucket {le} does not ascend"
        );
        last = (le, sample.value);
    }
    ensure!(last.0 == f64::INFINITY, "no bucket +Inf");
    ensure!(one("_count")? == last.1, "the count is not the last bucket");
    one("_sum").map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_the_specification_allows() {
        let body = "# TYPE a_bytes counter\n# UNIT a_bytes bytes\n# HELP a_bytes A \\\"q\\\" \\\\ \\n.\na_bytes_total{x=\"y\\\"\"} 1\n\
                    # TYPE b info\n# HELP b B.\nb_info{c=\"d\"} 1\n\
                    # TYPE h histogram\n# HELP h H.\nh_bucket{le=\"1.0\"} 1\nh_bucket{le=\"+Inf\"} 2\nh_sum 3.5\nh_count 2\n\
                    # EOF\n";
        let families = check(body).unwrap();
        assert_eq!(families.len(), 3);
        assert_eq!(families[0].help, "A \"q\" \\ \n.");
        assert_eq!(families[0].unit, "bytes");
        assert!(check("# EOF\n").unwrap().is_empty());
    }

    #[test]
    fn names_each_fault() {
        const HEAD: &str = "# TYPE h histogram\n# HELP h H.\n";
        for (body, expected) in [
            ("# TYPE a gauge\n# HELP a A.\na 1\n", "EOF"),
            ("a 1\n# EOF\n", "no TYPE"),
            ("# TYPE a gauge\na 1\n# EOF\n", "no HELP"),
            (
                "# HELP a A.\n# TYPE a gauge\na 1\n# EOF\n",
                "below the family's TYPE",
            ),
            ("# TYPE a counter\n# HELP a A.\na 1\n# EOF\n", "no sample \"\""),
            (
                "# TYPE a_total counter\n# HELP a_total A.\na_total 1\n# EOF\n",
                "no sample \"\"",
            ),
            ("# TYPE a counter\n# HELP a A.\na_total -1\n# EOF\n", "negative"),
            (
                "# TYPE a gauge\n# UNIT a seconds\n# HELP a A.\na 1\n# EOF\n",
                "end in the unit",
            ),
            ("# TYPE a gauge\n# HELP a A \"b\".\na 1\n# EOF\n", "bare quote"),
            (
                "# TYPE a gauge\n# HELP a A.\n# UNIT a b\na 1\n# EOF\n",
                "too late",
            ),
            ("# TYPE a gauge\n# HELP a A.\na 1\na 2\n# EOF\n", "twice"),
            ("# TYPE a gauge\n# HELP a A.\na 1 5\n# EOF\n", "time stamp"),
            ("# TYPE a gauge\n# HELP a A.\na 1\n\n# EOF\n", "empty line"),
            ("# TYPE a gauge\n# HELP a A.\n# EOF\n", "no sample"),
            ("# TYPE a info\n# HELP a A.\na_info 2\n# EOF\n", "an info is 1"),
            (
                "# TYPE a info\n# HELP a A.\na_info 1\n# TYPE a_info gauge\n# HELP a_info A.\na_info 1\n# EOF\n",
                "of family a",
            ),
        ] {
            let error = format!("{:#}", check(body).unwrap_err());
            assert!(error.contains(expected), "{body:?}: {error}");
        }
        for (samples, expected) in [
            ("h_bucket{le=\"+Inf\"} 2\nh_sum 1\n", "no _count"),
            ("h_bucket{le=\"+Inf\"} 2\nh_count 2\n", "no _sum"),
            ("h_bucket{le=\"1.0\"} 2\nh_sum 1\nh_count 2\n", "no bucket +Inf"),
            ("h_bucket{le=\"1\"} 2\n", "not canonical"),
            (
                "h_bucket{le=\"1.0\"} 3\nh_bucket{le=\"+Inf\"} 2\nh_sum 1\nh_count 2\n",
                "ascend",
            ),
            ("h_bucket{le=\"+Inf\"} 2\nh_sum 1\nh_count 3\n", "last bucket"),
        ] {
            let error = format!("{:#}", check(&format!("{HEAD}{samples}# EOF\n")).unwrap_err());
            assert!(error.contains(expected), "{samples:?}: {error}");
        }
    }
}
