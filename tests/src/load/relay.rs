//! A request that passes three processes, by a pipe, TCP and a lock in shared memory, with planted work in each.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileExt as _;
use std::process::Stdio;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use super::disk::{Aligned, open_direct};
use super::{Arguments, Session, command, report};
use crate::task::{pin, set_name};

/// The names of the three processes.
pub const NAMES: [&str; 3] = ["relay-client", "relay-middle", "relay-store"];
/// Bytes of one read of the disk, and reads of one request.
const READ_BYTES: usize = 128 << 10;
const READS: u64 = 8;
/// Where on the disk they begin. `direct-reads` of the same size begins at multiples of that size, so that no two
/// requests begin at one sector, by which events name them.
const READS_FROM: u64 = 4096;

/// A word in shared memory that a thread can sleep on.
struct Word(*const AtomicU32);

impl Word {
    /// At the begin of a file.
    fn of(file: &File) -> Result<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let length = size_of::<AtomicU32>();
        // SAFETY: a new mapping of a file that is longer than that; it is checked, and lives as long as the process.
        let memory = unsafe {
            use std::os::fd::AsRawFd as _;
            libc::mmap(ptr::null_mut(), length, access, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        ensure!(memory != libc::MAP_FAILED, "mmap: {}", std::io::Error::last_os_error());
        Ok(Self(memory.cast()))
    }

    fn get(&self) -> &AtomicU32 {
        // SAFETY: the mapping is whole, aligned to a page, and stays.
        unsafe { &*self.0 }
    }

    /// Sleeps until it has another value.
    fn wait(&self, value: u32) {
        while self.get().load(Ordering::Acquire) == value {
            let none = ptr::null::<libc::timespec>();
            // SAFETY: the word is valid memory, and there is no time limit.
            unsafe { libc::syscall(libc::SYS_futex, self.0, libc::FUTEX_WAIT, value, none) };
        }
    }

    /// Gives it the next value, and wakes who sleeps on it.
    fn step(&self) {
        self.get().fetch_add(1, Ordering::Release);
        // SAFETY: the word is valid memory.
        unsafe { libc::syscall(libc::SYS_futex, self.0, libc::FUTEX_WAKE, 1) };
    }
}

/// Takes so much time of the wall.
fn work(length: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < length {
        std::hint::spin_loop();
    }
}

/// `relay <cpu> <others' cpu> <file> <disk file, or -> <ms of each>`: requests, one after the other. The first
/// process works, sends a byte by a pipe and sleeps on a lock; the second works, and sends a byte by TCP; the third
/// reads from the disk, works, and steps the lock.
pub(super) fn relay(arguments: &mut Arguments) -> Result<()> {
    set_name(NAMES[0])?;
    pin(0, arguments.number()?)?;
    let (others, path, disk) = (arguments.text()?, arguments.text()?, arguments.text()?);
    let length = arguments.text()?;
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path)?;
    file.write_all_at(&[0; 64], 0)?;
    let word = Word::of(&file)?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?.to_string();
    drop(listener);
    let mut store = command("relay-store", &[&others, &address, &path, &disk, &length])?
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut line = [0; 1];
    store.stdout.take().context("no pipe")?.read_exact(&mut line)?;
    let mut middle =
        command("relay-middle", &[&others, &address, &length])?.stdin(Stdio::piped()).spawn()?;
    let mut to = middle.stdin.take().context("no pipe")?;
    let length = Duration::from_millis(length.parse()?);
    let session = Session::begin()?;
    let mut requests = 0_u64;
    while session.going_after(requests) {
        work(length);
        let before = word.get().load(Ordering::Acquire);
        to.write_all(&[1])?;
        word.wait(before);
        requests += 1;
    }
    drop(to);
    middle.wait()?;
    store.wait()?;
    report(&format!("requests {requests}"))
}

/// `relay-middle <cpu> <address> <ms>`: from the pipe to TCP.
pub(super) fn relay_middle(arguments: &mut Arguments) -> Result<()> {
    set_name(NAMES[1])?;
    pin(0, arguments.number()?)?;
    let mut stream = TcpStream::connect(arguments.text()?)?;
    stream.set_nodelay(true)?;
    let length = Duration::from_millis(arguments.number()?);
    let mut from = std::io::stdin().lock();
    let mut byte = [0];
    while from.read(&mut byte)? == 1 {
        work(length);
        stream.write_all(&byte)?;
    }
    Ok(())
}

/// `relay-store <cpu> <address> <file> <disk file, or -> <ms>`: from TCP to the lock.
pub(super) fn relay_store(arguments: &mut Arguments) -> Result<()> {
    set_name(NAMES[2])?;
    pin(0, arguments.number()?)?;
    let listener = TcpListener::bind(arguments.text()?)?;
    let file = OpenOptions::new().read(true).write(true).open(arguments.text()?)?;
    let word = Word::of(&file)?;
    let disk = arguments.text()?;
    let disk = if disk == "-" { None } else { Some(open_direct(&disk)?) };
    let length = Duration::from_millis(arguments.number()?);
    let mut memory = Aligned::new(READ_BYTES);
    report("")?;
    let (mut stream, _) = listener.accept()?;
    let mut byte = [0];
    while stream.read(&mut byte)? == 1 {
        for number in 0..READS {
            if let Some(disk) = &disk {
                disk.read_exact_at(memory.bytes(), READS_FROM + number * READ_BYTES as u64)?;
            }
        }
        work(length);
        word.step();
    }
    Ok(())
}
