//! Certificates made for a test, a client over TLS, and a daemon with a web file.

use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use noise_tests::daemon::Daemon;
use noise_tests::http::{Response, exchange};
use noise_tests::scratch::Folder;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion,
};

const TIMEOUT: Duration = Duration::from_secs(30);

/// An authority.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate with its key, as PEM.
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Result<Self> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        Ok(Self(CertifiedIssuer::self_signed(params, KeyPair::generate()?)?))
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate for these names or addresses.
    pub(crate) fn issue(&self, names: &[&str]) -> Result<Identity> {
        self.issue_until(names, 4096)
    }

    /// One that is valid until the first day of a year.
    pub(crate) fn issue_until(&self, names: &[&str], year: i32) -> Result<Identity> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(names)?;
        params.not_after = date_time_ymd(year, 1, 1);
        let certificate = params.signed_by(&key, &self.0)?;
        Ok(Identity { certificate: certificate.pem(), key: key.serialize_pem() })
    }
}

/// A client that trusts one authority.
#[derive(Clone)]
pub(crate) struct Client(Arc<ClientConfig>);

impl Client {
    pub(crate) fn new(authority: &Authority) -> Result<Self> {
        Self::with(authority, None, rustls::ALL_VERSIONS)
    }

    pub(crate) fn with(
        authority: &Authority,
        identity: Option<&Identity>,
        versions: &[&'static SupportedProtocolVersion],
    ) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(authority.pem().as_bytes())?)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)?
            .with_root_certificates(roots);
        let config = match identity {
            None => builder.with_no_client_auth(),
            Some(Identity { certificate, key }) => builder.with_client_auth_cert(
                vec![CertificateDer::from_pem_slice(certificate.as_bytes())?],
                PrivateKeyDer::from_pem_slice(key.as_bytes())?,
            )?,
        };
        Ok(Self(Arc::new(config)))
    }

    /// A connection; TLS is agreed on when it is used first.
    pub(crate) fn connect(
        &self,
        address: SocketAddr,
    ) -> Result<StreamOwned<ClientConnection, TcpStream>> {
        let stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        let name = ServerName::from(address.ip());
        Ok(StreamOwned::new(ClientConnection::new(Arc::clone(&self.0), name)?, stream))
    }

    pub(crate) fn get(
        &self,
        address: SocketAddr,
        path: &str,
        headers: &[(&str, &str)],
    ) -> Result<Response> {
        exchange(&mut self.connect(address)?, address, path, headers)
    }
}

/// A web file beside the certificate of a server, and what belongs to it.
pub(crate) struct Site {
    pub(crate) directory: Folder,
    pub(crate) authority: Authority,
    pub(crate) file: PathBuf,
}

/// The web file's part about TLS without client certificates.
pub(crate) const TLS: &str = "tls_server_config:\n  cert_file: a.crt\n  key_file: a.key\n";

impl Site {
    /// Of a server at 127.0.0.1 that has this web file.
    pub(crate) fn new(web_file: &str) -> Result<Self> {
        let directory = Folder::new("web")?;
        let authority = Authority::new("test authority")?;
        let file = directory.write("web.yml", web_file)?;
        let site = Self { directory, authority, file };
        site.install(&site.authority.issue(&["127.0.0.1"])?)?;
        Ok(site)
    }

    /// Makes this the server's certificate.
    pub(crate) fn install(&self, identity: &Identity) -> Result<()> {
        self.directory.write("a.key", &identity.key)?;
        self.directory.write("a.crt", &identity.certificate)?;
        Ok(())
    }

    pub(crate) fn client(&self) -> Result<Client> {
        Client::new(&self.authority)
    }

    /// A daemon with this web file that answers whatever `is_ready` asks.
    pub(crate) fn start(&self, is_ready: impl Fn(SocketAddr) -> bool) -> Result<Daemon> {
        Daemon::start_until(&["--web.config.file", text(&self.file)?], is_ready)
    }

    /// A daemon with this web file, over TLS, for everybody.
    pub(crate) fn start_open(&self) -> Result<Daemon> {
        let client = self.client()?;
        self.start(|address| {
            client.get(address, "/-/ready", &[]).is_ok_and(|answer| answer.status == 200)
        })
    }
}

/// A path as an option.
pub(crate) fn text(path: &Path) -> Result<&str> {
    path.to_str().context("a path that is not UTF-8")
}
