//! What is wrong with a certificate or its key, and what to do about it, in words for who made them. The library's own
//! are those of its source.

use noise_text::clean::clean;
use rustls::pki_types::CertificateDer;
use rustls::{CertificateError, Error, OtherError};
use x509_cert::Certificate;
use x509_cert::certificate::Version;
use x509_cert::der::asn1::{ObjectIdentifier, UintRef};
use x509_cert::der::{Decode as _, Reader as _, SliceReader};

/// Elliptic keys, and the curves of such that can be used.
const ELLIPTIC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const USABLE_CURVES: [ObjectIdentifier; 2] = [
    ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7"),
    ObjectIdentifier::new_unwrap("1.3.132.0.34"),
];
const P521: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.35");
const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
/// Bits of RSA keys that can be used.
const RSA_BITS: std::ops::RangeInclusive<usize> = 2048..=4096;
const MAKE_ANOTHER: &str = "make one on P-256 (openssl ecparam -name prime256v1 -genkey -noout) \
                            and have its certificate issued anew";

/// Why a client's certificate is refused, where the library has no words for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// It has no extensions.
    #[error(
        "it is of version 1, which cannot say what it may be used for: issue it anew with an extension \
         (openssl x509 -req -extfile, with a line such as subjectAltName=DNS:NAME)"
    )]
    Version1,
    /// No name that is allowed.
    #[error("it has none of the names in `client_allowed_sans`")]
    Name,
}

impl Unfit {
    /// As the library takes it.
    pub fn error(self) -> Error {
        Error::InvalidCertificate(CertificateError::Other(OtherError(std::sync::Arc::new(self))))
    }
}

/// Whether a certificate is of the first version.
pub fn is_version_1(certificate: &CertificateDer<'_>) -> bool {
    let certificate = Certificate::from_der(certificate);
    certificate.is_ok_and(|one| one.tbs_certificate().version() == Version::V1)
}

/// Why the key of a certificate cannot be used, where that is because of its kind.
pub fn unfit_key(certificate: &CertificateDer<'_>) -> Option<String> {
    let certificate = Certificate::from_der(certificate).ok()?;
    let public = certificate.tbs_certificate().subject_public_key_info();
    if public.algorithm.oid == ELLIPTIC {
        let curve: ObjectIdentifier = public.algorithm.parameters.as_ref()?.decode_as().ok()?;
        let name = if curve == P521 { "P-521".to_owned() } else { curve.to_string() };
        return (!USABLE_CURVES.contains(&curve)).then(|| {
            format!(
                "is on the curve {name}, and keys on P-256 and P-384 can be used: {MAKE_ANOTHER}"
            )
        });
    }
    if public.algorithm.oid != RSA {
        return None;
    }
    let mut reader = SliceReader::new(public.subject_public_key.as_bytes()?).ok()?;
    let modulus = reader.sequence(|inner: &mut SliceReader<'_>| {
        let modulus = UintRef::decode(inner)?;
        UintRef::decode(inner)?;
        Ok::<_, x509_cert::der::Error>(modulus)
    });
    let bytes = modulus.ok()?;
    let bytes = bytes.as_bytes();
    let zeros = bytes.first().map_or(0, |first| first.leading_zeros() as usize);
    let bits = (8 * bytes.len()).saturating_sub(zeros);
    let (least, most) = (RSA_BITS.start(), RSA_BITS.end());
    (!RSA_BITS.contains(&bits)).then(|| {
        format!("is RSA with {bits} bits, and {least} to {most} can be used: {MAKE_ANOTHER}")
    })
}

/// What is wrong with a certificate.
pub fn words(error: &CertificateError) -> String {
    match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "it has expired: issue it anew".into()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "it is not valid yet: compare the clocks".into()
        }
        CertificateError::UnknownIssuer => {
            "no authority in `client_ca_file` has signed it: add that which has, or use a certificate of theirs".into()
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "it may not be used by clients: issue it anew with extendedKeyUsage=clientAuth".into()
        }
        CertificateError::BadSignature => "it was not signed by the authority that it names".into(),
        CertificateError::BadEncoding => "it is malformed: issue it anew".into(),
        CertificateError::UnhandledCriticalExtension => {
            "it has a critical extension that noised does not know: issue it anew without".into()
        }
        CertificateError::Other(OtherError(own)) if own.downcast_ref::<Unfit>().is_some() => {
            own.to_string()
        }
        CertificateError::Other(_) => {
            "it is malformed, or has what noised does not know: issue it anew, such as with openssl x509".into()
        }
        other => clean(&other.to_string()).into_owned(),
    }
}

/// Why a client was refused because of what it has shown of itself; `None` where it was for something else.
pub fn refusal(error: &Error) -> Option<String> {
    match error {
        Error::NoCertificatesPresented => Some(
            "it has shown no certificate, and `client_auth_type` requires one: give it `cert_file` and `key_file`"
                .to_owned(),
        ),
        Error::InvalidCertificate(error) => {
            Some(format!("its certificate is refused: {}", words(error)))
        }
        _ => None,
    }
}
