//! `--web.config.file`: TLS, client certificates, users, headers, and all of it changed while the
//! daemon runs.

use std::net::{SocketAddr, TcpListener};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use noise_tests::daemon::{Daemon, Outcome, Process, run, run_noised};
use noise_tests::http::get;
use noise_tests::needed::needs;
use noise_tests::prom::Scrape;
use noise_tests::wait::wait_until;
use rustls::version::{TLS12, TLS13};

use crate::Test;
use crate::https::{Authority, Client, Identity, Site, TLS, text};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("tls_12_and_13", tls_12_and_13),
    ("older_tls_and_plain_http_are_refused", older_tls_and_plain_http_are_refused),
    ("versions_and_ciphers_can_be_chosen", versions_and_ciphers_can_be_chosen),
    ("client_certificates", client_certificates),
    ("any_client_certificate", any_client_certificate),
    ("names_that_any_client_signs", names_that_any_client_signs),
    ("a_certificate_that_has_expired", a_certificate_that_has_expired),
    ("users", users),
    ("headers_and_rate", headers_and_rate),
    ("certificate_changes", certificate_changes),
    ("users_change_and_mistakes_do_not", users_change_and_mistakes_do_not),
    ("mistakes_end_the_start", mistakes_end_the_start),
    ("commands_ask_over_tls", commands_ask_over_tls),
    ("a_real_prometheus", a_real_prometheus),
];

/// Longer than a change may take until it is seen, on a loaded machine.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Longer than it takes until a change is seen.
const SEEN: Duration = Duration::from_millis(1200);

/// `Authorization` of a name and a password.
pub(crate) fn basic(user: &str, password: &str) -> String {
    let mut text = String::from("Basic ");
    let bytes = format!("{user}:{password}").into_bytes();
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for chunk in bytes.chunks(3) {
        let number = (0..3)
            .fold(0u32, |sum, i| sum << 8 | u32::from(chunk.get(i).copied().unwrap_or_default()));
        for i in 0..4 {
            let digit = DIGITS[(number >> (18 - 6 * i) & 63) as usize];
            text.push(if i > chunk.len() { '=' } else { char::from(digit) });
        }
    }
    text
}

/// A line of `basic_auth_users`.
pub(crate) fn user(name: &str, password: &str) -> Result<String> {
    Ok(format!("  {name}: {}\n", bcrypt::hash(password, 4)?))
}

/// Status of `/metrics`.
fn status(client: &Client, address: SocketAddr, credentials: Option<(&str, &str)>) -> Result<u16> {
    let text = credentials.map(|(user, password)| basic(user, password));
    let headers: Vec<_> = text.iter().map(|text| ("Authorization", text.as_str())).collect();
    Ok(client.get(address, "/metrics", &headers)?.status)
}

fn ensure_refused(client: &Client, address: SocketAddr, what: &str) -> Result<()> {
    match client.get(address, "/metrics", &[]) {
        Err(error) => println!("{what}: {error:#}"),
        Ok(answer) => anyhow::bail!("{what}: answered with status {}", answer.status),
    }
    Ok(())
}

fn tls_12_and_13() -> Result<()> {
    let site = Site::new(TLS)?;
    let daemon = site.start_open()?;
    for version in [&TLS12, &TLS13] {
        let client = Client::with(&site.authority, None, &[version])?;
        let answer = client.get(daemon.address, "/metrics", &[])?;
        ensure!(answer.status == 200, "status {}", answer.status);
        let scrape = Scrape::parse(answer.text()?)?;
        ensure!(scrape.total("noised_context_switches_total") > 0.0, "an empty page");
    }
    let stranger = Client::new(&Authority::new("another")?)?;
    ensure_refused(&stranger, daemon.address, "a client that does not trust it")?;
    let log = daemon.process().stderr()?;
    let address = format!("https://{}", daemon.address);
    ensure!(log.contains(&address), "it does not say where it listens: {log}");
    Ok(())
}

/// Runs curl; its exit code.
fn curl(site: &Site, address: SocketAddr, options: &[&str]) -> Result<i32> {
    let authority = site.directory.write("ca.crt", &site.authority.pem())?;
    let mut command = Command::new("curl");
    command.args(["-s", "-o", "/dev/null", "--cacert", text(&authority)?]).args(options);
    command.arg(format!("https://{address}/metrics"));
    let outcome = run(command)?;
    println!("curl {options:?}: {}", outcome.code);
    Ok(outcome.code)
}

fn older_tls_and_plain_http_are_refused() -> Result<()> {
    needs(&["curl"])?;
    let site = Site::new(TLS)?;
    let daemon = site.start_open()?;
    // What makes curl willing to use what is obsolete.
    let willing = ["--ciphers", "DEFAULT@SECLEVEL=0"];
    let old = [&willing[..], &["--tlsv1.0", "--tls-max", "1.1"]].concat();
    let new = [&willing[..], &["--tlsv1.0"]].concat();
    ensure!(curl(&site, daemon.address, &old)? == 35, "TLS 1.1 is not refused");
    ensure!(curl(&site, daemon.address, &new)? == 0, "this curl cannot do TLS at all");
    let plain = get(daemon.address, "/metrics", &[]);
    ensure!(plain.as_ref().map_or(true, |answer| answer.status == 400), "plain: {plain:?}");
    println!(
        "plain HTTP: {:?}",
        plain.map(|answer| answer.status).map_err(|error| error.to_string())
    );
    Ok(())
}

fn versions_and_ciphers_can_be_chosen() -> Result<()> {
    let suite = "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256";
    let site = Site::new(&format!(
        "{TLS}  max_version: TLS12\n  cipher_suites: [{suite}]\n  curve_preferences: [CurveP384]\n"
    ))?;
    let daemon = site.start_open()?;
    let mut stream = site.client()?.connect(daemon.address)?;
    let answer = noise_tests::http::exchange(&mut stream, daemon.address, "/-/ready", &[])?;
    ensure!(answer.status == 200, "status {}", answer.status);
    let found = stream.conn.negotiated_cipher_suite().context("no suite")?.suite();
    ensure!(format!("{found:?}") == suite, "{found:?}");
    let group = stream.conn.negotiated_key_exchange_group().context("no group")?.name();
    ensure!(format!("{group:?}") == "secp384r1", "{group:?}");
    let newer = Client::with(&site.authority, None, &[&TLS13])?;
    ensure_refused(&newer, daemon.address, "TLS 1.3 where only 1.2 is offered")?;
    Ok(())
}

/// Clients with these certificates, each for both versions: a refusal shows at another time.
fn each_version(site: &Site, identity: Option<&Identity>) -> Result<[Client; 2]> {
    let of = |version| Client::with(&site.authority, identity, &[version]);
    Ok([of(&TLS12)?, of(&TLS13)?])
}

fn client_certificates() -> Result<()> {
    let site = Site::new(&format!(
        "{TLS}  client_ca_file: clients.crt\n  client_auth_type: RequireAndVerifyClientCert\n  \
         client_allowed_sans: [prometheus.example, 10.1.2.3, \"spiffe://example/scraper\"]\n"
    ))?;
    let clients = Authority::new("authority of clients")?;
    site.directory.write("clients.crt", &clients.pem())?;
    let known = clients.issue(&["other.example", "10.1.2.3"])?;
    let [old, new] = each_version(&site, Some(&known))?;
    let daemon = site.start(|address| new.get(address, "/-/ready", &[]).is_ok())?;
    for client in [old, new] {
        let answer = client.get(daemon.address, "/metrics", &[])?;
        ensure!(answer.status == 200, "status {}", answer.status);
    }
    let by_name = clients.issue(&["prometheus.example"])?;
    for client in each_version(&site, Some(&by_name))? {
        let answer = client.get(daemon.address, "/metrics", &[])?;
        ensure!(answer.status == 200, "status {}", answer.status);
    }
    let other_name = clients.issue(&["other.example"])?;
    let other_authority = Authority::new("authority of clients")?.issue(&["prometheus.example"])?;
    for (what, identity) in [
        ("a client without a certificate", None),
        ("a client with another name", Some(&other_name)),
        ("a client of another authority", Some(&other_authority)),
    ] {
        for client in each_version(&site, identity)? {
            ensure_refused(&client, daemon.address, what)?;
        }
    }
    Ok(())
}

/// The format accepts allowed names in certificates that no authority verifies: the operator is warned.
fn names_that_any_client_signs() -> Result<()> {
    let site = Site::new(&format!(
        "{TLS}  client_auth_type: RequireAnyClientCert\n  client_allowed_sans: [prometheus.example]\n"
    ))?;
    let forged = Authority::new("unknown")?.issue(&["prometheus.example"])?;
    let client = Client::with(&site.authority, Some(&forged), &[&TLS13])?;
    let checked = check(&site)?;
    ensure!(checked.code == 0, "{}", checked.stderr);
    let daemon = site.start(|address| client.get(address, "/-/ready", &[]).is_ok())?;
    for said in [checked.stderr, daemon.process().stderr()?] {
        let words = ["does not restrict access", "RequireAndVerifyClientCert"];
        ensure!(words.into_iter().all(|word| said.contains(word)), "no warning: {said}");
    }
    Ok(())
}

/// What `--config.check` says of the web file.
fn check(site: &Site) -> Result<Outcome> {
    let empty = site.directory.write("noised.toml", "")?;
    let options = ["--config.file", text(&empty)?, "--web.config.file", text(&site.file)?];
    run_noised(&[&["run", "--config.check"], &options[..]].concat())
}

/// When the server's certificate expires, as the metrics have it, for a client that does not verify it.
fn expiry(site: &Site, daemon: &Daemon) -> Result<f64> {
    let mut command = Command::new("curl");
    command.args(["-sk", &format!("https://{}/metrics", daemon.address)]);
    let outcome = run(command)?;
    ensure!(outcome.code == 0, "curl of {}: {}", site.file.display(), outcome.code);
    Ok(Scrape::parse(&outcome.stdout)?.total("noised_tls_certificate_expiry_timestamp_seconds"))
}

fn a_certificate_that_has_expired() -> Result<()> {
    needs(&["curl"])?;
    let site = Site::new(TLS)?;
    site.install(&site.authority.issue_until(&["127.0.0.1"], 2001)?)?;
    let checked = check(&site)?;
    ensure!(checked.code == 0 && checked.stderr.contains("certificate expired"), "{checked:?}");
    let daemon = site.start(|address| {
        let mut curl = Command::new("curl");
        curl.args(["-skf", &format!("https://{address}/-/ready")]);
        run(curl).is_ok_and(|outcome| outcome.code == 0)
    })?;
    let log = daemon.process().stderr()?;
    ensure!(log.matches("certificate expired").count() == 1, "{log}");
    let seconds = expiry(&site, &daemon)?;
    ensure!(seconds == 978_307_200.0, "it expires at {seconds}");
    // A new one is used, and nothing more is said.
    site.install(&site.authority.issue_until(&["127.0.0.1"], 2101)?)?;
    // The first request is what makes it look for changes.
    let is_new = || Ok(expiry(&site, &daemon)? == 4_133_980_800.0);
    wait_until("the end of the new one", TIMEOUT, is_new)?;
    let client = site.client()?;
    ensure!(client.get(daemon.address, "/metrics", &[])?.status == 200, "not answered");
    let log = daemon.process().stderr()?;
    ensure!(log.matches("certificate expired").count() == 1, "{log}");
    Ok(())
}

fn any_client_certificate() -> Result<()> {
    let site = Site::new(&format!("{TLS}  client_auth_type: RequireAnyClientCert\n"))?;
    let anybody = Authority::new("anybody")?.issue(&["x"])?;
    let [old, new] = each_version(&site, Some(&anybody))?;
    let daemon = site.start(|address| new.get(address, "/-/ready", &[]).is_ok())?;
    for client in [old, new] {
        ensure!(client.get(daemon.address, "/metrics", &[])?.status == 200, "refused");
    }
    for client in each_version(&site, None)? {
        ensure_refused(&client, daemon.address, "a client without a certificate")?;
    }
    // What kept clients out is not given up while the daemon runs.
    let known = Authority::new("known")?;
    site.directory.write("known.crt", &known.pem())?;
    let text =
        format!("{TLS}  client_auth_type: VerifyClientCertIfGiven\n  client_ca_file: known.crt\n");
    for text in [TLS, &text] {
        site.directory.write("web.yml", text)?;
        sleep(SEEN);
        for client in each_version(&site, Some(&anybody))? {
            ensure!(client.get(daemon.address, "/metrics", &[])?.status == 200, "refused");
        }
        for client in each_version(&site, None)? {
            ensure_refused(&client, daemon.address, "a client without a certificate, later")?;
        }
    }
    let log = daemon.process().stderr()?;
    ensure!(log.matches("cannot be given up while noised runs").count() == 1, "{log}");
    drop(daemon);
    // One may be shown, or none, as long as it is of a known authority.
    let daemon = site.start_open()?;
    let known = known.issue(&["y"])?;
    for client in each_version(&site, None)?.into_iter().chain(each_version(&site, Some(&known))?) {
        ensure!(client.get(daemon.address, "/metrics", &[])?.status == 200, "refused");
    }
    for client in each_version(&site, Some(&anybody))? {
        ensure_refused(&client, daemon.address, "a client of an unknown authority")?;
    }
    Ok(())
}

fn users() -> Result<()> {
    let lines = [user("alice", "wonder: land")?, user("bob", "b")?].concat();
    let site = Site::new(&format!("{TLS}basic_auth_users:\n{lines}"))?;
    let client = site.client()?;
    let daemon = site.start(|address| client.get(address, "/-/ready", &[]).is_ok())?;
    let address = daemon.address;
    for (credentials, expected) in [
        (None, 401),
        (Some(("alice", "wonder: land")), 200),
        (Some(("alice", "wonder: land")), 200),
        (Some(("bob", "b")), 200),
        (Some(("alice", "b")), 401),
        (Some(("alice", "")), 401),
        (Some(("bob", "wonder: land")), 401),
        (Some(("carol", "b")), 401),
        (Some(("carol", "b")), 401),
        (Some(("", "")), 401),
        (Some(("alice", "wonder: land")), 200),
    ] {
        let found = status(&client, address, credentials)?;
        ensure!(found == expected, "{credentials:?}: status {found}, expected {expected}");
    }
    for path in ["/", "/api/v1/frame", "/-/ready", "/-/healthy", "/nothing"] {
        let answer = client.get(address, path, &[])?;
        ensure!(answer.status == 401, "{path} without a name: status {}", answer.status);
        let challenge = answer.header("www-authenticate").unwrap_or_default();
        ensure!(challenge.starts_with("Basic "), "{challenge:?}");
    }
    for text in ["Basic", "Basic !", "Basic YQ==", "Bearer x", "basic /////w=="] {
        let answer = client.get(address, "/metrics", &[("Authorization", text)])?;
        ensure!(answer.status == 401, "{text}: status {}", answer.status);
    }
    let log = daemon.process().stderr()?;
    ensure!(!log.contains("wonder"), "a password in the log: {log}");
    Ok(())
}

fn headers_and_rate() -> Result<()> {
    let site = Site::new(
        "http_server_config:\n  headers:\n    X-Frame-Options: deny\n    \
         Content-Security-Policy: default-src 'self'\nrate_limit:\n  interval: 1h\n  burst: 4\n",
    )?;
    let daemon = site.start(|address| get(address, "/-/ready", &[]).is_ok())?;
    for (path, expected) in [("/", 200), ("/nothing", 404), ("/metrics", 200), ("/metrics", 429)] {
        let answer = get(daemon.address, path, &[])?;
        ensure!(answer.status == expected, "{path}: {}, not {expected}", answer.status);
        ensure!(answer.header("x-frame-options") == Some("deny"), "{path}: {answer:?}");
        let policy = answer.header("content-security-policy");
        ensure!(policy == Some("default-src 'self'"), "{path}: {policy:?}");
    }
    Ok(())
}

fn certificate_changes() -> Result<()> {
    let site = Site::new(TLS)?;
    let daemon = site.start_open()?;
    let before = site.client()?;
    let next = Authority::new("the next authority")?;
    let after = Client::new(&next)?;
    ensure_refused(&after, daemon.address, "a client of the next authority")?;
    // One after the other, so that there is a time when they do not belong together.
    let identity = next.issue(&["127.0.0.1"])?;
    site.directory.write("a.key", &identity.key)?;
    // Each request makes it look.
    wait_until("a key of another certificate", TIMEOUT, || {
        ensure!(before.get(daemon.address, "/-/ready", &[])?.status == 200, "not as before");
        Ok(daemon.process().stderr()?.contains("is not the key of"))
    })?;
    site.directory.write("a.crt", &identity.certificate)?;
    let is_new = |client: &Client| client.get(daemon.address, "/-/ready", &[]);
    wait_until("the new certificate", TIMEOUT, || {
        Ok(is_new(&after).is_ok_and(|answer| answer.status == 200))
    })?;
    ensure_refused(&before, daemon.address, "a client of the last authority")?;
    let log = daemon.process().stderr()?;
    ensure!(log.matches("is not the key of").count() == 1, "{log}");
    ensure!(log.matches("is valid again, applied").count() == 1, "{log}");
    Ok(())
}

fn users_change_and_mistakes_do_not() -> Result<()> {
    let site = Site::new(&format!("basic_auth_users:\n{}", user("alice", "a")?))?;
    let daemon = site.start(|address| get(address, "/-/ready", &[]).is_ok())?;
    let found = |user: &str, password: &str| -> Result<u16> {
        let credentials = basic(user, password);
        Ok(get(daemon.address, "/-/ready", &[("Authorization", &credentials)])?.status)
    };
    let mut expected = vec![("alice", "a", 200), ("bob", "b", 401)];
    let check = |expected: &[(&str, &str, u16)], when: &str| -> Result<()> {
        for (user, password, expected) in expected {
            let found = found(user, password)?;
            ensure!(found == *expected, "{when}, {user}: {found}, not {expected}");
        }
        Ok(())
    };
    check(&expected, "at first")?;
    // Each request makes it look; then it says what it has seen.
    let said = |words: &str| {
        wait_until(words, TIMEOUT, || {
            get(daemon.address, "/-/ready", &[])?;
            Ok(daemon.process().stderr()?.contains(words))
        })
    };
    let write = |text: &str, words: &str| -> Result<()> {
        site.directory.write("web.yml", text)?;
        said(words)
    };
    write(&format!("basic_auth_users:\n{}", user("bob", "b")?), "the web file changed")?;
    expected = vec![("alice", "a", 401), ("bob", "b", 200)];
    check(&expected, "after the change")?;
    write("basic_auth_users:\n  bob: b\n", "is not a bcrypt hash")?;
    check(&expected, "with a mistake")?;
    sleep(SEEN);
    check(&expected, "with a mistake, later")?;
    std::fs::remove_file(site.directory.path().join("web.yml"))?;
    said("cannot read the web file")?;
    check(&expected, "without a file")?;
    let text = format!("{TLS}basic_auth_users:\n{}", user("carol", "c")?);
    write(&text, "cannot be turned on or off")?;
    check(&expected, "with TLS turned on")?;
    expected.push(("", "", 401));
    write("", "`basic_auth_users` cannot be taken away")?;
    check(&expected, "with an empty file")?;
    // Of that it has said all.
    site.directory.write("web.yml", "basic_auth_users:\n")?;
    sleep(SEEN);
    check(&expected, "half written")?;
    write(&format!("basic_auth_users:\n{}", user("bob", "new")?), "is valid again, applied")?;
    check(&[("bob", "b", 401), ("bob", "new", 200)], "well again")?;
    let log = daemon.process().stderr()?;
    for (words, times) in [
        ("is not a bcrypt hash", 1),
        ("cannot read the web file", 1),
        ("cannot be turned on or off", 1),
        ("`basic_auth_users` cannot be taken away", 1),
        ("is valid again, applied", 1),
        ("the web file changed", 1),
    ] {
        ensure!(log.matches(words).count() == times, "{words:?} not {times} times: {log}");
    }
    Ok(())
}

fn mistakes_end_the_start() -> Result<()> {
    let site = Site::new(TLS)?;
    let check = || run_noised(&["run", "--config.check", "--web.config.file", text(&site.file)?]);
    let good = check()?;
    ensure!((good.code, good.stdout.as_str()) == (0, "the configuration is valid\n"), "{good:?}");
    let other = site.authority.issue(&["127.0.0.1"])?;
    let old = std::fs::read_to_string(site.directory.path().join("a.key"))?;
    for (file, content, words) in [
        ("web.yml", "tls_server_confg: {}\n", &["line 1", "`tls_server_config`"][..]),
        ("web.yml", "tls_server_config: {cert_file: no.crt, key_file: a.key}\n", &["no.crt"]),
        ("web.yml", "tls_server_config: {cert_file: a.key, key_file: a.key}\n", &["certificate"]),
        ("web.yml", "tls_server_config: {cert_file: a.crt, key_file: a.crt}\n", &["no key"]),
        ("a.key", &other.key, &["a.key is not the key of", "a.crt"]),
        ("a.key", "nonsense", &["no key", "a.key"]),
    ] {
        site.directory.write(file, content)?;
        let bad = check()?;
        println!("{}", bad.stderr.trim_end());
        ensure!(bad.code == 2 && bad.stderr.lines().count() == 1, "{bad:?}");
        for word in words {
            ensure!(bad.stderr.contains(word), "no {word:?}: {bad:?}");
        }
        site.directory.write("web.yml", TLS)?;
        site.directory.write("a.key", &old)?;
    }
    let absent = run_noised(&["run", "--web.config.file", "/nowhere/web.yml"])?;
    ensure!(absent.code == 2 && absent.stderr.contains("/nowhere/web.yml"), "{absent:?}");
    Ok(())
}

fn commands_ask_over_tls() -> Result<()> {
    let site = Site::new(&format!("{TLS}basic_auth_users:\n{}", user("ops", "look")?))?;
    let client = site.client()?;
    let daemon = site.start(|address| client.get(address, "/-/ready", &[]).is_ok())?;
    site.directory.write("ca.crt", &site.authority.pem())?;
    let trusts = "tls_config: {ca_file: ca.crt}\n";
    let may = format!("{trusts}basic_auth: {{username: ops, password: look}}\n");
    let may = site.directory.write("may.yml", &may)?;
    let nameless = site.directory.write("nameless.yml", trusts)?;
    let address = format!("https://{}", daemon.address);
    let ask = |file: Option<&std::path::Path>| -> Result<_> {
        let mut incidents = vec!["incidents", "--json", "--web.address", &address];
        let mut top = vec!["top", "--once", "--connect", &address];
        if let Some(file) = file {
            incidents.extend(["--http.config.file", text(file)?]);
            top.extend(["--http.config.file", text(file)?]);
        }
        Ok([run_noised(&incidents)?, run_noised(&top)?])
    };
    let [incidents, top] = ask(Some(&may))?;
    ensure!(incidents.code == 0 && incidents.stdout.contains("\"incidents\""), "{incidents:?}");
    ensure!(top.code == 0 && !top.stdout.is_empty(), "{top:?}");
    for outcome in ask(Some(&nameless))? {
        println!("{}", outcome.stderr.trim_end());
        ensure!(outcome.code != 0 && outcome.stderr.contains("--http.config.file"), "{outcome:?}");
        ensure!(outcome.stderr.lines().count() == 1, "{outcome:?}");
    }
    for outcome in ask(None)? {
        println!("{}", outcome.stderr.trim_end());
        ensure!(outcome.code != 0 && outcome.stderr.contains("certificate"), "{outcome:?}");
        ensure!(outcome.stderr.lines().count() == 1, "{outcome:?}");
    }
    Ok(())
}

fn a_real_prometheus() -> Result<()> {
    needs(&["prometheus"])?;
    let users = user("scraper", "correct horse")?;
    let site = Site::new(&format!("{TLS}basic_auth_users:\n{users}"))?;
    let client = site.client()?;
    let daemon = site.start(|address| client.get(address, "/-/ready", &[]).is_ok())?;
    site.directory.write("ca.crt", &site.authority.pem())?;
    let config = format!(
        "global: {{scrape_interval: 1s}}\nscrape_configs:\n- job_name: noised\n  scheme: https\n  \
         basic_auth: {{username: scraper, password: correct horse}}\n  \
         tls_config: {{ca_file: ca.crt}}\n  static_configs: [{{targets: [\"{}\"]}}]\n",
        daemon.address
    );
    let config = site.directory.write("prometheus.yml", &config)?;
    let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let mut command = Command::new("prometheus");
    command.arg(format!("--config.file={}", text(&config)?));
    command.arg(format!("--storage.tsdb.path={}", text(&site.directory.path().join("data"))?));
    command.arg(format!("--web.listen-address={address}"));
    let prometheus = Process::start(command)?;
    let query = "/api/v1/query?query=noised_context_switches_total";
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let answer = get(address, query, &[]);
        let text = answer.as_ref().ok().and_then(|answer| answer.text().ok()).unwrap_or_default();
        if text.contains("\"job\":\"noised\"") {
            println!("{text}");
            return ended(prometheus, daemon);
        }
        ensure!(Instant::now() < deadline, "{answer:?}; {}", prometheus.stderr()?);
        sleep(Duration::from_millis(200));
    }
}

/// Both end well.
fn ended(mut prometheus: Process, daemon: Daemon) -> Result<()> {
    prometheus.signal(libc::SIGTERM)?;
    prometheus.wait()?;
    let (status, log) = daemon.stop(libc::SIGTERM)?;
    ensure!(status.success(), "{status}: {log}");
    Ok(())
}
