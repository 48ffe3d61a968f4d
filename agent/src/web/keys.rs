//! The keys of the file. Each is used, or refused by name with the reason; an unknown one is an error.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;

use bcrypt::HashParts;
use hyper::header::HeaderValue;

use super::names::{CLIENT_AUTH, CURVES, HEADERS, SUITES, SUITES_13, VERSIONS};
use super::reader::{Reader, Table};
use super::yaml::{self, At, Node, Value};
use super::{ClientAuth, Secret, TlsSettings, WebConfig};
use crate::config::ConfigError;

const TOP: &[&str] = &[
    "basic_auth_users",
    "http_server_config",
    "rate_limit",
    "tls_server_config",
];
const HTTP: &[&str] = &["headers", "http2"];
const TLS: &[&str] = &[
    "cert",
    "cert_file",
    "cipher_suites",
    "client_allowed_sans",
    "client_auth_type",
    "client_ca",
    "client_ca_file",
    "curve_preferences",
    "key",
    "key_file",
    "max_version",
    "min_version",
    "prefer_server_cipher_suites",
];

/// Costs of bcrypt. One of 14 needs about a second, and each step doubles that.
const COSTS: std::ops::RangeInclusive<u32> = 4..=14;

/// Reads the text of a file; `file` reads those that it names.
///
/// # Errors
/// Every fault, with its line.
pub(super) fn parse(
    source: &str,
    text: &str,
    file: impl Fn(&Path) -> Result<String, String>,
) -> Result<WebConfig, ConfigError> {
    let mut reader = Reader {
        source,
        file: &file,
        problems: Vec::new(),
    };
    let web = match yaml::parse(text) {
        Ok(root) => reader.web(&root),
        Err((at, message)) => {
            reader.fault(at, message);
            WebConfig::default()
        }
    };
    let mut problems = reader.problems;
    problems.sort_by(|a, b| a.place.cmp(&b.place));
    if problems.is_empty() {
        Ok(web)
    } else {
        Err(ConfigError { problems })
    }
}

/// No text panics, whatever the files that it names are.
pub fn fuzz(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let read = parse("web.yml", &text, |_| Ok("PEM".to_owned()));
    assert!(read.is_err() || read.is_ok_and(|web| web.tls.is_some() || !web.users.is_empty()));
}

impl Reader<'_> {
    fn web(&mut self, root: &Node) -> WebConfig {
        let top = self.table("", root, TOP);
        let mut web = WebConfig::default();
        if let Some((at, _)) = top.get("rate_limit") {
            self.fault(
                *at,
                "rate_limit: found, expected no such key: nodewarden limits connections itself (docs/http.md, Limits)".to_owned(),
            );
        }
        if let Some((at, node)) = top.get("tls_server_config") {
            web.tls = self.tls(*at, node);
        }
        if let Some((_, node)) = top.get("http_server_config") {
            web.headers = self.http(node);
        }
        if let Some((_, node)) = top.get("basic_auth_users") {
            web.users = self.users(node);
        }
        // A file that is being written may be empty: it must not open the pages to all.
        if web.tls.is_none() && web.users.is_empty() && self.problems.is_empty() {
            let message = "found no tls_server_config and no basic_auth_users, expected at least one";
            self.fault(root.at, message.to_owned());
        }
        web
    }

    fn tls(&mut self, at: At, node: &Node) -> Option<TlsSettings> {
        let table = self.table("tls_server_config.", node, TLS);
        if !matches!(node.value, Value::Map(_)) {
            return None;
        }
        let cert = self.pem(&table, "cert", "cert_file");
        let key = self.pem(&table, "key", "key_file");
        for (key, inline, file) in [
            ("a certificate", "cert", "cert_file"),
            ("a key", "key", "key_file"),
        ] {
            if !table.contains_key(inline) && !table.contains_key(file) {
                self.fault(
                    at,
                    format!("tls_server_config: found without {key}, expected {file} or {inline}"),
                );
            }
        }
        let client_ca = self.pem(&table, "client_ca", "client_ca_file");
        let (client_auth, allowed_sans) = self.clients(&table);
        let versions = self.versions(&table);
        let suites = self.suites(&table, versions[0]);
        let curves = self.texts(&table, "curve_preferences", |text| {
            known_word(text, CURVES.iter().map(|(name, _)| *name))
        });
        let order = table.get("prefer_server_cipher_suites");
        let server_order =
            order.and_then(|(_, node)| self.flag(&of_tls("prefer_server_cipher_suites"), node));
        Some(TlsSettings {
            cert: cert?,
            key: key?,
            client_auth: client_auth?,
            client_ca,
            allowed_sans,
            versions,
            suites,
            curves,
            server_order: server_order.unwrap_or(true),
        })
    }

    /// The certificates that clients need, and the names in them.
    fn clients(&mut self, table: &Table<'_>) -> (Option<ClientAuth>, Vec<String>) {
        let has_ca = ["client_ca", "client_ca_file"]
            .iter()
            .find_map(|key| Some((*key, table.get(key)?)));
        let auth = table.get("client_auth_type");
        let client_auth = match auth {
            None => Some(ClientAuth::None),
            Some((_, node)) => self.one_of(&of_tls("client_auth_type"), node, CLIENT_AUTH),
        };
        if let (Some((at, _)), Some(found), None) = (auth, client_auth, has_ca)
            && found.verifies()
        {
            let key = of_tls("client_auth_type");
            self.fault(
                *at,
                format!("{key}: found without a CA, expected client_ca_file or client_ca"),
            );
        }
        let allowed_sans = self.sans(table);
        if let Some((key, (at, _))) = has_ca.filter(|_| client_auth == Some(ClientAuth::None)) {
            let expected = "expected a client_auth_type other than NoClientCert";
            let key = of_tls(key);
            self.fault(*at, format!("{key}: found without effect, {expected}"));
        }
        let names = table.get("client_allowed_sans");
        if let Some((at, _)) = names.filter(|_| client_auth.is_some_and(|auth| !auth.is_required())) {
            // A client without a certificate would have none of the names, and be let in.
            let expected = "expected the client_auth_type RequireAndVerifyClientCert or RequireAnyClientCert";
            let key = of_tls("client_allowed_sans");
            self.fault(*at, format!("{key}: found without effect, {expected}"));
        }
        (client_auth, allowed_sans)
    }

    /// Whether TLS 1.2 and 1.3 are permitted.
    fn versions(&mut self, table: &Table<'_>) -> [bool; 2] {
        let [least, most] = ["min_version", "max_version"].map(|key| {
            let (_, node) = table.get(key)?;
            self.one_of(&of_tls(key), node, VERSIONS)
        });
        let (least, most) = (least.unwrap_or(0), most.unwrap_or(1));
        if let Some((at, _)) = table.get("max_version").filter(|_| least > most) {
            self.fault(
                *at,
                format!("{}: found less than min_version", of_tls("max_version")),
            );
        }
        [least == 0, most == 1]
    }

    /// The suites of TLS 1.2.
    fn suites(&mut self, table: &Table<'_>, has_1_2: bool) -> Vec<String> {
        let faults = self.problems.len();
        let suites = self.texts(table, "cipher_suites", |text| {
            let known = SUITES
                .iter()
                .map(|(name, _)| *name)
                .chain(SUITES_13.iter().copied());
            known_word(text, known)
        });
        let suites: Vec<String> = suites
            .into_iter()
            .filter(|name| !SUITES_13.contains(&name.as_str()))
            .collect();
        if let Some((at, _)) = table.get("cipher_suites")
            && suites.is_empty()
            && has_1_2
            && self.problems.len() == faults
        {
            // An empty list would mean all of them.
            let expected = "expected one, or the min_version TLS13";
            let key = of_tls("cipher_suites");
            self.fault(*at, format!("{key}: found no suite of TLS 1.2, {expected}"));
        }
        suites
    }

    fn sans(&mut self, table: &Table<'_>) -> Vec<String> {
        self.texts(table, "client_allowed_sans", |text| {
            let fits = text.parse::<IpAddr>().is_ok()
                || text.contains("://")
                || !text.contains(['@', ' ', '/', ':']);
            if fits && !text.is_empty() {
                Ok(())
            } else {
                Err(
                    "a DNS name, an IP address or a URI with ://; names of other kinds are not compared"
                        .to_owned(),
                )
            }
        })
    }

    fn http(&mut self, node: &Node) -> BTreeMap<String, String> {
        let table = self.table("http_server_config.", node, HTTP);
        if let Some((_, node)) = table.get("http2") {
            // Both are accepted: clients negotiate the version, and only HTTP/1.1 is offered.
            self.flag("http_server_config.http2", node);
        }
        let mut headers = BTreeMap::new();
        let Some((_, node)) = table.get("headers") else {
            return headers;
        };
        let known: Vec<&str> = HEADERS.iter().map(|(name, _)| *name).collect();
        for (key, (_, node)) in self.table("http_server_config.headers.", node, &known) {
            let name = format!("http_server_config.headers.{key}");
            let Some(text) = self.text(&name, node) else {
                continue;
            };
            let values = HEADERS
                .iter()
                .find(|(known, _)| *known == key)
                .map_or(&[][..], |(_, values)| values);
            // As in the toolkit, a blank one is not set.
            if text.is_empty() {
                continue;
            }
            if !values.is_empty() && !values.contains(&text) {
                self.fault(
                    node.at,
                    format!("{name}: found {text:?}, expected {}", values.join(" or ")),
                );
            } else if HeaderValue::from_str(text).is_err() {
                self.fault(
                    node.at,
                    format!("{name}: found {text:?}, expected a header's value in one line"),
                );
            } else {
                headers.insert(key.to_owned(), text.to_owned());
            }
        }
        headers
    }

    fn users(&mut self, node: &Node) -> BTreeMap<String, Secret> {
        let mut users = BTreeMap::new();
        let rows: &[_] = match &node.value {
            Value::Map(rows) => rows,
            Value::Null | Value::Text(_) | Value::List(_) => &[],
        };
        if rows.is_empty() {
            let kind = node.value.kind();
            self.fault(
                node.at,
                format!("basic_auth_users: found {kind}, expected user: bcrypt hash, at least one"),
            );
        }
        for (user, at, node) in rows {
            if user.is_empty() || user.contains(':') || user.chars().any(char::is_control) {
                self.fault(
                    *at,
                    format!("basic_auth_users: found the user {user:?}, expected a name without colon"),
                );
            }
            let Some(hash) = self.text(&format!("basic_auth_users.{user}"), node) else {
                continue;
            };
            let is_known = ["$2a$", "$2b$", "$2y$"]
                .iter()
                .any(|prefix| hash.starts_with(prefix));
            match hash.parse::<HashParts>() {
                Ok(parts) if is_known && COSTS.contains(&parts.get_cost()) => {
                    users.insert(user.clone(), Secret(hash.to_owned()));
                }
                Ok(parts) if is_known => self.fault(
                    node.at,
                    format!(
                        "basic_auth_users.{user}: found a bcrypt cost of {}, expected {} to {}",
                        parts.get_cost(),
                        COSTS.start(),
                        COSTS.end()
                    ),
                ),
                _ => self.fault(
                    node.at,
                    format!("basic_auth_users.{user}: found no bcrypt hash, expected one such as `htpasswd -nB` prints"),
                ),
            }
        }
        users
    }
}

/// A key of TLS, by its full name.
fn of_tls(key: &str) -> String {
    format!("tls_server_config.{key}")
}

fn known_word<'w>(text: &str, known: impl Iterator<Item = &'w str>) -> Result<(), String> {
    let known: Vec<&str> = known.collect();
    if known.contains(&text) {
        return Ok(());
    }
    Err(format!("{}; others are not offered", known.join(", ")))
}

#[cfg(test)]
mod tests;
