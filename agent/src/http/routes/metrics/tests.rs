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
fn tiers() {
    assert_eq!(tier(None), Some(Tier::Core));
    assert_eq!(tier(Some("a=b")), Some(Tier::Core));
    assert_eq!(tier(Some("a=b&tier=debug")), Some(Tier::Debug));
    assert_eq!(tier(Some("tier=private")), None);
}
