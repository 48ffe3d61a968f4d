//! From certificates and keys to what rustls needs.

use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::{self, cipher_suite as suite};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoClientAuth, NoServerSessionStorage, WebPkiClientVerifier};
use rustls::version::{TLS12, TLS13};
use rustls::{Error, RootCertStore, ServerConfig, SupportedProtocolVersion};

use super::client::{AnyClient, Named};
use super::names::{CURVES, SUITES};
use super::{ClientAuth, Pem, TlsSettings};

/// The configuration of rustls.
///
/// # Errors
/// A text that names the key and the file.
pub(super) fn build(tls: &TlsSettings) -> Result<ServerConfig, String> {
    let provider = Arc::new(provider(tls));
    let [old, new] = tls.versions;
    let offered: [(bool, &'static SupportedProtocolVersion); 2] = [(old, &TLS12), (new, &TLS13)];
    let versions: Vec<_> = offered
        .iter()
        .filter(|(on, _)| *on)
        .map(|(_, version)| *version)
        .collect();
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&versions)
        .map_err(|e| format!("tls_server_config: {e}"))?
        .with_client_cert_verifier(verifier(tls, &provider)?);
    let key = PrivateKeyDer::from_pem_slice(tls.key.text.0.as_bytes()).map_err(|_| {
        format!(
            "{}: found no private key, expected one in PEM, not encrypted",
            tls.key.from
        )
    })?;
    let mut config = builder
        .with_single_cert(certificates(&tls.cert)?, key)
        .map_err(|e| match e {
            Error::InconsistentKeys(_) => {
                format!(
                    "{}: found the key of another certificate, expected that of {}",
                    tls.key.from, tls.cert.from
                )
            }
            // The provider does not say why it cannot use a key.
            Error::General(_) => format!(
                "{}: found a key of a type or size that is not supported, or a damaged one, expected RSA of 2048 to 8192 \
                 bits, ECDSA P-256 or P-384, or Ed25519",
                tls.key.from
            ),
            e => format!("{}, {}: {e}", tls.cert.from, tls.key.from),
        })?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.ignore_client_order = tls.server_order;
    // A scraper keeps its connection; sessions would cost memory, and outlive the CA that admitted them.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

fn provider(tls: &TlsSettings) -> CryptoProvider {
    let mut provider = ring::default_provider();
    if !tls.suites.is_empty() {
        let named = tls.suites.iter();
        let chosen =
            named.filter_map(|name| SUITES.iter().find(|(known, _)| known == name).map(|(_, s)| **s));
        provider.cipher_suites = [
            suite::TLS13_AES_256_GCM_SHA384,
            suite::TLS13_AES_128_GCM_SHA256,
            suite::TLS13_CHACHA20_POLY1305_SHA256,
        ]
        .into_iter()
        .chain(chosen)
        .collect();
    }
    if !tls.curves.is_empty() {
        let named = tls.curves.iter();
        let chosen = named.filter_map(|name| CURVES.iter().find(|(known, _)| known == name).map(|(_, c)| *c));
        provider.kx_groups = chosen.collect();
    }
    provider
}

fn certificates(pem: &Pem) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.text.0.as_bytes()).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        _ => Err(format!(
            "{}: found no certificate, expected certificates in PEM",
            pem.from
        )),
    }
}

fn verifier(
    tls: &TlsSettings,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let verifier: Arc<dyn ClientCertVerifier> = match (tls.client_auth, &tls.client_ca) {
        (ClientAuth::None, _) => return Ok(Arc::new(NoClientAuth)),
        (auth, Some(ca)) if auth.verifies() => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(ca)? {
                roots.add(certificate).map_err(|e| format!("{}: {e}", ca.from))?;
            }
            let mut builder =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
            if !auth.is_required() {
                builder = builder.allow_unauthenticated();
            }
            builder.build().map_err(|e| format!("{}: {e}", ca.from))?
        }
        (auth, None) if auth.verifies() => {
            return Err("tls_server_config.client_auth_type: found without a CA".to_owned());
        }
        (auth, _) => Arc::new(AnyClient::new(auth.is_required(), provider)),
    };
    Ok(if tls.allowed_sans.is_empty() {
        verifier
    } else {
        Arc::new(Named::new(verifier, &tls.allowed_sans))
    })
}

#[cfg(test)]
mod tests {
    use super::super::{ClientAuth, Secret};
    use super::*;

    #[test]
    fn a_key_that_cannot_be_used_is_named_with_those_that_can() {
        let pem = |from: &str, kind: &str| Pem {
            from: from.to_owned(),
            text: Secret(format!("-----BEGIN {kind}-----\nAAAA\n-----END {kind}-----\n")),
        };
        let tls = TlsSettings {
            cert: pem("node.pem", "CERTIFICATE"),
            key: pem("node.key", "PRIVATE KEY"),
            client_auth: ClientAuth::None,
            client_ca: None,
            allowed_sans: Vec::new(),
            versions: [true, true],
            suites: Vec::new(),
            curves: Vec::new(),
            server_order: true,
        };
        let error = build(&tls).unwrap_err();
        assert!(
            error.starts_with("node.key: found a key of a type or size that is not supported"),
            "{error}"
        );
    }
}
