//! Content negotiation: the format by `Accept`, compression by `Accept-Encoding` (RFC 9110, 12.5).

/// A text format of Prometheus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Text 0.0.4, the default.
    #[default]
    Text,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Format {
    /// The Content-Type.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// The format that `accept` prefers. OpenMetrics must be requested by name: a wildcard gets
    /// the text format, which every client reads.
    pub fn accepted(accept: &str) -> Self {
        let (mut open, mut text, mut any) = (None, None, None);
        for range in ranges(accept) {
            let known = |versions: &[&str]| range.version.is_none_or(|v| versions.contains(&v));
            let best = match range.name.to_ascii_lowercase().as_str() {
                "application/openmetrics-text" if known(&["1.0.0", "0.0.1"]) => &mut open,
                "text/plain" if known(&["0.0.4"]) => &mut text,
                "text/*" | "*/*" => &mut any,
                _ => continue,
            };
            *best = (*best).max(Some(range.quality));
        }
        let open = open.unwrap_or(0);
        if open > 0 && open >= text.or(any).unwrap_or(0) {
            Self::OpenMetrics
        } else {
            Self::Text
        }
    }
}

/// Whether `accept_encoding` prefers gzip to plain text.
pub fn gzip_accepted(accept_encoding: &str) -> bool {
    let (mut gzip, mut plain, mut any) = (None, None, None);
    for range in ranges(accept_encoding) {
        match range.name.to_ascii_lowercase().as_str() {
            "gzip" | "x-gzip" => gzip = gzip.max(Some(range.quality)),
            "identity" => plain = plain.max(Some(range.quality)),
            "*" => any = any.max(Some(range.quality)),
            _ => {}
        }
    }
    // Identity coding that is not listed stays acceptable, below every listed coding.
    let gzip = gzip.or(any).unwrap_or(0);
    gzip > 0 && gzip >= plain.unwrap_or(0)
}

/// One element of an Accept header.
struct Range<'a> {
    name: &'a str,
    version: Option<&'a str>,
    /// The quality in thousandths: the standard allows 3 digits.
    quality: u16,
}

/// The elements. One with a quality that is not a number from 0 to 1 is skipped.
fn ranges(header: &str) -> impl Iterator<Item = Range<'_>> {
    header.split(',').filter_map(|element| {
        let mut parts = element.split(';').map(str::trim);
        let mut range = Range {
            name: parts.next().filter(|n| !n.is_empty())?,
            version: None,
            quality: 1000,
        };
        for part in parts {
            let Some((key, value)) = part.split_once('=') else {
                continue;
            };
            let value = value.trim().trim_matches('"');
            match key.trim() {
                "q" | "Q" => range.quality = quality(value)?,
                key if key.eq_ignore_ascii_case("version") => range.version = Some(value),
                _ => {}
            }
        }
        Some(range)
    })
}

/// `0.75` as 750.
fn quality(text: &str) -> Option<u16> {
    let (whole, rest) = text.split_once('.').unwrap_or((text, ""));
    if rest.len() > 3 || !rest.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let thousandths = format!("{rest:0<3}").parse::<u16>().ok()?;
    match whole {
        "0" => Some(thousandths),
        "1" if thousandths == 0 => Some(1000),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
