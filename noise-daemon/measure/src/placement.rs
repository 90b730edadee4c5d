//! Where a measuring thread runs, and with what priority; both are given back when it ends.

use std::fmt;
use std::str::FromStr;

use nix::errno::Errno;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::mman::{MlockAllFlags, mlockall, munlockall};
use nix::unistd::Pid;
use noise_text::cpulist::CpuList;

/// Scheduling policy and priority, as rtla takes them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Priority {
    #[default]
    Inherited,
    /// `o:NICE`: SCHED_OTHER.
    Other(i32),
    /// `r:PRIORITY`: SCHED_RR.
    RoundRobin(u32),
    /// `f:PRIORITY`: SCHED_FIFO.
    Fifo(u32),
    /// `d:RUNTIME:PERIOD`: SCHED_DEADLINE, ns.
    Deadline {
        /// What it may run in every period, ns.
        runtime_ns: u64,
        period_ns: u64,
    },
}

impl FromStr for Priority {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || {
            "expected o:NICE (-20 to 19), f:PRIORITY or r:PRIORITY (1 to 99), or d:RUNTIME:PERIOD \
             (d:900us:1ms)"
                .to_owned()
        };
        let (policy, rest) = text.split_once(':').ok_or_else(expected)?;
        let real_time = || match rest.parse() {
            Ok(priority @ 1..=99) => Ok(priority),
            _ => Err(expected()),
        };
        match policy {
            "o" => match rest.parse() {
                Ok(nice @ -20..=19) => Ok(Self::Other(nice)),
                _ => Err(expected()),
            },
            "r" => Ok(Self::RoundRobin(real_time()?)),
            "f" => Ok(Self::Fifo(real_time()?)),
            "d" => {
                let (runtime, period) = rest.split_once(':').ok_or_else(expected)?;
                let nanoseconds = |text: &str| -> Option<u64> {
                    let duration: jiff::SignedDuration = text.parse().ok()?;
                    u64::try_from(duration.as_nanos()).ok()
                };
                let runtime_ns = nanoseconds(runtime).ok_or_else(expected)?;
                let period_ns = nanoseconds(period).ok_or_else(expected)?;
                // The kernel accepts no less than 1024 ns.
                if runtime_ns < 1024 || runtime_ns > period_ns {
                    return Err(expected());
                }
                Ok(Self::Deadline { runtime_ns, period_ns })
            }
            _ => Err(expected()),
        }
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inherited => formatter.write_str("inherited"),
            Self::Other(nice) => write!(formatter, "SCHED_OTHER, nice {nice}"),
            Self::RoundRobin(priority) => write!(formatter, "SCHED_RR {priority}"),
            Self::Fifo(priority) => write!(formatter, "SCHED_FIFO {priority}"),
            Self::Deadline { runtime_ns, period_ns } => {
                write!(formatter, "SCHED_DEADLINE {runtime_ns} of {period_ns} ns")
            }
        }
    }
}

impl Priority {
    /// Gives it to a thread, for good.
    /// Errors: where the kernel refuses it.
    pub fn give(self, thread: u32) -> Result<(), PlacementError> {
        match Attributes::of(self) {
            Some(attributes) => attributes.set(thread).map_err(|reason| refusal(self, reason)),
            None => Ok(()),
        }
    }
}

/// Why a thread cannot be placed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// The kernel does not let it run there.
    #[error("cannot run on CPU {cpu}: {reason}")]
    Affinity { cpu: CpuList, reason: Errno },
    /// The kernel does not give it that priority.
    #[error("cannot take {priority}: {reason}{hint}")]
    Priority {
        /// The priority that was given.
        priority: Priority,
        reason: Errno,
        hint: &'static str,
    },
}

impl PlacementError {
    /// Whether privileges are missing, as opposed to a failure.
    pub const fn is_unsupported(&self) -> bool {
        matches!(self, Self::Priority { reason: Errno::EPERM | Errno::EBUSY, .. })
    }
}

/// The kernel's `struct sched_attr`, in its first version (48 bytes).
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

const ATTRIBUTES_BYTES: u32 = size_of::<Attributes>() as u32;
const _: () = assert!(ATTRIBUTES_BYTES == 48);

impl Attributes {
    /// Those of the calling thread.
    fn own() -> Result<Self, Errno> {
        let mut own = Self::default();
        // SAFETY: the pointer is valid for the size that is passed.
        let result = unsafe {
            libc::syscall(libc::SYS_sched_getattr, 0, &raw mut own, ATTRIBUTES_BYTES, 0u32)
        };
        Errno::result(result).map(|_| own)
    }

    /// Gives them to a thread; 0 is the calling one.
    fn set(&self, thread: u32) -> Result<(), Errno> {
        // SAFETY: the pointer is valid, and the structure holds its size.
        let result = unsafe { libc::syscall(libc::SYS_sched_setattr, thread, self, 0u32) };
        Errno::result(result).map(drop)
    }

    fn is_real_time(&self) -> bool {
        let real_time = [libc::SCHED_FIFO, libc::SCHED_RR, libc::SCHED_DEADLINE];
        real_time.contains(&self.policy.cast_signed())
    }

    fn of(priority: Priority) -> Option<Self> {
        let base = Self { size: ATTRIBUTES_BYTES, ..Self::default() };
        let policy = |policy: i32| policy.cast_unsigned();
        match priority {
            Priority::Inherited => None,
            Priority::Other(nice) => Some(Self { policy: policy(libc::SCHED_OTHER), nice, ..base }),
            Priority::RoundRobin(priority) => {
                Some(Self { policy: policy(libc::SCHED_RR), priority, ..base })
            }
            Priority::Fifo(priority) => {
                Some(Self { policy: policy(libc::SCHED_FIFO), priority, ..base })
            }
            Priority::Deadline { runtime_ns, period_ns } => Some(Self {
                policy: policy(libc::SCHED_DEADLINE),
                runtime: runtime_ns,
                deadline: period_ns,
                period: period_ns,
                ..base
            }),
        }
    }
}

fn set_of(cpus: &CpuList) -> Result<CpuSet, Errno> {
    let mut set = CpuSet::new();
    for cpu in cpus.iter() {
        set.set(cpu as usize)?;
    }
    Ok(set)
}

/// The calling thread on chosen CPUs, with a chosen priority. Dropping it, by the same thread, puts
/// the thread back to where it was.
#[derive(Debug)]
pub struct Placement {
    /// Where it was, if it was moved.
    affinity: Option<CpuSet>,
    attributes: Option<AttributesBefore>,
}

#[derive(Clone, Copy)]
struct AttributesBefore(Attributes);

impl fmt::Debug for AttributesBefore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "policy {}", self.0.policy)
    }
}

impl Placement {
    /// Moves the calling thread to one CPU.
    /// Errors: where the kernel refuses the CPU or the priority; the thread is then as it was.
    pub fn take(cpu: u32, priority: Priority) -> Result<Self, PlacementError> {
        Self::among(&CpuList::from_iter([cpu]), priority)
    }

    /// Moves the calling thread to any of some CPUs.
    /// Errors: those of [`Placement::take`].
    pub fn among(cpus: &CpuList, priority: Priority) -> Result<Self, PlacementError> {
        let refused = |reason| PlacementError::Affinity { cpu: cpus.clone(), reason };
        let affinity = sched_getaffinity(Pid::from_raw(0)).map_err(refused)?;
        let set = set_of(cpus).map_err(refused)?;
        sched_setaffinity(Pid::from_raw(0), &set).map_err(refused)?;
        let mut placement = Self { affinity: Some(affinity), attributes: None };
        if let Some(attributes) = Attributes::of(priority) {
            let change = Attributes::own().and_then(|before| {
                attributes.set(0)?;
                Ok(before)
            });
            let before = change.map_err(|reason| refusal(priority, reason))?;
            placement.attributes = Some(AttributesBefore(before));
        }
        Ok(placement)
    }

    /// Leaves the calling thread on its CPUs, with a chosen priority. `None` where the kernel refuses it, or the thread has
    /// a real-time priority already.
    pub fn ahead(priority: Priority) -> Option<Self> {
        let before = Attributes::own().ok().filter(|own| !own.is_real_time())?;
        Attributes::of(priority)?.set(0).ok()?;
        Some(Self { affinity: None, attributes: Some(AttributesBefore(before)) })
    }
}

fn refusal(priority: Priority, reason: Errno) -> PlacementError {
    let hint = match (priority, reason) {
        (Priority::Deadline { .. }, Errno::EPERM | Errno::EBUSY) => {
            "; the kernel lets a deadline thread stay on one CPU only in an exclusive cpuset, or \
             without admission control (sysctl kernel.sched_rt_runtime_us=-1)"
        }
        (_, Errno::EPERM) => {
            "; this needs CAP_SYS_NICE or a high enough RLIMIT_RTPRIO, and a cgroup that may run \
             real-time threads"
        }
        _ => "",
    };
    PlacementError::Priority { priority, reason, hint }
}

impl Drop for Placement {
    fn drop(&mut self) {
        // An error has nowhere to go; the thread ends soon after.
        if let Some(AttributesBefore(before)) = self.attributes {
            let _ = Attributes { size: ATTRIBUTES_BYTES, ..before }.set(0);
        }
        if let Some(affinity) = &self.affinity {
            let _ = sched_setaffinity(Pid::from_raw(0), affinity);
        }
    }
}

/// All memory of this process kept in RAM, until this is dropped: no page is missing while it measures.
#[derive(Debug)]
pub struct LockedMemory(());

impl LockedMemory {
    /// Locks what there is and what comes. `None` where the kernel does not allow it: page faults
    /// are then seen, and reported as such.
    pub fn take() -> Option<Self> {
        mlockall(MlockAllFlags::MCL_CURRENT | MlockAllFlags::MCL_FUTURE).ok().map(|()| Self(()))
    }
}

impl Drop for LockedMemory {
    fn drop(&mut self) {
        let _ = munlockall();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpus;

    #[test]
    fn priorities_are_written_as_rtla_takes_them() {
        assert_eq!("f:95".parse(), Ok(Priority::Fifo(95)));
        assert_eq!("r:1".parse(), Ok(Priority::RoundRobin(1)));
        assert_eq!("o:-5".parse(), Ok(Priority::Other(-5)));
        let deadline = Priority::Deadline { runtime_ns: 900_000, period_ns: 1_000_000 };
        assert_eq!("d:900us:1ms".parse(), Ok(deadline));
        for wrong in ["", "f", "f:0", "f:100", "x:1", "o:20", "d:2ms:1ms", "d:1ms", "d:1us:1ms"] {
            assert!(wrong.parse::<Priority>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_thread_is_put_back() {
        std::thread::spawn(|| {
            let before = cpus::allowed().unwrap();
            let first = before.iter().next().unwrap();
            let placement = Placement::take(first, Priority::Inherited).unwrap();
            assert_eq!(cpus::allowed().unwrap(), CpuList::from_iter([first]));
            drop(placement);
            assert_eq!(cpus::allowed().unwrap(), before);
            let policy = Attributes::own().unwrap().policy;
            // Without the privilege there is nothing to put back.
            drop(Placement::take(first, Priority::Fifo(1)));
            assert_eq!(Attributes::own().unwrap().policy, policy);
            assert_eq!(cpus::allowed().unwrap(), before);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_thread_that_is_put_ahead_stays_on_its_cpus() {
        std::thread::spawn(|| {
            let (before, cpus) = (Attributes::own().unwrap(), cpus::allowed().unwrap());
            // Without the privilege it stays as it is.
            if let Some(placement) = Placement::ahead(Priority::RoundRobin(1)) {
                let own = Attributes::own().unwrap();
                assert_eq!((own.policy.cast_signed(), own.priority), (libc::SCHED_RR, 1));
                assert!(Placement::ahead(Priority::Other(-20)).is_none(), "that is less");
                drop(placement);
            }
            if let Some(placement) = Placement::ahead(Priority::Other(before.nice - 1)) {
                assert_eq!(Attributes::own().unwrap().nice, before.nice - 1);
                drop(placement);
            }
            let after = Attributes::own().unwrap();
            assert_eq!((after.policy, after.nice), (before.policy, before.nice));
            assert_eq!(cpus::allowed().unwrap(), cpus);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_cpu_that_does_not_exist_is_refused() {
        std::thread::spawn(|| {
            let before = cpus::allowed().unwrap();
            let error = Placement::take(1023, Priority::Inherited).unwrap_err();
            assert!(error.to_string().starts_with("cannot run on CPU 1023: "), "{error}");
            assert_eq!(cpus::allowed().unwrap(), before);
        })
        .join()
        .unwrap();
    }
}
