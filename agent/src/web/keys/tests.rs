use proptest::prelude::*;

use super::*;

const HASH: &str = "$2y$04$.....................................................";

fn read(text: &str) -> Result<WebConfig, String> {
    let file = |path: &Path| match path.to_str() {
        Some("gone.pem") => Err("/etc/x/gone.pem: no such file".to_owned()),
        Some(name) => Ok(format!("content of {name}")),
        None => Err("no name".to_owned()),
    };
    parse("web.yml", text, file).map_err(|e| e.to_string())
}

fn tls(rows: &[&str]) -> Result<TlsSettings, String> {
    let rows: Vec<String> = rows.iter().map(|row| format!("  {row}\n")).collect();
    let text = format!(
        "tls_server_config:\n  cert_file: c.pem\n  key_file: k.pem\n{}",
        rows.concat()
    );
    read(&text).map(|web| web.tls.unwrap())
}

#[test]
fn every_key_is_read() {
    let text = format!(
        "# comment\ntls_server_config:\n  cert_file: c.pem\n  key: |\n    PEM\n    END\n  client_auth_type: RequireAndVerifyClientCert\n  \
         client_ca_file: ca.pem\n  client_allowed_sans: [prom.example, 10.0.0.1, \"spiffe://a/b\"]\n  min_version: TLS13\n  \
         max_version: TLS13\n  cipher_suites: [TLS_AES_128_GCM_SHA256, TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]\n  \
         curve_preferences: [X25519, CurveP384]\n  prefer_server_cipher_suites: false\nhttp_server_config:\n  http2: true\n  \
         headers:\n    X-Frame-Options: deny\n    Content-Security-Policy: default-src 'none'\nbasic_auth_users:\n  prom: {HASH}\n"
    );
    let web = read(&text).unwrap();
    let tls = web.tls.unwrap();
    assert_eq!(tls.cert.text.0, "content of c.pem");
    assert_eq!(tls.cert.from, "tls_server_config.cert_file c.pem");
    assert_eq!(tls.key.text.0, "PEM\nEND\n");
    assert_eq!(tls.key.from, "line 4: tls_server_config.key");
    assert_eq!(tls.client_auth, ClientAuth::RequireAndVerify);
    assert_eq!(tls.client_ca.unwrap().text.0, "content of ca.pem");
    assert_eq!(tls.allowed_sans, ["prom.example", "10.0.0.1", "spiffe://a/b"]);
    assert_eq!(tls.versions, [false, true]);
    // Go always offers those of TLS 1.3, too.
    assert_eq!(tls.suites, ["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"]);
    assert_eq!(tls.curves, ["X25519", "CurveP384"]);
    assert!(!tls.server_order);
    assert_eq!(web.headers.len(), 2);
    assert_eq!(web.users["prom"].0, HASH);
}

#[test]
fn without_a_key_its_default_holds() {
    let found = tls(&[]).unwrap();
    assert_eq!((found.client_auth, found.client_ca), (ClientAuth::None, None));
    assert_eq!((found.versions, found.server_order), ([true, true], true));
    assert!(found.allowed_sans.is_empty() && found.suites.is_empty() && found.curves.is_empty());
    let only_users = read(&format!("basic_auth_users: {{ a: {HASH} }}")).unwrap();
    assert!(only_users.tls.is_none());
}

#[test]
fn each_type_of_client_authentication_is_known() {
    for (word, auth) in CLIENT_AUTH {
        let row = format!("client_auth_type: {word}");
        let rows = [row.as_str(), "client_ca_file: ca.pem"];
        let rows = if auth.verifies() { &rows[..] } else { &rows[..1] };
        assert_eq!(tls(rows).unwrap().client_auth, *auth);
    }
}

#[test]
fn a_wrong_key_of_tls_names_its_line_and_what_is_expected() {
    for (rows, expected) in [
        (
            &["cert_filee: x"][..],
            "web.yml:4:3: unknown key tls_server_config.cert_filee, did you mean tls_server_config.cert_file?",
        ),
        (
            &["colour: x"],
            "web.yml:4:3: unknown key tls_server_config.colour, expected one of cert, cert_file, ",
        ),
        (
            &["cert: x"],
            "web.yml:4:3: tls_server_config.cert: found beside cert_file, expected one of them",
        ),
        (
            &["key: x"],
            "web.yml:4:3: tls_server_config.key: found beside key_file, expected one of them",
        ),
        (
            &["client_auth_type: Yes"],
            "web.yml:4:21: tls_server_config.client_auth_type: found \"Yes\", expected NoClientCert or ",
        ),
        (
            &["client_auth_type: VerifyClientCertIfGiven"],
            "web.yml:4:3: tls_server_config.client_auth_type: found without a CA, expected client_ca_file or client_ca",
        ),
        (
            &["client_ca_file: ca.pem"],
            "web.yml:4:3: tls_server_config.client_ca_file: found without effect, expected a client_auth_type",
        ),
        (
            &["client_auth_type: NoClientCert", "client_ca: PEM"],
            "web.yml:5:3: tls_server_config.client_ca: found without effect, expected a client_auth_type",
        ),
        (
            &[
                "client_ca_file: gone.pem",
                "client_auth_type: RequireAndVerifyClientCert",
            ],
            "web.yml:4:19: tls_server_config.client_ca_file: /etc/x/gone.pem: no such file",
        ),
        (
            &["client_allowed_sans: [a]"],
            "web.yml:4:3: tls_server_config.client_allowed_sans: found without effect, expected the client_auth_type RequireAnd",
        ),
        (
            &[
                "client_auth_type: RequireAnyClientCert",
                "client_allowed_sans: [a, a@b.c]",
            ],
            "web.yml:5:28: tls_server_config.client_allowed_sans: found \"a@b.c\", expected a DNS name, an IP address or a URI",
        ),
        (
            &[
                "client_auth_type: RequireAnyClientCert",
                "client_allowed_sans: []",
            ],
            "web.yml:5:24: tls_server_config.client_allowed_sans: found a list, expected a list of at least one",
        ),
        (
            &["min_version: TLS10"],
            "web.yml:4:16: tls_server_config.min_version: found \"TLS10\", expected TLS12 or TLS13",
        ),
        (
            &["min_version: TLS13", "max_version: TLS12"],
            "web.yml:5:3: tls_server_config.max_version: found less than min_version",
        ),
        (
            &["cipher_suites: [TLS_RSA_WITH_AES_128_CBC_SHA]"],
            "web.yml:4:19: tls_server_config.cipher_suites: found \"TLS_RSA_WITH_AES_128_CBC_SHA\", expected TLS_ECDHE_ECDSA_WITH",
        ),
        (
            &["cipher_suites: [TLS_AES_128_GCM_SHA256]"],
            "web.yml:4:3: tls_server_config.cipher_suites: found no suite of TLS 1.2, expected one, or the min_version TLS13",
        ),
        (
            &["curve_preferences: [CurveP521]"],
            "web.yml:4:23: tls_server_config.curve_preferences: found \"CurveP521\", expected CurveP256, CurveP384, X25519; others",
        ),
        (
            &["prefer_server_cipher_suites: 1"],
            "web.yml:4:32: tls_server_config.prefer_server_cipher_suites: found \"1\", expected false or true",
        ),
        (
            &["cert_file: twice"],
            "web.yml:4:3: found cert_file twice, expected it once",
        ),
    ] {
        let error = tls(rows).unwrap_err();
        assert!(error.starts_with(expected), "{rows:?}: {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

#[test]
fn a_wrong_key_elsewhere_names_its_line_and_what_is_expected() {
    let users = format!("basic_auth_users:\n  a: {HASH}\n");
    for (text, expected) in [
        (
            "",
            "web.yml:1:1: found nothing, expected a mapping with basic_auth_users, ",
        ),
        (
            "http_server_config: {}\n",
            "web.yml:1:1: found no tls_server_config and no basic_auth_users, expected at least one",
        ),
        (
            "tls_server_config:\n",
            "web.yml:1:18: tls_server_config: found nothing, expected a mapping with cert, ",
        ),
        (
            "tls_server_config: { cert_file: c.pem }\n",
            "web.yml:1:1: tls_server_config: found without a key, expected key_file or key",
        ),
        (
            "tls_server_config: { key_file: k.pem }\n",
            "web.yml:1:1: tls_server_config: found without a certificate, expected cert_file or cert",
        ),
        ("- a\n", "web.yml:1:1: found a list, expected a mapping with "),
        (
            "basic_auth_users: {}\n",
            "web.yml:1:19: basic_auth_users: found a mapping, expected user: bcrypt hash, at least one",
        ),
        (
            "basic_auth_users:\n  a: secret\n",
            "web.yml:2:6: basic_auth_users.a: found no bcrypt hash, expected one such as",
        ),
        (
            "basic_auth_users:\n  a: [x]\n",
            "web.yml:2:6: basic_auth_users.a: found a list, expected a text",
        ),
        (
            "rate_limit: { burst: 5 }\n",
            "web.yml:1:1: rate_limit: found, expected no such key: nodewarden limits connections",
        ),
        (
            "tls_config: {}\n",
            "web.yml:1:1: unknown key tls_config, expected one of basic_auth_users, http_server_config, ",
        ),
        ("a: b: c\n", "web.yml:1:5: no valid YAML: "),
    ] {
        let error = read(text).unwrap_err();
        assert!(error.starts_with(expected), "{text:?}: {error}");
    }
    for (row, expected) in [
        (
            "http2: maybe",
            "web.yml:4:10: http_server_config.http2: found \"maybe\", expected false or true",
        ),
        (
            "http3: true",
            "web.yml:4:3: unknown key http_server_config.http3, did you mean http_server_config.http2?",
        ),
        (
            "headers: { Server: x }",
            "web.yml:4:14: unknown key http_server_config.headers.Server, expected one of ",
        ),
        (
            "headers: { X-Frame-Options: allow }",
            "web.yml:4:31: http_server_config.headers.X-Frame-Options: found \"allow\", expected deny or sameorigin",
        ),
        (
            "headers: { X-XSS-Protection: \"a\\nb\" }",
            "web.yml:4:32: http_server_config.headers.X-XSS-Protection: found \"a\\nb\", expected a header's value",
        ),
    ] {
        let error = read(&format!("{users}http_server_config:\n  {row}\n")).unwrap_err();
        assert!(error.starts_with(expected), "{row:?}: {error}");
    }
}

#[test]
fn hashes_that_cannot_be_compared_or_would_take_too_long_are_refused() {
    for (hash, part) in [
        (
            HASH.replace("$04$", "$31$"),
            "found a bcrypt cost of 31, expected 4 to 14",
        ),
        (
            HASH.replace("$04$", "$03$"),
            "found a bcrypt cost of 3, expected 4 to 14",
        ),
        (HASH.replace("$2y$", "$2x$"), "found no bcrypt hash"),
        (HASH.replace("$2y$", "$5$"), "found no bcrypt hash"),
    ] {
        let error = read(&format!("basic_auth_users: {{ a: \"{hash}\" }}")).unwrap_err();
        assert!(error.contains(part) && !error.contains(&hash), "{error}");
    }
}

#[test]
fn no_error_and_no_debug_text_shows_a_secret() {
    let error = read("tls_server_config: { cert_file: c, key: [SECRET] }\nbasic_auth_users: { a: SECRET }\n")
        .unwrap_err();
    assert!(!error.contains("SECRET") && error.lines().count() == 2, "{error}");
    let web = read(&format!(
        "tls_server_config: {{ cert_file: c, key: SECRET }}\nbasic_auth_users: {{ a: {HASH} }}\n"
    ));
    let text = format!("{:?}", web.unwrap());
    assert!(!text.contains("SECRET") && !text.contains(HASH), "{text}");
}

#[test]
fn certificates_and_keys_that_are_none_are_named() {
    let web = read("tls_server_config: { cert_file: c.pem, key_file: k.pem }").unwrap();
    let error = crate::web::Access::new(&web).unwrap_err();
    assert_eq!(
        error,
        "tls_server_config.key_file k.pem: found no private key, expected one in PEM, not encrypted"
    );
}

proptest! {
    #[test]
    fn no_text_panics(text in "[a-z_:{}\\[\\]\" \n$.0-9-]{0,200}") {
        fuzz(text.as_bytes());
    }
}
