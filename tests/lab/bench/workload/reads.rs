//! Direct reads of 4 KiB at random places: each is one request to a block device.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::ptr::NonNull;

use anyhow::{Context as _, Result, ensure};

use super::Operation;
use crate::disk::{LoopDevice, ScratchFile};

/// Length of a read, and what its place and its memory are multiples of.
const BLOCK: usize = 4096;

/// Size of the file, MiB.
const FILE_MIB: usize = 64;

/// Where tmpfs is.
const TMPFS: &str = "/dev/shm";

/// Memory for direct I/O.
struct Page(NonNull<u8>);

impl Page {
    const LAYOUT: Layout = match Layout::from_size_align(BLOCK, BLOCK) {
        Ok(layout) => layout,
        Err(_) => Layout::new::<u8>(),
    };

    fn new() -> Result<Self> {
        // SAFETY: the layout is not of size zero.
        NonNull::new(unsafe { alloc_zeroed(Self::LAYOUT) }).map(Self).context("no memory")
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the memory is ours, initialised, and as long as the layout says.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_ptr(), Self::LAYOUT.size()) }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and not used any more.
        unsafe { dealloc(self.0.as_ptr(), Self::LAYOUT) };
    }
}

/// The reads. The file loses its name as soon as it is open, and the loop device detaches when its
/// last descriptor is closed: both go with this process, however it ends.
pub struct RandomReads {
    file: File,
    _loop_device: Option<LoopDevice>,
    /// Name of the block device.
    pub subject: String,
    page: Page,
    /// State of a xorshift generator.
    random: u64,
}

impl RandomReads {
    /// Of a file in the temporary directory.
    pub fn of_disk() -> Result<Self> {
        let scratch = ScratchFile::new("bench-disk", FILE_MIB)?;
        let disk = scratch.disk()?.with_context(|| {
            format!("{} does not lie on a block device; set TMPDIR", scratch.path().display())
        })?;
        Self::new(scratch.path(), disk, None)
    }

    /// Of a loop device over a file on tmpfs.
    pub fn of_loop_device() -> Result<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts")?;
        let is_tmpfs = mounts.lines().any(|line| {
            let mut fields = line.split(' ').skip(1);
            fields.next() == Some(TMPFS) && fields.next() == Some("tmpfs")
        });
        ensure!(is_tmpfs, "there is no tmpfs at {TMPFS}");
        let scratch = ScratchFile::new_in(TMPFS.as_ref(), "bench-loop", FILE_MIB)?;
        let device = LoopDevice::attach(&scratch).context("setting up a loop device")?;
        let path = device.path();
        Self::new(path.as_ref(), device.name.clone(), Some(device))
    }

    fn new(path: &Path, subject: String, loop_device: Option<LoopDevice>) -> Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_DIRECT)
            .open(path)
            .with_context(|| format!("opening {} for direct reads", path.display()))?;
        let page = Page::new()?;
        let random = 0x9e37_79b9_7f4a_7c15;
        Ok(Self { file, _loop_device: loop_device, subject, page, random })
    }
}

impl Operation for RandomReads {
    fn repeat(&mut self, count: u32) -> Result<()> {
        const BLOCKS: u64 = ((FILE_MIB << 20) / BLOCK) as u64;
        for _ in 0..count {
            self.random ^= self.random << 13;
            self.random ^= self.random >> 7;
            self.random ^= self.random << 17;
            let offset = self.random % BLOCKS * BLOCK as u64;
            self.file.read_exact_at(self.page.bytes(), offset).context("a direct read")?;
        }
        Ok(())
    }
}
