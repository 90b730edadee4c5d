//! How every record of the ring buffer begins.

use crate::signals::Signal;

/// Begin of every record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
#[repr(C)]
pub struct Header {
    /// Number of the [`crate::record::RecordKind`].
    pub kind: u16,
    /// Length of the whole record, bytes.
    pub length: u16,
    /// Number of the signal that the record is about.
    pub signal: u16,
    /// The CPU that wrote it; no kernel has as many as 65,536.
    pub cpu: u16,
}

impl Header {
    /// Memory that was never written.
    pub const NONE: Self = Self { kind: 0, length: 0, signal: 0, cpu: 0 };

    /// The signal, if there is one with this number.
    pub fn signal(&self) -> Option<Signal> {
        Signal::from_number(u32::from(self.signal))
    }
}
