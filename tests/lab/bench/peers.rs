//! Other tools' programs, measured as they are.
//!
//! A tool is started; once its programs are loaded, descriptors are taken of them, and it is
//! killed: what it attached is gone, its programs and maps stay. So they can be attached in turns
//! like any others. Its user-space part, which does nothing until it prints, is not measured.

use std::ffi::CString;
use std::fs;
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;
use std::process::Command;
use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use super::FOUR_TOOLS;
use super::probes::{Probe, ProbeSet, Way, event_id};
use crate::bpf;
use crate::daemon::Process;

/// The same four signals for bpftrace.
const SCRIPT: &str = include_str!("four_signals.bt");

/// Tracepoints of the script, with their categories.
const SCRIPT_EVENTS: [(&str, &str); 9] = [
    ("sched", "sched_wakeup"),
    ("sched", "sched_wakeup_new"),
    ("sched", "sched_switch"),
    ("block", "block_rq_issue"),
    ("block", "block_rq_complete"),
    ("irq", "irq_handler_entry"),
    ("irq", "irq_handler_exit"),
    ("irq", "softirq_entry"),
    ("irq", "softirq_exit"),
];

/// `BPF_PROG_TYPE_TRACING`.
const TRACING: u32 = 26;

/// Longer than any of them takes to load on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The four tools of libbpf-tools together.
/// Errors: if one is not installed or does not start.
pub fn four_tools() -> Result<ProbeSet> {
    let mut probes = Vec::new();
    for tool in FOUR_TOOLS {
        let path =
            find(tool).with_context(|| format!("{tool} of libbpf-tools is not installed"))?;
        let process = Process::start(Command::new(path))?;
        let taken = take(process, linked).with_context(|| format!("starting {tool}"))?;
        probes.extend(taken.into_iter().map(Rc::new));
    }
    Ok(ProbeSet::new("libbpf_tools".to_owned(), probes))
}

/// A bpftrace script of the same signals, on classic tracepoints as such scripts are written.
/// Errors: if bpftrace is not installed or does not start.
pub fn bpftrace() -> Result<ProbeSet> {
    let path = find("bpftrace").context("bpftrace is not installed")?;
    let mut command = Command::new(path);
    command.args(["-e", SCRIPT]);
    let taken = take(Process::start(command)?, scripted).context("starting bpftrace")?;
    Ok(ProbeSet::new("bpftrace".to_owned(), taken.into_iter().map(Rc::new).collect()))
}

/// A program on PATH, or where administrators' tools are.
fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders.map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// Waits until a process has attached its programs, takes them, and ends it.
fn take(mut process: Process, read: fn(u32) -> Result<Vec<Probe>>) -> Result<Vec<Probe>> {
    let deadline = Instant::now() + TIMEOUT;
    let mut before = 0;
    loop {
        thread::sleep(Duration::from_millis(500));
        if let Some(status) = process.ended()? {
            bail!("it ended with {status}: {}", process.stderr()?.trim());
        }
        let probes = read(process.pid())?;
        // They attach one by one; complete when half a second brings no more.
        if !probes.is_empty() && probes.len() == before {
            return Ok(probes);
        }
        before = probes.len();
        ensure!(Instant::now() < deadline, "it attaches nothing");
    }
}

/// The programs that a process has attached by links to raw tracepoints.
fn linked(pid: u32) -> Result<Vec<Probe>> {
    let mut probes = Vec::new();
    for entry in fs::read_dir(format!("/proc/{pid}/fdinfo"))? {
        let Ok(text) = fs::read_to_string(entry?.path()) else { continue };
        let field = |name: &str| -> Option<String> {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            Some(line.trim().to_owned())
        };
        if field("link_type:").is_none_or(|kind| kind != "raw_tracepoint") {
            continue;
        }
        let (Some(id), Some(hook)) = (field("prog_id:"), field("tp_name:")) else { continue };
        let id = id.parse()?;
        let Some(program) = bpf::open_program(id)? else { continue };
        // Opening it without a name works for typed programs only; which it is, its own type says.
        let own = fs::read_to_string(format!("/proc/self/fdinfo/{}", program.as_raw_fd()))?;
        let way = if own.lines().any(|line| line == format!("prog_type:\t{TRACING}")) {
            Way::Typed
        } else {
            Way::Raw(CString::new(hook.as_str())?)
        };
        probes.push(Probe { hook, way, id, program });
    }
    Ok(probes)
}

/// The programs of the script: they are named after their tracepoints.
fn scripted(pid: u32) -> Result<Vec<Probe>> {
    let mut probes = Vec::new();
    for (id, loaded) in bpf::programs_of(pid)? {
        let found = SCRIPT_EVENTS.iter().find(|(_, name)| {
            loaded.name == *name || (loaded.name.len() == 15 && name.starts_with(&loaded.name))
        });
        let Some((category, name)) = found else { continue };
        let Some(program) = bpf::open_program(id)? else { continue };
        let way = Way::Event(event_id(category, name)?);
        probes.push(Probe { hook: (*name).to_owned(), way, id, program });
    }
    // Descriptors of programs appear before they are attached; that is all that is needed here.
    Ok(if probes.len() == SCRIPT_EVENTS.len() { probes } else { Vec::new() })
}
