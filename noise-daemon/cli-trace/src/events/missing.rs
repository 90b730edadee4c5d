//! PURE: what a summary says of events that were lost, and of switches that are not recorded though none was.

use noise_text::clean::clean;
use noise_text::table::Columns;
use noise_text::units::{duration, share};
use noise_trace::ctf::write::BUFFER_BYTES;
use noise_trace::summary::{Loss, TraceSummary, UnpairedSwitches, UnpairedThread};

/// Losses that are shown, and threads.
const SHOWN: usize = 10;
/// Threads in a sentence.
const NAMED: usize = 3;

/// How many events were lost and where, in a recording that begins then; nothing if none were.
pub fn losses(summary: &TraceSummary, begin_ns: u64) -> String {
    let (events, packets) = (summary.discarded, summary.discarded_packets);
    if events == 0 && packets == 0 {
        return String::new();
    }
    let in_packets = match packets {
        0 => String::new(),
        1 => ", and 1 packet with an unknown number of events".to_owned(),
        many => format!(", and {many} packets with an unknown number of events"),
    };
    let places = match summary.losses.count() {
        1 => "in one place".to_owned(),
        many if many > SHOWN as u64 => {
            format!("in {many} places; the {SHOWN} worst (--json has all of them)")
        }
        many => format!("in {many} places"),
    };
    let mut text =
        format!("lost while recording: {}{in_packets}, {places}:\n", of(events, "event"));
    let mut table = Columns::new(0, &["events", "packets", "CPU", "from", "to", "length"]);
    for Loss { cpu, from_ns, to_ns, events, packets } in summary.losses.worst(SHOWN) {
        let at = |ns: u64| format!("+{:.6}s", ns.saturating_sub(begin_ns) as f64 / 1e9);
        let length = duration(to_ns.saturating_sub(from_ns) as f64);
        let counts = [events.to_string(), packets.to_string(), cpu.to_string()];
        table.push(&[counts.as_slice(), &[at(from_ns), at(to_ns), length]].concat());
    }
    text.extend(table.text().lines().map(|line| format!("  {line}\n")));
    text.push_str(&remedy(summary));
    text
}

/// What loses fewer events, if `noised record` recorded it with programs of its own.
fn remedy(summary: &TraceSummary) -> String {
    let text = |name: &str| summary.environment.get(name).map_or("", String::as_str);
    if !text("recorded_by").starts_with("noised ") {
        return String::new();
    }
    let bytes = text(BUFFER_BYTES).parse::<u64>().ok();
    bytes.map_or_else(String::new, |bytes| {
        format!(
            "The buffer of each CPU had {} KiB: with a larger --buffer, `noised record` loses fewer events.\n",
            bytes / 1024
        )
    })
}

/// Which switches lack their other half; nothing if none do.
pub fn unpaired(unpaired: &UnpairedSwitches) -> String {
    let UnpairedSwitches { switches, count, cpus, threads } = unpaired;
    if *count == 0 {
        return String::new();
    }
    let part = share(*count as f64 / (*switches).max(1) as f64);
    let mut by_cpu: Vec<_> = cpus.iter().collect();
    by_cpu.sort_by_key(|(cpu, count)| (std::cmp::Reverse(**count), **cpu));
    let more = by_cpu.len().saturating_sub(SHOWN);
    let mut on: Vec<_> =
        by_cpu.iter().take(SHOWN).map(|(cpu, count)| format!("{count} on CPU {cpu}")).collect();
    if more > 0 {
        on.push(format!("others on {}", of(more as u64, "further CPU")));
    }
    let mut text = format!(
        "{count} of {} without the other half ({part}): {}. No event was lost there: no switch is recorded by which the CPU \
         left {}.\n",
        of(*switches, "switch"),
        on.join(", "),
        named(threads.iter(), true),
    );
    let hidden: Vec<_> = threads.iter().filter(|thread| thread.is_hidden).collect();
    if !hidden.is_empty() {
        text.push_str(&format!(
            "Hidden threads: {}. No switch away from them is recorded, and what a CPU does while they run is not seen.\n",
            named(hidden.into_iter(), false),
        ));
    }
    text
}

/// The first few of some threads, with how often each left its CPU unseen, or without.
fn named<'t>(threads: impl Iterator<Item = &'t UnpairedThread>, with_counts: bool) -> String {
    let mut names = Vec::new();
    let mut more = 0_u64;
    for UnpairedThread { tid, comm, pid, count, .. } in threads {
        if names.len() >= NAMED {
            more += 1;
            continue;
        }
        let process = match pid {
            Some(pid) if pid != tid => format!(" of process {pid}"),
            _ => String::new(),
        };
        let times = match count {
            _ if !with_counts => String::new(),
            1 => " (once)".to_owned(),
            many => format!(" ({many} times)"),
        };
        names.push(format!("{} {tid}{process}{times}", clean(comm)));
    }
    if more > 0 {
        names.push(of(more, "other thread"));
    }
    match names.as_slice() {
        [] => "a thread".to_owned(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

fn of(count: u64, what: &str) -> String {
    let end = match count {
        1 => "",
        _ if what.ends_with("ch") => "es",
        _ => "s",
    };
    format!("{count} {what}{end}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use noise_trace::clock::TraceClock;
    use noise_trace::damage::Damage;
    use noise_trace::ftrace::FtraceReader;
    use noise_trace::record::Source as _;

    use super::*;
    use crate::sampled::with_losses;

    fn summary(text: &str, environment: &[(&str, &str)]) -> TraceSummary {
        let environment: BTreeMap<String, String> =
            environment.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        let mut summary = TraceSummary::new(&TraceClock::trace(), environment);
        let mut reader = FtraceReader::new(text.as_bytes());
        while let Some(record) = reader.read() {
            summary.add(&record);
        }
        summary.finish(&Damage::default());
        summary
    }

    #[test]
    fn losses_are_shown_with_their_places() {
        let folder = with_losses();
        let text = std::fs::read_to_string(folder.path().join("text")).unwrap();
        let shown = |environment: &[(&str, &str)]| {
            let summary = summary(&text, environment);
            losses(&summary, summary.from_ns)
        };
        let table = "\
lost while recording: 8 events, in 2 places:
  events  packets  CPU        from          to  length
       5        0    0  +2.000000s  +3.000000s  1.00 s
       3        0    0  +5.000000s  +6.000000s  1.00 s
";
        assert_eq!(shown(&[]), table);
        assert_eq!(shown(&[("recorded_by", "another"), (BUFFER_BYTES, "8388608")]), table);
        let own = shown(&[("recorded_by", "noised 1"), (BUFFER_BYTES, "8388608")]);
        let remedy = "The buffer of each CPU had 8192 KiB: with a larger --buffer, `noised record` loses fewer events.\n";
        assert_eq!(own, format!("{table}{remedy}"));
        assert_eq!(shown(&[("recorded_by", "noised 1")]), table);
        assert_eq!(unpaired(&summary(&text, &[]).unpaired_switches), "");
    }

    #[test]
    fn of_many_losses_the_worst_are_shown() {
        let line = |at: usize| {
            format!(
                "CPU:0 [LOST {} EVENTS]\n a-1 [000] d..2. {at}.5: sched_process_exit: comm=a pid=1 prio=120\n",
                at + 1
            )
        };
        let text: String = (0..12).map(line).collect();
        let summary = summary(&text, &[]);
        let shown = losses(&summary, summary.from_ns);
        let (events, places) = (summary.discarded, summary.losses.count());
        let first = format!(
            "lost while recording: {events} events, in {places} places; the 10 worst (--json has all of them):\n"
        );
        assert!(shown.starts_with(&first), "{shown}");
        assert_eq!(shown.lines().count(), 12);
        assert!(shown.lines().nth(2).unwrap().trim_start().starts_with("12 "), "{shown}");
        let json = serde_json::to_value(&summary).unwrap();
        assert_eq!(json["losses"].as_array().unwrap().len() as u64, places);
    }

    fn switch(at: u32, cpu: u32, prev: i32, next: i32) -> String {
        format!(
            " t{prev}-{prev} [{cpu:03}] d..2. {at}.0: sched_switch: prev_comm=t{prev} prev_pid={prev} prev_prio=120 \
             prev_state=S ==> next_comm=t{next} next_pid={next} next_prio=120\n"
        )
    }

    #[test]
    fn switches_without_the_other_half_are_no_lost_events() {
        let text: String = [
            switch(1, 0, 7, 1),
            switch(2, 0, 8, 1),
            switch(3, 0, 8, 7),
            switch(4, 1, 9, 5),
            switch(5, 1, 5, 9),
            switch(6, 1, 5, 9),
        ]
        .concat();
        let summary = summary(&text, &[]);
        assert_eq!(losses(&summary, 0), "");
        assert_eq!(
            unpaired(&summary.unpaired_switches),
            "3 of 6 switches without the other half (50.0 %): 2 on CPU 0, 1 on CPU 1. No event was lost there: no switch is \
             recorded by which the CPU left t1 1 (2 times) and t9 9 (once).\n\
             Hidden threads: t1 1. No switch away from them is recorded, and what a CPU does while they run is not seen.\n"
        );
        let json = serde_json::to_value(&summary).unwrap();
        let expected = serde_json::json!({
            "switches": 6, "count": 3, "cpus": {"0": 2, "1": 1},
            "threads": [
                {"tid": 1, "comm": "t1", "count": 2, "hidden": true},
                {"tid": 9, "comm": "t9", "count": 1, "hidden": false},
            ],
        });
        assert_eq!(json["unpaired_switches"], expected);
        assert_eq!((&json["discarded"], &json["losses"]), (&0.into(), &serde_json::json!([])));
    }

    #[test]
    fn of_many_threads_some_are_named() {
        let thread = |tid: i32| UnpairedThread {
            tid,
            comm: "a\n".to_owned(),
            pid: Some(1),
            count: 1,
            is_hidden: false,
        };
        let threads: Vec<_> = (1..=5).map(thread).collect();
        let all = "a\\x0a 1, a\\x0a 2 of process 1, a\\x0a 3 of process 1 and 2 other threads";
        assert_eq!(named(threads.iter(), false), all);
        assert_eq!(named(threads[..1].iter(), true), "a\\x0a 1 (once)");
    }
}
