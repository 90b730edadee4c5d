//! The kernel events that were kept of an incident as a recording.

#[cfg(any(test, feature = "fixtures"))]
use std::path::Path;

use anyhow::{Context as _, ensure};
use noise_system::output::Spot;

#[cfg(any(test, feature = "fixtures"))]
use crate::file::made;
use crate::file::read;
use crate::replay::replay;
use noise_record::folder::Folder;
pub use noise_record::folder::ensure_new;
use noise_record::uuid;

/// Most events and other pieces of a file, which are in memory before the first is written: 1 GiB of them.
const MOST_PIECES: u64 = 32 << 20;

/// Writes the recording of a file of kept events; what it has, in a line.
/// Errors: where the file is damaged or too long, or the recording cannot be written.
pub fn export(file: &[u8], spot: Spot) -> anyhow::Result<String> {
    export_at_most(MOST_PIECES, file, spot)
}

fn export_at_most(most: u64, file: &[u8], spot: Spot) -> anyhow::Result<String> {
    let mut span_ns: Option<(u64, u64)> = None;
    let mut pieces = 0;
    let (_, about) = read(file, |_, item| {
        pieces += 1;
        if let noise_wire::events::AnswerItem::Events { events, .. } = item {
            pieces += events.len() as u64;
            for event in events {
                let (from_ns, to_ns) = span_ns.unwrap_or((event.time_ns, event.time_ns));
                span_ns = Some((from_ns.min(event.time_ns), to_ns.max(event.time_ns)));
            }
        }
    })?;
    ensure!(
        pieces <= most,
        "it has {pieces} events, and no more than {most} are exported: look at its paths with --path"
    );
    let (from_ns, to_ns) = span_ns.context("it has no events")?;
    let replayed = replay(file, &about, from_ns..=to_ns, uuid()?)?;
    let cpus = u32::try_from(replayed.packets.len())?;
    let path = spot.path().to_owned();
    let mut folder = Folder::create(spot, &replayed.metadata, cpus, None)?;
    let mut packets = (0..).zip(&replayed.packets);
    let written = packets.try_for_each(|(cpu, packets)| folder.append(cpu, packets));
    folder.free_reserve();
    if let Err(error) = written.and_then(|()| folder.sync()) {
        folder.discard();
        return Err(error);
    }
    let (_, events) = folder.events();
    let seconds = to_ns.saturating_sub(from_ns) as f64 / 1e9;
    let missing = match replayed.lost {
        0 => String::new(),
        lost => format!(", at least {lost} are missing"),
    };
    let unnamed = match about.who.unnamed {
        0 => String::new(),
        unnamed => format!(", the {unnamed} threads with the fewest events have no names"),
    };
    Ok(format!(
        "{events} events of {seconds:.1} s are in {}{missing}{unnamed}; `noised trace` reads them",
        path.display()
    ))
}

/// Writes a small recording of ours, for tests of what reads recordings.
#[cfg(any(test, feature = "fixtures"))]
#[expect(clippy::unwrap_used, reason = "what only tests are made of fails by panicking")]
pub fn exported(path: &Path) -> String {
    export(&made::file(), ensure_new(path).unwrap()).unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::write;

    #[test]
    fn only_a_file_of_ours_is_exported() {
        let root = tempfile::tempdir().unwrap();
        let whole = root.path().join("whole");
        let said = format!(
            "9 events of 0.1 s are in {}, at least 2 are missing; `noised trace` reads them",
            whole.display()
        );
        assert_eq!(exported(&whole), said);
        let (mut bytes, mut about) = (Vec::new(), made::about());
        about.who.unnamed = 3;
        write(&mut bytes, made::pieces(), |_| about).unwrap();
        let large = export(&bytes, ensure_new(&root.path().join("large")).unwrap()).unwrap();
        let cut = ", at least 2 are missing, the 3 threads with the fewest events have no names; ";
        assert!(large.contains(cut), "{large}");
        let other = root.path().join("other");
        assert!(export(b"garbage", ensure_new(&other).unwrap()).is_err());
        let error = export_at_most(9, &made::file(), ensure_new(&other).unwrap()).unwrap_err();
        assert!(error.to_string().contains("no more than 9 are exported"), "{error}");
        assert!(!other.exists());
    }
}
