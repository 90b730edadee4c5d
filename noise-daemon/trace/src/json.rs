//! Events as lines of JSON: one object each.

use std::fmt::Write as _;

use noise_text::clean::as_text;
use serde_json::{Number, Value as Json};

use crate::bounded::Bounded;
use crate::decimal;
use crate::event::LostEvents;
use crate::record::{Record, Stored};
use crate::value::{Shape, Value, Visit};

/// One event as one line: `time_ns`, `cpu`, `name`, `fields`, and `context` where it has one.
pub fn line<'t>(record: &Record<impl Stored<'t>>, into: &mut String) {
    into.push_str(r#"{"time_ns":"#);
    decimal::push(record.time_ns, into);
    into.push_str(r#","cpu":"#);
    decimal::push(record.cpu.into(), into);
    into.push_str(r#","name":"#);
    text(record.name(), into);
    into.push_str(r#","fields":"#);
    fields(record, into);
    context(record, r#","context":"#, into);
    into.push_str("}\n");
}

/// Its own fields, as an object.
pub fn fields<'t>(record: &Record<impl Stored<'t>>, into: &mut String) {
    if let Some(loss) = record.loss() {
        lost(&loss, into);
        return;
    }
    into.push('{');
    let mut writer = Writer { into, is_first: true };
    let mut bounded = Bounded::new(&mut writer);
    record.visit(&mut bounded);
    if bounded.is_cut() {
        writer.name("cut");
        writer.into.push_str("true");
    }
    into.push('}');
}

/// The fields of its contexts, as one object behind `before`; nothing where it has none.
pub fn context<'t>(record: &Record<impl Stored<'t>>, before: &str, into: &mut String) {
    let mut is_open = false;
    let mut writer = Writer { into, is_first: true };
    record.visit_contexts(&mut Bounded::new(&mut writer), |bounded| {
        let writer = bounded.inner();
        if !std::mem::replace(&mut is_open, true) {
            writer.into.push_str(before);
            writer.into.push('{');
        }
    });
    if is_open {
        into.push('}');
    }
}

fn lost(loss: &LostEvents, into: &mut String) {
    let LostEvents { events, packets, from_ns, to_ns } = loss;
    // Writing into a text cannot fail.
    let _ = write!(
        into,
        r#"{{"events":{events},"packets":{packets},"from_ns":{from_ns},"to_ns":{to_ns}}}"#
    );
}

/// Writes values as they come.
struct Writer<'a> {
    into: &'a mut String,
    is_first: bool,
}

impl Writer<'_> {
    fn next(&mut self) {
        if !std::mem::replace(&mut self.is_first, false) {
            self.into.push(',');
        }
    }
}

impl Visit for Writer<'_> {
    fn name(&mut self, name: &str) {
        self.next();
        text(name.strip_prefix('_').unwrap_or(name), self.into);
        self.into.push(':');
    }

    fn element(&mut self, _: u64) {
        self.next();
    }

    fn value(&mut self, value: Value<'_>) {
        put(value, self.into);
    }

    fn begin(&mut self, shape: Shape) {
        self.into.push(if shape == Shape::Elements { '[' } else { '{' });
        self.is_first = true;
    }

    fn end(&mut self, shape: Shape) {
        self.into.push(if shape == Shape::Elements { ']' } else { '}' });
        self.is_first = false;
    }
}

fn put(value: Value<'_>, into: &mut String) {
    match value {
        Value::Unsigned { value, .. } => decimal::push(value, into),
        Value::Signed { value, .. } => decimal::push_signed(value, into),
        Value::Float(value) => {
            let _ = match Number::from_f64(value) {
                Some(number) => write!(into, "{number}"),
                None => write!(into, "null"),
            };
        }
        Value::Text(bytes) => text(&as_text(bytes), into),
        Value::Label { label: Some(label), .. } => text(label, into),
        Value::Label { label: None, value } => put(*value, into),
    }
}

/// Nearly all texts have no character that must be escaped.
fn text(text: &str, into: &mut String) {
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\') {
        into.push('"');
        into.push_str(text);
        into.push('"');
    } else {
        let _ = write!(into, "{}", Json::from(text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::TraceKind;

    /// Fields of all shapes, and one that must be escaped.
    #[derive(Clone, Copy)]
    struct All;

    impl Stored<'static> for All {
        fn name(&self) -> &'static str {
            "a\"b"
        }

        fn kind(&self) -> TraceKind<'static> {
            TraceKind::Other("a")
        }

        fn visit(&self, visit: &mut impl Visit) {
            visit.name("_none");
            visit.begin(Shape::Elements);
            visit.end(Shape::Elements);
            visit.name("list");
            visit.begin(Shape::Elements);
            for (number, value) in [1.5, f64::NAN].into_iter().enumerate() {
                visit.element(number as u64);
                visit.value(Value::Float(value));
            }
            visit.end(Shape::Elements);
            visit.name("inner");
            visit.begin(Shape::Fields);
            visit.name("text");
            visit.value(Value::Text(b"\xff\n\\"));
            visit.name("label");
            let value = Value::Signed { value: -1, base: 10, bits: 8 };
            visit.value(Value::Label { label: None, value: &value });
            visit.end(Shape::Fields);
            visit.name("last");
            visit.value(Value::Unsigned { value: u64::MAX, base: 16 });
        }

        fn visit_contexts<V: Visit>(&self, visit: &mut V, mut begin: impl FnMut(&mut V)) {
            for (name, value) in [("one", 1), ("two", 2)] {
                begin(visit);
                visit.name(name);
                visit.value(Value::Unsigned { value, base: 10 });
            }
        }
    }

    #[test]
    fn values_of_all_shapes_are_json() {
        let mut found = String::new();
        line(&Record::new(7, 1, All), &mut found);
        let found: Json = serde_json::from_str(&found).unwrap();
        let expected = serde_json::json!({
            "time_ns": 7,
            "cpu": 1,
            "name": "a\"b",
            "fields": {
                "none": [],
                "list": [1.5, null],
                "inner": {"text": "\\xff\n\\", "label": -1},
                "last": u64::MAX,
            },
            "context": {"one": 1, "two": 2},
        });
        assert_eq!(found, expected);
    }
}
