//! The CPU of an event whose packet names none, from a field of its own: `cpu_id` or `cpu`.

use super::class::shown;
use crate::value::{Shape, Value, Visit};

/// Takes the CPU from what it is shown; of several fields the first one counts, `cpu_id` before `cpu`.
#[derive(Debug, Default)]
pub struct Sought {
    cpu_id: Option<u32>,
    cpu: Option<u32>,
    field: CpuIdField,
    depth: u32,
}

#[derive(Debug, Default)]
enum CpuIdField {
    CpuId,
    Cpu,
    #[default]
    Other,
}

impl Sought {
    pub fn found(&self) -> Option<u32> {
        self.cpu_id.or(self.cpu)
    }
}

impl Visit for Sought {
    fn name(&mut self, name: &str) {
        self.field = match (self.depth, shown(name)) {
            (0, "cpu_id") => CpuIdField::CpuId,
            (0, "cpu") => CpuIdField::Cpu,
            _ => CpuIdField::Other,
        };
    }

    fn element(&mut self, _: u64) {
        self.field = CpuIdField::Other;
    }

    fn value(&mut self, value: Value<'_>) {
        let place = match self.field {
            CpuIdField::CpuId => &mut self.cpu_id,
            CpuIdField::Cpu => &mut self.cpu,
            CpuIdField::Other => return,
        };
        let number = match value {
            Value::Unsigned { value, .. } => u32::try_from(value).ok(),
            Value::Signed { value, .. } => u32::try_from(value).ok(),
            Value::Float(_) | Value::Text(_) | Value::Label { .. } => None,
        };
        *place = place.or(number);
    }

    fn begin(&mut self, _: Shape) {
        self.depth += 1;
        self.field = CpuIdField::Other;
    }

    fn end(&mut self, _: Shape) {
        self.depth = self.depth.saturating_sub(1);
    }
}
