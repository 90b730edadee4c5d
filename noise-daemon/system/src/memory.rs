//! Memory of this process: giving back what is free, or is not needed any more.

use std::ffi::{c_int, c_void};
use std::ptr;

/// Gives memory that is free at the moment back to the system: after work that took much once. The
/// allocator of musl does so by itself.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: no preconditions.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Gives back what is mapped of the program's own file, besides: most code and constants are used at the start, or
/// once in an hour. What is used again is mapped again from the system's cache of files.
pub fn give_back_program() {
    give_back();
    // SAFETY: the function has the type that is called, and is called during this call only.
    unsafe {
        libc::dl_iterate_phdr(Some(forget), ptr::null_mut());
    }
}

/// Forgets the pages of an object's segments that are never written, and asks for no other object: the first is the
/// program.
unsafe extern "C" fn forget(
    object: *mut libc::dl_phdr_info,
    _size: usize,
    _data: *mut c_void,
) -> c_int {
    // SAFETY: the caller passes a live object, whose headers are as many as it says.
    let (object, headers) = unsafe {
        let object = &*object;
        (object, std::slice::from_raw_parts(object.dlpi_phdr, usize::from(object.dlpi_phnum)))
    };
    for header in headers {
        if header.p_type != libc::PT_LOAD || header.p_flags & libc::PF_W != 0 {
            continue;
        }
        let begin = (object.dlpi_addr + header.p_vaddr) as usize & !(PAGE_BYTES - 1);
        let end = (object.dlpi_addr + header.p_vaddr + header.p_memsz) as usize;
        // SAFETY: the pages are those of a mapping of the program's file that nothing writes to: their content is
        // the file's before and after.
        unsafe {
            libc::madvise(
                ptr::without_provenance_mut(begin),
                end.saturating_sub(begin),
                libc::MADV_DONTNEED,
            );
        }
    }
    1
}

/// The smallest page; where pages are larger, what begins within one is refused, and stays.
const PAGE_BYTES: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    /// What is mapped of files and in memory, KiB.
    fn mapped_of_files() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("RssFile:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    #[test]
    fn the_program_goes_on_without_its_pages() {
        let before = mapped_of_files();
        give_back_program();
        let after = mapped_of_files();
        assert!(after < before, "{before} -> {after} KiB");
        // Code that runs, a constant, and what relocation wrote.
        let sorted: Vec<String> = ["b", "a"].iter().map(|text| text.to_uppercase()).collect();
        assert_eq!(sorted.concat(), "BA");
        let error = std::panic::catch_unwind(|| std::hint::black_box(None::<u8>).unwrap());
        assert!(error.is_err());
    }
}
