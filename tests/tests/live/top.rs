//! `noised top` in a real terminal, against a live daemon.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use noise_tests::daemon::{Daemon, SOCKET_PATH, binary, run, run_noised};
use noise_tests::group::{Group, Hierarchy};
use noise_tests::load::{Place, Worker};
use noise_tests::needed::needs;
use noise_tests::scratch::Folder;
use noise_tests::terminal::Terminal;
use noise_tests::wait::wait_until;
use serde_json::Value;

use crate::lifecycle::ensure_refused;
use crate::{Impossible, Test};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("every_key", every_key),
    ("who_names_a_hog", who_names_a_hog),
    ("enter_shows_why", enter_shows_why),
    ("daemon_stops_and_comes_back", daemon_stops_and_comes_back),
    ("small_terminals", small_terminals),
    ("signals_restore_the_terminal", signals_restore_the_terminal),
    ("records_and_replays", records_and_replays),
    ("once_and_json", once_and_json),
    ("without_a_daemon", without_a_daemon),
    ("refusals", refusals),
];

/// In which a load that goes on has to show.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A daemon with a socket of its own in a folder that goes when this is dropped.
struct Served {
    // Ended before its folder goes.
    daemon: Option<Daemon>,
    folder: Folder,
}

impl Served {
    fn start() -> Result<Self> {
        Self::start_with(&[])
    }

    fn start_with(options: &[&str]) -> Result<Self> {
        let mut served = Self { daemon: None, folder: Folder::new("top")? };
        let socket = served.socket();
        served.daemon = Some(Daemon::start_with(&[&[SOCKET_PATH, &socket], options].concat())?);
        Ok(served)
    }

    fn socket(&self) -> String {
        self.folder.path().join("noised.sock").display().to_string()
    }

    fn start_daemon(&mut self) -> Result<()> {
        self.daemon = Some(Daemon::start_with(&[SOCKET_PATH, &self.socket()])?);
        Ok(())
    }

    fn top(&self, columns: u16, rows: u16, options: &[&str]) -> Result<Terminal> {
        let terminal = self.start_top(columns, rows, options)?;
        terminal.wait_for_words(&["Victims", "runqueue_wait"])?;
        Ok(terminal)
    }

    fn start_top(&self, columns: u16, rows: u16, options: &[&str]) -> Result<Terminal> {
        let (binary, socket) = (binary()?.display().to_string(), self.socket());
        let mut command = vec![binary.as_str(), "top", "--connect", &socket, "--interval", "500ms"];
        command.extend(options);
        Terminal::start(columns, rows, &command)
    }

    fn address(&self) -> Result<String> {
        Ok(format!("http://{}", self.daemon.as_ref().context("no daemon")?.address))
    }
}

/// How a group reads where its path has no room.
fn short(group: &Group) -> String {
    group.label().trim_start_matches('/').to_owned()
}

/// Requires that the view ends by itself, and well.
fn ended_well(terminal: &Terminal) -> Result<()> {
    let status = terminal.wait()?;
    ensure!(status == 0, "the view ended with {status}:\n{}", terminal.screen()?);
    Ok(())
}

/// A load that every screen has something to show of.
fn everything() -> Result<(Group, Vec<Worker>)> {
    let group = Group::new("top", &[Hierarchy::Cpu])?;
    let workers = [("burn", vec!["0"]), ("burn", vec!["0"]), ("sleep", vec!["0", "700"])];
    let workers = workers
        .into_iter()
        .map(|(load, arguments)| Worker::start_at(Place::group(&group), load, &arguments))
        .collect::<Result<_>>()?;
    Ok((group, workers))
}

/// The one file in a folder whose name begins and ends so.
fn written(folder: &Path, begin: &str, end: &str) -> Result<Option<PathBuf>> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with(begin) && name.ends_with(end) {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

fn every_key() -> Result<()> {
    needs(&["tmux"])?;
    let served = Served::start()?;
    let (group, workers) = everything()?;
    let terminal = served.top(150, 30, &[])?;
    let (label, name) = (group.label(), short(&group));
    for (key, words) in [
        ("3", vec!["softirq", "steal", "waiting"]),
        ("4", vec!["victim", "culprit", name.as_str()]),
        ("5", vec!["worst culprit"]),
        ("6", vec!["local_timer"]),
        ("7", vec!["Incidents"]),
        ("1", vec!["Who is held up", "main culprit", name.as_str(), "Signals with events"]),
        ("2", vec!["runqueue_wait", "p99"]),
        ("Tab", vec!["softirq", "steal", "waiting"]),
        ("BTab", vec!["runqueue_wait", "p99"]),
    ] {
        terminal.press(&[key])?;
        terminal.wait_for_words(&words).with_context(|| format!("after {key}"))?;
    }
    // Help, and back.
    for key in ["?", "h"] {
        terminal.press(&[key])?;
        terminal.wait_for_words(&["quit", "filter", "record the frames"])?;
        terminal.press(&["Escape"])?;
        terminal.wait_for("no help", |screen| !screen.contains("record the frames"))?;
    }
    // A filter leaves what it names; Esc gives the rest back.
    terminal.press(&["2", "/", "s", "o", "f", "t", "Enter"])?;
    terminal.wait_for("softirq alone", |screen| {
        screen.contains("softirq") && !screen.contains("runqueue_wait")
    })?;
    terminal.press(&["/", "Escape"])?;
    terminal.wait_for_words(&["softirq", "runqueue_wait"])?;
    // A page with a distribution over time, and back.
    terminal.press(&["4"])?;
    terminal.wait_for_words(&[&name])?;
    terminal.press(&["Enter"])?;
    let page = terminal.wait_for("a page", |screen| !screen.contains("culprit  "))?;
    println!("{page}");
    terminal.press(&["Escape"])?;
    terminal.wait_for_words(&["victim", "culprit"])?;
    // Order, and its reverse: the rows change places.
    terminal.press(&["6", "s"])?;
    let rows = |screen: &str| -> Vec<String> {
        let names = ["local_timer", "reschedule", "timer", "sched", "rcu", "net_rx"];
        let lines = screen.lines().filter(|line| names.iter().any(|name| line.contains(name)));
        lines.filter_map(|line| line.split_whitespace().nth(1).map(str::to_owned)).collect()
    };
    terminal.press(&["p"])?;
    let before = rows(&terminal.wait_for_words(&["PAUSED"])?);
    terminal.press(&["S"])?;
    terminal.wait_for("another order", |screen| rows(screen) != before)?;
    terminal.press(&["p"])?;
    terminal.wait_for("no pause", |screen| !screen.contains("PAUSED"))?;
    terminal.press(&["Space"])?;
    terminal.wait_for_words(&["PAUSED"])?;
    terminal.press(&["Space"])?;
    // The interval grows and shrinks, rates begin anew.
    let first = terminal.screen()?;
    let header = |screen: &str| screen.lines().take(2).collect::<String>();
    println!("{}", header(&first));
    terminal.press(&["+"])?;
    terminal.wait_for_words(&["every 1"])?;
    terminal.press(&["-"])?;
    terminal.wait_for_words(&["every 0.5 s"])?;
    terminal.press(&["r"])?;
    terminal.wait_for("a reset", |screen| screen.to_lowercase().contains("reset"))?;
    // What rates cover, and the keys that move.
    terminal.press(&["t"])?;
    terminal.wait_for_words(&["rates and sums over"])?;
    terminal.press(&["1", "j", "k", "Down", "Up", "NPage", "PPage", "End", "Home", "G", "g"])?;
    terminal.press(&["a", ">", "<", "C-l"])?;
    terminal.wait_for_words(&["runqueue_wait", "p99"])?;
    // A recording begins and ends.
    terminal.press(&["w"])?;
    terminal.wait_for_words(&["recording to noised-"])?;
    let is_begun = || Ok(written(terminal.folder(), "noised-", ".frames")?.is_some());
    wait_until("a file of frames", TIMEOUT, is_begun)?;
    terminal.press(&["w"])?;
    terminal.wait_for_words(&["recording ended"])?;
    ensure!(written(terminal.folder(), "noised-", ".frames")?.is_some(), "nothing is recorded");
    // An export is a file that a script can read.
    terminal.press(&["4", "e"])?;
    terminal.wait_for_words(&["noised-who-"])?;
    let path = written(terminal.folder(), "noised-who-", ".json")?.context("no export")?;
    let export: Value = serde_json::from_str(&fs::read_to_string(path)?)?;
    let rows = export["rows"].as_array().context("no rows")?;
    ensure!(rows.iter().any(|row| row["victim"] == label.as_str()), "{label} is not exported");
    // The end gives the terminal back.
    ensure!(terminal.is_taken()?, "the view has no screen of its own");
    terminal.press(&["q"])?;
    ended_well(&terminal)?;
    ensure!(!terminal.is_taken()?, "the terminal is not given back");
    for worker in workers {
        worker.stop()?;
    }
    Ok(())
}

fn who_names_a_hog() -> Result<()> {
    needs(&["tmux"])?;
    let served = Served::start()?;
    let victim = Group::new("victim", &[Hierarchy::Cpu])?;
    let hog = Group::new("hog", &[Hierarchy::Cpu])?;
    let worker = Worker::start_at(Place::group(&victim), "burn", &["0"])?;
    let terminal = served.top(150, 30, &[])?;
    terminal.wait_for_words(&["Who is held up", "main culprit"])?;
    let burner = Worker::start_at(Place::group(&hog), "burn", &["0"])?;
    let planted = Instant::now();
    let (victim_label, hog_label) = (short(&victim), short(&hog));
    let names_both = |line: &str| line.contains(&victim_label) && line.contains(&hog_label);
    let screen = terminal.wait_for("the hog", |screen| screen.lines().any(names_both))?;
    println!("named {:.1} s after it began to work:\n{screen}", planted.elapsed().as_secs_f64());
    terminal.press(&["4"])?;
    terminal.wait_for("the pair", |screen| {
        screen.contains("Who delays whom") && screen.lines().any(names_both)
    })?;
    burner.stop()?;
    worker.stop()?;
    Ok(())
}

/// Enter on a row, and on its page: the page of `noised why`.
fn enter_shows_why() -> Result<()> {
    needs(&["tmux"])?;
    // On a loaded machine, two seconds are more than the usual size holds.
    let options = ["--recorder.kibibytes-per-cpu=16384", "--recorder.kibibytes-in-all=1048576"];
    let served = Served::start_with(&options)?;
    let victim = Group::new("victim", &[Hierarchy::Cpu])?;
    let hog = Group::new("hog", &[Hierarchy::Cpu])?;
    let worker = Worker::start_at(Place::group(&victim), "burn", &["0"])?;
    let burner = Worker::start_at(Place::group(&hog), "burn", &["0"])?;
    let (victim_label, hog_label) = (short(&victim), short(&hog));
    // As high as all of the page.
    let terminal = served.start_top(150, 160, &["--screen", "who", "--filter", &victim_label])?;
    let names_both = |line: &str| line.contains(&victim_label) && line.contains(&hog_label);
    let rows = terminal.wait_for("the hog", |screen| screen.lines().any(names_both))?;
    println!("{}", rows.lines().take(8).collect::<Vec<_>>().join("\n"));
    // Other load may come first; rows stay where they are meanwhile.
    terminal.press(&["p", "Home"])?;
    terminal.wait_for_words(&["PAUSED"])?;
    let title = format!("{} delays {}", hog.label(), victim.label());
    for row in 0.. {
        ensure!(row < 40, "no row of the hog that delays the victim:\n{rows}");
        terminal.press(&["Enter"])?;
        let page = terminal.wait_for("a page", |screen| !screen.contains("Who delays whom"))?;
        if page.contains(&title) {
            break;
        }
        terminal.press(&["Escape"])?;
        terminal.wait_for_words(&["Who delays whom"])?;
        terminal.press(&["Down"])?;
    }
    terminal.press(&["Enter"])?;
    let shown = terminal.wait_for("the page", |screen| screen.contains("where the time went"))?;
    println!("{shown}");
    let first = shown.lines().skip_while(|line| !line.contains(" waited ")).take(3);
    let first = first.collect::<Vec<_>>().join(" ");
    ensure!(first.contains(&victim_label) && first.contains(&hog_label), "it says {first}");
    for part in ["who had the CPUs that it waited for", "against its usual", "remedies"] {
        ensure!(shown.contains(part), "{part:?} is not on the page");
    }
    ensure!(shown.contains("critical path"), "no path is on the page");
    terminal.press(&["Escape"])?;
    terminal.wait_for("the table", |screen| screen.lines().any(names_both))?;
    terminal.press(&["q"])?;
    ended_well(&terminal)?;
    burner.stop()?;
    worker.stop()?;
    Ok(())
}

fn daemon_stops_and_comes_back() -> Result<()> {
    needs(&["tmux"])?;
    let mut served = Served::start()?;
    let terminal = served.top(100, 30, &[])?;
    let daemon = served.daemon.take().context("no daemon")?;
    // It hangs, and goes on.
    daemon.process().signal(libc::SIGSTOP)?;
    let stale = terminal.wait_for("that it hangs", |screen| screen.contains("does not answer"))?;
    println!("{}", stale.lines().take(3).collect::<Vec<_>>().join("\n"));
    ensure!(stale.contains("runqueue_wait"), "what was known is gone:\n{stale}");
    daemon.process().signal(libc::SIGCONT)?;
    terminal.wait_for("that it goes on", |screen| !screen.contains("STALE"))?;
    // It ends, and another one starts.
    let (status, _) = daemon.stop(libc::SIGTERM)?;
    ensure!(status.success(), "the daemon ended with {status}");
    let gone = terminal.wait_for("that it is gone", |screen| screen.contains("STALE"))?;
    println!("{}", gone.lines().take(3).collect::<Vec<_>>().join("\n"));
    ensure!(gone.contains("runqueue_wait"), "what was known is gone:\n{gone}");
    served.start_daemon()?;
    terminal.wait_for("that it is back", |screen| !screen.contains("STALE"))?;
    terminal.press(&["q"])?;
    ended_well(&terminal)?;
    Ok(())
}

fn small_terminals() -> Result<()> {
    needs(&["tmux"])?;
    let served = Served::start()?;
    let terminal = served.top(80, 24, &[])?;
    println!("{}", terminal.screen()?);
    terminal.resize(40, 10)?;
    terminal.wait_for("a notice", |screen| screen.contains("needs 60x16"))?;
    terminal.resize(140, 45)?;
    terminal.wait_for_words(&["runqueue_wait", "context_switch"])?;
    terminal.press(&["q"])?;
    ended_well(&terminal)?;
    Ok(())
}

fn signals_restore_the_terminal() -> Result<()> {
    needs(&["tmux"])?;
    let served = Served::start()?;
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
        let terminal = served.top(80, 24, &[])?;
        ensure!(terminal.is_taken()?, "the view has no screen of its own");
        // SAFETY: no memory argument; the process is the terminal's own and not reaped yet.
        let result = unsafe { libc::kill(terminal.pid()?, signal) };
        ensure!(result == 0, "kill: {}", std::io::Error::last_os_error());
        terminal.wait()?;
        ensure!(!terminal.is_taken()?, "signal {signal}: the terminal is not given back");
    }
    Ok(())
}

fn records_and_replays() -> Result<()> {
    needs(&["tmux"])?;
    let served = Served::start()?;
    let (group, workers) = everything()?;
    let label = short(&group);
    let terminal = served.top(150, 30, &["--record", "it.noised"])?;
    terminal.press(&["4"])?;
    terminal.wait_for_words(&[&label])?;
    let path = terminal.folder().join("it.noised");
    let mut sizes = BTreeSet::new();
    wait_until("some frames", TIMEOUT, || {
        sizes.insert(fs::metadata(&path)?.len());
        Ok(sizes.len() > 5)
    })?;
    terminal.press(&["q"])?;
    ended_well(&terminal)?;
    for worker in workers {
        worker.stop()?;
    }
    let whole = fs::read(&path)?;
    println!("{} bytes recorded", whole.len());
    // As if the machine had stopped in the middle of a write.
    fs::write(&path, whole.get(..whole.len() - 7).context("nothing was recorded")?)?;
    let (binary, path) = (binary()?.display().to_string(), path.display().to_string());
    let replay = Terminal::start(150, 30, &[&binary, "top", "--replay", &path])?;
    replay.wait_for_words(&["REPLAY"])?;
    replay.press(&["4", "End"])?;
    replay.wait_for_words(&[&label])?;
    let position = |screen: &str| -> Option<String> {
        let line = screen.lines().find(|line| line.contains("REPLAY"))?;
        line.split("REPLAY").nth(1).map(str::to_owned)
    };
    let end = position(&replay.screen()?);
    replay.press(&["Left", "Left"])?;
    let back = replay.wait_for("another position", |screen| position(screen) != end)?;
    println!("{end:?}, then {:?}", position(&back));
    replay.press(&["Right", "Right"])?;
    replay.wait_for("the end again", |screen| position(screen) == end)?;
    replay.press(&["q"])?;
    ended_well(&replay)?;
    Ok(())
}

fn once_and_json() -> Result<()> {
    let served = Served::start()?;
    let (group, workers) = everything()?;
    let label = group.label();
    let is_said_by = |source: &str| -> Result<bool> {
        let options = ["top", "--connect", source, "--once", "--json", "--screen", "who"];
        let document: Value = run_noised(&options)?.json().context(source.to_owned())?;
        let rows = document["rows"].as_array().context("no rows")?;
        Ok(rows.iter().any(|row| row["victim"] == label.as_str()))
    };
    // Text says first which incidents are open; a column is named as it is called on the screen.
    let socket = served.socket();
    let text = ["top", "--connect", &socket, "--once", "--screen", "who", "--sort", "Mean"];
    let text = run_noised(&text)?;
    let second = text.stdout.lines().nth(1).unwrap_or_default();
    let is_said = second == "no open incident" || second.starts_with("! ");
    ensure!(text.code == 0 && is_said, "{}{}", text.stdout, text.stderr);
    let wrong = run_noised(&["top", "--connect", &socket, "--once", "--sort", "zz"])?;
    ensure_refused(&wrong, 1, &["no column `zz`", "there are: victim"])?;
    for source in [served.socket(), served.address()?] {
        // A new group has no name at first.
        let deadline = Instant::now() + TIMEOUT;
        while !is_said_by(&source)? {
            ensure!(Instant::now() < deadline, "{source}: no {label} within {TIMEOUT:?}");
        }
    }
    let text = run_noised(&["top", "--connect", &served.socket(), "--once"])?.printed()?;
    println!("{text}");
    ensure!(text.contains("runqueue_wait"), "no signal is shown");
    ensure!(!text.contains('\u{1b}'), "text for a file has colours");
    for worker in workers {
        worker.stop()?;
    }
    Ok(())
}

fn without_a_daemon() -> Result<()> {
    ensure!(
        !PathBuf::from("/run/noised/noised.sock").exists(),
        Impossible("another daemon runs here".into())
    );
    let outcome = run_noised(&["top", "--once", "--screen", "irq"])?;
    println!("{}", outcome.stdout);
    ensure!(outcome.code == 0, "{}", outcome.stderr);
    ensure!(outcome.stdout.contains("local_timer"), "the engine measures nothing");
    Ok(())
}

fn refusals() -> Result<()> {
    let outcome = run_noised(&["top", "--connect", "/nonexistent/noised.sock", "--once"])?;
    ensure_refused(&outcome, 1, &["/nonexistent/noised.sock"])?;
    let outcome = run_noised(&["top", "--replay", "/nonexistent/file", "--once"])?;
    ensure_refused(&outcome, 1, &["/nonexistent/file"])?;
    ensure_refused(&run_noised(&["top"])?, 1, &["this is no terminal", "--once"])?;
    let outcome = run_noised(&["top", "--interval", "0s", "--once"])?;
    ensure_refused(&outcome, 2, &["interval"])?;
    // The user nobody, without a daemon.
    if PathBuf::from("/run/noised/noised.sock").exists() {
        return Ok(());
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"]);
    command.arg(binary()?).args(["top", "--once"]);
    let outcome = run(command)?;
    ensure_refused(&outcome, 3, &["noised run"])?;
    Ok(())
}
