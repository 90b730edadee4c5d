//! Events that Perfetto has no type for: their names, and all their fields.

use std::fmt::Write as _;

use noise_protobuf::Message;
use noise_text::clean::as_text;

use crate::bounded::Bounded;
use crate::record::{Record, Stored};
use crate::value::{Shape, Value, Visit};

/// `FtraceEvent.generic`
const GENERIC: u32 = 327;

/// Writes fields; those inside of others have the names of both.
pub struct Generic<'a> {
    event: &'a mut Message,
    /// `outer.inner[3]`, and the lengths of what is outside.
    name: String,
    outer: Vec<usize>,
}

impl Generic<'_> {
    pub fn write<'t>(message: &mut Message, record: &Record<impl Stored<'t>>) {
        message.message(GENERIC, |event| {
            event.text(1, record.name());
            let mut fields = Generic { event, name: String::new(), outer: Vec::new() };
            let mut bounded = Bounded::new(&mut fields);
            record.visit(&mut bounded);
            if bounded.is_cut() {
                fields.name("cut");
                fields.value(Value::Unsigned { value: 1, base: 10 });
            }
            fields.name.clear();
            fields.name.push_str("context");
            fields.outer.push(fields.name.len());
            record.visit_contexts(&mut Bounded::new(&mut fields), |_| {});
        });
    }

    fn cut(&mut self) {
        self.name.truncate(self.outer.last().copied().unwrap_or(0));
    }
}

impl Visit for Generic<'_> {
    fn name(&mut self, name: &str) {
        self.cut();
        if !self.name.is_empty() {
            self.name.push('.');
        }
        self.name.push_str(name.strip_prefix('_').unwrap_or(name));
    }

    fn element(&mut self, number: u64) {
        self.cut();
        // Writing into a text cannot fail.
        let _ = write!(self.name, "[{number}]");
    }

    fn value(&mut self, value: Value<'_>) {
        let name = self.name.as_str();
        self.event.message(2, |field| {
            field.text(1, name);
            put(field, value);
        });
    }

    fn begin(&mut self, _: Shape) {
        self.outer.push(self.name.len());
    }

    fn end(&mut self, _: Shape) {
        self.outer.pop();
    }
}

fn put(field: &mut Message, value: Value<'_>) {
    match value {
        Value::Unsigned { value, .. } => field.unsigned(5, value),
        Value::Signed { value, .. } => field.signed(4, value),
        Value::Float(value) => field.text(3, &value.to_string()),
        Value::Text(text) => field.text(3, &as_text(text)),
        Value::Label { label: Some(label), .. } => field.text(3, label),
        Value::Label { label: None, value } => put(field, *value),
    }
}
