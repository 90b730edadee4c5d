//! TLS as the web file wants it: certificates, keys and authorities are read, and made a server's
//! configuration. TLS 1.2 and 1.3 only, HTTP/1.1 only.
//!
//! Sessions are not kept for resumption: they would cost memory for every client, and would let
//! a client in whose certificate has expired since. A scraper keeps its connection open anyway, which
//! may be unused for minutes.

use std::sync::Arc;

use anyhow::Context as _;
use noise_system::files;
use noise_text::clean::quoted;
use noise_wire::pem;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{ProtocolVersion, RootCertStore, ServerConfig, SupportedProtocolVersion};

use super::client_certificates::Clients;
use super::tls_file::{ClientAuth, Pem, TlsFile};
use super::tls_words::{Unfit, is_version_1, unfit_key, words};
use super::validity::Validity;

/// TLS as it is served.
#[derive(Clone)]
pub struct ServedTls {
    pub config: Arc<ServerConfig>,
    /// Which certificates of clients will do; `None` where clients show none.
    pub clients: Option<Arc<Clients>>,
    /// How long its certificate lasts; `None` where that cannot be read.
    pub validity: Option<Validity>,
}

/// Reads what the settings name.
/// Errors: one sentence that names the setting and its file.
pub fn server_config(tls: &TlsFile) -> anyhow::Result<ServedTls> {
    let provider = Arc::new(provider(tls));
    let versions: Vec<_> = tls.versions.iter().filter_map(supported).collect();
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&versions)
        .context("the ciphers, curves and versions of `tls_server_config` do not fit together")?;
    let clients = match tls.client_auth {
        ClientAuth::None => None,
        _ => Some(Arc::new(clients(tls, provider)?)),
    };
    let builder = match &clients {
        None => builder.with_no_client_auth(),
        Some(clients) => builder.with_client_cert_verifier(Arc::clone(clients) as _),
    };
    let chain = certificates("cert", &tls.certificate)?;
    let validity = Validity::of(&chain);
    let key = key(&tls.key)?;
    let first = chain.first().cloned();
    if first.as_ref().is_some_and(is_version_1) {
        anyhow::bail!("cannot use {}: {}", certificate(tls), Unfit::Version1);
    }
    let mut config = builder.with_single_cert(chain, key).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => {
            anyhow::anyhow!("{} is not the key of {}", place("key", &tls.key), certificate(tls))
        }
        rustls::Error::InvalidCertificate(error) => {
            anyhow::anyhow!("cannot use {}: {}", certificate(tls), words(&error))
        }
        error => match first.as_ref().and_then(unfit_key) {
            Some(why) => anyhow::anyhow!("the key of {} {why}", certificate(tls)),
            None => anyhow::anyhow!("cannot use {}: {error}", place("key", &tls.key)),
        },
    })?;
    config.ignore_client_order = tls.prefer_server_cipher_suites;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(ServedTls { config: Arc::new(config), clients, validity })
}

fn certificate(tls: &TlsFile) -> String {
    place("cert", &tls.certificate)
}

/// Ciphers and curves, the preferred first.
fn provider(tls: &TlsFile) -> CryptoProvider {
    let mut provider = ring::default_provider();
    if !tls.cipher_suites.is_empty() {
        // TLS 1.3's own suites are not for choosing: the format says so, as Go does.
        provider.cipher_suites.retain(|suite| suite.version().version == ProtocolVersion::TLSv1_3);
        let chosen = tls.cipher_suites.iter();
        let chosen = chosen.filter(|suite| suite.version().version == ProtocolVersion::TLSv1_2);
        provider.cipher_suites.extend(chosen);
    }
    if !tls.curves.is_empty() {
        let known = provider.kx_groups;
        let find = |name| known.iter().copied().find(|group| group.name() == name);
        provider.kx_groups = tls.curves.iter().copied().filter_map(find).collect();
    }
    provider
}

fn supported(version: &ProtocolVersion) -> Option<&'static SupportedProtocolVersion> {
    rustls::ALL_VERSIONS.iter().copied().find(|known| known.version == *version)
}

fn clients(tls: &TlsFile, provider: Arc<CryptoProvider>) -> anyhow::Result<Clients> {
    let algorithms = provider.signature_verification_algorithms;
    let verifier = match tls.client_ca.as_ref().filter(|_| tls.client_auth.verifies()) {
        None => None,
        Some(authorities) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates("client_ca", authorities)? {
                roots.add(certificate).map_err(|error| {
                    let place = place("client_ca", authorities);
                    anyhow::anyhow!("a certificate in {place} is no authority's: {error}")
                })?;
            }
            let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            Some(builder.build().context("client certificates cannot be verified")?)
        }
    };
    Ok(Clients::new(
        verifier,
        algorithms,
        tls.client_auth.requires(),
        tls.client_allowed_sans.clone(),
    ))
}

/// Where a setting's text is, for sentences.
fn place(name: &str, pem: &Pem) -> String {
    match pem {
        Pem::File(path) => format!("`{name}_file` {}", quoted(&path.display().to_string())),
        Pem::Inline(_) => format!("`{name}`"),
    }
}

fn read(name: &str, source: &Pem) -> anyhow::Result<Vec<u8>> {
    match source {
        Pem::Inline(text) => Ok(text.0.clone().into_bytes()),
        Pem::File(path) => {
            let bytes = files::read(path, files::MAX_FILE_BYTES);
            bytes.with_context(|| format!("cannot read {}", place(name, source)))
        }
    }
}

fn certificates(name: &str, source: &Pem) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    pem::certificates(&read(name, source)?, &place(name, source))
}

fn key(pem: &Pem) -> anyhow::Result<PrivateKeyDer<'static>> {
    use rustls::pki_types::pem::Error;
    let text = read("key", pem)?;
    PrivateKeyDer::from_pem_slice(&text).map_err(|error| match error {
        Error::NoItemsFound => {
            anyhow::anyhow!(
                "there is no key without a passphrase in {} (PKCS#8, PKCS#1 or SEC1)",
                place("key", pem)
            )
        }
        // The error's own words could hold a part of the key.
        _ => anyhow::anyhow!("{} is not PEM", place("key", pem)),
    })
}
