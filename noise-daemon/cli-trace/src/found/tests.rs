//! Executions that are found, in part and as wholes.

use noise_paths::document::Traced;
use noise_trace::event::{ProgramMark, TraceKind};
use noise_trace::fixtures::{self, ASLEEP, MadeEvent, MadeRecording};

use super::*;
use crate::sampled::{small, with_losses};
use noise_pages::critical_path::page;

#[test]
fn what_did_not_run_is_said() {
    let folder = small();
    let Recording::Ctf(ctf) = Recording::open(folder.path()).unwrap() else { panic!("no CTF") };
    let wanted = Wanted::Thread(4_000_000);
    let sought = Sought { name: "thread:4000000", wanted: &wanted, from_ns: None, to_ns: None };
    let reader = CtfReader::new(&ctf.layout, &ctf.streams());
    let error =
        all(Merged::one(reader), Builder::default(), Select::default(), &[sought]).unwrap_err();
    assert!(error.to_string().starts_with("thread:4000000 did not run"), "{error}");
}

/// The executions in a text of ftrace up to a time: from when until when, and whether they end then.
fn spans(text: &str, name: &str, to_ns: Option<u64>) -> Vec<(u64, u64, bool)> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace");
    std::fs::write(&file, format!("# tracer: nop\n{text}")).unwrap();
    let Recording::Text(text) = Recording::open(&file).unwrap() else { panic!("no text") };
    let wanted = name.parse().unwrap();
    let sought = Sought { name, wanted: &wanted, from_ns: None, to_ns };
    let source = Merged::one(text.reader());
    let found = all(source, Builder::default(), Select::default(), &[sought]);
    let executions = found.map(|(document, ..)| document.executions).unwrap_or_default();
    let span = |one: &Traced| (one.from_ns / 1_000_000, one.to_ns / 1_000_000, one.has_end);
    executions.iter().map(span).collect()
}

fn switch(at_ms: u64, prev: (&str, i32), state: &str, next: (&str, i32)) -> String {
    let ((prev_comm, prev), (next_comm, next)) = (prev, next);
    format!(
        "{prev_comm}-{prev} [000] d..2. {}.{:03}000: sched_switch: prev_comm={prev_comm} prev_pid={prev} \
         prev_prio=120 prev_state={state} ==> next_comm={next_comm} next_pid={next} next_prio=120\n",
        at_ms / 1000,
        at_ms % 1000
    )
}

#[test]
fn what_a_process_runs_behind_the_part_does_not_count() {
    let text = switch(1000, ("swapper", 0), "R", ("sh", 50))
        + &switch(1500, ("sh", 50), "R", ("b", 60))
        + &switch(1900, ("b", 60), "R", ("sh", 50))
        + "sh-50 [000] ..... 2.000000: sched_process_exec: filename=/bin/ls pid=50 old_pid=50\n"
        + &switch(2001, ("ls", 50), "R", ("b", 60))
        + &switch(2002, ("b", 60), "R", ("ls", 50))
        + "ls-50 [000] ..... 2.500000: sched_process_exit: comm=ls pid=50 prio=120\n"
        + &switch(2504, ("ls", 50), "X", ("swapper", 0));
    let until = |name: &str, to_ms: u64| spans(&text, name, Some(to_ms * 1_000_000));
    for name in ["process:sh", "process:50"] {
        assert_eq!(until(name, 1600), [(1000, 1600, false)], "{name}");
    }
    assert_eq!(until("process:ls", 1600), []);
    assert_eq!(until("process:ls", 2400), [(2000, 2400, false)]);
    assert_eq!(spans(&text, "process:ls", None), [(2000, 2500, true)]);
}

/// A mark of thread 5.
fn mark(begins: bool, before_ns: u64) -> MadeEvent {
    let mark = ProgramMark { begins, name: b"job", tid: 5, before_ns, ..ProgramMark::default() };
    MadeEvent::new("mark", TraceKind::Mark(mark))
}

#[test]
fn marks_that_stand_behind_the_part_are_of_their_own_time() {
    let mark = |begins, before_ms: u64| mark(begins, before_ms * 1_000_000);
    let switch = |prev, next| MadeEvent::new("sched_switch", fixtures::switch(prev, ASLEEP, next));
    // Its end is of 1800 ms; another execution begins in the part and ends behind it.
    let events = [
        (1_000, switch(0, 5)),
        (1_100, mark(true, 0)),
        (2_050, switch(5, 6)),
        (2_200, switch(6, 5)),
        (2_300, mark(false, 500)),
        (2_310, mark(true, 400)),
        (2_400, mark(false, 0)),
        (24_000, switch(5, 6)),
        (24_001, mark(true, 22_200)),
    ];
    let made = || MadeRecording::new(events.map(|(at_ms, event)| (at_ms * 1_000_000, event)));
    let wanted = "mark:job".parse().unwrap();
    let sought = |to_ms: u64| Sought {
        name: "mark:job",
        wanted: &wanted,
        from_ns: None,
        to_ns: Some(to_ms * 1_000_000),
    };
    let found = |to_ms| {
        let source = Merged::one(made());
        all(source, Builder::default(), Select::default(), &[sought(to_ms)]).unwrap().0
    };
    let document = found(2_000);
    let span = |one: &Traced| (one.from_ns / 1_000_000, one.to_ns / 1_000_000);
    assert_eq!(document.executions.iter().map(span).collect::<Vec<_>>(), [(1_100, 1_800)]);
    assert_eq!(document.delimiters[0].tally.unfinished, 1, "{:?}", document.delimiters);
    assert_eq!(found(2_500).executions.len(), 2);
}

#[test]
fn marks_of_the_part_are_found_however_many_events_they_stand_behind() {
    let to_ns = 2_000_000_000;
    let tick = MadeEvent::other("tick", &[]);
    let ticks = (1..=3 * BEYOND_EVENTS).map(|number| (to_ns + number, tick));
    // What is sent 10 s later, and read 10 s behind that.
    let late_ns = to_ns + 2 * OLDEST_MARK_NS;
    let runs = MadeEvent::new("sched_switch", fixtures::switch(0, ASLEEP, 5));
    let events = [(1_000, runs), (1_100, mark(true, 0))].into_iter().chain(ticks);
    let events = events.chain([(late_ns, mark(false, late_ns - 1_800))]);
    let (name, wanted) = ("mark:job", "mark:job".parse().unwrap());
    let sought = Sought { name, wanted: &wanted, from_ns: None, to_ns: Some(to_ns) };
    let source = Merged::one(MadeRecording::new(events));
    let (document, ..) = all(source, Builder::default(), Select::default(), &[sought]).unwrap();
    let spans = document.executions.iter().map(|one| (one.from_ns, one.to_ns));
    assert_eq!(spans.collect::<Vec<_>>(), [(1_100, 1_800)]);
}

#[test]
fn executions_that_are_over_keep_their_paths() {
    let switch = |prev, next| MadeEvent::new("", fixtures::switch(prev, ASLEEP, next));
    let waking = |tid| MadeEvent::new("", fixtures::waking(tid));
    let other = |name| MadeEvent::other(name, &[]);
    let one = |number: u64| {
        let events = [
            switch(0, 5),
            other("begin"),
            waking(6),
            switch(5, 6),
            waking(5),
            switch(6, 5),
            other("end"),
            switch(5, 0),
        ];
        (0..).map(move |event| 1_000 * number + 10 * event).zip(events)
    };
    // Many times as many events as are held before older ones are forgotten.
    let source = Merged::one(MadeRecording::new((1..=60).flat_map(one)));
    let (name, wanted) = ("event:begin..end", "event:begin..end".parse().unwrap());
    let sought = Sought { name, wanted: &wanted, from_ns: None, to_ns: None };
    let (document, ..) = all(source, Builder::default(), Select::default(), &[sought]).unwrap();
    assert_eq!(document.executions.len(), 60);
    for (number, traced) in (1..).zip(&document.executions) {
        assert_eq!((traced.from_ns, traced.to_ns), (1_000 * number + 10, 1_000 * number + 60));
        let parts =
            traced.path.iter().map(|part| (part.tid, part.state, part.to_ns - part.from_ns));
        let parts: Vec<_> = parts.collect();
        assert_eq!((parts[0], parts[1]), ((5, "running", 20), (6, "running", 10)));
        assert_eq!(traced.path.iter().map(|part| &*part.comm).max(), Some("t6"));
    }
}

#[test]
fn an_exec_behind_the_part_makes_no_thread_another_one_in_it() {
    let text = switch(1000, ("swapper", 0), "R", ("t", 51))
        + &switch(1500, ("t", 51), "S", ("b", 60))
        + "b-60 [000] d..2. 2.200000: sched_waking: comm=t pid=51 prio=120 target_cpu=000\n"
        + &switch(2300, ("b", 60), "S", ("t", 51))
        + "t-51 [000] ..... 2.500000: sched_process_exec: filename=/bin/ls pid=50 old_pid=51\n"
        + &switch(2600, ("ls", 50), "S", ("b", 60));
    let until = |name, to_ms: u64| spans(&text, name, Some(to_ms * 1_000_000));
    assert_eq!(until("thread:51", 2000), [(1000, 2000, false)]);
    assert_eq!(until("thread:50", 2000), []);
    assert_eq!(until("thread:50", 2550), [(1000, 2550, false)]);
}

#[test]
fn a_thread_without_an_event_since_it_runs_has_its_time() {
    let text = switch(1000, ("swapper", 0), "R", ("big", 50))
        + "big-50 [000] ..... 2.000000: sched_process_exit: comm=big pid=50 prio=120\n"
        + &switch(2500, ("big", 50), "X", ("swapper", 0))
        + &switch(2600, ("swapper", 0), "R", ("b", 60));
    // It exits from 2000 on.
    for (to_ms, end_ms) in [(1400, 1400), (2200, 2200), (2550, 2500)] {
        let found = spans(&text, "thread:50", Some(to_ms * 1_000_000));
        assert_eq!(found, [(1000, end_ms, to_ms > 2000)], "{to_ms}");
    }
}

#[test]
fn losses_outside_of_the_part_are_not_counted() {
    let folder = with_losses();
    let Recording::Text(text) = Recording::open(&folder.path().join("text")).unwrap() else {
        panic!("no text")
    };
    let lost = |from_ns: Option<u64>, to_ns: Option<u64>| {
        let wanted = Wanted::Thread(91);
        let sought = Sought { name: "thread:91", wanted: &wanted, from_ns, to_ns };
        let source = Merged::one(text.reader());
        let (document, _, _) =
            all(source, Builder::default(), Select::default(), &[sought]).unwrap();
        document.discarded
    };
    assert_eq!(lost(None, None), 8);
    assert_eq!(lost(Some(2_500_000_000), None), 8);
    assert_eq!(lost(Some(3_500_000_000), Some(4_500_000_000)), 0);
    assert_eq!(lost(None, Some(4_500_000_000)), 5);
}

#[test]
fn numbers_are_spread_evenly() {
    assert_eq!(spread(0).count(), 0);
    assert_eq!(spread(1).collect::<Vec<_>>(), [0]);
    assert_eq!(spread(6).collect::<Vec<_>>(), [0, 4, 2, 1, 5, 3]);
}

#[test]
fn paths_of_very_many_executions_are_left_out() {
    let switch = |at: u32, prev: u32, next: u32| {
        format!(
            "t{prev}-{prev} [000] d..2. 1.{at:06}: sched_switch: prev_comm=t{prev} prev_pid={prev} prev_prio=120 \
             prev_state=R ==> next_comm=t{next} next_pid={next} next_prio=120\n"
        )
    };
    let text: String =
        (0..1000).map(|turn| switch(2 * turn, 1, 2) + &switch(2 * turn + 1, 2, 1)).collect();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace");
    std::fs::write(&file, format!("# tracer: nop\n{text}")).unwrap();
    let Recording::Text(text) = Recording::open(&file).unwrap() else { panic!("no text") };
    let wanted = "event:sched_switch..sched_switch".parse().unwrap();
    let sought = Sought { name: "all", wanted: &wanted, from_ns: None, to_ns: None };
    let source = Merged::one(text.reader());
    let (document, _, _) =
        all(source, Builder::default(), Select::default(), std::slice::from_ref(&sought)).unwrap();
    // As many of the second half as of the first one, in their order.
    let times: Vec<u64> = document.executions.iter().map(|traced| traced.from_ns).collect();
    let late = times.iter().filter(|ns| **ns >= 1_001_000_000).count();
    assert!(late.abs_diff(times.len() - late) <= 1 && times.is_sorted(), "{late}: {times:?}");
    let parts: usize = document.executions.iter().map(|traced| traced.path.len()).sum();
    assert!((MAX_PARTS..2 * MAX_PARTS).contains(&parts), "{parts}");
    assert_eq!(document.executions.len() as u64 + document.left_out, 1998);
    assert!(page(&document, 120).text(false).contains("more executions are left out"));
    // Of others that are not there at all nothing is left out.
    let absent = Wanted::Thread(4_000_000);
    let absent = Sought { name: "thread:4000000", wanted: &absent, from_ns: None, to_ns: None };
    let source = Merged::one(text.reader());
    let error = all(source, Builder::default(), Select::default(), &[sought, absent]).unwrap_err();
    assert!(error.to_string().starts_with("thread:4000000 did not run"), "{error}");
}

#[test]
fn threads_that_are_not_needed_leave_room_for_others() {
    let fork = |tid| TraceKind::SchedProcessFork {
        parent: fixtures::task(1),
        parent_pid: 1,
        child: fixtures::task(tid),
        child_pid: tid,
    };
    // Ids come again, and no event says that a thread ends.
    let events = (0..4_000u64).flat_map(|number| {
        let (at, tid) = (1_000_000 + 1_000 * number, 7 + (number % 9) as i32);
        let of = |more, kind| (at + more, MadeEvent::new("", kind));
        [
            of(0, fork(tid)),
            of(1, fixtures::switch(1, 0, tid)),
            of(2, fixtures::switch(tid, ASLEEP, 1)),
        ]
    });
    let recording = || Merged::one(MadeRecording::new(events.clone()));
    let find = |name: &str, to_ns| {
        let wanted = name.parse().unwrap();
        let sought = Sought { name, wanted: &wanted, from_ns: None, to_ns };
        let found = all(recording(), Builder::default(), Select::default(), &[sought]);
        found.map(|(document, ..)| document.executions.len())
    };
    assert_eq!(find("thread:1", None).unwrap(), 1);
    let refused = find("process:none", None).unwrap_err().to_string();
    let words = "more than 256 threads that critical paths may need";
    assert!(refused.contains(words), "{refused}");
    let to = refused.split("--to=+0.").nth(1).and_then(|to| to.split('s').next()).unwrap();
    let to_ns = 1_000_000 + to.parse::<u64>().unwrap();
    let refused = find("process:none", Some(to_ns)).unwrap_err().to_string();
    assert!(refused.contains("did not run"), "{refused}");
}
