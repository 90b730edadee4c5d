//! `noised why --against`: a program that sleeps longer than in a recording of it that was kept as normal.

use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use noise_tests::daemon::{Process, Socketed, binary, run, run_noised};
use noise_tests::scratch::Folder;
use serde_json::Value;

use crate::{INCONCLUSIVE, Test};

pub(crate) const TESTS: &[(&str, Test)] =
    &[("why_against_a_recording_kept_as_normal", why_against_a_recording_kept_as_normal)];

/// Marks so many executions, each with a sleep of so many seconds in it.
const PROGRAM: &str = "\
import os, socket, sys, time
marks = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
marks.connect(os.environ['NOISED_MARKS'])
for number in range(int(sys.argv[1])):
    marks.send(f'begin job {number}'.encode())
    sum(range(50_000))
    time.sleep(float(sys.argv[2]))
    sum(range(50_000))
    marks.send(f'end job {number}'.encode())
    time.sleep(0.003)
";
/// Executions and how long each sleeps, as words of the program: in the recording, and live.
const NORMAL: [&str; 2] = ["60", "0.004"];
const SLOW: [&str; 2] = ["400", "0.015"];
/// What is slower, ns.
const MORE_NS: f64 = 11e6;
/// How far a mean may be off where others take the CPU, as a part of that.
const TOLERANCE: f64 = 0.5;
/// For so long it runs before it is asked for.
const BEFORE: Duration = Duration::from_millis(1500);
/// Of so many executions something can be said.
const LEAST: usize = 10;

fn why_against_a_recording_kept_as_normal() -> Result<()> {
    let served = Socketed::start(&[])?;
    let socket = served.socket.to_str().context("a path that is not UTF-8")?;
    let folder = Folder::new("against")?;
    let program = folder.write("program.py", PROGRAM)?;
    let usual = folder.path().join("usual");
    let mut command = Command::new(binary()?);
    command.args(["record", "--connect", socket, "-o"]).arg(&usual);
    command.args(["--", "python3"]).arg(&program).args(NORMAL);
    let recorded = run(command)?;
    ensure!(recorded.code == 0, "recording ends with {}: {}", recorded.code, recorded.stderr);

    let mut command = Command::new("python3");
    command.arg(&program).args(SLOW);
    command.env("NOISED_MARKS", served.socket.with_file_name("noised.marks"));
    let slow = Process::start(command)?;
    thread::sleep(BEFORE);
    let id = slow.pid().to_string();
    let usual = usual.to_str().context("a path that is not UTF-8")?;
    let words =
        ["why", &id, "--last", "1s", "--connect", socket, "--execution", "mark:job", "--against"];
    let found: Value = run_noised(&[&words[..], &[usual, "--json"]].concat())?.json()?;
    let against = &found["against"];
    let count = |set: &str| against["executions"][set].as_array().map_or(0, Vec::len);
    println!("{} live, {} kept; effects: {}", count("sample"), count("normal"), against["effects"]);
    ensure!(count("sample") >= LEAST, "{INCONCLUSIVE}: {} executions in a second", count("sample"));
    ensure!(count("normal") >= 50, "{} executions are kept", count("normal"));
    let states = against["states"].as_array().context("no states")?;
    let timer = states.iter().find(|times| times["state"] == "timer").context("no sleeps")?;
    let mean = |set: &str| timer[set].as_f64().context("no mean");
    let more_ns = mean("sample_mean_ns")? - mean("normal_mean_ns")?;
    ensure!((more_ns - MORE_NS).abs() < TOLERANCE * MORE_NS, "it sleeps {more_ns} ns longer");
    // Of one recording a side, what differs is an effect.
    let effects = against["effects"].as_array().context("no effects")?;
    ensure!(effects.iter().any(|effect| effect["state"] == "timer"), "sleeps have no effect");
    ensure!(against["flagged"].as_array().is_some_and(Vec::is_empty), "a state is flagged");
    let first = &against["anomalies"][0];
    ensure!(first["is_effect"] == true && first["places"].is_array(), "no anomaly: {first}");

    let page = run_noised(&[&words[..], &[usual]].concat())?.printed()?;
    ensure!(page.contains("\nagainst normal executions\nmark:job: "), "{page}");
    // What is no recording is said before anything is asked for.
    let nowhere = run_noised(&[&words[..], &["/nowhere"]].concat())?;
    ensure!(
        nowhere.code == 1 && nowhere.stderr.contains("cannot read /nowhere"),
        "{}",
        nowhere.stderr
    );
    Ok(())
}
