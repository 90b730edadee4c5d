//! No test waits for ever: one that hangs is named and ends the run, as a failure.

use std::fs;
use std::io::{Write as _, stdout};
use std::process::exit;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Several times what the longest test takes on a busy machine, both attempts together.
const LONGEST: Duration = Duration::from_secs(600);

/// As the standard harness ends when a test failed.
const FAILED: i32 = 101;

/// Held while a test runs. Nothing of it is left behind.
pub struct Watch {
    end: Option<Sender<()>>,
    waiting: Option<JoinHandle<()>>,
}

impl Watch {
    /// Begins to wait for the end of the running test.
    pub fn begin() -> Self {
        let (end, ended) = mpsc::channel();
        let waiting = thread::spawn(move || {
            if ended.recv_timeout(LONGEST) == Err(RecvTimeoutError::Timeout) {
                give_up();
            }
        });
        Self { end: Some(end), waiting: Some(waiting) }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(waiting) = self.waiting.take() {
            // It cannot panic.
            let _ = waiting.join();
        }
    }
}

/// Ends this program, and by that the processes that tests start. What the test set up in the kernel
/// stays: whoever could remove it hangs.
fn give_up() -> ! {
    let mut out = stdout().lock();
    // The harness has printed the name.
    let (threads, children) = (threads(), children());
    let _ = writeln!(
        out,
        "has not ended after {LONGEST:?}; its threads: {threads}; its processes: {children}\nFAILED"
    );
    let _ = out.flush();
    exit(FAILED)
}

/// The threads of this process, with the system call that each is in: its number and arguments.
fn threads() -> String {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let calls = tasks.map(|task| {
        let call = fs::read_to_string(task.path().join("syscall")).unwrap_or_default();
        format!("{} in {}", task.file_name().display(), call.trim())
    });
    calls.collect::<Vec<_>>().join(", ")
}

/// The processes that this one started and that have not ended, with what each waits for.
fn children() -> String {
    let read = |path: String| fs::read_to_string(path).unwrap_or_default();
    let mut waiting = Vec::new();
    for task in fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let list = read(task.path().join("children").display().to_string());
        for pid in list.split_whitespace() {
            let command = read(format!("/proc/{pid}/cmdline")).replace('\0', " ");
            let waits = read(format!("/proc/{pid}/wchan"));
            waiting.push(format!("{pid} ({}) in {waits}", command.trim()));
        }
    }
    if waiting.is_empty() { "none".to_owned() } else { waiting.join(", ") }
}
