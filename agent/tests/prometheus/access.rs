//! Prometheus as a client with a certificate and a password.

use serde_json::{Value, json};
use testkit::prometheus::{Prometheus, PrometheusOptions, Target};

use crate::common::pki::{LOCAL, Pki, users};
use crate::common::{LONG, Node};

#[test]
fn prometheus_scrapes_with_its_certificate_and_password_alone() {
    let pki = Pki::new();
    pki.sign("server", LOCAL);
    pki.sign("prom", "DNS:prom.example");
    let names = "  client_allowed_sans: [prom.example]\n";
    let verify = "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.pem\n";
    pki.web(&format!("{verify}{names}{}", users(&["prom"])));
    let mut node = Node::new();
    node.set(&pki.setting());
    node.spawn();
    node.until("the port is open", |n| n.address().is_some());
    let address = node.address().unwrap();
    let target = |job: &str, certificate: Value, password: &str| {
        let mut target = Target::new(job, &address);
        let mut tls = json!({ "ca_file": pki.path("ca.pem") });
        if let (Value::Object(tls), Value::Object(certificate)) = (&mut tls, certificate) {
            tls.extend(certificate);
        }
        let login = json!({ "username": "prom", "password": password });
        let rows = [
            ("scheme", json!("https")),
            ("tls_config", tls),
            ("basic_auth", login),
        ];
        target
            .client
            .extend(rows.map(|(key, value)| (key.to_owned(), value)));
        target
    };
    let own = json!({ "cert_file": pki.path("prom.pem"), "key_file": pki.path("prom.key") });
    let prometheus = Prometheus::start(&PrometheusOptions {
        targets: vec![
            target("right", own.clone(), "secret"),
            target("wrong-password", own, "wrong"),
            target("no-certificate", json!({}), "secret"),
        ],
        ..Default::default()
    })
    .unwrap();
    prometheus.wait_up(1, LONG).unwrap();
    for (job, up) in [("right", 1.0), ("wrong-password", 0.0), ("no-certificate", 0.0)] {
        let expr = format!("up{{job={job:?}}}");
        let is_so = |rows: &[(_, f64)]| rows.first().is_some_and(|(_, value)| *value == up);
        prometheus
            .wait_query(&expr, is_so, LONG)
            .unwrap_or_else(|e| panic!("{job}: {e:#}"));
    }
}
