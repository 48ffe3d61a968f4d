//! The configuration, reduced by the table of keys: known keys, and values of kinds that have no room for a name.

use collectors::Settings;
use collectors::settings::{Key, Kind};
use serde_json::{Value, json};

use super::names::Names;
use crate::config;
use health::checks;

/// In place of a value that may name something.
const SET: &str = "<set>";

/// Keys whose texts are versions, sizes, times or numbers, and checked as such when the configuration is read.
const PLAIN: [&str; 4] = [
    "health.baseline",
    "health.expect.memory",
    "health.guard.standing",
    "health.guard.window",
];

/// Every key that is set or has a default: its value, and whether the site set it.
pub(super) fn reduced(settings: &Settings, names: &mut Names) -> Value {
    let one = |key: &'static Key| {
        let value = settings.find::<toml::Value>(key).ok()??;
        let shown = if PLAIN.contains(&key.name) {
            plain(&value)
        } else {
            shown(&key.kind, &value, names)
        };
        Some((
            key.name.to_owned(),
            json!({ "value": shown, "set": settings.is_set(key) }),
        ))
    };
    config::keys()
        .filter_map(one)
        .collect::<serde_json::Map<_, _>>()
        .into()
}

/// A text of digits, points and units.
fn plain(value: &toml::Value) -> Value {
    let known = |b: u8| b.is_ascii_digit() || b".% KMGTPEiBsmhd".contains(&b);
    match value.as_str() {
        Some(text) if text.len() <= 16 && text.bytes().all(known) => json!(text),
        _ => json!(SET),
    }
}

fn shown(kind: &Kind, value: &toml::Value, names: &mut Names) -> Value {
    match (kind, value) {
        (Kind::Boolean, toml::Value::Boolean(value)) => json!(value),
        (Kind::Integer { .. }, toml::Value::Integer(value)) => json!(value),
        (Kind::Duration { .. }, toml::Value::String(text)) => match config::duration::parse(text) {
            Some(time) => json!(format!("{} s", time.as_secs_f64())),
            None => json!(SET),
        },
        (Kind::Choice(words), toml::Value::String(text)) if words.contains(&text.as_str()) => json!(text),
        (Kind::Name { find, .. }, toml::Value::String(text)) if find(text).is_ok() => json!(text),
        (Kind::List { of, .. }, toml::Value::Array(values)) => {
            values.iter().map(|value| shown(of, value, names)).collect()
        }
        (Kind::OneOrMore(of), toml::Value::Array(values)) => {
            values.iter().map(|value| shown(of, value, names)).collect()
        }
        (Kind::OneOrMore(of), value) => shown(of, value, names),
        (Kind::Map { of, .. }, toml::Value::Table(table)) => {
            // Its names are the site's, except those of checks.
            let rows = table.iter().map(|(name, value)| {
                let is_check = checks::CHECKS.iter().any(|check| check.id == name);
                let shown_name = if is_check {
                    name.clone()
                } else {
                    names.of("name", name)
                };
                (shown_name, shown(of, value, names))
            });
            rows.collect::<serde_json::Map<_, _>>().into()
        }
        (Kind::Record { fields, optional, .. }, toml::Value::Table(table)) => {
            let fields = fields.iter().chain(*optional);
            let set = fields
                .filter_map(|(name, kind)| Some(((*name).to_owned(), shown(kind, table.get(*name)?, names))));
            set.collect::<serde_json::Map<_, _>>().into()
        }
        _ => json!(SET),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(sets: &[&str]) -> Value {
        with(sets, &mut Names::in_turn())
    }

    fn with(sets: &[&str], names: &mut Names) -> Value {
        let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
        let read = config::read(Some(std::path::Path::new("/dev/null")), &sets).unwrap();
        reduced(&read.settings, names)
    }

    #[test]
    fn names_of_keys_are_numbered_with_the_other_names_of_the_bundle() {
        let mut names = Names::in_turn();
        names.of("name", "another");
        let shown = with(
            &[
                "commands={canary={command=[\"/canary\"], timeout=\"10s\"}}",
                "health.command=[{name=\"canary\", command=\"canary\"}]",
            ],
            &mut names,
        );
        assert!(shown["commands"]["value"]["name-2"].is_object(), "{shown:#}");
        assert!(!shown.to_string().contains("canary"));
    }

    #[test]
    fn numbers_and_words_of_closed_sets_stay() {
        let shown = of(&[
            "health.mode=\"comment\"",
            "health.settle=\"1m\"",
            "health.checks={xid=\"observe\"}",
            "health.rdma.pfc=[3]",
            "health.rdma.rate=400",
            "health.baseline=\"0.1\"",
            "health.guard.standing=\"5%\"",
            "metrics.exclude=[\"host_oom_kills_total\"]",
        ]);
        for (key, value) in [
            ("health.mode", json!("comment")),
            ("health.settle", json!("60 s")),
            ("health.checks", json!({ "xid": "observe" })),
            ("health.rdma.pfc", json!([3])),
            ("health.rdma.rate", json!([400])),
            ("health.baseline", json!("0.1")),
            ("health.guard.standing", json!("5%")),
            ("metrics.exclude", json!(["host_oom_kills_total"])),
        ] {
            assert_eq!(shown[key], json!({ "value": value, "set": true }), "{key}");
        }
        assert_eq!(shown["slurm.timeout"], json!({ "value": "10 s", "set": false }));
        assert_eq!(shown["slurm.node_name"], Value::Null);
    }

    #[test]
    fn names_paths_and_addresses_are_only_said_to_be_set() {
        let shown = of(&[
            "slurm.node_name=\"canary\"",
            "slurm.conf=\"/canary\"",
            "health.operators=[\"canary\", \"canary2\"]",
            "health.rdma.ports=[\"canary\"]",
            "health.expect.mounts=[\"/canary\"]",
            "commands={canary={command=[\"/canary\", \"--canary\"], timeout=\"10s\"}}",
            "notify.command=\"canary\"",
            "listen=[\"canary:19190\", \"10.1.2.3:1\"]",
        ]);
        let text = shown.to_string();
        assert!(!text.contains("canary") && !text.contains("10.1.2.3"), "{text}");
        assert_eq!(shown["health.operators"]["value"], json!([SET, SET]));
        let command = json!({ "name-1": { "command": [SET, SET], "timeout": "10 s" } });
        assert_eq!(shown["commands"]["value"], command);
    }
}
