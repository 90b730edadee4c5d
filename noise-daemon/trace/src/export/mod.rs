//! A recording in the formats of other programs: trace packets of Perfetto, tables, lines of JSON.
//!
//! An [`Export`] takes events one by one and holds what they became until the caller takes it away: as much
//! as one piece of writing, whatever the length of the recording.

pub mod perfetto;
pub mod tables;

use noise_text::clean::clean_json;

use self::perfetto::Perfetto;
use self::tables::Tables;
use crate::analysis::Analysis as _;
use crate::crowd::{Crowd, TooManyThreads};
use crate::delays::watch::{Delay, Run, RunQueueWait, Watch};
use crate::delays::{Begin, Delays};
use crate::event::TraceKind;
use crate::json;
use crate::record::{Record, Stored};
use crate::select::Select;

/// All forms that are wanted of one recording.
pub struct Export {
    select: Select,
    delays: Delays,
    crowd: Crowd,
    pub perfetto: Option<Perfetto>,
    pub tables: Option<Tables>,
    /// Lines of JSON, as `noised trace events --json` prints them.
    pub lines: Option<String>,
    /// The line at hand; kept for its room.
    line: String,
}

/// Those that want delays, of threads that are wanted.
struct ExportSinks<'a> {
    select: &'a Select,
    perfetto: Option<&'a mut Perfetto>,
    tables: Option<&'a mut Tables>,
}

impl Watch for ExportSinks<'_> {
    fn ran(&mut self, run: &Run) {
        if let Some(tables) = &mut self.tables
            && self.select.wants_thread(run.tid)
        {
            tables.ran(run);
        }
    }

    fn waited(&mut self, wait: &RunQueueWait<'_>) {
        if !self.select.wants_thread(wait.tid) {
            return;
        }
        if let Some(perfetto) = &mut self.perfetto {
            perfetto.waited(wait);
        }
        if let Some(tables) = &mut self.tables {
            tables.waited(wait);
        }
    }

    fn delayed(&mut self, delay: &Delay<'_>) {
        if let Some(perfetto) = &mut self.perfetto {
            perfetto.delayed(delay);
        }
        if let Some(tables) = &mut self.tables {
            tables.delayed(delay);
        }
    }
}

impl Export {
    /// One in these forms; without `lines`, no lines of JSON. Waits of threads that are woken begin with that event.
    pub fn new(
        select: Select,
        begin: Begin,
        perfetto: Option<Perfetto>,
        tables: Option<Tables>,
        lines: bool,
    ) -> Self {
        let lines = lines.then(String::new);
        let tables = tables.map(|tables| tables.with(begin));
        Self {
            select,
            delays: Delays::new(begin),
            crowd: Crowd::alive(),
            perfetto,
            tables,
            lines,
            line: String::new(),
        }
    }

    /// Whether nothing that comes from here on is wanted.
    pub fn is_over(&self, time_ns: u64) -> bool {
        self.select.is_over(time_ns)
    }

    /// Whether a cgroup is wanted, and no event so far said which one a thread is in.
    pub fn lacks_cgroups(&self) -> bool {
        self.select.lacks_cgroups()
    }

    /// Takes the next event, in the order of time; also those that are not wanted: what comes later depends
    /// on who runs and who waits.
    /// Errors: where the recording names too many threads for what is wanted.
    pub fn add<'t>(&mut self, record: &Record<impl Stored<'t>>) -> Result<bool, TooManyThreads> {
        let event = record.event();
        let has_threads = self.select.follows() || self.perfetto.is_some() || self.tables.is_some();
        let ended = if has_threads { self.crowd.follow(0, &event)? } else { None };
        let is_wanted = self.select.wants(&event);
        if let Some(lines) = self.lines.as_mut().filter(|_| is_wanted) {
            self.line.clear();
            json::line(record, &mut self.line);
            lines.push_str(&clean_json(&self.line));
        }
        if self.perfetto.is_none() && self.tables.is_none() {
            return Ok(is_wanted);
        }
        let select = &self.select;
        // What ends with the event stands before it.
        match is_wanted {
            true => {
                let (perfetto, tables) = (self.perfetto.as_mut(), self.tables.as_mut());
                self.delays.follow_each(&event, &mut ExportSinks { select, perfetto, tables });
            }
            false => self.delays.follow(&event),
        }
        if let Some(perfetto) = &mut self.perfetto {
            // Perfetto ends what runs on a CPU only where the next switch there is one away from it.
            let is_switch = matches!(event.kind, TraceKind::SchedSwitch { .. });
            match is_wanted || (is_switch && select.is_in_time(event.time_ns)) {
                true => perfetto.add(record, &event),
                false => perfetto.pass(&event),
            }
        }
        if let Some(tables) = &mut self.tables {
            if is_wanted {
                tables.event(record, &event);
            }
            tables.follow(&event, |tid| is_wanted && select.wants_thread(tid));
        }
        if let Some(tid) = ended {
            self.forget(tid);
        }
        Ok(is_wanted)
    }

    /// What a thread did that has ended is written.
    fn forget(&mut self, tid: i32) {
        self.delays.forget(tid);
        if let Some(perfetto) = &mut self.perfetto {
            perfetto.forget(tid);
        }
        if let Some(tables) = &mut self.tables {
            tables.forget(tid);
        }
    }

    /// Takes what is there at the end of the recording.
    pub fn finish(&mut self) {
        if let Some(perfetto) = &mut self.perfetto {
            perfetto.finish();
        }
        if let Some(tables) = &mut self.tables {
            tables.finish(|tid| self.select.wants_thread(tid));
        }
    }
}
