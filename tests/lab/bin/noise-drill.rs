//! `noise-drill`: incident drills, and what noised says of them. Started by `cargo xtask drill`.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use clap::builder::PossibleValuesParser;
use noise_tests::daemon::run as run_command;
use noise_tests::drill::{
    DRILLS, Drill, Ending, Outcome, Plan, find, heading, play, progress, record, report,
};
use noise_tests::load;
use noise_tests::task::ended_as_root;

/// Raised by SIGTERM and SIGINT: no other drill begins. What one has planted is taken back at its end.
static IS_TO_END: AtomicBool = AtomicBool::new(false);

extern "C" fn end(_signal: libc::c_int) {
    IS_TO_END.store(true, Ordering::Relaxed);
}

fn end_after_a_drill() {
    let handler = end as extern "C" fn(libc::c_int);
    for signal in [libc::SIGTERM, libc::SIGINT] {
        // SAFETY: the handler does nothing but store.
        unsafe { libc::signal(signal, handler as libc::sighandler_t) };
    }
}

/// How long noised learns what is usual before something is planted, s: with short windows, and as it is shipped.
const LEARN_SECONDS: [u64; 2] = [18, 90];

/// Plant what disturbs a service, and judge what noised says of it.
///
/// Starts the daemon that NOISED_BIN names (else target/release/noised) anew for each drill, on a free port of loopback, beside
/// a service and a client that logs what it felt. Each drill has 3 points: resource and culprit right in the first line of
/// `noised why`; the same on the first screen and in the incident within 10 s; no command that would hurt somebody innocent,
/// which takes all points. A drill whose service was not disturbed is inconclusive, and one that this host cannot do is
/// skipped. Everything that it plants is gone at the end; after SIGTERM it ends behind the
/// drill that is played. Exits with 1 where a command would do harm.
#[derive(Debug, Parser)]
#[command(name = "noise-drill", version)]
struct Options {
    /// Which drills; all of them by default
    #[arg(value_parser = PossibleValuesParser::new(DRILLS.iter().map(|drill| drill.name)), value_name = "NAME")]
    names: Vec<String>,
    /// How often each is played
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,
    /// Length of the drills that plant nothing, in minutes
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=600))]
    minutes: u64,
    /// Learn what is usual as noised does by default, for 90 s, instead of 18 s with short windows
    #[arg(long)]
    as_shipped: bool,
    /// Append a row for each drill to this table
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = concat!(env!("CARGO_MANIFEST_DIR"), "/drills.md"))]
    record: Option<PathBuf>,
    /// What goes on beside the drills, for the table
    #[arg(long, value_name = "TEXT", default_value = "nothing", requires = "record")]
    beside: String,
    /// List the drills
    #[arg(long)]
    list: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    if let Some(code) = load::instead() {
        return code;
    }
    let options = Options::parse();
    if options.list {
        DRILLS.iter().for_each(|drill| println!("{:<12} {}", drill.name, drill.plot));
        return ExitCode::SUCCESS;
    }
    ended_as_root("noise-drill", "the daemon and cgroups", || run(&options))
}

fn printed(program: &str, arguments: &[&str]) -> Result<String> {
    let mut command = Command::new(program);
    command.args(arguments);
    let outcome = run_command(command)?;
    ensure!(outcome.code == 0, "{program} {}: {}", arguments.join(" "), outcome.stderr.trim());
    Ok(outcome.stdout.trim().to_owned())
}

/// Appends a row.
fn append(options: &Options, outcome: &Outcome, revision: &str) -> Result<()> {
    let Some(path) = &options.record else { return Ok(()) };
    let date = printed("date", &["--utc", "+%F %H:%M"])?;
    let row = record(outcome, &date, revision, &options.beside);
    let table = OpenOptions::new().append(true).open(path);
    let written = table.and_then(|mut table| table.write_all(row.as_bytes()));
    written.with_context(|| format!("cannot append to {}", path.display()))
}

/// Plays them; fails where a command would do harm.
fn run(options: &Options) -> Result<ExitCode> {
    let chosen: Vec<&Drill> = match options.names.as_slice() {
        [] => DRILLS.iter().collect(),
        names => names.iter().filter_map(|name| find(name)).collect(),
    };
    // Before a row makes it differ.
    let revision = match &options.record {
        Some(_) => {
            printed("git", &["-C", env!("CARGO_MANIFEST_DIR"), "describe", "--always", "--dirty"])?
        }
        None => String::new(),
    };
    let [quick, long] = LEARN_SECONDS;
    let plan = Plan {
        learn: Duration::from_secs(if options.as_shipped { long } else { quick }),
        watch: Duration::from_secs(10),
        quiet: Duration::from_secs(60 * options.minutes),
        as_shipped: options.as_shipped,
    };
    let mut outcomes = Vec::new();
    end_after_a_drill();
    eprintln!("{}", heading());
    for drill in (0..options.runs).flat_map(|_| &chosen) {
        if IS_TO_END.load(Ordering::Relaxed) {
            eprintln!("ended early, as a signal asked");
            break;
        }
        let outcome = play(drill, &plan).unwrap_or_else(|error| {
            let reason = format!("{error:#}");
            Outcome::without(drill.name, Ending::Inconclusive { reason })
        });
        eprintln!("{}", progress(&outcome));
        append(options, &outcome, &revision)?;
        outcomes.push(outcome);
    }
    match options.json {
        true => println!("{}", serde_json::to_string_pretty(&outcomes)?),
        false => print!("{}", report(&outcomes)),
    }
    let is_harmful = outcomes.iter().any(|outcome| !outcome.harm.is_empty());
    Ok(ExitCode::from(u8::from(is_harmful)))
}
