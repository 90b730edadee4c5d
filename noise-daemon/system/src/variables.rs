//! IO: which variable of a program lies at an address, by the symbols in the file that the kernel has mapped there.
//!
//! Only static variables have a symbol, and only where the file was not stripped of them. Names are those of the linker.

#![allow(
    clippy::disallowed_types,
    reason = "a table of symbols is read out of a file of any length, part by part"
)]

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::path::Path;

use object::{Object as _, ObjectSegment as _, ObjectSymbol as _, ReadCache, SymbolKind};

use crate::files::open_regular;
use crate::procfs;

/// Symbols of one file that are looked at.
const MAX_SYMBOLS: usize = 1 << 20;
/// The smallest page: segments are mapped from the begin of one on.
const PAGE: u64 = 4096;

/// Looks up variables of processes that run. Each is looked up once.
#[derive(Debug, Default)]
pub struct Variables {
    known: HashMap<(i32, u64), Option<String>>,
}

/// Variables that are looked up at most: each costs a look through a file's symbols.
const MAX_LOOKS: usize = 64;

impl Variables {
    /// The variable at an address of a process, with how far behind its begin the address is.
    pub fn at(&mut self, pid: i32, address: u64) -> Option<String> {
        if self.known.len() >= MAX_LOOKS && !self.known.contains_key(&(pid, address)) {
            return None;
        }
        self.known.entry((pid, address)).or_insert_with(|| look_up(pid, address)).clone()
    }
}

fn look_up(pid: i32, address: u64) -> Option<String> {
    let maps = procfs::text(format!("/proc/{pid}/maps")).ok()?;
    let (begin, path) = file_at(&maps, address)?;
    // As the process sees its files.
    let path = Path::new("/proc").join(pid.to_string()).join("root").join(path.strip_prefix('/')?);
    let file = open_regular(OpenOptions::new().read(true), &path, 0).ok()?;
    variable(file, begin, address)
}

/// The file that is mapped at an address, or right before it where that is memory without a file (`.bss`), and where its first
/// byte is mapped.
fn file_at(maps: &str, address: u64) -> Option<(u64, &str)> {
    let mut begins: HashMap<&str, u64> = HashMap::new();
    // The file that is mapped up to there.
    let (mut before, mut before_end) = ("", 0);
    for line in maps.lines() {
        let mut words = line.split_ascii_whitespace();
        let (from, to) = words.next()?.split_once('-')?;
        let hex = |text| u64::from_str_radix(text, 16).ok();
        let (from, to) = (hex(from)?, hex(to)?);
        let offset = hex(words.nth(1)?)?;
        // Behind the device and the inode; a path may have spaces in it.
        let path = line.find(" /").and_then(|at| line.get(at + 1..)).unwrap_or("");
        if !path.is_empty() {
            if offset == 0 {
                begins.entry(path).or_insert(from);
            }
            (before, before_end) = (path, to);
        } else if from == before_end {
            before_end = to;
        } else {
            before = "";
        }
        if (from..to).contains(&address) {
            return Some((*begins.get(before)?, before));
        }
    }
    None
}

/// The variable of a file whose first byte is mapped there.
fn variable(file: File, begin: u64, address: u64) -> Option<String> {
    let cache = ReadCache::new(file);
    let file = object::File::parse(&cache).ok()?;
    let first = file.segments().map(|segment| segment.address()).min()?;
    let within = address.checked_sub(begin)?.checked_add(first / PAGE * PAGE)?;
    let all = file.symbols().chain(file.dynamic_symbols()).take(MAX_SYMBOLS);
    for symbol in all.filter(|symbol| symbol.kind() == SymbolKind::Data) {
        let Some(behind) = within.checked_sub(symbol.address()) else { continue };
        if behind < symbol.size() {
            let name = symbol.name().ok()?;
            return Some(if behind == 0 { name.to_owned() } else { format!("{name}+{behind:#x}") });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    static FILLED: [AtomicU64; 2] = [AtomicU64::new(7), AtomicU64::new(8)];
    static EMPTY: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

    #[test]
    fn static_variables_have_their_names() {
        let pid = std::process::id().cast_signed();
        let mut variables = Variables::default();
        let mut name =
            |place: &AtomicU64| variables.at(pid, std::ptr::from_ref(place).addr() as u64);
        let filled = name(&FILLED[0]).unwrap();
        assert!(filled.contains("FILLED") && !filled.contains('+'), "{filled}");
        let second = name(&FILLED[1]).unwrap();
        assert_eq!(second, format!("{filled}+0x8"));
        // One in memory that the file has no bytes for.
        let empty = name(&EMPTY[0]).unwrap();
        assert!(empty.contains("EMPTY"), "{empty}");
        let on_heap = Box::new(AtomicU64::new(3));
        assert_eq!(name(&on_heap), None);
    }

    #[test]
    fn memory_behind_a_file_is_of_it() {
        let maps = "\
5000-6000 r--p 00000000 fe:00 12 /usr/bin/a program
6000-7000 rw-p 00001000 fe:00 12 /usr/bin/a program
7000-8000 rw-p 00000000 00:00 0
9000-a000 rw-p 00000000 00:00 0 [heap]
b000-c000 rw-p 00001000 fe:00 13 /lib/x
";
        let program = Some((0x5000, "/usr/bin/a program"));
        for (address, found) in
            [(0x6008, program), (0x7fff, program), (0x9000, None), (0x8000, None), (0xb000, None)]
        {
            assert_eq!(file_at(maps, address), found, "{address:x}");
        }
    }
}
