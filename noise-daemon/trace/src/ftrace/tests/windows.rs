//! Texts that are read in windows.

use std::cell::Cell;
use std::io;

use proptest::prelude::{Just, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};

use crate::damage::Damage;
use crate::ftrace::lines::{Lines, Next};
use crate::ftrace::{FtraceReader, Survey};
use crate::record::Source as _;
use crate::window::cut::Cut;
use crate::window::{Content, ReadAt};

/// All that a text says.
type All = (Vec<(u64, u32, String)>, Damage);

fn read(reader: &mut FtraceReader<'_>) -> Vec<(u64, u32, String)> {
    let mut all = Vec::new();
    while let Some(record) = reader.read() {
        let said = format!("{:?} {:?} {:?}", record.name(), record.kind(), record.stored());
        // Whether the survey found another event unsound is nothing that this one says.
        all.push((record.time_ns, record.cpu, said.replace("is_sound: true", "is_sound: false")));
    }
    all
}

fn held(text: &[u8]) -> All {
    let mut reader = FtraceReader::new(text);
    (read(&mut reader), reader.damage())
}

fn in_windows(content: Content<'_>, window: usize) -> All {
    let survey = Survey::in_windows(content, window);
    let mut reader = FtraceReader::in_windows(content, &survey, window);
    (read(&mut reader), reader.damage())
}

/// A line, and often one that goes back in time.
fn line() -> impl Strategy<Value = String> {
    let event = (0..4_u32, 0..40_u32, 0..60_usize).prop_map(|(cpu, us, long)| {
        let comm = "c".repeat(1 + long);
        format!("{comm}-{us} [{cpu:03}] d..2. 1.{us:06}: sched_waking: comm={comm} pid={us} prio=120 target_cpu=002")
    });
    let misread = (0..4_u32, 0..40_u32).prop_map(|(cpu, us)| {
        format!("a-{us} [{cpu:03}] d..2. 1.{us:06}: irq_handler_exit: irq=x ret=handled")
    });
    let unnamed = (0..4_u32, 0..40_u32)
        .prop_map(|(cpu, us)| format!("a-{us} [{cpu:03}] d..2. 1.{us:06}: schedule <-do_idle"));
    let other = prop_oneof![
        Just("# entries-in-buffer/entries-written: 3/8   #P:2".to_owned()),
        (0..4_u32).prop_map(|cpu| format!("CPU:{cpu} [LOST 12 EVENTS]")),
        (0..4_u32).prop_map(|cpu| format!("##### CPU {cpu} buffer started ####")),
        Just(String::new()),
        ".{0,40}",
    ];
    prop_oneof![16 => event, 1 => misread, 4 => unnamed, 8 => other]
}

proptest! {
    #[test]
    fn all_windows_show_what_the_whole_text_does(
        lines in proptest::collection::vec((line(), any::<bool>()), 0..40),
        window in 1..300_usize,
        left_out in 0..3_usize,
    ) {
        let end = |is_crlf: &bool| if *is_crlf { "\r\n" } else { "\n" };
        let text: String = lines.iter().map(|(line, is)| format!("{line}{}", end(is))).collect();
        let text = text.as_bytes();
        // The last line may have no end.
        let text = text.get(..text.len().saturating_sub(left_out)).unwrap();
        let whole = held(text);
        // Checking each event again changes nothing.
        let mut doubted = Survey::of(Content::Held(text));
        doubted.misread = 1;
        let checked = read(&mut FtraceReader::of(Content::Held(text), &doubted));
        prop_assert_eq!(&checked, &whole.0);
        prop_assert!(whole.0.is_sorted_by_key(|(time_ns, ..)| *time_ns));
        prop_assert_eq!(in_windows(Content::Read(&Cut::never(text)), window), whole);
    }

    #[test]
    fn what_was_cut_off_meanwhile_is_counted(
        lines in proptest::collection::vec(line(), 1..40),
        window in 1..600_usize,
        reads in 1..200_usize,
        to: u16,
        is_broken: bool,
    ) {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let text = text.as_bytes();
        let to = usize::from(to) % text.len();
        let file = Cut { bytes: text, reads: Cell::new(reads), to, is_broken };
        let content = Content::Read(&file);
        let survey = Survey::in_windows(content, window);
        let mut reader = FtraceReader::in_windows(content, &survey, window);
        let found = read(&mut reader);
        let (all, whole) = (held(text).0, held(text).1);
        let damage = reader.damage();
        let events = |all: &[(u64, u32, String)]| {
            let events = all.iter().filter(|(.., said)| !said.contains("lost"));
            events.cloned().collect::<Vec<_>>()
        };
        // What is there is true, and what is not there is counted.
        let (found, all) = (events(&found), events(&all));
        prop_assert!(found.iter().all(|event| all.contains(event)));
        let missing = damage.missing_bytes as usize;
        prop_assert!(missing <= text.len() - to, "{}", damage);
        if damage.missing_bytes + damage.unread_bytes == 0 {
            prop_assert_eq!((found, damage), (all, whole));
            return Ok(());
        }
        let why = if is_broken { "(the disk fails)" } else { "became shorter while it was read" };
        let said = damage.sentences.iter().filter(|sentence| sentence.contains(why)).count();
        prop_assert!(said == 1 || damage.more > 0, "{}", damage);
    }
}

#[test]
fn what_was_cut_off_behind_the_first_look_is_counted_to_the_byte() {
    let line =
        |us: u32| format!("a-1 [000] d..2. 1.{us:06}: sched_process_exit: comm=a pid=1 prio=120\n");
    let text: String = [1, 3, 5, 2, 4, 6].map(line).concat();
    let length = line(1).len();
    for to in 0..text.len() {
        let file = Cut { to, ..Cut::never(text.as_bytes()) };
        let content = Content::Read(&file);
        let survey = Survey::in_windows(content, 8);
        file.reads.set(1);
        let mut reader = FtraceReader::in_windows(content, &survey, 8);
        assert_eq!(read(&mut reader).len(), to / length, "{to}");
        let damage = reader.damage();
        let (left, missing) = ((to % length) as u64, (text.len() - to) as u64);
        assert_eq!((damage.unread_bytes, damage.missing_bytes), (left, missing), "{to}");
        assert_eq!(damage.sentences, ["the file became shorter while it was read"]);
    }
}

/// A text of 1 GiB, of which no more than a window is in memory.
struct Repeated<'l> {
    line: &'l [u8],
    most: Cell<usize>,
}

impl ReadAt for Repeated<'_> {
    fn length(&self) -> u64 {
        1 << 30
    }

    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        self.most.set(self.most.get().max(into.len()));
        let begin = (at % self.line.len() as u64) as usize;
        for (byte, of) in into.iter_mut().zip(self.line.iter().cycle().skip(begin)) {
            *byte = *of;
        }
        Ok(into.len())
    }
}

#[test]
fn a_line_that_is_too_long_is_not_read_and_costs_no_more_than_one_may_have() {
    let text = Repeated { line: b" ", most: Cell::new(0) };
    let mut lines = Lines::new(Content::Read(&text), (0, 8 << 20), 4096);
    assert!(matches!(lines.next(), Some(Next::Long)));
    assert!(lines.next().is_none());
    assert!(text.most.get() <= (1 << 20) + 1, "{} bytes at once", text.most.get());

    let event = |us: u32, comm: &str| {
        format!("a-1 [000] d..2. 1.{us:06}: sched_process_exit: comm={comm} pid={us} prio=120\n")
    };
    let longest = (1 << 20) + 1 - event(1, "").len();
    for (length, is_read) in [(longest, true), (longest + 1, false)] {
        // The long one is set aside while others come, and read again.
        let text = [event(1, "a"), event(5, &"b".repeat(length)), event(2, "c"), event(9, "d")];
        let text = text.concat();
        let whole = held(text.as_bytes());
        assert_eq!(whole.0.len(), 3 + usize::from(is_read));
        let said = if is_read { "" } else { "1 lines are no events (line 2 is longer than 1 MiB)" };
        assert_eq!(whole.1.to_string(), said);
        for window in [1, 4096, 256 << 10] {
            let found = in_windows(Content::Read(&Cut::never(text.as_bytes())), window);
            assert!(found == whole, "{length} {window}");
        }
    }
}

#[test]
fn a_long_line_that_waits_for_others_holds_no_memory() {
    let event = |us: u32, comm: &str| {
        format!("a-1 [000] d..2. 1.{us:06}: sched_process_exit: comm={comm} pid={us} prio=120\n")
    };
    let text = [event(1, "a"), event(5, &"b".repeat(9000)), event(2, "c"), event(3, "d")].concat();
    let file = Cut::never(text.as_bytes());
    let content = Content::Read(&file);
    let mut reader = FtraceReader::in_windows(content, &Survey::of(content), 4096);
    for _ in 0..2 {
        assert!(reader.read().is_some());
    }
    assert_eq!(reader.begun.len(), 1);
    assert!(reader.begun.values().all(|cursor| !cursor.lines.is_wide()));
}
