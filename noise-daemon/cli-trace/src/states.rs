//! `noised trace states`: how long each thread of a recording ran, waited for a CPU and slept.

use std::fmt::Write as _;

use noise_command::CommandError;
use noise_text::columns::{shorten, width};
use noise_trace::states::{StatesDocument, StatesOfThreads, ThreadTimes};

use super::analysed::{self, AnalysisArgs};

/// Threads that the page for people shows.
const SHOWN_THREADS: usize = 20;
/// Columns for the name of a thread.
const NAME_COLUMNS: usize = 24;

pub fn run(args: &AnalysisArgs) -> Result<(), CommandError> {
    analysed::run::<StatesOfThreads>(args, page)
}

fn row(page: &mut String, thread: &ThreadTimes) {
    let name = shorten(&format!("{} {}", thread.comm, thread.tid), NAME_COLUMNS);
    let space = NAME_COLUMNS.saturating_sub(width(&name));
    let _ = write!(page, "{name}{:space$}", "");
    let states = &thread.states;
    for ns in [
        states.running_ns,
        states.runnable_ns,
        states.sleeping_ns,
        states.uninterruptible_ns,
        states.stopped_ns,
        thread.unknown_ns,
    ] {
        let _ = write!(page, " {:>15.3}", ns as f64 / 1e6);
    }
    page.push('\n');
}

fn page(document: &StatesDocument) -> String {
    let seconds = document.to_ns.saturating_sub(document.from_ns) as f64 / 1e9;
    let mut page = format!("{seconds:.6} s; all times in milliseconds\n");
    if let Some(unread) = &document.unread_lines {
        let _ = writeln!(page, "{unread}");
    }
    page.push_str(&document.reach.line());
    if document.discarded > 0 {
        let _ = writeln!(page, "{} events were lost while recording", document.discarded);
    }
    let _ = write!(page, "\n{:NAME_COLUMNS$}", "thread");
    for state in ["running", "runnable", "sleeping", "uninterruptible", "stopped", "unknown"] {
        let _ = write!(page, " {state:>15}");
    }
    page.push('\n');
    document.threads.iter().take(SHOWN_THREADS).for_each(|thread| row(&mut page, thread));
    if document.threads.len() > SHOWN_THREADS {
        let more = document.threads.len() - SHOWN_THREADS;
        let _ = writeln!(page, "{more} more threads are in --json");
    }
    if !document.missing.is_empty() {
        let missing = document.missing.join(", ");
        let _ = writeln!(page, "\nnot in this recording, and so not measured: {missing}");
    }
    page
}

#[cfg(test)]
mod tests {
    use noise_trace::follow::Begin;
    use noise_trace::ftrace::FtraceReader;
    use noise_trace::select::{Select, ThreadOrProcess};

    use super::*;
    use crate::analysed::analyse;

    /// 11 waits behind 12, sleeps for a disk, and is stopped; 12 is preempted and goes on.
    const TEXT: &str = "\
 x-10 [001] d.... 10.000000: sched_switch: prev_comm=x prev_pid=10 prev_prio=120 prev_state=S ==> next_comm=b next_pid=12 next_prio=120
 b-12 [001] d.... 10.000010: sched_wakeup: comm=a pid=11 prio=120 target_cpu=001
 b-12 [001] d.... 10.000030: sched_switch: prev_comm=b prev_pid=12 prev_prio=120 prev_state=R ==> next_comm=a next_pid=11 next_prio=120
 a-11 [001] d.... 10.000050: sched_switch: prev_comm=a prev_pid=11 prev_prio=120 prev_state=D ==> next_comm=b next_pid=12 next_prio=120
 b-12 [001] d.... 10.000090: sched_wakeup: comm=a pid=11 prio=120 target_cpu=001
 b-12 [001] d.... 10.000092: sched_switch: prev_comm=b prev_pid=12 prev_prio=120 prev_state=S ==> next_comm=a next_pid=11 next_prio=120
 a-11 [001] d.... 10.000095: sched_switch: prev_comm=a prev_pid=11 prev_prio=120 prev_state=T ==> next_comm=x next_pid=10 next_prio=120
 x-10 [001] d.... 10.000100: irq_handler_entry: irq=36 name=disk
";

    fn shown(select: Select) -> String {
        let reader = FtraceReader::new(TEXT.as_bytes());
        let (document, found) =
            analyse::<StatesOfThreads>(reader, Begin::Wakeup, select, None).unwrap();
        assert!(found.damage.is_none(), "{}", found.damage);
        page(&document)
    }

    #[test]
    fn states_are_shown_as_agreed() {
        insta::assert_snapshot!(shown(Select::default()));
    }

    #[test]
    fn a_part_has_what_goes_on_of_wanted_threads() {
        let thread = Some(ThreadOrProcess::Id(12));
        let page = shown(Select { from_ns: Some(10_000_080_000), thread, ..Select::default() });
        // It runs since before that, and sleeps from 92 to 100.
        assert!(page.starts_with("0.000020 s;") && !page.contains("a 11"), "{page}");
        let row = page.lines().find(|line| line.starts_with("b 12")).unwrap();
        let cells: Vec<&str> = row.split_whitespace().skip(2).collect();
        assert_eq!(cells, ["0.012", "0.000", "0.008", "0.000", "0.000", "0.000"]);
    }
}
