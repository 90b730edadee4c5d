//! Names that mean harm, through every command that shows what others say: daemons that answer, reports,
//! recordings, state and configuration from elsewhere, and arguments. Nothing of them may act on the
//! terminal, whatever the command comes to.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "all of this is a test, whose checks fail by panicking"
)]

#[path = "../../tests/src/hostile.rs"]
mod hostile;

use std::ffi::OsStr;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;

use noise_analysis::{
    Cause, Episode, Level, Overview, Remedy, Report, ReportedOutlier, Time, made,
};
use noise_measure::{
    Class, CpuDetours, DETOURS_FORMAT, DETOURS_VERSION, Detour, DetourPart, DetourReport, GapSource,
};
use noise_model::{
    Count, CpuNoise, Histogram, Host, Interference, NoiseSource, OutlierPart, OutlierRecord,
    Sample, Series,
};
use noise_serve::{IncidentsDocument, OutliersDocument};
use noise_text::clean::is_harmful;
use noise_wire::{CONTENT_TYPE, Frame, Recorder, encode};

use hostile::{NAMES, is_raw};
use jiff::Timestamp;
use noise_common::charge::{Charged, Resource};
use noise_common::signals::Signal;
use noise_keep::demand::Demand;
use noise_keep::state::{Baselines, Document};

const SCREENS: [&str; 6] = ["overview", "cpu", "who", "disk-net", "irq", "incidents"];

/// What a command printed.
struct Printed {
    code: i32,
    stdout: String,
}

fn ensure_clean(what: &str, bytes: &[u8]) -> String {
    let text = std::str::from_utf8(bytes);
    let text = text.unwrap_or_else(|error| panic!("{what}: {error}: {bytes:?}")).to_owned();
    let harmful = text.char_indices().find(|(_, c)| *c != '\n' && (is_raw(*c) || is_harmful(*c)));
    assert!(harmful.is_none(), "{what}: {harmful:?} of {text:?}");
    text
}

/// Runs a command, whose output has to be clean.
fn run<S: AsRef<OsStr>>(arguments: &[S]) -> Printed {
    let mut command = Command::new(env!("CARGO_BIN_EXE_noised"));
    let output = command.args(arguments).output().unwrap();
    let what = format!("{:?}", arguments.iter().map(AsRef::as_ref).collect::<Vec<_>>());
    let stdout = ensure_clean(&what, &output.stdout);
    ensure_clean(&what, &output.stderr);
    let code = output.status.code().unwrap_or_else(|| panic!("{what}: {}", output.status));
    assert!(code != 101, "{what} panicked: {}", String::from_utf8_lossy(&output.stderr));
    Printed { code, stdout }
}

/// As [`run`], where it should succeed and say something.
fn succeed(arguments: &[&str]) -> String {
    let printed = run(arguments);
    assert_eq!(printed.code, 0, "{arguments:?}");
    assert!(!printed.stdout.is_empty(), "{arguments:?}");
    if arguments.contains(&"--json") {
        serde_json::from_str::<serde_json::Value>(&printed.stdout).unwrap();
    }
    printed.stdout
}

/// Answers each request with what `answer` has for its path, until the test ends.
fn peer(answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let answer = Arc::new(answer);
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let answer = Arc::clone(&answer);
            thread::spawn(move || {
                let mut asked = Vec::new();
                let mut some = [0; 1024];
                while let Ok(count @ 1..) = stream.read(&mut some) {
                    asked.extend_from_slice(&some[..count]);
                    if asked.ends_with(b"\r\n\r\n") {
                        let request = String::from_utf8_lossy(&asked).into_owned();
                        let path = request.split(' ').nth(1).unwrap_or_default();
                        if stream.write_all(&answer(path)).is_err() {
                            return;
                        }
                        asked.clear();
                    }
                }
            });
        }
    });
    address
}

fn reply(kind: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head =
        format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n");
    [head.as_bytes(), body].concat()
}

fn outlier(name: &str) -> OutlierRecord {
    OutlierRecord {
        at_ns: 0,
        wait_ns: 5_000_000,
        victim: name.into(),
        pid: 7,
        comm: name.into(),
        cpu: 0,
        made_runnable: name.into(),
        parts: vec![OutlierPart {
            culprit: name.into(),
            cause: Cause::Foreign,
            pid: 8,
            comm: name.into(),
            ns: 4_000_000,
        }],
        rest_ns: 1_000_000,
    }
}

fn report(id: u64, name: &str) -> Arc<Report> {
    let level =
        Level { p50_ns: Some(5), p99_ns: Some(9), mean_ns: Some(6.0), rate: 1.0, lost: 0.5 };
    let time = Time { seconds: 1.0, share: 1.0 };
    let main = Episode {
        start: Timestamp::from_second(1).unwrap(),
        end: Timestamp::from_second(9).unwrap(),
        seconds: 8.0,
        before: level,
        after: level,
        culprits: vec![made::culprit(name, Cause::Foreign, time)],
        remedies: vec![Remedy::CpuWeight],
        ..made::blank(name)
    };
    Arc::new(Report::new(id, true, main.clone(), vec![main]))
}

fn host() -> Host {
    let name = NAMES.concat();
    Host {
        name: name.clone(),
        kernel: name.clone(),
        noised: name,
        cpus: vec![0],
        ..Host::default()
    }
}

/// All names in every place of a frame that has one.
fn frame(second: i64) -> Frame {
    let total = second.unsigned_abs() * 1_000_000;
    let mut sample = Sample { at_ns: second.unsigned_abs() * 1_000_000_000, ..Sample::default() };
    let mut overview = Overview::default();
    for (id, name) in (0..).zip(NAMES) {
        let name = *name;
        for signal in [
            Signal::CgroupRunqueueWait,
            Signal::BlockQueueWait,
            Signal::NetTxWait,
            Signal::NetRxWait,
            Signal::Hardirq,
        ] {
            let totals = Histogram::new(total, [(40, total)]);
            let labels = [name.to_owned(), name.to_owned()].into();
            sample.series.push(Series { signal, labels, totals, recent_max_ns: 9 });
        }
        let labels = [name.to_owned()].into();
        sample.counts.push(Count { signal: Signal::TcpRetransmit, labels, total });
        for resource in [Resource::Cpu, Resource::BlockQueue, Resource::NetTx, Resource::Running] {
            sample.interference.push(Interference {
                resource,
                cause: Cause::Foreign,
                place: name.into(),
                victim: name.into(),
                culprit: name.into(),
                charged: Charged { ns: total, count: second.unsigned_abs() },
            });
        }
        sample.outliers.push(outlier(name));
        sample.interrupted.push((0, name.into(), total));
        sample.page_faults.push((name.into(), total));
        sample.absent.push((Signal::Nmi, name.to_owned()));
        sample.folded.push((name.into(), 1));
        let source = NoiseSource { source: name.into(), ns: 1, count: 1, longest_ns: 1 };
        sample.noise.push(CpuNoise { cpu: 0, runtime_ns: total, sources: vec![source] });
        overview.incidents.push(report(id, name));
        let time = Timestamp::from_second(second).unwrap();
        overview.outliers.push(Arc::new(ReportedOutlier { time, wait: outlier(name) }));
    }
    sample.series.sort_by(|a, b| (a.signal, &a.labels).cmp(&(b.signal, &b.labels)));
    sample.interference.sort_by(Interference::order);
    let time = Timestamp::from_second(second).unwrap();
    Frame { time, host: Arc::new(host()), sample: Arc::new(sample), overview, trends: None }
}

#[test]
fn a_peer_that_measures() {
    let second = AtomicI64::new(1);
    let address = peer(move |path| {
        if path.starts_with("/api/v1/frame") {
            let frame = encode(&frame(second.fetch_add(1, Ordering::Relaxed))).unwrap();
            return reply(CONTENT_TYPE, &frame);
        }
        let numbered = (0..).zip(NAMES);
        // As they are: another program than ours may answer.
        let text = if path.ends_with("/outliers") {
            let outlier =
                |name: &&str| ReportedOutlier { time: Timestamp::UNIX_EPOCH, wait: outlier(name) };
            let outliers = NAMES.iter().map(|name| Arc::new(outlier(name))).collect();
            serde_json::to_string(&OutliersDocument::new(outliers, Vec::new()))
        } else {
            let incidents = numbered.map(|(id, name)| report(id, name)).collect();
            serde_json::to_string(&IncidentsDocument::new(incidents, Vec::new()))
        };
        reply("application/json", text.unwrap().as_bytes())
    });
    let url = format!("http://{address}");
    for screen in SCREENS {
        let top = ["top", "--once", "--interval", "100ms", "--connect", &url, "--screen", screen];
        let text = succeed(&top);
        assert!(text.contains(r"\x1b[31mred"), "{text}");
        succeed(&[&top[..], &["--json"]].concat());
    }
    for more in [&[][..], &["--outliers"]] {
        let incidents = [&["incidents", "--web.address", &address], more].concat();
        let text = succeed(&incidents);
        assert!(text.contains(r"\x1b[31mred") && text.contains(r"\u{202e}exe.txt"), "{text}");
        // A name with a line's end in it forges none.
        assert!(text.contains(r"line\x0a# HELP") && !text.contains("\n# HELP"), "{text}");
        succeed(&[&incidents[..], &["--json"]].concat());
    }
}

/// What answers that are none may say.
fn odd_answers(name: &str) -> Vec<Vec<u8>> {
    let quoted = serde_json::to_string(name).unwrap();
    let header: String = name.chars().filter(|c| !matches!(c, '\n' | '\r' | '\0')).collect();
    let incident = |main: &str| format!("{{\"version\":1,\"incidents\":[{main}]}}").into_bytes();
    // A frame with a signal of the future.
    let head = encode(&Frame::default()).unwrap()[..10].to_vec();
    let plain = rmp_serde::to_vec_named(&serde_json::json!({"sample": {"absent": [[name, name]]}}));
    let packed = zstd::encode_all(plain.unwrap().as_slice(), 1).unwrap();
    let mut all = vec![
        name.as_bytes().to_vec(),
        format!("HTTP/1.1 200 {header}\r\ncontent-length: 0\r\n\r\n").into_bytes(),
        format!("HTTP/1.1 {header} OK\r\ncontent-length: 0\r\n\r\n").into_bytes(),
        format!("HTTP/1.1 500 X\r\n{header}: x\r\ncontent-length: 0\r\n\r\n").into_bytes(),
        format!("HTTP/1.1 302 X\r\nlocation: http://{header}/\r\ncontent-length: 0\r\n\r\n")
            .into_bytes(),
        reply(&header, name.as_bytes()),
        reply(CONTENT_TYPE, name.as_bytes()),
        reply(CONTENT_TYPE, &[head, packed].concat()),
    ];
    for body in [
        quoted.clone().into_bytes(),
        format!("{{\"version\":{quoted}}}").into_bytes(),
        incident(&quoted),
        incident(&format!("{{{quoted}:1}}")),
        incident(&format!("{{\"id\":1,\"open\":true,\"main\":{{\"signal\":{quoted}}}}}")),
        incident(&format!("{{\"id\":{quoted}}}")),
    ] {
        all.push(reply("application/json", &body));
    }
    all
}

#[test]
fn a_peer_whose_answers_are_none() {
    let answers: Vec<_> = NAMES.iter().step_by(3).flat_map(|name| odd_answers(name)).collect();
    for answer in answers {
        let address = peer(move |_| answer.clone());
        let incidents = run(&["incidents", "--web.address", &address]);
        assert_ne!(incidents.code, 0);
        let url = format!("http://{address}");
        let top = run(&["top", "--once", "--interval", "100ms", "--connect", &url]);
        assert_ne!(top.code, 0);
    }
}

fn detours() -> DetourReport {
    let source =
        |(id, name): (u32, &&str)| GapSource { class: Class::Thread, name: (*name).to_owned(), id };
    let sources: Vec<GapSource> = (0..).zip(NAMES).map(source).collect();
    let detour = |index: usize| Detour {
        start_ns: index as u64 * 1_000_000,
        duration_ns: 20_000,
        parts: vec![DetourPart {
            source: index % NAMES.len(),
            start_ns: index as u64 * 1_000_000,
            duration_ns: 10_000,
        }],
    };
    DetourReport {
        format: DETOURS_FORMAT.to_owned(),
        version: DETOURS_VERSION,
        host: NAMES.concat(),
        kernel: NAMES.concat(),
        started: Timestamp::UNIX_EPOCH,
        sources,
        cpus: vec![CpuDetours {
            cpu: 0,
            start_ns: 0,
            duration_ns: 1_000_000_000,
            threshold_ns: 1_000,
            min_loop_ns: 24.5,
            resolution_ns: 1,
            passes: 40_000_000,
            detours: (0..900).map(detour).collect(),
            lost_detours: 0,
            lost_events: 0,
        }],
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn files_of_others() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.json");
    fs::write(&path, serde_json::to_string(&detours()).unwrap()).unwrap();
    let of_report =
        [&["bench", "scale", text(&path)][..], &["bench", "compare", text(&path), text(&path)]];
    for command in of_report {
        let shown = succeed(command);
        assert!(shown.contains(r"\x1b[31mred"), "{shown}");
        succeed(&[command, &["--json"]].concat());
    }
    let path = folder.path().join("recording.frames");
    let mut recorder = Recorder::open(&path, &host()).unwrap();
    (1..4).for_each(|second| recorder.append(&frame(second)).unwrap());
    drop(recorder);
    for screen in SCREENS {
        let replay = ["top", "--once", "--replay", text(&path), "--screen", screen];
        assert!(succeed(&replay).contains(r"\x1b[31mred"));
    }
    let incidents = (0..).zip(NAMES).map(|(id, name)| report(id, name)).collect();
    let outliers = NAMES
        .iter()
        .map(|name| Arc::new(ReportedOutlier { time: Timestamp::UNIX_EPOCH, wait: outlier(name) }));
    let state =
        Document::new(incidents, outliers.collect(), Baselines::default(), Demand::default());
    fs::write(folder.path().join("incidents.json"), state.text().unwrap()).unwrap();
    for more in [&[][..], &["--outliers"], &["--json"]] {
        succeed(&[&["incidents", "--state.directory", text(folder.path())], more].concat());
    }
    for name in NAMES {
        let quoted = serde_json::to_string(name).unwrap();
        fs::write(folder.path().join("incidents.json"), format!("{{\"format\":{quoted}}}"))
            .unwrap();
        run(&["incidents", "--state.directory", text(folder.path())]);
        let path = folder.path().join("bad.json");
        fs::write(&path, format!("{{\"format\":{quoted}}}")).unwrap();
        run(&["bench", "scale", text(&path)]);
    }
}

#[test]
fn configuration_of_others() {
    let folder = tempfile::tempdir().unwrap();
    let (toml, yaml) = (folder.path().join("noised.toml"), folder.path().join("web.yml"));
    for name in NAMES {
        let escaped: String = name.chars().map(|c| format!("\\U{:08x}", u32::from(c))).collect();
        let quoted = serde_json::to_string(name).unwrap();
        for text_of in [
            format!("{name} = 1\n"),
            format!("\"{escaped}\" = 1\n"),
            format!("[log]\nlevel = \"{escaped}\"\n"),
            format!("[web]\nlisten-address = \"{escaped}\"\n"),
            format!("[web]\nallowed-hosts = [\"{escaped}\"]\n"),
            format!("[signals]\noff = [\"{escaped}\"]\n"),
            format!("[limits]\n\"{escaped}\" = 1\n"),
        ] {
            fs::write(&toml, text_of).unwrap();
            let printed = run(&["run", "--config.check", "--config.file", text(&toml)]);
            assert_ne!(printed.code, 0);
        }
        for text_of in [
            format!("{name}: 1\n"),
            format!("{quoted}: 1\n"),
            format!("rate_limit: {{interval: {quoted}}}\n"),
            format!("basic_auth_users: {{{quoted}: x}}\n"),
            format!("http_server_config: {{headers: {{{quoted}: x}}}}\n"),
            format!("tls_server_config: {{cert_file: {quoted}, key_file: {quoted}}}\n"),
        ] {
            fs::write(&yaml, text_of).unwrap();
            fs::write(&toml, "").unwrap();
            let files = ["--config.file", text(&toml), "--web.config.file", text(&yaml)];
            let printed = run(&[&["run", "--config.check"], &files[..]].concat());
            assert_ne!(printed.code, 0);
        }
    }
}

#[test]
fn arguments() {
    let raw = [b"\x1b[31m\xff\x9b".as_slice(), b"\x9b31m", b"\xe2\x80"];
    let names = NAMES.iter().map(|name| name.as_bytes()).filter(|name| !name.contains(&0));
    for name in names.chain(raw) {
        for (before, after) in [
            (&[][..], &[][..]),
            (&["no", "such"], &[]),
            (&["top", "--once", "--connect"], &[]),
            (&["top", "--once", "--replay"], &[]),
            (&["top", "--screen"], &[]),
            (&["bench", "scale"], &[]),
            (&["bench", "compare"], &["/nonexistent"]),
            (&["incidents", "--web.address"], &[]),
            (&["incidents", "--since"], &[]),
            (&["incidents", "--state.directory"], &[]),
            (&["incidents", "--http.config.file"], &[]),
            (&["run", "--config.check", "--config.file"], &[]),
            (&["run", "--config.check", "--web.config.file"], &[]),
            (&["run", "--config.check", "--log.level"], &[]),
            (&["osnoise", "--cgroup"], &[]),
            (&["osnoise", "--task"], &[]),
            (&["completions"], &[]),
        ] {
            let words = before.iter().map(OsStr::new);
            let name = [OsStr::from_bytes(name)];
            let after = after.iter().map(OsStr::new);
            let arguments: Vec<&OsStr> = words.chain(name).chain(after).collect();
            assert_ne!(run(&arguments).code, 0, "{arguments:?}");
        }
    }
}

#[test]
fn no_name_makes_a_line_of_an_error() {
    let forged = "noised: all is well";
    let name = format!("/nonexistent/x\n{forged}");
    for arguments in [
        &["trace", "delays", &name][..],
        &["run", "--config.check", "--config.file", &name],
        &["trace", &name],
        &[&name],
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_noised"));
        let output = command.args(arguments).output().unwrap();
        let said = ensure_clean(&format!("{arguments:?}"), &output.stderr);
        assert!(!output.status.success() && said.contains("x\\x0a"), "{said}");
        assert!(!said.lines().any(|line| line.starts_with(forged)), "{said}");
    }
}
