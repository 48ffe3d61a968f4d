use super::*;

fn text(layers: &[&str]) -> String {
    let mut leaves = Leaves::default();
    for layer in layers {
        let source = Source::option(layer);
        let table = DeTable::parse(&source.text).unwrap();
        leaves.overlay(table.get_ref(), &source, 0);
    }
    leaves.text()
}

#[test]
fn values_keep_their_meaning() {
    let toml = "a = 0x1F\nb = -1.5e3\nc = [1, { d = \"x\" }]\n\"odd key\" = \"q\\\"\\u0001\"\ne = 1979-05-27\nf = {}\n";
    let merged: toml::Table = text(&[toml]).parse().unwrap();
    assert_eq!(merged, toml.parse::<toml::Table>().unwrap());
}

#[test]
fn tables_merge_and_values_replace() {
    assert_eq!(text(&["a.b = 1\na.c = 2", "a.b = 3"]), "a.b = 3\na.c = 2\n");
    assert_eq!(text(&["a.b = 1", "a = 2"]), "a = 2\n");
    assert_eq!(text(&["a = 1", "a.b = 2"]), "a.b = 2\n");
    assert_eq!(text(&["a.b = 1", "a = {}"]), "a.b = 1\n");
    assert_eq!(text(&["a = {}", "a.b = 1"]), "a.b = 1\n");
}

#[test]
fn the_place_is_found_in_the_parsers_message() {
    let error = toml::from_str::<toml::Table>("a = 1\nb = x\n")
        .unwrap_err()
        .to_string();
    let (line, message) = split(&error);
    assert_eq!(line, Some(2));
    assert!(!message.contains('|') && !message.is_empty(), "{message}");
    assert_eq!(split("limit above max"), (None, "limit above max".to_owned()));
}
