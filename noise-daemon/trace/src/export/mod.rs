//! A recording in the forms of others: trace packets of Perfetto, tables, lines of JSON.
//!
//! An [`Export`] takes events one by one and holds what they became until the caller takes it away: as much
//! as one piece of writing, whatever the length of the recording.

pub mod perfetto;
pub mod proto;
pub mod tables;

use noise_model::clean::clean_json;

use self::perfetto::Perfetto;
use self::tables::Tables;
use crate::delays::Delays;
use crate::delays::watch::{Delay, Run, Wait, Watch};
use crate::json;
use crate::record::Recorded;

/// All forms that are wanted of one recording.
pub struct Export {
    delays: Delays,
    /// Trace packets.
    pub perfetto: Option<Perfetto>,
    /// Tables.
    pub tables: Option<Tables>,
    /// Lines of JSON, as `noised trace events --json` prints them.
    pub lines: Option<String>,
}

/// Those that want delays.
struct Both<'a> {
    perfetto: Option<&'a mut Perfetto>,
    tables: Option<&'a mut Tables>,
}

impl Watch for Both<'_> {
    fn ran(&mut self, run: &Run) {
        if let Some(tables) = &mut self.tables {
            tables.ran(run);
        }
    }

    fn waited(&mut self, wait: &Wait<'_>) {
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
    /// One in these forms; without `lines`, no lines of JSON.
    pub fn new(perfetto: Option<Perfetto>, tables: Option<Tables>, lines: bool) -> Self {
        let lines = lines.then(String::new);
        Self { delays: Delays::default(), perfetto, tables, lines }
    }

    /// Takes the next event, in the order of time.
    pub fn add<'t>(&mut self, record: &impl Recorded<'t>) {
        if let Some(lines) = &mut self.lines {
            let mut line = String::new();
            json::line(record, &mut line);
            lines.push_str(&clean_json(&line));
        }
        if self.perfetto.is_none() && self.tables.is_none() {
            return;
        }
        let event = record.event();
        // What ends with the event stands before it.
        let mut both = Both { perfetto: self.perfetto.as_mut(), tables: self.tables.as_mut() };
        self.delays.follow_each(&event, &mut both);
        if let Some(perfetto) = &mut self.perfetto {
            perfetto.add(record, &event);
        }
        if let Some(tables) = &mut self.tables {
            tables.add(record, &event);
        }
    }

    /// Takes an event that is not to be shown: what follows depends on who runs and who waits.
    pub fn pass<'t>(&mut self, record: &impl Recorded<'t>) {
        if self.perfetto.is_none() && self.tables.is_none() {
            return;
        }
        let event = record.event();
        self.delays.follow(&event);
        if let Some(perfetto) = &mut self.perfetto {
            perfetto.pass(&event);
        }
        if let Some(tables) = &mut self.tables {
            tables.pass(&event);
        }
    }

    /// Takes what is there at the end of the recording.
    pub fn finish(&mut self) {
        if let Some(perfetto) = &mut self.perfetto {
            perfetto.finish();
        }
        if let Some(tables) = &mut self.tables {
            tables.finish();
        }
    }
}
