//! `noised incidents --follow` by a user without privileges: a planted hog is named in what its command gets, with its threads, and no
//! event comes twice, though the daemon restarts meanwhile. A view that begins late knows what was before.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use noise_tests::attribution::kept_by_others;
use noise_tests::daemon::{
    Daemon, Process, QUICK_INCIDENTS, SOCKET_PATH, STATE_DIRECTORY, binary, nameless, run_noised,
};
use noise_tests::group::{Group, Hierarchy};
use noise_tests::load::{Place, Worker};
use noise_tests::rights::UNPRIVILEGED;
use noise_tests::scratch::Folder;
use serde_json::Value;

use crate::incidents::{CPU, MOST_NOISE, WEIGHTS, episodes, until};
use crate::{INCONCLUSIVE, Test};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("a_command_gets_the_planted_culprit_and_nothing_twice", a_command_gets_the_planted_culprit),
    ("what_cannot_be_followed_is_a_sentence", what_cannot_be_followed_is_a_sentence),
];

/// Warm-up, and the windows that are held against it.
const QUIET: Duration = Duration::from_secs(17);
/// Some requests of the follower.
const REST: Duration = Duration::from_secs(4);

/// Lines of JSON by now.
fn lines(text: &str) -> Result<Vec<Value>> {
    let whole = text.lines().map(serde_json::from_str);
    whole.collect::<serde_json::Result<_>>().with_context(|| format!("no lines of JSON: {text}"))
}

fn of_command(path: &Path) -> Result<Vec<Value>> {
    lines(&fs::read_to_string(path).unwrap_or_default())
}

/// What became of which incident.
fn event(value: &Value) -> (String, u64) {
    (
        value["event"].as_str().unwrap_or_default().to_owned(),
        value["incident"]["id"].as_u64().unwrap_or(0),
    )
}

fn follower(socket: &str, victim: &str, file: &Path) -> Result<Process> {
    let mut command = Command::new(binary()?);
    command.args(["incidents", "--connect", socket, "--follow", "--json", "--subject", victim]);
    command
        .args(["--exec", &format!("cat >> {}", file.display())])
        .uid(UNPRIVILEGED)
        .gid(UNPRIVILEGED);
    Process::start(command)
}

/// The incident names threads of the hog, with what they were started as.
fn ensure_threads(socket: &str, victim: &str, hog: &str, hogs: &[i32]) -> Result<()> {
    let is_named = || -> Result<bool> {
        let outcome =
            run_noised(&["incidents", "--connect", socket, "--json", "--subject", victim])?;
        let document: Value = serde_json::from_str(&outcome.stdout)?;
        let incidents = document["incidents"].as_array().context("no incidents")?;
        let threads = incidents.iter().flat_map(|one| one["processes"].as_array()).flatten();
        let mut of_hog =
            threads.filter(|one| one["side"] == "culprit" && one["of"] == hog).peekable();
        Ok(of_hog.peek().is_some()
            && of_hog.all(|one| {
                let command = one["command"].as_str().unwrap_or_default();
                hogs.iter().any(|hog| one["pid"] == *hog) && command.contains("burn")
            }))
    };
    ensure!(until(is_named)?, "no incident of {victim} names the threads {hogs:?} of {hog}");
    Ok(())
}

/// A view that begins now knows how the victim was held up since the daemon began.
fn ensure_trend(socket: &str, victim: &str) -> Result<()> {
    let filter = format!("victim:{victim}");
    let options = ["top", "--connect", socket, "--once", "--json", "--filter", &filter];
    let outcome = run_noised(&options)?;
    let shown: Value = serde_json::from_str(&outcome.stdout).with_context(|| outcome.stderr)?;
    let rows = shown["rows"].as_array().context("no rows")?;
    let row = rows.iter().find(|row| row["victim"] == victim).context("the victim has no row")?;
    let trend = row["held_up_over_time"].as_array().context("no trend")?;
    println!("  a view begins with {trend:?}");
    let trend: Vec<f64> = trend.iter().filter_map(Value::as_f64).collect();
    ensure!(trend.len() as u64 >= QUIET.as_secs(), "{} values", trend.len());
    let most = trend.iter().copied().fold(0.0, f64::max);
    let (before, late) = trend.split_at(trend.len() / 2);
    let sum = |values: &[f64]| values.iter().sum::<f64>();
    ensure!(sum(late) > 2.0 * sum(before) && most > 0.1, "nothing shows the hog: {trend:?}");
    Ok(())
}

fn a_command_gets_the_planted_culprit() -> Result<()> {
    let folder = Folder::new("follow")?;
    // The follower, another user, makes a file in it.
    fs::set_permissions(folder.path(), Permissions::from_mode(0o1777))?;
    let (socket, state) =
        (format!("{}/s", folder.argument()?), format!("{}/state", folder.argument()?));
    let (_file, path) = nameless(QUICK_INCIDENTS)?;
    let options = [
        SOCKET_PATH,
        &socket,
        "--socket.mode=0666",
        STATE_DIRECTORY,
        &state,
        "--config.file",
        &path,
    ];
    let daemon = Daemon::start_with(&options)?;
    let group = |name, weight| -> Result<Group> {
        let group = Group::new(name, &[Hierarchy::Cpu])?;
        group.weigh(weight)?;
        Ok(group)
    };
    let (victim, hog) = (group("victim", WEIGHTS[0])?, group("hog", WEIGHTS[1])?);
    let place = Place::group(&victim);
    let victims = [
        Worker::start_at(place, "sleep", &[CPU, "2000"])?,
        Worker::start_at(place, "primes", &[CPU, "20000"])?,
    ];
    let got = folder.path().join("got");
    let mut follower = follower(&socket, &victim.label(), &got)?;
    let first = daemon.scrape()?;
    thread::sleep(QUIET);
    let scrapes = (&first, &daemon.scrape()?);
    let noise = kept_by_others(scrapes, QUIET, &victim.label(), |name| name == hog.label())?;
    println!("others take {noise:.3} of the victim's time");
    if noise > MOST_NOISE {
        bail!("{INCONCLUSIVE}: the machine is not quiet");
    }
    let burners = (0..3)
        .map(|_| Worker::start_at(Place::group(&hog), "burn", &[CPU]))
        .collect::<Result<Vec<_>>>()?;
    let names_hog = |value: &&Value| {
        value["event"] == "opened"
            && episodes(&value["incident"]).any(|episode| {
                episode["subject"] == *victim.label()
                    && episode["culprits"][0]["culprit"] == *hog.label()
            })
    };
    let is_named = until(|| Ok(of_command(&got)?.iter().any(|value| names_hog(&value))))?;
    println!("the command got {}", fs::read_to_string(&got).unwrap_or_default());
    ensure!(is_named, "no command got the hog: {}", follower.stderr()?);
    let opened = of_command(&got)?;
    let opened = opened.iter().find(names_hog).context("it went")?;
    let hogs: Vec<i32> = burners.iter().map(Worker::pid).collect();
    ensure_threads(&socket, &victim.label(), &hog.label(), &hogs)?;
    ensure_trend(&socket, &victim.label())?;
    let sentence = opened["sentence"].as_str().unwrap_or_default();
    ensure!(sentence.contains(&hog.label()) && sentence.contains(" -> "), "{sentence}");
    let id = opened["incident"]["id"].clone();
    // The incident is open when the daemon stops.
    let (status, _) = daemon.stop(libc::SIGTERM)?;
    ensure!(status.success(), "{status}");
    thread::sleep(REST);
    let daemon = Daemon::start_with(&options)?;
    let is_closed = |value: &Value| value["event"] == "closed" && value["incident"]["id"] == id;
    ensure!(until(|| Ok(of_command(&got)?.iter().any(is_closed)))?, "nothing closed it");
    thread::sleep(REST);
    burners.into_iter().chain(victims).try_for_each(|worker| worker.stop().map(drop))?;
    follower.signal(libc::SIGTERM)?;
    let status = follower.wait()?;
    let said = follower.stderr()?;
    ensure!(status.success(), "the follower ended with {status}: {said}");
    for words in ["no noised answers at", "asking again every second", "the daemon answers again"] {
        ensure!(said.matches(words).count() == 1, "{words}: {said}");
    }
    let printed = lines(&follower.stdout()?)?;
    let printed: Vec<_> =
        printed.iter().map(event).filter(|(event, _)| event != "changed").collect();
    let handed: Vec<_> = of_command(&got)?.iter().map(event).collect();
    ensure!(printed == handed, "printed {printed:?}, and the command got {handed:?}");
    let once: BTreeSet<_> = handed.iter().collect();
    ensure!(once.len() == handed.len(), "something came twice: {handed:?}");
    let (status, _) = daemon.stop(libc::SIGTERM)?;
    ensure!(status.success(), "{status}");
    Ok(())
}

fn what_cannot_be_followed_is_a_sentence() -> Result<()> {
    for (options, code, words) in [
        (
            &["--follow", "--connect", "/nowhere/noised.sock"][..],
            1,
            "no noised answers at /nowhere",
        ),
        (&["--follow", "--state.directory", "/tmp"], 2, "--state.directory"),
        (&["--follow", "--since", "1h"], 2, "--since"),
        (&["--exec", "true"], 2, "--follow"),
        (&["--follow", "--exec", " "], 2, "expected a command"),
        (&["--follow", "--exec", "true", "--exec-timeout", "0s"], 2, "from 100ms to 1h"),
        (&["--subject", ""], 2, "expected a name"),
        (&["--follow", "show", "1"], 2, "about all incidents"),
    ] {
        let outcome = run_noised(&[&["incidents"], options].concat())?;
        let is_clear =
            outcome.code == code && outcome.stderr.contains(words) && outcome.stdout.is_empty();
        ensure!(is_clear, "{options:?}: {outcome:?}");
    }
    Ok(())
}
