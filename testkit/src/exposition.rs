//! A strict reader of the text exposition format 0.0.4.
//!
//! Stricter than Prometheus, which forgives what would be a bug of ours: every family needs HELP and TYPE before its
//! samples, is contiguous, and no sample comes twice.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use anyhow::{Context, Result, bail, ensure};

/// One sample.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Name, with the suffix that histograms and summaries add.
    pub name: String,
    /// Labels by name.
    pub labels: BTreeMap<String, String>,
    /// Value.
    pub value: f64,
    /// Milliseconds since the epoch, where the sample has its own time.
    pub timestamp: Option<i64>,
}

impl Sample {
    /// A label's value.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.get(name).map(String::as_str)
    }
}

#[derive(Default)]
struct Family {
    name: String,
    kind: Option<String>,
    help: bool,
    samples: usize,
}

/// Reads `body`; the first fault is an error with its line.
pub fn check(body: &str) -> Result<Vec<Sample>> {
    ensure!(
        body.is_empty() || body.ends_with('\n'),
        "the last line has no newline"
    );
    let mut samples = Vec::new();
    let mut seen = HashSet::new();
    let mut closed: BTreeSet<String> = BTreeSet::new();
    let mut family = Family::default();
    for (number, line) in (1..).zip(body.split_terminator('\n')) {
        let mut step = || -> Result<()> {
            if let Some(comment) = line.strip_prefix('#') {
                return header(comment, &mut family, &mut closed);
            }
            if line.is_empty() {
                return Ok(());
            }
            let sample = parse(line)?;
            ensure!(
                belongs(&sample, &family)?,
                "{} is not of family {:?}",
                sample.name,
                family.name
            );
            family.samples += 1;
            let key = (sample.name.clone(), sample.labels.clone());
            ensure!(seen.insert(key), "sample comes twice");
            samples.push(sample);
            Ok(())
        };
        step().with_context(|| format!("line {number}: {line}"))?;
    }
    family.end()?;
    Ok(samples)
}

/// Labels and values as written.
pub type Samples = Vec<(BTreeMap<String, String>, String)>;

/// The families of a page.
#[derive(Debug, Default)]
pub struct Page {
    /// Their names, in the order of the page.
    pub order: Vec<String>,
    /// By name: the type and the samples.
    pub families: BTreeMap<String, (String, Samples)>,
}

impl Page {
    /// The value of the series with exactly these labels.
    pub fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<&str> {
        let (_, samples) = self.families.get(name)?;
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let wanted: BTreeMap<String, String> = labels.iter().map(owned).collect();
        let found = samples.iter().find(|(labels, _)| *labels == wanted);
        found.map(|(_, value)| value.as_str())
    }
}

/// Reads a page of nodewarden's own encoder. Beyond [`check`]: a help is a sentence before its type, only counters end in `_total`,
/// no sample has a time, and braces have no more than its labels.
pub fn read_page(body: &str) -> Result<Page> {
    let mut samples = check(body)?.into_iter();
    let mut page = Page::default();
    let mut help = None;
    for line in body.lines() {
        if let Some((name, words)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) {
            ensure!(words.ends_with('.'), "help without a full stop: {line}");
            help = Some(name);
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' '))
        {
            ensure!(help.take() == Some(name), "type without help before it: {line}");
            let known = ["counter", "gauge", "histogram"].contains(&kind);
            let is_total = name.ends_with("_total");
            ensure!(
                known && (kind == "counter") == is_total,
                "type and name disagree: {line}"
            );
            page.order.push(name.to_owned());
            page.families
                .insert(name.to_owned(), (kind.to_owned(), Vec::new()));
        } else {
            ensure!(
                !line.is_empty() && !line.starts_with('#'),
                "not a sample: {line:?}"
            );
            let (sample, (head, value)) = samples.next().zip(line.rsplit_once(' ')).context("no sample")?;
            ensure!(sample.timestamp.is_none(), "a time: {line}");
            // The format allows both.
            let is_short = !head.ends_with("{}") && !head.ends_with(",}");
            ensure!(
                is_short,
                "braces without a label, or a comma behind the last one: {line}"
            );
            let family = page.order.last().and_then(|name| page.families.get_mut(name));
            let (_, samples) = family.context("no family")?;
            samples.push((sample.labels, value.to_owned()));
        }
    }
    Ok(page)
}

impl Family {
    fn end(&self) -> Result<()> {
        ensure!(
            self.name.is_empty() || self.samples > 0,
            "family {} has no sample",
            self.name
        );
        Ok(())
    }
}

fn header(comment: &str, family: &mut Family, closed: &mut BTreeSet<String>) -> Result<()> {
    let mut words = comment.strip_prefix(' ').unwrap_or(comment).splitn(3, ' ');
    let (keyword, name, rest) = (words.next(), words.next(), words.next());
    let Some(keyword @ ("HELP" | "TYPE")) = keyword else {
        return Ok(());
    };
    let name = name.context("no name")?;
    ensure!(is_name(name, true), "bad name {name:?}");
    if family.name != name {
        family.end()?;
        closed.insert(std::mem::take(&mut family.name));
        ensure!(!closed.contains(name), "family {name} is not contiguous");
        *family = Family {
            name: name.to_owned(),
            ..Family::default()
        };
    }
    ensure!(family.samples == 0, "{keyword} after a sample");
    let rest = rest.unwrap_or_default();
    if keyword == "HELP" {
        ensure!(!family.help, "HELP comes twice");
        unescape(rest, false)?;
        ensure!(!rest.is_empty(), "empty HELP");
        family.help = true;
    } else {
        ensure!(family.kind.is_none(), "TYPE comes twice");
        let known = ["counter", "gauge", "histogram", "summary", "untyped"];
        ensure!(known.contains(&rest), "unknown type {rest:?}");
        family.kind = Some(rest.to_owned());
    }
    Ok(())
}

fn belongs(sample: &Sample, family: &Family) -> Result<bool> {
    let Some(suffix) = sample
        .name
        .strip_prefix(&family.name)
        .filter(|_| !family.name.is_empty())
    else {
        return Ok(false);
    };
    let kind = family.kind.as_deref().context("no TYPE before the sample")?;
    ensure!(family.help, "no HELP before the sample");
    Ok(match (kind, suffix) {
        ("histogram", "_bucket") => {
            parse_value(sample.label("le").context("bucket without le")?)?;
            true
        }
        ("summary", "") => {
            parse_value(sample.label("quantile").context("summary without quantile")?)?;
            true
        }
        ("histogram" | "summary", "_sum" | "_count") => true,
        ("counter", "") => {
            ensure!(sample.value >= 0.0, "negative counter");
            true
        }
        ("gauge" | "untyped", "") => true,
        _ => false,
    })
}

pub(crate) fn is_name(name: &str, colon: bool) -> bool {
    let head = |c: char| c.is_ascii_alphabetic() || c == '_' || (colon && c == ':');
    let mut chars = name.chars();
    chars.next().is_some_and(head) && chars.all(|c| head(c) || c.is_ascii_digit())
}

pub(crate) fn parse(line: &str) -> Result<Sample> {
    let end = line.find(['{', ' ']).context("no value")?;
    let (name, mut rest) = line.split_at(end);
    ensure!(is_name(name, true), "bad name {name:?}");
    let mut labels = BTreeMap::new();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        loop {
            if let Some(after) = rest.strip_prefix('}') {
                rest = after;
                break;
            }
            let (label, after) = rest.split_once("=\"").context("label without a quoted value")?;
            ensure!(is_name(label, false), "bad label name {label:?}");
            let end = closing_quote(after).context("value without its closing quote")?;
            let value = unescape(&after[..end], true)?;
            ensure!(
                labels.insert(label.to_owned(), value).is_none(),
                "label {label} comes twice"
            );
            rest = &after[end + 1..];
            if let Some(after) = rest.strip_prefix(',') {
                rest = after;
            } else {
                ensure!(rest.starts_with('}'), "no comma between labels");
            }
        }
    }
    let rest = rest.strip_prefix(' ').context("no space before the value")?;
    let mut words = rest.split(' ');
    let value = parse_value(words.next().context("no value")?)?;
    let timestamp = words
        .next()
        .map(str::parse)
        .transpose()
        .context("bad time stamp")?;
    ensure!(words.next().is_none(), "text after the value");
    Ok(Sample {
        name: name.to_owned(),
        labels,
        value,
        timestamp,
    })
}

fn closing_quote(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.bytes().position(|byte| {
        let closes = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        closes
    })
}

pub(crate) fn unescape(text: &str, quotes: bool) -> Result<String> {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('\\') => out.push('\\'),
                Some('n') => out.push('\n'),
                Some('"') if quotes => out.push('"'),
                other => bail!("bad escape \\{}", other.unwrap_or(' ')),
            },
            c if c.is_control() => bail!("control character {c:?}"),
            c => out.push(c),
        }
    }
    Ok(out)
}

// Rust also reads "infinity" and "nan" in any case; the format has one spelling each.
fn parse_value(text: &str) -> Result<f64> {
    match text {
        "+Inf" => Ok(f64::INFINITY),
        "-Inf" => Ok(f64::NEG_INFINITY),
        "NaN" => Ok(f64::NAN),
        _ if text.bytes().all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b)) => {
            text.parse().with_context(|| format!("bad value {text:?}"))
        }
        _ => bail!("bad value {text:?}"),
    }
}

/// Prefixes of the series of filesystems, whose number follows the node's mounts and not its GPUs and adapters.
const FILESYSTEMS: [&str; 4] = ["gpfs_", "lustre_", "mount_", "nfs_"];
/// Their collectors, whose own series have one for each mount.
const COLLECTORS: [&str; 3] = ["gpfs", "lustre", "mounts"];
/// Limit of series in the core tier of a node with 8 GPUs and 10 adapters, without its filesystems.
const CORE: usize = 1500;
/// Limit for one Lustre, one GPFS and four further mounts.
const CORE_FILESYSTEMS: usize = 250;

/// Counts the series of a core page of a whole node, without and of its filesystems.
///
/// # Errors
/// When a number is above its limit.
pub fn core_series(samples: &[Sample]) -> Result<(usize, usize)> {
    let of_filesystem = |sample: &&Sample| {
        let collector = sample.label("collector").unwrap_or_default();
        FILESYSTEMS.iter().any(|prefix| sample.name.starts_with(prefix)) || COLLECTORS.contains(&collector)
    };
    let filesystems = samples.iter().filter(of_filesystem).count();
    let node = samples.len() - filesystems;
    ensure!(
        node < CORE && filesystems < CORE_FILESYSTEMS,
        "the core tier has {node} series and {filesystems} of filesystems, expected less than {CORE} and {CORE_FILESYSTEMS}"
    );
    Ok((node, filesystems))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "# HELP a Help.\n# TYPE a gauge\n";

    #[test]
    fn reads_what_the_format_allows() {
        let body = "# a comment\n# HELP a It's \\\\ and \\n.\n# TYPE a gauge\na 1\na{x=\"q\\\"\\\\\\n}\",y=\"\",} -1e3 5\n\
                    # TYPE h histogram\n# HELP h H.\nh_bucket{le=\"0.1\"} 0\nh_bucket{le=\"+Inf\"} 2\nh_sum NaN\nh_count 2\n";
        let samples = check(body).unwrap();
        assert_eq!(samples.len(), 6);
        assert_eq!(samples[1].label("x"), Some("q\"\\\n}"));
        assert_eq!((samples[1].value, samples[1].timestamp), (-1000.0, Some(5)));
        crate::promtool::check_metrics(HEAD).unwrap();
        assert!(check("").unwrap().is_empty());
    }

    #[test]
    fn names_each_fault() {
        let faults = [
            ("a 1\na 1\n", "twice"),
            ("a{x=\"1\",y=\"2\"} 1\na{y=\"2\",x=\"1\"} 1\n", "twice"),
            (
                "a 1\n# HELP b B.\n# TYPE b gauge\nb 1\n# HELP a Help.\n",
                "contiguous",
            ),
            ("b 1\n", "not of family"),
            ("a 1\n# HELP b B.\nb 1\n", "no TYPE"),
            ("a 1\n# TYPE b gauge\nb 1\n", "no HELP"),
            ("a 1\n# HELP a Help.\n", "after a sample"),
            ("a{x=\"\\t\"} 1\n", "bad escape"),
            ("a{x=\"1} 1\n", "closing quote"),
            ("a{x=\"1\" y=\"2\"} 1\n", "comma"),
            ("a{x=\"1\",x=\"2\"} 1\n", "comes twice"),
            ("a{1x=\"1\"} 1\n", "bad label"),
            ("a inf\n", "bad value"),
            ("a  1\n", "bad value"),
            ("a 1", "no newline"),
            ("", "no sample"),
            ("a 1 2 3\n", "text after"),
            ("a_sum 1\n", "not of family"),
        ];
        for (body, expected) in faults {
            let error = format!("{:#}", check(&format!("{HEAD}{body}")).unwrap_err());
            assert!(error.contains(expected), "{body:?}: {error}");
        }
        let counter = "# HELP c C.\n# TYPE c counter\nc -1\n";
        assert!(format!("{:#}", check(counter).unwrap_err()).contains("negative"));
    }

    #[test]
    fn a_page_of_the_encoder_follows_further_rules() {
        let read = read_page(&format!("{HEAD}a{{y=\"2\",x=\"1\"}} 1e3\na 2\n")).unwrap();
        assert_eq!(read.order, ["a"]);
        assert_eq!(read.value("a", &[("x", "1"), ("y", "2")]), Some("1e3"));
        assert_eq!(
            (read.value("a", &[]), read.value("a", &[("x", "1")])),
            (Some("2"), None)
        );
        assert_eq!(read.families["a"].1.len(), 2);
        for (body, expected) in [
            ("# HELP a A\n# TYPE a gauge\na 1\n", "full stop"),
            ("# TYPE a gauge\n# HELP a A.\na 1\n", "without help"),
            ("# HELP a A.\n# TYPE a counter\na 1\n", "disagree"),
            ("# HELP a_total A.\n# TYPE a_total gauge\na_total 1\n", "disagree"),
            ("# HELP a A.\n# TYPE a untyped\na 1\n", "disagree"),
            ("# HELP a A.\n# TYPE a gauge\n\na 1\n", "not a sample"),
            ("# HELP a A.\n# TYPE a gauge\na 1 2\n", "a time"),
            ("# HELP a A.\n# TYPE a gauge\na 1\na 1\n", "twice"),
            ("# HELP a A.\n# TYPE a gauge\na{} 1\n", "braces"),
            ("# HELP a A.\n# TYPE a gauge\na{b=\"1\",} 1\n", "braces"),
        ] {
            let error = format!("{:#}", read_page(body).unwrap_err());
            assert!(error.contains(expected), "{body:?}: {error}");
        }
    }
}
