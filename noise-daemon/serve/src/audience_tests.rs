//! Command lines: no route shows them to a client that is not authenticated.

use std::io::Read as _;
use std::sync::Arc;

use axum::Router;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use flate2::read::GzDecoder;
use noise_analysis::{Culprit, Overview, Process, Side, StartCommand, Time};
use noise_common::charge::Cause;
use noise_model::{Builder, Host, Sample};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::http::{Refresh, ShownPages, Viewer, router};
use super::made;
use super::web::{Costs, Listeners, Web, serve};

const COMMAND: &str = "planted --password=tell-nobody";
/// Of what is planted, what anyone may see.
const COMM: &str = "planted-comm";
const ROUTES: [&str; 7] = [
    "/",
    "/metrics",
    "/api/v1/incidents",
    "/api/v1/outliers",
    "/api/v1/frame",
    "/api/v1/frame?since=0",
    "/api/v1/incidents/1/path",
];

/// An open incident of which a thread's command line is known.
fn shown() -> ShownPages {
    let mut report = Arc::unwrap_or_clone(made::report(true));
    let time = Time { seconds: 1.0, share: 1.0 };
    report.main.culprits.push(Culprit {
        culprit: "/backup".into(),
        cause: Cause::Foreign,
        time,
        beyond: time,
    });
    report.processes.push(Process {
        side: Side::Culprit,
        of: "/backup".into(),
        victim: None,
        pid: 7,
        comm: COMM.into(),
        process: Some(7),
        command: Some(COMMAND.into()),
        waits: 1,
        ns: 5,
    });
    let command = StartCommand {
        pid: 7,
        comm: COMM.into(),
        command: COMMAND.into(),
        process: Some(7),
        is_kernel: false,
    };
    let overview =
        Overview { incidents: vec![report.into()], commands: vec![command], ..Overview::default() };
    ShownPages { model: Builder::default().model_after(Sample::default()), overview }
}

/// The routes of a daemon that always shows the same.
fn routes(tasks: &mut JoinSet<()>, web: &Web) -> Router {
    let (refresh, mut asked) = mpsc::channel::<Viewer>(8);
    tasks.spawn(async move {
        let shown = Arc::new(shown());
        while let Some(Viewer { reply, .. }) = asked.recv().await {
            let _ = reply.send(Arc::clone(&shown));
        }
    });
    let paths: super::PathSource = Arc::new(|_| Some("{}".into()));
    router(Refresh(refresh), Host::default(), web.clone(), Costs::default(), 0, Some(paths))
}

/// Serves over TCP; returns the port.
fn start(tasks: &mut JoinSet<()>, router: &Router, web: Web) -> u16 {
    let listeners = Listeners::bind(&"127.0.0.1:0".parse().unwrap()).unwrap();
    let port = listeners.addresses().unwrap()[0].port();
    tasks.spawn(serve(listeners, router.clone(), web, Costs::default()));
    port
}

/// What an answer says, unpacked.
async fn ask(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    route: &str,
    more: &str,
) -> Result<String, String> {
    let request =
        format!("GET {route} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{more}\r\n");
    stream.write_all(request.as_bytes()).await.map_err(|error| error.to_string())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.map_err(|error| error.to_string())?;
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").ok_or("no head")? + 4;
    let head = String::from_utf8_lossy(&answer[..end]).into_owned();
    if !head.starts_with("HTTP/1.1 200") {
        return Err(head);
    }
    let mut text = String::new();
    if route.starts_with("/api/v1/frame") {
        text = format!("{:?}", noise_wire::decode(&answer[end..]).unwrap());
    } else if head.contains("content-encoding: gzip") {
        GzDecoder::new(&answer[end..]).read_to_string(&mut text).unwrap();
    } else {
        text.push_str(std::str::from_utf8(&answer[end..]).unwrap());
    }
    Ok(text)
}

/// Whether an answer has what may be seen of the process, and only that.
fn ensure_seen(text: &str, route: &str, is_known: bool) {
    assert_eq!(text.contains("tell-nobody"), is_known && names_threads(route), "{route}: {text}");
    // Long waits name commands alone here.
    let names = names_threads(route) && !route.ends_with("outliers");
    assert_eq!(text.contains(COMM), names || text.contains(COMMAND), "{route}: {text}");
}

fn names_threads(route: &str) -> bool {
    !route.ends_with("/metrics") && !route.ends_with("/path")
}

async fn tcp(port: u16) -> TcpStream {
    TcpStream::connect(("127.0.0.1", port)).await.unwrap()
}

#[tokio::test]
async fn command_lines_are_for_the_local_socket_and_not_for_the_port() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("noised.sock");
    let mut tasks = JoinSet::new();
    let router = routes(&mut tasks, &Web::plain());
    let port = start(&mut tasks, &router, Web::plain());
    let listener = UnixListener::bind(&path).unwrap();
    tasks.spawn(serve(listener, router, Web::plain(), Costs::default()));
    // At the same time, so that those who want the same share it.
    for encoding in ["", "Accept-Encoding: gzip\r\n"] {
        for route in ROUTES {
            let mut asking = JoinSet::new();
            for number in 0..20 {
                let path = path.clone();
                asking.spawn(async move {
                    let is_local = number % 2 == 0;
                    let answer = match is_local {
                        true => {
                            ask(UnixStream::connect(&path).await.unwrap(), route, encoding).await
                        }
                        false => ask(tcp(port).await, route, encoding).await,
                    };
                    ensure_seen(&answer.unwrap(), route, is_local);
                });
            }
            asking.join_all().await;
        }
    }
}

#[tokio::test]
async fn what_the_page_leads_to_is_there() {
    let mut tasks = JoinSet::new();
    let router = routes(&mut tasks, &Web::plain());
    let port = start(&mut tasks, &router, Web::plain());
    let page = ask(tcp(port).await, "/", "").await.unwrap();
    let targets = [" href=\"", " src=\""].into_iter().flat_map(|begin| page.split(begin).skip(1));
    let targets: Vec<&str> = targets.filter_map(|rest| Some(rest.split_once('"')?.0)).collect();
    assert!(targets.len() > 4, "{targets:?}");
    for target in targets {
        assert!(ask(tcp(port).await, target, "").await.is_ok(), "{target}");
    }
}

#[tokio::test]
async fn who_has_a_password_sees_command_lines() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("web.yml");
    let hash = bcrypt::hash("right", 4).unwrap();
    std::fs::write(&path, format!("basic_auth_users:\n  alice: {hash}\n")).unwrap();
    let web = Web::open(Some(&path)).unwrap();
    web.begin().unwrap();
    let mut tasks = JoinSet::new();
    let router = routes(&mut tasks, &web);
    let port = start(&mut tasks, &router, web);
    let header = |password: &str| {
        format!("Authorization: Basic {}\r\n", BASE64_STANDARD.encode(format!("alice:{password}")))
    };
    for route in ROUTES {
        let answer = ask(tcp(port).await, route, &header("right")).await.unwrap();
        ensure_seen(&answer, route, true);
        for more in [header("wrong"), String::new()] {
            let refused = ask(tcp(port).await, route, &more).await.unwrap_err();
            assert!(refused.starts_with("HTTP/1.1 401"), "{refused}");
        }
    }
}

/// A certificate with its key, as PEM.
struct Identity {
    certificate: String,
    key: String,
}

/// One for `localhost`, signed by an authority or by itself.
fn identity(authority: Option<&CertifiedIssuer<'_, KeyPair>>) -> Identity {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = match authority {
        Some(authority) => params.signed_by(&key, authority),
        None => params.self_signed(&key),
    };
    Identity { certificate: certificate.unwrap().pem(), key: key.serialize_pem() }
}

/// A connection with the server of an authority, as a client with that identity.
async fn tls(
    port: u16,
    root: &str,
    identity: Option<&Identity>,
) -> Result<TlsStream<TcpStream>, String> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(root.as_bytes()).unwrap()).unwrap();
    let config = ClientConfig::builder().with_root_certificates(roots);
    let config = match identity {
        None => config.with_no_client_auth(),
        Some(Identity { certificate, key }) => {
            let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
            config.with_client_auth_cert(chain, key).unwrap()
        }
    };
    let name = ServerName::try_from("localhost").unwrap();
    let connector = TlsConnector::from(Arc::new(config));
    connector.connect(name, tcp(port).await).await.map_err(|error| error.to_string())
}

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    CertifiedIssuer::self_signed(params, key).unwrap()
}

#[tokio::test]
async fn a_connection_of_before_gets_nothing_where_certificates_are_required_since() {
    let authority = authority();
    let server = identity(Some(&authority));
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("server.crt", &server.certificate);
    write("server.key", &server.key);
    write("ca.crt", &authority.pem());
    let plain = "tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n";
    let file = folder.path().join("web.yml");
    write("web.yml", plain);
    let web = Web::open(Some(&file)).unwrap();
    let mut tasks = JoinSet::new();
    let router = routes(&mut tasks, &web);
    let port = start(&mut tasks, &router, web.clone());
    let connect = async || tls(port, &authority.pem(), None).await.unwrap();
    let mut first = connect().await;
    let mut second = connect().await;
    for stream in [&mut first, &mut second] {
        assert!(ask_on(stream).await.is_some());
    }
    let ca = "  client_ca_file: ca.crt\n";
    write("web.yml", &format!("{plain}  client_auth_type: VerifyClientCertIfGiven\n{ca}"));
    web.reload().unwrap();
    // It has given none.
    assert!(ask_on(&mut first).await.is_some());
    write("web.yml", &format!("{plain}  client_auth_type: RequireAndVerifyClientCert\n{ca}"));
    web.reload().unwrap();
    assert_eq!(ask_on(&mut second).await, None);
}

/// Asks over a connection that is kept; the head of the answer, if one comes.
async fn ask_on(stream: &mut TlsStream<TcpStream>) -> Option<String> {
    let request = "GET /api/v1/incidents/1/path HTTP/1.1\r\nHost: localhost\r\n\r\n";
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n{}") {
        answer.push(stream.read_u8().await.ok()?);
    }
    Some(String::from_utf8(answer).unwrap())
}

#[tokio::test]
async fn a_connection_is_kept_while_its_certificate_is_accepted() {
    let authority = authority();
    let [server, client] = [(); 2].map(|()| identity(Some(&authority)));
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("server.crt", &server.certificate);
    write("server.key", &server.key);
    write("ca.crt", &authority.pem());
    let required = "tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n  \
                    client_ca_file: ca.crt\n  client_auth_type: RequireAndVerifyClientCert\n";
    write("web.yml", required);
    let web = Web::open(Some(&folder.path().join("web.yml"))).unwrap();
    let mut tasks = JoinSet::new();
    let router = routes(&mut tasks, &web);
    let port = start(&mut tasks, &router, web.clone());
    let connect = async || tls(port, &authority.pem(), Some(&client)).await.unwrap();
    let mut kept = connect().await;
    let mut refused = connect().await;
    for stream in [&mut kept, &mut refused] {
        assert!(ask_on(stream).await.is_some());
    }
    // Nothing of TLS changes.
    write(
        "web.yml",
        &format!("{required}http_server_config:\n  headers:\n    X-Frame-Options: deny\n"),
    );
    web.reload().unwrap();
    let answer = ask_on(&mut kept).await.unwrap();
    assert!(answer.contains("deny") && !answer.contains("connection: close"), "{answer}");
    // What TLS is agreed on with changes, and the certificate is still accepted: it is answered once more.
    write("web.yml", &format!("{required}  client_allowed_sans: [localhost]\n"));
    web.reload().unwrap();
    let answer = ask_on(&mut kept).await.unwrap();
    assert!(answer.contains("connection: close"), "{answer}");
    write("web.yml", &format!("{required}  client_allowed_sans: [elsewhere]\n"));
    web.reload().unwrap();
    assert_eq!(ask_on(&mut refused).await, None);
}

#[tokio::test]
async fn a_certificate_makes_a_client_known_where_it_is_verified() {
    let authority = authority();
    let (server, known, unknown) =
        (identity(Some(&authority)), identity(Some(&authority)), identity(None));
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("server.crt", &server.certificate);
    write("server.key", &server.key);
    write("ca.crt", &authority.pem());
    let verifying = "\n  client_ca_file: ca.crt";
    for (kind, more, with_known, with_unknown, with_none) in [
        ("RequireAndVerifyClientCert", verifying, Some(true), None, None),
        ("VerifyClientCertIfGiven", verifying, Some(true), None, Some(false)),
        // Nobody has looked whose it is.
        ("RequireAnyClientCert", "", Some(false), Some(false), None),
        ("RequestClientCert", "", Some(false), Some(false), Some(false)),
        ("NoClientCert", "", Some(false), Some(false), Some(false)),
    ] {
        let text = format!(
            "tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n  \
             client_auth_type: {kind}{more}\n"
        );
        write("web.yml", &text);
        let web = Web::open(Some(&folder.path().join("web.yml"))).unwrap();
        let mut tasks = JoinSet::new();
        let router = routes(&mut tasks, &web);
        let port = start(&mut tasks, &router, web);
        for (identity, expected) in
            [(Some(&known), with_known), (Some(&unknown), with_unknown), (None, with_none)]
        {
            for route in ROUTES {
                let answer = match tls(port, &authority.pem(), identity).await {
                    Ok(stream) => ask(stream, route, "").await,
                    Err(error) => Err(error),
                };
                match expected {
                    Some(is_known) => ensure_seen(&answer.unwrap(), route, is_known),
                    None => assert!(answer.is_err(), "{kind}: {answer:?}"),
                }
            }
        }
    }
}
