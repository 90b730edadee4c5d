//! A program that communicates with itself in every way that is recorded (`talk.py`), what it knows of that, and the calls
//! of a recording.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::ftrace::Trace;
use crate::ftrace::event::Kind;
use crate::recorded::{lines, number, signed, text};

const PROGRAM: &str = include_str!("talk.py");
/// Files of communication have descriptors from here on in the program, and no other files have.
const FIRST_DESCRIPTOR: u64 = 100;

/// Runs it; what it says of itself.
/// Errors: if it fails.
pub fn talk() -> Result<Value> {
    let output = Command::new("/usr/bin/python3").args(["-c", PROGRAM]).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "it ends with {}: {said}", output.status);
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// The begin or the end of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// When, ns.
    pub time_ns: u64,
    /// The thread.
    pub tid: u64,
    /// The call's name.
    pub name: String,
    /// What it returned; `None` of a begin.
    pub ret: Option<i64>,
    /// Its descriptor, where it has one and this is its begin.
    pub fd: Option<i64>,
    /// Kind and number of what it is about, what is known beside, and the position.
    pub object: (String, u64, u64, u64),
    /// What it received stays.
    pub peeks: bool,
}

impl Call {
    /// The number of its object, where it is of a kind.
    pub fn of(&self, kind: &str) -> Option<u64> {
        (self.object.0 == kind).then_some(self.object.1)
    }
}

/// The calls of a recording, and its other events.
/// Errors: if it cannot be read.
pub fn calls(folder: &Path) -> Result<(Vec<Call>, Vec<Value>)> {
    let (mut calls, mut others) = (Vec::new(), Vec::new());
    for event in lines(folder)? {
        let name = text(&event, "name")?;
        let begin = name.strip_prefix("syscall_entry_");
        let Some(call) = begin.or_else(|| name.strip_prefix("syscall_exit_")) else {
            others.push(event);
            continue;
        };
        let fields = event.get("fields").context("no fields")?;
        let is_begin = begin.is_some();
        let position = if is_begin { 0 } else { number(fields, "noised_position")? };
        calls.push(Call {
            time_ns: number(&event, "time_ns")?,
            tid: number(fields, "noised_tid")?,
            name: call.to_owned(),
            ret: (!is_begin).then(|| signed(fields, "ret")).transpose()?,
            fd: fields.get("fd").and_then(Value::as_i64),
            object: (
                text(fields, "noised_object")?.to_owned(),
                number(fields, "noised_id")?,
                number(fields, "noised_peer")?,
                position,
            ),
            peeks: !is_begin && number(fields, "noised_peek")? != 0,
        });
    }
    Ok((calls, others))
}

/// Calls by their numbers, with LTTng's names, and whether they are events only where their file is one of communication.
const CALLS: &[(i64, &str, bool)] = &[
    (libc::SYS_read, "read", true),
    (libc::SYS_write, "write", true),
    (libc::SYS_close, "close", true),
    (libc::SYS_readv, "readv", true),
    (libc::SYS_writev, "writev", true),
    (libc::SYS_sendfile, "sendfile64", true),
    (libc::SYS_splice, "splice", true),
    (libc::SYS_tee, "tee", true),
    (libc::SYS_vmsplice, "vmsplice", true),
    (libc::SYS_preadv2, "preadv2", true),
    (libc::SYS_pwritev2, "pwritev2", true),
    (libc::SYS_fcntl, "fcntl", false),
    (libc::SYS_flock, "flock", false),
    (libc::SYS_poll, "poll", false),
    (libc::SYS_pipe, "pipe", false),
    (libc::SYS_select, "select", false),
    (libc::SYS_pause, "pause", false),
    (libc::SYS_socket, "socket", false),
    (libc::SYS_connect, "connect", false),
    (libc::SYS_accept, "accept", false),
    (libc::SYS_sendto, "sendto", false),
    (libc::SYS_recvfrom, "recvfrom", false),
    (libc::SYS_sendmsg, "sendmsg", false),
    (libc::SYS_recvmsg, "recvmsg", false),
    (libc::SYS_shutdown, "shutdown", false),
    (libc::SYS_bind, "bind", false),
    (libc::SYS_listen, "listen", false),
    (libc::SYS_socketpair, "socketpair", false),
    (libc::SYS_clone, "clone", false),
    (libc::SYS_fork, "fork", false),
    (libc::SYS_vfork, "vfork", false),
    (libc::SYS_exit, "exit", false),
    (libc::SYS_wait4, "wait4", false),
    (libc::SYS_kill, "kill", false),
    (libc::SYS_semop, "semop", false),
    (libc::SYS_msgsnd, "msgsnd", false),
    (libc::SYS_msgrcv, "msgrcv", false),
    (libc::SYS_rt_sigtimedwait, "rt_sigtimedwait", false),
    (libc::SYS_rt_sigqueueinfo, "rt_sigqueueinfo", false),
    (libc::SYS_rt_sigsuspend, "rt_sigsuspend", false),
    (libc::SYS_tkill, "tkill", false),
    (libc::SYS_futex, "futex", false),
    (libc::SYS_restart_syscall, "restart_syscall", false),
    (libc::SYS_semtimedop, "semtimedop", false),
    (libc::SYS_exit_group, "exit_group", false),
    (libc::SYS_epoll_wait, "epoll_wait", false),
    (libc::SYS_epoll_ctl, "epoll_ctl", false),
    (libc::SYS_tgkill, "tgkill", false),
    (libc::SYS_mq_timedsend, "mq_timedsend", false),
    (libc::SYS_mq_timedreceive, "mq_timedreceive", false),
    (libc::SYS_waitid, "waitid", false),
    (libc::SYS_pselect6, "pselect6", false),
    (libc::SYS_ppoll, "ppoll", false),
    (libc::SYS_epoll_pwait, "epoll_pwait", false),
    (libc::SYS_eventfd, "eventfd", false),
    (libc::SYS_accept4, "accept4", false),
    (libc::SYS_eventfd2, "eventfd2", false),
    (libc::SYS_pipe2, "pipe2", false),
    (libc::SYS_rt_tgsigqueueinfo, "rt_tgsigqueueinfo", false),
    (libc::SYS_recvmmsg, "recvmmsg", false),
    (libc::SYS_sendmmsg, "sendmmsg", false),
    (libc::SYS_pidfd_send_signal, "pidfd_send_signal", false),
    (libc::SYS_io_uring_enter, "io_uring_enter", false),
    (libc::SYS_clone3, "clone3", false),
    (libc::SYS_epoll_pwait2, "epoll_pwait2", false),
    (libc::SYS_futex_waitv, "futex_waitv", false),
];

/// A begin or an end of a call in ftrace.
#[derive(Clone, Copy, Debug)]
struct Step {
    name: &'static str,
    /// Whether it may be no event, by its file.
    depends: bool,
    /// The first argument of a begin.
    first: Option<u64>,
    /// What an end returns.
    ret: Option<i64>,
}

impl Step {
    /// Whether a recording must have it: the calls about files are events only where the file is one of communication,
    /// as all are with such descriptors.
    fn is_required(&self) -> bool {
        !self.depends || self.first.is_some_and(|fd| fd >= FIRST_DESCRIPTOR)
    }

    fn is(&self, call: &Call) -> bool {
        let fd = self.first.and_then(|first| i64::try_from(first & 0xffff_ffff).ok());
        self.name == call.name
            && self.ret == call.ret
            && (call.fd.is_none() || self.first.is_none() || call.fd == fd)
    }
}

/// The steps of each thread in ftrace.
fn steps_of(trace: &Trace, tids: &BTreeSet<u64>) -> BTreeMap<u64, Vec<Step>> {
    let mut steps: BTreeMap<u64, Vec<Step>> = BTreeMap::new();
    for event in trace.all() {
        let Some(tid) = u64::try_from(event.pid).ok().filter(|tid| tids.contains(tid)) else {
            continue;
        };
        let (number, first, ret) = match event.kind {
            Kind::CallEntry { number, first } => (number, Some(first), None),
            Kind::CallExit { number, ret } => (number, None, Some(ret)),
            _ => continue,
        };
        if let Some((_, name, depends)) = CALLS.iter().find(|(of, ..)| *of == number) {
            steps.entry(tid).or_default().push(Step { name, depends: *depends, first, ret });
        }
    }
    steps
}

/// Requires that a recording has all calls of these threads that ftrace has, with the same results, in the same order, and
/// no others. How many begins and ends that were.
/// Errors: which is missing, or was not made.
pub fn ensure_same(trace: &Trace, calls: &[Call], tids: &BTreeSet<u64>) -> Result<usize> {
    let mut all = 0;
    for (tid, steps) in steps_of(trace, tids) {
        let mut own = calls.iter().filter(|call| call.tid == tid).peekable();
        // Whether the begin of the call that ends next must be there, and is.
        let (mut is_required, mut is_there) = (true, true);
        for (place, step) in steps.iter().enumerate() {
            let is_begin = step.first.is_some();
            if is_begin {
                is_required = step.is_required();
            }
            // The end of a call is there if its begin is.
            let found = own.next_if(|call| step.is(call) && (is_begin || is_there));
            ensure!(
                found.is_some() || !(if is_begin { is_required } else { is_there }),
                "of thread {tid}, step {place} ({step:?}) is missing; next is {:?}",
                own.peek()
            );
            is_there = found.is_some();
            all += usize::from(is_there);
        }
        ensure!(own.peek().is_none(), "thread {tid} did not make {:?}", own.peek());
    }
    Ok(all)
}
