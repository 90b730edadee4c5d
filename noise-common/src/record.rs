//! Records of the ring buffer. Each begins with a [`Header`] that names what it is: the programs write
//! it, and readers distinguish kinds by nothing else.

use crate::event::{Cell, Outlier};
use crate::header::Header;
use crate::ledger::Forgotten;

/// What a record is. 0 is no kind: memory that was never written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum RecordKind {
    /// A window that was closed, as the [`Cell`] that collected it.
    Window = 1,
    /// A long wait with what it consists of: an [`Outlier`].
    Outlier = 2,
    /// The part of a wait that its CPU's ledger no longer remembers: an [`OldPart`].
    OldPart = 3,
}

impl RecordKind {
    pub const fn from_number(number: u16) -> Option<Self> {
        match number {
            1 => Some(Self::Window),
            2 => Some(Self::Outlier),
            3 => Some(Self::OldPart),
            _ => None,
        }
    }

    /// Length of its records, bytes.
    #[inline(always)]
    pub const fn length(self) -> u16 {
        match self {
            Self::Window => size_of::<Cell>() as u16,
            Self::Outlier => size_of::<Outlier>() as u16,
            Self::OldPart => size_of::<OldPart>() as u16,
        }
    }
}

/// A part of a wait for a CPU that is not charged yet, because the ledger no longer remembers who ran: the
/// daemon divides it from the event store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
#[repr(C)]
pub struct OldPart {
    /// What this is as a record: the signal, and the CPU that was waited for.
    pub header: Header,
    /// The cgroup that waited.
    pub victim: u64,
    /// The thread that waited.
    pub pid: u32,
    pub padding: u32,
    /// When, and how much of it is to charge.
    pub part: Forgotten,
}

impl Header {
    /// The header of a record about a signal, given by its number.
    #[inline(always)]
    pub const fn new(kind: RecordKind, signal: u32, cpu: u32) -> Self {
        Self { kind: kind as u16, length: kind.length(), signal: signal as u16, cpu: cpu as u16 }
    }
}

/// A record that was read.
#[cfg(feature = "user")]
#[derive(Clone, Copy)]
pub enum RingRecord {
    Window(Cell),
    Outlier(Outlier),
    /// An old part of a wait.
    OldPart(OldPart),
}

#[cfg(feature = "user")]
impl RingRecord {
    /// Reads a record of the ring.
    /// Errors: where its kind is unknown, or its length is not that of its kind: with its header, which is empty
    /// where there is none.
    pub fn read(bytes: &[u8]) -> Result<Self, Header> {
        let header = bytes.get(..size_of::<Header>()).unwrap_or_default();
        let header = bytemuck::try_pod_read_unaligned(header).unwrap_or(Header::NONE);
        let is_whole = |kind: &RecordKind| header.length == kind.length();
        let kind = RecordKind::from_number(header.kind).filter(is_whole).ok_or(header)?;
        let record = match kind {
            RecordKind::Window => bytemuck::try_pod_read_unaligned(bytes).map(Self::Window),
            RecordKind::Outlier => bytemuck::try_pod_read_unaligned(bytes).map(Self::Outlier),
            RecordKind::OldPart => bytemuck::try_pod_read_unaligned(bytes).map(Self::OldPart),
        };
        record.map_err(|_| header)
    }
}

const _: () = assert!(size_of::<Header>() == 8);
const _: () = assert!(core::mem::offset_of!(Cell, header) == 0);
const _: () = assert!(core::mem::offset_of!(Outlier, header) == 0);
const _: () = assert!(core::mem::offset_of!(OldPart, header) == 0);
const _: () = assert!(size_of::<Cell>() <= u16::MAX as usize);
const _: () = assert!(size_of::<Outlier>() <= u16::MAX as usize);

#[cfg(all(test, feature = "user"))]
mod tests {
    use super::*;
    use crate::signals::Signal;
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};
    use std::vec::Vec;

    /// Bytes that are a record by their header and their length.
    fn record(header: Header, length: usize) -> Vec<u8> {
        let mut bytes = bytemuck::bytes_of(&header).to_vec();
        bytes.resize(length, 7);
        bytes
    }

    fn header(kind: RecordKind) -> Header {
        Header::new(kind, Signal::CgroupRunqueueWait as u32, 5)
    }

    fn kind_of(record: &RingRecord) -> RecordKind {
        match record {
            RingRecord::Window(_) => RecordKind::Window,
            RingRecord::Outlier(_) => RecordKind::Outlier,
            RingRecord::OldPart(_) => RecordKind::OldPart,
        }
    }

    #[test]
    fn each_kind_is_read_as_what_it_is() {
        for one in [RecordKind::Window, RecordKind::Outlier, RecordKind::OldPart] {
            assert_eq!(RecordKind::from_number(one as u16), Some(one));
            let Ok(read) = RingRecord::read(&record(header(one), one.length().into())) else {
                panic!("{one:?} cannot be read");
            };
            assert_eq!(kind_of(&read), one);
            let header = match read {
                RingRecord::Window(cell) => cell.header,
                RingRecord::Outlier(outlier) => outlier.header,
                RingRecord::OldPart(old) => old.header,
            };
            assert_eq!((header.signal(), header.cpu), (Some(Signal::CgroupRunqueueWait), 5));
        }
    }

    #[test]
    fn a_record_of_another_kind_with_the_length_of_a_known_one_is_unknown() {
        let length = RecordKind::Window.length();
        let foreign = Header { kind: 4, length, ..header(RecordKind::Window) };
        assert_eq!(RingRecord::read(&record(foreign, length.into())).err(), Some(foreign));
        let unwritten = RingRecord::read(&[0; size_of::<Cell>()]);
        assert_eq!(unwritten.err(), Some(Header::NONE));
        assert_eq!(RingRecord::read(&[]).err(), Some(Header::NONE));
    }

    proptest! {
        #[test]
        fn only_what_states_its_kind_and_length_is_read(
            numbers in any::<(u16, u16, u16, u16)>(), is_kind in any::<bool>(), length in 0usize..1024,
        ) {
            let (kind, stated, signal, cpu) = numbers;
            let (kind, stated) = if is_kind { (kind % 5, length as u16) } else { (kind, stated) };
            let header = Header { kind, length: stated, signal, cpu };
            let bytes = &record(header, length)[..length];
            match RingRecord::read(bytes) {
                Ok(read) => {
                    let own = kind_of(&read);
                    prop_assert_eq!(own as u16, kind);
                    prop_assert_eq!(usize::from(own.length()), length);
                    prop_assert_eq!(stated, own.length());
                }
                Err(unread) if length < size_of::<Header>() => prop_assert_eq!(unread, Header::NONE),
                Err(unread) => {
                    prop_assert_eq!(unread, header);
                    let known = RecordKind::from_number(kind);
                    let is_whole = |known: RecordKind| {
                        known.length() == stated && usize::from(stated) == length
                    };
                    prop_assert!(!known.is_some_and(is_whole));
                }
            }
        }
    }
}
