//! `web_config_file`: TLS, client certificates, users and headers of the TCP listeners, in the format of Prometheus'
//! exporter-toolkit (docs/web-configuration.md of prometheus/exporter-toolkit).
//!
//! The parent reads and checks the file and all that it names ([`read`], [`check`]) and sends [`WebConfig`] to the daemon, which
//! makes an [`Access`] of it and can open none of these files.

mod access;
mod client;
mod files;
mod keys;
mod names;
mod reader;
mod tls;
mod users;
mod yaml;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

pub use access::{Access, Gate};
pub use files::{check, of, read};
pub use keys::fuzz;
pub(crate) use users::Verdict;

/// What the file says, with the content of the files that it names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebConfig {
    /// `tls_server_config`. `None`: plain HTTP.
    pub tls: Option<TlsSettings>,
    /// `http_server_config.headers`, for every answer.
    pub headers: BTreeMap<String, String>,
    /// `basic_auth_users`: bcrypt hashes by user. Empty: no authentication.
    pub users: BTreeMap<String, Secret>,
}

/// `tls_server_config`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TlsSettings {
    /// `cert`, `cert_file`: the certificate chain.
    pub cert: Pem,
    /// `key`, `key_file`: its private key.
    pub key: Pem,
    /// `client_auth_type`.
    pub client_auth: ClientAuth,
    /// `client_ca`, `client_ca_file`: who signs the certificates of clients.
    pub client_ca: Option<Pem>,
    /// `client_allowed_sans`: subject alternative names, one of which a client's certificate must have. Empty: any.
    pub allowed_sans: Vec<String>,
    /// `min_version` and `max_version`: whether TLS 1.2 and 1.3 are offered.
    pub versions: [bool; 2],
    /// `cipher_suites`: those of TLS 1.2, by the names of Go. Empty: all.
    pub suites: Vec<String>,
    /// `curve_preferences`, by the names of Go. Empty: all.
    pub curves: Vec<String>,
    /// `prefer_server_cipher_suites`.
    pub server_order: bool,
}

/// A file in PEM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pem {
    /// The key and its file or line, for errors.
    pub from: String,
    /// The content.
    pub text: Secret,
}

/// A text that no log and no error may show.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({} bytes)", self.0.len())
    }
}

/// `client_auth_type`: what a client must present, with the words of Go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClientAuth {
    /// `NoClientCert`: nothing.
    #[default]
    None,
    /// `RequestClientCert`: a certificate if it has one, of any signer.
    Request,
    /// `RequireAnyClientCert`: a certificate of any signer.
    RequireAny,
    /// `VerifyClientCertIfGiven`: none, or one that the CA has signed.
    VerifyIfGiven,
    /// `RequireAndVerifyClientCert`: one that the CA has signed.
    RequireAndVerify,
}

impl ClientAuth {
    /// Whether a client without a certificate is refused.
    pub const fn is_required(self) -> bool {
        matches!(self, Self::RequireAny | Self::RequireAndVerify)
    }

    /// Whether a certificate must be signed by the CA.
    pub const fn verifies(self) -> bool {
        matches!(self, Self::VerifyIfGiven | Self::RequireAndVerify)
    }
}
