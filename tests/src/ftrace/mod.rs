//! The referee: the same kernel events, recorded by ftrace in an instance of its own.
//!
//! tracefs is reached through a detached mount, which shows up in no mount table and goes
//! away with this process. The instance is removed when [`Recording`] is dropped; one left by a
//! killed test run is removed by the next. Events are read from the binary ring buffer, because the
//! text that the kernel prints has microseconds only.

pub mod blind;
pub mod event;
pub mod format;
pub mod pages;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

use blind::Sight;
use event::{BlockStep, Decode, Event, Kind, Names};
use format::{Field, Format};
use pages::Layout;

use crate::disk::device_name;

/// The scheduler's events.
pub const SCHED_EVENTS: &[&str] = &[
    "sched:sched_switch",
    "sched:sched_waking",
    "sched:sched_wakeup",
    "sched:sched_wakeup_new",
    "sched:sched_process_exec",
];

/// The block layer's events.
pub const BLOCK_EVENTS: &[&str] = &[
    "block:block_rq_insert",
    "block:block_rq_issue",
    "block:block_rq_complete",
    "block:block_rq_requeue",
    "block:block_rq_merge",
    "block:block_bio_frontmerge",
];

/// The events of memory that tasks get for themselves.
pub const MEMORY_EVENTS: &[&str] = &[
    "vmscan:mm_vmscan_direct_reclaim_begin",
    "vmscan:mm_vmscan_direct_reclaim_end",
    "vmscan:mm_vmscan_memcg_reclaim_begin",
    "vmscan:mm_vmscan_memcg_reclaim_end",
    "compaction:mm_compaction_begin",
    "compaction:mm_compaction_end",
];

/// Begin and end of interrupts, and what NMIs took.
pub const INTERRUPT_EVENTS: &[&str] = &[
    "irq:irq_handler_entry",
    "irq:irq_handler_exit",
    "irq:softirq_entry",
    "irq:softirq_exit",
    "irq_vectors:*_entry",
    "irq_vectors:*_exit",
    "nmi:nmi_handler",
];

/// Begin and end of the functions of high-resolution timers.
pub const TIMER_EVENTS: &[&str] = &["timer:hrtimer_expire_entry", "timer:hrtimer_expire_exit"];

/// System calls, and signals.
pub const CALL_EVENTS: &[&str] = &[
    "raw_syscalls:sys_enter",
    "raw_syscalls:sys_exit",
    "signal:signal_generate",
    "signal:signal_deliver",
];

/// What sockets send and receive, and their states.
pub const SOCKET_EVENTS: &[&str] = &[
    "sock:sock_send_length",
    "sock:sock_recv_length",
    "sock:inet_sock_set_state",
    "sock:sk_data_ready",
];

/// The events of the network.
pub const NETWORK_EVENTS: &[&str] = &[
    "net:net_dev_queue",
    "net:net_dev_start_xmit",
    "net:netif_receive_skb",
    "skb:kfree_skb",
    "tcp:tcp_retransmit_skb",
];

/// The events that say who had a CPU while another task waited for it.
pub fn charge_events() -> Vec<&'static str> {
    let tasks = ["sched:sched_migrate_task", "cgroup:cgroup_attach_task"];
    [SCHED_EVENTS, &tasks, INTERRUPT_EVENTS].concat()
}

/// What takes time from the thread that runs on a CPU.
pub fn interference_events() -> Vec<&'static str> {
    [&["sched:sched_switch"], INTERRUPT_EVENTS].concat()
}

/// Everything that the signals need.
pub fn all_events() -> Vec<&'static str> {
    let others = ["irq:softirq_raise"];
    [SCHED_EVENTS, BLOCK_EVENTS, MEMORY_EVENTS, INTERRUPT_EVENTS, NETWORK_EVENTS, &others].concat()
}

const INSTANCE_PREFIX: &str = "noised-test-";

/// A running recording.
#[derive(Debug)]
pub struct Recording {
    // Dropped last: every path below leads through this descriptor.
    directory: PathBuf,
    marker: File,
    events: Vec<(String, String)>,
    hidden: BTreeSet<i32>,
    _tracefs: OwnedFd,
}

/// What was recorded, all CPUs merged by time.
#[derive(Debug)]
pub struct Trace {
    /// The events that BPF programs were offered as well, in order of time.
    pub events: Vec<Event>,
    /// The other ones: what happened while a hidden thread ran.
    pub hidden: Vec<Event>,
    /// The shortest time between two neighbouring events of one CPU, nanoseconds: no record of
    /// this trace cost more than that.
    pub shortest_gap_ns: u64,
    /// What of its context switches was recorded, by CPU.
    pub sights: BTreeMap<u32, Sight>,
}

impl Trace {
    /// All events, the hidden ones included, in order of time.
    pub fn all(&self) -> Vec<Event> {
        let mut all: Vec<Event> = self.events.iter().chain(&self.hidden).cloned().collect();
        all.sort_by_key(|event| event.time_ns);
        all
    }

    /// Ends of requests to a device that BPF was not offered.
    pub fn hidden_completions(&self, device: &str) -> u64 {
        let hidden = self.hidden.iter().filter(|event| match &event.kind {
            Kind::Block(block) => {
                block.step == BlockStep::Complete && *device_name(block.device) == *device
            }
            _ => false,
        });
        hidden.count() as u64
    }

    /// The time of the mark with this text.
    pub fn mark_ns(&self, wanted: &str) -> Result<u64> {
        self.events
            .iter()
            .find(|event| matches!(&event.kind, Kind::Mark { text } if &**text == wanted))
            .map(|event| event.time_ns)
            .with_context(|| format!("the trace has no mark {wanted:?}"))
    }
}

/// Mounts tracefs without attaching it anywhere.
fn detached_tracefs() -> io::Result<OwnedFd> {
    fn checked(result: libc::c_long) -> io::Result<i32> {
        match i32::try_from(result) {
            Ok(value) if value >= 0 => Ok(value),
            _ => Err(io::Error::last_os_error()),
        }
    }
    const FSCONFIG_CMD_CREATE: libc::c_uint = 6;
    let null = std::ptr::null::<libc::c_char>();
    // SAFETY: the name is a NUL-terminated constant; the call has no other memory argument.
    let context = checked(unsafe { libc::syscall(libc::SYS_fsopen, c"tracefs".as_ptr(), 0) })?;
    // SAFETY: a descriptor that was just opened and that nothing else owns.
    let context = unsafe { OwnedFd::from_raw_fd(context) };
    // SAFETY: CMD_CREATE takes no key and no value.
    checked(unsafe {
        libc::syscall(libc::SYS_fsconfig, context.as_raw_fd(), FSCONFIG_CMD_CREATE, null, null, 0)
    })?;
    // SAFETY: no memory argument.
    let mount = checked(unsafe { libc::syscall(libc::SYS_fsmount, context.as_raw_fd(), 0, 0) })?;
    // SAFETY: a descriptor that was just opened and that nothing else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(mount) })
}

fn write(path: impl AsRef<Path>, text: &str) -> Result<()> {
    let path = path.as_ref();
    // Not fs::write: tracefs files are never created or truncated.
    OpenOptions::new()
        .write(true)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .with_context(|| format!("writing {text:?} to {}", path.display()))
}

/// Reads in large pieces: the kernel ends `header_page` after the first read, however short, and the
/// standard library begins with a short one where a file has no size.
fn read(path: impl AsRef<Path>) -> Result<String> {
    let path = path.as_ref();
    let mut file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
    let mut text = Vec::new();
    let mut piece = vec![0_u8; 1 << 16];
    loop {
        let count = file.read(&mut piece).with_context(|| format!("reading {}", path.display()))?;
        if count == 0 {
            return Ok(String::from_utf8(text)?);
        }
        text.extend_from_slice(piece.get(..count).unwrap_or_default());
    }
}

impl Recording {
    /// Starts recording `events` (`system:event`, the event may start with `*`) with a buffer of
    /// `buffer_mib` on each CPU.
    ///
    /// Errors: without tracefs, or if this kernel lacks one of the events.
    pub fn start(events: &[&str], buffer_mib: usize) -> Result<Self> {
        Self::start_with(events, buffer_mib, blind::hidden_threads()?)
    }

    fn start_with(events: &[&str], buffer_mib: usize, hidden: BTreeSet<i32>) -> Result<Self> {
        let tracefs =
            detached_tracefs().context("mounting tracefs (needs root and a kernel with ftrace)")?;
        let root = PathBuf::from(format!("/proc/self/fd/{}", tracefs.as_raw_fd()));
        remove_abandoned(&root.join("instances"));
        let directory =
            root.join("instances").join(format!("{INSTANCE_PREFIX}{}", std::process::id()));
        fs::create_dir(&directory).context("creating a trace instance")?;
        let marker = OpenOptions::new().write(true).open(directory.join("trace_marker"));
        let marker = match marker {
            Ok(marker) => marker,
            Err(error) => {
                // A leftover would be no worse than this failure, and the next run removes it.
                let _ = fs::remove_dir(&directory);
                return Err(error).context("opening trace_marker");
            }
        };
        // From here on Drop cleans up.
        let mut recording =
            Self { directory, marker, events: Vec::new(), hidden, _tracefs: tracefs };
        recording.configure(events, buffer_mib)?;
        Ok(recording)
    }

    fn configure(&mut self, events: &[&str], buffer_mib: usize) -> Result<()> {
        write(self.directory.join("tracing_on"), "0")?;
        write(self.directory.join("trace_clock"), "mono")?;
        write(self.directory.join("buffer_size_kb"), &(buffer_mib * 1024).to_string())?;
        for wanted in events {
            let (system, event) = wanted.split_once(':').context("an event without its system")?;
            if let Some(ending) = event.strip_prefix('*') {
                for entry in fs::read_dir(self.directory.join("events").join(system))? {
                    let name = entry?.file_name().to_string_lossy().into_owned();
                    if name.ends_with(ending) {
                        self.events.push((system.to_owned(), name));
                    }
                }
            } else {
                self.events.push((system.to_owned(), event.to_owned()));
            }
        }
        for (system, event) in &self.events {
            let switch = self.directory.join("events").join(system).join(event).join("enable");
            write(switch, "1").with_context(|| format!("enabling {system}:{event}"))?;
        }
        write(self.directory.join("tracing_on"), "1")
    }

    /// Puts a mark with the current time into the trace.
    pub fn mark(&self, text: &str) -> Result<()> {
        // Old kernels read it where they may not wait for its page, and those of the program are not all there.
        let text = text.to_owned();
        (&self.marker).write_all(text.as_bytes()).context("writing to trace_marker")
    }

    /// Stops recording and reads everything back.
    /// Errors: if the kernel lost a single event: a comparison with such a trace would prove nothing.
    pub fn stop(mut self) -> Result<Trace> {
        write(self.directory.join("tracing_on"), "0")?;
        if !self.hidden.is_empty() {
            // A thread that came meanwhile.
            self.hidden.extend(blind::hidden_threads()?);
        }
        let layout = Layout::parse(&read(self.directory.join("events/header_page"))?)?;
        let mut decoders: HashMap<u16, (Decode, Field)> = HashMap::new();
        let print = [("ftrace".to_owned(), "print".to_owned())];
        for (system, event) in self.events.iter().chain(&print) {
            let path = self.directory.join("events").join(system).join(event).join("format");
            let format = Format::parse(&read(path)?)?;
            let decode = event::decoder(system, event, &format)?;
            decoders.insert(format.id, (decode, format.field("common_pid")?));
        }
        let mut events = Vec::new();
        let mut names = Names::default();
        let mut shortest_gap_ns = u64::MAX;
        for entry in fs::read_dir(self.directory.join("per_cpu"))? {
            let entry = entry?;
            let name = entry.file_name();
            let cpu = name.to_string_lossy().trim_start_matches("cpu").parse()?;
            let stats = read(entry.path().join("stats"))?;
            ensure_nothing_lost(&stats)
                .with_context(|| format!("the recording is inconclusive, on CPU {cpu}"))?;
            let first = events.len();
            read_cpu(
                &entry.path().join("trace_pipe_raw"),
                cpu,
                &layout,
                &decoders,
                &mut names,
                &mut events,
            )?;
            let added: &[Event] = events.get(first..).unwrap_or_default();
            for pair in added.windows(2) {
                let [earlier, later] = pair else { continue };
                ensure!(earlier.time_ns <= later.time_ns, "time runs backwards on CPU {cpu}");
                // Equal times are an event and one that interrupted the recording of it.
                if later.time_ns > earlier.time_ns {
                    shortest_gap_ns = shortest_gap_ns.min(later.time_ns - earlier.time_ns);
                }
            }
        }
        // Stable, so events of one CPU with one time keep their order.
        events.sort_by_key(|event| event.time_ns);
        let (hidden, events): (Vec<_>, Vec<_>) =
            events.into_iter().partition(|event| self.hidden.contains(&event.pid));
        let (events, sights) = blind::mend(events, &self.hidden);
        Ok(Trace { events, hidden, shortest_gap_ns, sights })
    }
}

fn read_cpu(
    path: &Path,
    cpu: u32,
    layout: &Layout,
    decoders: &HashMap<u16, (Decode, Field)>,
    names: &mut Names,
    events: &mut Vec<Event>,
) -> Result<()> {
    let mut pipe = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)
        .with_context(|| format!("opening {}", path.display()))?;
    let mut page = vec![0_u8; layout.page_size];
    loop {
        match pipe.read(&mut page) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error).context("reading the ring buffer"),
        }
        pages::walk(&page, layout, |time_ns, record| {
            let id = record.first_chunk::<2>().map(|bytes| u16::from_le_bytes(*bytes));
            let id = id.context("a record without a type")?;
            let Some((decode, pid)) = decoders.get(&id) else {
                bail!("a record of an event that was not enabled: {id}");
            };
            let pid = pid.number(record).and_then(|pid| i32::try_from(pid).ok());
            let (Some(kind), Some(pid)) = (decode(record, names), pid) else {
                bail!("a record of event {id} that cannot be read");
            };
            events.push(Event { time_ns, cpu, pid, kind });
            Ok(())
        })?;
    }
}

fn ensure_nothing_lost(stats: &str) -> Result<()> {
    for line in stats.lines() {
        if let Some((name @ ("overrun" | "commit overrun" | "dropped events"), count)) =
            line.split_once(':')
        {
            ensure!(count.trim() == "0", "ftrace counts {name}:{count}: enlarge the buffer");
        }
    }
    Ok(())
}

/// The names of the trace instances that this process has.
pub fn own_instances() -> Result<Vec<String>> {
    let tracefs = detached_tracefs().context("mounting tracefs")?;
    let own = format!("{INSTANCE_PREFIX}{}", std::process::id());
    let mut found = Vec::new();
    for entry in fs::read_dir(format!("/proc/self/fd/{}/instances", tracefs.as_raw_fd()))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name == own {
            found.push(name);
        }
    }
    Ok(found)
}

/// Removes instances whose process is gone.
fn remove_abandoned(instances: &Path) {
    for entry in fs::read_dir(instances).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.strip_prefix(INSTANCE_PREFIX)) else {
            continue;
        };
        if !Path::new("/proc").join(pid).exists() {
            // Best effort: another run may be removing it as well.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        // Nothing to report to: a failure shows as a leftover instance, which the suite checks.
        let _ = write(self.directory.join("tracing_on"), "0");
        let _ = write(self.directory.join("events/enable"), "0");
        // The kernel refuses while a file of the instance is still open: our own marker is.
        if let Ok(null) = File::open("/dev/null") {
            self.marker = null;
        }
        for _ in 0..50 {
            if fs::remove_dir(&self.directory).is_ok() {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ensure_nothing_lost;

    #[test]
    fn lost_events_are_noticed() {
        assert!(
            ensure_nothing_lost("entries: 9\noverrun: 0\ncommit overrun: 0\ndropped events: 0\n")
                .is_ok()
        );
        assert!(ensure_nothing_lost("entries: 9\noverrun: 2\n").is_err());
        assert!(ensure_nothing_lost("dropped events: 1\n").is_err());
    }
}
