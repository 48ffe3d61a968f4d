//! The words of the exporter-toolkit, which are those of Go, and what they mean here.

use rustls::SupportedCipherSuite;
use rustls::crypto::SupportedKxGroup;
use rustls::crypto::ring::{cipher_suite as suite, kx_group};

use super::ClientAuth;

/// `client_auth_type`.
pub(super) const CLIENT_AUTH: &[(&str, ClientAuth)] = &[
    ("NoClientCert", ClientAuth::None),
    ("RequestClientCert", ClientAuth::Request),
    ("RequireAnyClientCert", ClientAuth::RequireAny),
    // The toolkit's former name.
    ("RequireClientCert", ClientAuth::RequireAny),
    ("VerifyClientCertIfGiven", ClientAuth::VerifyIfGiven),
    ("RequireAndVerifyClientCert", ClientAuth::RequireAndVerify),
];

/// `min_version` and `max_version`, with the position in `TlsSettings::versions`.
pub(super) const VERSIONS: &[(&str, usize)] = &[("TLS12", 0), ("TLS13", 1)];

/// `cipher_suites` of TLS 1.2.
pub(super) const SUITES: &[(&str, &SupportedCipherSuite)] = &[
    (
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        &suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    ),
    (
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        &suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    ),
    (
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        &suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
    (
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        &suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
    ),
    (
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        &suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
    ),
    (
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        &suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
];

/// `cipher_suites` of TLS 1.3. All three are always offered, as by Go.
pub(super) const SUITES_13: &[&str] = &[
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
];

/// `curve_preferences`.
pub(super) const CURVES: &[(&str, &dyn SupportedKxGroup)] = &[
    ("CurveP256", kx_group::SECP256R1),
    ("CurveP384", kx_group::SECP384R1),
    ("X25519", kx_group::X25519),
];

/// `http_server_config.headers`, with the values that each may have; empty: any.
pub(super) const HEADERS: &[(&str, &[&str])] = &[
    ("Content-Security-Policy", &[]),
    ("Strict-Transport-Security", &[]),
    ("X-Content-Type-Options", &["nosniff"]),
    ("X-Frame-Options", &["deny", "sameorigin"]),
    ("X-XSS-Protection", &[]),
];
