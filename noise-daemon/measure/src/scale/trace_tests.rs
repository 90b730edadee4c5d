//! Traces and rankings of reports.

use super::forecast::{Question, of_noise};
use super::ranking::rank;
use super::trace::{Noise, Trace, TraceError};
use crate::sample::{Random, report, source};
use crate::{Class, Detour, DetourPart, DetourReport};

const SECOND: u64 = 1_000_000_000;

/// Ticks that take more time than the seldom long work of a thread, and hardware between.
fn sample() -> DetourReport {
    let random = |source, rate, length_ns| Random { source, rate, length_ns, burst_ns: 0 };
    let noise = [
        random(source(Class::Irq, "local_timer", 236), 1_000.0, 5_000),
        random(source(Class::Thread, "kworker/1:0", 8), 1.0, 2_000_000),
        random(source(Class::Hardware, "", 0), 0.5, 100_000),
    ];
    report(2, 10 * SECOND, &noise, 11)
}

fn detour(start_ns: u64, duration_ns: u64, parts: &[(usize, u64)]) -> Detour {
    let part = |&(source, duration_ns)| DetourPart { source, start_ns, duration_ns };
    Detour { start_ns, duration_ns, parts: parts.iter().map(part).collect() }
}

#[test]
fn shares_sum_to_the_whole_and_leave_nothing_where_one_is_all() {
    let mut report = report(1, 1_000, &[], 0);
    report.sources = vec![source(Class::Thread, "a", 1), source(Class::Irq, "b", 2)];
    report.cpus[0].detours = vec![
        detour(0, 100, &[(0, 30), (1, 10)]),
        detour(200, 77, &[(0, 13)]),
        detour(500, 50, &[]),
    ];
    let trace = Trace::new(&report, None).unwrap();
    let names: Vec<String> = trace.keys().iter().map(ToString::to_string).collect();
    assert_eq!(names, ["hardware", "irq b", "thread a"]);
    let of = |noise| (trace.overhead(noise) * 1_000.0 * 1e6).round() / 1e6;
    assert_eq!(of(Noise::All), 227.0);
    assert_eq!([0, 1, 2].map(|key| of(Noise::Alone(key))), [50.0, 25.0, 75.0 + 77.0]);
    assert_eq!([0, 1, 2].map(|key| of(Noise::Without(key))), [177.0, 202.0, 75.0]);
    // Without its only source, a detour is no hit any more.
    let without = trace.node(Noise::Without(2)).unwrap();
    assert_eq!(without.delay(200.0, 100.0), 0.0);
}

#[test]
fn cpus_are_cut_to_the_time_that_they_have_in_common() {
    let mut report = report(2, 1_000, &[], 0);
    report.cpus[1].start_ns += 400;
    report.cpus[0].detours = vec![detour(100, 200, &[]), detour(350, 100, &[])];
    report.cpus[1].detours = vec![detour(550, 100, &[]), detour(700, 100, &[])];
    let trace = Trace::new(&report, None).unwrap();
    assert_eq!(trace.length(), 600.0);
    assert_eq!(trace.overhead(Noise::All), (50.0 + 50.0) / 1_200.0);
    let alone = Trace::new(&report, Some(1)).unwrap();
    assert_eq!((alone.cpus(), alone.length()), (vec![1], 1_000.0));
    assert_eq!(Trace::new(&report, Some(5)).unwrap_err(), TraceError::NoSuchCpu(5, "0, 1".into()));
    report.cpus[1].start_ns += SECOND;
    assert_eq!(Trace::new(&report, None).unwrap_err(), TraceError::NotAtOnce("0, 1".into()));
    report.cpus[0].detours = vec![detour(0, 1_000, &[])];
    assert_eq!(Trace::new(&report, Some(0)).unwrap_err(), TraceError::AlwaysDisturbed(0));
    report.cpus.clear();
    assert_eq!(Trace::new(&report, None).unwrap_err(), TraceError::NoCpu);
}

#[test]
fn what_costs_most_here_need_not_cost_most_at_scale() {
    let trace = Trace::new(&sample(), None).unwrap();
    let ranking = rank(&trace, 1e6, &[1, 1_000, 1_000_000_000]).unwrap();
    // Ten seconds have fewer than ten thousand windows of a millisecond.
    assert_eq!(ranking.ranked_at_nodes, 1_000);
    let first = &ranking.sources[0];
    assert_eq!((first.key.to_string().as_str(), first.rank_at_scale), ("thread kworker", 1));
    assert_eq!(first.rank_local, 2);
    let sentence = ranking.sentence.as_ref().unwrap();
    assert!(sentence.starts_with("irq local_timer costs most here (0.5"), "{sentence}");
    assert!(sentence.contains("but on 1000 nodes thread kworker does"), "{sentence}");
    for source in &ranking.sources {
        assert!(source.slowdown.is_sorted() && source.overhead > 0.0, "{source:?}");
        assert!(source.gain.iter().all(|gain| gain.is_some_and(|gain| gain >= 0.0)), "{source:?}");
    }
    let alone = rank(&trace, 1e6, &[1]).unwrap();
    assert!(alone.sentence.unwrap().contains("irq local_timer costs most here"));
    assert!(rank(&trace, 6e9, &[1]).is_none() && rank(&trace, 1e6, &[]).is_none());
}

#[test]
fn numbers_beyond_the_sample_are_lower_bounds() {
    let node = Trace::new(&sample(), None).unwrap().node(Noise::All).unwrap();
    let nodes = vec![1, 1_000, 9_000, 20_000];
    let question = Question { granularities_ns: vec![1e6, 4e9, 6e9], nodes, phases: 0, seed: 1 };
    let forecasts = of_noise(&node, &question);
    let bounds = |place: usize| -> Vec<bool> {
        forecasts[place].rows.iter().map(|row| row.lower_bound).collect()
    };
    assert_eq!(bounds(0), [false, false, false, true]);
    assert_eq!(bounds(1), [false, true, true, true]);
    // Longer than half of the measurement.
    assert_eq!((forecasts[2].windows, forecasts[2].rows.len()), (Some(1), 0));
    for row in forecasts.iter().flat_map(|forecast| &forecast.rows) {
        let running = row.running.unwrap();
        assert!(running.slowdown >= row.co_scheduled.unwrap() - 1e-12, "{row:?}");
        assert!((0.0..=1.0).contains(&running.hit) && row.played.is_none(), "{row:?}");
    }
}

#[test]
fn playing_is_done_where_it_is_affordable() {
    let node = Trace::new(&sample(), Some(0)).unwrap().node(Noise::All).unwrap();
    let nodes = vec![3, 1_000_000];
    let question = Question { granularities_ns: vec![1e6], nodes, phases: 100, seed: 1 };
    let rows = &of_noise(&node, &question)[0].rows;
    assert!(rows[0].played.is_some_and(|played| played.in_time.is_some()));
    assert_eq!(rows[1].played, None);
}
