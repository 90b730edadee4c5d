//! IO: limits of the memory of a cgroup and of those around it, and what they did so far.

use std::path::Path;

use noise_model::memory::{Hits, LimitKind, LimitReading, Pages};
use noise_model::setup::Limit;
use noise_system::procfs;

use super::{SetupReader, folder};
use crate::kernel::page_bytes;

/// A limit of memory: `max`, or version 1's largest number, is none.
pub(super) fn limit(text: &str) -> Option<Limit> {
    const LARGEST: u64 = 1 << 62;
    match text.trim() {
        "max" => Some(None),
        number => {
            number.parse().ok().map(|bytes: u64| Some(bytes).filter(|bytes| *bytes < LARGEST))
        }
    }
}

/// The number that is all of a file.
fn number(folder: &Path, file: &str) -> Option<u64> {
    procfs::text(folder.join(file)).ok()?.trim().parse().ok()
}

/// The limits that a cgroup has, each with how often it was hit.
fn limits(own: &Path, is_old: bool) -> Vec<(LimitKind, u64, u64)> {
    let bytes = |kind: LimitKind| {
        let text = procfs::text(own.join(kind.file())).ok()?;
        limit(&text).flatten()
    };
    if is_old {
        // Where memory with swap has the same limit, that is what is hit.
        let hits = || {
            let with_swap = number(own, "memory.memsw.failcnt").unwrap_or(0);
            Some(number(own, "memory.failcnt")?.saturating_add(with_swap))
        };
        let one = bytes(LimitKind::Old).and_then(|bytes| Some((LimitKind::Old, bytes, hits()?)));
        return one.into_iter().collect();
    }
    let (high, max) = (bytes(LimitKind::High), bytes(LimitKind::Max));
    if high.is_none() && max.is_none() {
        return Vec::new();
    }
    let text = procfs::text(own.join("memory.events.local"));
    let text = text.or_else(|_| procfs::text(own.join("memory.events"))).unwrap_or_default();
    let Some(hits) = Hits::parse(&text) else { return Vec::new() };
    let high = high.map(|bytes| (LimitKind::High, bytes, hits.high));
    high.into_iter().chain(max.map(|bytes| (LimitKind::Max, bytes, hits.max))).collect()
}

impl SetupReader {
    /// Limits of the memory of a cgroup and of those around it, the nearest first.
    pub(super) fn limits(&self, path: &Path) -> Result<Vec<LimitReading>, String> {
        let old = self.mounts.memory.as_ref();
        let root = old.or(self.mounts.unified.as_ref());
        if folder(root, path).is_none() || (old.is_some() && path.parent().is_none()) {
            return Err(match old {
                // In the hierarchy of another controller, its threads may be in others.
                Some(_) => "the memory controller does not know it by this path",
                None => "the cgroup is gone",
            }
            .to_owned());
        }
        let mut found = Vec::new();
        for around in path.ancestors().filter(|around| around.parent().is_some()) {
            let Some(own) = folder(root, around) else { continue };
            let limits = limits(&own, old.is_some());
            if limits.is_empty() {
                continue;
            }
            let pages = procfs::text(own.join("memory.stat"));
            let pages = pages.map(|text| Pages::parse(&text, page_bytes())).unwrap_or_default();
            let of = Self::plain_label(around);
            found.extend(limits.into_iter().map(|(kind, bytes, hits)| LimitReading {
                of: of.clone(),
                is_own: around == path,
                kind,
                bytes,
                hits,
                pages,
            }));
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_both_versions_are_read() {
        assert_eq!(limit("max\n"), Some(None));
        assert_eq!(limit("1048576\n"), Some(Some(1 << 20)));
        assert_eq!(limit("9223372036854771712\n"), Some(None));
        assert_eq!(limit("x"), None);
    }
}
