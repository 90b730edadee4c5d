//! PURE: a tally as rtla's users know it, and who it was.

use std::collections::BTreeMap;
use std::time::Duration;

use noise_text::table::Columns;
use noise_text::units::{count, duration, share};
use serde_json::{Value, json};

use super::tally::{CpuTally, SourceTally, Tally};
use crate::source::{CLASSES, Class, GapSource};

/// Microseconds, as rtla writes them.
fn us(ns: u64) -> String {
    (ns / 1_000).to_string()
}

/// `0 00:01:05`: days, hours, minutes, seconds.
fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    let (days, hours) = (seconds / 86_400, seconds / 3_600 % 24);
    format!("{days} {hours:02}:{:02}:{:02}", seconds / 60 % 60, seconds % 60)
}

/// One line for each CPU: how much noise, how long, how often by whom. Times are in microseconds;
/// counts are of all events, those in gaps below the threshold included, as the kernel's tracer has it.
pub fn top(tally: &Tally, passed: Duration) -> String {
    let mut text = format!("Operating system noise, duration {}, time in us\n", clock(passed));
    let mut table = Columns::new(
        0,
        &[
            "CPU",
            "Period",
            "Runtime",
            "Noise",
            "% CPU Aval",
            "Max Noise",
            "Max Single",
            "HW",
            "NMI",
            "IRQ",
            "Softirq",
            "Thread",
            "Fault",
        ],
    );
    for (number, cpu) in tally.cpus() {
        let available = cpu.available_percent();
        let mut row = vec![
            number.to_string(),
            format!("#{}", cpu.periods),
            us(cpu.runtime_ns),
            us(cpu.noise_ns),
            available.map_or_else(|| "–".to_owned(), |percent| format!("{percent:.5}")),
            us(cpu.max_noise_ns),
            us(cpu.max_single_ns),
        ];
        row.extend(CLASSES.map(|class| cpu.count(class).to_string()));
        table.push(&row);
    }
    text.push_str(&table.text());
    text
}

/// Who it was on all CPUs, most time first: `most` lines at most.
pub fn sources(tally: &Tally, most: usize) -> String {
    let whole = whole(tally);
    let mut rows: Vec<(&GapSource, SourceTally)> =
        whole.sources.iter().map(|(source, own)| (source, *own)).collect();
    rows.sort_by_key(|(source, own)| (std::cmp::Reverse(own.noise_ns), (*source).clone()));
    let mut table =
        Columns::new(1, &["source", "events", "noise", "of noise", "of runtime", "longest"]);
    let part = |ns: u64, of_ns: u64| if of_ns == 0 { 0.0 } else { ns as f64 / of_ns as f64 };
    let row = |name: String, events: String, noise_ns: u64, longest: String| {
        [
            name,
            events,
            duration(noise_ns as f64),
            share(part(noise_ns, whole.noise_ns)),
            share(part(noise_ns, whole.runtime_ns)),
            longest,
        ]
    };
    for (source, own) in rows.iter().take(most) {
        let longest = duration(own.longest_ns as f64);
        table.push(&row(label(source), count(own.count), own.noise_ns, longest));
    }
    let rest: &[_] = rows.get(most..).unwrap_or_default();
    if !rest.is_empty() {
        let sum = |of: fn(&SourceTally) -> u64| rest.iter().map(|(_, own)| of(own)).sum::<u64>();
        let longest_ns = rest.iter().map(|(_, own)| own.longest_ns).max().unwrap_or(0);
        let events = count(sum(|own| own.count));
        let name = format!("{} others", rest.len());
        table.push(&row(name, events, sum(|own| own.noise_ns), duration(longest_ns as f64)));
    }
    if whole.ways_ns != 0 {
        let name = "kernel entry/exit overhead".to_owned();
        table.push(&row(name, "–".to_owned(), whole.ways_ns, "–".to_owned()));
    }
    table.text()
}

fn label(source: &GapSource) -> String {
    match source.class {
        Class::Thread => format!("thread {}", source.name),
        _ => source.to_string(),
    }
}

fn whole(tally: &Tally) -> CpuTally {
    let mut whole = CpuTally::default();
    for cpu in tally.cpus().values() {
        whole.runtime_ns += cpu.runtime_ns;
        whole.noise_ns += cpu.noise_ns;
        whole.ways_ns += cpu.ways_ns;
        for (source, own) in &cpu.sources {
            let sum = whole.sources.entry(source.clone()).or_default();
            sum.count += own.count;
            sum.noise_ns += own.noise_ns;
            sum.longest_ns = sum.longest_ns.max(own.longest_ns);
        }
    }
    whole
}

/// Samples by length, a column for each CPU, lines without any left out, as rtla writes it.
pub fn histogram(tally: &Tally, passed: Duration) -> String {
    let shape = tally.shape();
    let mut text = format!(
        "# Operating system noise histogram\n# Time unit is {}\n# Duration: {}\n",
        if shape.bucket_ns == 1_000 {
            "microseconds (us)".to_owned()
        } else {
            format!("buckets of {}", duration(shape.bucket_ns as f64))
        },
        clock(passed)
    );
    let cpus = tally.cpus();
    let mut headings = vec!["Index".to_owned()];
    headings.extend(cpus.keys().map(|cpu| format!("CPU-{cpu:03}")));
    let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    let mut table = Columns::new(1, &headings);
    let mut line = |name: String, of: &dyn Fn(&CpuTally) -> String| {
        let mut row = vec![name];
        row.extend(cpus.values().map(of));
        table.push(&row);
    };
    for index in 0..shape.entries {
        let at = |cpu: &CpuTally| cpu.histogram.get(index).copied().unwrap_or(0);
        if cpus.values().any(|cpu| at(cpu) != 0) {
            line(index.to_string(), &|cpu| at(cpu).to_string());
        }
    }
    let none = || "–".to_owned();
    line("over:".to_owned(), &|cpu| cpu.over.to_string());
    line("count:".to_owned(), &|cpu| cpu.samples.to_string());
    line("min:".to_owned(), &|cpu| cpu.shortest_ns.map_or_else(none, us));
    line("avg:".to_owned(), &|cpu| cpu.noise_ns.checked_div(cpu.samples).map_or_else(none, us));
    line("max:".to_owned(), &|cpu| if cpu.samples == 0 { none() } else { us(cpu.max_single_ns) });
    text.push_str(&table.text());
    text
}

/// Everything, for scripts; times in nanoseconds.
pub fn json(tally: &Tally, passed: Duration) -> Value {
    let cpus: Vec<Value> = tally.cpus().iter().map(|(cpu, own)| cpu_json(*cpu, own)).collect();
    let nanoseconds = u64::try_from(passed.as_nanos()).unwrap_or(u64::MAX);
    json!({
        "format": "noised-osnoise",
        "version": 1,
        "duration_ns": nanoseconds,
        "bucket_ns": tally.shape().bucket_ns,
        "cpus": cpus,
    })
}

fn cpu_json(number: u32, cpu: &CpuTally) -> Value {
    let counts: BTreeMap<&str, u64> =
        CLASSES.iter().map(|class| (class.name(), cpu.count(*class))).collect();
    let source = |(source, own): (&GapSource, &SourceTally)| {
        json!({
            "class": source.class,
            "name": source.name,
            "id": if source.class == Class::Thread { Value::Null } else { source.id.into() },
            "events": own.count,
            "noise_ns": own.noise_ns,
            "longest_ns": own.longest_ns,
        })
    };
    let buckets = cpu.histogram.iter().enumerate().filter(|(_, samples)| **samples != 0);
    let buckets: Vec<Value> =
        buckets.map(|(index, samples)| json!({ "index": index, "samples": samples })).collect();
    json!({
        "cpu": number,
        "periods": cpu.periods,
        "runtime_ns": cpu.runtime_ns,
        "noise_ns": cpu.noise_ns,
        "available_percent": cpu.available_percent(),
        "max_noise_ns": cpu.max_noise_ns,
        "max_single_ns": cpu.max_single_ns,
        "samples": cpu.samples,
        "shortest_ns": cpu.shortest_ns,
        "events": counts,
        "ways_in_and_out_ns": cpu.ways_ns,
        "sources": cpu.sources.iter().map(source).collect::<Vec<Value>>(),
        "histogram": { "buckets": buckets, "over": cpu.over },
        "lost_samples": cpu.lost_samples,
        "lost_events": cpu.lost_events,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::osnoise::tally::sampled::tally;

    const PASSED: Duration = Duration::from_secs(93_784);

    #[test]
    fn the_top_table_has_rtlas_columns() {
        insta::assert_snapshot!(top(&tally(), PASSED));
    }

    #[test]
    fn sources_come_by_their_time_with_the_others_folded() {
        insta::assert_snapshot!(sources(&tally(), 2));
    }

    #[test]
    fn the_histogram_leaves_out_what_is_empty() {
        insta::assert_snapshot!(histogram(&tally(), PASSED));
    }

    #[test]
    fn scripts_get_everything() {
        insta::assert_snapshot!(serde_json::to_string_pretty(&json(&tally(), PASSED)).unwrap());
    }
}
