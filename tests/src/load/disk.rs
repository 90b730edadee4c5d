//! Loads of the block layer.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use super::{Arguments, Session, report};
use crate::task::pin;

/// The unit of every load here, and a size that every disk can read directly.
pub const BLOCK_BYTES: u64 = 4096;

/// Memory that `O_DIRECT` accepts.
pub(super) struct Aligned {
    memory: Vec<u8>,
    start: usize,
    length: usize,
}

impl Aligned {
    pub(super) fn new(length: usize) -> Self {
        let memory = vec![0x5a; length + BLOCK_BYTES as usize];
        let start = memory.as_ptr().align_offset(BLOCK_BYTES as usize);
        Self { memory, start, length }
    }

    pub(super) fn bytes(&mut self) -> &mut [u8] {
        // In bounds: there is a block to spare for the alignment.
        &mut self.memory[self.start..self.start + self.length]
    }
}

/// A cheap sequence without visible order (Knuth's multiplier for 64 bits).
pub(super) struct Scatter(u64);

impl Scatter {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit.max(1)
    }
}

pub(super) fn open_direct(path: &str) -> Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECT)
        .open(path)
        .with_context(|| format!("opening {path} for direct reads"))
}

/// The size of a file or block device.
fn length(mut file: &File) -> Result<u64> {
    Ok(file.seek(SeekFrom::End(0))?)
}

/// `direct-reads <cpu> <path> <bytes each> <pause us> <count, 0: until stopped>`: reads past the page
/// cache, at scattered places, one at a time.
pub(super) fn direct_reads(arguments: &mut Arguments) -> Result<()> {
    pin(0, arguments.number()?)?;
    let file = open_direct(&arguments.text()?)?;
    let size: u64 = arguments.number()?;
    let pause = Duration::from_micros(arguments.number()?);
    let count: u64 = arguments.number()?;
    let places = length(&file)? / size;
    let mut memory = Aligned::new(usize::try_from(size)?);
    let mut scatter = Scatter::new(1);
    let session = Session::begin()?;
    let mut reads = 0_u64;
    while if count > 0 { reads < count } else { session.going_after(reads) } {
        file.read_exact_at(memory.bytes(), scatter.below(places) * size)?;
        reads += 1;
        if !pause.is_zero() {
            thread::sleep(pause);
        }
    }
    report(&format!("reads {reads}"))
}

/// `synced-writes <cpu> <path> <pause us>`: a block, then `fdatasync`.
pub(super) fn synced_writes(arguments: &mut Arguments) -> Result<()> {
    pin(0, arguments.number()?)?;
    let file = OpenOptions::new().write(true).open(arguments.text()?)?;
    let pause = Duration::from_micros(arguments.number()?);
    let places = length(&file)? / BLOCK_BYTES;
    let mut scatter = Scatter::new(2);
    let session = Session::begin()?;
    let mut syncs = 0_u64;
    while session.going_after(syncs) {
        let block = vec![syncs as u8; BLOCK_BYTES as usize];
        file.write_all_at(&block, scatter.below(places) * BLOCK_BYTES)?;
        file.sync_data()?;
        syncs += 1;
        thread::sleep(pause);
    }
    report(&format!("syncs {syncs}"))
}

/// `first-writes <cpu> <path> <pause us>`: a block of the file that was never written, then it waits until it is on the
/// disk, in turn from the start of the file.
///
/// On ext4, a kernel thread has to note that such a block is written before the wait ends.
pub(super) fn first_writes(arguments: &mut Arguments) -> Result<()> {
    pin(0, arguments.number()?)?;
    let file = OpenOptions::new().write(true).open(arguments.text()?)?;
    let pause = Duration::from_micros(arguments.number()?);
    let places = length(&file)? / BLOCK_BYTES;
    let (begin, length) = (0, (places * BLOCK_BYTES).cast_signed());
    let session = Session::begin()?;
    let mut writes = 0_u64;
    while session.going_after(writes) {
        if writes.is_multiple_of(places) {
            for mode in [libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE, 0] {
                // SAFETY: no memory argument.
                let result = unsafe { libc::fallocate(file.as_raw_fd(), mode, begin, length) };
                ensure!(result == 0, "fallocate: {}", io::Error::last_os_error());
            }
            file.sync_all()?;
        }
        let at = writes % places * BLOCK_BYTES;
        file.write_all_at(&[writes as u8; BLOCK_BYTES as usize], at)?;
        let flags = libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
        let (at, length) = (at.cast_signed(), BLOCK_BYTES.cast_signed());
        // SAFETY: no memory argument.
        let result = unsafe { libc::sync_file_range(file.as_raw_fd(), at, length, flags) };
        ensure!(result == 0, "sync_file_range: {}", io::Error::last_os_error());
        writes += 1;
        thread::sleep(pause);
    }
    report(&format!("writes {writes}"))
}

/// Writes a file from its start.
fn fill(file: &mut File, mebibytes: u64) -> Result<()> {
    let chunk = vec![0xa5_u8; 1 << 20];
    file.seek(SeekFrom::Start(0))?;
    for _ in 0..mebibytes {
        file.write_all(&chunk)?;
    }
    Ok(())
}

/// `stream <cpu> <path> <MiB> <pause us>`: writes a file from its start through the page cache, then
/// `fsync`, again and again.
pub(super) fn stream(arguments: &mut Arguments) -> Result<()> {
    pin(0, arguments.number()?)?;
    let mut file = OpenOptions::new().write(true).open(arguments.text()?)?;
    let mebibytes: u64 = arguments.number()?;
    let pause = Duration::from_micros(arguments.number()?);
    let session = Session::begin()?;
    let mut passes = 0_u64;
    while session.going_after(passes) {
        fill(&mut file, mebibytes)?;
        file.sync_all()?;
        passes += 1;
        thread::sleep(pause);
    }
    report(&format!("passes {passes}"))
}

/// `new-pages <cpu> <directory> <MiB>`: fills the page cache with a nameless file, and gives all back
/// by emptying it, again and again.
pub(super) fn new_pages(arguments: &mut Arguments) -> Result<()> {
    pin(0, arguments.number()?)?;
    let mut file = OpenOptions::new()
        .write(true)
        .custom_flags(libc::O_TMPFILE)
        .open(arguments.text()?)
        .context("creating a nameless file")?;
    let mebibytes: u64 = arguments.number()?;
    let session = Session::begin()?;
    let mut passes = 0_u64;
    while session.going_after(passes) {
        fill(&mut file, mebibytes)?;
        file.set_len(0)?;
        passes += 1;
    }
    report(&format!("passes {passes}"))
}

/// `struct iocb` of Linux's `uapi/linux/aio_abi.h`, little-endian.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct ControlBlock {
    data: u64,
    key: u32,
    rw_flags: i32,
    opcode: u16,
    priority: i16,
    descriptor: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    event_descriptor: u32,
}

const _: () = assert!(size_of::<ControlBlock>() == 64);

const IOCB_CMD_PREAD: u16 = 0;
/// Requests in one submission, which the kernel plugs.
const BATCH: usize = 16;

/// `shuffled-reads <cpu> <path> <pause us>`: neighbouring direct reads, submitted together in an
/// order (0, 4, 8, 12, 1, 5, ...) in which the plug cannot join them, so that the I/O scheduler has to
/// merge whole requests.
pub(super) fn shuffled_reads(arguments: &mut Arguments) -> Result<()> {
    pin(0, arguments.number()?)?;
    let file = open_direct(&arguments.text()?)?;
    let pause = Duration::from_micros(arguments.number()?);
    let batch_bytes = BATCH as u64 * BLOCK_BYTES;
    let places = length(&file)? / batch_bytes;
    let mut memory = Aligned::new(usize::try_from(batch_bytes)?);
    let mut scatter = Scatter::new(3);
    let mut context = 0_u64;
    // SAFETY: the kernel writes one context id to the variable.
    let set_up = unsafe { libc::syscall(libc::SYS_io_setup, BATCH, &raw mut context) };
    ensure!(set_up == 0, "io_setup: {}", io::Error::last_os_error());
    let session = Session::begin()?;
    let mut reads = 0_u64;
    while session.going_after(reads) {
        let first = scatter.below(places) * batch_bytes;
        let buffer = memory.bytes().as_mut_ptr() as u64;
        let mut blocks = [ControlBlock::default(); BATCH];
        for (index, block) in blocks.iter_mut().enumerate() {
            let place = ((index % 4) * 4 + index / 4) as u64 * BLOCK_BYTES;
            *block = ControlBlock {
                opcode: IOCB_CMD_PREAD,
                descriptor: file.as_raw_fd().cast_unsigned(),
                buffer: buffer + place,
                bytes: BLOCK_BYTES,
                offset: i64::try_from(first + place)?,
                ..ControlBlock::default()
            };
        }
        let pointers = blocks.each_ref().map(std::ptr::from_ref);
        // SAFETY: the control blocks and the memory outlive the requests: all are waited for below.
        let submitted =
            unsafe { libc::syscall(libc::SYS_io_submit, context, BATCH, pointers.as_ptr()) };
        ensure!(submitted == BATCH as i64, "io_submit: {}", io::Error::last_os_error());
        let mut done = [[0_u64; 4]; BATCH];
        // SAFETY: `done` has room for the events asked for, 32 bytes each; no timeout is passed.
        let events = unsafe {
            libc::syscall(libc::SYS_io_getevents, context, BATCH, BATCH, done.as_mut_ptr(), 0_usize)
        };
        ensure!(events == BATCH as i64, "io_getevents: {}", io::Error::last_os_error());
        let whole = done.iter().all(|event| event[2] == BLOCK_BYTES);
        ensure!(whole, "a read failed or was short: {done:?}");
        reads += BATCH as u64;
        thread::sleep(pause);
    }
    report(&format!("reads {reads}"))
}
