//! Certificates and keys as PEM (RFC 7468).

use anyhow::bail;
use noise_text::clean::brief;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

/// The certificates in a text; `place` is where that is, for sentences.
/// Errors: where there is none, or it is not PEM.
pub fn certificates(text: &[u8], place: &str) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let found = CertificateDer::pem_slice_iter(text).collect::<Result<Vec<_>, _>>();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => bail!("there is no certificate in {place}"),
        Err(error) => bail!("{place} is not PEM: {}", brief(&error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_without_certificates_is_reported_as_such() {
        for (text, words) in [
            ("", "there is no certificate in here"),
            ("-----BEGIN CERTIFICATE-----\n?\n-----END CERTIFICATE-----\n", "here is not PEM"),
        ] {
            let error = certificates(text.as_bytes(), "here").unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
