//! How to log in to a daemon: those keys of Prometheus's file for HTTP clients (that of
//! `promtool --http.config.file`) that concern passwords, certificates and trust. Unknown keys are
//! errors.

mod lookup;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use noise_system::files;
use noise_system::files::yaml::worded;
use noise_text::clean::quoted;
use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig};

use crate::pem;

pub use lookup::agent;

/// What a client shows of itself, and whom it trusts.
#[derive(Clone, Debug)]
pub struct WebClient {
    /// Whom it trusts, and its certificate. Without a file: the authorities that this host trusts.
    pub tls: TlsConfig,
    /// The value of the header `Authorization`.
    authorization: Option<String>,
}

impl Default for WebClient {
    fn default() -> Self {
        let tls = TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build();
        Self { tls, authorization: None }
    }
}

#[derive(Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Sections {
    basic_auth: Option<BasicSection>,
    tls_config: Option<ClientTlsSection>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct BasicSection {
    username: String,
    password: Option<String>,
    password_file: Option<PathBuf>,
}

#[derive(Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ClientTlsSection {
    ca_file: Option<PathBuf>,
    cert_file: Option<PathBuf>,
    key_file: Option<PathBuf>,
    insecure_skip_verify: bool,
}

impl WebClient {
    /// Reads a file, where one is named, and what it names; paths are relative to its folder.
    /// Errors: one sentence that names the file and what is wrong with it.
    pub fn read(path: Option<&Path>) -> anyhow::Result<Self> {
        let Some(path) = path else { return Ok(Self::default()) };
        let name = path.display();
        let text = read(path)?;
        let sections: Option<Sections> =
            serde_saphyr::from_str(&text).map_err(|error| worded(&error).within(path))?;
        let Sections { basic_auth, tls_config } = sections.unwrap_or_default();
        let folder = path.parent().unwrap_or(Path::new(""));
        let authorization = basic_auth.map(|section| section.value(folder)).transpose();
        let tls = tls_config.unwrap_or_default().resolve(folder);
        Ok(Self {
            authorization: authorization.with_context(|| name.to_string())?,
            tls: tls.with_context(|| name.to_string())?,
        })
    }

    /// A request with the credentials of this client.
    pub fn get(
        &self,
        agent: &ureq::Agent,
        uri: &str,
    ) -> ureq::RequestBuilder<ureq::typestate::WithoutBody> {
        let request = agent.get(uri);
        match &self.authorization {
            Some(authorization) => request.header("authorization", authorization),
            None => request,
        }
    }
}

fn read(path: &Path) -> anyhow::Result<String> {
    let text = files::read_text(path, files::MAX_FILE_BYTES);
    text.with_context(|| format!("cannot read {}", shown(path)))
}

fn read_pem(path: &Path) -> anyhow::Result<Vec<u8>> {
    let bytes = files::read(path, files::MAX_FILE_BYTES);
    bytes.with_context(|| format!("cannot read {}", shown(path)))
}

/// A path that a file names.
fn shown(path: &Path) -> String {
    quoted(&path.display().to_string())
}

impl BasicSection {
    fn value(self, folder: &Path) -> anyhow::Result<String> {
        let password = match (self.password, self.password_file) {
            (Some(password), None) => password,
            (None, Some(file)) => read(&folder.join(file))?.trim().to_owned(),
            (None, None) => String::new(),
            (Some(_), Some(_)) => bail!("there is both `password` and `password_file`: which?"),
        };
        let text = format!("{}:{password}", self.username);
        Ok(format!("Basic {}", BASE64_STANDARD.encode(text)))
    }
}

impl ClientTlsSection {
    fn resolve(self, folder: &Path) -> anyhow::Result<TlsConfig> {
        let mut tls = TlsConfig::builder().disable_verification(self.insecure_skip_verify);
        tls = match &self.ca_file {
            None => tls.root_certs(RootCerts::PlatformVerifier),
            Some(file) => {
                tls.root_certs(RootCerts::new_with_certs(&certificates(&folder.join(file))?))
            }
        };
        match (&self.cert_file, &self.key_file) {
            (None, None) => {}
            (Some(certificate), Some(key)) => {
                let chain = certificates(&folder.join(certificate))?;
                let path = folder.join(key);
                // The error's own words could hold a part of the key.
                let key = PrivateKey::from_pem(&read_pem(&path)?)
                    .map_err(|_| anyhow::anyhow!("there is no key in {}", shown(&path)))?;
                tls = tls.client_cert(Some(ClientCert::new_with_certs(&chain, key)));
            }
            _ => bail!("`cert_file` and `key_file` belong together"),
        }
        Ok(tls.build())
    }
}

fn certificates(path: &Path) -> anyhow::Result<Vec<Certificate<'static>>> {
    let found = pem::certificates(&read_pem(path)?, &shown(path))?;
    Ok(found.iter().map(|der| Certificate::from_der(der).to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn read_text(text: &str) -> anyhow::Result<WebClient> {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("word"), "open sesame\n").unwrap();
        fs::write(folder.path().join("empty"), "").unwrap();
        let path = folder.path().join("client.yml");
        fs::write(&path, text).unwrap();
        WebClient::read(Some(&path))
    }

    #[test]
    fn a_password_comes_from_either_place() {
        // ali:open sesame
        let expected = Some("Basic YWxpOm9wZW4gc2VzYW1l");
        for text in [
            "basic_auth: {username: ali, password: open sesame}\n",
            "basic_auth: {username: ali, password_file: word}\n",
        ] {
            assert_eq!(read_text(text).unwrap().authorization.as_deref(), expected);
        }
        for text in ["", "tls_config: {}\n"] {
            assert_eq!(read_text(text).unwrap().authorization, None);
        }
    }

    #[test]
    fn mistakes_are_one_sentence() {
        for (text, words) in [
            ("basic_aut: {}\n", "line 1: unknown key `basic_aut`: did you mean `basic_auth`?"),
            ("basic_auth: {username: a, password: b, password_file: c}\n", "which?"),
            ("basic_auth: {username: a, password_file: none}\n", "cannot read"),
            ("basic_auth: {}\n", "username"),
            ("tls_config: {ca_file: empty}\n", "no certificate in"),
            ("tls_config: {cert_file: empty}\n", "belong together"),
            ("tls_config: {server: x}\n", "unknown key `server`"),
        ] {
            let error = format!("{:#}", read_text(text).unwrap_err());
            assert!(error.contains(words) && error.contains("client.yml"), "{error}");
            assert!(!error.contains('\n'), "{error}");
        }
        for (text, words) in [
            ("basic_auth: {username: a, password_file: /dev/zero}\n", "it is a device"),
            ("tls_config: {ca_file: .}\n", "it is a directory"),
        ] {
            let error = format!("{:#}", read_text(text).unwrap_err());
            assert!(error.contains(words), "{error}");
        }
        let error = format!("{:#}", WebClient::read(Some(Path::new("/dev/zero"))).unwrap_err());
        assert_eq!(error, "cannot read /dev/zero: it is a device, not a regular file");
        let error = WebClient::read(Some(Path::new("/nowhere.yml"))).unwrap_err();
        assert!(format!("{error:#}").contains("/nowhere.yml"));
    }
}
