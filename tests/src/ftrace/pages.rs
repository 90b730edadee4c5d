//! Pages of the kernel's trace ring buffer, as `per_cpu/cpu<n>/trace_pipe_raw` hands them out.
//!
//! A page has the time of its first event, the number of bytes committed and a run of events. An
//! event starts with 32 bits: 5 of type or length, 27 of nanoseconds since the event before it.
//! Types 29, 30 and 31 are padding, a longer delta, and an absolute time.

use anyhow::{Context as _, Result, bail, ensure};

use super::format::parse_field;

const TYPE_BITS: u32 = 5;
const DELTA_BITS: u32 = 27;
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;
/// The committed length shares its word with two flags that tell of events lost before this page.
const COMMIT_MASK: u64 = (1 << 27) - 1;
const MISSED_EVENTS: u64 = 1 << 31;
/// An absolute time in the buffer has 59 bits; the rest is that of the time before it.
const STAMP_BITS: u32 = 59;

/// Where a page keeps its header, from `events/header_page`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    commit_offset: usize,
    commit_size: usize,
    data_offset: usize,
    /// Bytes of one page, header included: what one read returns.
    pub page_size: usize,
}

impl Layout {
    /// Parses the text of `events/header_page`.
    pub fn parse(text: &str) -> Result<Self> {
        let field = |wanted: &str| {
            text.lines()
                .filter_map(parse_field)
                .find(|(name, _)| name == wanted)
                .map(|(_, field)| field)
                .with_context(|| format!("header_page has no field {wanted}"))
        };
        let commit = field("commit")?;
        let data = field("data")?;
        Ok(Self {
            commit_offset: commit.offset,
            commit_size: commit.size,
            data_offset: data.offset,
            page_size: data.offset + data.size,
        })
    }
}

fn word(page: &[u8], at: usize) -> Result<u32> {
    let bytes = page.get(at..at + 4).context("an event header beyond its page")?;
    Ok(u32::from_le_bytes(bytes.try_into()?))
}

/// Calls `visit(time_ns, record)` for every event of `page`, in order.
/// Errors: if the page is malformed, or says that the kernel lost events before it.
pub fn walk(
    page: &[u8],
    layout: &Layout,
    mut visit: impl FnMut(u64, &[u8]) -> Result<()>,
) -> Result<()> {
    let mut time_ns = u64::from(word(page, 0)?) | u64::from(word(page, 4)?) << 32;
    let mut commit = u64::from(word(page, layout.commit_offset)?);
    if layout.commit_size == 8 {
        commit |= u64::from(word(page, layout.commit_offset + 4)?) << 32;
    }
    ensure!(commit & MISSED_EVENTS == 0, "the ring buffer lost events before this page");
    let end = layout.data_offset + usize::try_from(commit & COMMIT_MASK)?;
    ensure!(end <= page.len(), "a page of {} bytes claims {end}", page.len());
    let page = page.get(..end).context("a page shorter than its header")?;

    let mut at = layout.data_offset;
    while at < end {
        let header = word(page, at)?;
        let (kind, delta) = (header & ((1 << TYPE_BITS) - 1), header >> TYPE_BITS);
        at += 4;
        match kind {
            // A null pad: nothing else was written to this page.
            PADDING if delta == 0 => break,
            PADDING => {
                time_ns += u64::from(delta);
                at += usize::try_from(word(page, at)?)?;
            }
            TIME_EXTEND => {
                time_ns += u64::from(word(page, at)?) << DELTA_BITS | u64::from(delta);
                at += 4;
            }
            TIME_STAMP => {
                let stamp = u64::from(word(page, at)?) << DELTA_BITS | u64::from(delta);
                time_ns = time_ns >> STAMP_BITS << STAMP_BITS | stamp & ((1 << STAMP_BITS) - 1);
                at += 4;
            }
            _ => {
                time_ns += u64::from(delta);
                // Length 0: too long for five bits, so the next word has it, itself included.
                let length = if kind == 0 {
                    let length = usize::try_from(word(page, at)?)?;
                    at += 4;
                    length.checked_sub(4).context("an event shorter than its header")?
                } else {
                    usize::try_from(kind)? * 4
                };
                let Some(record) = page.get(at..at + length) else {
                    bail!("an event of {length} bytes at {at} runs over its page");
                };
                visit(time_ns, record)?;
                at += length.next_multiple_of(4);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Layout, MISSED_EVENTS, walk};

    const HEADER: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
        \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
        \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
        \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";

    fn page(time: u64, flags: u64, words: &[u32]) -> Vec<u8> {
        let mut page = time.to_le_bytes().to_vec();
        page.extend(((words.len() as u64 * 4) | flags).to_le_bytes());
        for word in words {
            page.extend(word.to_le_bytes());
        }
        page.resize(4096, 0);
        page
    }

    fn read(page: &[u8]) -> anyhow::Result<Vec<(u64, Vec<u8>)>> {
        let layout = Layout::parse(HEADER).unwrap();
        let mut events = Vec::new();
        walk(page, &layout, |time, record| {
            events.push((time, record.to_vec()));
            Ok(())
        })?;
        Ok(events)
    }

    #[test]
    fn layout_comes_from_the_kernel() {
        let layout = Layout::parse(HEADER).unwrap();
        assert_eq!((layout.data_offset, layout.page_size, layout.commit_size), (16, 4096, 8));
    }

    #[test]
    fn short_and_long_events_add_up_their_deltas() {
        let words = [1 | 5 << 5, 0xaa, 7 << 5, 12, 0xbb, 0xcc];
        assert_eq!(
            read(&page(100, 0, &words)).unwrap(),
            [
                (105, 0xaa_u32.to_le_bytes().to_vec()),
                (112, [0xbb_u32.to_le_bytes(), 0xcc_u32.to_le_bytes()].concat()),
            ]
        );
    }

    #[test]
    fn extended_and_absolute_times() {
        let words = [30 | 3 << 5, 2, 1, 0xaa, 31 | 9 << 5, 1, 1, 0xbb];
        let times: Vec<u64> =
            read(&page(1, 0, &words)).unwrap().into_iter().map(|event| event.0).collect();
        assert_eq!(times, [1 + (2 << 27) + 3, (1 << 27) + 9]);
    }

    #[test]
    fn an_absolute_time_keeps_the_bits_it_cannot_hold() {
        let words = [31 | 9 << 5, 0, 1, 0xaa];
        assert_eq!(read(&page(3 << 59 | 77, 0, &words)).unwrap()[0].0, 3 << 59 | 9);
    }

    #[test]
    fn discarded_events_are_skipped_and_a_null_pad_ends_the_page() {
        let words = [29 | 4 << 5, 8, 0xdead, 1 | 1 << 5, 0xaa, 29, 1 | 1 << 5, 0xbb];
        let events = read(&page(10, 0, &words)).unwrap();
        assert_eq!(events, [(15, 0xaa_u32.to_le_bytes().to_vec())]);
    }

    #[test]
    fn lost_events_and_broken_pages_are_errors() {
        assert!(read(&page(0, MISSED_EVENTS, &[])).is_err());
        assert!(read(&page(0, 0, &[5 | 1 << 5, 0])).is_err());
        assert!(read(&page(0, 5000, &[])).is_err());
        assert!(read(&page(0, 0, &[0, 2])).is_err());
    }
}
