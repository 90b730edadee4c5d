//! Network namespaces joined by a pair of virtual interfaces, gone when dropped.

use std::collections::BTreeSet;
use std::ffi::{CStr, OsStr};
use std::fs::{self, File};
use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::{self, Command};
use std::sync::OnceLock;
use std::thread;

use anyhow::{Context as _, Result, ensure};

use crate::daemon::run;

/// Runs a command that configures something.
/// Errors: if it fails, with what it says.
pub fn configure(command: &str, arguments: &[&str]) -> Result<()> {
    let mut full = Command::new(command);
    full.args(arguments);
    let outcome = run(full)?;
    ensure!(outcome.code == 0, "{command} {arguments:?}: {}", outcome.stderr);
    Ok(())
}

/// Names of this network namespace's interfaces.
pub fn interfaces() -> Result<BTreeSet<String>> {
    let all = fs::read_dir("/sys/class/net").context("listing /sys/class/net")?;
    all.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}

/// A network namespace with its loopback up.
#[derive(Debug)]
pub struct Namespace {
    /// The name by which `ip` knows it.
    pub name: String,
}

impl Namespace {
    /// Makes one.
    /// Errors: without `ip`, or where this host forbids making namespaces.
    pub fn new(name: &str) -> Result<Self> {
        if FOUND.get().is_none() {
            let _ = FOUND.set(find_folder().context("looking for namespaces")?);
        }
        let namespace = Self { name: format!("noised-test-{}-{name}", process::id()) };
        configure("ip", &["netns", "add", &namespace.name])?;
        namespace.ip(&["link", "set", "lo", "up"])?;
        Ok(namespace)
    }

    /// Runs `ip` inside.
    pub fn ip(&self, arguments: &[&str]) -> Result<()> {
        configure("ip", &[&["-n", &self.name], arguments].concat())
    }

    /// Runs `tc` inside.
    pub fn tc(&self, arguments: &[&str]) -> Result<()> {
        configure("tc", &[&["-n", &self.name], arguments].concat())
    }

    /// Has what arrives at an interface of it received by softirqs of one of the first CPUs.
    pub fn receive_on(&self, interface: &str, cpu: usize) -> Result<()> {
        let steering = format!("/sys/class/net/{interface}/queues/rx-0/rps_cpus");
        let write = format!("echo {:x} > {steering}", 1_u32 << cpu);
        configure("ip", &["netns", "exec", &self.name, "sh", "-c", &write])
    }

    /// The file by which a process enters it.
    pub(crate) fn door(&self) -> Result<File> {
        let path = names().join(&self.name);
        File::open(&path).with_context(|| format!("opening {}", path.display()))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // Its interfaces go with it. A failure shows as a leftover mount.
        let _ = configure("ip", &["netns", "delete", &self.name]);
        leave_folder();
    }
}

/// Does something in the network of a process, with a thread of its own for that.
/// Errors: if there is no such process, and those of the work.
pub fn in_network_of<T: Send>(pid: u32, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let door = door_of(pid, "net")?;
    let inside = || {
        change(&door, libc::CLONE_NEWNET)?;
        work()
    };
    let ended = thread::scope(|scope| scope.spawn(inside).join());
    ended.map_err(|_| anyhow::anyhow!("the work in another network panicked"))?
}

/// Does something of which the processes that it starts are those of another process's namespace.
/// Errors: if there is no such process, and those of the work.
pub fn in_processes_of<T>(pid: u32, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let own = door_of(process::id(), "pid")?;
    change(&door_of(pid, "pid")?, libc::CLONE_NEWPID)?;
    let done = work();
    change(&own, libc::CLONE_NEWPID)?;
    done
}

/// The file by which one enters a namespace of a process.
fn door_of(pid: u32, kind: &str) -> Result<File> {
    let path = format!("/proc/{pid}/ns/{kind}");
    File::open(&path).with_context(|| format!("opening {path}"))
}

/// Goes there, with this thread only.
fn change(door: &File, kind: libc::c_int) -> Result<()> {
    // SAFETY: no memory argument.
    let entered = unsafe { libc::setns(door.as_raw_fd(), kind) };
    ensure!(entered == 0, "setns: {}", io::Error::last_os_error());
    Ok(())
}

/// The folder of the names of namespaces.
const NAMES: &CStr = c"/run/netns";

/// What there was of it before this process made its first namespace.
static FOUND: OnceLock<Found> = OnceLock::new();

#[derive(Clone, Copy, Debug)]
enum Found {
    Nothing,
    Folder,
    Mount,
}

/// The path of [`NAMES`].
fn names() -> &'static Path {
    Path::new(OsStr::from_bytes(NAMES.to_bytes()))
}

fn find_folder() -> Result<Found> {
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    let mut places = mounts.lines().filter_map(|line| line.split(' ').nth(1));
    Ok(match names().try_exists()? {
        _ if places.any(|place| Path::new(place) == names()) => Found::Mount,
        true => Found::Folder,
        false => Found::Nothing,
    })
}

/// `ip` mounts the folder with the first namespace, and leaves it so. It stays where somebody has
/// one there.
fn leave_folder() {
    let is_empty = fs::read_dir(names()).is_ok_and(|mut left| left.next().is_none());
    let found = FOUND.get().copied().unwrap_or(Found::Mount);
    if !is_empty || matches!(found, Found::Mount) {
        return;
    }
    // SAFETY: the path ends with a NUL and outlives the call.
    let result = unsafe { libc::umount2(NAMES.as_ptr(), libc::UMOUNT_NOFOLLOW) };
    if result == 0 && matches!(found, Found::Nothing) {
        // An empty folder is no harm.
        let _ = fs::remove_dir(names());
    }
}

/// A cable between two namespaces.
#[derive(Debug)]
pub struct Cable {
    /// Where `192.0.2.1` is; its interface is [`INTERFACE`].
    pub near: Namespace,
    /// Where `192.0.2.2` is.
    pub far: Namespace,
}

/// The name of the interface at both ends of a cable.
pub const INTERFACE: &str = "wire";
/// The address at its near end, of a net that is set aside for examples.
pub const NEAR: &str = "192.0.2.1";
/// The address at its far end.
pub const FAR: &str = "192.0.2.2";

impl Cable {
    /// Lays one between two new namespaces.
    pub fn new() -> Result<Self> {
        let cable = Self { near: Namespace::new("near")?, far: Namespace::new("far")? };
        let peer = ["peer", "name", INTERFACE, "netns", &cable.far.name];
        cable.near.ip(&[&["link", "add", INTERFACE, "type", "veth"], &peer[..]].concat())?;
        for (namespace, address) in [(&cable.near, NEAR), (&cable.far, FAR)] {
            namespace.ip(&["address", "add", &format!("{address}/30"), "dev", INTERFACE])?;
            namespace.ip(&["link", "set", INTERFACE, "up"])?;
        }
        Ok(cable)
    }
}

/// `struct ethtool_value` of Linux's `uapi/linux/ethtool.h`.
#[repr(C)]
struct EthtoolValue {
    command: u32,
    value: u32,
}

/// Join received packets.
const ETHTOOL_SGRO: u32 = 0x2c;
/// Leave the cutting of TCP data to the interface.
const ETHTOOL_STSO: u32 = 0x1f;
const SIOCETHTOOL: libc::Ioctl = 0x8946;

/// Switches a feature of an interface of our own namespace.
fn switch(interface: &str, command: u32, on: bool) -> Result<()> {
    let mut value = EthtoolValue { command, value: u32::from(on) };
    // SAFETY: an all-zero request is valid, and its name stays terminated by what is not filled.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    ensure!(interface.len() < request.ifr_name.len(), "{interface} is too long for an interface");
    for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes()) {
        *to = libc::c_char::from_ne_bytes([from]);
    }
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    // SAFETY: request and value outlive the call.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) };
    ensure!(result == 0, "SIOCETHTOOL {command:#x}: {}", io::Error::last_os_error());
    Ok(())
}

/// A pair of virtual interfaces in our own namespace, without addresses, removed when dropped.
#[derive(Debug)]
pub struct VethPair {
    /// One end.
    pub near: String,
    /// The other.
    pub far: String,
}

impl VethPair {
    /// Makes one.
    pub fn new() -> Result<Self> {
        Self::make(["a", "b"], &[])
    }

    /// Makes a further one, whose near end has this number.
    pub fn numbered(index: u32, ends: [&str; 2]) -> Result<Self> {
        Self::make(ends, &["index", &index.to_string()])
    }

    fn make(ends: [&str; 2], options: &[&str]) -> Result<Self> {
        // An interface's name has 15 characters at most.
        let [near, far] = ends.map(|end| format!("ntest{}{end}", process::id()));
        let pair = Self { near, far };
        let kind = ["type", "veth", "peer", "name", &pair.far];
        configure("ip", &[&["link", "add", &pair.near], options, &kind].concat())?;
        for end in [&pair.near, &pair.far] {
            configure("ip", &["link", "set", end, "up"])?;
        }
        Ok(pair)
    }

    /// Has what arrives at the far end received by softirqs of one of the first CPUs.
    pub fn receive_on(&self, cpu: usize) -> Result<()> {
        let steering = format!("/sys/class/net/{}/queues/rx-0/rps_cpus", self.far);
        fs::write(&steering, format!("{:x}", 1_u32 << cpu))
            .with_context(|| format!("writing {steering}"))
    }

    /// Has what arrives at the far end received by a kernel thread instead of a softirq.
    pub fn receive_in_a_thread(&self) -> Result<()> {
        // What polls a queue is a thread, and this kind of interface has a queue only where it joins
        // packets and the other end does not send what is joined already.
        switch(&self.far, ETHTOOL_SGRO, true)?;
        switch(&self.near, ETHTOOL_STSO, false)?;
        let switch = format!("/sys/class/net/{}/threaded", self.far);
        fs::write(&switch, "1").with_context(|| format!("writing {switch}"))
    }
}

impl Drop for VethPair {
    fn drop(&mut self) {
        // The far end and the queue go with it. A failure shows as a leftover interface.
        let _ = configure("ip", &["link", "delete", &self.near]);
    }
}
