//! Recordings with executions of one kind: normal ones, and a sample that sleeps longer.

use std::fmt::Write as _;
use std::fs;

use noise_command::fixtures::parsed;
use serde_json::Value;

use super::*;

mod served;

fn args(words: &[&str]) -> Result<CompareArgs, clap::Error> {
    parsed(words)
}

/// A text of ftrace: work of thread 7, each with one sleep of so many microseconds.
fn text(sleeps: impl Iterator<Item = u64>) -> String {
    let mut text = "# tracer: nop\n".to_owned();
    let mut at_us = 1_000_000;
    let mut line = |ahead_us: u64, thread: &str, event: &str| {
        at_us += ahead_us;
        let (seconds, rest) = (at_us / 1_000_000, at_us % 1_000_000);
        writeln!(text, "{thread} [000] d..2. {seconds}.{rest:06}: {event}").unwrap();
    };
    let switch = |prev: &str, state: &str, next: &str| {
        let of = |thread: &str| {
            thread.rsplit_once('-').map_or(0, |(_, tid)| tid.parse::<u32>().unwrap())
        };
        let name = |thread: &str| {
            thread.rsplit_once('-').map_or(String::new(), |(comm, _)| comm.to_owned())
        };
        format!(
            "sched_switch: prev_comm={} prev_pid={} prev_prio=120 prev_state={state} ==> next_comm={} next_pid={} \
             next_prio=120",
            name(prev),
            of(prev),
            name(next),
            of(next)
        )
    };
    line(0, "<idle>-0", &switch("swapper/0-0", "R", "job-7"));
    for sleep_us in sleeps {
        line(100, "job-7", "begin_work: x");
        line(200, "job-7", &switch("job-7", "S", "swapper/0-0"));
        line(
            sleep_us,
            "<idle>-0",
            "hrtimer_expire_entry: hrtimer=0000000000000001 function=hrtimer_wakeup now=1",
        );
        line(1, "<idle>-0", "sched_waking: comm=job pid=7 prio=120 target_cpu=000");
        line(1, "<idle>-0", "hrtimer_expire_exit: hrtimer=0000000000000001");
        line(1, "<idle>-0", &switch("swapper/0-0", "R", "job-7"));
        line(300, "job-7", "end_work: x");
    }
    text
}

fn normal(count: u64) -> impl Iterator<Item = u64> {
    (0..count).map(|number| 500 + 7 * number % 20)
}

const WORK: [&str; 2] = ["--execution", "event:begin_work..end_work"];

/// What a comparison says as JSON.
fn compared_as_json(words: &[&str]) -> Result<Value, CommandError> {
    let args = args(&[words, &WORK].concat()).unwrap();
    let origin = origin(&args);
    let sets = Sets::read(&args.asking, &origin)?;
    let comparison = compared(&sets.normal, &sets.sample, &args.how.settings())
        .map_err(|error| origin.explained(error))?;
    Ok(serde_json::to_value(ExecutionComparison::new(&sets, &comparison)).unwrap())
}

#[test]
fn two_recordings_or_one_that_is_split() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    fs::write(path("normal"), text(normal(20))).unwrap();
    fs::write(path("slow"), text(normal(10).map(|us| us + 900))).unwrap();
    fs::write(path("both"), text(normal(20).chain(normal(10).map(|us| us + 900)))).unwrap();
    let two = compared_as_json(&[&path("normal"), &path("slow")]).unwrap();
    // The first 20 take 1.1 ms each, and are over after 22.25 ms.
    let split = compared_as_json(&[&path("both"), "--split", "+22.3ms"]).unwrap();
    for found in [&two, &split] {
        assert_eq!(found["flagged"], Value::Array(Vec::new()));
        assert_eq!(found["effects"][0]["state"], "timer", "{found:#}");
        assert_eq!(found["effects"][0]["rule"], "mean");
        assert_eq!(found["effects"][0]["unflagged"], "untested");
        assert_eq!(found["executions"]["sample"].as_array().unwrap().len(), 10);
        let anomaly = &found["anomalies"][0];
        assert_eq!(
            (&anomaly["state"], anomaly["is_effect"].as_bool()),
            (&Value::from("timer"), Some(true))
        );
        let place = &anomaly["places"][0];
        assert_eq!(
            (&place["state"], place["probability"].as_f64()),
            (&Value::from("timer"), Some(1.0))
        );
        let lost_ns = place["lost_ns"].as_f64().unwrap();
        assert!((880e3..=920e3).contains(&lost_ns), "{lost_ns}");
    }
    assert_eq!((&two["across"], &split["across"]), (&Value::from(0), &Value::from(0)));
    let across = compared_as_json(&[&path("both"), "--split", "+11.8ms"]).unwrap();
    assert_eq!(across["across"], 1);
    let nothing = compared_as_json(&[&path("normal"), &path("normal")]).unwrap();
    assert_eq!(
        (&nothing["effects"], nothing["went_on"].as_bool()),
        (&Value::Array(Vec::new()), Some(false))
    );
}

#[test]
fn several_recordings_of_each_side() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    for number in 0..3 {
        fs::write(path(&format!("n{number}")), text(normal(20).map(|us| us + number))).unwrap();
        let slow = normal(10).map(|us| us + 900 + 5 * number);
        fs::write(path(&format!("s{number}")), text(slow)).unwrap();
    }
    let [n0, n1, n2, s0, s1, s2] = ["n0", "n1", "n2", "s0", "s1", "s2"].map(path);
    let all = ["--normal", &n0, &n1, &n2, "--sample", &s0, &s1, &s2];
    let found = compared_as_json(&all).unwrap();
    let flag = &found["flagged"][0];
    assert_eq!(flag["state"], "timer", "{found:#}");
    assert_eq!((flag["chance"].as_f64(), flag["unflagged"].is_null()), (Some(0.05), true));
    assert!(flag["within_ns"].as_f64().unwrap() < 20e3 && flag["evidence"].as_f64().unwrap() > 9.0);
    let drift = serde_json::json!({
        "unit": "recording", "normal": 3, "sample": 3, "divisions": 20.0, "least_chance": 0.05, "is_known": true,
    });
    assert_eq!((&found["drift"], &found["effects"]), (&drift, &Value::Array(Vec::new())));
    let of = |set: &str, number: usize| found["executions"][set][number]["recording"].as_u64();
    assert_eq!([of("normal", 0), of("normal", 59), of("sample", 0)], [Some(0), Some(2), Some(3)]);
    let recordings = found["recordings"].as_array().unwrap();
    let names: Vec<&str> = recordings.iter().map(|of| of["recording"].as_str().unwrap()).collect();
    assert_eq!(names, [&*n0, &n1, &n2, &s0, &s1, &s2]);
    // An option may be given several times, and one recording stands for a side as without options.
    let found = compared_as_json(&["--normal", &n0, "--sample", &s0, "--normal", &n1]).unwrap();
    assert_eq!(found["drift"]["divisions"], 3.0);
    let one = compared_as_json(&["--normal", &n0, "--sample", &s0]).unwrap();
    assert_eq!(one, compared_as_json(&[&n0, &s0]).unwrap());
    let twice = format!(
        "{}/../{}/n0",
        folder.path().display(),
        folder.path().file_name().unwrap().display()
    );
    let error = compared_as_json(&["--normal", &n0, &twice, "--sample", &s0]).unwrap_err();
    assert!(
        error.to_string().ends_with("n0 is given twice for one side: give each recording once"),
        "{error}"
    );
}

#[test]
fn what_is_missing_in_each_recording_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    fs::write(path("normal"), text(normal(6))).unwrap();
    // The end of one is an end without a begin.
    let end = "job-7 [000] d..2. 0.999999: end_work: x\n";
    let slow = text(normal(6).map(|us| us + 900));
    let slow = slow.replacen('\n', &format!("\nCPU:0 [LOST 3 EVENTS]\n{end}"), 1);
    fs::write(path("slow"), slow).unwrap();
    let json = compared_as_json(&[&path("normal"), &path("slow")]).unwrap();
    assert_eq!(json["discarded"], 3);
    for (of, name, lost, unbegun) in [(0, "normal", 0, 0), (1, "slow", 3, 1)] {
        let of = &json["recordings"][of];
        assert_eq!((&of["recording"], &of["left_out"]), (&path(name).into(), &0.into()));
        let delimiters = &of["delimiters"][0];
        assert_eq!((&of["discarded"], &delimiters["unbegun"]), (&lost.into(), &unbegun.into()));
        assert_eq!(delimiters["name"], WORK[1]);
    }
}

#[test]
fn processes_whose_end_is_not_there_are_in_neither_set() {
    let of = |pid: u64, has_end: bool| {
        let at = |ms: u64, who: &str, event: &str| {
            format!("{who} [000] d..2. {pid}.{ms:03}000: {event}\n")
        };
        let (idle, own) = ("<idle>-0", format!("job-{pid}"));
        let task = |of: &str, comm: &str, pid: u64| {
            format!("{of}_comm={comm} {of}_pid={pid} {of}_prio=120")
        };
        let (prev, next) = (task("prev", "job", pid), task("next", "swapper/0", 0));
        let leaves = |state: &str| format!("sched_switch: {prev} prev_state={state} ==> {next}");
        let (prev, next) = (task("prev", "swapper/0", 0), task("next", "job", pid));
        let begin = at(5, idle, &format!("sched_switch: {prev} prev_state=R ==> {next}"))
            + &at(10, &own, &format!("sched_process_exec: filename=/j pid={pid} old_pid={pid}"));
        begin
            + &match has_end {
                true => {
                    at(90, &own, &format!("sched_process_exit: comm=job pid={pid} prio=120"))
                        + &at(91, &own, &leaves("X"))
                }
                false => at(50, &own, &leaves("S")),
            }
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("text");
    fs::write(&path, format!("# tracer: nop\n{}{}{}", of(70, true), of(71, true), of(72, false)))
        .unwrap();
    let sets = |at: &str, executions: &[&str]| {
        let words = [&[path.to_str().unwrap(), "--split", at], executions].concat();
        let args: CompareArgs = parsed(words).unwrap();
        Sets::read(&args.asking, &origin(&args)).unwrap()
    };
    let spans = |side: &Side| {
        let all = side.executions().iter();
        all.map(|one| one.run.span_ns / 1_000_000).collect::<Vec<_>>()
    };
    // After two seconds there is only the one whose end is not there.
    for (at, spans_ms, cut_off, clipped, note) in [
        ("+1s", (vec![80], vec![80]), 1, 0, "text: processes that are left out: 1: begin or end"),
        (
            "+2s",
            (vec![80, 80], vec![40]),
            0,
            1,
            "text: processes of which a part is compared, because their set has no whole one of that name: 1: ",
        ),
    ] {
        let sets = sets(at, &["--execution", "process:job"]);
        assert_eq!((spans(&sets.normal), spans(&sets.sample)), spans_ms, "{at}");
        let of = &sets.recordings[0];
        assert_eq!((of.cut_off, of.clipped), (cut_off, clipped), "{at}");
        let notes = sets.notes().text(false);
        assert!(notes.contains(note), "{notes}");
    }
    // All of a thread is no whole process.
    let sets = sets("+2s", &["--execution", "process:job", "--execution", "thread:72"]);
    let all = sets.sample.executions().iter();
    let names: Vec<&str> = all.map(|one| one.run.name.as_str()).collect();
    assert_eq!((names, sets.recordings[0].clipped), (vec!["process:job", "thread:72"], 1));
}

#[test]
fn what_has_nothing_to_compare_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    fs::write(path("normal"), text(normal(6))).unwrap();
    fs::write(path("idle"), text(normal(0))).unwrap();
    fs::write(path("words"), "no trace\n").unwrap();
    fs::create_dir(path("empty")).unwrap();
    for (words, sentence) in [
        (vec![path("normal"), path("idle")], "idle: event:begin_work..end_work: "),
        (vec![path("idle"), path("normal")], "idle: event:begin_work..end_work: "),
        (vec![path("normal"), path("none")], "cannot read"),
        (vec![path("normal"), path("words")], "is no recording: 1 lines are no events"),
        (vec![path("empty"), path("normal")], "is no recording: neither it nor its folder"),
        (
            vec![path("normal"), "--split".to_owned(), "+1h".to_owned()],
            "there is no sample execution to compare: none begins after --split, give an earlier time",
        ),
        (
            vec![path("normal"), "--split".to_owned(), "0".to_owned()],
            "there is no normal execution to compare: none ends before --split, give a later time",
        ),
        (
            vec![path("normal"), "--sample-key".to_owned(), "a".to_owned()],
            "there is no sample execution to compare: none has such a key (--sample-key)",
        ),
    ] {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let error = compared_as_json(&words).unwrap_err();
        assert_eq!(error.exit, noise_command::Exit::Failed);
        assert!(error.to_string().contains(sentence), "{words:?}: {error}");
    }
}

#[test]
fn files_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    fs::write(path("normal"), text(normal(20))).unwrap();
    fs::write(path("slow"), text(normal(10).map(|us| us + 900))).unwrap();
    let (vectors, alignment, pictures) = (path("v.csv"), path("a.fasta"), path("pictures"));
    let words = [
        &[
            &*path("normal"),
            &path("slow"),
            "--json",
            "--vectors",
            &vectors,
            "--alignment",
            &alignment,
            "--picture",
            &pictures,
        ],
        &WORK[..],
    ];
    run(&args(&words.concat()).unwrap()).unwrap();
    let csv = fs::read_to_string(vectors).unwrap();
    assert_eq!(csv.lines().count(), 31);
    assert!(
        csv.lines().nth(1).unwrap().starts_with("normal,0,event:begin_work..end_work,,7,job,"),
        "{csv}"
    );
    // Each stands beside all that are normal.
    let fasta = fs::read_to_string(alignment).unwrap();
    assert_eq!(fasta.matches('>').count(), 10 * 21);
    let drawn = fs::read_dir(pictures).unwrap().map(|entry| entry.unwrap().path());
    let svg = |path: &PathBuf| fs::read_to_string(path).unwrap().starts_with("<svg");
    let drawn: Vec<PathBuf> = drawn.filter(svg).collect();
    assert_eq!(drawn.len(), 2 + DRAWN_PATHS, "{drawn:?}");
    // Where nothing is flagged there is nothing to align, and no file: one of before stays, and the file is named.
    let (same, none) = (path("normal"), path("none.fasta"));
    let words = [&*same, &same, "--alignment", &none, WORK[0], WORK[1]];
    run(&args(&words).unwrap()).unwrap();
    assert!(!fs::exists(&none).unwrap());
    assert_eq!(
        unwritten(Path::new("a.fasta"), &Comparison::default()),
        "a.fasta is not written: no state is flagged, and there is no effect (--force goes on all the same)"
    );
    fs::write(&none, "before").unwrap();
    run(&args(&words).unwrap()).unwrap();
    assert_eq!(fs::read_to_string(none).unwrap(), "before");
}

#[test]
fn words_that_do_not_go_together_are_refused() {
    let with = |words: &[&str]| args(&[words, &WORK].concat());
    assert!(with(&["a", "b"]).is_ok() && with(&["a", "--split", "+1s"]).is_ok());
    let several = with(&["a", "--sample", "b", "c"]).unwrap();
    let Origin::Recordings(sides) = origin(&several) else { panic!("one recording") };
    assert_eq!(sides.map(|side| side.len()), [1, 2]);
    let keys = with(&["a", "--sample-key", "x", "--sample-key", "y*"]).unwrap();
    assert_eq!(keys.sample_key, ["x", "y*"]);
    for words in [
        &["a"][..],
        &["a", "b", "--split", "+1s"],
        &["--normal", "a"],
        &["a", "b", "--sample", "c"],
        &["--normal", "a", "--sample", "b", "--split", "+1s"],
        &["--normal", "a", "--sample", "b", "--sample-key", "x"],
        &["a", "b", "--sample-key", "x"],
        &["a", "--split", "+1s", "--sample-key", "x"],
        &["a", "b", "--t1", "-1"],
        &["a", "b", "--t2", "NaN"],
        &["a", "b", "--chance", "1.5"],
        &["a", "b", "--chance", "0"],
        &["a", "b", "--chance", "0.0019"],
        &["a", "b", "--xi", "1"],
        &["a", "b", "--min-points", "1"],
    ] {
        assert!(with(words).is_err(), "{words:?}");
    }
    let found = with(&["a", "b", "--t1", "2", "--chance", "1", "--least", "0", "--force"]).unwrap();
    let settings = found.how.settings();
    assert_eq!(
        (settings.thresholds.t1, settings.thresholds.chance, settings.force),
        (2.0, 1.0, true)
    );
    assert!(with(&["a", "b", "--chance", "0.0022"]).is_ok());
    let error = with(&["a", "b", "--chance", "0.0002"]).unwrap_err().to_string();
    assert!(error.contains("expected a part between 0.0022 and 1, such as 0.01: "), "{error}");
    assert!(args(&["a", "b"]).is_err());
}
