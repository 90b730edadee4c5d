//! Typed views of kernel structs over offsets that the daemon injects.
//!
//! A program is a `tp_btf`, where the verifier knows the type of each argument and fields are loaded directly; some are
//! a `raw_tp` too, where each field takes a probe read. [`Access`] is the difference between the two.

pub mod dirty;
pub mod file;
pub mod hrtimer;
pub mod packet;
pub mod regs;
pub mod request;
pub mod sock;

use core::ffi::c_void;
use core::ptr;

use aya_ebpf::Global;
use aya_ebpf::helpers::generated::{bpf_get_current_task, bpf_get_current_task_btf};
use aya_ebpf::helpers::{bpf_probe_read_kernel, bpf_probe_read_user};
use noise_common::charge::{ROOT_CGROUP, UNIFIED_CGROUP, UNKNOWN, WATCHED_TASK};
use noise_common::signals::polls_packets;
use noise_common::{for_each_fact, for_each_offset};

macro_rules! define_offsets {
    ($($global:ident $container:literal $path:literal;)*) => {
        $(
            #[doc = concat!("Offset of `", $container, ".", $path, "`.")]
            #[unsafe(no_mangle)]
            static $global: Global<u32> = Global::new(noise_common::offsets::MISSING);
        )*
    };
}
for_each_offset!(define_offsets);

macro_rules! define_facts {
    ($($global:ident $doc:literal;)*) => {
        $(
            #[doc = $doc]
            #[unsafe(no_mangle)]
            pub static $global: Global<u32> = Global::new(noise_common::offsets::MISSING);
        )*
    };
}
for_each_fact!(define_facts);

/// Whether the running kernel has what a global stands for.
#[inline(always)]
pub fn present(fact: u32) -> bool {
    fact != noise_common::offsets::MISSING
}

/// Whether a process is kept apart from the others of its cgroup.
#[inline(always)]
pub fn is_watching() -> bool {
    present(WATCHED_PID.load())
}

/// A kernel pointer that only [`Access::load`] follows.
pub type Pointer = *const u8;

/// Priorities below this are real-time or deadline, as the kernel calls it, too.
const MAX_RT_PRIO: i32 = 100;

/// How a program gets at its arguments and at kernel memory.
pub trait Access: Copy {
    /// Whether the verifier knows types.
    const IS_TYPED: bool;

    /// The `index`th argument of the tracepoint.
    fn argument(self, index: usize) -> u64;

    /// The `index`th argument as a number, where it is a pointer that arithmetic is done on: the
    /// verifier forbids that on typed pointers.
    fn address(self, index: usize) -> u64;

    /// The argument with a number that depends on the kernel. The verifier allows no load from the context at a place that was
    /// computed, which the compiler makes of loads at two places.
    fn chosen(self, index: usize) -> u64;

    /// The kernel memory at `base + offset`; zero where it cannot be read.
    fn load<T: Copy + Default>(self, base: Pointer, offset: u32) -> T;

    /// The task that runs, as a pointer.
    fn current(self) -> Pointer;

    /// The field at `base + offset`; zero where the pointer is null. Some kernels cannot bear a program
    /// that follows one, although they promise to.
    #[inline(always)]
    fn follow<T: Copy + Default>(self, base: Address, offset: u32) -> T {
        if base.0.is_null() { T::default() } else { self.load(base.0, offset) }
    }

    /// The `index`th argument as a pointer.
    ///
    /// The verifier tracks the type of a pointer through registers only, so this must come
    /// straight from the context.
    #[inline(always)]
    fn pointer(self, index: usize) -> Pointer {
        self.argument(index) as Pointer
    }
}

/// The kernel memory at `base + offset`, of an address that is but a number; zero where it cannot be read.
#[inline(always)]
fn probe<T: Copy + Default>(base: u64, offset: u32) -> T {
    // SAFETY: the helper accepts any address and fails where it cannot be read.
    unsafe { bpf_probe_read_kernel((base + u64::from(offset)) as *const T) }.unwrap_or_default()
}

/// The first words of a struct of the kernel, read at once: a call of the helper costs more than what it copies.
struct Head<const WORDS: usize> {
    base: u64,
    words: [u64; WORDS],
}

impl<const WORDS: usize> Head<WORDS> {
    /// Of the struct at that address; zero where it cannot be read.
    #[inline(always)]
    fn at(base: u64) -> Self {
        // SAFETY: the helper accepts any address and fails where it cannot be read.
        let words = unsafe { bpf_probe_read_kernel(base as *const [u64; WORDS]) };
        Self { base, words: words.unwrap_or([0; WORDS]) }
    }

    /// A field; one that lies behind these words is read by itself.
    #[inline(always)]
    fn get<T: Copy + Default>(&self, offset: u32) -> T {
        let at = offset as usize;
        if at > size_of::<[u64; WORDS]>() - size_of::<T>() {
            return probe(self.base, offset);
        }
        // SAFETY: the field lies within the words, and any bytes are a number.
        unsafe { ptr::read_unaligned(self.words.as_ptr().byte_add(at).cast::<T>()) }
    }
}

/// The memory of the process that runs; zero where it cannot be read.
#[inline(always)]
pub fn probe_user<T: Copy + Default>(address: u64) -> T {
    // SAFETY: as above.
    unsafe { bpf_probe_read_user(address as *const T) }.unwrap_or_default()
}

/// Access of a `tp_btf` program.
#[derive(Clone, Copy)]
pub struct Typed(pub *mut c_void);

/// Access of a `raw_tp` program.
#[derive(Clone, Copy)]
pub struct Raw(pub *mut c_void);

#[inline(always)]
fn context_argument(context: *mut c_void, index: usize) -> u64 {
    // SAFETY: the context of both program types is an array of 64-bit arguments, and the
    // verifier refuses an index beyond the tracepoint's own.
    unsafe { ptr::read_volatile(context.cast::<u64>().add(index)) }
}

#[inline(always)]
fn read_argument(context: *mut c_void, index: usize) -> u64 {
    // SAFETY: the helper accepts any address and fails where it cannot be read.
    unsafe { bpf_probe_read_kernel(context.cast::<u64>().add(index)) }.unwrap_or_default()
}

impl Access for Typed {
    const IS_TYPED: bool = true;

    #[inline(always)]
    fn argument(self, index: usize) -> u64 {
        context_argument(self.0, index)
    }

    #[inline(always)]
    fn address(self, index: usize) -> u64 {
        read_argument(self.0, index)
    }

    #[inline(always)]
    fn chosen(self, index: usize) -> u64 {
        read_argument(self.0, index)
    }

    #[inline(always)]
    fn current(self) -> Pointer {
        // SAFETY: the helper has no preconditions.
        unsafe { bpf_get_current_task_btf() }.cast_const().cast()
    }

    #[inline(always)]
    fn load<T: Copy + Default>(self, base: Pointer, offset: u32) -> T {
        // SAFETY: the verifier checks the field against BTF and turns the load into one that
        // yields zero where the address is bad.
        unsafe { ptr::read_volatile(base.add(offset as usize).cast::<T>()) }
    }
}

impl Access for Raw {
    const IS_TYPED: bool = false;

    #[inline(always)]
    fn argument(self, index: usize) -> u64 {
        context_argument(self.0, index)
    }

    #[inline(always)]
    fn address(self, index: usize) -> u64 {
        context_argument(self.0, index)
    }

    #[inline(always)]
    fn chosen(self, index: usize) -> u64 {
        read_argument(self.0, index)
    }

    #[inline(always)]
    fn current(self) -> Pointer {
        // SAFETY: the helper has no preconditions.
        unsafe { bpf_get_current_task() as Pointer }
    }

    #[inline(always)]
    fn load<T: Copy + Default>(self, base: Pointer, offset: u32) -> T {
        // SAFETY: the helper accepts any address and fails where it cannot be read.
        unsafe { bpf_probe_read_kernel(base.add(offset as usize).cast::<T>()) }.unwrap_or_default()
    }
}

/// `PF_KTHREAD` of the kernel's `linux/sched.h`, the same since 2.6.27.
const PF_KTHREAD: u32 = 0x0020_0000;
/// `PF_FROZEN`, up to 6.0. Of later kernels, no task that is not a kernel thread has this bit.
const PF_FROZEN: u32 = 0x0001_0000;

/// `TS_COMPAT` of x86's `thread_info.h`, the same since 4.16.
const TS_COMPAT: u32 = 2;
/// A `mm_struct` begins a cache line.
const MM_SHIFT: u32 = 6;

/// Where a signal comes from, by the address of its `kernel_siginfo`: the kernel puts two numbers in that place where
/// there is none (`SEND_SIG_NOINFO`, `SEND_SIG_PRIV`), and shows them so.
#[inline(always)]
pub fn signal_code(info: u64) -> i32 {
    const SI_USER: i32 = 0;
    const SI_KERNEL: i32 = 0x80;
    match info {
        0 => SI_USER,
        1 => SI_KERNEL,
        info if present(SIGINFO_CODE.load()) => probe(info, SIGINFO_CODE.load()),
        _ => 0,
    }
}

#[derive(Clone, Copy)]
pub struct TaskStruct<A> {
    access: A,
    at: Pointer,
}

impl<A: Access> TaskStruct<A> {
    /// The task that is the `index`th argument.
    #[inline(always)]
    pub fn argument(access: A, index: usize) -> Self {
        Self { access, at: access.pointer(index) }
    }

    /// The task that runs.
    #[inline(always)]
    pub fn current(access: A) -> Self {
        Self { access, at: access.current() }
    }

    /// Whether it is a kernel thread.
    #[inline(always)]
    pub fn is_kernel_thread(self) -> bool {
        self.access.load::<u32>(self.at, TASK_FLAGS.load()) & PF_KTHREAD != 0
    }

    /// Whether the freezer stopped it. From 6.1 on, it then is in a state of its own.
    #[inline(always)]
    pub fn is_frozen(self) -> bool {
        let flags: u32 = self.access.load(self.at, TASK_FLAGS.load());
        flags & (PF_FROZEN | PF_KTHREAD) == PF_FROZEN
    }

    /// Whether it sleeps for I/O, as the kernel accounts that.
    #[inline(always)]
    pub fn is_in_iowait(self) -> bool {
        let bit = TASK_IN_IOWAIT.load();
        present(bit) && self.access.load::<u8>(self.at, bit / 8) & 1 << (bit % 8) != 0
    }

    /// Thread id in the initial pid namespace; 0 for the idle tasks.
    #[inline(always)]
    pub fn pid(self) -> u32 {
        self.access.load(self.at, TASK_PID.load())
    }

    /// Id of its process.
    #[inline(always)]
    pub fn tgid(self) -> u32 {
        self.access.load(self.at, TASK_TGID.load())
    }

    /// Priority as the kernel counts: 0 to 99 real time, 100 to 139 the others, -1 deadline.
    #[inline(always)]
    pub fn priority(self) -> u32 {
        self.access.load(self.at, TASK_PRIO.load())
    }

    #[inline(always)]
    fn is_watched(self) -> bool {
        let watched = WATCHED_PID.load();
        self.pid() == watched || self.tgid() == watched
    }

    /// Whether the call that it makes is one of a 32-bit program.
    #[inline(always)]
    pub fn is_in_foreign_call(self) -> bool {
        let field = TASK_STATUS.load();
        present(field) && self.access.load::<u32>(self.at, field) & TS_COMPAT != 0
    }

    /// Bits that stand for its memory map: the address without what all of them have in common.
    #[inline(always)]
    pub fn memory_map(self) -> u32 {
        let field = TASK_MM.load();
        if !present(field) {
            return 0;
        }
        // The verifier does not let typed pointers be calculated with.
        (probe::<u64>(self.at as u64, field) >> MM_SHIFT) as u32
    }

    /// Inode number of its ipc namespace.
    #[inline(always)]
    pub fn ipc_namespace(self) -> u32 {
        let needed = [TASK_NSPROXY.load(), NSPROXY_IPC.load(), IPC_NS_INUM.load()];
        if !needed.into_iter().all(present) {
            return 0;
        }
        let proxy: Address = self.access.load(self.at, TASK_NSPROXY.load());
        let namespace: Address = self.access.follow(proxy, NSPROXY_IPC.load());
        self.access.follow(namespace, IPC_NS_INUM.load())
    }

    /// Its name, as two words.
    #[inline(always)]
    pub fn comm(self) -> [u64; 2] {
        let offset = TASK_COMM.load();
        [self.access.load(self.at, offset), self.access.load(self.at, offset + 8)]
    }

    /// Whether it is a thread that polls interfaces.
    #[inline(always)]
    pub fn polls(self) -> bool {
        polls_packets(self.access.load(self.at, TASK_COMM.load())) && self.is_kernel_thread()
    }

    /// Whether it is on a run queue: it runs, or waits for a CPU. True where the kernel has no such field.
    #[inline(always)]
    pub fn is_runnable(self) -> bool {
        let field = TASK_ON_RQ.load();
        !present(field) || self.access.load::<u32>(self.at, field) != 0
    }

    /// The CPU that it runs or waits on.
    #[inline(always)]
    pub fn cpu(self) -> u32 {
        let (field, old) = (TASK_CPU.load(), TASK_CPU_OLD.load());
        if present(field) {
            self.access.load(self.at, field)
        } else if present(old) {
            self.access.load(self.at, old)
        } else {
            // There is but one.
            0
        }
    }

    /// Id of its cgroup; [`UNKNOWN`] where there are no cgroups, and [`WATCHED_TASK`] where it is watched.
    ///
    /// Where the `cpu` controller has a hierarchy of its own beside version 2, either may have the
    /// cgroup that people know the task by. A task in a cgroup of version 2 counts for that, with
    /// [`UNIFIED_CGROUP`] in its id; one in the root of version 2 counts for the controller's. Which
    /// of the two is in use need not be decided at the start.
    #[inline(always)]
    pub fn cgroup(self) -> u64 {
        let access = self.access;
        if is_watching() && self.is_watched() {
            return WATCHED_TASK;
        }
        if !present(TASK_CGROUPS.load()) || !present(CGROUP_KN.load()) || !present(KN_ID.load()) {
            return UNKNOWN;
        }
        let sets: Address = access.load(self.at, TASK_CGROUPS.load());
        let css = CPU_CSS.load();
        if !present(css) {
            return self.cgroup_id(access.follow(sets, CSS_SET_DEFAULT.load()));
        }
        if present(BOTH_TREES.load()) {
            let id = self.cgroup_id(access.follow(sets, CSS_SET_DEFAULT.load()));
            if id > ROOT_CGROUP {
                return id | UNIFIED_CGROUP;
            }
        }
        let css: Address = access.follow(sets, css);
        self.cgroup_id(access.follow(css, CSS_CGROUP.load()))
    }

    #[inline(always)]
    fn cgroup_id(self, cgroup: Address) -> u64 {
        let kn: Address = self.access.follow(cgroup, CGROUP_KN.load());
        self.access.follow(kn, KN_ID.load())
    }

    /// What the hypervisor has taken from the CPU of the task, as the scheduler knows it; 0 where
    /// that is not known.
    #[inline(always)]
    pub fn stolen_ns(self) -> u64 {
        let field = RQ_STEAL.load();
        if !present(field) || !present(TASK_CFS_RQ.load()) || !present(CFS_RQ_RQ.load()) {
            return 0;
        }
        let cfs_rq: Address = self.access.load(self.at, TASK_CFS_RQ.load());
        let rq: Address = self.access.follow(cfs_rq, CFS_RQ_RQ.load());
        self.access.follow(rq, field)
    }

    /// How long the task's group has been throttled on the task's CPU, up to the scheduler's last
    /// look at its clock; [`UNKNOWN`] where that is not known.
    #[inline(always)]
    pub fn throttled_ns(self) -> u64 {
        let access = self.access;
        // A quota stops no real-time thread.
        if present(TASK_PRIO.load()) && (self.priority() as i32) < MAX_RT_PRIO {
            return UNKNOWN;
        }
        let fields = [CFS_THROTTLED_TIME.load(), CFS_THROTTLED_SINCE.load(), TASK_CFS_RQ.load()];
        if !fields.into_iter().all(present) || !present(CFS_RQ_RQ.load()) {
            return UNKNOWN;
        }
        let cfs_rq: Address = access.load(self.at, TASK_CFS_RQ.load());
        let throttled_ns: u64 = access.follow(cfs_rq, CFS_THROTTLED_TIME.load());
        let since_ns: u64 = access.follow(cfs_rq, CFS_THROTTLED_SINCE.load());
        if since_ns == 0 {
            return throttled_ns;
        }
        let rq: Address = access.follow(cfs_rq, CFS_RQ_RQ.load());
        let clock_ns: u64 = access.follow(rq, RQ_CLOCK.load());
        throttled_ns.wrapping_add(clock_ns.wrapping_sub(since_ns))
    }

    /// The task's state now: 0 = runnable.
    #[inline(always)]
    fn state(self) -> u64 {
        let renamed = TASK_STATE.load();
        if present(renamed) {
            u64::from(self.access.load::<u32>(self.at, renamed))
        } else {
            self.access.load(self.at, TASK_STATE_OLD.load())
        }
    }

    /// The state in which `sched_switch` switched this task out.
    #[inline(always)]
    pub fn switched_out_state(self) -> u64 {
        if present(ARG_PREV_STATE.load()) {
            // Always the fourth argument where it exists; a variable index would lose the type.
            self.access.argument(3) & 0xffff_ffff
        } else {
            self.state()
        }
    }
}

/// The id of the `struct pid` that is the `index`th argument, in the initial pid namespace; 0 where there is none.
#[inline(always)]
pub fn pid_argument<A: Access>(access: A, index: usize) -> u32 {
    let (numbers, nr) = (PID_NUMBERS.load(), UPID_NR.load());
    if !present(numbers) || !present(nr) {
        return 0;
    }
    access.follow(Address(access.pointer(index)), numbers + nr)
}

/// A pointer field; null by default.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Address(Pointer);

impl Default for Address {
    fn default() -> Self {
        Self(ptr::null())
    }
}
