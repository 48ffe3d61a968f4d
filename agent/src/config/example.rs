//! The example file: every key with what it is for and its default, made from the table of keys.

use super::keys;

/// The commented example file. Read as it stands, it changes nothing.
pub fn render_default() -> String {
    let mut out = String::from(
        "# nodewarden: every key with its default, or with an example where it has none. Nothing here needs to be set.\n\
         # Drop-ins: conf.d/*.toml beside this file, read in lexical order; what comes later wins.\n",
    );
    let mut section = "";
    for key in keys() {
        let (table, name) = key.split();
        if table != section {
            section = table;
            out.push_str(&format!("\n[{table}]\n"));
        }
        out.push('\n');
        for line in key.help.lines() {
            out.push_str(&format!("# {line}\n"));
        }
        if let (Some(_), Some(example)) = (key.default, key.example) {
            out.push_str(&format!("# Example: {example}\n"));
        }
        let value = key.default.or(key.example).unwrap_or_default();
        out.push_str(&format!("#{name} = {value}\n"));
    }
    out
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use collectors::Settings;

    use super::*;
    use crate::config::load::load;
    use crate::config::{Config, Parsed};
    use sys::store;

    fn read(text: &str) -> Parsed {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("nodewarden.toml");
        store::replace(&file, text.as_bytes(), 0o644, false).unwrap();
        load(Some(&file), &[], &[], collectors::COLLECTORS).unwrap()
    }

    /// The example file with every key set.
    fn active() -> String {
        let active = |line: &str| match line.strip_prefix('#') {
            Some(key) if !key.starts_with(' ') => format!("{key}\n"),
            _ => format!("{line}\n"),
        };
        render_default().lines().map(active).collect()
    }

    #[test]
    fn the_example_changes_nothing() {
        assert_eq!(read(&render_default()).config, Config::default());
    }

    #[test]
    fn the_example_sets_every_key_to_its_default() {
        let parsed = read(&active());
        let set: BTreeSet<&str> = parsed.set.into_keys().collect();
        assert_eq!(set, keys().map(|key| key.name).collect());
        // Without the keys that have no default, all is as before.
        let unset = |line: &&str| {
            let example = |key: &&collectors::Key| key.default.is_none() && key.example.is_some();
            let without = keys().filter(example).map(|key| key.split().1);
            !without
                .into_iter()
                .any(|name| line.starts_with(&format!("{name} = ")))
        };
        let text: Vec<String> = active().lines().filter(unset).map(str::to_owned).collect();
        let mut config = read(&text.join("\n")).config;
        for key in keys().filter(|key| config.collectors.is_set(key)) {
            let set: toml::Value = config.collectors.get(key).unwrap();
            assert_eq!(set, Settings::default().get(key).unwrap(), "{}", key.name);
        }
        config.collectors = Settings::default();
        assert_eq!(config, Config::default());
    }

    #[test]
    fn every_default_and_every_example_fits_its_row() {
        for key in keys() {
            let texts = key.default.into_iter().chain(key.example);
            assert!(texts.clone().count() > 0, "{}", key.name);
            for text in texts {
                let faults = key.kind.check(&text.parse().unwrap());
                assert!(faults.is_empty(), "{} = {text}: {faults:?}", key.name);
            }
        }
    }
}
