//! The example file: every key with what it is for and its default, made from the table of keys.

use super::Config;
use super::keys::KEYS;

/// The commented example file. Read as it stands, it changes nothing.
pub fn render_default() -> String {
    let default = Config::default();
    let mut out = String::from(
        "# nodewarden: every key of the daemon with its default; collectors' tables: docs/configuration.md. Nothing here needs to be set.\n\
         # Drop-ins: conf.d/*.toml beside this file, read in lexical order; what comes later wins.\n",
    );
    let mut section = "";
    for key in KEYS {
        let (table, name) = key.path.rsplit_once('.').unwrap_or(("", key.path));
        if table != section {
            section = table;
            out.push_str(&format!("\n[{table}]\n"));
        }
        out.push('\n');
        for line in key.help.lines() {
            out.push_str(&format!("# {line}\n"));
        }
        let value = (key.show)(&default).unwrap_or_else(|| key.example.to_owned());
        out.push_str(&format!("#{name} = {value}\n"));
    }
    out
}

/// Every key of the daemon: its path, its default as TOML, and an example where it has none.
pub fn keys() -> impl Iterator<Item = (&'static str, Option<String>, &'static str)> {
    let default = Config::default();
    KEYS.iter()
        .map(move |key| (key.path, (key.show)(&default), key.example))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::load::load;
    use sys::store;

    fn read(text: &str) -> Config {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("nodewarden.toml");
        store::replace(&file, text.as_bytes(), 0o644, false).unwrap();
        load(Some(&file), &[], &[], &[]).unwrap().config
    }

    #[test]
    fn the_example_changes_nothing() {
        assert_eq!(read(&render_default()), Config::default());
    }

    #[test]
    fn the_shipped_example_is_this_one() {
        let shipped = include_str!("../../../packaging/nodewarden.toml.example");
        let hint = "write it with: nodewarden config example > packaging/nodewarden.toml.example";
        assert!(shipped == render_default(), "{hint}");
    }

    #[test]
    fn every_default_is_what_it_says_and_every_example_is_taken() {
        let active: String = render_default()
            .lines()
            .map(|l| match l.strip_prefix('#') {
                Some(key) if !key.starts_with(' ') => format!("{key}\n"),
                _ => format!("{l}\n"),
            })
            .collect();
        let config = read(&active);
        let default = Config::default();
        assert_eq!(config.listen, default.listen);
        assert_eq!(config.health.scheduler.undrain, default.health.scheduler.undrain);
        assert_eq!(config.health.scheduler.poll, default.health.scheduler.poll);
        assert_eq!(config.health.settle, default.health.settle);
        for key in KEYS {
            if key.example.is_empty() {
                assert_eq!((key.show)(&config), (key.show)(&default), "{}", key.path);
            }
        }
    }
}
