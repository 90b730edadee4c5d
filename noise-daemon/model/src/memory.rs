//! PURE: limits of the memory of a cgroup, and what they did: readings of the kernel's files, and what came between two
//! of them.
//!
//! A limit that was hit has pages thrown out. Those that come back soon after (*refaults*) were needed still: a program
//! that reads a large file once hits its limit as well, but waits for the disk, not for memory.

/// Which limit, by its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum LimitKind {
    /// Above it, threads free memory themselves and are slowed down.
    #[serde(rename = "memory.high")]
    High,
    /// There is never more.
    #[serde(rename = "memory.max")]
    Max,
    /// The same, of version 1.
    #[serde(rename = "memory.limit_in_bytes")]
    Old,
}

impl LimitKind {
    pub const fn file(self) -> &'static str {
        match self {
            Self::High => "memory.high",
            Self::Max => "memory.max",
            Self::Old => "memory.limit_in_bytes",
        }
    }
}

/// The number behind a name in a file of names and numbers.
fn field(text: &str, name: &str) -> Option<u64> {
    text.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
        .and_then(|number| number.trim().parse().ok())
}

/// How often each limit was hit, of `memory.events.local`, or `memory.events` where kernels before 5.2 have that alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hits {
    pub high: u64,
    pub max: u64,
}

impl Hits {
    pub fn parse(text: &str) -> Option<Self> {
        Some(Self { high: field(text, "high")?, max: field(text, "max")? })
    }
}

/// What became of pages of a cgroup and of those below, so far; `None` where the kernel does not count it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pages {
    /// Pages that were thrown out, and were needed again soon after: of files, and from swap.
    pub refaulted: Option<u64>,
    /// Those of them that came from swap.
    pub swapped_in: Option<u64>,
    /// Pages that were thrown out.
    pub gone: Option<u64>,
    /// What version 1 counts in the place of that.
    pub folios: Option<Folios>,
}

/// Folios of a cgroup of version 1, which the kernel allots and frees as one: a page, or up to some hundred pages of a
/// file that is read ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Folios {
    /// Those that went so far: thrown out, or freed by the program itself.
    pub gone: u64,
    /// Those that are there.
    pub resident: u64,
    /// The pages that these have.
    pub resident_pages: u64,
}

impl Folios {
    /// Pages that a limit threw out since an earlier reading, in which it was hit so often. Each folio that did not fit is a hit,
    /// and has about one thrown out; what went beyond that was freed, by a program that ends or gives memory back.
    fn thrown_out(&self, earlier: &Self, hits: u64) -> Option<u64> {
        let gone = self.gone.checked_sub(earlier.gone)?.min(hits);
        let pages_of_each = self.resident_pages as f64 / self.resident.max(1) as f64;
        Some((gone as f64 * pages_of_each.max(1.0)) as u64)
    }
}

impl Pages {
    /// Reads `memory.stat`, of either version of cgroups, on a host with pages of so many bytes.
    pub fn parse(text: &str, page_bytes: u64) -> Self {
        // Version 1 has figures of the cgroup alone beside those with all below.
        let of = |name: &str| field(text, &format!("total_{name}")).or_else(|| field(text, name));
        let swapped_in = of("workingset_refault_anon");
        let of_files = of("workingset_refault_file").or_else(|| of("workingset_refault"));
        let bytes = of("cache").unwrap_or(0).saturating_add(of("rss").unwrap_or(0));
        let folios = of("pgpgout").map(|gone| Folios {
            gone,
            resident: of("pgpgin").unwrap_or(0).saturating_sub(gone),
            resident_pages: bytes / page_bytes.max(1),
        });
        Self {
            refaulted: of_files.map(|pages| pages.saturating_add(swapped_in.unwrap_or(0))),
            swapped_in,
            gone: of("pgsteal"),
            folios,
        }
    }

    /// Pages that a limit threw out since an earlier reading, in which it was hit so often.
    fn thrown_out(&self, earlier: &Self, hits: u64) -> Option<u64> {
        match self.gone.zip(earlier.gone) {
            Some((now, then)) => now.checked_sub(then),
            None => self.folios?.thrown_out(&earlier.folios?, hits),
        }
    }
}

/// A limit, with what it did so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitReading {
    /// The label of the cgroup that has it.
    pub of: String,
    /// Whether that is the cgroup that is read, and not one around it.
    pub is_own: bool,
    pub kind: LimitKind,
    /// How much it allows, bytes.
    pub bytes: u64,
    pub hits: u64,
    /// What became of pages below it.
    pub pages: Pages,
}

/// A limit that was hit between two readings.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct LimitHits {
    /// The label of the cgroup that has it.
    pub of: String,
    /// Whether that is the cgroup that is read, and not one around it.
    pub is_own: bool,
    #[serde(rename = "limit")]
    pub kind: LimitKind,
    /// How much it allows now, bytes.
    pub bytes: u64,
    pub hits: u64,
    /// Pages that were thrown out below it and came back; `None` where the kernel does not count it.
    pub refaulted: Option<u64>,
    /// Those of them that came from swap.
    pub swapped_in: Option<u64>,
    /// Pages that were thrown out.
    pub gone: Option<u64>,
}

impl LimitHits {
    /// Those of a later reading that were hit since an earlier one, the nearest first. A limit that was not there before is
    /// left out: since when it was hit is not known.
    pub fn between(before: &[LimitReading], now: &[LimitReading]) -> Vec<Self> {
        let hit = |one: &LimitReading| {
            let same = |other: &&LimitReading| other.of == one.of && other.kind == one.kind;
            let earlier = before.iter().find(same)?;
            let grown = |of: fn(&Pages) -> Option<u64>| {
                of(&one.pages).zip(of(&earlier.pages)).and_then(|(now, then)| now.checked_sub(then))
            };
            let hits = one.hits.checked_sub(earlier.hits).filter(|hits| *hits > 0)?;
            Some(Self {
                of: one.of.clone(),
                is_own: one.is_own,
                kind: one.kind,
                bytes: one.bytes,
                hits,
                refaulted: grown(|pages| pages.refaulted),
                swapped_in: grown(|pages| pages.swapped_in),
                gone: one.pages.thrown_out(&earlier.pages, hits),
            })
        };
        now.iter().filter_map(hit).collect()
    }

    /// Whether most of what was thrown out was needed still; `None` where the kernel does not count that.
    pub fn throws_out_what_is_needed(&self) -> Option<bool> {
        let (refaulted, gone) = self.refaulted.zip(self.gone)?;
        Some(refaulted > 0 && refaulted >= gone / 2)
    }

    /// What it is called, as the culprit of a wait for memory.
    pub fn name(&self) -> String {
        let size = size(self.bytes);
        match self.is_own {
            true => format!("its own memory limit of {size}"),
            false => format!("the memory limit of {}, {size}", self.of),
        }
    }
}

/// A number of bytes in a unit that leaves it whole.
pub fn size(bytes: u64) -> String {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let whole =
        units.into_iter().find(|(_, bits)| bytes > 0 && bytes.is_multiple_of(1_u64 << bits));
    match whole {
        Some((unit, bits)) => format!("{} {unit}", bytes >> bits),
        None if bytes >> 20 > 9 => format!("{} MiB", bytes >> 20),
        None => format!("{} KiB", bytes >> 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERSION_1: &str = "workingset_refault_anon 1\nworkingset_refault_file 2\npgpgin 5\npgpgout 3\n\
                             total_workingset_refault_anon 10\ntotal_workingset_refault_file 20\n\
                             total_pgpgin 50\ntotal_pgpgout 30\ncache 1\ntotal_cache 122880\ntotal_rss 40960\n";
    const VERSION_2: &str = "anon 5\nworkingset_refault_anon 10\nworkingset_refault_file 20\n\
                             pgsteal 40\npgsteal_kswapd 7\n";

    fn limit(hits: u64, refaulted: u64, gone: u64) -> LimitReading {
        LimitReading {
            of: "shop.service".to_owned(),
            is_own: true,
            kind: LimitKind::Max,
            bytes: 64 << 20,
            hits,
            pages: Pages {
                refaulted: Some(refaulted),
                swapped_in: Some(0),
                gone: Some(gone),
                folios: None,
            },
        }
    }

    #[test]
    fn files_of_both_versions_are_read() {
        let pages = Pages { refaulted: Some(30), swapped_in: Some(10), ..Pages::default() };
        let folios = Folios { gone: 30, resident: 20, resident_pages: 40 };
        assert_eq!(Pages::parse(VERSION_1, 4096), Pages { folios: Some(folios), ..pages });
        assert_eq!(Pages::parse(VERSION_2, 4096), Pages { gone: Some(40), ..pages });
        // Kernels before 5.9 count those of files alone, and older ones of version 1 none.
        let older = Pages { refaulted: Some(7), gone: Some(9), ..Pages::default() };
        assert_eq!(Pages::parse("workingset_refault 7\npgsteal 9\n", 4096), older);
        assert_eq!(Pages::parse("cache 7\n", 4096), Pages::default());
        let events = "low 0\nhigh 4\nmax 11\noom 1\noom_kill 0\n";
        assert_eq!(Hits::parse(events), Some(Hits { high: 4, max: 11 }));
        assert_eq!(Hits::parse("low 0\n"), None);
    }

    #[test]
    fn a_limit_is_hit_between_two_readings_or_that_is_not_known() {
        let between = |before: &[_], now: &[_]| LimitHits::between(before, now);
        let [hit] = between(&[limit(5, 100, 200)], &[limit(12, 180, 300)]).try_into().unwrap();
        assert_eq!((hit.hits, hit.refaulted, hit.gone), (7, Some(80), Some(100)));
        assert_eq!(hit.throws_out_what_is_needed(), Some(true));
        // A file that is read once.
        let [hit] = between(&[limit(5, 100, 200)], &[limit(12, 101, 300)]).try_into().unwrap();
        assert_eq!(hit.throws_out_what_is_needed(), Some(false));
        assert_eq!(between(&[limit(5, 1, 2)], &[limit(5, 9, 9)]), [], "it was not hit");
        assert_eq!(between(&[], &[limit(5, 1, 2)]), [], "it is new");
        assert_eq!(between(&[limit(9, 1, 2)], &[limit(5, 1, 2)]), [], "another cgroup");
        let unread = LimitReading { pages: Pages::default(), ..limit(9, 0, 0) };
        let [hit] = between(&[limit(5, 1, 2)], &[unread]).try_into().unwrap();
        assert_eq!(hit.throws_out_what_is_needed(), None);
    }

    /// What a limit of version 1 did between two readings: folios of so many pages each, of which so many went.
    fn of_version_1(pages_of_each: u64, hits: u64, refaulted: u64, gone: u64) -> LimitHits {
        let reading = |hits, refaulted, gone| {
            let cache = pages_of_each * 1_000 * 4096;
            let text = format!(
                "total_cache {cache}\ntotal_rss 0\ntotal_workingset_refault_file {refaulted}\n\
                 total_pgpgin {}\ntotal_pgpgout {gone}\n",
                gone + 1_000
            );
            let kind = LimitKind::Old;
            LimitReading { kind, pages: Pages::parse(&text, 4096), ..limit(hits, 0, 0) }
        };
        let (before, now) = (reading(10, 20, 30), reading(10 + hits, 20 + refaulted, 30 + gone));
        let [hit] = LimitHits::between(&[before], &[now]).try_into().unwrap();
        hit
    }

    #[test]
    fn version_1_counts_folios_whoever_freed_them() {
        let needed = |hit: LimitHits| hit.throws_out_what_is_needed();
        let hit = of_version_1(1, 7_600, 7_100, 7_800);
        assert_eq!((hit.gone, needed(hit)), (Some(7_600), Some(true)));
        // A large file that is read once in folios of 2 MiB, beside a small part of it that is needed again.
        let stream = of_version_1(512, 38, 1_000, 40);
        assert_eq!((stream.gone, needed(stream)), (Some(38 * 512), Some(false)));
        // A program that gives much memory back: the limit had no part in that.
        let frees = of_version_1(1, 400, 380, 9_000);
        assert_eq!((frees.gone, needed(frees)), (Some(400), Some(true)));
    }

    #[test]
    fn a_limit_has_a_name() {
        let [own] = LimitHits::between(&[limit(5, 1, 2)], &[limit(6, 1, 2)]).try_into().unwrap();
        assert_eq!(own.name(), "its own memory limit of 64 MiB");
        let around = LimitHits { is_own: false, of: "web.slice".to_owned(), ..own };
        assert_eq!(around.name(), "the memory limit of web.slice, 64 MiB");
        for (bytes, expected) in [
            (3 << 30, "3 GiB"),
            (1536 << 20, "1536 MiB"),
            (4096, "4 KiB"),
            ((100 << 20) + 1, "100 MiB"),
            (0, "0 KiB"),
        ] {
            assert_eq!(size(bytes), expected);
        }
        let text = serde_json::to_string(&around).unwrap();
        assert!(text.contains(r#""limit":"memory.max""#), "{text}");
        assert_eq!(serde_json::from_str::<LimitHits>(&text).unwrap(), around);
    }
}
