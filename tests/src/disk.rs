//! Files and loop devices for block tests, gone when dropped.

use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};

use crate::daemon::run;
use crate::scratch::Folder;

/// The kernel's name of a block device (`major << 20 | minor`, as trace events have it).
pub fn device_name(device: u32) -> Arc<str> {
    let numbers = format!("{}:{}", device >> 20, device & 0xf_ffff);
    fs::read_link(format!("/sys/dev/block/{numbers}"))
        .ok()
        .and_then(|link| Some(link.file_name()?.to_string_lossy().as_ref().into()))
        .unwrap_or_else(|| numbers.into())
}

/// A file full of data, written through to its disk.
#[derive(Debug)]
pub struct ScratchFile {
    path: PathBuf,
}

impl ScratchFile {
    /// Writes a file of `mebibytes` into the temporary directory.
    pub fn new(name: &str, mebibytes: usize) -> Result<Self> {
        Self::new_in(&env::temp_dir(), name, mebibytes)
    }

    /// Writes a file of `mebibytes` into a directory.
    pub fn new_in(directory: &Path, name: &str, mebibytes: usize) -> Result<Self> {
        let path = directory.join(format!("noised-test-{}-{name}", std::process::id()));
        let mut file =
            File::create(&path).with_context(|| format!("creating {}", path.display()))?;
        let scratch = Self { path };
        for index in 0..mebibytes {
            file.write_all(&vec![index as u8 | 1; 1 << 20])?;
        }
        file.sync_all()?;
        Ok(scratch)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its path as a load's argument.
    pub fn argument(&self) -> Result<&str> {
        self.path.to_str().context("a path that is not UTF-8")
    }

    /// The whole disk it lies on (`vda`), or `None` if that is no block device (tmpfs, overlay).
    pub fn disk(&self) -> Result<Option<String>> {
        let device = fs::metadata(&self.path)?.dev();
        let link = format!("/sys/dev/block/{}:{}", libc::major(device), libc::minor(device));
        let Ok(target) = fs::canonicalize(link) else { return Ok(None) };
        let is_partition = target.join("partition").exists();
        let disk = if is_partition { target.parent() } else { Some(target.as_path()) };
        Ok(disk.and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned()))
    }
}

impl Drop for ScratchFile {
    fn drop(&mut self) {
        // A drop reports no error; the name says whose it was.
        let _ = fs::remove_file(&self.path);
    }
}

/// A directory of files full of data, in the temporary directory.
#[derive(Debug)]
pub struct ScratchTree {
    files: Vec<ScratchFile>,
    folder: Folder,
}

impl ScratchTree {
    /// Writes so many files of `mebibytes` each.
    pub fn new(name: &str, files: usize, mebibytes: usize) -> Result<Self> {
        let folder = Folder::new(name)?;
        let files = (0..files)
            .map(|number| ScratchFile::new_in(folder.path(), &number.to_string(), mebibytes));
        Ok(Self { files: files.collect::<Result<_>>()?, folder })
    }

    /// Its path as a load's argument.
    pub fn argument(&self) -> Result<&str> {
        self.folder.argument()
    }

    /// The whole disk it lies on, or `None` if that is no block device.
    pub fn disk(&self) -> Result<Option<String>> {
        self.files.first().map_or(Ok(None), ScratchFile::disk)
    }
}

/// The scheduler that a disk uses (`mq-deadline`, `none`, ...).
pub fn scheduler(disk: &str) -> Result<String> {
    let text = fs::read_to_string(format!("/sys/block/{disk}/queue/scheduler"))?;
    let start = text.find('[').context("no scheduler is chosen")?;
    let end = text.find(']').context("no scheduler is chosen")?;
    Ok(text.get(start + 1..end).unwrap_or_default().to_owned())
}

/// `struct loop_info64` and `struct loop_config` of Linux's `uapi/linux/loop.h`.
#[repr(C)]
struct LoopConfig {
    descriptor: u32,
    block_size: u32,
    device: [u64; 5],
    number: u32,
    encryption: [u32; 2],
    flags: u32,
    names: [u8; 160],
    init: [u64; 2],
    reserved: [u64; 8],
}

const _: () = assert!(size_of::<LoopConfig>() == 304);

const LOOP_CTL_GET_FREE: u64 = 0x4c82;
const LOOP_CONFIGURE: u64 = 0x4c0a;
const LO_FLAGS_AUTOCLEAR: u32 = 4;
const LO_FLAGS_DIRECT_IO: u32 = 16;

/// A loop device; the kernel detaches it when the last descriptor is closed, ours included.
#[derive(Debug)]
pub struct LoopDevice {
    _device: File,
    /// Its name (`loop3`).
    pub name: String,
}

/// Lets the host's device manager, where there is one, look into a new device before tests count what
/// is read of it.
fn wait_for_udev() {
    if Path::new("/run/udev/control").exists() {
        let mut settle = Command::new("udevadm");
        settle.args(["settle", "--timeout=20"]);
        // Whoever counts has bounds for what others read, should it be late, or not to be asked.
        let _ = run(settle);
    }
}

impl LoopDevice {
    /// Puts a loop device with direct I/O over `backing`.
    pub fn attach(backing: &ScratchFile) -> Result<Self> {
        let control = OpenOptions::new().read(true).write(true).open("/dev/loop-control")?;
        // SAFETY: no memory argument.
        let number = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) };
        ensure!(number >= 0, "LOOP_CTL_GET_FREE: {}", io::Error::last_os_error());
        let name = format!("loop{number}");
        let path = format!("/dev/{name}");
        let device = OpenOptions::new().read(true).write(true).open(&path)?;
        ensure!(device.metadata()?.file_type().is_block_device(), "{path} is no block device");
        let file = OpenOptions::new().read(true).write(true).open(backing.path())?;
        let config = LoopConfig {
            descriptor: file.as_raw_fd().cast_unsigned(),
            block_size: 0,
            device: [0; 5],
            number: 0,
            encryption: [0; 2],
            flags: LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO,
            names: [0; 160],
            init: [0; 2],
            reserved: [0; 8],
        };
        // SAFETY: the configuration is read during the call only.
        let result = unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE, &raw const config) };
        ensure!(result == 0, "LOOP_CONFIGURE: {}", io::Error::last_os_error());
        let attached = Self { _device: device, name };
        wait_for_udev();
        Ok(attached)
    }

    /// The device's path.
    pub fn path(&self) -> String {
        format!("/dev/{}", self.name)
    }
}
