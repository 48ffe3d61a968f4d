//! HELP, TYPE and UNIT of a family in both formats.

use collectors::{Kind, Metric, Unit};

use super::{Format, line};

/// The metadata of a family.
#[derive(Clone, Copy, Debug)]
pub struct Family<'a> {
    /// The name of its samples, with suffix.
    pub name: &'a str,
    /// The type.
    pub kind: Kind,
    /// Their unit.
    pub unit: Unit,
    /// One sentence.
    pub help: &'a str,
}

impl From<&'static Metric> for Family<'static> {
    fn from(metric: &'static Metric) -> Self {
        Self {
            name: metric.name,
            kind: metric.kind,
            unit: metric.unit,
            help: metric.help,
        }
    }
}

impl<'a> Family<'a> {
    /// The name and type in OpenMetrics, where `_total` and `_info` belong to the sample and not to the family.
    /// A counter of another exporter without that suffix keeps its name and gets the type `unknown`.
    pub fn openmetrics(&self) -> (&'a str, &'static str) {
        match self.kind {
            Kind::Counter => match self.name.strip_suffix("_total") {
                Some(stem) => (stem, "counter"),
                None => (self.name, "unknown"),
            },
            Kind::Info => match self.name.strip_suffix("_info") {
                Some(stem) => (stem, "info"),
                None => (self.name, "gauge"),
            },
            Kind::Gauge => (self.name, "gauge"),
            Kind::Histogram(_) => (self.name, "histogram"),
        }
    }

    /// Appends the lines.
    pub fn write(&self, format: Format, out: &mut Vec<u8>) {
        match format {
            Format::Text => {
                let kind = match self.kind {
                    Kind::Counter => "counter",
                    Kind::Gauge | Kind::Info => "gauge",
                    Kind::Histogram(_) => "histogram",
                };
                row("HELP", self.name, out);
                line::escape(self.help, false, out);
                out.push(b'\n');
                row("TYPE", self.name, out);
                out.extend_from_slice(kind.as_bytes());
            }
            Format::OpenMetrics => {
                let (name, kind) = self.openmetrics();
                row("TYPE", name, out);
                out.extend_from_slice(kind.as_bytes());
                let unit = self.unit.suffix();
                let named = name.strip_suffix(unit).is_some_and(|stem| stem.ends_with('_'));
                if !unit.is_empty() && named && kind != "info" {
                    out.push(b'\n');
                    row("UNIT", name, out);
                    out.extend_from_slice(unit.as_bytes());
                }
                out.push(b'\n');
                row("HELP", name, out);
                line::escape(self.help, true, out);
            }
        }
        out.push(b'\n');
    }
}

fn row(word: &str, name: &str, out: &mut Vec<u8>) {
    for part in ["# ", word, " ", name, " "] {
        out.extend_from_slice(part.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(name: &str, kind: Kind, unit: Unit, format: Format) -> String {
        let mut out = Vec::new();
        let help = "A \"b\" \\ c.";
        let family = Family {
            name,
            kind,
            unit,
            help,
        };
        family.write(format, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_counter_in_both_formats() {
        let counter = |format| text("a_bytes_total", Kind::Counter, Unit::Bytes, format);
        assert_eq!(
            counter(Format::Text),
            "# HELP a_bytes_total A \"b\" \\\\ c.\n# TYPE a_bytes_total counter\n"
        );
        assert_eq!(
            counter(Format::OpenMetrics),
            "# TYPE a_bytes counter\n# UNIT a_bytes bytes\n# HELP a_bytes A \\\"b\\\" \\\\ c.\n"
        );
    }

    #[test]
    fn what_openmetrics_has_no_word_for_keeps_its_samples_name() {
        let first = |name, kind| {
            let text = text(name, kind, Unit::None, Format::OpenMetrics);
            text.lines().next().unwrap().to_owned()
        };
        assert_eq!(first("a_info", Kind::Info), "# TYPE a info");
        assert_eq!(first("a_labels", Kind::Info), "# TYPE a_labels gauge");
        assert_eq!(first("A_COUNT", Kind::Counter), "# TYPE A_COUNT unknown");
    }

    #[test]
    fn a_unit_that_is_not_in_the_name_is_not_stated() {
        let text = text("a", Kind::Gauge, Unit::Seconds, Format::OpenMetrics);
        assert!(!text.contains("UNIT"), "{text}");
    }
}
