//! A program with a bit of everything, always the same: it computes, reads from a disk, has a helper work on what it has
//! read, and sleeps.

use std::hint::black_box;
use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::os::unix::net::UnixDatagram;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use super::compute::last_prime;
use super::disk::{Aligned, open_direct};
use super::{Arguments, command, report};
use crate::task::{monotonic_ns, sched_stat, set_name, settle, thread_cpu_ns};

/// The names of the two processes.
pub const NAMES: [&str; 2] = ["indexer", "indexer-sums"];
/// What each execution is marked as.
pub const MARK: &str = "index";
/// An execution is so many times the same.
const STEPS: u64 = 8;
/// In each of them, so many pieces are read.
const PIECES: u64 = 8;
const PIECE_BYTES: usize = 256 << 10;
/// What they are, all together.
pub const FILE_MEBIBYTES: usize = 16;
const _: () = assert!(STEPS as usize * PIECES as usize * PIECE_BYTES == FILE_MEBIBYTES << 20);
/// Sleeps: in each step, and between two executions.
const NAP: Duration = Duration::from_millis(2);
const PAUSE: Duration = Duration::from_millis(5);

/// What the kernel says that both processes did so far, nanoseconds.
#[derive(Clone, Copy, Default)]
struct Account {
    ran: u64,
    waited: u64,
}

impl Account {
    /// The helper sleeps at that moment, so that its time is whole.
    fn look(helper: i32) -> Result<Self> {
        let (own, other) = (sched_stat(std::process::id().try_into()?)?, sched_stat(helper)?);
        Ok(Self { ran: thread_cpu_ns()? + other.run_ns, waited: own.wait_ns + other.wait_ns })
    }
}

/// `indexer <cpus, or any> <mark socket> <disk file, or -> <primes> <executions>`: so many executions, each marked with its
/// number as key, then the end. Reports what the scheduler says that they ran and waited, ns.
pub(super) fn indexer(arguments: &mut Arguments) -> Result<()> {
    set_name(NAMES[0])?;
    settle(&arguments.text()?)?;
    let marks = UnixDatagram::unbound()?;
    marks.connect(arguments.text()?)?;
    let disk = arguments.text()?;
    let disk = if disk == "-" { None } else { Some(open_direct(&disk)?) };
    let primes: usize = arguments.number()?;
    let executions: u64 = arguments.number()?;
    let mut helper =
        command("indexer-sums", &[])?.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let helper_id = helper.id().try_into()?;
    let mut to = helper.stdin.take().context("no pipe")?;
    // A whole piece, so that one of the two works at a time.
    // SAFETY: no memory argument.
    let size = unsafe { libc::fcntl(to.as_raw_fd(), libc::F_SETPIPE_SZ, PIECE_BYTES as i32) };
    ensure!(size >= PIECE_BYTES as i32, "F_SETPIPE_SZ: {}", std::io::Error::last_os_error());
    let mut from = helper.stdout.take().context("no pipe")?;
    let mut answer = [0; 8];
    // Its first answer says that it has begun.
    from.read_exact(&mut answer)?;
    report("ready")?;
    let tid = std::process::id();
    let mark = |action: &str, key: u64, at_ns: u64| -> Result<()> {
        let text = format!("{action} {MARK} {key} {at_ns} {tid}");
        marks.send(text.as_bytes()).context("sending a mark")?;
        Ok(())
    };
    let mut memory = Aligned::new(PIECE_BYTES);
    let mut did = Account::default();
    for execution in 0..executions {
        let before = Account::look(helper_id)?;
        let begin_ns = monotonic_ns()?;
        mark("begin", execution, begin_ns)?;
        for step in 0..STEPS {
            black_box(last_prime(primes, || true));
            for piece in 0..PIECES {
                let place = (step * PIECES + piece) * PIECE_BYTES as u64;
                if let Some(disk) = &disk {
                    disk.read_exact_at(memory.bytes(), place)?;
                }
                to.write_all(memory.bytes())?;
                from.read_exact(&mut answer)?;
            }
            thread::sleep(NAP);
        }
        let end_ns = monotonic_ns()?;
        let after = Account::look(helper_id)?;
        mark("end", execution, end_ns)?;
        did.ran += after.ran - before.ran;
        did.waited += after.waited - before.waited;
        thread::sleep(PAUSE);
    }
    drop(to);
    helper.wait()?;
    report(&format!("executions {executions}"))?;
    report(&format!("ran-ns {}", did.ran))?;
    report(&format!("waited-ns {}", did.waited))
}

/// `indexer-sums`: adds up the pieces that come by its standard input, and answers with the sum of each.
pub(super) fn indexer_sums() -> Result<()> {
    set_name(NAMES[1])?;
    let (mut from, mut to) = (std::io::stdin().lock(), std::io::stdout().lock());
    to.write_all(&[0; 8])?;
    to.flush()?;
    let mut piece = vec![0; PIECE_BYTES];
    while from.read_exact(&mut piece).is_ok() {
        let sum = piece.iter().fold(0_u64, |sum, byte| sum.rotate_left(5) ^ u64::from(*byte));
        to.write_all(&sum.to_le_bytes())?;
        to.flush()?;
    }
    Ok(())
}
