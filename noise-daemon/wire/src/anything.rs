//! Frames with some of everything, for tests.

use std::sync::Arc;

use jiff::Timestamp;
use noise_analysis::{
    Beside, Cause, Ending, Episode, KeptTrace, Level, Overview, Remedy, Report, ReportedOutlier,
    Time, Watched, made,
};
use noise_common::charge::{Charged, Resource};
use noise_common::hist::BUCKETS;
use noise_common::hooks::HOOKS;
use noise_common::loss::LOSSES;
use noise_common::signals::{SIGNALS, Signal};
use noise_model::{
    Count, Histogram, HookSample, Interference, Labels, OutlierPart, OutlierRecord, Sample, Series,
};
use noise_text::clean::clean;
use noise_verdict::Advice;
use proptest::prelude::{Strategy, any};

use super::Frame;
use super::sampled::host;

fn outlier(number: u64) -> OutlierRecord {
    OutlierRecord {
        at_ns: 0,
        wait_ns: number,
        victim: "/web.slice".into(),
        pid: 7,
        comm: "web".into(),
        cpu: 1,
        made_runnable: "wakeup".into(),
        parts: vec![OutlierPart {
            culprit: "eth0".into(),
            cause: Cause::Hardirq,
            pid: 0,
            comm: "".into(),
            ns: number / 2,
        }],
        rest_ns: number - number / 2,
    }
}

fn beside(number: u64) -> Beside {
    let advice = Advice {
        remedy: Remedy::CpuWeight,
        now: Some("cpu.weight is 100".to_owned()),
        commands: vec![format!("echo {number}")],
        undo: vec![format!("echo 0 {number}")],
    };
    Beside {
        pressure: None,
        advice: Some(vec![advice, Advice::plain(Remedy::HugePages)]),
        advised_culprit: number.is_multiple_of(2).then(|| "/hog".into()),
        advised_interrupt: number.is_multiple_of(3).then(|| "eth0".into()),
    }
}

fn report(number: u64) -> Report {
    let level = Level { p50_ns: Some(number), p99_ns: None, mean_ns: None, rate: 0.5, lost: 1e-9 };
    let time = Time { seconds: 0.25, share: 1.0 };
    let main = Episode {
        signal: Signal::RunqueueWait.into(),
        start: Timestamp::from_second(1).unwrap(),
        end: Timestamp::from_nanosecond(i128::from(number)).unwrap(),
        seconds: 12.5,
        ending: Some(Ending::Over),
        before: level,
        after: level,
        lost_seconds: -0.0,
        culprits: vec![made::culprit("/hog", Cause::Foreign, time)],
        others: time,
        remedies: vec![Remedy::CpuWeight],
        ..made::blank("/web.slice")
    };
    Report {
        untold: 3,
        beside: beside(number),
        ..Report::new(number, number.is_multiple_of(2), main.clone(), vec![main])
    }
}

/// Frames with some of everything.
pub fn frames() -> impl Strategy<Value = Frame> {
    let numbers = proptest::collection::vec(any::<u64>(), 1..20);
    // What is read has been cleaned.
    let text = ".{0,20}".prop_map(|text| clean(&text).into_owned());
    (numbers, any::<u32>(), text).prop_map(|(numbers, seconds, text)| {
        let pick = |number: u64, len: usize| (number % len as u64) as usize;
        let mut sample = Sample { at_ns: numbers[0], ..Sample::default() };
        let mut overview = Overview::default();
        for number in numbers {
            let signal = SIGNALS[pick(number, SIGNALS.len())].signal;
            let labels = Labels::from([text.clone(), number.to_string()]);
            let totals = Histogram::new(number, [(pick(number, BUCKETS), number)]);
            let series = Series { signal, labels: labels.clone(), totals, recent_max_ns: number };
            sample.series.push(series);
            sample.counts.push(Count { signal, labels, total: number });
            sample.interference.push(Interference {
                resource: Resource::Running,
                cause: Cause::Softirq,
                place: text.as_str().into(),
                victim: "/web.slice".into(),
                culprit: number.to_string().into(),
                charged: Charged { ns: number, count: 1 },
            });
            sample.outliers.push(outlier(number));
            sample.interrupted.push((number as u32, "softirq".into(), number));
            sample.waited.push((number as u32, number));
            sample.stolen.push((number as u32, number));
            sample.page_faults.push(("major".into(), number));
            sample.drops.push((signal, LOSSES[pick(number, LOSSES.len())], number));
            let hook = HOOKS[pick(number, HOOKS.len())];
            let hook = HookSample { hook, attached: true, runs: number, run_ns: 1, missed: 0 };
            sample.hooks.push(hook);
            sample.absent.push((signal, text.clone()));
            sample.folded.push(("metric".into(), number));
            overview.incidents.push(Arc::new(report(number)));
            let time = Timestamp::from_second(i64::from(seconds)).unwrap();
            overview.outliers.push(Arc::new(ReportedOutlier { time, wait: outlier(number) }));
            let waits = vec![text.as_str().into(); pick(number, 3)];
            let trouble = number.is_multiple_of(2).then(|| text.as_str().into());
            overview.traces.push(Arc::new(KeptTrace {
                events: number,
                waits,
                trouble,
                ..KeptTrace::without(number, time, &text)
            }));
            let watched: Vec<_> = Watched::all().collect();
            overview.no_room = number;
            overview.opened.push((watched[pick(number, watched.len())], number));
        }
        let time = Timestamp::from_second(i64::from(seconds)).unwrap();
        Frame { time, host: Arc::new(host()), sample: Arc::new(sample), overview, trends: None }
    })
}
