//! The format, key by key, and mistakes in it.

use std::path::Path;
use std::time::Duration;

use rustls::{NamedGroup, ProtocolVersion};

use super::file::{Rate, WebFile};
use super::secret::Secret;
use super::tls_file::{ClientAuth, Pem, TlsFile};

/// The hash of "secret" by `htpasswd -nbB -C 4`.
const HASH: &str = "$2y$04$JWTGL7/hng17We9nsaaOu.WyBHeCWUB5ULLYwPTLMOY5JPjmHiESa";

const TLS: &str = "tls_server_config:\n  cert_file: a.crt\n  key_file: a.key\n";

fn parse(text: &str) -> anyhow::Result<WebFile> {
    WebFile::parse(text, Path::new("/etc/noised/web.yml"))
}

fn tls(more: &str) -> TlsFile {
    parse(&format!("{TLS}{more}")).unwrap().tls.unwrap()
}

fn file(path: &str) -> Pem {
    Pem::File(path.into())
}

#[test]
fn nothing_set_is_nothing_asked_for() {
    for text in [
        "",
        "# nothing\n",
        "---\n",
        "{}",
        "tls_server_config:\n",
        "tls_server_config: {}\nhttp_server_config: {}\nbasic_auth_users: {}\nrate_limit: {}\n",
        "tls_server_config:\n  cert_file: \"\"\n  client_auth_type: \"\"\n",
        "rate_limit:\n  interval: 0\n  burst: 3\n",
    ] {
        assert_eq!(parse(text).unwrap(), WebFile::default(), "{text}");
    }
}

#[test]
fn every_key_is_read() {
    let text = format!(
        "tls_server_config:
  cert_file: server.crt
  key_file: /keys/server.key
  client_ca_file: ../ca.crt
  client_auth_type: RequireAndVerifyClientCert
  client_allowed_sans: [prometheus.example, 10.0.0.1]
  min_version: TLS12
  max_version: TLS12
  cipher_suites:
    - TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384
    - TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256
    - TLS_AES_128_GCM_SHA256
  prefer_server_cipher_suites: false
  curve_preferences: [CurveP384, X25519]
http_server_config:
  http2: true
  headers:
    Content-Security-Policy: default-src 'self'
    X-Frame-Options: deny
    X-Content-Type-Options: nosniff
    X-XSS-Protection: \"0\"
    Strict-Transport-Security: max-age=60
basic_auth_users:
  alice: {HASH}
  bob: \"{HASH}\"
rate_limit:
  interval: 1500ms
  burst: 20
"
    );
    let file_read = parse(&text).unwrap();
    let tls = file_read.tls.as_ref().unwrap();
    assert_eq!(tls.certificate, file("/etc/noised/server.crt"));
    assert_eq!(tls.key, file("/keys/server.key"));
    assert_eq!(tls.client_ca, Some(file("/etc/noised/../ca.crt")));
    assert_eq!(tls.client_auth, ClientAuth::RequireAndVerify);
    let sans = ["prometheus.example".to_owned(), "10.0.0.1".to_owned()];
    assert_eq!(tls.client_allowed_sans.as_deref(), Some(&sans[..]));
    assert_eq!(tls.versions, [ProtocolVersion::TLSv1_2]);
    let suites: Vec<_> = tls.cipher_suites.iter().map(|suite| suite.suite()).collect();
    assert_eq!(
        format!("{suites:?}"),
        "[TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256, \
         TLS13_AES_128_GCM_SHA256]"
    );
    assert!(!tls.prefer_server_cipher_suites);
    assert_eq!(tls.curves, [NamedGroup::secp384r1, NamedGroup::X25519]);
    assert!(file_read.wants_http2);
    assert_eq!(file_read.headers.len(), 5);
    assert!(
        file_read.headers.iter().any(|(name, value)| name == "x-frame-options" && value == "deny")
    );
    let users: Vec<_> = file_read.users.keys().collect();
    assert_eq!(users, ["alice", "bob"]);
    assert_eq!(file_read.users["bob"].0, HASH);
    let interval = Duration::from_millis(1500);
    assert_eq!(file_read.rate, Some(Rate { interval, burst: 20 }));
    assert_eq!(file_read.paths().count(), 3);
}

#[test]
fn certificates_can_be_in_the_file_itself() {
    let text = "tls_server_config:\n  cert: |\n    A\n    B\n  key: K\n  client_ca: C\n  \
                client_auth_type: VerifyClientCertIfGiven\n";
    let file_read = parse(text).unwrap();
    assert_eq!(file_read.paths().count(), 0);
    let tls = file_read.tls.clone().unwrap();
    assert_eq!(tls.certificate, Pem::Inline(Secret("A\nB\n".to_owned())));
    assert_eq!(tls.client_ca, Some(Pem::Inline(Secret("C".to_owned()))));
    assert!(!format!("{file_read:?}").contains('K'), "{file_read:?}");
}

#[test]
fn what_is_not_said_is_as_documented() {
    let usual = tls("");
    assert_eq!(usual.versions, [ProtocolVersion::TLSv1_2, ProtocolVersion::TLSv1_3]);
    assert_eq!(usual.client_auth, ClientAuth::None);
    assert!(usual.prefer_server_cipher_suites);
    assert!(usual.cipher_suites.is_empty() && usual.curves.is_empty());
    assert_eq!(tls("  min_version: TLS13\n").versions, [ProtocolVersion::TLSv1_3]);
    assert_eq!(tls("  client_auth_type: RequestClientCert\n").client_auth, ClientAuth::Request);
    for name in ["RequireAnyClientCert", "RequireClientCert"] {
        let text = format!("  client_auth_type: {name}\n");
        assert_eq!(tls(&text).client_auth, ClientAuth::RequireAny);
    }
}

#[test]
fn mistakes_name_file_line_and_what_was_expected() {
    let in_tls = |line: &str| format!("{TLS}  {line}\n");
    let cases: Vec<(String, u64, &[&str])> = vec![
        (
            "tls_server_confg: {}\n".into(),
            1,
            &["tls_server_confg", "did you mean `tls_server_config`?"],
        ),
        ("\nhtp: 1\n".into(), 2, &["`htp`"]),
        (in_tls("cert_fil: x"), 4, &["`cert_fil`", "did you mean `cert_file`?"]),
        (in_tls("cert: x"), 2, &["both `cert` and `cert_file`"]),
        ("tls_server_config:\n  cert_file: x\n".into(), 2, &["`key` and `key_file`"]),
        ("tls_server_config:\n  min_version: TLS12\n".into(), 2, &["`cert` and `cert_file`"]),
        (in_tls("client_auth_type: Require"), 4, &["`Require`", "ClientCert"]),
        (in_tls("client_auth_type: RequireAndVerifyClientCert"), 4, &["`client_ca_file`"]),
        (in_tls("client_ca_file: x"), 2, &["RequireAndVerifyClientCert"]),
        (in_tls("client_allowed_sans: [x]"), 4, &["client_auth_type"]),
        (in_tls("min_version: TLS11"), 4, &["`TLS11` cannot be offered", "TLS12"]),
        (in_tls("max_version: TLS10"), 4, &["`TLS10` cannot be offered"]),
        (in_tls("min_version: SSL30"), 4, &["`SSL30` is no version"]),
        (in_tls("min_version: TLS13\n  max_version: TLS12"), 4, &["above"]),
        (
            in_tls("cipher_suites: [TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA]"),
            4,
            &["AES_128_CBC_SHA` cannot", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"],
        ),
        (
            in_tls("max_version: TLS12\n  cipher_suites: [TLS_AES_128_GCM_SHA256]"),
            5,
            &["for TLS 1.2"],
        ),
        (in_tls("curve_preferences:\n  - CurveP521"), 5, &["`CurveP521`", "CurveP384, X25519"]),
        (in_tls("prefer_server_cipher_suites: 7"), 4, &["bool"]),
        ("http_server_config:\n  http2: maybe\n".into(), 2, &["bool"]),
        ("http_server_config:\n  header: {}\n".into(), 2, &["did you mean `headers`?"]),
        (
            "http_server_config:\n  headers:\n    X-Frame-Option: deny\n".into(),
            3,
            &["`X-Frame-Option` cannot be set", "did you mean `X-Frame-Options`?"],
        ),
        ("http_server_config:\n  headers:\n    Server: x\n".into(), 3, &["`Server`"]),
        (
            "http_server_config:\n  headers:\n    X-Frame-Options: allow\n".into(),
            3,
            &["`allow`", "deny, sameorigin"],
        ),
        (
            "http_server_config:\n  headers:\n    X-XSS-Protection: \"a\\nb\"\n".into(),
            3,
            &["printable"],
        ),
        ("basic_auth_users:\n  alice: secret\n".into(), 2, &["`alice`", "bcrypt", "htpasswd"]),
        ("basic_auth_users:\n  a: $2y$10$short\n".into(), 2, &["`a`", "bcrypt"]),
        (
            format!("basic_auth_users:\n  a: {}\n", HASH.replace("$04$", "$31$")),
            2,
            &["cost 31", "16"],
        ),
        (format!("basic_auth_users:\n  \"a:b\": {HASH}\n"), 2, &["colon"]),
        ("basic_auth_users: [a]\n".into(), 1, &[]),
        ("rate_limit:\n  interval: soon\n  burst: 1\n".into(), 2, &["`soon`", "1s"]),
        ("rate_limit:\n  interval: -1s\n  burst: 1\n".into(), 2, &["`-1s`"]),
        ("rate_limit:\n  interval: 1s\n".into(), 2, &["`burst`"]),
        ("rate_limit:\n  interval: 1s\n  burst: 0\n".into(), 3, &["at least 1"]),
        ("rate_limit:\n  burst: 3\n".into(), 2, &["`interval`"]),
        ("rate_limit:\n  burst: 1\n  burst: 2\n".into(), 3, &["`burst` is there twice"]),
        ("a: [\n".into(), 0, &[]),
    ];
    for (text, line, words) in cases {
        let error = parse(&text).unwrap_err().to_string();
        println!("{error}");
        assert!(error.starts_with("/etc/noised/web.yml"), "{error}");
        if line > 0 {
            assert!(error.contains(&format!("line {line}: ")), "{text}: {error}");
        }
        for word in words {
            assert!(error.contains(word), "{text}: {error}");
        }
        assert!(!error.contains('\n') && !error.contains("secret"), "{error}");
        assert!(!error.contains("column"), "the place is named twice: {error}");
    }
}

#[test]
fn large_and_many_are_refused() {
    let error = parse(&"#".repeat(2 << 20)).unwrap_err().to_string();
    assert!(error.contains("larger than"), "{error}");
    let long = "x".repeat(1 << 19);
    for text in [
        format!("{long}: 1\n"),
        format!("basic_auth_users:\n  {long}: y\n"),
        format!("basic_auth_users:\n  alice: [{long}]\n"),
        format!("rate_limit:\n  interval: {long}\n"),
        format!("tls_server_config:\n  cert: a\n  key: b\n  curve_preferences: [{long}]\n"),
        "\0".repeat(1 << 19),
    ] {
        let error = parse(&text).unwrap_err().to_string();
        assert!(error.len() < 1500 && !error.contains(char::is_control), "{} bytes", error.len());
    }
    let users: String = (0..1001).map(|user| format!("  u{user}: {HASH}\n")).collect();
    let error = parse(&format!("basic_auth_users:\n{users}")).unwrap_err().to_string();
    assert!(error.contains("1001 users"), "{error}");
}

#[test]
fn what_other_exporters_offer_besides_is_left_out_and_said() {
    let warned = |more: &str| {
        let file = parse(&format!("{TLS}{more}")).unwrap();
        (file.tls.clone().unwrap(), file.warnings().join("; "))
    };
    let (tls, warning) = warned("  curve_preferences: [CurveP521, X25519]\n");
    assert_eq!(tls.curves, [NamedGroup::X25519]);
    assert!(warning.contains("does not offer: CurveP521"), "{warning}");
    let (tls, warning) = warned(
        "  cipher_suites: [TLS_RSA_WITH_AES_128_CBC_SHA, TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]\n",
    );
    assert_eq!(tls.cipher_suites.len(), 1);
    assert!(warning.contains("TLS_RSA_WITH_AES_128_CBC_SHA"), "{warning}");
    assert_eq!(warned("  curve_preferences: [X25519]\n").1, "");
    // A name that nobody knows is a mistake.
    assert!(parse(&format!("{TLS}  curve_preferences: [X25519, P521]\n")).is_err());
}
