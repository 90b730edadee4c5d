//! The kernel's own statistic of a program, through `BPF_OBJ_GET_INFO_BY_FD`.
//!
//! aya reads run count and run time, but not the count of events that a program missed because it
//! was already running on that CPU, and those are losses that must be counted.

use std::os::fd::{AsRawFd as _, BorrowedFd};

/// `BPF_OBJ_GET_INFO_BY_FD` of the `bpf` system call.
const OBJ_GET_INFO_BY_FD: libc::c_long = 15;
/// Offset of `run_time_ns` in the kernel's `struct bpf_prog_info`.
const RUN_TIME_AT: usize = 192;
/// Length of that struct up to and including `recursion_misses`.
const INFO_BYTES: usize = 216;

/// The statistic of one program.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProgInfo {
    /// Time of all runs, ns, where the statistic is on.
    pub run_time_ns: u64,
    /// Number of runs, where the statistic is on.
    pub run_cnt: u64,
    /// Events missed by recursion; 0 on kernels that do not count them.
    pub recursion_misses: u64,
}

#[repr(C)]
struct Attributes {
    fd: u32,
    info_len: u32,
    info: u64,
}

/// Reads the statistic; `None` where the kernel refuses.
pub fn read(program: BorrowedFd<'_>) -> Option<ProgInfo> {
    let mut info = [0u8; INFO_BYTES];
    let mut attributes = Attributes {
        fd: program.as_raw_fd() as u32,
        info_len: INFO_BYTES as u32,
        info: info.as_mut_ptr() as u64,
    };
    // SAFETY: the attributes and the buffer they point to live for the call, and the kernel
    // writes at most `info_len` bytes.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            OBJ_GET_INFO_BY_FD,
            &raw mut attributes,
            size_of::<Attributes>(),
        )
    };
    if result != 0 {
        return None;
    }
    let word = |index: usize| -> u64 {
        let at = RUN_TIME_AT + index * 8;
        info.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_ne_bytes)
    };
    Some(ProgInfo { run_time_ns: word(0), run_cnt: word(1), recursion_misses: word(2) })
}
