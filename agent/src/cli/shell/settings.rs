//! The manual page nodewarden.toml(5), from the table of keys.

use clap_mangen::roff::{Roff, bold, roman};

use super::{SOURCE, see_also};
use crate::config::keys;

const DESCRIPTION: &str = "nodewarden needs no configuration: it detects the hardware, and the default mode is observe. \
     It reads /etc/nodewarden/nodewarden.toml, then /etc/nodewarden/conf.d/*.toml in order of name; later values override \
     earlier ones. An unknown key is an error with file and line. After a reload with an error, the last good configuration \
     stays in force.";

const COMMANDS: &str = "`nodewarden config check` checks the files, `nodewarden config example` prints every key with its \
     default, and `systemctl reload nodewarden` reads them again.";

/// The page.
pub(super) fn page() -> String {
    let mut page = Roff::new();
    page.control("TH", ["NODEWARDEN.TOML", "5", "", SOURCE, "nodewarden"]);
    page.control("SH", ["NAME"]);
    page.text([roman("nodewarden.toml - configuration of nodewarden")]);
    page.control("SH", ["DESCRIPTION"]);
    page.text([roman(DESCRIPTION)]);
    page.control("PP", []);
    page.text([roman(COMMANDS)]);
    let mut section = None;
    for key in keys() {
        let (table, name) = key.split();
        if section != Some(table) {
            section = Some(table);
            let title = match table {
                "" => "KEYS WITHOUT A TABLE".to_owned(),
                table => format!("[{table}]"),
            };
            page.control("SH", [title.as_str()]);
        }
        page.control("TP", []);
        page.text([bold(name)]);
        page.text([roman(key.help.replace('\n', " "))]);
        page.control("RS", []);
        page.text([roman(format!("Value: {}.", key.kind.describe()))]);
        let default = key.default.map_or("not set".to_owned(), str::to_owned);
        page.control("br", []);
        page.text([roman(format!("Default: {default}"))]);
        if let Some(example) = key.example {
            page.control("br", []);
            page.text([roman(format!("Example: {example}"))]);
        }
        page.control("br", []);
        page.text([roman(format!("Since: {}", key.since))]);
        page.control("RE", []);
    }
    page.control("SH", ["FILES"]);
    page.text([roman(
        "/etc/nodewarden/nodewarden.toml, /etc/nodewarden/conf.d/*.toml",
    )]);
    page.to_roff() + &see_also("nodewarden.toml")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_a_paragraph_with_value_and_default() {
        let page = page();
        assert_eq!(page.matches("\n.TP").count(), keys().count());
        for key in keys() {
            let name = key.split().1.replace('-', "\\-");
            assert!(page.contains(&format!("\\fB{name}\\fR")), "{}", key.name);
        }
        assert_eq!(page.matches("Default: ").count(), keys().count());
        for table in ["[health]", "[nvidia]"] {
            assert!(page.contains(&format!(".SH {table}")), "{table}");
        }
    }
}
