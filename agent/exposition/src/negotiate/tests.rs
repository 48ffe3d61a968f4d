use proptest::prelude::*;

use super::*;

/// What Prometheus 3.5 sends.
const PROMETHEUS_3: &str = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
    application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,\
    text/plain;version=0.0.4;q=0.3,*/*;q=0.2";

/// What Prometheus 2.42 sends.
const PROMETHEUS_2: &str = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
    text/plain;version=0.0.4;q=0.5,*/*;q=0.1";

/// What Prometheus sends where native histograms are on: its own binary format first.
const PROMETHEUS_PROTO: &str = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;\
    q=0.6,application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";

#[test]
fn a_scraper_gets_the_format_that_it_prefers() {
    use Format::{OpenMetrics, Text};
    for (accept, expected) in [
        (PROMETHEUS_3, OpenMetrics),
        (PROMETHEUS_2, OpenMetrics),
        (PROMETHEUS_PROTO, OpenMetrics),
        ("application/openmetrics-text", OpenMetrics),
        ("application/openmetrics-text; version=0.0.1", OpenMetrics),
        ("Application/OpenMetrics-Text; Version=\"1.0.0\"", OpenMetrics),
        ("application/openmetrics-text;version=1.0.0;q=0.001", OpenMetrics),
        ("application/openmetrics-text,text/plain", OpenMetrics),
        ("", Text),
        ("*/*", Text),
        ("text/html,application/xhtml+xml,*/*;q=0.8", Text),
        ("text/plain", Text),
        ("application/openmetrics-text;version=2.0.0", Text),
        ("application/openmetrics-text;q=0", Text),
        ("application/openmetrics-text;q=0.4,text/plain;q=0.5", Text),
        ("application/openmetrics-text;q=0.4,*/*;q=0.5", Text),
        ("application/openmetrics-text;q=2", Text),
        ("application/openmetrics-text;q=x", Text),
        ("application/json", Text),
        (";;,,;q=1", Text),
    ] {
        assert_eq!(Format::accepted(accept), expected, "{accept}");
    }
}

#[test]
fn gzip_is_used_where_it_is_wanted() {
    for (accept, expected) in [
        ("gzip", true),
        ("GZIP", true),
        ("x-gzip", true),
        ("gzip, deflate, br, zstd", true),
        ("deflate, gzip;q=1.0, *;q=0.5", true),
        ("*", true),
        ("gzip;q=0.5, identity;q=0.5", true),
        ("gzip;q=0.001", true),
        ("", false),
        ("identity", false),
        ("gzip;q=0", false),
        ("gzip;q=0.000", false),
        ("gzip;q=0, *", false),
        ("*;q=0", false),
        ("gzip;q=0.2, identity;q=0.3", false),
        ("br", false),
        ("gzip;q=nonsense", false),
        ("gzip;q=-1", false),
        ("gzipped", false),
    ] {
        assert_eq!(gzip_accepted(accept), expected, "{accept}");
    }
}

proptest! {
    #[test]
    fn any_header_has_an_answer(text in "[ -~]{0,200}", quality in 0_u16..=1000) {
        Format::accepted(&text);
        gzip_accepted(&text);
        let q = f64::from(quality) / 1000.0;
        prop_assert_eq!(gzip_accepted(&format!("gzip;q={q}")), quality > 0);
        let accept = format!("application/openmetrics-text;q={q},text/plain;q=0.5");
        let expected = if quality >= 500 { Format::OpenMetrics } else { Format::Text };
        prop_assert_eq!(Format::accepted(&accept), expected);
    }
}
