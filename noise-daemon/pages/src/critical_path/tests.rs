//! What a page shows of paths.

use std::sync::Arc;

use noise_paths::document::Delimiters;
use noise_paths::execution::DelimiterTally;
use noise_paths::link::PathThread;
use noise_paths::link::ThreadLink;
use noise_paths::made;
use noise_paths::via::ViaKind;

use super::*;

fn segment(tid: i32, comm: &str, state: &'static str, from_ns: u64, to_ns: u64) -> Segment {
    made::segment((tid, comm), state, (from_ns, to_ns))
}

fn of(name: &str, path: Vec<Segment>) -> Traced {
    made::traced(name, (7, "server"), path)
}

fn some() -> Traced {
    let wait = Segment {
        culprits: vec![Culprit { tid: 20, comm: "hog".to_owned(), cause: "thread", ns: 1_000_000 }],
        ..segment(7, "server", "waiting_cpu", 7_000_000, 8_000_000)
    };
    let path = vec![
        segment(7, "server", "running", 1_000_000, 3_000_000),
        segment(9, "helper", "disk", 3_000_000, 7_000_000),
        wait,
        segment(7, "server", "running", 8_000_000, 11_000_000),
    ];
    Traced { cut: 1, ..of("thread:7", path) }
}

fn shown(document: &PathsDocument) -> String {
    page(document, 100).text(false)
}

#[test]
fn for_whom_is_said_as_far_as_it_is_known() {
    let culprit = |tid, comm: &str, cause| Culprit { tid, comm: comm.to_owned(), cause, ns: 9 };
    for (culprit, name) in [
        (culprit(20, "hog", "thread"), "hog 20"),
        (culprit(9, "client", "sender"), "client 9 (sender)"),
        (culprit(0, "swapper/0", "idle"), "idle"),
        (culprit(-1, "", "untracked"), "untracked"),
        (culprit(-1, "timer", "softirq"), "softirq timer"),
        (culprit(-1, "", "throttle"), "a CPU quota"),
    ] {
        assert_eq!(named(&culprit), name);
    }
    let wait = |state, culprit| {
        let part = Segment { culprits: vec![culprit], ..segment(7, "server", state, 0, 9) };
        answer(&states([part].iter()), 9, Some("server 7"))
    };
    let said = wait("disk", culprit(20, "hog", "thread"));
    assert_eq!(said, "most of it (0.000 ms, 100.0 %) waiting for a disk, for hog 20");
    let said = wait("waiting_cpu", culprit(20, "hog", "thread"));
    assert!(said.ends_with("waiting for a CPU, which hog 20 had"), "{said}");
    let said = wait("waiting_cpu", culprit(-1, "", "throttle"));
    assert!(said.ends_with("waiting for a CPU, held back by a CPU quota"), "{said}");
    let said = wait("network", culprit(-1, "", "untracked"));
    assert!(said.ends_with("waiting for the network"), "{said}");
}

#[test]
fn a_path_is_shown_as_agreed() {
    let document =
        PathsDocument { executions: vec![some()], discarded: 3, ..PathsDocument::default() };
    insta::assert_snapshot!(shown(&document));
}

#[test]
fn several_executions_are_summed_up_before_the_slowest() {
    let one = |number: u64, ns: u64| {
        let from_ns = 20_000_000 * number;
        let path = vec![
            segment(7, "server", "running", from_ns, from_ns + 1_000_000),
            segment(7, "server", "network", from_ns + 1_000_000, from_ns + 1_000_000 + ns),
        ];
        Traced { key: Some(number.to_string()), ..of("mark:query", path) }
    };
    let tally = DelimiterTally { overlapping: 2, unfinished: 1, ..DelimiterTally::default() };
    let document = PathsDocument {
        executions: vec![one(1, 500_000), one(2, 9_000_000), one(3, 1_000_000)],
        delimiters: vec![Delimiters { name: "mark:query".to_owned(), tally }],
        ..PathsDocument::default()
    };
    insta::assert_snapshot!(shown(&document));
}

#[test]
fn what_is_cut_off_is_not_averaged() {
    let one = |to_ns: u64, has_end: bool| Traced {
        has_end,
        ..of("process:job", vec![segment(7, "server", "running", 0, to_ns)])
    };
    let shown = |executions: &[Traced]| {
        shown(&PathsDocument { executions: executions.to_vec(), ..PathsDocument::default() })
    };
    let (first, second, cut) =
        (one(200_000_000, true), one(202_000_000, true), one(9_000_000, false));
    let page = shown(&[first, cut.clone(), second]);
    let lines: Vec<&str> = page.lines().collect();
    assert_eq!(
        lines[0],
        "process:job: 1 left out: begin or end is outside of the recording or of the time that is asked for"
    );
    assert!(lines[1].starts_with("process:job: 2 executions took 201.000 ms on average"), "{page}");
    assert!(!page.contains("not followed"), "{page}");
    let page = shown(&[cut]);
    let words: Vec<&str> = page.split_whitespace().collect();
    assert!(words.join(" ").starts_with(
        "process:job: begin or end is outside of the recording or of the time that is asked for; figures are of the part inside \
         process:job: server 7 took 9.000 ms, most of it"
    ), "{page}");
}

#[test]
fn sleeps_that_were_not_followed_are_counted_over_all_executions() {
    let one = |to_ns: u64, cut: u64| Traced {
        cut,
        ..of("mark:query", vec![segment(7, "server", "running", 0, to_ns)])
    };
    let executions = vec![one(9_000_000, 0), one(8_000_000, 2), one(7_000_000, 3)];
    let page = shown(&PathsDocument { executions, ..PathsDocument::default() });
    let words: Vec<&str> = page.split_whitespace().collect();
    let (words, of) = (
        words.join(" "),
        "In all: sleeps not followed to their end, because the chain of wakers is",
    );
    assert!(
        words.contains(&format!("{of} too long, or takes too long to follow: 5 state")),
        "{page}"
    );
}

#[test]
fn long_paths_are_folded_and_what_was_folded_is_said() {
    let part = |number: u64| {
        let (from_ns, helper) = (number * 1_000_000, number % 2 == 1);
        let length_ns = if number.is_multiple_of(40) { 1_000_000 } else { 300_000 };
        let comm = if helper { "helper" } else { "server" };
        let first =
            segment(if helper { 9 } else { 7 }, comm, "running", from_ns, from_ns + length_ns);
        let rest = segment(7, "server", "timer", from_ns + length_ns, from_ns + 1_000_000);
        [first, rest].into_iter().filter(|part| part.from_ns < part.to_ns).collect::<Vec<_>>()
    };
    let path: Vec<_> = (0..400).flat_map(part).collect();
    let text = shown(&PathsDocument {
        executions: vec![of("thread:7", path)],
        ..PathsDocument::default()
    });
    // Each millisecond that is whole has a row, what lies between is folded.
    assert!(text.contains("78 parts folded: server 7 timer 27.300"), "{text}");
    let sum: f64 = text
        .lines()
        .skip_while(|line| !line.contains("after "))
        .skip(1)
        .map(|line| line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap())
        .sum();
    assert!((sum - 400.0).abs() < 0.001, "{sum}");
}

#[test]
fn a_lane_is_as_wide_as_asked_for_and_has_what_took_most_in_each_column() {
    let lines = |width| {
        let mut page = Painted::default();
        lane(&mut page, &some(), width, |ns| ns.to_string());
        page.text(false).lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(lines(10)[2..4], ["  RRDDDDWRRR", "  ..aaaa...."]);
    assert_eq!(lines(100)[2].len(), 102);
    assert_eq!(lines(1)[2], "  R");
    assert!(lines(0).is_empty());
    let mut page = Painted::default();
    lane(&mut page, &some(), 10, |ns| ns.to_string());
    assert!(page.text(true).contains("\x1b[30;43mDDDD\x1b[0m"));
}

#[test]
fn no_line_is_longer_than_the_terminal() {
    let comm = |number: u64| format!("kworker/{number:03}:12H");
    let part = |number: u64| {
        let culprit = |tid, ns| Culprit { tid, comm: comm(9), cause: "thread", ns };
        let (from_ns, to_ns) = (number * 1_000_000, (number + 1) * 1_000_000 - number);
        let state = if number.is_multiple_of(3) { "waiting_cpu" } else { "running" };
        let culprits = match state {
            "waiting_cpu" => vec![culprit(4_000_000, to_ns - from_ns - 9), culprit(4_000_001, 9)],
            _ => Vec::new(),
        };
        let tid = 4_100_000 + number as i32;
        let whole = Segment { culprits, ..segment(tid, &comm(number), state, from_ns, to_ns) };
        [whole, segment(tid, &comm(number), "disk", to_ns, to_ns + number)]
    };
    let path: Vec<_> = (1..90).flat_map(part).collect();
    let executions =
        vec![of("mark:the-name-of-the-mark", path.clone()), of("mark:the-name-of-the-mark", path)];
    let document = PathsDocument { executions, ..PathsDocument::default() };
    for width in [80, 120, 200] {
        let text = page(&document, width).text(false);
        let longest = text.lines().max_by_key(|line| line.chars().count()).unwrap();
        assert!(longest.chars().count() <= width, "{width}: {longest}");
    }
}

#[test]
fn a_name_is_in_one_line() {
    let whole = Segment {
        culprits: vec![Culprit { tid: 20, comm: "a\nb".to_owned(), cause: "thread", ns: 9 }],
        ..segment(8, "c\nd", "waiting_cpu", 0, 9)
    };
    let traced = Traced {
        key: Some("e\nf".to_owned()),
        ..of("mark:x", vec![whole, segment(7, "s", "disk", 9, 20)])
    };
    let text = shown(&PathsDocument { executions: vec![traced], ..PathsDocument::default() });
    let begins = |begin: &str| text.lines().any(|line| line.trim_start().starts_with(begin));
    assert!(!["b ", "d ", "f:"].into_iter().any(begins), "{text}");
    assert!(
        ["a\\x0ab 20", "c\\x0ad 8", "e\\x0af:"].iter().all(|name| text.contains(name)),
        "{text}"
    );
}

#[test]
fn who_waits_for_a_lock_is_said_with_which() {
    let via = |symbol: Option<&str>| {
        Some(Arc::new(ThreadLink {
            kind: ViaKind::Futex,
            process: Some(6),
            address: Some("0x7f10".to_owned()),
            symbol: symbol.map(str::to_owned),
            waits: PathThread { tid: 7, comm: "server".to_owned() },
            ..ThreadLink::default()
        }))
    };
    let culprits =
        vec![Culprit { tid: 20, comm: "hog".to_owned(), cause: "thread", ns: 4_000_000 }];
    let path = vec![
        segment(7, "server", "running", 0, 1_000_000),
        Segment { via: via(None), ..segment(9, "helper", "running", 1_000_000, 5_000_000) },
        Segment {
            via: via(Some("table_lock")),
            culprits,
            ..segment(9, "helper", "waiting_cpu", 5_000_000, 9_000_000)
        },
        Segment {
            via: Some(Arc::default()),
            ..segment(8, "other", "running", 9_000_000, 10_000_000)
        },
    ];
    let document = PathsDocument { executions: vec![of("thread:7", path)], ..Default::default() };
    let page = shown(&document).replace(['\n', ' '], "");
    for row in [
        "1.0004.000runninghelper9;server7waitsatthefutex0x7f10ofprocess65.000",
        "5.0004.000waiting_cpuhelper9;forhog204.000;server7waitsatthefutextable_lock9.000",
        "9.0001.000runningother8",
    ] {
        assert!(page.contains(row), "{row}: {page}");
    }
    assert!(page.ends_with("other8"), "{page}");
}

#[test]
fn who_waits_for_a_child_is_said() {
    let parent = Some(PathThread { tid: 7, comm: "server".to_owned() });
    let path = vec![
        segment(7, "server", "running", 0, 1_000_000),
        Segment { parent, ..segment(9, "helper", "running", 1_000_000, 9_000_000) },
        segment(7, "server", "running", 9_000_000, 10_000_000),
    ];
    let document = PathsDocument { executions: vec![of("thread:7", path)], ..Default::default() };
    let page = shown(&document).replace(['\n', ' '], "");
    assert!(page.contains("running,inhelper9(server7waitsforthischild)andserver7."), "{page}");
    assert!(page.contains("1.0008.000runninghelper9(server7waitsforthischild)"), "{page}");
}
