//! Certificates of clients where rustls' own check is not the one of the file: any signer, or certain names.

use std::net::IpAddr;
use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use webpki::EndEntityCert;

/// Takes a certificate of any signer. That the client has its key is checked.
#[derive(Debug)]
pub(super) struct AnyClient {
    is_required: bool,
    algorithms: WebPkiSupportedAlgorithms,
}

impl AnyClient {
    pub(super) fn new(is_required: bool, provider: &CryptoProvider) -> Self {
        Self {
            is_required,
            algorithms: provider.signature_verification_algorithms,
        }
    }
}

impl ClientCertVerifier for AnyClient {
    fn client_auth_mandatory(&self) -> bool {
        self.is_required
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Takes what another check takes, if one of the certificate's names is listed.
#[derive(Debug)]
pub(super) struct Named {
    inner: Arc<dyn ClientCertVerifier>,
    names: Vec<String>,
}

impl Named {
    pub(super) fn new(inner: Arc<dyn ClientCertVerifier>, names: &[String]) -> Self {
        let names = names.to_vec();
        Self { inner, names }
    }
}

/// Whether a subject alternative name of the certificate is this one, letter by letter.
fn has(cert: &EndEntityCert<'_>, name: &str) -> bool {
    if let Ok(address) = name.parse::<IpAddr>() {
        let address = ServerName::IpAddress(address.into());
        return cert.verify_is_valid_for_subject_name(&address).is_ok();
    }
    cert.valid_dns_names()
        .chain(cert.valid_uri_names())
        .any(|found| found == name)
}

impl ClientCertVerifier for Named {
    fn offer_client_auth(&self) -> bool {
        self.inner.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.inner.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.inner.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        cert: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self.inner.verify_client_cert(cert, others, now)?;
        let parsed = EndEntityCert::try_from(cert).map_err(|_| CertificateError::BadEncoding)?;
        if self.names.iter().any(|name| has(&parsed, name)) {
            Ok(verified)
        } else {
            Err(CertificateError::ApplicationVerificationFailure.into())
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls12_signature(message, cert, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls13_signature(message, cert, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}
