//! A strict reader of the text format, for tests: it refuses what Prometheus lets pass.

use std::collections::{BTreeMap, BTreeSet};

/// Labels in order of appearance.
type Labels = Vec<(String, String)>;

/// Labels and values as written.
pub type Samples = Vec<(Labels, String)>;

/// Families in order, with their type and samples.
#[derive(Debug, Default)]
pub struct Exposition {
    /// The names of the families, in the order of the page.
    pub order: Vec<String>,
    /// By name: the type and the samples.
    pub families: BTreeMap<String, (String, Samples)>,
}

impl Exposition {
    /// The value of the series with exactly these labels.
    pub fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<&str> {
        let (_, samples) = self.families.get(name)?;
        let wanted: Vec<(String, String)> = labels
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect();
        samples
            .iter()
            .find(|(l, _)| *l == wanted)
            .map(|(_, v)| v.as_str())
    }
}

/// Parses a whole page strictly; an error names its line.
pub fn parse(text: &str) -> Result<Exposition, String> {
    let mut all = Exposition::default();
    let (mut current, mut help) = (None::<String>, None::<String>);
    let mut seen = BTreeSet::new();
    if !text.is_empty() && !text.ends_with('\n') {
        return Err("no line feed at the end".to_owned());
    }
    for line in text.lines() {
        let offence = |what: &str| Err(format!("{what}: {line}"));
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let Some((name, words)) = rest.split_once(' ') else {
                return offence("empty help");
            };
            if !words.ends_with('.') {
                return offence("help without a full stop");
            }
            help = Some(name.to_owned());
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let Some((name, kind)) = rest.split_once(' ') else {
                return offence("no type");
            };
            if help.take().as_deref() != Some(name) {
                return offence("type without help before it");
            }
            let known = ["counter", "gauge", "histogram"].contains(&kind);
            if (kind == "counter") != name.ends_with("_total") || !known {
                return offence("type and name disagree");
            }
            if all
                .families
                .insert(name.to_owned(), (kind.to_owned(), Vec::new()))
                .is_some()
            {
                return offence("family twice");
            }
            all.order.push(name.to_owned());
            current = Some(name.to_owned());
        } else {
            let (name, labels, value) = sample(line).ok_or_else(|| format!("not a sample: {line}"))?;
            let Some(family) = current.clone().filter(|f| belongs(&name, f, &all)) else {
                return offence("sample outside its family");
            };
            let mut sorted = labels.clone();
            sorted.sort();
            if !seen.insert((name.clone(), sorted)) {
                return offence("duplicate");
            }
            if let Some((_, samples)) = all.families.get_mut(&family) {
                samples.push((labels, value));
            }
        }
    }
    if all.families.values().any(|(_, s)| s.is_empty()) {
        return Err("a family without samples".to_owned());
    }
    Ok(all)
}

fn belongs(name: &str, family: &str, all: &Exposition) -> bool {
    let histogram = all
        .families
        .get(family)
        .is_some_and(|(kind, _)| kind == "histogram");
    name.strip_prefix(family).is_some_and(|suffix| match histogram {
        true => ["_bucket", "_sum", "_count"].contains(&suffix),
        false => suffix.is_empty(),
    })
}

fn sample(line: &str) -> Option<(String, Labels, String)> {
    let end = line.find(['{', ' '])?;
    let (name, mut rest) = line.split_at(end);
    let word = |w: &str| {
        !w.is_empty()
            && w.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
            && !w.starts_with(|c: char| c.is_ascii_digit())
    };
    let mut labels = Vec::new();
    if let Some(mut inner) = rest.strip_prefix('{') {
        loop {
            let (key, after) = inner.split_once("=\"")?;
            if !word(key) {
                return None;
            }
            let (mut value, mut escaped, mut end) = (String::new(), false, None);
            for (at, c) in after.char_indices() {
                match (escaped, c) {
                    (true, 'n') => value.push('\n'),
                    (true, '\\' | '"') => value.push(c),
                    (true, _) => return None,
                    (false, '\\') => {}
                    (false, '"') => {
                        end = Some(at);
                        break;
                    }
                    (false, c) => value.push(c),
                }
                escaped = !escaped && c == '\\';
            }
            labels.push((key.to_owned(), value));
            inner = after.get(end? + 1..)?;
            match inner.strip_prefix(',') {
                Some(more) => inner = more,
                None => break,
            }
        }
        rest = inner.strip_prefix('}')?;
    }
    let value = rest.strip_prefix(' ')?;
    let number = ["NaN", "+Inf", "-Inf"].contains(&value) || value.parse::<f64>().is_ok_and(f64::is_finite);
    (word(name) && number).then(|| (name.to_owned(), labels, value.to_owned()))
}

#[test]
fn offences_are_found() {
    let head = "# HELP a A.\n# TYPE a gauge\n";
    assert!(parse(&format!("{head}a 1\n")).is_ok());
    for bad in [
        "a 1\n",
        "# HELP a A.\n# TYPE a gauge\na 1",
        "# HELP a A.\n# TYPE a counter\na 1\n",
        "# HELP a A.\n# TYPE a gauge\na{b=\"1\",c=\"2\"} 1\na{c=\"2\",b=\"1\"} 1\n",
        "# HELP a A.\n# TYPE a gauge\na x\n",
        "# HELP a A.\n# TYPE a gauge\n",
        "# TYPE a gauge\na 1\n",
    ] {
        assert!(parse(bad).is_err(), "{bad}");
    }
}
