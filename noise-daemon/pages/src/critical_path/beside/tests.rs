//! What a page says of two recordings.

use noise_paths::document::{Segment, Traced};
use noise_paths::made;
use noise_trace::delays::document::Culprit;

use super::*;

const NAMES: [&str; 2] = ["/r/beside-nine", "/r/quiet"];
const MS: u64 = 1_000_000;

/// A part of so many milliseconds; those for whom it is have it in equal parts.
fn part(comm: &str, state: &'static str, ms: u64, whom: &[(i32, &str, &'static str)]) -> Segment {
    let culprit = |(tid, comm, cause): &(i32, &str, &'static str)| Culprit {
        tid: *tid,
        comm: (*comm).to_owned(),
        cause,
        ns: ms * MS / whom.len() as u64,
    };
    let culprits = whom.iter().map(culprit).collect();
    Segment { culprits, ..made::segment((7, comm), state, (0, ms * MS)) }
}

fn traced(mut path: Vec<Segment>) -> Traced {
    let mut at_ns = MS;
    for part in &mut path {
        (part.from_ns, part.to_ns) = (at_ns, at_ns + part.to_ns);
        at_ns = part.to_ns;
    }
    made::traced("mark:job", (7, "job"), path)
}

fn paths(executions: Vec<Traced>) -> Paths {
    Paths { executions, ..Paths::default() }
}

fn shown(these: Vec<Traced>, those: Vec<Traced>, columns: usize) -> String {
    let document = BesideDocument::new(paths(these), paths(those));
    page(&document, NAMES.map(Path::new), columns).text(false)
}

fn run(ms: u64) -> Segment {
    part("job", "running", ms, &[])
}

fn wait(ms: u64, whom: &[(i32, &str, &'static str)]) -> Segment {
    part("job", "waiting_cpu", ms, whom)
}

fn quiet() -> Traced {
    let disk = part("job", "disk", 3, &[(7, "job", "self")]);
    traced(vec![run(10), part("helper", "running", 5, &[]), disk, run(2)])
}

fn noisy() -> Traced {
    let burners = [(20, "burn", "thread"), (21, "burn", "thread")];
    let disk = part("job", "disk", 3, &[(7, "job", "self")]);
    let helper = part("helper", "running", 5, &[]);
    let short = wait(1, &[(0, "swapper/0", "idle")]);
    traced(vec![
        run(4),
        wait(22, &burners),
        run(6),
        helper,
        wait(10, &burners),
        disk,
        short,
        run(2),
    ])
}

#[test]
fn both_stand_beside_each_other() {
    let mut document = BesideDocument::new(paths(vec![noisy()]), paths(vec![quiet(), quiet()]));
    document.against.discarded = 3;
    let text = |columns| page(&document, NAMES.map(Path::new), columns).text(false);
    insta::assert_snapshot!(text(80));
    for columns in [60, 80, 120] {
        let text = text(columns);
        let longest = text.lines().map(width).max().unwrap();
        assert!(longest <= columns.max(80), "{longest} columns of {columns}:\n{text}");
    }
}

#[test]
fn processes_that_are_cut_off_are_counted_in_each_recording() {
    let cut = |path| Traced { has_begin: false, ..traced(path) };
    let these = vec![traced(vec![run(10)]), cut(vec![run(3)]), cut(vec![run(4)])];
    let text = shown(these.clone(), vec![cut(vec![run(7)])], 200);
    let outside = "outside of the recording or of the time that is asked for";
    let left_out = format!("beside-nine: mark:job: 2 left out: begin or end is {outside}\n");
    let clipped =
        format!("quiet: mark:job: begin or end is {outside}; figures are of the part inside\n");
    assert!(text.starts_with(&format!("{left_out}{clipped}mark:job: ")), "{text}");
    let document = BesideDocument::new(paths(these), paths(vec![quiet()]));
    let json = serde_json::to_value(&document).unwrap();
    let beside = &json["beside"][0];
    assert_eq!([&beside["left_out"], &beside["against_left_out"]], [2, 0]);
}

#[test]
fn the_first_lines_are_the_answer() {
    let hog = [(20, "hog", "thread")];
    let said = |these: Vec<Segment>, those: Vec<Segment>| {
        let text = shown(vec![traced(these)], vec![traced(those)], 80);
        text.split("\n\n").next().unwrap().to_owned()
    };
    assert_eq!(
        said(vec![run(10)], vec![run(10)]),
        "mark:job: job took about as long: 10.0 ms in beside-nine, 10.0 ms in quiet."
    );
    assert_eq!(
        said(vec![run(10)], vec![run(10), wait(190, &hog)]),
        "mark:job: job took 0.1x as long: 10.0 ms in beside-nine, 200 ms in quiet.\n\
         All 190 ms less are waits for a CPU that hog had."
    );
    let two = [(20, "hog", "thread"), (21, "other", "thread")];
    let part = said(vec![run(30), wait(90, &two)], vec![run(10)]);
    assert!(
        part.ends_with("90.0 ms of 110 ms more are waits for a CPU, of which hog had 45.0 ms.")
    );
    let idle = said(vec![run(10), wait(5, &[(0, "swapper/1", "idle")])], vec![run(10)]);
    assert!(
        idle.ends_with("waits for a CPU, most of them until an idle one had woken up."),
        "{idle}"
    );
    let disk = part_of_disk();
    let disk = said(vec![run(10), disk], vec![run(10)]);
    assert!(disk.ends_with("All 5.00 ms more are waits for a disk that dd caused."), "{disk}");
    let slower = said(vec![run(20)], vec![run(10)]);
    assert!(slower.ends_with("All 10.0 ms more are time on a CPU."), "{slower}");
}

fn part_of_disk() -> Segment {
    part("job", "disk", 5, &[(9, "dd", "foreign")])
}

#[test]
fn factors_are_read_at_a_glance() {
    let factor = |ns, against_ns| Means { ns, against_ns }.factor();
    assert_eq!(factor(3.0, 0.0), "-");
    assert_eq!(factor(0.0, 0.0), "-");
    assert_eq!(factor(29.0, 10.0), "2.9x");
    assert_eq!(factor(1234.0, 10.0), "123x");
    assert_eq!(factor(1e6, 1.0), ">999x");
}

#[test]
fn recordings_are_named_by_their_folders_where_these_differ() {
    let of = |paths: [&str; 2]| names(paths.map(Path::new));
    assert_eq!(of(NAMES), ["beside-nine", "quiet"]);
    assert_eq!(of(["a/trace", "b/trace"]), ["RECORDING", "--against"]);
    assert_eq!(of(["/r/x/", "y/."]), ["x", "y"]);
}
