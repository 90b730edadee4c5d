//! QEMU: boots a kernel and reads from its console how the script ended.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

const LOOK: Duration = Duration::from_millis(200);
/// How the last line of the console begins, by `init.sh`.
const EXIT: &str = "noised-vm: exit ";
/// Sizes of the disks: one with a file system for temporary files, one with nothing.
const DISKS: [(&str, u64); 2] = [("disk.files", 512 << 20), ("disk.raw", 64 << 20)];
/// And of the one in an NVMe subsystem, with one path to it.
const SUBSYSTEM_DISK: (&str, u64) = ("disk.subsystem", 64 << 20);

/// What a guest left.
pub struct Ended {
    /// Everything on its console: the kernel's words, and the script's where it writes there.
    pub console: String,
    /// Everything that the script wrote to its second serial line.
    pub results: String,
    /// How the script ended, or why it did not.
    pub script: Result<()>,
}

/// A folder for guests of this process alone: others would write over their disks. Each of them has files of its own.
pub struct Folder {
    pub path: PathBuf,
    lock: File,
    turn: Mutex<()>,
}

impl Folder {
    /// Makes it where it is not there, and takes it.
    /// Errors: if another process has it, be it a guest whose starter was killed.
    pub fn take(path: PathBuf) -> Result<Self> {
        fs::create_dir_all(&path).with_context(|| format!("cannot create {}", path.display()))?;
        let lock = File::create(path.join("lock"))
            .with_context(|| format!("cannot create a file in {}", path.display()))?;
        lock.try_lock().with_context(|| {
            format!("guests are booted from {} already; wait for their end", path.display())
        })?;
        Ok(Self { path, lock, turn: Mutex::new(()) })
    }

    /// Does what writes files that are not one guest's: one at a time.
    pub fn alone<R>(&self, work: impl FnOnce() -> R) -> R {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        work()
    }
}

impl Drop for Folder {
    /// Closing the file is not enough: a process that another thread forks has it too, until it starts
    /// its program.
    fn drop(&mut self) {
        // An error leaves the lock with the process that still has the file.
        let _ = self.lock.unlock();
    }
}

/// Boots and waits for the guest's end; one that takes longer than `longest` hangs. `name` is part of
/// the names of the files that are left.
/// Errors: if there is no guest at all.
pub fn boot(
    folder: &Folder,
    name: &str,
    kernel: &Path,
    initramfs: &Path,
    longest: Duration,
) -> Result<Ended> {
    let mut append = "console=ttyS0 panic=-1 quiet no_timer_check".to_owned();
    if let Some(khz) = tsc_khz() {
        append.push_str(&format!(" tsc_early_khz={khz}"));
    }
    let [console, results] =
        ["console", "results"].map(|what| folder.path.join(format!("{what}.{name}")));
    // What an earlier guest said must not be mistaken for the words of one that never started.
    for file in [&console, &results] {
        forget(file)?;
    }
    // Never with KVM: where it is nested it may be there and not work. The guest's CPUs take turns in
    // one thread: with a thread each, kernels hung or died now and then while they put other
    // instructions in the place of those that the other CPU runs, as they do for each tracepoint.
    let mut command = Command::new("nice");
    command
        .args(["-n", "10", "qemu-system-x86_64", "-nodefaults", "-no-user-config"])
        .args(["-display", "none", "-no-reboot", "-monitor", "none", "-machine", "q35"])
        .args(["-accel", "tcg,thread=single", "-cpu", "max", "-smp", "2", "-m", "2048"]);
    for file in [&console, &results] {
        command.arg("-serial").arg(format!("file:{}", file.display()));
    }
    let (subsystem_disk, bytes) = SUBSYSTEM_DISK;
    let subsystem_disk = folder.path.join(format!("{subsystem_disk}.{name}"));
    empty(&subsystem_disk, bytes)?;
    let disks = disks(&folder.path, name)?;
    command
        .args(["-device", "nvme-subsys,id=subsystem,nqn=subsystem"])
        .args(["-device", "nvme,serial=1,subsys=subsystem"])
        .args(["-drive", &format!("file={},format=raw,if=none,id=ns", subsystem_disk.display())])
        .args(["-device", "nvme-ns,drive=ns,shared=on"]);
    for (index, disk) in disks.iter().enumerate() {
        let file = disk.display();
        command
            .args(["-drive", &format!("file={file},format=raw,if=none,id=disk{index}")])
            // With one queue it gets a scheduler, in which requests wait.
            .args(["-device", &format!("virtio-blk-pci,drive=disk{index},num-queues=1")]);
    }
    let mut child = command
        .args(["-append", &append])
        .arg("-kernel")
        .arg(kernel)
        .arg("-initrd")
        .arg(initramfs)
        // Nothing to read: with it the guest holds the folder for as long as it runs.
        .stdin(folder.lock.try_clone().context("cannot hand the lock on")?)
        .spawn()
        .context("cannot start qemu-system-x86_64 (Debian: apt-get install qemu-system-x86)")?;
    let begin = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().context("cannot wait for QEMU")? {
            break Some(status);
        }
        if begin.elapsed() > longest {
            child.kill().context("cannot end QEMU")?;
            child.wait().context("cannot wait for QEMU")?;
            break None;
        }
        thread::sleep(LOOK);
    };
    disks.iter().chain([&subsystem_disk]).try_for_each(|disk| forget(disk))?;
    // QEMU may have refused before it made them.
    let read = |path: &PathBuf| match fs::read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        Ok(said) => Ok(String::from_utf8_lossy(&said).replace('\r', "")),
    };
    let (console, results) = (read(&console)?, read(&results)?);
    let script = ending(&console, status, longest);
    Ok(Ended { console, results, script })
}

/// Whether a script ended well: by its own word, and in a guest that QEMU saw power off. `None` is one
/// that had to be killed.
fn ending(console: &str, status: Option<ExitStatus>, longest: Duration) -> Result<()> {
    match (exit_of(console), status) {
        (Some("0"), Some(status)) if status.success() => Ok(()),
        (Some("0"), Some(status)) => bail!("the script ended well, but QEMU with {status}"),
        (Some("0"), None) => bail!("the script ended well, but the guest did not power off"),
        (Some(code), _) => bail!("the script ended with {code}"),
        (None, None) => bail!("the guest did not end within {longest:?}"),
        (None, Some(status)) => bail!("the guest ended ({status}) before its script"),
    }
}

/// Removes a file that may not be there.
fn forget(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// Whether guests can be booted here.
pub fn is_possible() -> Result<()> {
    let version = Command::new("qemu-system-x86_64").arg("--version").output();
    version.map(drop).context(
        "there is no qemu-system-x86_64, which boots the kernels; install it (Debian: apt-get \
         install qemu-system-x86)",
    )
}

/// Makes a disk with nothing.
fn empty(path: &Path, bytes: u64) -> Result<()> {
    File::create(path)
        .and_then(|file| file.set_len(bytes))
        .with_context(|| format!("cannot create {}", path.display()))
}

/// Fresh disks of a guest.
fn disks(folder: &Path, guest: &str) -> Result<Vec<PathBuf>> {
    let mut disks = Vec::new();
    for (name, bytes) in DISKS {
        let path = folder.join(format!("{name}.{guest}"));
        empty(&path, bytes)?;
        disks.push(path);
    }
    // Where there is none, the guest has its temporary files in memory.
    let [files, ..] = disks.as_slice() else { bail!("no disk") };
    let made = ["mke2fs", "/usr/sbin/mke2fs", "/sbin/mke2fs"].into_iter().any(|program| {
        let mut command = Command::new(program);
        command.args(["-q", "-F", "-t", "ext4"]).arg(files);
        command.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    });
    if !made {
        eprintln!("vm: no mke2fs here (Debian: apt-get install e2fsprogs); guests get no files");
    }
    Ok(disks)
}

/// How the script ended, as the console says.
fn exit_of(console: &str) -> Option<&str> {
    console.lines().rev().find_map(|line| line.strip_prefix(EXIT))
}

/// The rate of this machine's clock counter, which a busy host lets the guest measure wrong.
fn tsc_khz() -> Option<String> {
    let output = Command::new("dmesg").stderr(Stdio::null()).output().ok()?;
    khz_in(&String::from_utf8_lossy(&output.stdout))
}

/// `tsc: Detected 2596.122 MHz processor`.
fn khz_in(messages: &str) -> Option<String> {
    let (_, rest) = messages.split_once("tsc: Detected ")?;
    let (megahertz, _) = rest.split_once(" MHz")?;
    let (whole, thousandths) = megahertz.split_once('.')?;
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let fits = digits(whole) && digits(thousandths) && thousandths.len() == 3;
    fits.then(|| format!("{whole}{thousandths}"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::ExitStatus;
    use std::time::Duration;

    use super::{Folder, ending, exit_of, forget, khz_in};

    #[test]
    fn the_script_ends_as_its_last_line_says() {
        assert_eq!(exit_of("a\nnoised-vm: exit 3\n[ 9.1] reboot: Power down\n"), Some("3"));
        assert_eq!(exit_of("Kernel panic\n"), None);
    }

    #[test]
    fn only_a_guest_that_was_seen_to_power_off_ended_well() {
        let (good, bad) = (ExitStatus::from_raw(0), ExitStatus::from_raw(1 << 8));
        let well = "noised-vm: exit 0\n";
        let longest = Duration::from_secs(1);
        assert!(ending(well, Some(good), longest).is_ok());
        for (console, status) in [
            (well, Some(bad)),
            (well, None),
            ("noised-vm: exit 1\n", Some(good)),
            ("", Some(good)),
            ("", Some(bad)),
            ("", None),
        ] {
            assert!(ending(console, status, longest).is_err(), "{console:?} {status:?}");
        }
    }

    #[test]
    fn a_folder_is_one_owners_and_forgets() -> anyhow::Result<()> {
        let path = std::env::temp_dir().join(format!("noised-vm-folder-{}", std::process::id()));
        let folder = Folder::take(path.clone())?;
        assert!(Folder::take(path.clone()).is_err());
        drop(folder);
        let folder = Folder::take(path.clone())?;
        let left = path.join("console.7");
        std::fs::write(&left, "noised-vm: exit 0\n")?;
        forget(&left)?;
        forget(&left)?;
        assert!(!left.exists());
        drop(folder);
        Ok(std::fs::remove_dir_all(path)?)
    }

    #[test]
    fn the_rate_is_read_from_the_kernels_messages() {
        let line = "[    0.000058] tsc: Detected 2596.122 MHz processor\n";
        assert_eq!(khz_in(line).as_deref(), Some("2596122"));
        assert_eq!(khz_in("tsc: Detected odd MHz"), None);
    }
}
