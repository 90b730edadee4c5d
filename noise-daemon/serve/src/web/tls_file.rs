//! The part of the web file that is about TLS: which settings there are, and which of them can be
//! kept.

use std::path::{Path, PathBuf};

use noise_system::files::yaml::Wrong;
use noise_text::nearest::meant;
use rustls::crypto::ring::{ALL_CIPHER_SUITES, ALL_KX_GROUPS};
use rustls::{NamedGroup, ProtocolVersion, SupportedCipherSuite};
use serde_saphyr::Spanned;

use super::secret::Secret;

/// Versions that the format names, the oldest first; the first two cannot be offered.
const VERSIONS: [(&str, Option<ProtocolVersion>); 4] = [
    ("TLS10", None),
    ("TLS11", None),
    ("TLS12", Some(ProtocolVersion::TLSv1_2)),
    ("TLS13", Some(ProtocolVersion::TLSv1_3)),
];

/// The format's names of curves, and rustls's.
const CURVES: [(&str, NamedGroup); 4] = [
    ("CurveP256", NamedGroup::secp256r1),
    ("CurveP384", NamedGroup::secp384r1),
    ("CurveP521", NamedGroup::secp521r1),
    ("X25519", NamedGroup::X25519),
];

/// What a client has to show of itself; the names are those of Go's `tls.ClientAuthType`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientAuth {
    #[default]
    None,
    /// A certificate, or none; it is not verified.
    Request,
    /// A certificate of any authority, known or not.
    RequireAny,
    /// A certificate of a known authority, or none.
    VerifyIfGiven,
    /// A certificate of a known authority.
    RequireAndVerify,
}

impl ClientAuth {
    /// Whether a client without a certificate is kept out.
    pub fn requires(self) -> bool {
        matches!(self, Self::RequireAny | Self::RequireAndVerify)
    }

    /// Whether a certificate has to be of a known authority.
    pub fn verifies(self) -> bool {
        matches!(self, Self::VerifyIfGiven | Self::RequireAndVerify)
    }
}

const CLIENT_AUTHS: [(&str, ClientAuth); 6] = [
    ("NoClientCert", ClientAuth::None),
    ("RequestClientCert", ClientAuth::Request),
    ("RequireAnyClientCert", ClientAuth::RequireAny),
    // The older name of the same.
    ("RequireClientCert", ClientAuth::RequireAny),
    ("VerifyClientCertIfGiven", ClientAuth::VerifyIfGiven),
    ("RequireAndVerifyClientCert", ClientAuth::RequireAndVerify),
];

/// PEM text, or where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pem {
    File(PathBuf),
    /// In the web file itself.
    Inline(Secret),
}

/// TLS as it shall be.
#[derive(Clone, Debug, PartialEq)]
pub struct TlsFile {
    /// The server's certificate and those that lead to its authority.
    pub certificate: Pem,
    pub key: Pem,
    pub client_ca: Option<Pem>,
    /// What clients have to show.
    pub client_auth: ClientAuth,
    /// Names of which a client's certificate must have one; `None` = any will do.
    pub client_allowed_sans: Option<Vec<String>>,
    pub versions: Vec<ProtocolVersion>,
    /// The suites of TLS 1.2, in the order of preference; empty = all that are known. Those of
    /// TLS 1.3 cannot be chosen.
    pub cipher_suites: Vec<SupportedCipherSuite>,
    /// The server's order of suites comes before the client's.
    pub prefer_server_cipher_suites: bool,
    /// Curves in the order of preference; empty = all that are known.
    pub curves: Vec<NamedGroup>,
    /// Suites and curves that are named and cannot be offered, beside others that can.
    pub not_offered: Vec<String>,
}

impl TlsFile {
    /// Whether a certificate that a client shows has to be of a known authority.
    pub fn verifies(&self) -> bool {
        self.client_auth.verifies()
    }

    /// The files that are read.
    pub fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        [Some(&self.certificate), Some(&self.key), self.client_ca.as_ref()]
            .into_iter()
            .flatten()
            .filter_map(|pem| match pem {
                Pem::File(path) => Some(path),
                Pem::Inline(_) => None,
            })
    }
}

/// The section as written.
#[derive(Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct TlsSection {
    cert: Option<Spanned<String>>,
    key: Option<Spanned<String>>,
    client_ca: Option<Spanned<String>>,
    cert_file: Option<Spanned<String>>,
    key_file: Option<Spanned<String>>,
    client_ca_file: Option<Spanned<String>>,
    client_auth_type: Option<Spanned<String>>,
    client_allowed_sans: Option<Spanned<Vec<String>>>,
    min_version: Option<Spanned<String>>,
    max_version: Option<Spanned<String>>,
    cipher_suites: Option<Vec<Spanned<String>>>,
    prefer_server_cipher_suites: Option<Spanned<bool>>,
    curve_preferences: Option<Vec<Spanned<String>>>,
}

impl TlsSection {
    /// `None` where nothing is set.
    pub(super) fn resolve(self, folder: &Path) -> Result<Option<TlsFile>, Wrong> {
        let first_line = self.first_line();
        let certificate = pem("cert", self.cert, self.cert_file, folder)?;
        let key = pem("key", self.key, self.key_file, folder)?;
        let client_ca = pem("client_ca", self.client_ca, self.client_ca_file, folder)?;
        let (certificate, key) = match (certificate, key) {
            (Some(certificate), Some(key)) => (certificate, key),
            (None, None) if first_line.is_none() => return Ok(None),
            (certificate, _) => {
                let missing = if certificate.is_none() { "cert" } else { "key" };
                let message =
                    format!("`tls_server_config` needs one of `{missing}` and `{missing}_file`");
                return Err(Wrong { line: first_line, message });
            }
        };
        let client_auth = client_auth(self.client_auth_type.as_ref())?;
        let line = self.client_auth_type.as_ref().map(|found| found.referenced.line());
        let wrong =
            |message: &str| Err(Wrong { line: line.or(first_line), message: message.into() });
        match &client_ca {
            None if client_auth.verifies() => {
                return wrong(
                    "client certificates can be verified only against an authority: \
                     `client_ca_file` or `client_ca` is missing (the system's authorities, which other \
                     exporters use then, sign certificates for anyone)",
                );
            }
            Some(_) if client_auth == ClientAuth::None => {
                return wrong(
                    "there is an authority of client certificates, but none is requested: \
                     `client_auth_type: RequireAndVerifyClientCert` is missing",
                );
            }
            _ => {}
        }
        if let Some(sans) = self.client_allowed_sans.as_ref().filter(|_| !client_auth.requires()) {
            let message = "`client_allowed_sans` needs `client_auth_type: \
                           RequireAndVerifyClientCert`: a client without a certificate has no \
                           names";
            return Err(Wrong::at(sans, message.to_owned()));
        }
        let versions = versions(self.min_version.as_ref(), self.max_version.as_ref())?;
        let suites = self.cipher_suites.unwrap_or_default();
        let mut not_offered = Vec::new();
        let cipher_suites = offered(&suites, cipher_suite, &NOT_OFFERED, &mut not_offered)?;
        let suits = |version| cipher_suites.iter().any(|suite| suite.version().version == version);
        let only_old = versions == [ProtocolVersion::TLSv1_2];
        if let Some(first) = suites.first().filter(|_| only_old && !suits(versions[0])) {
            let message = "none of `cipher_suites` is for TLS 1.2, and nothing else is offered";
            return Err(Wrong::at(first, message.to_owned()));
        }
        let curves = self.curve_preferences.unwrap_or_default();
        Ok(Some(TlsFile {
            certificate,
            key,
            client_ca,
            client_auth,
            client_allowed_sans: self.client_allowed_sans.map(|sans| sans.value),
            versions,
            cipher_suites,
            prefer_server_cipher_suites: self
                .prefer_server_cipher_suites
                .is_none_or(|prefers| prefers.value),
            curves: offered(&curves, curve, &["CurveP521"], &mut not_offered)?,
            not_offered,
        }))
    }

    /// Where the first setting is, if there is any.
    fn first_line(&self) -> Option<u64> {
        let texts = [
            &self.cert,
            &self.key,
            &self.client_ca,
            &self.cert_file,
            &self.key_file,
            &self.client_ca_file,
            &self.client_auth_type,
            &self.min_version,
            &self.max_version,
        ];
        let texts = texts.into_iter().flatten().filter(|text| !text.value.is_empty());
        let suites = self.cipher_suites.iter().chain(&self.curve_preferences).flatten();
        let lines = texts.chain(suites).map(|text| text.referenced.line());
        let sans = self.client_allowed_sans.iter().map(|sans| sans.referenced.line());
        let prefers = self.prefer_server_cipher_suites.iter().map(|flag| flag.referenced.line());
        lines.chain(sans).chain(prefers).min()
    }
}

fn pem(
    name: &str,
    inline: Option<Spanned<String>>,
    file: Option<Spanned<String>>,
    folder: &Path,
) -> Result<Option<Pem>, Wrong> {
    let set = |text: &Spanned<String>| !text.value.is_empty();
    match (inline.filter(set), file.filter(set)) {
        (None, None) => Ok(None),
        (Some(inline), None) => Ok(Some(Pem::Inline(Secret(inline.value)))),
        (None, Some(file)) => Ok(Some(Pem::File(folder.join(file.value)))),
        (Some(_), Some(file)) => {
            Err(Wrong::at(&file, format!("there is both `{name}` and `{name}_file`: which?")))
        }
    }
}

fn client_auth(found: Option<&Spanned<String>>) -> Result<ClientAuth, Wrong> {
    let Some(found) = found.filter(|found| !found.value.is_empty()) else {
        return Ok(ClientAuth::None);
    };
    let known = CLIENT_AUTHS.iter().find(|(name, _)| *name == found.value);
    known.map(|(_, client_auth)| *client_auth).ok_or_else(|| {
        let meant = meant(&found.value, &CLIENT_AUTHS.map(|(name, _)| name));
        Wrong::at(found, format!("`{}` is no `client_auth_type`: {meant}", found.value))
    })
}

fn versions(
    least: Option<&Spanned<String>>,
    most: Option<&Spanned<String>>,
) -> Result<Vec<ProtocolVersion>, Wrong> {
    let index = |found: Option<&Spanned<String>>, default: usize| {
        let Some(found) = found.filter(|found| !found.value.is_empty()) else {
            return Ok(default);
        };
        let text = &found.value;
        match VERSIONS.iter().position(|(name, _)| name == text) {
            Some(index) if VERSIONS[index].1.is_some() => Ok(index),
            Some(_) => {
                let message = format!("`{text}` cannot be offered, only TLS12 and TLS13");
                Err(Wrong::at(found, message))
            }
            None => {
                let message = format!("`{text}` is no version: expected TLS12 or TLS13");
                Err(Wrong::at(found, message))
            }
        }
    };
    let (first, last) = (index(least, 2)?, index(most, 3)?);
    let versions: Vec<_> =
        VERSIONS.iter().take(last + 1).skip(first).filter_map(|(_, version)| *version).collect();
    match least.or(most) {
        Some(found) if versions.is_empty() => {
            Err(Wrong::at(found, "`min_version` is above `max_version`".to_owned()))
        }
        _ => Ok(versions),
    }
}

/// Suites that exporters in Go take: without forward secrecy, or with a padding that has been attacked.
const NOT_OFFERED: [&str; 11] = [
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
];

/// What can be offered of a list. What is known and cannot be offered is left out as long as something remains: that
/// lets in fewer clients, and none less safely.
fn offered<T>(
    named: &[Spanned<String>],
    one: fn(&Spanned<String>) -> Result<T, Wrong>,
    known: &[&str],
    not_offered: &mut Vec<String>,
) -> Result<Vec<T>, Wrong> {
    let is_left_out = |name: &Spanned<String>| known.contains(&name.value.as_str());
    if named.iter().all(is_left_out) {
        return named.iter().map(one).collect();
    }
    let left_out = named.iter().filter(|name| is_left_out(name));
    not_offered.extend(left_out.map(|name| name.value.clone()));
    named.iter().filter(|name| !is_left_out(name)).map(one).collect()
}

/// The format's name, which is the standard's. rustls names those of TLS 1.3 otherwise.
fn suite_name(suite: &SupportedCipherSuite) -> String {
    let name = format!("{:?}", suite.suite());
    name.replacen("TLS13_", "TLS_", 1)
}

fn cipher_suite(found: &Spanned<String>) -> Result<SupportedCipherSuite, Wrong> {
    let known = ALL_CIPHER_SUITES.iter().find(|suite| suite_name(suite) == found.value);
    known.copied().ok_or_else(|| {
        let names: Vec<_> = ALL_CIPHER_SUITES.iter().map(suite_name).collect();
        let names = names.join(", ");
        let message = format!("`{}` cannot be offered: possible are {names}", found.value);
        Wrong::at(found, message)
    })
}

fn curve(found: &Spanned<String>) -> Result<NamedGroup, Wrong> {
    let offered = |group| ALL_KX_GROUPS.iter().any(|known| known.name() == group);
    let known = CURVES.iter().find(|(name, _)| *name == found.value);
    known.map(|(_, group)| *group).filter(|group| offered(*group)).ok_or_else(|| {
        let names: Vec<_> =
            CURVES.iter().filter(|(_, group)| offered(*group)).map(|(name, _)| *name).collect();
        let message =
            format!("`{}` cannot be offered: possible are {}", found.value, names.join(", "));
        Wrong::at(found, message)
    })
}
