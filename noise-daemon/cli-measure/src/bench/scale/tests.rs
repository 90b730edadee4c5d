//! Arguments, pages and documents of `noised bench scale`.

use noise_command::Exit;
use noise_command::fixtures::parsed;
use noise_measure::Class;
use noise_measure::sample::{Random, report, source};

use super::*;

fn args(words: &[&str]) -> Result<ScaleArgs, clap::Error> {
    parsed(words)
}

fn sample() -> DetourReport {
    let random = |source, rate, length_ns| Random { source, rate, length_ns, burst_ns: 0 };
    let noise = [
        random(source(Class::Irq, "local_timer", 236), 250.0, 6_000),
        random(source(Class::Softirq, "net_rx", 3), 40.0, 12_000),
        random(source(Class::Thread, "kworker/1:0", 8), 0.4, 2_500_000),
        random(source(Class::Hardware, "", 0), 0.5, 100_000),
    ];
    report(2, 10_000_000_000, &noise, 11)
}

fn printed(words: &[&str], report: Option<&DetourReport>) -> ScalingDocument {
    let args = args(words).unwrap();
    match (report, args.period, args.length) {
        (Some(report), ..) => args.measured(report).unwrap(),
        (None, Some(period_ns), Some(length_ns)) => args.periodic(period_ns, length_ns).unwrap(),
        _ => panic!("{words:?}"),
    }
}

#[test]
fn arguments_are_read() {
    let defaults = args(&["a.json"]).unwrap();
    assert_eq!(defaults.granularity, [1e5, 1e6, 1e7, 1e8]);
    assert_eq!(defaults.nodes.len(), 8);
    assert_eq!((defaults.simulate, defaults.seed, defaults.cpu), (None, 1, None));
    let words = ["--period", "100ms", "--length", "2500us", "--nodes", "1,1e7"];
    let periodic = args(&words).unwrap();
    assert_eq!((periodic.period, periodic.length), (Some(1e8), Some(2.5e6)));
    assert_eq!(periodic.nodes, [1, 10_000_000]);
    for wrong in [
        &[][..],
        &["a.json", "b.json"],
        &["--period", "1ms"],
        &["--length", "1ms"],
        &["a.json", "--period", "1ms", "--length", "1us"],
        &["--period", "1ms", "--length", "1us", "--cpu", "1"],
        &["a.json", "--granularity", "0"],
        &["a.json", "--nodes", "0"],
        &["a.json", "--nodes", ""],
        &["a.json", "--simulate", "1"],
    ] {
        assert_eq!(args(wrong).unwrap_err().exit_code(), 2, "{wrong:?}");
    }
}

#[test]
fn what_cannot_be_is_a_usage_error() {
    let words = ["--period", "1ms", "--length", "1ms"];
    let error = args(&words).unwrap().periodic(1e6, 1e6).unwrap_err();
    assert!(error.exit == Exit::Usage && error.to_string().contains("shorter than --period"));
    let error = args(&["a", "--cpu", "7"]).unwrap().measured(&sample()).unwrap_err();
    assert!(error.exit == Exit::Usage && error.to_string().contains("this report has 0, 1"));
    let missing = args(&["/nonexistent/a.json"]).unwrap();
    assert_eq!(run(&missing).unwrap_err().exit, Exit::Failed);
}

#[test]
fn measured_noise_is_printed_as_agreed() {
    let words = ["a", "--granularity", "1ms,100ms,6s", "--nodes", "1,100,1e4,1e6"];
    insta::assert_snapshot!(page::page(&printed(&words, Some(&sample()))));
}

#[test]
fn periodic_noise_is_printed_as_agreed() {
    let words = ["--period", "100ms", "--length", "2500us", "--granularity", "100us"];
    let more = ["--nodes", "1,100,1e7", "--simulate", "200"];
    insta::assert_snapshot!(page::page(&printed(&[&words[..], &more].concat(), None)));
}

#[test]
fn documents_have_no_holes() {
    let words = ["a", "--granularity", "1ms,6s", "--nodes", "1,1e3,1e6", "--simulate", "20"];
    let document = serde_json::to_value(printed(&words, Some(&sample()))).unwrap();
    assert_eq!((&document["format"], &document["version"]), (&"noised-scale".into(), &1.into()));
    assert_eq!(document["noise"]["measured"]["cpus"], serde_json::json!([0, 1]));
    let forecasts = document["forecasts"].as_array().unwrap();
    let row = &forecasts[0]["rows"][2];
    assert_eq!((&row["nodes"], &row["lower_bound"]), (&1_000_000.into(), &true.into()));
    for number in ["/running/slowdown", "/running/hit", "/anytime/slowdown", "/co_scheduled"] {
        assert!(row.pointer(number).unwrap().is_number(), "{number}");
    }
    assert!(row["played"].is_null() && forecasts[0]["rows"][0]["played"].is_object());
    assert_eq!(forecasts[1]["rows"], serde_json::json!([]));
    let first = &document["ranking"]["sources"][0];
    assert_eq!((&first["class"], &first["name"]), (&"thread".into(), &"kworker".into()));
    assert_eq!(document["warnings"].as_array().unwrap().len(), 2);
}
