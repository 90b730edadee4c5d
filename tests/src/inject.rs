//! System calls made by another process: what an attacker who has taken it over could do.
//!
//! A thread of the process is stopped as a debugger does, its registers become those of a call, and the
//! instruction that makes calls is run once, somewhere in the process's own text. Filters and rules that
//! the process put on itself hold for these calls as for its own. What was changed is put back before
//! the thread goes on.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::ptr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

/// Longer than any call takes that is refused.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Room for what arguments point to, bytes, and where it begins below the stack pointer: beyond what the
/// functions of the thread may still use there.
const ROOM: usize = 4096;
const BELOW: u64 = 8192 + ROOM as u64;

/// The instruction that makes a system call.
const SYSCALL: [u8; 2] = [0x0f, 0x05];

/// A stopped thread of another process. It goes on as if nothing had been when this is dropped.
#[derive(Debug)]
pub struct Injector {
    thread: i32,
    memory: File,
    saved: libc::user_regs_struct,
    /// Where [`SYSCALL`] lies.
    instruction: u64,
    /// Where the room begins, what was there, and how much of it is taken.
    room: u64,
    kept: Vec<u8>,
    taken: usize,
}

impl Injector {
    /// Stops the first thread of a process.
    /// Errors: where the kernel refuses, or the process is not like one of this architecture.
    pub fn attach(pid: u32) -> Result<Self> {
        let thread = i32::try_from(pid)?;
        let options = libc::PTRACE_O_TRACECLONE
            | libc::PTRACE_O_TRACEFORK
            | libc::PTRACE_O_TRACEVFORK
            | libc::PTRACE_O_TRACEEXEC;
        ask(libc::PTRACE_SEIZE, thread, 0, options as u64).context("attaching")?;
        let stopped = Stopped(thread);
        ask(libc::PTRACE_INTERRUPT, thread, 0, 0).context("stopping")?;
        wait(thread)?;
        let saved = registers(thread)?;
        let memory = OpenOptions::new().read(true).write(true).open(format!("/proc/{pid}/mem"))?;
        let room = (saved.rsp - BELOW) & !15;
        let mut kept = vec![0; ROOM];
        memory.read_exact_at(&mut kept, room).context("reading the stack")?;
        let instruction = find_instruction(pid, &memory)?;
        std::mem::forget(stopped);
        Ok(Self { thread, memory, saved, instruction, room, kept, taken: 0 })
    }

    /// Puts something into the process's memory, and returns where. It stays until [`Self::clear`].
    pub fn place(&mut self, bytes: &[u8]) -> Result<u64> {
        ensure!(self.taken + bytes.len() <= ROOM, "no room for {} bytes more", bytes.len());
        let at = self.room + self.taken as u64;
        self.memory.write_all_at(bytes, at).context("writing the stack")?;
        // Whatever it is, it is aligned.
        self.taken = (self.taken + bytes.len()).next_multiple_of(16);
        Ok(at)
    }

    /// The same of numbers, one after the other.
    pub fn place_words(&mut self, words: &[u64]) -> Result<u64> {
        self.place(&words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<_>>())
    }

    /// Makes the room free again.
    pub fn clear(&mut self) {
        self.taken = 0;
    }

    /// Makes a system call. What comes back is what the kernel answers: a negative error, or else what the
    /// call returns. A process that the call started is ended before it does anything.
    /// Errors: where the thread does not come back.
    pub fn call(&mut self, number: i64, arguments: [u64; 6]) -> Result<i64> {
        let [first, second, third, fourth, fifth, sixth] = arguments;
        let mut changed = libc::user_regs_struct { rip: self.instruction, ..self.saved };
        changed.rax = number as u64;
        // Not in a call that would be begun again.
        changed.orig_rax = u64::MAX;
        (changed.rdi, changed.rsi, changed.rdx) = (first, second, third);
        (changed.r10, changed.r8, changed.r9) = (fourth, fifth, sixth);
        set_registers(self.thread, &changed)?;
        ask(libc::PTRACE_SINGLESTEP, self.thread, 0, 0).context("going on")?;
        loop {
            let status = match wait(self.thread) {
                Ok(status) => status,
                Err(error) => {
                    // So that it can be put back, unless it has ended.
                    if ask(libc::PTRACE_INTERRUPT, self.thread, 0, 0).is_ok() {
                        wait(self.thread)?;
                    }
                    return Err(error.context(format!("call {number} does not come back")));
                }
            };
            let event = status >> 16;
            if event == 0 && libc::WSTOPSIG(status) == libc::SIGTRAP {
                break;
            }
            if matches!(
                event,
                libc::PTRACE_EVENT_CLONE | libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK
            ) {
                self.end_child()?;
            }
            ensure!(event != libc::PTRACE_EVENT_EXEC, "the process became another program");
            ask(libc::PTRACE_SINGLESTEP, self.thread, 0, 0).context("going on")?;
        }
        Ok(registers(self.thread)?.rax as i64)
    }

    /// Lets what the thread just started, a process or another thread, do nothing but end.
    fn end_child(&self) -> Result<()> {
        let mut child: libc::c_ulong = 0;
        // SAFETY: the kernel writes one number, which lives for the call.
        let asked =
            unsafe { libc::ptrace(libc::PTRACE_GETEVENTMSG, self.thread, 0, &raw mut child) };
        ensure!(asked == 0, "PTRACE_GETEVENTMSG: {}", io::Error::last_os_error());
        let child = i32::try_from(child)?;
        wait(child)?;
        let mut ending = libc::user_regs_struct { rip: self.instruction, ..registers(child)? };
        (ending.rax, ending.orig_rax, ending.rdi) = (libc::SYS_exit as u64, u64::MAX, 0);
        set_registers(child, &ending)?;
        ask(libc::PTRACE_DETACH, child, 0, 0).context("letting a child go")
    }

    fn restore(&self) -> Result<()> {
        self.memory.write_all_at(&self.kept, self.room)?;
        set_registers(self.thread, &self.saved)
    }
}

impl Drop for Injector {
    fn drop(&mut self) {
        if let Err(error) = self.restore() {
            eprintln!("cannot put thread {} back: {error:#}", self.thread);
        }
        drop(Stopped(self.thread));
    }
}

/// A thread that goes on when this is dropped.
struct Stopped(i32);

impl Drop for Stopped {
    fn drop(&mut self) {
        // One that has ended needs nothing.
        let _ = ask(libc::PTRACE_DETACH, self.0, 0, 0);
    }
}

fn ask(request: libc::c_uint, thread: i32, address: u64, data: u64) -> io::Result<()> {
    // SAFETY: none of the requests that are made here with numbers touches memory of this process.
    match unsafe { libc::ptrace(request, thread, address, data) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Waits until a thread stops.
fn wait(thread: i32) -> Result<i32> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let mut status = 0;
        // SAFETY: the status is written during the call only.
        let found = unsafe { libc::waitpid(thread, &raw mut status, libc::__WALL | libc::WNOHANG) };
        ensure!(found >= 0, "waitpid: {}", io::Error::last_os_error());
        if found == thread {
            ensure!(libc::WIFSTOPPED(status), "thread {thread} has ended, status {status:#x}");
            return Ok(status);
        }
        ensure!(Instant::now() < deadline, "thread {thread} does not stop");
        std::thread::sleep(Duration::from_micros(100));
    }
}

fn registers(thread: i32) -> Result<libc::user_regs_struct> {
    // SAFETY: an all-zero value is valid, and the kernel fills it.
    unsafe {
        let mut registers: libc::user_regs_struct = std::mem::zeroed();
        let into = &raw mut registers;
        let result = libc::ptrace(libc::PTRACE_GETREGS, thread, ptr::null_mut::<u8>(), into);
        ensure!(result == 0, "PTRACE_GETREGS: {}", io::Error::last_os_error());
        Ok(registers)
    }
}

fn set_registers(thread: i32, registers: &libc::user_regs_struct) -> Result<()> {
    let from = ptr::from_ref(registers);
    // SAFETY: the registers are read during the call only.
    let result = unsafe { libc::ptrace(libc::PTRACE_SETREGS, thread, ptr::null_mut::<u8>(), from) };
    ensure!(result == 0, "PTRACE_SETREGS: {}", io::Error::last_os_error());
    Ok(())
}

/// Looks for [`SYSCALL`] in what the process may execute.
fn find_instruction(pid: u32, memory: &File) -> Result<u64> {
    for line in fs::read_to_string(format!("/proc/{pid}/maps"))?.lines() {
        let mut words = line.split_whitespace();
        let (Some(range), Some(mode)) = (words.next(), words.next()) else { continue };
        let Some((begin, end)) = range.split_once('-') else { continue };
        if !mode.starts_with("r-x") || line.ends_with("[vsyscall]") {
            continue;
        }
        let (begin, end) = (u64::from_str_radix(begin, 16)?, u64::from_str_radix(end, 16)?);
        let mut text = vec![0; usize::try_from(end - begin)?];
        if memory.read_exact_at(&mut text, begin).is_err() {
            continue;
        }
        if let Some(at) = text.windows(SYSCALL.len()).position(|bytes| bytes == SYSCALL) {
            return Ok(begin + at as u64);
        }
    }
    bail!("process {pid} has no instruction that makes system calls")
}
