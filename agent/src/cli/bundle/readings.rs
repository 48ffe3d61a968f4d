//! The page of metrics, reduced: known metrics, and of each label what [`labels`] shows.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::labels;
use super::names::Names;

/// A reduced page.
#[derive(Debug, Default)]
pub(super) struct Readings {
    /// In the text format of Prometheus.
    pub(super) page: String,
    /// Lines that are not in it: unknown metrics, and lines that are no samples.
    pub(super) left_out: usize,
    /// Versions of drivers, as the label `driver` of `gpu_info`.
    pub(super) drivers: BTreeSet<String>,
}

/// One sample as written: name, labels and value.
pub(super) type Sample<'a> = (&'a str, Vec<(String, String)>, &'a str);

/// Reduces a page.
pub(super) fn reduced(page: &str, names: &mut Names) -> Readings {
    let mut out = Readings::default();
    let (mut headed, mut family) = ("", Vec::new());
    for line in page.lines() {
        if line.starts_with('#') {
            continue;
        }
        // Values are numbers; the text after them, if any, is no part of our format.
        let parsed = sample(line).filter(|(_, _, value)| value.parse::<f64>().is_ok());
        let known = parsed.and_then(|parsed| Some((metric(parsed.0)?, parsed)));
        let Some((metric, (name, labels, value))) = known else {
            out.left_out += 1;
            continue;
        };
        if headed != metric.name {
            settle(&mut family, &mut out.page);
            headed = metric.name;
            // Of the own table: the page's text is not believed.
            let kind = match metric.kind {
                collectors::Kind::Counter => "counter",
                collectors::Kind::Histogram(_) => "histogram",
                collectors::Kind::Gauge | collectors::Kind::Info => "gauge",
            };
            _ = writeln!(out.page, "# TYPE {headed} {kind}");
        }
        // Their order is often that of names. Buckets of one histogram keep theirs.
        let (mut text, mut place) = (name.to_owned(), String::new());
        let mut open = '{';
        for (label, value) in &labels {
            let Some(shown) = labels::show((metric.name, label), value, &labels, names) else {
                continue;
            };
            if metric.name == "gpu_info" && label == "driver" {
                out.drivers.insert(shown.clone());
            }
            // No shown value has a character that needs an escape.
            _ = write!(text, "{open}{label}=\"{shown}\"");
            if label != "le" {
                _ = write!(place, "{label}=\"{shown}\",");
            }
            open = ',';
        }
        text.push_str(if open == ',' { "} " } else { " " });
        text.push_str(value);
        text.push('\n');
        family.push((place, text));
    }
    settle(&mut family, &mut out.page);
    out
}

/// Writes the lines of a family by what they show.
fn settle(family: &mut Vec<(String, String)>, page: &mut String) {
    family.sort_by(|(a, _), (b, _)| a.cmp(b));
    page.extend(family.drain(..).map(|(_, text)| text));
}

/// A sample at the beginning of a line of evidence: name, labels and the word after them.
pub(super) fn evidence(line: &str) -> Option<Sample<'_>> {
    let (name, labels, rest) = sample(line)?;
    Some((name, labels, rest.split([' ', ',']).next()?))
}

/// The row of a sample; those of a histogram have a suffix.
fn metric(name: &str) -> Option<&'static collectors::Metric> {
    let family = || {
        ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|end| labels::metric(name.strip_suffix(end)?))
    };
    labels::metric(name).or_else(family)
}

/// A line of the page.
fn sample(line: &str) -> Option<Sample<'_>> {
    let end = line.find(['{', ' '])?;
    let (name, rest) = line.split_at(end);
    let Some(mut rest) = rest.strip_prefix('{') else {
        return Some((name, Vec::new(), rest.strip_prefix(' ')?));
    };
    let mut labels = Vec::new();
    if let Some(after) = rest.strip_prefix("} ") {
        return Some((name, labels, after));
    }
    loop {
        let (label, after) = rest.split_once("=\"")?;
        let (value, after) = quoted(after)?;
        labels.push((label.to_owned(), value));
        match after.strip_prefix(',') {
            Some(more) => rest = more,
            None => return Some((name, labels, after.strip_prefix("} ")?)),
        }
    }
}

/// A value up to its closing quote, and the text after it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, text.get(at + 1..)?)),
            '\\' => value.push(match chars.next()?.1 {
                'n' => '\n',
                other => other,
            }),
            c => value.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn known_metrics_stay_with_reduced_labels() {
        let page = r#"# HELP mount_size_bytes canary.
# TYPE mount_size_bytes gauge
mount_size_bytes{mountpoint="/canary",other="canary"} 1000
mount_size_bytes{mountpoint="/b, \"c\" \\"} 7
canary_metric{mountpoint="/canary"} 1
mount_size_bytes{mountpoint="/canary"} canary
canary
gpu_info{gpu="GPU-canary",driver="580.82.07",serial="canary"} 1
nodewarden_device_up{collector="mounts",subject_kind="mount",subject="/canary"} 1
host_oom_kills_total 3
"#;
        let mut names = Names::in_turn();
        let reduced = reduced(page, &mut names);
        assert_eq!(
            reduced.page,
            "# TYPE mount_size_bytes gauge\nmount_size_bytes{mountpoint=\"mount-1\"} 1000\nmount_size_bytes{mountpoint=\"mount-2\"} 7\n\
             # TYPE gpu_info gauge\ngpu_info{gpu=\"gpu-1\",driver=\"580.82.07\",serial=\"serial-1\"} 1\n\
             # TYPE nodewarden_device_up gauge\nnodewarden_device_up{collector=\"mounts\",subject_kind=\"mount\",subject=\"mount-1\"} 1\n\
             # TYPE host_oom_kills_total counter\nhost_oom_kills_total 3\n"
        );
        assert_eq!(reduced.left_out, 3);
        assert_eq!(reduced.drivers.into_iter().collect::<Vec<_>>(), ["580.82.07"]);
    }

    #[test]
    fn lines_follow_the_shown_names_and_buckets_keep_their_order() {
        let page = r#"mount_size_bytes{mountpoint="/a"} 1
mount_size_bytes{mountpoint="/b"} 2
"#;
        // The second name gets the smaller number.
        let mut names = Names::in_turn();
        names.of("mount", "/b");
        let mounts = reduced(page, &mut names).page;
        let sorted =
            "mount_size_bytes{mountpoint=\"mount-1\"} 2\nmount_size_bytes{mountpoint=\"mount-2\"} 1\n";
        assert!(mounts.ends_with(sorted), "{mounts}");
        let page = r#"nodewarden_scrape_duration_seconds_bucket{le="0.5"} 1
nodewarden_scrape_duration_seconds_bucket{le="10"} 1
nodewarden_scrape_duration_seconds_bucket{le="+Inf"} 1
nodewarden_scrape_duration_seconds_sum 1
"#;
        let buckets = reduced(page, &mut names);
        assert_eq!(
            (buckets.page.lines().skip(1).collect::<Vec<_>>(), buckets.left_out),
            (page.lines().collect(), 0)
        );
    }

    proptest! {
        #[test]
        fn no_page_panics_and_no_value_of_a_pseudonym_comes_through(text in "[a-z_]{0,8}[{]?([a-z]{0,4}=\"[ -~]{0,8}\",?){0,3}[}]? [0-9a-z]{0,4}") {
            for name in ["/CANARY", "CANARY"] {
                let page = format!("{text}\nmount_read_only{{mountpoint=\"{name}\"}} 1\n");
                prop_assert!(!reduced(&page, &mut Names::default()).page.contains("CANARY"));
            }
        }
    }
}
