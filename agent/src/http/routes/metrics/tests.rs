use hyper::header::{HeaderName, HeaderValue};

use super::*;

fn headers(value: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let name = HeaderName::from_static(SCRAPE_TIMEOUT);
    headers.insert(name, HeaderValue::from_str(value).unwrap());
    headers
}

#[test]
fn the_deadline_is_the_scrapers_less_a_tenth() {
    assert_eq!(budget(&HeaderMap::new()), DEFAULT);
    assert_eq!(budget(&headers("10")), Duration::from_secs(9));
    assert_eq!(budget(&headers("0.5")), Duration::from_millis(450));
    for most in ["1000", "1e300", "inf"] {
        assert_eq!(budget(&headers(most)), LONGEST, "{most}");
    }
    for bad in ["", "x", "-1", "0", "NaN"] {
        assert_eq!(budget(&headers(bad)), DEFAULT, "{bad}");
    }
}

#[test]
fn a_header_that_comes_twice_is_one_list() {
    let mut headers = HeaderMap::new();
    headers.append(ACCEPT_ENCODING, HeaderValue::from_static("br"));
    headers.append(ACCEPT_ENCODING, HeaderValue::from_bytes(b"\xff").unwrap());
    headers.append(ACCEPT_ENCODING, HeaderValue::from_static("gzip;q=0.5"));
    assert_eq!(joined(&headers, &ACCEPT_ENCODING), "br,gzip;q=0.5");
    assert_eq!(joined(&headers, &ACCEPT), "");
}

#[test]
fn a_buffer_that_was_much_too_large_is_not_kept() {
    let mut scrapes = Scrapes::new();
    scrapes.text.reserve(64 * KEEP);
    let asked = MetricsQuery {
        selection: Selection::default(),
        format: Format::Text,
        gzip: true,
    };
    let (_, packed) = scrapes.write(&crate::own::sample::page(), None, &asked);
    assert!(packed && scrapes.text.capacity() < KEEP);
}
