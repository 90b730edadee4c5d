//! Who is charged with delays: keys, and the table that each CPU adds charges up in.
//!
//! Every CPU has a small table in memory that the daemon reads. An entry belongs to the first key
//! that takes it; what finds no entry goes to a per-CPU hash, and what finds no room there is added
//! up by cause alone, so that charges always sum to the delays.

use crate::subject::{Of, SubjectKind};

macro_rules! define_resources {
    ($($(#[doc = $doc:literal])* $variant:ident {
        name: $name:literal, of: $of:expr, place: $place:expr, timed: $timed:literal
    })*) => {
        /// What a victim had to wait for, or what was taken from it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        #[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
        #[repr(u8)]
        pub enum Resource {
            $($(#[doc = $doc])* $variant,)*
        }

        /// All resources, in order of their discriminants.
        pub const RESOURCES: [Resource; [$($name),*].len()] = [$(Resource::$variant),*];

        impl Resource {
            /// Value of the label `resource`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// What the cgroups of victims and culprits are those of.
            pub const fn of(self) -> Of {
                match self {
                    $(Self::$variant => $of,)*
                }
            }

            /// The subjects at whose place it is waited for: a device's requests, interfaces; none for CPUs.
            pub const fn place(self) -> Option<SubjectKind> {
                match self {
                    $(Self::$variant => $place,)*
                }
            }

            /// Whether what is charged is time, and not only counted.
            pub const fn is_timed(self) -> bool {
                match self {
                    $(Self::$variant => $timed,)*
                }
            }
        }
    };
}

define_resources! {
    /// Its turn on a CPU (`runqueue_wait`).
    Cpu { name: "cpu", of: Of::Task, place: None, timed: true }
    /// A CPU that it had, while interrupts or the hypervisor took it.
    Running { name: "running", of: Of::Task, place: None, timed: true }
    /// Its turn in a block device's queue.
    BlockQueue { name: "block_queue", of: Of::Request, place: Some(SubjectKind::Request), timed: true }
    BlockDevice { name: "block_device", of: Of::Request, place: Some(SubjectKind::Request), timed: true }
    /// Its turn in an interface's queue.
    NetTx { name: "net_tx", of: Of::Socket, place: Some(SubjectKind::Interface), timed: true }
    /// The delivery of what it receives.
    NetRx { name: "net_rx", of: Of::Task, place: Some(SubjectKind::Interface), timed: true }
    /// A CPU that it had and could have used on; counted, not timed.
    Preemption { name: "preemption", of: Of::Task, place: None, timed: false }
    /// The end of an uninterruptible sleep.
    Uninterruptible { name: "uninterruptible", of: Of::Task, place: None, timed: true }
}

impl Resource {
    /// The resource of a number that came from the kernel side.
    pub fn from_number(number: u8) -> Option<Self> {
        RESOURCES.get(usize::from(number)).copied()
    }
}

crate::named! {
    /// Why a resource was not available: what held it, or what kept it from being given. Its name is a value of the
    /// label `cause` in metrics.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
    #[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
    #[repr(u8)]
    pub enum Cause all CHARGE_CAUSES {
        /// Work of another cgroup. The culprit is that cgroup's id.
        Foreign = "foreign",
        /// Other work of the same cgroup. The culprit is its id.
        #[cfg_attr(feature = "serde", serde(rename = "self"))]
        Own = "self",
        /// A kernel thread. The culprit is its pid.
        Kthread = "kthread",
        /// A hard interrupt. The culprit is the irq, or the vector with [`VECTOR_SOURCE`].
        Hardirq = "hardirq",
        /// A softirq. The culprit is the vector.
        Softirq = "softirq",
        Nmi = "nmi",
        /// The victim's own CPU quota.
        Throttle = "throttle",
        Steal = "steal",
        /// Nothing: the CPU was idle, and was being woken or not chosen.
        Idle = "idle",
        /// I/O: the kernel marks the sleep as one for it (`in_iowait`), and neither a task nor what completes requests of a
        /// disk ended it. Of which disk or file system that was, and who kept it busy, is not known by that.
        Iowait = "iowait",
        /// Pages that were dirtied on a device and have to be written first: the kernel held the thread back for them, or the
        /// one that ended its sleep. The culprit is the id of the cgroup that dirtied them, the victim's own one included.
        Writeback = "writeback",
        Untracked = "untracked",
    }
}

impl Cause {
    /// The cause of a number that came from the kernel side.
    pub fn from_number(number: u8) -> Option<Self> {
        CHARGE_CAUSES.get(usize::from(number)).copied()
    }

    /// Whether the culprit is a cgroup.
    pub const fn is_of_cgroup(self) -> bool {
        matches!(self, Self::Foreign | Self::Own | Self::Writeback)
    }
}

/// Set in a hardirq culprit that is an interrupt vector of [`crate::signals::VECTORS`], not an irq.
pub const VECTOR_SOURCE: u64 = 1 << 32;

/// A culprit that has scrolled out of the record of who interrupted, though its cause is known; and
/// a cgroup that is not known.
pub const UNKNOWN: u64 = u64::MAX;

/// Stands for the cgroup of a process that is watched apart from the others of its cgroup.
pub const WATCHED_TASK: u64 = u64::MAX - 1;

/// Set in a culprit of [`WATCHED_TASK`] that is a task, by its pid, instead of a cgroup.
pub const TASK_CULPRIT: u64 = 1 << 63;

/// Set in the id of a task's cgroup that is one of version 2, on hosts that group tasks by two hierarchies: each
/// counts its ids by itself. The kernel gives out ids one by one and comes nowhere near this bit.
pub const UNIFIED_CGROUP: u64 = 1 << 62;

/// Id of the root of every cgroup hierarchy: the first that kernfs gives out.
pub const ROOT_CGROUP: u64 = 1;

/// Who is charged with what, against whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
#[repr(C)]
pub struct ChargeKey {
    /// Id of the cgroup that was delayed.
    pub victim: u64,
    /// Who did it; what the number is depends on the cause.
    pub culprit: u64,
    /// `(major << 20 | minor)` of a block device, index of an interface; else 0.
    pub place: u32,
    /// Number of the [`Cause`].
    pub cause: u8,
    /// Number of the [`Resource`].
    pub resource: u8,
    /// 1 in a used entry.
    pub used: u16,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[repr(C)]
pub struct Charged {
    pub ns: u64,
    /// Parts of delays: one for each turn or stretch of the culprit within a delay, where that is divided in the kernel.
    pub count: u64,
}

/// An entry of a CPU's table. Programs write the key once, when they take the entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
#[repr(C)]
pub struct ChargeSlot {
    pub key: ChargeKey,
    /// Its charges since attach.
    pub charged: Charged,
}

/// A charge on its way into the table.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ChargeRequest {
    pub key: ChargeKey,
    pub ns: u64,
}

/// Entries of each CPU's table, a power of two.
pub const CHARGE_SLOTS: usize = 512;

/// Entries that may hold a key.
pub const CHARGE_WAYS: usize = 4;

/// The first entry that may hold a key; the others are that number xor 1, 2 and 3.
#[inline(always)]
pub const fn charge_slot(victim: u64, culprit: u64, kind: u64) -> usize {
    let mixed = victim.wrapping_mul(0x9e37_79b9_7f4a_7c15)
        ^ culprit.wrapping_mul(0xc2b2_ae3d_27d4_eb4f).rotate_left(29)
        ^ kind.wrapping_mul(0x1656_67b1_9e37_79f9);
    (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - CHARGE_SLOTS.trailing_zeros())) as usize
}

impl ChargeKey {
    /// Place, cause and resource of a used entry as one number, as they lie in memory.
    #[inline(always)]
    pub const fn kind(place: u32, cause: Cause, resource: Resource) -> u64 {
        place as u64 | (cause as u64) << 32 | (resource as u64) << 40 | 1 << 48
    }

    pub fn cause(&self) -> Option<Cause> {
        Cause::from_number(self.cause)
    }

    pub fn resource(&self) -> Option<Resource> {
        Resource::from_number(self.resource)
    }
}

#[cfg(feature = "user")]
mod user {
    // SAFETY: `repr(C)` without padding and valid for any bytes, as the derived `bytemuck::Pod`
    // proves.
    unsafe impl aya::Pod for super::ChargeKey {}
    // SAFETY: as above.
    unsafe impl aya::Pod for super::Charged {}
}

const _: () = assert!(size_of::<ChargeKey>() == 24);
const _: () = assert!(size_of::<ChargeSlot>() == 40);
const _: () = assert!(CHARGE_SLOTS.is_power_of_two());

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn numbers_and_names_are_in_order_and_unique() {
        let mut names = BTreeSet::new();
        for (index, cause) in CHARGE_CAUSES.iter().enumerate() {
            assert_eq!(Cause::from_number(index as u8), Some(*cause));
            assert_eq!(*cause as usize, index);
            assert!(names.insert(cause.name()));
        }
        for (index, resource) in RESOURCES.iter().enumerate() {
            assert_eq!(Resource::from_number(index as u8), Some(*resource));
            assert_eq!(*resource as usize, index);
            assert!(names.insert(resource.name()));
        }
        assert_eq!(Cause::from_number(CHARGE_CAUSES.len() as u8), None);
        assert_eq!(Resource::from_number(RESOURCES.len() as u8), None);
    }

    #[test]
    fn neighbouring_cgroups_spread_over_the_table() {
        let kind = ChargeKey::kind(0, Cause::Foreign, Resource::Cpu);
        let slots: BTreeSet<usize> = (0..16)
            .flat_map(|victim| (0..16).map(move |culprit| charge_slot(victim, culprit, kind)))
            .collect();
        assert!(slots.len() > 180, "{} of 256", slots.len());
        assert!(slots.iter().all(|slot| *slot < CHARGE_SLOTS));
    }
}
