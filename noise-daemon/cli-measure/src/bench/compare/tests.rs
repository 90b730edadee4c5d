//! Arguments, pages and documents of `noised bench compare`.

use noise_command::Exit;
use noise_command::fixtures::parsed;
use noise_measure::sample::{Random, report, source};
use noise_measure::{Class, DetourReport};

use super::*;

fn args(words: &[&str]) -> Result<CompareArgs, clap::Error> {
    parsed(words)
}

fn sample(seconds: u64, worker_rate: f64, seed: u64) -> DetourReport {
    let random = |source, rate, length_ns| Random { source, rate, length_ns, burst_ns: 0 };
    let noise = [
        random(source(Class::Irq, "local_timer", 236), 250.0, 6_000),
        random(source(Class::Thread, "kworker/1:0", 8), worker_rate, 250_000),
        random(source(Class::Hardware, "", 0), 0.1, 100_000),
    ];
    report(2, seconds * 1_000_000_000, &noise, seed)
}

#[test]
fn arguments_are_read() {
    let defaults = args(&["a", "b"]).unwrap();
    assert_eq!((defaults.confidence, defaults.resamples, defaults.seed), (0.95, 2_000, 1));
    for wrong in [
        &["a"][..],
        &["a", "b", "c"],
        &["a", "b", "--confidence", "1"],
        &["a", "b", "--confidence", "95"],
        &["a", "b", "--confidence", "nan"],
        &["a", "b", "--resamples", "10"],
    ] {
        assert_eq!(args(wrong).unwrap_err().exit_code(), 2, "{wrong:?}");
    }
    let missing = args(&["/nonexistent/a", "/nonexistent/b"]).unwrap();
    assert_eq!(run(&missing).unwrap_err().exit, Exit::Failed);
}

#[test]
fn comparisons_are_printed_as_agreed() {
    let options = CompareOptions { confidence: 0.95, resamples: 500, seed: 1 };
    let compared = compare(&sample(10, 2.0, 1), &sample(20, 8.0, 2), options);
    insta::assert_snapshot!(page::page(&compared, &TimeZone::UTC));
    let mut other = sample(1, 2.0, 1);
    other.kernel = "6.18.0".to_owned();
    insta::assert_snapshot!(
        "short",
        page::page(&compare(&sample(10, 2.0, 1), &other, options), &TimeZone::UTC)
    );
}

#[test]
fn a_short_sample_is_warned_of_before_its_figures_and_takes_few_lines() {
    let random = |pid| Random {
        source: source(Class::Thread, &format!("worker{pid}"), pid),
        rate: 30.0,
        length_ns: 20_000 + u64::from(pid) * 100,
        burst_ns: 0,
    };
    let noise: Vec<Random> = (1..=30).map(random).collect();
    let [a, b] = [1, 2].map(|seed| report(1, 1_000_000_000, &noise, seed));
    let options = CompareOptions { confidence: 0.95, resamples: 100, seed: 1 };
    let text = page::page(&compare(&a, &b, options), &TimeZone::UTC);
    let line = |words: &str| text.lines().position(|line| line.contains(words)).unwrap();
    assert!(line("warning: A is too short") < line("time lost"), "{text}");
    assert!(text.lines().count() < 25, "{text}");
    assert!(text.contains("and 27 more sources, unknown"), "{text}");
}

#[test]
fn documents_have_the_unknown_as_null() {
    let options = CompareOptions { confidence: 0.9, resamples: 100, seed: 1 };
    let compared = compare(&sample(10, 2.0, 1), &sample(1, 2.0, 2), options);
    let value: serde_json::Value = serde_json::from_str(&document(&compared).unwrap()).unwrap();
    assert_eq!((&value["format"], &value["version"]), (&"noised-comparison".into(), &1.into()));
    assert_eq!((&value["confidence"], &value["from_ns"]), (&0.9.into(), &1_000.into()));
    let total = &value["total"]["lost_ns_per_second"];
    assert_eq!(total["verdict"], "unknown_too_short");
    assert!(total["difference"]["interval"].is_null() && total["ratio"]["value"].is_number());
    assert_eq!(value["sources"][0]["source"]["class"], "irq");
}
