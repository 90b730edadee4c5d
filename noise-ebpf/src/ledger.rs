//! Keeps each CPU's ledger, and lays waits over it.
//!
//! The steps are functions without pointers among their arguments: the verifier looks at each by
//! itself, once, instead of following every path through the loops.

use aya_log_ebpf::macro_support::{Level, level_enabled};
use noise_common::charge::{Cause, ChargeKey, Resource, TASK_CULPRIT, UNKNOWN, WATCHED_TASK};
use noise_common::event::{CpuState, Outlier};
use noise_common::header::Header;
use noise_common::ledger::{
    Context, Division, Ledger, Parts, Runner, STRETCHES, TURNS, Takes, Turn, Waiting, Walk,
    throttled_between,
};
use noise_common::loss::Loss;
use noise_common::record::{OldPart, RecordKind};
use noise_common::signals::Signal;
use noise_common::store::Class;
use noise_common::{OUTLIERS_PER_WINDOW, WINDOW_NS};

use crate::charge::{charge, charge_here, charge_kind, spill};
use crate::kernel::{Access, TaskStruct, WAITS_MASK, is_watching};
use crate::maps::{
    NOISE_CPUS, NOISE_WAITING, NOISE_WAITS, cpu_state, drop_event, send_old_part, send_outlier,
    this_cpu,
};
use crate::outlier;
use crate::store::{self, records};

/// A turn of this length is charged before it ends, ns.
const LONG_TURN_NS: u64 = 100_000_000;

/// Whether each drop is logged. That multiplies the paths which the verifier follows, and older
/// verifiers give up: then every division takes the way that is short for them, and longer to run. A
/// constant of the loaded program.
#[inline(always)]
fn detailed() -> bool {
    level_enabled(Level::Debug)
}

/// Takes the parts of a division in [`CpuState::divisions`]: charges them, or notes them in the
/// record that is made.
struct Dividing {
    /// The CPU that divides.
    state: *mut CpuState,
    /// The CPU whose ledger it is.
    cpu: u32,
    /// Number of the [`Context`].
    context: u32,
}

impl Parts for Dividing {
    #[inline(always)]
    fn walk(&mut self) -> &mut Walk {
        // SAFETY: the state is this CPU's; a context does not interrupt itself.
        unsafe { &mut (*division(self.state, self.context)).walk }
    }

    #[inline(always)]
    fn rest(&mut self) {
        if noise_old_part(self.cpu, self.context) == 0 {
            let left_ns = self.walk().left_ns();
            self.other(Cause::Untracked, 0, left_ns);
        }
    }

    #[inline(always)]
    fn step_turn(&mut self, _ledger: &Ledger, back: u64) -> bool {
        noise_turn(self.cpu, back as u32, self.context) != 0
    }

    #[inline(always)]
    fn step_stretch(&mut self, _ledger: &Ledger, back: u64, class: Cause) -> bool {
        noise_stretch(self.cpu, back as u32, class as u32, self.context) != 0
    }
}

impl Takes for Dividing {
    #[inline(always)]
    fn turn(&mut self, turn: &Turn, ns: u64) {
        // SAFETY: as in `walk`.
        let victim = unsafe { (*division(self.state, self.context)).victim };
        let (cause, culprit) = blame(turn, victim);
        self.part(cause, culprit, ns, Some(turn));
    }

    #[inline(always)]
    fn other(&mut self, cause: Cause, culprit: u64, ns: u64) {
        self.part(cause, culprit, ns, None);
    }
}

/// Charges the parts of a division that needs no steps, without calls if `HERE`.
struct Direct<const HERE: bool> {
    state: *mut CpuState,
    victim: u64,
    resource: Resource,
}

impl<const HERE: bool> Takes for Direct<HERE> {
    #[inline(always)]
    fn turn(&mut self, turn: &Turn, ns: u64) {
        let (cause, culprit) = blame(turn, self.victim);
        self.other(cause, culprit, ns);
    }

    #[inline(always)]
    fn other(&mut self, cause: Cause, culprit: u64, ns: u64) {
        let kind = ChargeKey::kind(0, cause, self.resource);
        if HERE {
            charge_here(self.state, kind, self.victim, culprit, ns);
        } else {
            charge_kind(self.state, kind, self.victim, culprit, ns);
        }
    }
}

impl Dividing {
    #[inline(always)]
    fn part(&mut self, cause: Cause, culprit: u64, ns: u64, turn: Option<&Turn>) {
        let state = self.state;
        // SAFETY: as in `walk`.
        let (victim, resource, recording) = unsafe {
            let division = division(state, self.context);
            ((*division).victim, (*division).resource, (*division).recording)
        };
        if recording != 0 {
            outlier::push(state, cause, culprit, ns, turn);
        } else if self.context == Context::Delivery as u32 {
            let kind = ChargeKey::kind(resource, cause, Resource::NetRx);
            spill(state, victim, culprit, kind, ns);
        } else if resource == Resource::Cpu as u32 {
            charge(state, Resource::Cpu, cause, victim, culprit, ns);
        } else {
            charge(state, Resource::Running, cause, victim, culprit, ns);
        }
    }
}

/// The division of a context.
#[inline(always)]
fn division(state: *mut CpuState, context: u32) -> *mut Division {
    // SAFETY: the state is this CPU's, and there are two contexts.
    unsafe {
        let first = (&raw mut (*state).divisions).cast::<Division>();
        if context == Context::Delivery as u32 {
            first.add(Context::Delivery as usize)
        } else {
            first
        }
    }
}

/// One step of a division among turns.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn noise_turn(cpu: u32, back: u32, context: u32) -> u32 {
    let (Some(state), Some(owner)) = (cpu_state(), NOISE_CPUS.get_ptr(cpu)) else { return 1 };
    let mut parts = Dividing { state, cpu, context };
    // SAFETY: the ledger is only written under the lock of its run queue, which is held, or by this
    // CPU when it leaves the softirq that it is in.
    u32::from(unsafe { (*owner).ledger.step(u64::from(back), &mut parts) })
}

/// One step of the division of a class of interrupts.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn noise_stretch(cpu: u32, back: u32, class: u32, context: u32) -> u32 {
    let (Some(state), Some(owner)) = (cpu_state(), NOISE_CPUS.get_ptr(cpu)) else { return 1 };
    let class = if class == Cause::Hardirq as u32 { Cause::Hardirq } else { Cause::Softirq };
    let mut parts = Dividing { state, cpu, context };
    // SAFETY: the sources are this CPU's, or may change under a reading that is only one of
    // another CPU's.
    unsafe { u32::from((*owner).ledger.stretches(class).step(u64::from(back), class, &mut parts)) }
}

/// Divides a wait in [`CpuState::divisions`] over the ledger of a CPU.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn noise_divide(cpu: u32, context: u32) -> u32 {
    let (Some(state), Some(owner)) = (cpu_state(), NOISE_CPUS.get_ptr(cpu)) else { return 0 };
    // SAFETY: as in `noise_turn`; what is copied does not change meanwhile.
    unsafe {
        let division = division(state, context);
        let (wait, now_ns, taken) = ((*division).wait, (*division).now_ns, (*division).taken);
        let throttled_ns = (*division).throttled_ns;
        let mut parts = Dividing { state, cpu, context };
        (*owner).ledger.divide_wait(&wait, now_ns, &taken, throttled_ns, &mut parts);
    }
    0
}

/// Writes an event of a wait for a CPU that ends now, of which the task's quota took a part.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn noise_throttled(pid: u32, throttled_ns: u64, now_ns: u64) -> u32 {
    let Some(state) = cpu_state() else { return 0 };
    store::throttled(state, pid, throttled_ns, now_ns);
    0
}

/// Hands the part of a wait that the ledger no longer remembers to the daemon, which divides it from the
/// event store. 0 where it cannot: where no events are written, where it is not known when the wait began on
/// that CPU, and where the ring is full.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn noise_old_part(cpu: u32, context: u32) -> u32 {
    let Some(state) = cpu_state() else { return 0 };
    if context != Context::Scheduler as u32 {
        return 0;
    }
    // SAFETY: as in `noise_divide`.
    unsafe {
        let division = division(state, context);
        let is_charged = (*division).resource == Resource::Cpu as u32 && (*division).recording == 0;
        // In so many turns there are interrupts, unless it is not known what they took: then it is not known
        // either when the thread came to this CPU.
        let is_known = (*division).wait.taken.all_ns() != (*division).taken.all_ns();
        if !is_charged || !records(state, Class::Sched) {
            return 0;
        }
        let Some(part) = (*division).walk.forgotten() else { return 0 };
        if !is_known {
            drop_event(state, Signal::RunqueueWait, Loss::RateLimited);
            return 0;
        }
        let header = Header::new(RecordKind::OldPart, Signal::RunqueueWait as u32, cpu);
        let (victim, pid) = ((*division).victim, (*division).wait.pid);
        let old = OldPart { header, victim, pid, padding: 0, part };
        // Early enough to read this CPU's events before they are overwritten.
        let first = &raw const (*state).store.parts[0];
        let written = (*first).next.wrapping_sub((*state).woken_at);
        let is_due = written > u64::from((*first).mask >> 2);
        if is_due {
            (*state).woken_at = (*first).next;
        }
        u32::from(send_old_part(state, &old, is_due))
    }
}

/// Divides what interrupts took from the task that runs since that was last done: the begin of that
/// time is in the scheduler's of [`CpuState::divisions`].
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn noise_running() -> u32 {
    let cpu = this_cpu();
    let context = Context::Scheduler as u32;
    let Some(state) = cpu_state() else { return 0 };
    // SAFETY: the state is this CPU's, and interrupts are off.
    unsafe {
        let division = division(state, context);
        let (before, taken) = ((*division).wait.taken, (*division).taken);
        let length_ns = (*division).now_ns.wrapping_sub((*division).wait.since_ns);
        let mut parts = Dividing { state, cpu, context };
        (*state).ledger.divide_running(&before, &taken, length_ns, &mut parts);
    }
    0
}

/// Charges those for whom a NET_RX softirq had to wait with the delay of who is woken by it.
#[inline(always)]
pub fn charge_backlog(state: *mut CpuState, victim: u64, place: u32) {
    // SAFETY: the state is this CPU's, and softirqs do not nest.
    unsafe {
        let backlog = (*state).backlog;
        if backlog.until_ns == 0 {
            return;
        }
        let context = Context::Delivery as u32;
        let division = division(state, context);
        (*division).wait = backlog.wait;
        (*division).now_ns = backlog.until_ns;
        (*division).taken = backlog.taken;
        (*division).throttled_ns = 0;
        (*division).victim = victim;
        (*division).resource = place;
        (*division).recording = 0;
        noise_divide(this_cpu(), context);
    }
}

/// Why a turn delays a victim, and whose turn it is: of a task that is watched, the thread.
#[inline(always)]
fn blame(turn: &Turn, victim: u64) -> (Cause, u64) {
    turn.blame(victim, |turn| {
        if is_watching() && victim == WATCHED_TASK {
            TASK_CULPRIT | u64::from(turn.pid)
        } else {
            turn.cgroup
        }
    })
}

/// The newest turn of a CPU.
#[inline(always)]
pub fn newest(state: *mut CpuState) -> *mut Turn {
    // SAFETY: the index is below the ring's length.
    unsafe {
        let newest = core::hint::black_box((*state).ledger.newest) % TURNS as u64;
        (&raw mut (*state).ledger.turns).cast::<Turn>().add(newest as usize)
    }
}

/// A task becomes runnable on a CPU, under the lock of that CPU's run queue.
#[inline(always)]
pub fn wait_begins<A: Access>(task: TaskStruct<A>, pid: u32, cpu: u32, now_ns: u64) {
    let Some(wait) = NOISE_WAITS.get_ptr_mut(pid & WAITS_MASK.load()) else { return };
    let Some(state) = NOISE_CPUS.get_ptr_mut(cpu) else { return };
    // SAFETY: the pointers are entries of the arrays. An entry is taken over from a task that no
    // longer waits; where one still does, this wait will be divided without what interrupts took.
    unsafe {
        let other = (*wait).pid;
        if other != 0
            && other != pid
            && NOISE_WAITING.get_ptr(other).is_some_and(|waiting| *waiting > 0)
        {
            return;
        }
        let mut taken = (*state).nesting.taken_by(now_ns);
        taken.stolen_ns = task.stolen_ns();
        let throttled_ns = task.throttled_ns();
        *wait = Waiting { pid, cpu, since_ns: now_ns, taken, throttled_ns };
    }
}

/// The entry of a task that waits since `start_ns`.
#[inline(always)]
fn waiting(pid: u32, start_ns: u64) -> Option<*mut Waiting> {
    let wait = NOISE_WAITS.get_ptr_mut(pid & WAITS_MASK.load())?;
    // SAFETY: the pointer is an entry of the array.
    unsafe { ((*wait).pid == pid && (*wait).since_ns >= start_ns).then_some(wait) }
}

/// How much of a wait that ends now the task's group was throttled; an event says so.
#[inline(always)]
fn throttled<A: Access>(task: TaskStruct<A>, wait: &Waiting, now_ns: u64) -> u64 {
    let throttled_ns = throttled_between(wait.throttled_ns, task.throttled_ns());
    if throttled_ns == 0 {
        return 0;
    }
    noise_throttled(wait.pid, throttled_ns, now_ns);
    throttled_ns
}

/// A task that may wait moves to another CPU, under the lock of its old CPU's run queue.
#[inline(always)]
pub fn migrate<A: Access>(
    state: *mut CpuState,
    task: TaskStruct<A>,
    pid: u32,
    start_ns: u64,
    to_cpu: u32,
    now_ns: u64,
) {
    let Some(wait) = waiting(pid, start_ns) else { return };
    // SAFETY: the pointer is an entry of the array, and the others are of the CPUs' array.
    unsafe {
        let from = *wait;
        let Some(old) = NOISE_CPUS.get_ptr_mut(from.cpu) else { return };
        let mut taken = (*old).nesting.taken_by(now_ns);
        taken.stolen_ns = task.stolen_ns();
        let division = division(state, Context::Scheduler as u32);
        (*division).wait = from;
        (*division).now_ns = now_ns;
        (*division).taken = taken;
        (*division).throttled_ns = throttled(task, &from, now_ns);
        (*division).victim = task.cgroup();
        (*division).resource = Resource::Cpu as u32;
        (*division).recording = 0;
        noise_divide(from.cpu, Context::Scheduler as u32);
        let Some(new) = NOISE_CPUS.get_ptr_mut(to_cpu) else { return };
        (*wait).cpu = to_cpu;
        (*wait).since_ns = now_ns;
        (*wait).taken = (*new).nesting.taken_by(now_ns);
        (*wait).throttled_ns = UNKNOWN;
    }
}

/// The begin of a wait.
#[derive(Clone, Copy)]
pub struct Start {
    pub pid: u32,
    /// The CPU on which it runs now.
    pub cpu: u32,
    /// When it became runnable.
    pub at_ns: u64,
    /// Index into [`noise_common::signals::CAUSES`].
    pub cause: u32,
}

/// A task runs after a wait: everybody who ran meanwhile is charged, where that `is_measured`.
#[inline(always)]
pub fn wait_ends<A: Access>(
    state: *mut CpuState,
    task: TaskStruct<A>,
    victim: u64,
    start: Start,
    is_measured: bool,
    now_ns: u64,
) {
    // SAFETY: the state is this CPU's, the entry the task's.
    unsafe {
        let taken = (*state).nesting.taken;
        let division = division(state, Context::Scheduler as u32);
        let long = now_ns.wrapping_sub(start.at_ns) >= (*state).outlier_ns;
        match waiting(start.pid, start.at_ns) {
            Some(wait) if (*wait).cpu == start.cpu => {
                let throttled_ns = throttled(task, &*wait, now_ns);
                if !is_measured {
                    return;
                }
                if throttled_ns == 0 && !long && !detailed() {
                    // By far most waits.
                    let mut charges = Direct::<true> { state, victim, resource: Resource::Cpu };
                    let ledger = &(*state).ledger;
                    if ledger.divide_simple_wait(&*wait, now_ns, &taken, &mut charges) {
                        return;
                    }
                }
                (*division).wait = *wait;
                (*division).throttled_ns = throttled_ns;
            }
            _ if !is_measured => return,
            // Nothing is known of what interrupts took.
            _ => {
                (*division).wait.since_ns = start.at_ns;
                (*division).wait.taken = taken;
                (*division).throttled_ns = 0;
            }
        }
        (*division).now_ns = now_ns;
        (*division).taken = taken;
        (*division).victim = victim;
        (*division).resource = Resource::Cpu as u32;
        (*division).recording = 0;
        noise_divide(start.cpu, Context::Scheduler as u32);
        if long {
            report(state, task, start, now_ns);
        }
    }
}

/// Sends a record of the wait that was divided last, unless there were too many of late.
#[inline(always)]
fn report<A: Access>(state: *mut CpuState, task: TaskStruct<A>, start: Start, now_ns: u64) {
    // SAFETY: the state is this CPU's, and interrupts are off.
    unsafe {
        let window = now_ns / WINDOW_NS;
        if (*state).outliers[0] != window {
            (*state).outliers = [window, 0];
        }
        if (*state).outliers[1] >= OUTLIERS_PER_WINDOW {
            return drop_event(state, Signal::CgroupRunqueueWait, Loss::RateLimited);
        }
        (*state).outliers[1] += 1;
        let outlier: *mut Outlier = &raw mut (*state).outlier;
        let signal = Signal::CgroupRunqueueWait as u32;
        (*outlier).header = Header::new(RecordKind::Outlier, signal, start.cpu);
        (*outlier).at_ns = now_ns;
        (*outlier).wait_ns = now_ns - start.at_ns;
        let division = division(state, Context::Scheduler as u32);
        (*outlier).victim = (*division).victim;
        (*outlier).pid = start.pid;
        (*outlier).comm = task.comm();
        (*outlier).made_runnable = start.cause as u16;
        (*outlier).parts_used = 0;
        // What it waited on other CPUs is charged, but not among the parts of the record.
        (*outlier).rest_ns = (*division).wait.since_ns - start.at_ns;
        (*division).recording = 1;
        noise_divide(start.cpu, Context::Scheduler as u32);
        send_outlier(state);
    }
}

/// Charges what interrupts took from the task that runs, up to now; without calls if `HERE`.
#[inline(always)]
pub fn charge_running<const HERE: bool>(state: *mut CpuState, now_ns: u64) {
    // SAFETY: the state is this CPU's, and interrupts are off.
    unsafe {
        let turn = newest(state);
        let taken = (*state).nesting.taken;
        let before = (*state).running;
        let since_ns = (*state).running_ns;
        (*state).running = taken;
        (*state).running_ns = now_ns;
        let ledger = &raw const (*state).ledger;
        (*state).running_sources = [(*ledger).hardirqs.newest, (*ledger).softirqs.newest];
        if taken.all_ns() == before.all_ns() || (*turn).runner == Runner::Idle as u32 {
            return;
        }
        let victim = (*turn).cgroup;
        let mut charges = Direct::<HERE> { state, victim, resource: Resource::Running };
        let length_ns = now_ns.wrapping_sub(since_ns);
        if !detailed() && (*ledger).divide_simple_running(&before, &taken, length_ns, &mut charges)
        {
            return;
        }
        let division = division(state, Context::Scheduler as u32);
        (*division).wait.taken = before;
        (*division).wait.since_ns = since_ns;
        (*division).now_ns = now_ns;
        (*division).taken = taken;
        (*division).victim = (*turn).cgroup;
        (*division).resource = Resource::Running as u32;
        (*division).recording = 0;
        noise_running();
    }
}

/// Charges what interrupts took from a task that has been running for long, or that was interrupted by so many
/// sources in turn that they would be forgotten. Called with interrupts off, as `sched_switch` is.
#[inline(always)]
pub fn charge_long_turn(state: *mut CpuState, now_ns: u64) {
    // SAFETY: the state is this CPU's.
    let (passed_ns, hardirqs, softirqs) = unsafe {
        let sources = (*state).running_sources;
        (
            now_ns.wrapping_sub((*state).running_ns),
            (*state).ledger.hardirqs.newest.wrapping_sub(sources[0]),
            (*state).ledger.softirqs.newest.wrapping_sub(sources[1]),
        )
    };
    let many = STRETCHES as u64 / 2;
    if passed_ns > LONG_TURN_NS || hardirqs > many || softirqs > many {
        charge_running::<false>(state, now_ns);
    }
}

/// Whether a task is the one that runs on this CPU, or that is not known yet. As good as the helper
/// that returns the running task, without the call.
#[inline(always)]
pub fn may_run(state: *mut CpuState, pid: u32) -> bool {
    // SAFETY: the pointer is an entry of the ring.
    unsafe { (*newest(state)).start_ns == 0 || (*newest(state)).pid == pid }
}

/// Whose turn it is on this CPU, as the cause of a victim's delay with its culprit.
#[inline(always)]
pub fn runs(state: *mut CpuState, victim: u64) -> (Cause, u64) {
    // SAFETY: the pointer is an entry of the ring.
    let turn = unsafe { &*newest(state) };
    if turn.start_ns == 0 { (Cause::Untracked, 0) } else { blame(turn, victim) }
}

/// The thread whose turn it is on this CPU; 0 where that is not known.
#[inline(always)]
pub fn running_pid(state: *mut CpuState) -> u32 {
    // SAFETY: the pointer is an entry of the ring.
    unsafe { (*newest(state)).pid }
}

/// The cgroup of the newest turn.
#[inline(always)]
pub fn leaving(state: *mut CpuState) -> u64 {
    // SAFETY: the pointer is an entry of the ring.
    unsafe { (*newest(state)).cgroup }
}

/// A task begins to run.
#[inline(always)]
pub fn begin_turn<A: Access>(
    state: *mut CpuState,
    task: TaskStruct<A>,
    pid: u32,
    cgroup: u64,
    now_ns: u64,
) {
    let runner = if pid == 0 {
        Runner::Idle
    } else if task.is_kernel_thread() {
        Runner::Kthread
    } else {
        Runner::Task
    };
    // SAFETY: the state is this CPU's, and interrupts are off.
    unsafe {
        let taken_ns = (*state).nesting.taken.all_ns();
        (*state).ledger.newest += 1;
        let turn = newest(state);
        (*turn).start_ns = now_ns;
        (*turn).taken_ns = taken_ns;
        (*turn).cgroup = cgroup;
        (*turn).pid = pid;
        (*turn).runner = runner as u32;
        (*turn).comm = task.comm();
    }
}

/// A task that could have gone on gave its place to that of the newest turn.
#[inline(always)]
pub fn preempted(state: *mut CpuState, victim: u64) {
    let (cause, culprit) = runs(state, victim);
    charge_here(state, ChargeKey::kind(0, cause, Resource::Preemption), victim, culprit, 0);
}
