//! `noised osnoise --task` and `--cgroup`: no thread of ours measures; the work that is there is
//! accounted for.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use noise_host::collect::Collector;
use noise_host::kernel::{Engine, LoadOptions};
use noise_measure::tenant::{self, Subject, SubjectAccount, Usage};
use noise_model::Sample;

use noise_command::CommandError;
use noise_command::output;
use noise_command::progress::Progress;
use noise_command::terminal::Terminal;

/// How often the programs' ring is drained.
const TURN: Duration = Duration::from_millis(50);
/// How often a terminal is drawn anew.
const REFRESH: Duration = Duration::from_secs(1);

/// The account so far.
struct Books {
    subject: Subject,
    collector: Collector,
    begin: Sample,
    used: Usage,
}

impl Books {
    fn open(subject: Subject) -> Result<Self, CommandError> {
        let options = LoadOptions { watched: subject.watched(), ..LoadOptions::default() };
        let mut engine = Engine::load(&options)?;
        engine.attach()?;
        let mut collector = Collector::new(engine)?;
        let used = subject.usage();
        let begin = collector.sample();
        Ok(Self { subject, collector, begin, used })
    }

    fn account(&mut self, ended: Option<Usage>) -> SubjectAccount {
        let now = self.collector.sample();
        let ran = match (self.used, ended.unwrap_or_else(|| self.subject.usage())) {
            (Usage::Known(before), Usage::Known(now)) => Usage::Known(now.saturating_sub(before)),
            _ => Usage::Unknown,
        };
        SubjectAccount::between(&self.begin, &now, &self.subject.labels(), ran)
    }
}

/// Accounts for a subject until it is gone, the time is over, or the user ends it.
/// Nothing is left attached.
pub fn run(
    subject: Subject,
    duration: Option<Duration>,
    json: bool,
    stop: &AtomicBool,
) -> Result<(), CommandError> {
    let name = subject.name();
    let mut books = Books::open(subject)?;
    let live = !json && Terminal::of_output().can_redraw;
    let mut progress = Progress::new("measuring", duration.unwrap_or_default());
    let begin = Instant::now();
    let (mut drawn, mut last) = (begin, books.used);
    while !stop.load(Ordering::Relaxed)
        && duration.is_none_or(|duration| begin.elapsed() < duration)
        && books.subject.exists()
    {
        thread::sleep(TURN);
        books.collector.drain();
        if let known @ Usage::Known(_) = books.subject.usage() {
            last = known;
        }
        if live && drawn.elapsed() >= REFRESH {
            drawn = Instant::now();
            output::redraw(&tenant::text(&books.account(None), &name))?;
        } else if !live {
            progress.at(begin.elapsed());
        }
    }
    drop(progress);
    let account = books.account(Some(last));
    if json {
        let json = tenant::json(&account, &name);
        let text = serde_json::to_string_pretty(&json).context("cannot write JSON")?;
        return Ok(output::print_json(&(text + "\n"))?);
    }
    let text = tenant::text(&account, &name);
    Ok(if live { output::redraw(&text) } else { output::print(&text) }?)
}
