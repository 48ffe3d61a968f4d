use proptest::prelude::*;
use toml::de::DeTable;

use super::*;
use crate::COLLECTORS;

const TEXT: Kind = Kind::Text {
    what: "a word",
    fits: |text| !text.contains(' '),
};

crate::keys! {
    ALL;
    LIMIT = "fake.limit": Kind::Integer { what: "a number", from: 1, to: 9 }, default "3", since "0.1.0", "h";
    WAIT = "fake.wait": Kind::Duration { zero: false }, default "\"30s\"", since "0.1.0", "h";
    WORDS = "fake.words": Kind::OneOrMore(&TEXT), since "0.1.0", "h";
    MODES = "fake.modes": Kind::Map { what: "a table", of: &TEXT }, default "{}", since "0.1.0", "h";
    PAIRS = "fake.sub.pairs": Kind::List { what: "an array", of: &Kind::Record {
        what: "a table of a and b", fields: &[("a", Kind::Boolean), ("b", Kind::Path)], optional: &[] }, empty: false }, since "0.1.0", "h";
    ROWS = "fake.rows": Kind::List { what: "an array of rows", of: &Kind::Record {
        what: "a row", fields: &[("name", TEXT)], optional: &[("on", Kind::Boolean)] }, empty: true }, default "[]",
        since "0.1.0", "h";
}

fn read(layers: &[&str]) -> (Settings, Vec<String>) {
    // The host has no key: its table is known and never proposed.
    let (reader, mut settings) = (Reader::new(ALL, &[&crate::host::SPEC]), Settings::default());
    let mut faults = Vec::new();
    for layer in layers {
        let table = DeTable::parse(layer).unwrap();
        let mut found = Found::default();
        reader.read("", table.get_ref(), &mut settings, &mut found);
        faults.extend(found.faults.into_iter().map(|(at, text)| format!("{at}: {text}")));
    }
    (settings, faults)
}

#[test]
fn values_replace_and_maps_merge() {
    let (settings, faults) = read(&[
        "[fake]\nlimit = 0x7\nwords = \"a\"\nmodes = { x = \"1\", y = \"2\" }",
        "fake.limit = 9\nfake.modes.x = \"3\"\nfake.wait = \"1m\"",
    ]);
    assert!(faults.is_empty(), "{faults:?}");
    assert_eq!(settings.get::<u64>(&LIMIT).unwrap(), 9);
    assert_eq!(settings.find::<Vec<String>>(&WORDS).unwrap().unwrap(), ["a"]);
    assert_eq!(settings.duration(&WAIT).unwrap(), Duration::from_secs(60));
    let modes: toml::Table = settings.get(&MODES).unwrap();
    assert_eq!(modes.to_string(), "x = \"3\"\ny = \"2\"\n");
    assert_eq!(settings.find::<Value>(&PAIRS).unwrap(), None);
    assert!(settings.get::<Value>(&PAIRS).is_err());
    assert_eq!(
        Settings::default().duration(&WAIT).unwrap(),
        Duration::from_secs(30)
    );
}

#[test]
fn rows_with_a_name_merge_and_the_later_one_of_a_name_wins() {
    let (settings, faults) = read(&[
        "[[fake.rows]]\nname = \"a\"\non = true\n[[fake.rows]]\nname = \"b\"\n",
        "fake.rows = [{ name = \"c\" }, { name = \"a\" }]",
    ]);
    assert!(faults.is_empty(), "{faults:?}");
    let rows: Vec<toml::Table> = settings.get(&ROWS).unwrap();
    let rows: Vec<String> = rows.iter().map(ToString::to_string).collect();
    assert_eq!(rows, ["name = \"b\"\n", "name = \"c\"\n", "name = \"a\"\n"]);
    let (_, faults) = read(&[
        "[[fake.rows]]\nname = \"a\"\non = 1\n[[fake.rows]]\nname = \"b\"\nno = true\n[[fake.rows]]\non = true\n",
    ]);
    assert_eq!(
        faults,
        [
            "30: fake.rows: found integer 1, expected true or false",
            "32: fake.rows: found a table with the unknown key \"no\", expected a row",
            "67: fake.rows: found a table without name, expected a row",
        ]
    );
}

#[test]
fn each_fault_has_its_place() {
    let (_, faults) = read(&[
        "fake.limit = 0\nfake.sub.pairs = [{ a = true, b = \"/x\" }, { a = 1, b = \"x\" }, { a = true }]\nfake.words = [\"a\", \"b c\"]",
        "fake.limit = 99999999999999999999\nfake.limits = 1\n\"fake.limit\" = 1\nfake.sub = 3",
    ]);
    let expected = [
        "13: fake.limit: found integer 0, expected a number from 1 to 9",
        "63: fake.sub.pairs: found integer 1, expected true or false",
        "70: fake.sub.pairs: found string \"x\", expected an absolute path",
        "77: fake.sub.pairs: found a table without b, expected a table of a and b",
        "110: fake.words: found string \"b c\", expected a word",
        "13: fake.limit: found integer, expected a number from 1 to 9",
        "39: unknown key fake.limits, did you mean fake.limit?",
        "50: unknown key fake.limit, expected one of fake",
        "78: fake.sub: found integer 3, expected a table",
    ];
    for line in expected {
        assert!(faults.iter().any(|fault| fault == line), "{line}\n{faults:#?}");
    }
    assert_eq!(faults.len(), expected.len(), "{faults:#?}");
}

#[test]
fn another_process_reads_the_same_values_and_checks_them_again() {
    let (settings, _) =
        read(&["fake.sub.pairs = [{ a = true, b = \"/\\\"\\n\" }]\nfake.modes.\"odd key\" = \"q\""]);
    let bytes = toml::to_string(&std::collections::BTreeMap::from([("s", &settings)])).unwrap();
    let mut back: std::collections::BTreeMap<String, Settings> = toml::from_str(&bytes).unwrap();
    assert_eq!(back.remove("s").unwrap(), settings);
    let mut bad = Settings::default();
    bad.set(&LIMIT, Value::Integer(10));
    let error = bad.get::<u64>(&LIMIT).unwrap_err().to_string();
    assert_eq!(
        error,
        "fake.limit: found integer 10, expected a number from 1 to 9"
    );
    assert!(settings.of([&LIMIT].into_iter()) == Settings::default());
}

#[test]
fn every_default_and_example_of_a_collector_fits_its_row() {
    for key in COLLECTORS.iter().flat_map(|spec| spec.keys) {
        let texts = key.default.into_iter().chain(key.example);
        assert!(texts.clone().count() > 0, "{}", key.name);
        for text in texts {
            let faults = key.kind.check(&text.parse().unwrap());
            assert!(faults.is_empty(), "{} = {text}: {faults:?}", key.name);
        }
    }
}

#[test]
fn only_a_near_word_is_suggested() {
    let known = ["mode", "settle", "operators"];
    assert_eq!(nearest("operator", known.into_iter()), Some("operators"));
    assert_eq!(nearest("mdoe", known.into_iter()), Some("mode"));
    assert_eq!(nearest("interval", known.into_iter()), None);
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "(fake\\.)?[a-z.\"]{0,8} = \\PC{0,20}") {
        let (table, _) = DeTable::parse_recoverable(&text);
        let mut settings = Settings::default();
        Reader::new(ALL, &[]).read("", table.get_ref(), &mut settings, &mut Found::default());
        let _ignored: Result<Value, _> = settings.get(&LIMIT);
    }
}
