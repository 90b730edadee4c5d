//! IO: the programs that report what interrupts measured CPUs, and their ring.

use std::os::fd::AsFd as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use aya::maps::{Map, MapData, RingBuf};
use memmap2::{MmapOptions, MmapRaw};
use noise_common::hooks::Hook;
use noise_common::watch::{NoiseEvent, WatchedCpu};
use noise_host::kernel::{Engine, HookState, KernelError, LoadOptions, ObjectKind, Sight};

/// Long enough for a thread that sleeps to leave its CPU.
const A_SWITCH: Duration = Duration::from_micros(20);

/// Why nothing can be watched.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// Threads have other numbers here than in the kernel.
    #[error(
        "this process runs in a pid namespace of its own, where the kernel's events cannot be \
         matched with the measuring threads: run it on the host, or in a container with the host's pids"
    )]
    OwnPids,
    /// What no gap can be explained without.
    #[error("the kernel refused the program on {hook}: {reason}")]
    Hook { hook: &'static str, reason: String },
    #[error(transparent)]
    Failed(#[from] anyhow::Error),
}

impl WatchError {
    /// Whether this kernel or these privileges cannot do it, as opposed to a failure.
    pub fn is_unsupported(&self) -> bool {
        match self {
            Self::Kernel(error) => error.is_unsupported(),
            Self::OwnPids | Self::Hook { .. } => true,
            Self::Failed(_) => false,
        }
    }
}

/// The states of all possible CPUs, in the programs' memory.
#[derive(Debug)]
struct States {
    map: MmapRaw,
    cpus: usize,
}

impl States {
    fn of(&self, cpu: u32) -> Option<*mut WatchedCpu> {
        let first = self.map.as_mut_ptr().cast::<WatchedCpu>();
        // SAFETY: the mapping holds this many states.
        ((cpu as usize) < self.cpus).then(|| unsafe { first.add(cpu as usize) })
    }
}

/// Loaded and attached programs. Dropping it detaches them.
pub struct Watcher {
    /// Its programs are attached as long as it is there.
    _engine: Engine,
    ring: RingBuf<MapData>,
    states: Arc<States>,
}

/// Marks the measuring thread of a CPU for the programs.
#[derive(Clone, Debug)]
pub struct Workload {
    states: Arc<States>,
    cpu: u32,
}

impl Workload {
    /// The calling thread measures from now on: what else happens on the CPU is reported.
    pub fn begin(&self) {
        self.set(own_thread());
    }

    /// Another thread measures, by the number that the kernel has for it.
    pub fn begin_of(&self, thread: u32) {
        self.set(thread);
    }

    /// Ends the reports. Called by the measuring thread; returns how many events its CPU has sent
    /// since the programs were attached. They may still be on their way through the ring.
    pub fn end(&self) -> u64 {
        let Some(state) = self.states.of(self.cpu) else { return 0 };
        // SAFETY: the pointer lies in the mapping; a program may be writing there.
        let running = unsafe { (&raw const (*state).running).read_volatile() };
        if running.start_ns != 0 && running.pid != own_thread() {
            // No program was called for the switch back to this thread: the next switch shows it.
            thread::sleep(A_SWITCH);
        }
        self.set(0);
        // SAFETY: as above; no program of this CPU is in the middle of anything while this thread runs.
        unsafe { state.read_volatile() }.sent()
    }

    fn set(&self, thread: u32) {
        if let Some(state) = self.states.of(self.cpu) {
            // SAFETY: the pointer lies in the mapping; programs only read this member.
            let workload = unsafe { AtomicU32::from_ptr(&raw mut (*state).workload) };
            workload.store(thread, Ordering::Release);
        }
    }
}

fn own_thread() -> u32 {
    // SAFETY: no preconditions.
    unsafe { libc::gettid() }.cast_unsigned()
}

fn refused(engine: &Engine) -> impl Iterator<Item = (Hook, String)> {
    engine.hooks().iter().filter_map(|status| match &status.state {
        HookState::Refused(reason) => Some((status.hook, reason.clone())),
        _ => None,
    })
}

impl Watcher {
    /// Loads and attaches the programs.
    /// Errors: those of [`WatchError`]; nothing is left attached.
    pub fn start() -> Result<Self, WatchError> {
        if Sight::of(Path::new("/proc")) == Sight::OwnPids {
            return Err(WatchError::OwnPids);
        }
        let options = LoadOptions { object: ObjectKind::Watching, ..LoadOptions::default() };
        let mut engine = Engine::load(&options)?;
        let ring = engine
            .take_map("WATCH_RING")
            .context("the BPF object has no ring")
            .and_then(|map| Ok(RingBuf::try_from(map)?))?;
        let Some(Map::Array(array)) = engine.take_map("WATCH_CPUS") else {
            return Err(anyhow!("the BPF object has no states of CPUs").into());
        };
        let cpus = engine.sizes().cpus as usize;
        let map = MmapOptions::new()
            .len(size_of::<WatchedCpu>() * cpus)
            .map_raw(&array.fd().as_fd())
            .context("cannot map the states of CPUs into memory")?;
        engine.attach()?;
        if let Some((hook, reason)) = refused(&engine).find(|(hook, _)| *hook == Hook::SchedSwitch)
        {
            return Err(WatchError::Hook { hook: hook.tracepoint(), reason });
        }
        // What parsing the type information took.
        noise_system::memory::give_back();
        Ok(Self { _engine: engine, ring, states: Arc::new(States { map, cpus }) })
    }

    /// The switch for a CPU.
    pub fn workload(&self, cpu: u32) -> Workload {
        Workload { states: Arc::clone(&self.states), cpu }
    }

    /// Takes the events that have arrived, as far as they are complete: an event that a CPU is about to write
    /// holds up those of other CPUs behind it.
    pub fn drain(&mut self, mut take: impl FnMut(NoiseEvent)) {
        while let Some(record) = self.ring.next() {
            // What has another size cannot come from our programs.
            if let Ok(event) = bytemuck::try_pod_read_unaligned::<NoiseEvent>(&record) {
                take(event);
            }
        }
    }

    /// Events of a CPU that found the ring full, since the start.
    pub fn lost(&self, cpu: u32) -> u64 {
        // SAFETY: the pointer lies in the mapping; a program may be writing the numbers.
        self.states.of(cpu).map_or(0, |state| unsafe { state.read_volatile() }.lost())
    }
}
