//! Daemons that answer what they should, and others; and what they left.

use super::*;
use std::fs::{self, Permissions};
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;

use noise_analysis::{Episode, Time};
use noise_client::fake::{Fake, Reply, as_unprivileged};
use noise_common::charge::Cause;

/// Answers one request, and is gone.
fn answering(status: &str, body: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let length = body.len();
    let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n{body}");
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 1024];
        let _ = stream.read(&mut request).unwrap();
        stream.write_all(answer.as_bytes()).unwrap();
    });
    address
}

fn error(address: &str, directory: Option<&Path>) -> String {
    let source = IncidentSource::new(
        Some(DaemonPlace::Web(address.to_owned())),
        directory.map(Path::to_owned),
        WebClient::default(),
    );
    format!("{:#}", source.incidents().unwrap_err())
}

#[test]
fn a_daemon_is_asked() {
    let address = answering("200 OK", "{\"version\":1,\"incidents\":[]}");
    let source = IncidentSource::new(Some(DaemonPlace::Web(address)), None, WebClient::default());
    assert_eq!(source.incidents().unwrap(), Listing::default());
}

#[test]
fn incidents_of_an_older_daemon_are_sorted_as_well() {
    let begun = |id: u64, second: i64| {
        let start = Timestamp::from_second(second).unwrap();
        let main = Episode { start, ..noise_analysis::made::blank("/web") };
        Arc::new(Report::new(id, true, main, Vec::new()))
    };
    let incidents = vec![begun(1, 30), begun(2, 10), begun(3, 20)];
    let mut document = serde_json::to_value(IncidentsDocument::new(incidents, Vec::new())).unwrap();
    document["incidents"].as_array_mut().unwrap().reverse();
    let address = answering("200 OK", &document.to_string());
    let source = IncidentSource::new(Some(DaemonPlace::Web(address)), None, WebClient::default());
    let ids: Vec<u64> =
        source.incidents().unwrap().incidents.iter().map(|report| report.id).collect();
    assert_eq!(ids, [2, 3, 1]);
}

#[test]
fn what_does_not_answer_as_noised_is_reported() {
    for (status, body, words) in [
        ("404 Not Found", "", "another program"),
        ("503 Service Unavailable", "", "503"),
        ("200 OK", "hello", "did not answer as noised does"),
        ("200 OK", "{\"version\":1}", "did not answer as noised does"),
        ("200 OK", "{\"version\":2,\"incidents\":3}", "version 2"),
    ] {
        let text = error(&answering(status, body), None);
        assert!(text.contains(words), "{text}");
    }
}

#[test]
fn an_answer_leads_nowhere_else() {
    let elsewhere = answering("200 OK", "{\"version\":1,\"incidents\":[]}");
    let status = format!("302 Found\r\nlocation: http://{elsewhere}/api/v1/incidents");
    let text = error(&answering(&status, ""), None);
    assert!(text.contains("did not answer as noised does"), "{text}");
}

#[test]
fn without_a_daemon_the_directory_is_read() {
    let root = tempfile::tempdir().unwrap();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let text = error(&closed, Some(root.path()));
    for words in ["no noised answers", "no state was left", root.path().to_str().unwrap()] {
        assert!(text.contains(words), "{text}");
    }
    assert!(error(&closed, None).contains("noised run"));
    let folder = noise_keep::state::Folder::take(root.path()).unwrap();
    folder.write(&Document::default()).unwrap();
    let place = Some(DaemonPlace::Web(closed));
    let source = IncidentSource::new(place, Some(root.path().to_owned()), WebClient::default());
    assert_eq!(source.outliers().unwrap().outliers, []);
    fs::write(root.path().join("incidents.json"), "garbage").unwrap();
    let source = IncidentSource::new(None, Some(root.path().to_owned()), WebClient::default());
    let text = format!("{:#}", source.outliers().unwrap_err());
    assert!(text.contains("damaged"), "{text}");
    // A command that reads sets nothing aside.
    assert!(root.path().join("incidents.json").exists());
}

#[test]
fn what_was_left_is_shown_with_its_time() {
    let at = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let text = left_behind(Path::new("/x"), Some("no noised answers at /s (gone)"), Some(at));
    for words in ["no noised answers at /s", "left in /x at 2023-11-14 22:13:20 UTC"] {
        assert!(text.contains(words), "{text}");
    }
    assert!(left_behind(Path::new("/x"), None, None).starts_with("this is what"));
}

const NONE: &[u8] = b"{\"version\":1,\"incidents\":[]}";

#[test]
fn no_address_is_asked_that_was_not_named() {
    let source = IncidentSource::new(None, None, WebClient::default());
    let expected = Some(DaemonPlace::Socket(host_socket()));
    assert_eq!((&source.place, &source.live().place), (&expected, &expected));
}

#[test]
fn a_daemon_is_asked_on_its_local_socket() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("noised.sock");
    let daemon = Fake::local(&path, Reply::of(200, "application/json", NONE));
    let source = IncidentSource {
        place: Some(DaemonPlace::Socket(path)),
        directory: None,
        is_default: true,
        client: WebClient::default(),
    };
    assert_eq!(source.incidents().unwrap(), Listing::default());
    let refusal = || format!("{:#}", source.incidents().unwrap_err());
    for (reply, words) in [
        (Reply::of(404, "text/plain", b""), "knows no incidents"),
        (Reply::of(503, "text/plain", b""), "cannot answer now (status 503)"),
        (Reply::of(200, "application/json", b"hello"), "did not answer as noised does"),
        (Reply::of(200, "application/json", b"{\"version\":2}"), "version 2"),
        (Reply::Raw(b"garbage\r\n\r\n".to_vec()), "is not noised"),
    ] {
        daemon.answer(reply);
        let error = refusal();
        assert!(error.contains(words) && error.contains("noised.sock"), "{error}");
    }
    drop(daemon);
    let error = refusal();
    assert!(error.contains("noised.sock (there is no such socket): start one"), "{error}");
}

#[test]
fn who_may_not_use_the_socket_learns_what_helps() {
    let root = tempfile::tempdir().unwrap();
    fs::set_permissions(root.path(), Permissions::from_mode(0o755)).unwrap();
    let path = root.path().join("noised.sock");
    let _daemon = Fake::local(&path, Reply::of(200, "application/json", NONE));
    fs::set_permissions(&path, Permissions::from_mode(0o000)).unwrap();
    let error = as_unprivileged(move || {
        let (place, client) = (Some(DaemonPlace::Socket(path)), WebClient::default());
        let source = IncidentSource { place, directory: None, is_default: true, client };
        format!("{:#}", source.incidents().unwrap_err())
    });
    assert!(error.contains("not allowed to use") && error.contains("sudo"), "{error}");
}

#[test]
fn kernel_events_are_read_from_the_socket_or_where_they_are_kept() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("noised.sock");
    let daemon = Fake::local(&path, Reply::of(200, "application/vnd.noised.trace", b"\xff\x00"));
    let source = |directory: Option<&Path>| IncidentSource {
        place: Some(DaemonPlace::Socket(path.clone())),
        directory: directory.map(Path::to_owned),
        is_default: false,
        client: WebClient::default(),
    };
    assert_eq!(source(None).trace(7).unwrap(), Some(vec![0xff, 0]));
    for reply in
        [Reply::of(404, "text/plain", b""), Reply::of(200, "application/vnd.noised.trace", b"")]
    {
        daemon.answer(reply);
        assert_eq!(source(Some(root.path())).trace(7).unwrap(), None);
    }
    drop(daemon);
    let error = source(None).trace(7).unwrap_err().to_string();
    assert!(error.contains("--connect SOCKET or --state.directory"), "{error}");
    assert_eq!(source(Some(root.path())).trace(7).unwrap(), None);
    fs::write(root.path().join("incident-7.trace"), "kept").unwrap();
    assert_eq!(source(Some(root.path())).trace(7).unwrap(), Some(b"kept".to_vec()));
}

#[test]
fn lists_are_taken_that_are_longer_than_those_of_busy_hosts() {
    // As many past incidents as are kept, each with as many signals of subjects as are listed, and each of these with as
    // many culprits, by names of half the longest length.
    let name = "x".repeat(64);
    let culprit = noise_analysis::made::culprit(&name, Cause::Foreign, Time::default());
    let culprits = vec![culprit; 32];
    let episode = Episode { culprits, ..noise_analysis::made::blank(&name) };
    let report = |id| Arc::new(Report::new(id, true, episode.clone(), vec![episode.clone(); 32]));
    let document = IncidentsDocument::new((0..256).map(report).collect(), Vec::new());
    let length = serde_json::to_vec(&document).unwrap().len() as u64;
    assert!(length < MAX_LIST_BYTES, "{length}");
}

#[test]
fn what_is_longer_than_any_list_is_refused_before_it_comes() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("noised.sock");
    let endless = format!("HTTP/1.1 200 X\r\ncontent-length: {}\r\n\r\n{{", (64 << 20) + 1);
    let _daemon = Fake::local(&path, Reply::Raw(endless.into_bytes()));
    let place = Some(DaemonPlace::Socket(path));
    let source = IncidentSource::new(place, None, WebClient::default());
    for error in [source.incidents().unwrap_err(), source.outliers().unwrap_err()] {
        let error = format!("{error:#}");
        assert!(
            error.ends_with("longer than 64 MiB, and noised sends no more than that"),
            "{error}"
        );
    }
    let long = " ".repeat((64 << 20) + 1);
    let text = error(&answering("200 OK", &long), None);
    assert!(text.ends_with("longer than 64 MiB, and noised sends no more than that"), "{text}");
}

#[test]
fn addresses_have_a_port() {
    for good in ["127.0.0.1:80", "[::1]:19435", "host.example:1"] {
        assert_eq!(address(good).as_deref(), Ok(good));
    }
    for bad in ["", "host", ":80", "host:", "host:99999"] {
        assert!(address(bad).is_err(), "{bad}");
    }
}
