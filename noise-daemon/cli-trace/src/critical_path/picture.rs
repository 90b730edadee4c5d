//! Critical paths as trace packets of Perfetto.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use noise_command::progress::ProgressLine;
use noise_command::{CommandError, output};
use noise_pages::critical_path::{awaited, named};
use noise_paths::document::{PathsDocument, Segment, Traced};
use noise_system::output::{FILE_MODE, Target};
use noise_trace::clock::TraceClock;
use noise_trace::event::TraceKind;
use noise_trace::export::perfetto::{PathPart, Perfetto, packed};
use noise_trace::record::Source;
use noise_trace::select::about;
use noise_trace::threads::Threads;

use crate::export::{PACKED_BYTES, refuse_inside, refuse_stdout};

/// What takes longer says how far it is.
const SOON: Duration = Duration::from_secs(1);

/// A file that is being written.
#[derive(Debug)]
pub struct Picture {
    target: Target,
    perfetto: Perfetto,
}

impl Picture {
    /// Begins it, for paths of a recording.
    /// Errors: where it cannot be written.
    pub fn begin(recording: &Path, to: &Path) -> Result<Self, CommandError> {
        refuse_stdout("--perfetto", to)?;
        let place = output::place(to)?;
        refuse_inside(recording, &place, to.parent().unwrap_or(to))?;
        let perfetto = Perfetto::new(&TraceClock::trace(), &BTreeMap::new());
        Ok(Self { target: place.begin(FILE_MODE).map_err(anyhow::Error::from)?, perfetto })
    }

    /// The recording has this clock and this environment.
    pub fn of(&mut self, clock: &TraceClock, environment: &BTreeMap<String, String>) {
        self.perfetto = Perfetto::new(clock, environment);
    }

    /// Writes all paths, and below them what their threads did in their time.
    /// Errors: where they cannot be written; an older file of that name is as it was then.
    pub fn finish(self, document: &PathsDocument, source: impl Source) -> anyhow::Result<()> {
        let from_ns = document.executions.iter().map(|traced| traced.from_ns).min().unwrap_or(0);
        let to_ns = document.executions.iter().map(|traced| traced.to_ns).max().unwrap_or(0);
        let parts = document.executions.iter().flat_map(|traced| &traced.path);
        let on_paths: BTreeSet<i32> = parts.map(|part| part.tid).filter(|tid| *tid > 0).collect();
        let wants = |tid| on_paths.contains(&tid);
        self.draw(&document.executions, source, (from_ns, to_ns), wants).map(drop)
    }

    /// The same with the events between two times of threads that are wanted, and the switches of all others, without which a
    /// run has no end; how many these are.
    /// Errors: those of [`finish`](Self::finish).
    pub fn draw(
        mut self,
        executions: &[Traced],
        mut source: impl Source,
        (from_ns, to_ns): (u64, u64),
        wants: impl Fn(i32) -> bool,
    ) -> anyhow::Result<u64> {
        let (began, mut line, mut events) = (Instant::now(), ProgressLine::begin(), 0_u64);
        let mut threads = Threads::default();
        while let Some(record) = source.read() {
            let event = record.event();
            let mut about = about(&event, threads.current(event.cpu)).into_iter().flatten();
            threads.follow(&event);
            let is_wanted =
                matches!(event.kind, TraceKind::SchedSwitch { .. } | TraceKind::Lost(_))
                    || about.any(&wants);
            match event.time_ns {
                time_ns if time_ns > to_ns => break,
                // Who is who, and what was marked.
                time_ns if time_ns < from_ns || !is_wanted => self.perfetto.pass(&event),
                _ => {
                    self.perfetto.add(&record, &event);
                    events += 1;
                }
            }
            if self.write(PACKED_BYTES)? && began.elapsed() >= SOON {
                let part = event.time_ns.saturating_sub(from_ns) as f64;
                let part = part / to_ns.saturating_sub(from_ns).max(1) as f64;
                line.draw(&format!("writing the events: {:.0} %", 100.0 * part));
            }
        }
        for traced in executions {
            self.perfetto.path(&name(traced), &parts(traced));
            self.write(PACKED_BYTES)?;
        }
        self.perfetto.finish();
        self.write(1)?;
        self.target.keep()?;
        Ok(events)
    }

    /// Writes what is at least so long; whether it was.
    fn write(&mut self, least_bytes: usize) -> anyhow::Result<bool> {
        let packets = self.perfetto.packets();
        let is_due = packets.bytes().len() >= least_bytes;
        if is_due {
            self.target.write(&packed(packets)?)?;
            packets.clear();
        }
        Ok(is_due)
    }
}

/// What a path is called: what was asked for, its key, its thread.
fn name(traced: &Traced) -> String {
    let key = traced.key.as_ref().map_or_else(String::new, |key| format!("={key}"));
    format!("{}{key} ({} {})", traced.name, traced.comm, traced.tid)
}

fn parts(traced: &Traced) -> Vec<PathPart> {
    let part = |segment: &Segment| PathPart {
        who: (segment.comm.clone(), segment.tid),
        state: segment.state,
        from_ns: segment.from_ns,
        to_ns: segment.to_ns,
        cpu: segment.cpu,
        awaited: awaited(segment),
        culprits: segment.culprits.iter().map(|culprit| (named(culprit), culprit.ns)).collect(),
    };
    traced.path.iter().map(part).collect()
}

#[cfg(test)]
mod tests;
