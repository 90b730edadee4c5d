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
            let mut target = TargetCpu::default();
            record.visit(&mut target);
            if let Some(cpu) = target.cpu {
                builder.interrupts(machine, event.cpu, event.time_ns, cpu);
            }
            None
        }
        _ => None,
    };
    builder.dumped(machine, record, &event.kind);
    builder.follow_with(machine, event, segment);
}

/// The kernel's event, since 6.4, of one CPU that interrupts another.
const SENT: &str = "ipi_send_cpu";

/// The CPU that an event names in a field.
#[derive(Default)]
struct TargetCpu {
    is_next: bool,
    cpu: Option<u32>,
}

impl Visit for TargetCpu {
    fn name(&mut self, name: &str) {
        self.is_next = matches!(name, "cpu" | "_cpu");
    }

    fn value(&mut self, value: Value<'_>) {
        if let Value::Unsigned { value, .. } = value
            && self.is_next
        {
            self.cpu = u32::try_from(value).ok();
        }
    }
}
