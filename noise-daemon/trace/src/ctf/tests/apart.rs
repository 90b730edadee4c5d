//! Several CPUs whose packets lie in one file.

use std::io;
use std::sync::Arc;

use proptest::prelude::{prop_assert_eq, proptest};

use super::{COUNTED, CtfReader, LostEvents, StreamFile, TraceLayout, packet};
use crate::ctf::{StreamPart, apart};
use crate::damage::Damage;
use crate::record::Source as _;
use crate::window::{Content, ReadAt};

struct OnDisk(Vec<u8>);

impl ReadAt for OnDisk {
    fn length(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        let rest = &self.0[at as usize..];
        let count = rest.len().min(into.len());
        into[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }
}

/// Packets of CPUs in their order in a file: of each CPU one behind the other, of all CPUs at the same times.
fn packets(cpus: &[u32]) -> Vec<Vec<u8>> {
    let mut counts = [0; 8];
    let packet = |cpu: &u32| {
        let count = &mut counts[*cpu as usize];
        let begin = 1000 * *count + 7 * u64::from(*cpu) + 10;
        let mut bytes = packet(begin, begin + 900, *count, 0, &[begin, begin + 500]);
        bytes[48..52].copy_from_slice(&cpu.to_le_bytes());
        *count += 1;
        bytes
    };
    cpus.iter().map(packet).collect()
}

type All = (Vec<(u64, u32, Option<LostEvents>)>, Damage);

fn all(files: &[StreamFile<'_>]) -> All {
    let layout = TraceLayout::parse(COUNTED).unwrap();
    let mut reader = CtfReader::new(&layout, files);
    let mut all = Vec::new();
    while let Some(record) = reader.read() {
        all.push((record.time_ns, record.cpu, record.loss()));
    }
    (all, reader.damage())
}

/// What is read of a file, and in how many parts.
fn read(bytes: &[u8]) -> (usize, All) {
    let layout = TraceLayout::parse(COUNTED).unwrap();
    let parts = apart(&layout, &[StreamFile::held("channel_0", bytes)]);
    let file = Arc::new(OnDisk(bytes.to_vec()));
    let parts: Vec<_> =
        parts.into_iter().map(|(_, part)| StreamPart::new(Arc::clone(&file), part)).collect();
    let stream = |part| StreamFile { name: "channel_0", content: Content::Read(part) };
    let files: Vec<_> = parts.iter().map(|part| stream(part as &dyn ReadAt)).collect();
    (files.len(), all(&files))
}

/// The same where each CPU has a file.
fn of_files(cpus: &[u32], packets: &[Vec<u8>]) -> All {
    let own = |cpu: u32| -> Vec<u8> {
        let own = cpus.iter().zip(packets).filter(|(of, _)| **of == cpu);
        own.flat_map(|(_, packet)| packet.clone()).collect()
    };
    let own: Vec<_> = (0..8).map(own).filter(|bytes| !bytes.is_empty()).collect();
    all(&own.iter().map(|bytes| StreamFile::held("channel_0", bytes)).collect::<Vec<_>>())
}

proptest! {
    #[test]
    fn cpus_in_one_file_are_read_as_if_each_had_a_file(
        cpus in proptest::collection::vec(0..8_u32, 1..40),
        cut in 0..24_usize,
    ) {
        let mut packets = packets(&cpus);
        let (count, found) = read(&packets.concat());
        let expected = of_files(&cpus, &packets);
        match count {
            // All lie in the order of time.
            1 => {
                let events = |(all, _): All| all.into_iter().filter(|one| one.2.is_none()).collect::<Vec<_>>();
                prop_assert_eq!(events(found), events(expected));
                return Ok(());
            }
            _ => prop_assert_eq!(found, expected),
        }
        // The file is cut in its last packet.
        let behind: usize = packets.iter().map(Vec::len).sum();
        let last = packets.last_mut().unwrap();
        let begin = behind - last.len();
        last.truncate(last.len() - cut);
        let ((found, damage), (expected, expected_damage)) =
            (read(&packets.concat()).1, of_files(&cpus, &packets));
        prop_assert_eq!(found, expected);
        prop_assert_eq!(damage.missing_bytes, expected_damage.missing_bytes);
        prop_assert_eq!(damage.cuts.len(), usize::from(cut > 0));
        let named = format!("within the packet at byte {begin};");
        for (cut, said) in damage.cuts.iter().zip(&damage.sentences) {
            prop_assert_eq!(cut.byte, begin as u64);
            assert!(said.contains(&named), "{said}");
        }
    }
}

#[test]
fn one_behind_the_other_cpus_are_read_in_the_order_of_time() {
    let one: Vec<u32> = [0, 1, 2].into_iter().flat_map(|cpu| [cpu; 3]).collect();
    let (count, (events, damage)) = read(&packets(&one).concat());
    assert_eq!((count, events.len()), (3, 18));
    assert!(events.is_sorted_by_key(|(time_ns, ..)| *time_ns) && damage.is_none(), "{damage}");
    // What has no head at the end of the file is of any of them.
    let bytes = packets(&one).concat();
    let (_, (events, damage)) = read(&[&bytes[..], &bytes[..20]].concat());
    assert_eq!(events.iter().filter(|event| event.2.is_none()).count(), 18);
    assert_eq!((damage.unread_bytes, damage.cuts[0].byte), (20, bytes.len() as u64));
}

#[test]
fn where_files_are_of_several_cpus_each_that_is_said() {
    let layout = TraceLayout::parse(COUNTED).unwrap();
    let of = |cpus: &[u32]| packets(cpus).concat();
    let (one, other) = (of(&[0, 0, 2, 2]), of(&[1, 1, 3, 3]));
    let files = [StreamFile::held("channel_0", &one), StreamFile::held("channel_1", &other)];
    assert_eq!(apart(&layout, &files).len(), 2);
    let (events, damage) = all(&files);
    assert!(events.is_sorted_by_key(|(time_ns, ..)| *time_ns));
    let begin = |name: &str| {
        format!(
            "{name}: its packets are of several CPUs, and from byte {} on they are",
            one.len() / 2
        )
    };
    let [first, second] = &damage.sentences[..] else { panic!("{damage}") };
    assert!(first.starts_with(&begin("channel_0")), "{first}");
    assert!(second.starts_with(&begin("channel_1")), "{second}");
}
