//! The kernel's own statistic of a program, through `BPF_OBJ_GET_INFO_BY_FD`.
//!
//! aya reads run count and run time, but not the count of events that a program missed because it
//! was already running on that CPU, and those are losses that must be counted.

use std::os::fd::{AsRawFd as _, BorrowedFd};

use aya_obj::generated::{bpf_cmd, bpf_prog_info};

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
struct BpfInfoAttributes {
    fd: u32,
    info_len: u32,
    info: u64,
}

/// Reads the statistic; `None` where the kernel refuses.
pub fn read(program: BorrowedFd<'_>) -> Option<ProgInfo> {
    // SAFETY: the kernel's struct is numbers only, each valid when zero.
    let mut info: bpf_prog_info = unsafe { std::mem::zeroed() };
    let mut attributes = BpfInfoAttributes {
        fd: program.as_raw_fd() as u32,
        info_len: size_of_val(&info) as u32,
        info: &raw mut info as u64,
    };
    // SAFETY: the attributes and the struct they point to live for the call, and the kernel
    // writes at most `info_len` bytes.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            bpf_cmd::BPF_OBJ_GET_INFO_BY_FD as libc::c_long,
            &raw mut attributes,
            size_of::<BpfInfoAttributes>(),
        )
    };
    let bpf_prog_info { run_time_ns, run_cnt, recursion_misses, .. } = info;
    (result == 0).then_some(ProgInfo { run_time_ns, run_cnt, recursion_misses })
}
