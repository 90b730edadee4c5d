//! PURE: how a host is set up where a victim and its culprit meet: controllers and settings of their cgroups, how
//! a thread of each is scheduled, where an interrupt is served, how a disk is scheduled. As the kernel's files have
//! it; what is not known is `None`, and decides nothing.

use noise_text::cpulist::CpuList;

use super::memory::LimitKind;
use super::pressure::Quota;

/// Who makes the settings of a cgroup, and so how they are changed for good.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Manager {
    /// The host's systemd: the unit's name as `systemctl` takes it.
    System(String),
    User {
        /// The unit's name, as `systemctl` takes it.
        unit: String,
        uid: String,
    },
    /// Docker: the container's id.
    Docker(String),
    /// Podman, run by root: the container's id.
    Podman(String),
    /// Kubernetes: the pod and its container, as they are called here.
    Kubernetes(String),
    /// Nothing that is known: its files are written.
    #[default]
    Files,
}

/// A controller of cgroups, at one of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Controller {
    /// It works, by the files in this folder.
    On {
        folder: String,
        /// Version of cgroups: 1 or 2.
        version: u8,
    },
    /// The parent (version 2) does not hand it down.
    Off {
        /// The folder where it would have its files.
        folder: String,
        /// That of the parent.
        parent: String,
    },
    /// It is not to be had for this cgroup.
    #[default]
    Missing,
}

/// A limit in bytes; `None` = no limit.
pub type Limit = Option<u64>;

/// How a thread is scheduled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskSetup {
    pub pid: u32,
    /// The process that it is of.
    pub process: u32,
    pub nice: i32,
    /// Its policy, by the kernel's number (0 = `SCHED_OTHER`).
    pub policy: u32,
    /// Its real-time priority; 0 where it has none.
    pub priority: u32,
    /// CPUs that it may run on.
    pub cpus: CpuList,
    /// Whether all threads of its cgroup are known to be allowed the same CPUs.
    pub is_alike: bool,
    /// Whether its process is known to be the only one of its cgroup.
    pub is_alone: bool,
    /// Whether it is a thread of the kernel.
    pub is_kernel: bool,
}

impl TaskSetup {
    /// The name of a policy that no weight of a cgroup holds back.
    pub const fn real_time(&self) -> Option<&'static str> {
        match self.policy {
            1 => Some("SCHED_FIFO"),
            2 => Some("SCHED_RR"),
            6 => Some("SCHED_DEADLINE"),
            _ => None,
        }
    }
}

/// How a cgroup is set up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CgroupSetup {
    /// Its name, as labels have it.
    pub label: String,
    pub manager: Manager,
    /// Weight and quota of CPU time.
    pub cpu: Controller,
    /// CPUs to run on.
    pub cpuset: Controller,
    pub io: Controller,
    pub memory: Controller,
    /// `cpu.weight`, or version 1's `cpu.shares`.
    pub weight: Option<u64>,
    /// `cpu.max`, or its kin in version 1.
    pub quota: Option<Quota>,
    pub cpus: Option<CpuList>,
    /// `cpuset.cpus`: empty where the cgroup around it decides.
    pub cpus_set: CpuList,
    /// `io.weight`, or version 1's `blkio.bfq.weight`; where there is neither, that of bfq.
    pub io_weight: Option<u64>,
    /// `io.bfq.weight`, which the scheduler bfq reads in version 2.
    pub bfq_weight: Option<u64>,
    /// Lines of `io.max`, or of version 1's `blkio.throttle.*_bps_device`: a device's numbers and what is limited.
    pub io_max: Vec<String>,
    pub memory_high: Option<Limit>,
    /// `memory.max`, or version 1's `memory.limit_in_bytes`.
    pub memory_max: Option<Limit>,
    /// Beside that, what it may have in swap: `memory.swap.max`, or what version 1's `memory.memsw.limit_in_bytes` leaves.
    pub swap_max: Option<Limit>,
    /// Whether process 1, or a thread of the kernel, is known to be in it.
    pub has_host: bool,
    /// The thread by which a victim or a culprit is judged; else its first process.
    pub main: Option<TaskSetup>,
}

impl CgroupSetup {
    /// One of which no more is known than its name.
    pub fn named(label: &str) -> Self {
        Self { label: label.to_owned(), ..Self::default() }
    }

    /// Whether it is not to be touched, because all others depend on it: the root cgroup, and those of process 1 and of
    /// threads of the kernel.
    pub fn carries_host(&self) -> bool {
        let is_host = |main: &TaskSetup| main.process == 1 || main.is_kernel;
        self.label == "/" || self.has_host || self.main.as_ref().is_some_and(is_host)
    }

    /// CPUs that it may run on, as far as is known: those of its threads where all have the same, else those of the cgroup.
    pub fn may_run_on(&self) -> Option<&CpuList> {
        let main = self.main.as_ref().filter(|main| main.is_alike);
        let cpus = main.map(|main| &main.cpus).or(self.cpus.as_ref());
        cpus.filter(|cpus| !cpus.is_empty())
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IrqSetup {
    pub irq: u32,
    /// CPUs that serve it.
    pub cpus: CpuList,
    /// CPUs that may, as it is set; empty where that is not known.
    pub set: CpuList,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskSetup {
    pub name: String,
    /// Its numbers: `254:0`.
    pub numbers: String,
    /// The scheduler in force.
    pub scheduler: Option<String>,
    /// Whether `io.cost` weighs its requests.
    pub has_cost: bool,
    /// Whether it is about what is written.
    pub is_write: bool,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Setup {
    /// The victim, where that is a cgroup.
    pub victim: Option<CgroupSetup>,
    /// The main culprit, where that is a cgroup.
    pub culprit: Option<CgroupSetup>,
    /// There is no culprit but the victim's own threads: what holds those back would hold it back.
    pub is_own: bool,
    /// Those of them and of the cgroups around them that compete as siblings, the victim's first: only siblings are
    /// weighed against each other.
    pub siblings: Option<(CgroupSetup, CgroupSetup)>,
    /// Whether the culprit's cgroup is the victim's own, or around it: what slows or moves that does so to the victim.
    pub is_around: bool,
    /// Whether the culprit's main thread is the one that had what the victim waited for, and not just its first process.
    pub is_culprit_named: bool,
    /// The cgroup around the victim, it included, whose CPU quota stops it; `None` where that is not known.
    pub limited: Option<CgroupSetup>,
    /// The limit of memory that was hit, and the cgroup that has it: the victim, or one around it.
    pub memory: Option<(LimitKind, CgroupSetup)>,
    /// Memory that the host has left, bytes.
    pub available_bytes: Option<u64>,
    /// The main culprit, where that is a device's interrupt: its name.
    pub interrupt: Option<String>,
    /// The interrupts of that name.
    pub irqs: Vec<IrqSetup>,
    /// The disk that it is about.
    pub disk: Option<DiskSetup>,
    /// CPUs that are online; empty where that is not known.
    pub online: CpuList,
    /// CPUs that the scheduler leaves alone (`isolcpus=`, isolated partitions): what runs there was put there.
    pub isolated: CpuList,
    /// How much of its time each CPU was idle, 0 to 1; empty where that is not known.
    pub idle: Vec<(u32, f64)>,
}

impl Setup {
    /// CPUs that others than these may be moved to.
    pub fn elsewhere(&self, cpus: &CpuList) -> CpuList {
        self.online.without(&self.isolated).without(cpus)
    }
}
