//! Critical paths as trace packets of Perfetto.

use std::collections::BTreeMap;
use std::path::Path;

use noise_paths::document::{Document, Segment, Traced};
use noise_trace::clock::Clock;
use noise_trace::export::perfetto::{Part, Perfetto};
use noise_trace::record::Source;

use super::page::named;
use crate::cli::trace::export::refuse_inside;
use crate::cli::trace::target::Target;

/// What is ready is written in pieces of this length.
const PIECE_BYTES: usize = 64 << 10;

/// A file that is being written.
#[derive(Debug)]
pub struct Picture {
    target: Target,
    perfetto: Perfetto,
}

impl Picture {
    /// Begins it, for paths of a recording.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn begin(recording: &Path, to: &Path) -> anyhow::Result<Self> {
        refuse_inside(recording, to.parent().unwrap_or(Path::new("")))?;
        let perfetto = Perfetto::new(&Clock::trace(), &BTreeMap::new());
        Ok(Self { target: Target::create(to)?, perfetto })
    }

    /// The recording has this clock and this environment.
    pub fn of(&mut self, clock: &Clock, environment: &BTreeMap<String, String>) {
        self.perfetto = Perfetto::new(clock, environment);
    }

    /// Writes all paths, and below them the events of their time.
    ///
    /// # Errors
    /// Where they cannot be written; an older file of that name is as it was then.
    pub fn finish<'t>(
        mut self,
        document: &Document,
        source: impl Source<'t>,
    ) -> anyhow::Result<()> {
        let from_ns = document.executions.iter().map(|traced| traced.from_ns).min().unwrap_or(0);
        let to_ns = document.executions.iter().map(|traced| traced.to_ns).max().unwrap_or(0);
        for record in source {
            let event = record.event();
            match event.time_ns {
                time_ns if time_ns > to_ns => break,
                // Who is who, and what was marked.
                time_ns if time_ns < from_ns => self.perfetto.pass(&event),
                _ => self.perfetto.add(&record, &event),
            }
            self.write(PIECE_BYTES)?;
        }
        for traced in &document.executions {
            self.perfetto.path(&name(traced), &parts(traced));
            self.write(PIECE_BYTES)?;
        }
        self.perfetto.finish();
        self.write(0)?;
        self.target.keep()
    }

    /// Writes what is at least so long.
    fn write(&mut self, least_bytes: usize) -> anyhow::Result<()> {
        let packets = self.perfetto.packets();
        if packets.bytes().len() >= least_bytes {
            self.target.write(packets.bytes())?;
            packets.clear();
        }
        Ok(())
    }
}

/// What a path is called: what was asked for, its key, its thread.
fn name(traced: &Traced) -> String {
    let key = traced.key.as_ref().map_or_else(String::new, |key| format!("={key}"));
    format!("{}{key} ({} {})", traced.name, traced.comm, traced.tid)
}

fn parts(traced: &Traced) -> Vec<Part> {
    let part = |segment: &Segment| Part {
        who: (segment.comm.clone(), segment.tid),
        state: segment.state,
        from_ns: segment.from_ns,
        to_ns: segment.to_ns,
        cpu: segment.cpu,
        culprits: segment.culprits.iter().map(|culprit| (named(culprit), culprit.ns)).collect(),
    };
    traced.path.iter().map(part).collect()
}

#[cfg(test)]
mod tests;
#[cfg(test)]
#[path = "../../../../trace/tests/traces/wire.rs"]
mod wire;
