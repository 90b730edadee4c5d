//! Which certificates of clients will do: those of a known authority or any, all names or some.

use std::net::IpAddr;
use std::sync::Arc;

use super::tls_words::{Unfit, is_version_1};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use x509_cert::Certificate;
use x509_cert::der::Decode as _;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

/// The verifier of clients' certificates. That a client has the key of its certificate is always verified.
#[derive(Debug)]
pub struct Clients {
    /// Verifies whose they are; without it, any certificate will do.
    verifier: Option<Arc<dyn ClientCertVerifier>>,
    algorithms: WebPkiSupportedAlgorithms,
    mandatory: bool,
    allowed_sans: Option<Vec<String>>,
}

impl Clients {
    /// `allowed_sans`: the names of which a certificate must have one.
    pub fn new(
        verifier: Option<Arc<dyn ClientCertVerifier>>,
        algorithms: WebPkiSupportedAlgorithms,
        mandatory: bool,
        allowed_sans: Option<Vec<String>>,
    ) -> Self {
        Self { verifier, algorithms, mandatory, allowed_sans }
    }

    /// Whether a client that showed this chain, the empty one if none, would be let in now.
    pub fn accept(&self, chain: &[CertificateDer<'_>]) -> bool {
        chain.split_first().map_or(!self.mandatory, |(own, more)| {
            self.verify_client_cert(own, more, UnixTime::now()).is_ok()
        })
    }
}

/// The alternative names of a certificate, as `client_allowed_sans` writes them.
fn names(certificate: &CertificateDer<'_>) -> Option<Vec<String>> {
    let certificate = Certificate::from_der(certificate).ok()?;
    let names = certificate.tbs_certificate().get_extension::<SubjectAltName>().ok()?;
    let Some((_, SubjectAltName(names))) = names else { return Some(Vec::new()) };
    let texts = names.iter().filter_map(|name| match name {
        GeneralName::DnsName(text)
        | GeneralName::Rfc822Name(text)
        | GeneralName::UniformResourceIdentifier(text) => Some(text.to_string()),
        GeneralName::IpAddress(bytes) => {
            let bytes = bytes.as_bytes();
            let four = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
            let address = four.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from));
            address.ok().map(|address| address.to_string())
        }
        _ => None,
    });
    Some(texts.collect())
}

impl ClientCertVerifier for Clients {
    fn client_auth_mandatory(&self) -> bool {
        self.mandatory
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.verifier.as_ref().map_or(&[], |verifier| verifier.root_hint_subjects())
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        if is_version_1(end_entity) {
            return Err(Unfit::Version1.error());
        }
        if let Some(verifier) = &self.verifier {
            verifier.verify_client_cert(end_entity, intermediates, now)?;
        }
        if let Some(allowed) = &self.allowed_sans {
            let names = names(end_entity)
                .ok_or(Error::InvalidCertificate(CertificateError::BadEncoding))?;
            if !names.iter().any(|name| allowed.contains(name)) {
                return Err(Unfit::Name.error());
            }
        }
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
