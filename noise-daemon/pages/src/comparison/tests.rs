//! What a page says of executions of two kinds, some of which wait for a disk.

use noise_compare::comparison::{Settings, compare};
use noise_compare::rules::Thresholds;
use noise_compare::side::Side;
use noise_paths::document::{Segment, Traced};
use noise_paths::made;
use noise_trace::delays::document::Culprit;

use super::*;

const MS: u64 = 1_000_000;

/// An execution of parts: a state, tenths of milliseconds, and who is ahead.
fn traced(key: usize, parts: &[(&'static str, u64, &str)]) -> Traced {
    let begin_ns = 1000 * MS * key as u64;
    let mut at_ns = begin_ns;
    let part = |(state, tenths, whom): &(&'static str, u64, &str)| {
        let ns = tenths * MS / 10;
        let comm = (*whom).to_owned();
        let culprit = Culprit { tid: 30, comm, cause: "thread", ns };
        let (from_ns, to_ns) = (at_ns, at_ns + ns);
        at_ns = to_ns;
        let culprits = if whom.is_empty() { Vec::new() } else { vec![culprit] };
        Segment { culprits, ..made::segment((7, "job"), state, (from_ns, to_ns)) }
    };
    let path: Vec<Segment> = parts.iter().map(part).collect();
    let key = Some(format!("{key}"));
    Traced { key, pid: 0, ..made::traced("mark:job", (7, "job"), path) }
}

/// One of two kinds: one reads, the other one sleeps; and then waits for a disk for so long, if at all.
fn execution(key: usize, disk: u64) -> Traced {
    let vary = (key * 7 % 5) as u64;
    let own = if key.is_multiple_of(2) { "disk" } else { "timer" };
    let mut parts = Vec::new();
    for step in 0..4 {
        parts.extend([("running", 10 + vary, ""), (own, 5 + (vary + step) % 3, "")]);
        if step == 1 && disk > 0 {
            parts.extend([
                ("running", 1, ""),
                ("disk", disk, "backup"),
                ("running", 1, ""),
                ("disk", disk, "backup"),
            ]);
        }
    }
    parts.push(("running", 3, ""));
    traced(key, &parts)
}

fn set(count: usize, disk: u64) -> Vec<Traced> {
    (0..count).map(|key| execution(key, disk)).collect()
}

/// Executions that run for 100 ms, and wait for a lock for so many tenths of milliseconds.
fn locked(tenths: &[u64]) -> Vec<Traced> {
    let parts = |tenths| [("running", 1000, ""), ("futex", tenths, "")];
    tenths.iter().map(|tenths| traced(0, &parts(*tenths))).collect()
}

/// A side of so many recordings, which are numbered from there on.
fn side(first: usize, recordings: &[&[Traced]]) -> Side {
    let mut side = Side::default();
    for (number, executions) in recordings.iter().enumerate() {
        side.add(first + number, executions.iter().cloned());
    }
    side
}

fn compared(normal: &[&[Traced]], sample: &[&[Traced]], settings: &Settings) -> Comparison {
    let (normal, sample) = (side(0, normal), side(normal.len(), sample));
    compare(&normal, &sample, settings, &mut |_| ()).unwrap()
}

fn shown(normal: &[Traced], sample: &[Traced], settings: &Settings) -> String {
    page(&compared(&[normal], &[sample], settings), 100, true).text(false)
}

#[test]
fn several_recordings_of_each_side() {
    let settings = Settings::default();
    let normal = [set(20, 0), set(21, 0), set(22, 0)];
    let normal: Vec<&[Traced]> = normal.iter().map(Vec::as_slice).collect();
    let slow = [set(8, 90), set(8, 95), set(9, 90)];
    let slow: Vec<&[Traced]> = slow.iter().map(Vec::as_slice).collect();
    insta::assert_snapshot!(page(&compared(&normal, &slow, &settings), 100, true).text(false));
    let words = |normal: &[&[Traced]], sample: &[&[Traced]]| {
        page(&compared(normal, sample, &settings), 100, true).text(false).replace('\n', " ")
    };
    // Those of one side differ as much.
    let text = words(&[normal[0], slow[0]], &[slow[1], slow[2]]);
    assert!(text.contains(". No state is flagged: what the rules find is no more than recordings of one side differ by. "), "{text}");
    assert!(text.contains("2 normal and 2 sample recordings can be divided in 6 ways, so the smallest chance that can be reached is 1 in 6."), "{text}");
    // More than that, but of so few that it is not certain.
    let (much, more) = (set(8, 60), set(8, 100));
    let text = words(&normal[..2], &[&much, &more]);
    let sentence = "more than recordings of one side differ by, but that may be chance; too long in it are 16 of 16.";
    assert!(
        text.contains("The clearest effect is on waits for a disk: ") && text.contains(sentence),
        "{text}"
    );
    assert!(text.contains("; but of so few recordings, drift gives as much in "), "{text}");
}

#[test]
fn of_one_recording_its_processes_are_divided() {
    let of = |pids: [i32; 2], disk: u64| {
        let all = set(20, disk).into_iter();
        let mut side = Side::default();
        side.add(0, all.enumerate().map(|(key, one)| Traced { pid: pids[key / 2 % 2], ..one }));
        side
    };
    let words = |normal: [i32; 2], sample: [i32; 2]| {
        let (normal, sample) = (of(normal, 0), of(sample, 90));
        let found = compare(&normal, &sample, &Settings::default(), &mut |_| ()).unwrap();
        let text = page(&found, 100, true).text(false);
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let text = words([70, 70], [70, 70]);
    assert!(text.contains("Each side is one process of one recording. "), "{text}");
    assert!(
        text.contains(" effects, which are not flagged ") && !text.contains("--normal"),
        "{text}"
    );
    let text = words([70, 71], [70, 71]);
    let sentence = "2 normal and 2 sample processes can be divided in 6 ways, so the smallest chance that can be reached is 1 in 6.";
    assert!(text.contains(sentence) && text.contains(" flagged disk: "), "{text}");
    assert!(
        text.contains("; a difference as large comes up in 1 of 6 divisions of the processes"),
        "{text}"
    );
}

#[test]
fn a_sample_that_is_slower() {
    insta::assert_snapshot!(shown(&set(40, 0), &set(8, 90), &Settings::default()));
}

#[test]
fn a_sample_like_the_normal_ones() {
    let settings = Settings::default();
    insta::assert_snapshot!(shown(&set(40, 0), &set(10, 0), &settings));
    let forced = shown(&set(40, 0), &set(10, 0), &Settings { force: true, ..settings });
    assert!(!forced.contains("--force") && forced.contains("\nkinds of executions\n"), "{forced}");
    let mut rare = [0; 10];
    rare[4] = 500;
    // Another command has none of the options.
    let found = compared(&[&set(40, 0)], &[&set(10, 0)], &settings);
    let bare = page(&found, 100, false).text(false).replace('\n', " ");
    assert!(bare.contains("cases at most, and") && !bare.contains("--"), "{bare}");
    for (normal, sample, reason) in [
        (0, &[0; 10], "none is longer by the rules"),
        (9, &[0; 10], "none is longer by the rules"),
        (0, &[1; 10], "what the rules find is less than 1.0 % of an execution"),
        (0, &rare, "what the rules find may be chance"),
    ] {
        let text = shown(&locked(&[normal; 40]), &locked(sample), &settings).replace('\n', " ");
        assert!(text.contains(&format!(". No state is flagged: {reason}. ")), "{text}");
    }
}

#[test]
fn few_executions_and_no_guard_are_said() {
    let settings = Settings::default();
    let few = shown(&set(3, 0), &set(1, 90), &settings);
    let sentence = "These are too few executions to tell from chance: a rule counts only where no other division of them \
                    into two such sets gives as much, and that may be chance, too.";
    assert!(few.replace('\n', " ").contains(sentence), "{few}");
    assert!(few.contains("normal: there are 3 of the 5 executions that a cluster needs"), "{few}");
    let thresholds = Thresholds { chance: 1.0, ..settings.thresholds };
    let bare = shown(&set(3, 0), &set(1, 90), &Settings { thresholds, ..settings });
    let sentence = "No account is taken of chance, so what the rules find are effects, and no state is flagged.";
    assert!(bare.replace('\n', " ").contains(sentence), "{bare}");
    // Without any guard, a state may be flagged that is not longer.
    let thresholds = Thresholds { least: 0.0, ..thresholds };
    let normal = locked(&[[10; 90].as_slice(), &[1200; 10]].concat());
    let sample = locked(&[[135; 25], [10; 25]].concat());
    let text = shown(&normal, &sample, &Settings { thresholds, ..settings }).replace('\n', " ");
    assert!(
        text.contains(". More executions than usual are long in waits for a lock: 25 of 50. "),
        "{text}"
    );
}

#[test]
fn more_than_a_page_has_room_for_is_counted() {
    let text = shown(&set(200, 0), &set(40, 90), &Settings::default());
    assert!(text.contains("  15 more executions are in --json\n"), "{text}");
    let sentence = "  of 20 executions with anomalies the paths were not put beside normal ones: others come first\n";
    assert!(text.contains(sentence), "{text}");
    assert!(text.contains("of a kind, 30 normal ones are taken"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
}
