//! `name{label="value"} `: the part of a sample line that never changes.

use collectors::Metric;

/// Formats and escapes the prefix of one series.
pub fn of(metric: &Metric, labels: &[String]) -> String {
    let mut out = String::with_capacity(96);
    out.push_str(metric.name);
    let mut open = '{';
    for (name, value) in metric.labels.iter().zip(labels) {
        out.push(open);
        open = ',';
        out.push_str(name);
        out.push_str("=\"");
        escape(value, &mut out);
        out.push('"');
    }
    out.push_str(if open == ',' { "} " } else { " " });
    out
}

/// Escapes a label value: `\`, `"` and line feed (text format 0.0.4).
pub fn escape(value: &str, out: &mut String) {
    for c in value.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            c => out.push(c),
        }
    }
}
