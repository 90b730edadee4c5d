//! Names for what interrupted a CPU.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use noise_common::signals::{SOFTIRQ_VECTORS, VECTORS};
use noise_common::watch::{KINDS, NoiseEvent, NoiseKind};
use noise_host::resolve::irq_name;
use noise_text::clean::as_text;
use noise_text::clean::clean;

use super::source::{Class, GapSource};

/// Names sources, and remembers those of irqs.
#[derive(Debug)]
pub struct Naming {
    procfs: PathBuf,
    irqs: HashMap<u32, String>,
}

impl Naming {
    /// Irqs are looked up below a procfs root.
    pub fn new(procfs: &Path) -> Self {
        Self { procfs: procfs.to_owned(), irqs: HashMap::new() }
    }

    /// Remembers the name of an irq that another source gave.
    pub fn learn_irq(&mut self, irq: u32, name: &str) {
        if self.irqs.get(&irq).is_none_or(|known| known != name) {
            self.irqs.insert(irq, name.to_owned());
        }
    }

    /// The source of an event.
    pub fn source(&mut self, event: &NoiseEvent) -> GapSource {
        let of = |names: &[&str]| {
            let name = names.get(event.id as usize).copied();
            name.map_or_else(|| event.id.to_string(), ToOwned::to_owned)
        };
        let kind = KINDS.get(event.kind as usize).copied();
        let (class, name, id) = match kind {
            Some(NoiseKind::Nmi) => (Class::Nmi, String::new(), 0),
            Some(NoiseKind::Hardirq) => {
                let procfs = &self.procfs;
                let name = self
                    .irqs
                    .entry(event.id)
                    .or_insert_with(|| irq_name(procfs, u64::from(event.id)));
                (Class::Irq, name.clone(), event.id)
            }
            Some(NoiseKind::Vector) => (Class::Irq, of(&VECTORS), event.number),
            Some(NoiseKind::Softirq) => (Class::Softirq, of(&SOFTIRQ_VECTORS), event.id),
            Some(NoiseKind::Thread | NoiseKind::EndlessThread) => {
                (Class::Thread, comm(event), event.id)
            }
            Some(NoiseKind::PageFault) => (Class::PageFault, String::new(), 0),
            None => (Class::Hardware, String::new(), 0),
        };
        GapSource { class, name: clean(&name).into_owned(), id }
    }
}

/// The name in an event of a thread.
fn comm(event: &NoiseEvent) -> String {
    let bytes = bytemuck::bytes_of(&event.comm);
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    as_text(&bytes[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_have_the_names_that_people_know() {
        let root = tempfile::tempdir().unwrap();
        let interrupts =
            "      CPU0   CPU1\n 36:  0  12  PCI-MSIX-0000:00:02.0  1-edge  virtio1-req.0\n";
        std::fs::write(root.path().join("interrupts"), interrupts).unwrap();
        let mut naming = Naming::new(root.path());
        let mut name = |kind: NoiseKind, id, number| {
            let comm = [u64::from_le_bytes(*b"kworker/"), u64::from_le_bytes(*b"1:1\0\0\0\0\0")];
            let kind = kind as u32;
            naming
                .source(&NoiseEvent { kind, id, number, comm, ..NoiseEvent::default() })
                .to_string()
        };
        assert_eq!(name(NoiseKind::Hardirq, 36, 0), "irq virtio1-req.0:36");
        assert_eq!(name(NoiseKind::Hardirq, 99, 0), "irq unknown:99");
        assert_eq!(name(NoiseKind::Vector, 0, 236), "irq local_timer:236");
        assert_eq!(name(NoiseKind::Softirq, 3, 0), "softirq net_rx:3");
        assert_eq!(name(NoiseKind::Thread, 12, 0), "thread kworker/1:1:12");
        assert_eq!(name(NoiseKind::Nmi, 0, 0), "nmi");
        assert_eq!(name(NoiseKind::PageFault, 0, 0), "page_fault");
    }
}
