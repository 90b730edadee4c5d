//! Conditions and queries, right and wrong ones.

use noise_trace::event::Comm;
use proptest::prelude::proptest;

use super::*;
use crate::follow::NamedOwner;
use crate::input::{Endpoint, Protocol};
use crate::marker::{Family, Marker};
use crate::slices::{Ended, Key, Slice, State};
use crate::summed::wholes;
use crate::tallies::UNKNOWN;
use crate::tiers::{By, SliceShare, probability};

/// A system of one slice: httpd's worker 12 receives on port 80, for 20 ms, 5 ms of them its own.
fn system() -> System {
    let mut system = System { span: (1_000_000_000, 3_000_000_000), ..System::default() };
    let comm = |name: &str| Comm::new(name.as_bytes());
    let named =
        NamedOwner { machine: 0, tid: 12, pid: 7, comm: comm("worker-1"), process: comm("httpd") };
    system.threads.push(named);
    let [local, remote] = ["127.0.0.1:80", "127.0.0.1:40000"].map(|text| text.parse().ok());
    let end = Endpoint { protocol: Protocol::Tcp, id: 5, out: 1, into: 2, local, remote };
    system.keys.push(Key::End(end));
    let read = system.profiles.number("read");
    let profile = system.profiles.place(vec![(read, 3)]);
    system.slices.push(Slice {
        ended: Ended::Explicit,
        state: State::Kept,
        profile,
        cluster: 2,
        idle_count: 4,
        idle_ns: 8_000_000,
        idle_variance: 9e12,
        to_ns: 2_020_000_000,
        true_latency_ns: 5_000_000,
        ..Slice::begins(Marker::Receive(Family::Tcp), 0, 0, 2_000_000_000)
    });
    system.sketches.push(0);
    system.wholes = wholes(&system);
    system
}

fn holds(text: &str) -> bool {
    let query: Query = text.parse().unwrap_or_else(|error| panic!("{error}"));
    let system = system();
    query.of(&system).holds(0).unwrap()
}

#[test]
fn each_type_of_condition_holds_or_not() {
    for (yes, no) in [
        ("marker = tcp_receive", "marker = tcp_accept"),
        ("process = httpd", "process != httpd"),
        ("process = 7", "process = 12"),
        ("thread = 12", "thread = 7"),
        ("thread = worker-1", "thread = httpd"),
        ("thread = worker-*", "thread = w*x"),
        ("thread = \"worker*1\"", "thread = \"\""),
        ("key = *:80*", "key = tcp"),
        ("port = 80", "port = 8080"),
        ("port = 40000", "port != 80"),
        ("port > 39999", "port < 80"),
        ("cluster = 2", "cluster = none"),
        ("cluster >= 1", "cluster < 2"),
        ("cause = none", "cause >= 0"),
        ("sketch = 0", "sketch > 0"),
        ("sketch_slices = 1", "sketch_slices > 1"),
        ("sketch_cluster = none", "sketch_cluster = 0"),
        ("sketch_latency = 20ms", "sketch_latency > 20ms"),
        ("sketch_idle = 8ms", "sketch_idle < 8ms"),
        ("sketch_idle_count = 4", "sketch_idle_count > 4"),
        ("sketch_idle_mean = 2ms", "sketch_idle_mean > 2ms"),
        ("sketch_idle_deviation = 3ms", "sketch_idle_deviation > 3ms"),
        ("sketch_idle_variance = 9ms2", "sketch_idle_variance > 9ms2"),
        ("sketch(port = 80 and sketch = 0)", "sketch(port = 81)"),
        ("latency = 20ms", "latency > 20ms"),
        ("latency >= 20000us", "latency < 0.02s"),
        ("latency = 20000000 ns", "latency > 1min"),
        ("true_latency <= 5ms", "true_latency > 5ms"),
        ("idle = 8ms", "idle < 8ms"),
        ("idle_count = 4", "idle_count > 4"),
        ("idle_mean = 2ms", "idle_mean > 2ms"),
        ("idle_deviation = 3ms", "idle_deviation > 3ms"),
        ("idle_variance = 9ms2", "idle_variance > 9000000us2"),
        ("calls(read) = 3", "calls(write) > 0"),
        ("calls = 3", "calls < 3"),
        ("from >= +1s", "from > +1s"),
        ("to = 2020000000", "to > +1.02s"),
    ] {
        assert!(holds(yes), "{yes}");
        assert!(!holds(no), "{no}");
        assert!(holds(&format!("not {no}")), "not {no}");
    }
}

#[test]
fn calls_that_are_not_known_fulfil_no_condition() {
    let mut system = system();
    system.slices.push(system.slices[0]);
    system.slices[0].profile = UNKNOWN;
    for (text, holds) in [
        ("calls = 0", None),
        ("calls(read) != 3", None),
        ("not calls = 0", None),
        ("not (calls < 9 and port = 80)", None),
        ("calls = 0 or port = 81", None),
        ("calls = 0 or port = 80", Some(true)),
        ("not (calls = 0 and port = 81)", Some(true)),
    ] {
        let query: Query = text.parse().unwrap();
        assert_eq!(query.of(&system).holds(0), holds, "{text}");
    }
    let (all, groups) =
        probability(&system, &[0, 1], &"calls > 0".parse().unwrap(), Some(By::Process));
    let known =
        SliceShare { count: 1, holds: 1, unknown: 1, probability: Some(1.0), ..all.clone() };
    assert_eq!(all, known);
    assert_eq!(groups, Some(vec![SliceShare { group: "httpd".to_owned(), ..known }]));
}

#[test]
fn a_condition_holds_in_a_sketch_where_one_of_its_slices_fulfils_it() {
    let mut system = system();
    let first = system.slices[0];
    // The sketch 0 has the slices 0 and 2, and the sketch 1 the slice 1. The slice 2 is that of another process.
    let comm = Comm::new(b"db");
    let db = NamedOwner { machine: 0, tid: 20, pid: 20, comm, process: comm };
    system.threads.push(db);
    system.slices.push(Slice { cluster: 3, ..first });
    let (from_ns, to_ns) = (first.to_ns - 1_000_000, first.to_ns + 1_000_000);
    system.slices.push(Slice { thread: 1, from_ns, to_ns, cause: 0, ..first });
    system.sketches = vec![0, 1, 0];
    system.wholes = wholes(&system);
    for (text, expected) in [
        ("process = db", [false, false, true]),
        ("sketch(process = db)", [true, false, true]),
        ("sketch(process = db and latency = 20ms)", [false; 3]),
        ("sketch(process = db) and sketch(latency = 20ms)", [true, false, true]),
        ("sketch(cluster = 2) and cause = none", [true, false, false]),
        ("not sketch(process = db)", [false, true, false]),
        ("sketch = 1", [false, true, false]),
        ("sketch_slices = 2", [true, false, true]),
        ("sketch_latency = 21ms", [true, false, true]),
        ("sketch_idle_count = 8 and sketch_idle_variance = 9ms2", [true, false, true]),
    ] {
        let query: Query = text.parse().unwrap();
        let asked = query.of(&system);
        assert_eq!([0, 1, 2].map(|id| asked.holds(id).unwrap()), expected, "{text}");
    }
    // Calls that are not known may be those that are asked for.
    system.slices[2].profile = UNKNOWN;
    let query: Query = "sketch(calls > 5)".parse().unwrap();
    assert_eq!([0, 1].map(|id| query.of(&system).holds(id)), [None, Some(false)]);
}

#[test]
fn conditions_are_put_together() {
    for (text, is) in [
        ("marker = tcp_receive and process = httpd", true),
        ("marker = tcp_accept and process = httpd or port = 80", true),
        ("marker = tcp_accept and (process = httpd or port = 80)", false),
        ("not (marker = tcp_accept or port = 81)", true),
        ("not marker = tcp_accept and port = 80", true),
        ("not not port=80", true),
        ("(port=80)and(cluster=2)", true),
        ("  port=80  ", true),
    ] {
        assert_eq!(holds(text), is, "{text}");
    }
}

#[test]
fn what_is_wrong_is_shown_at_its_place() {
    for (text, at, expected) in [
        ("", 0, "marker, process"),
        ("   ", 3, "marker, process"),
        ("speed > 3", 0, "marker, process"),
        ("latency", 7, "=, !=, <"),
        ("latency ? 3ms", 8, "=, !=, <"),
        ("latency > 20", 10, "a time with its unit"),
        ("latency > -3ms", 10, "a time with its unit"),
        ("latency > 1e3ms", 10, "a time with its unit"),
        ("latency > 20 parsecs", 10, "a time with its unit"),
        ("idle_variance > 4ms", 16, "a square of a time"),
        ("marker = http", 9, "a marker: tcp_accept"),
        ("marker > tcp_accept", 7, "= or !="),
        ("process < httpd", 8, "= or !="),
        ("process = ", 10, "a name"),
        ("process = \"httpd", 10, "a name"),
        ("port = http", 7, "a number"),
        ("cause = some", 8, "the number of a slice, or none"),
        ("sketch_latency > 20", 17, "a time with its unit"),
        ("sketch (port = 80", 17, "`and`, `or` or `)`"),
        ("cluster = some", 10, "the number of a cluster, or none"),
        ("cause < none", 6, "= or !="),
        ("sketch_cluster >= none", 15, "= or !="),
        ("calls() > 3", 6, "the name of a system call"),
        ("calls(read > 3", 6, "the name of a system call"),
        ("from > yesterday", 7, "a time after the first event"),
        ("from > +5", 7, "a time after the first event"),
        ("port = 80 latency > 3ms", 10, "`and`, `or` or the end"),
        ("port = 80 and", 13, "marker, process"),
        ("(port = 80", 10, "`and`, `or` or `)`"),
        ("port = 80)", 9, "`and`, `or` or the end"),
        ("not", 3, "marker, process"),
    ] {
        let error = text.parse::<Query>().unwrap_err();
        assert_eq!(error.at, at, "{text}: {error}");
        assert!(error.expected.starts_with(expected), "{text}: {error}");
    }
    let error = "marker = tcp_accept and latency > 20".parse::<Query>().unwrap_err();
    let shown = "the condition cannot be understood at column 35:\n  marker = tcp_accept and latency > 20\n  \
                 \u{20}                                 ^\nhere may stand a time with its unit: ns, us, ms, s or min, \
                 such as 20ms";
    assert_eq!(error.to_string(), shown);
}

#[test]
fn what_is_too_deep_or_too_long_is_refused() {
    let deep = "(".repeat(100_000);
    assert!(deep[..1000].parse::<Query>().unwrap_err().expected.contains("fewer parentheses"));
    assert!(deep.parse::<Query>().unwrap_err().expected.contains("at most"));
}

proptest! {
    #[test]
    fn nothing_makes_the_grammar_panic(text in ".{0,60}", inside in "[a-e()=<>!\"\\\\ 0-9nots+.]{0,40}") {
        let _ = text.parse::<Query>().map_err(|error| error.to_string());
        let _ = inside.parse::<Query>().map_err(|error| error.to_string());
        let _ = format!("latency > {inside}").parse::<Query>().map_err(|error| error.to_string());
    }
}
