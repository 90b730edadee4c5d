//! `noised trace delays`: how long threads, interrupts, requests and packets waited in a recording, and for
//! whom.

use std::fmt::Write as _;

use noise_command::CommandError;
use noise_text::clean::clean;
use noise_trace::delays::Delays;
use noise_trace::delays::document::{DelaysDocument, Spread, ThreadDocument};

use super::analysed::{self, AnalysisArgs};

/// Threads that the page for people shows.
const SHOWN_THREADS: usize = 20;
/// Culprits of each of them.
const SHOWN_CULPRITS: usize = 3;

pub fn run(args: &AnalysisArgs) -> Result<(), CommandError> {
    analysed::run::<Delays>(args, page)
}

/// For people, in microseconds.
fn micro(ns: u64) -> String {
    format!("{:.1}", ns as f64 / 1e3)
}

fn row(page: &mut String, name: &str, whole: &Spread, net_ns: Option<u64>) {
    let net = net_ns.map_or_else(String::new, micro);
    let (sum, max) = (micro(whole.sum_ns), micro(whole.max_ns));
    // A name may have anything in it, lines among it.
    let name = clean(name);
    let _ = writeln!(page, "  {name:<28} {:>9} {sum:>14} {net:>14} {max:>12}", whole.count);
}

fn thread(page: &mut String, thread: &ThreadDocument) {
    let name = format!("{} {}", thread.comm, thread.tid);
    for (kind, whole) in [("woken", thread.waits.wakeup), ("preempted", thread.waits.preempt)] {
        if whole.count > 0 {
            row(page, &format!("{name} {kind}"), &whole, None);
        }
    }
    for culprit in thread.culprits_following_migrations.iter().take(SHOWN_CULPRITS) {
        let who = match culprit.cause {
            "thread" => format!("{} {}", clean(&culprit.comm), culprit.tid),
            other => other.to_owned(),
        };
        let _ = writeln!(page, "    for {who:<34} {:>14}", micro(culprit.ns));
    }
}

fn page(document: &DelaysDocument) -> String {
    let mut page = String::new();
    let seconds = document.to_ns.saturating_sub(document.from_ns) as f64 / 1e9;
    let _ = writeln!(page, "{seconds:.6} s; all times in microseconds");
    if let Some(unread) = &document.unread_lines {
        let _ = writeln!(page, "{unread}");
    }
    page.push_str(&document.reach.line());
    if document.discarded > 0 {
        let _ = writeln!(page, "{} events were lost while recording", document.discarded);
    }
    let heading = |page: &mut String, what: &str| {
        let _ =
            writeln!(page, "\n{what:<30} {:>9} {:>14} {:>14} {:>12}", "count", "sum", "net", "max");
    };
    heading(&mut page, "waits for a CPU");
    let waited = |thread: &&ThreadDocument| {
        thread.waits.wakeup.count.saturating_add(thread.waits.preempt.count) > 0
    };
    let threads: Vec<_> = document.threads.iter().filter(waited).collect();
    for shown in threads.iter().take(SHOWN_THREADS) {
        thread(&mut page, shown);
    }
    if threads.len() > SHOWN_THREADS {
        let _ = writeln!(page, "  {} more threads are in --json", threads.len() - SHOWN_THREADS);
    }
    heading(&mut page, "interrupts");
    for handler in &document.hardirq {
        let irq = handler.irq.map(|irq| format!("{irq} ")).unwrap_or_default();
        row(&mut page, &format!("{irq}{}", handler.name), &handler.whole, Some(handler.net_ns));
    }
    for vector in &document.vector {
        row(&mut page, &vector.name, &vector.whole, Some(vector.net_ns));
    }
    heading(&mut page, "softirqs");
    for softirq in &document.softirq {
        row(&mut page, softirq.name, &softirq.whole, Some(softirq.net_ns));
    }
    heading(&mut page, "from raise to softirq");
    for raise in &document.softirq_raise_wait {
        row(&mut page, raise.name, &raise.whole, None);
    }
    for (what, devices) in [
        ("block requests in the queue", &document.block_queue_wait),
        ("block requests on the device", &document.block_device_wait),
    ] {
        if !devices.is_empty() {
            heading(&mut page, what);
        }
        for device in devices {
            row(&mut page, &device.name, &device.whole, None);
        }
    }
    for (signal, interfaces) in &document.packets {
        if !interfaces.is_empty() {
            heading(&mut page, signal.info().listed);
        }
        for interface in interfaces {
            row(&mut page, &interface.interface, &interface.whole, None);
        }
    }
    if !document.missing.is_empty() {
        let _ = writeln!(
            page,
            "\nnot in this recording, and so not measured: {}",
            document.missing.join(", ")
        );
    }
    page
}

#[cfg(test)]
mod tests {
    use noise_text::clean::is_harmful;
    use noise_trace::analysis::Analysis as _;
    use noise_trace::ctf::CtfReader;
    use noise_trace::follow::Begin;
    use noise_trace::select::Select;

    use super::*;
    use crate::analysed::analyse;
    use crate::recording::Recording;
    use crate::sampled::small;

    #[test]
    fn names_of_others_make_no_lines() {
        use noise_trace::event::{Comm, Event, Task, TraceKind, Woken};
        use noise_trace::state::LeftIn;
        let task = |tid, name: &[u8]| Task { comm: Comm::new(name), tid, prio: 120 };
        let page_of = |name: &'static [u8]| {
            let mut delays = Delays::new(Begin::Wakeup);
            let [one, other] = [1, 2].map(|tid| task(tid, name));
            let switch =
                |prev, next| TraceKind::SchedSwitch { prev, prev_state: LeftIn::of(1), next };
            let kinds = [
                switch(other, one),
                TraceKind::SchedWakeup(Woken { task: other, target_cpu: 0 }),
                TraceKind::IrqHandlerEntry { irq: 7, name },
                TraceKind::IrqHandlerExit { irq: 7, ret: 1 },
                switch(one, other),
            ];
            for (time_ns, kind) in (1..).zip(kinds) {
                delays.follow(&Event { time_ns: 1000 * time_ns, cpu: 0, kind });
            }
            page(&delays.finish(|_| true, None))
        };
        let plain = page_of(b"plain");
        assert_eq!(plain.matches("plain").count(), 3, "{plain}");
        for name in [&b"a\n\x1b[2Jwaits"[..], b"a\r\tb", b"\xe2\x80\xaeexe.txt"] {
            let page = page_of(name);
            assert_eq!(page.lines().count(), plain.lines().count(), "{page}");
            assert!(page.chars().all(|c| c == '\n' || !is_harmful(c)), "{page}");
        }
    }

    fn shown(select: Select) -> String {
        let folder = small();
        let Recording::Ctf(ctf) = Recording::open(folder.path()).unwrap() else { panic!("no CTF") };
        let files = ctf.streams();
        let reader = CtfReader::new(&ctf.layout, &files);
        let (document, found) = analyse::<Delays>(reader, Begin::default(), select, None).unwrap();
        assert!(found.damage.is_none(), "{}", found.damage);
        // The parts of these tests lie behind the end.
        assert_eq!(found.is_empty, found.is_part);
        page(&document)
    }

    #[test]
    fn delays_are_shown_as_agreed() {
        insta::assert_snapshot!(shown(Select::default()));
    }

    #[test]
    fn of_a_part_only_what_ended_in_it_counts() {
        let page = shown(Select { from_ns: Some(u64::MAX), ..Select::default() });
        assert!(page.starts_with("0.000000 s;"), "{page}");
        assert!(!page.contains("eth0 "), "{page}");
    }

    #[test]
    fn waits_of_a_text_begin_with_the_event_that_it_has() {
        let waits = |woken: &str| {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("trace");
            let text = format!(
                "<idle>-0 [000] 1.000100: {woken}: comm=b pid=2 prio=120 target_cpu=000\n<idle>-0 [000] 1.000150: \
                 sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=b next_pid=2 \
                 next_prio=120\n"
            );
            std::fs::write(&path, text).unwrap();
            let Recording::Text(text) = Recording::open(&path).unwrap() else { panic!("no text") };
            let (document, _) =
                analyse::<Delays>(text.reader(), text.begin(), Select::default(), None).unwrap();
            document.threads.iter().map(|thread| thread.waits.wakeup.sum_ns).sum::<u64>()
        };
        assert_eq!((waits("sched_waking"), waits("sched_wakeup")), (50_000, 50_000));
    }
}
