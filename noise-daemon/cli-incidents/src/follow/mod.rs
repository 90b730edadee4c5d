//! `noised incidents --follow`: incidents as they open, change and close, from a daemon that is asked once a second and may
//! come and go. Each is printed, and a command may be run with it: by this process, not by the daemon, which is confined.

mod changes;
mod command;

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use noise_command::{interrupt, output};
use noise_serve::IncidentEvent;
use noise_text::clean::{clean, clean_json};
use noise_text::times::rfc3339;

use self::changes::{ChangeKind, Follower, Happened};
use self::command::{Occurrence, Runner};
use super::source::IncidentSource;
use super::subjects::Subjects;
use noise_command::durations::{Plain, duration};

const ASK_EVERY: Duration = Duration::from_secs(1);
/// How long an interrupt may go unnoticed.
const NOTICE: Duration = Duration::from_millis(50);
/// Bounds of the time that a command may take.
const TIMEOUTS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(3600));

/// Reads the time that a command may take.
/// Errors say what is expected.
pub fn timeout(text: &str) -> Result<Duration, String> {
    duration(text, Plain::Seconds, TIMEOUTS.0, TIMEOUTS.1)
}

/// Errors: where there is none.
pub fn command(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("expected a command, such as 'logger -t noised'".to_owned()),
        _ => Ok(text.to_owned()),
    }
}

/// What is done with what becomes of incidents.
#[derive(Debug)]
pub struct Options {
    pub subjects: Subjects,
    pub is_json: bool,
    /// What is run with each that opens and closes, and for how long at most.
    pub exec: Option<(String, Duration)>,
}

/// Follows incidents until an interrupt, or until no one reads what is printed.
/// Errors: where no daemon answers at the begin, or nothing can be printed.
pub fn follow(options: Options, source: &IncidentSource) -> anyhow::Result<()> {
    let stop = interrupt::flag()?;
    let source = source.live();
    let mut follower = Follower::new(options.subjects);
    let mut listing = Ok(source.incidents()?);
    let exec = options.exec;
    let start = |(command, timeout)| Runner::start(command, timeout, output::complain);
    let mut runner = exec.map(start).transpose()?;
    let mut is_lost = false;
    let followed = loop {
        match &listing {
            Ok(listing) => {
                if std::mem::take(&mut is_lost) {
                    output::complain("the daemon answers again");
                }
                let happened = follower.take(listing);
                if let Err(error) = pass_on(&happened, options.is_json, runner.as_mut()) {
                    break Err(error);
                }
            }
            Err(error) if !is_lost => {
                is_lost = true;
                output::complain(&format!("{error:#}; asking again every second"));
            }
            Err(_) => {}
        }
        if !pause(&stop) {
            break Ok(());
        }
        listing = source.incidents();
    };
    if let Some(runner) = runner {
        runner.finish();
    }
    match followed {
        // Whoever reads has seen enough.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        followed => followed.context("cannot write the result"),
    }
}

/// Waits until the next request is due; whether there is one.
fn pause(stop: &Arc<AtomicBool>) -> bool {
    let due = Instant::now() + ASK_EVERY;
    while Instant::now() < due {
        if stop.load(Ordering::Relaxed) {
            return false;
        }
        thread::sleep(NOTICE);
    }
    !stop.load(Ordering::Relaxed)
}

/// Prints what happened, and has the command run with what it is for.
fn pass_on(
    happened: &[Happened],
    is_json: bool,
    mut runner: Option<&mut Runner>,
) -> io::Result<()> {
    for one in happened {
        let time = Timestamp::now();
        let document = document(one, time)?;
        match is_json {
            true => output::show_json(&document)?,
            false => output::show(&line(one, time, &TimeZone::system()))?,
        }
        let Some(runner) = runner.as_mut().filter(|_| one.kind != ChangeKind::Changed) else {
            continue;
        };
        let occurrence = Occurrence {
            event: one.kind.name(),
            id: one.report.id,
            sentence: clean(&one.report.sentence(&TimeZone::system())).into_owned(),
            document: clean_json(&document).into_owned(),
        };
        if let Err(sentence) = runner.run(occurrence) {
            output::complain(&sentence);
        }
    }
    Ok(())
}

fn document(happened: &Happened, time: Timestamp) -> io::Result<String> {
    let Happened { kind, report, trace, changes, into } = happened;
    let event = IncidentEvent::new(kind.name(), time, report, trace.as_deref(), changes, *into);
    Ok(serde_json::to_string(&event)? + "\n")
}

/// What happened for a person, in a line.
fn line(happened: &Happened, time: Timestamp, zone: &TimeZone) -> String {
    let Happened { kind, report, changes, .. } = happened;
    let (id, sentence) = (report.id, report.sentence(zone));
    let what = match kind {
        ChangeKind::Open => format!("{:.1} s so far: {sentence}", report.lasted()),
        ChangeKind::Opened => sentence,
        ChangeKind::Changed => changes.join("; "),
        ChangeKind::Closed | ChangeKind::Merged => {
            let standing = match changes.is_empty() {
                true => report.standing().to_owned(),
                false => changes.join("; "),
            };
            format!("{:.1} s, {standing}: {sentence}", report.lasted())
        }
    };
    let time = rfc3339(time, zone);
    format!("{time} {:<7} #{id} {}\n", kind.name(), clean(&what))
}

#[cfg(test)]
mod tests {
    use super::*;
    use noise_pages::incidents::made;

    #[test]
    fn what_happened_is_a_line_or_a_document() {
        let report = Arc::new(made::report());
        let happened = |kind, changes: &[&str]| Happened {
            kind,
            report: Arc::clone(&report),
            trace: None,
            changes: changes.iter().map(|change| (*change).to_owned()).collect(),
            into: None,
        };
        let time: Timestamp = "2026-11-21T09:41:20Z".parse().unwrap();
        let sentence = "/system.slice/web.service waited for a CPU: median 12.3 µs -> 4.19 ms (341x) during 12.5 s, \
                        held up by /system.slice/backup.service (88.9 %)";
        for (kind, changes, expected) in [
            (ChangeKind::Open, &[][..], format!("open    #3 12.5 s so far: {sentence}")),
            (ChangeKind::Opened, &[], format!("opened  #3 {sentence}")),
            (ChangeKind::Changed, &["a\nb", "c"], "changed #3 a\\x0ab; c".to_owned()),
            (ChangeKind::Closed, &[], format!("closed  #3 12.5 s, over: {sentence}")),
            (
                ChangeKind::Merged,
                &["it is a part of incident 2"],
                format!("merged  #3 12.5 s, it is a part of incident 2: {sentence}"),
            ),
        ] {
            let line = line(&happened(kind, changes), time, &TimeZone::UTC);
            assert_eq!(line, format!("2026-11-21T09:41:20Z {expected}\n"));
        }
        let text = document(&happened(ChangeKind::Changed, &["c"]), time).unwrap();
        assert_eq!(text.matches('\n').count(), 1);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        for (key, expected) in
            [("version", "1"), ("event", "\"changed\""), ("changes", "[\"c\"]"), ("into", "null")]
        {
            assert_eq!(value[key].to_string(), expected, "{key}");
        }
        assert_eq!(
            (&value["incident"]["id"], value["time"].as_str()),
            (&3.into(), Some("2026-11-21T09:41:20Z"))
        );
        assert_eq!(value["sentence"], sentence);
    }

    #[test]
    fn commands_and_their_times_have_bounds() {
        assert!(command("  ").unwrap_err().contains("such as"));
        assert_eq!(command("a b").as_deref(), Ok("a b"));
        assert_eq!(timeout("10s"), Ok(Duration::from_secs(10)));
        assert_eq!(timeout("10"), Ok(Duration::from_secs(10)));
        for bad in ["0s", "2h", "0.01", "x"] {
            assert!(timeout(bad).unwrap_err().contains("from 100ms to 1h"), "{bad}");
        }
    }
}
