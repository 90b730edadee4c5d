//! Cgroups of which now these and now those work: names that go and come back.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::churn::{fork, reap};
use super::{Arguments, Session, report};
use crate::group;
use crate::task::settle;

/// Processes that run at a time.
const AT_ONCE: usize = 4;
/// Processes after which one cgroup is removed and another one made.
const PER_CHANGE: u64 = 6;
/// Where datagrams go: a port without a listener.
const DISCARD: u16 = 9;

/// Numbers that look random and are the same every time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % most.max(1)
    }
}

/// A cgroup of one name in each hierarchy that it is wanted in, gone when dropped.
struct Stay {
    directories: Vec<PathBuf>,
    doors: Vec<File>,
}

impl Stay {
    fn new(parents: &[PathBuf], name: &str) -> Result<Self> {
        let mut stay = Self { directories: Vec::new(), doors: Vec::new() };
        for directory in parents.iter().map(|parent| parent.join(name)) {
            fs::create_dir(&directory)
                .with_context(|| format!("creating {}", directory.display()))?;
            let door = OpenOptions::new().write(true).open(directory.join("cgroup.procs"));
            stay.directories.push(directory);
            stay.doors.push(door?);
        }
        Ok(stay)
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        for directory in &self.directories {
            // What is left is found by the look at the surroundings.
            let _ = group::remove(directory);
        }
    }
}

/// `group-tides <cpu, or any> <directories, with colons between> <names> <at a time> <seed>`: so many
/// names of cgroups, of which some exist at a time; processes in them compute, send datagrams and end,
/// one cgroup far more than another at one time, and the other way round later.
pub(super) fn group_tides(arguments: &mut Arguments) -> Result<()> {
    settle(&arguments.text()?)?;
    let parents: Vec<PathBuf> =
        arguments.text()?.split(':').map(|parent| Path::new(parent).to_owned()).collect();
    let names: u64 = arguments.number()?;
    let at_a_time: usize = arguments.number()?;
    let seed: u64 = arguments.number()?;
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let session = Session::begin()?;
    let (mut stays, mut ever) = (BTreeMap::new(), BTreeSet::new());
    let (mut processes, mut made) = (0_u64, 0_u64);
    while session.going_after(processes) {
        while stays.len() < at_a_time {
            let name = dice.below(names);
            if let std::collections::btree_map::Entry::Vacant(free) = stays.entry(name) {
                free.insert(Stay::new(&parents, &format!("tide-{seed}-{name}"))?);
                ever.insert(name);
                made += 1;
            }
        }
        let mut children = Vec::with_capacity(AT_ONCE);
        for _ in 0..AT_ONCE {
            let place = dice.below(stays.len() as u64) as usize;
            let Some(stay) = stays.values().nth(place) else { continue };
            // Few work much, and who does changes.
            let work = Duration::from_micros(20 << dice.below(11));
            children.push(fork(|| use_stay(&stay.doors, work))?);
        }
        processes += children.len() as u64;
        children.into_iter().try_for_each(reap)?;
        if processes % PER_CHANGE < AT_ONCE as u64 {
            let place = dice.below(stays.len() as u64) as usize;
            let out = stays.keys().nth(place).copied();
            out.and_then(|out| stays.remove(&out));
        }
    }
    drop(stays);
    report(&format!("processes {processes}"))?;
    report(&format!("made {made}"))?;
    report(&format!("names {}", ever.len()))
}

/// What a process of a cgroup does: nothing that is unsafe behind a fork.
fn use_stay(mut doors: &[File], work: Duration) {
    while let Some((mut door, others)) = doors.split_first() {
        let _ = door.write_all(b"0");
        doors = others;
    }
    // SAFETY: no memory argument.
    let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM, 0) };
    // SAFETY: the descriptor is ours and open, if there is one.
    let socket = (socket >= 0).then(|| unsafe { OwnedFd::from_raw_fd(socket) });
    let address = libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: DISCARD.to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes([127, 0, 0, 1]) },
        sin_zero: [0; 8],
    };
    let began = now_ns();
    while now_ns() - began < work.as_nanos() {
        let Some(socket) = &socket else { continue };
        // SAFETY: the message and the address live for the call.
        unsafe {
            libc::sendto(
                socket.as_raw_fd(),
                (&raw const address).cast(),
                size_of_val(&address),
                libc::MSG_DONTWAIT,
                (&raw const address).cast(),
                size_of_val(&address) as libc::socklen_t,
            )
        };
    }
}

/// The time on a clock that only runs forward.
fn now_ns() -> u128 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes the time that it is given.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as u128 * 1_000_000_000 + now.tv_nsec as u128
}
