//! Command lines and processes of threads, read by a thread of its own: the kernel takes a lock of the process for each, which a process that
//! waits for a disk may hold for long. Where one hangs, later ones are not known; nothing else waits.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use noise_analysis::{Name, StartCommand};
use noise_model::OutlierRecord;
use noise_system::procfs::{self, ThreadStatus};
use noise_system::worker::REMEDY;
use noise_text::clean::{as_text, excerpt};

/// Threads that wait to be looked up.
const MOST_WAITING: usize = 256;
/// Threads that are remembered to have been looked up.
const MOST_ASKED: usize = 4096;
/// After this time a thread is looked up again: numbers are used again, and a program may become another.
const AGAIN: Duration = Duration::from_secs(60);
/// Bytes of a command line that are read.
const MOST_BYTES: u64 = 4096;
/// Characters of it that are kept.
const MOST_CHARS: usize = 160;

#[derive(Debug, Default)]
pub struct Commands {
    link: Option<ReaderLink>,
    /// Those that were asked for of late, with their names: one that runs another program has another.
    asked: BTreeMap<u32, (Name, Instant)>,
    /// Whether there could be no thread.
    failing: bool,
}

/// A thread by its number and name.
type ThreadLookup = (u32, Name);

/// The thread that reads.
#[derive(Debug)]
struct ReaderLink {
    ask: SyncSender<ThreadLookup>,
    found: Receiver<StartCommand>,
}

impl Commands {
    /// Has the threads of long waits looked up that were not of late; what is known by now of those before.
    pub fn look_up(&mut self, waits: &[OutlierRecord]) -> Vec<StartCommand> {
        for wait in waits {
            self.ask(wait.pid, &wait.comm);
            wait.parts.iter().for_each(|part| self.ask(part.pid, &part.comm));
        }
        self.link.iter().flat_map(|link| link.found.try_iter()).collect()
    }

    fn ask(&mut self, pid: u32, comm: &Name) {
        let is_known =
            self.asked.get(&pid).is_some_and(|(name, at)| name == comm && at.elapsed() < AGAIN);
        if pid == 0 || is_known {
            return;
        }
        if self.link.is_none() {
            // After the daemon has given up its privileges, so that this thread has none either.
            match start() {
                Ok(link) => self.link = Some(link),
                Err(error) if !self.failing => {
                    self.failing = true;
                    tracing::warn!(
                        %error,
                        "no thread can be started, so command lines of long waits are missing until one can: {REMEDY}"
                    );
                }
                Err(_) => {}
            }
        }
        let Some(link) = &self.link else { return };
        // Where too many wait, it is asked for again with its next wait.
        if link.ask.try_send((pid, Name::clone(comm))).is_ok() {
            if self.asked.len() >= MOST_ASKED {
                self.asked.clear();
            }
            self.asked.insert(pid, (Name::clone(comm), Instant::now()));
        }
    }
}

/// Errors: where there can be no thread.
fn start() -> io::Result<ReaderLink> {
    let (ask, asked) = sync_channel(MOST_WAITING);
    let (sender, found) = channel();
    let work = move || work(&asked, &sender);
    thread::Builder::new().name("commands".to_owned()).spawn(work)?;
    Ok(ReaderLink { ask, found })
}

fn work(asked: &Receiver<ThreadLookup>, found: &Sender<StartCommand>) {
    while let Ok((pid, comm)) = asked.recv() {
        let Some(command) = read(&Path::new("/proc").join(pid.to_string()), pid, comm) else {
            continue;
        };
        if found.send(command).is_err() {
            return;
        }
    }
}

/// What a thread that still has that name was started as; `None` where it is gone, or where that cannot be read. A thread of
/// the kernel has no command line.
fn read(folder: &Path, pid: u32, comm: Name) -> Option<StartCommand> {
    let name = procfs::bytes(folder.join("comm")).ok()?;
    if as_text(name.strip_suffix(b"\n").unwrap_or(&name)) != *comm {
        return None;
    }
    let bytes = procfs::begin(folder.join("cmdline"), MOST_BYTES).ok()?;
    let words = bytes.split(|byte| *byte == 0).filter(|word| !word.is_empty());
    let words: Vec<String> = words.map(|word| as_text(word).into_owned()).collect();
    let text = words.join(" ");
    let is_kernel =
        text.is_empty() && procfs::is_kernel_thread(&procfs::bytes(folder.join("stat")).ok()?)?;
    if text.is_empty() && !is_kernel {
        return None;
    }
    let status = ThreadStatus::read(folder).unwrap_or_default();
    let process = u32::try_from(status.process).ok().filter(|&id| id > 0);
    let command = excerpt(&text, MOST_CHARS).into();
    Some(StartCommand { pid, comm, command, process, is_kernel })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn command_lines_are_cleaned_and_bounded() {
        let root = tempfile::tempdir().unwrap();
        let of = |comm: &[u8], cmdline: &[u8], flags: u32, expected: &str| {
            fs::write(root.path().join("comm"), comm).unwrap();
            fs::write(root.path().join("cmdline"), cmdline).unwrap();
            let stat = format!("9 (a) b) S 2 0 0 0 -1 {flags} 0 0\n");
            fs::write(root.path().join("stat"), stat).unwrap();
            fs::write(root.path().join("status"), "Name:\ta\nTgid:\t7\nPid:\t9\n").unwrap();
            read(root.path(), 9, expected.into())
        };
        let line = |found: Option<StartCommand>| found.map(|found| found.command.to_string());
        let gzip = of(b"gzip\n", b"gzip\0-9\0/a b\0", 0x40_0000, "gzip").unwrap();
        assert_eq!(
            (&*gzip.command, gzip.process, gzip.is_kernel),
            ("gzip -9 /a b", Some(7), false)
        );
        assert_eq!(
            line(of(b"gzip\n", b"gzip\0\x1b[2J\xff\0", 0, "gzip")).as_deref(),
            Some(r"gzip \x1b[2J\xff")
        );
        assert_eq!(of(b"other\n", b"gzip\0", 0, "gzip"), None);
        // What has no command line is a thread of the kernel, or about to end.
        assert_eq!(of(b"defunct\n", b"", 0x40_0000, "defunct"), None);
        let kernel = of(b"kworker/0:1\n", b"", 0x20_8040, "kworker/0:1").unwrap();
        assert!(kernel.is_kernel && kernel.command.is_empty());
        let long = line(of(b"x\n", &[b'x'; 10_000], 0, "x")).unwrap();
        assert!(long.chars().count() <= MOST_CHARS + 1, "{long}");
        assert_eq!(read(Path::new("/nowhere"), 9, "x".into()), None);
    }

    #[test]
    fn threads_are_looked_up_once_in_a_while() {
        let pid = std::process::id();
        let comm: Name = procfs::text("/proc/self/comm").unwrap().trim_end().into();
        let wait = OutlierRecord {
            at_ns: 0,
            wait_ns: 1,
            victim: "/".into(),
            pid,
            comm: Name::clone(&comm),
            cpu: 0,
            made_runnable: "wakeup".into(),
            parts: Vec::new(),
            rest_ns: 0,
        };
        let mut commands = Commands::default();
        let begin = Instant::now();
        let mut found = commands.look_up(std::slice::from_ref(&wait));
        while found.is_empty() && begin.elapsed() < Duration::from_secs(30) {
            thread::sleep(Duration::from_millis(10));
            found = commands.look_up(std::slice::from_ref(&wait));
        }
        assert_eq!((found[0].pid, &found[0].comm), (pid, &comm));
        thread::sleep(Duration::from_millis(50));
        assert_eq!(commands.look_up(&[wait]), []);
        assert_eq!(commands.asked.len(), 1);
    }
}
