//! A reader that looks at every field of every event, as whoever analyses a trace as a whole does: what babeltrace2
//! does for each event before anything is done with it.

use std::fs::{self, File};
use std::path::Path;

use anyhow::{Result, ensure};
use noise_trace::ctf::{CtfReader, StreamFile, TraceLayout, metadata};
use noise_trace::record::Source as _;
use noise_trace::value::{Shape, Value, Visit};
use noise_trace::window::{Content, Opened};

/// What was read: enough that no part of it can be left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Read {
    /// Events.
    pub events: u64,
    /// Values of their fields, elements of arrays and sequences each.
    pub values: u64,
    /// All bits of them: numbers, and the bytes of texts, added up.
    pub sum: u64,
}

impl Visit for Read {
    fn name(&mut self, _: &str) {}

    fn element(&mut self, _: u64) {}

    fn value(&mut self, value: Value<'_>) {
        self.values += 1;
        let bits = match value {
            Value::Unsigned { value, .. } => value,
            Value::Signed { value, .. } => value as u64,
            Value::Float(value) => value.to_bits(),
            Value::Text(text) => text.iter().map(|byte| u64::from(*byte)).sum(),
            Value::Label { label, value } => {
                self.value(*value);
                self.values -= 1;
                label.map_or(0, |label| label.len() as u64)
            }
        };
        self.sum = self.sum.wrapping_add(bits);
    }

    fn begin(&mut self, _: Shape) {}

    fn end(&mut self, _: Shape) {}
}

/// Reads all of a trace in the order of time.
/// Errors: if something of it cannot be read.
pub fn read(folder: &Path) -> Result<Read> {
    let layout = TraceLayout::parse(&metadata::text(&fs::read(folder.join("metadata"))?)?)?;
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type()?.is_file() && name != "metadata" {
            names.push(name);
        }
    }
    names.sort();
    let open = |name: &String| {
        let file = File::open(folder.join(name))?;
        Ok(Opened { length: file.metadata()?.len(), file })
    };
    let opened = names.iter().map(open).collect::<Result<Vec<_>>>()?;
    let named = names.iter().zip(&opened);
    let files: Vec<_> =
        named.map(|(name, file)| StreamFile { name, content: Content::Read(file) }).collect();
    let mut reader = CtfReader::new(&layout, &files);
    let mut read = Read::default();
    while let Some(record) = reader.read() {
        record.visit_contexts(&mut read, |_| ());
        record.visit(&mut read);
        read.sum = read.sum.wrapping_add(record.time_ns);
        read.events += 1;
    }
    let damage = reader.damage();
    ensure!(damage.is_none(), "{} is read in part: {damage}", folder.display());
    Ok(read)
}
