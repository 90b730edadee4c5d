//! Records of a reader into a graph: with the fields that the model of events does not have.

use noise_trace::event::{Event, TraceKind};
use noise_trace::record::{Record, Stored};
use noise_trace::value::{Value, Visit};

use crate::build::Builder;
use crate::packets::headers;

/// Takes the next record of one of several recordings, and the event that it is.
pub fn follow<'t>(
    builder: &mut Builder,
    machine: u16,
    record: &Record<impl Stored<'t>>,
    event: &Event<'_>,
) {
    let segment = match event.kind {
        TraceKind::NetDevQueue(_) | TraceKind::NetifReceiveSkb(_) => headers::segment(record),
        TraceKind::Other(name) if name.ends_with(SENT) => {
            let cpu = number(record, &["cpu", "_cpu"]).and_then(|cpu| u32::try_from(cpu).ok());
            if let Some(cpu) = cpu {
                builder.interrupts(machine, event.cpu, event.time_ns, cpu);
            }
            None
        }
        TraceKind::Other(name) if name.ends_with(FAULTED) => {
            let address = number(record, &["address", "_address"]);
            builder.faults(machine, event.cpu, address.unwrap_or(0));
            None
        }
        _ => None,
    };
    builder.dumped(machine, record, &event.kind);
    builder.follow_with(machine, event, segment);
}

/// The kernel's event, since 6.4, of one CPU that interrupts another.
const SENT: &str = "ipi_send_cpu";

/// The event of one that touches a page that is not there: `page_fault_user`, by LTTng `x86_exceptions_page_fault_user`.
const FAULTED: &str = "page_fault_user";

/// The number in the field of one of these names.
fn number<'t>(record: &Record<impl Stored<'t>>, names: &'static [&'static str]) -> Option<u64> {
    let mut field = NumberField { names, is_next: false, found: None };
    record.visit(&mut field);
    field.found
}

struct NumberField {
    names: &'static [&'static str],
    is_next: bool,
    found: Option<u64>,
}

impl Visit for NumberField {
    fn name(&mut self, name: &str) {
        self.is_next = self.names.contains(&name);
    }

    fn value(&mut self, value: Value<'_>) {
        match value {
            Value::Unsigned { value, .. } if self.is_next => self.found = Some(value),
            Value::Signed { value, .. } if self.is_next => self.found = u64::try_from(value).ok(),
            _ => {}
        }
    }
}
