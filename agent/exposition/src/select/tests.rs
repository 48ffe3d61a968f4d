use collectors::{Kind, Unit};
use proptest::prelude::*;

use super::*;

const KNOWN: [&str; 2] = ["rdma", "host"];

fn parse(query: &str) -> Result<Selection, String> {
    Selection::parse(query, &KNOWN)
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|n| (*n).to_owned()).collect()
}

#[test]
fn tiers_and_collectors_are_taken_as_written_or_percent_encoded() {
    assert_eq!(parse("").unwrap(), Selection::default());
    assert_eq!(parse("&&").unwrap(), Selection::default());
    assert_eq!(parse("tier=debug").unwrap().tier, Some(Tier::Debug));
    assert_eq!(parse("tier=core&tier=core").unwrap().tier, Some(Tier::Core));
    let both = parse("collect[]=rdma&collect%5B%5D=nodewarden&tier=detail").unwrap();
    assert_eq!(both.filter, Filter::Only(names(&["rdma", "nodewarden"])));
    assert_eq!(both.tier, Some(Tier::Detail));
    let less = parse("exclude%5b%5d=%68ost").unwrap();
    assert_eq!(less.filter, Filter::Except(names(&["host"])));
    assert!(less.filter.takes("rdma") && !less.filter.takes("host"));
    assert!(both.filter.takes("rdma") && !both.filter.takes("host"));
}

#[test]
fn what_is_not_understood_is_refused_with_what_was_found_and_expected() {
    for (query, words) in [
        ("tier=all", ["\"all\"", "core, detail or debug"]),
        ("tier=private", ["\"private\"", "core, detail or debug"]),
        ("tier", ["\"\"", "core, detail or debug"]),
        ("tier=core&tier=debug", ["two", "one"]),
        (
            "collect[]=infiniband",
            ["\"infiniband\"", "rdma, host, nodewarden"],
        ),
        ("exclude[]=", ["exclude[]", "rdma, host, nodewarden"]),
        ("collect=rdma", ["\"collect\"", "did you mean collect[]?"]),
        ("collect[]=rmda", ["\"rmda\"", "did you mean rdma?"]),
        (
            "exclude[]=nodewardn",
            ["\"nodewardn\"", "did you mean nodewarden?"],
        ),
        ("tier=detailx", ["\"detailx\"", "did you mean detail?"]),
        ("colour=1", ["\"colour\"", "collect[] or exclude[]"]),
        ("Tier=core", ["\"Tier\"", "tier"]),
        ("collect[]=rdma&exclude[]=host", ["both", "one of them"]),
        ("collect[]=%zz", ["%zz", "hexadecimal"]),
        ("collect[]=%5", ["%5", "hexadecimal"]),
        ("tier=%ff", ["%ff", "UTF-8"]),
        ("a%0d%0ab=1", ["a\\r\\nb", "tier"]),
    ] {
        let why = parse(query).unwrap_err();
        assert!(words.iter().all(|w| why.contains(w)), "{query}: {why}");
    }
    assert!(parse(&"x".repeat(5000)).unwrap_err().len() < 200);
}

proptest! {
    #[test]
    fn any_query_is_taken_or_refused_in_one_line(query in "\\PC{0,100}", any in "[a-z%0-9=&\\[\\]+]{0,60}") {
        for query in [query, any] {
            fuzz(format!("\n\n{query}").as_bytes());
        }
    }

    #[test]
    fn encoding_changes_nothing(name in "[ -~]{1,20}") {
        let encoded: String = name.bytes().map(|b| format!("%{b:02X}")).collect();
        prop_assert_eq!(decode(&encoded), Ok(name));
    }
}

#[test]
fn the_configuration_switches_single_metrics_but_never_a_private_one() {
    let metric = |name, tier| Metric {
        name,
        kind: Kind::Gauge,
        unit: Unit::None,
        labels: &[],
        help: "A.",
        tier,
        source: "test",
        aliases: &[],
    };
    let switches = Defaults {
        tier: Tier::Detail,
        include: names(&["on", "secret"]),
        exclude: names(&["off"]),
        labels: Vec::new(),
    };
    let selection = Selection::default();
    let shown = Shown::new(&selection, &switches);
    assert!(shown.metric(&metric("a", Tier::Detail)) && !shown.metric(&metric("a", Tier::Debug)));
    assert!(shown.metric(&metric("on", Tier::Debug)));
    assert!(!shown.metric(&metric("off", Tier::Core)));
    assert!(!shown.metric(&metric("secret", Tier::Private)));
    let selection = parse("tier=core").unwrap();
    let asked = Shown::new(&selection, &switches);
    assert!(!asked.metric(&metric("a", Tier::Detail)) && asked.metric(&metric("on", Tier::Debug)));
}
