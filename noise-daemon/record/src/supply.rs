//! Where events come from: programs of our own.

use std::path::PathBuf;

use anyhow::Context as _;
use noise_common::hooks::Hook;
use noise_common::signals::SIGNALS;
use noise_common::store::{Class, Layout, PARTS, StoredEvent};
use noise_host::kernel::{
    Engine, EventStore, HookSet, HookState, HookStatus, LoadOptions, Measured, Sizes, monotonic_ns,
    other_daemon_runs,
};
use noise_system::procfs::available_bytes;
use noise_trace::capture::Capture;

use noise_command::CommandError;

use crate::buffer;

/// Where events come from.
pub trait Supply {
    fn cpus(&self) -> u32;

    /// From when on there are events, ns.
    fn begin_ns(&self) -> u64;

    /// No event is wanted that comes later, ns.
    fn ends_at(&mut self, _end_ns: u64) {}

    /// Hands over what is new at a time; how full the fullest part of the store was with that.
    /// Errors: where there is nothing more to be had.
    fn drain(&mut self, now_ns: u64, capture: &mut Capture) -> anyhow::Result<f64>;

    /// Where marks go that come with the events; `None` where none do.
    fn marks(&self) -> Option<PathBuf> {
        None
    }

    /// Bytes of events that each CPU has room for until they are read, where that is known.
    fn buffer_bytes(&self) -> Option<u64> {
        None
    }

    /// System calls of 32-bit programs, which are left out, so far.
    fn foreign_calls(&self) -> u64 {
        0
    }

    /// Hooks of the classes that are recorded without which it goes, though the kernel may have them.
    fn lacks(&self) -> Vec<Hook> {
        Vec::new()
    }
}

/// A supply, or why there is none.
pub type SupplyResult = Result<Box<dyn Supply>, CommandError>;

/// Programs that only write events. Dropping it detaches them.
struct EbpfEventSource {
    _engine: Engine,
    store: EventStore,
    buffer_bytes: u64,
    begin_ns: u64,
    drained_ns: u64,
    /// By CPU and part: number of the next event that is wanted.
    next: Vec<u64>,
    /// By CPU: events that found no part, so far.
    lost: Vec<u64>,
}

/// What events will be missing.
fn absent(hooks: &[HookStatus]) -> Option<String> {
    let is_absent = |status: &&HookStatus| match status.state {
        HookState::Attached(_) => false,
        // Most processors have not all of them.
        HookState::Absent => !matches!(status.hook, Hook::Vector(..)),
        _ => true,
    };
    let names: Vec<_> =
        hooks.iter().filter(is_absent).map(|status| status.hook.tracepoint()).collect();
    let names = names.join(", ");
    (!names.is_empty()).then(|| {
        format!("warning: this kernel does not offer {names}: there will be no such events")
    })
}

/// Memory for the events of each CPU.
fn bytes(layout: Layout) -> u64 {
    u64::from(layout.events()) * size_of::<StoredEvent>() as u64
}

/// Loads and attaches programs that write events of some classes into a buffer of so many bytes for each CPU, or a usual
/// one. What will be missing is complained of.
/// Nothing is left attached.
pub fn own(
    classes: &[Class],
    buffer_bytes: Option<u64>,
    complain: &mut dyn FnMut(&str),
) -> SupplyResult {
    let cpus = Sizes::of_host().map_or(1, |sizes| sizes.cpus);
    let recorder = buffer::size(buffer_bytes, cpus, available_bytes("/proc".as_ref()))?;
    if other_daemon_runs() == Some(true) {
        complain("warning: another noised is attached on this host: overhead doubles");
    }
    let measured = Measured {
        off: SIGNALS.iter().map(|info| info.signal).collect(),
        events: classes.to_vec(),
        ..Measured::default()
    };
    let hooks = HookSet::Recording;
    let options = LoadOptions { measured, recorder, hooks, ..LoadOptions::default() };
    let mut engine = Engine::load(&options)?;
    let store = engine.event_store()?.context(
        "there is no memory for events: raise the memory limit of this process (ulimit -l, its cgroup)",
    )?;
    let (wanted, found) = (engine.sizes().store(recorder), engine.recorder());
    if found.events() < wanted.events() {
        complain(&format!(
            "warning: the events of each CPU have {} KiB of memory instead of {}, and more will be lost in bursts: \
             raise the memory limit of this process (of its cgroup; before Linux 5.11 also ulimit -l)",
            bytes(found) / 1024,
            bytes(wanted) / 1024
        ));
    }
    engine.attach()?;
    if let Some(warning) = absent(engine.hooks()) {
        complain(&warning);
    }
    let lacking = engine.facts().missing_of_calls();
    if classes.contains(&Class::Ipc) && !lacking.is_empty() {
        complain(&format!(
            "warning: this kernel does not show {}: events of class ipc are without",
            lacking.join(", ")
        ));
    }
    let begin_ns = monotonic_ns();
    let cpus = store.cpus();
    let parts = (0..cpus).flat_map(|cpu| (0..PARTS).map(move |part| (cpu, part)));
    let next = parts.map(|(cpu, part)| store.next(cpu, part).unwrap_or(0)).collect();
    let lost = (0..cpus).map(|cpu| store.lost(cpu)).collect();
    let drained_ns = begin_ns;
    Ok(Box::new(EbpfEventSource {
        _engine: engine,
        store,
        buffer_bytes: bytes(found),
        begin_ns,
        drained_ns,
        next,
        lost,
    }))
}

impl Supply for EbpfEventSource {
    fn cpus(&self) -> u32 {
        self.store.cpus()
    }

    fn begin_ns(&self) -> u64 {
        self.begin_ns
    }

    fn buffer_bytes(&self) -> Option<u64> {
        Some(self.buffer_bytes)
    }

    fn foreign_calls(&self) -> u64 {
        (0..self.store.cpus()).map(|cpu| self.store.foreign_calls(cpu)).sum()
    }

    fn drain(&mut self, now_ns: u64, capture: &mut Capture) -> anyhow::Result<f64> {
        let before_ns = std::mem::replace(&mut self.drained_ns, now_ns);
        let mut fullness: f64 = 0.0;
        for (index, next) in self.next.iter_mut().enumerate() {
            let (cpu, part) = ((index / PARTS) as u32, index % PARTS);
            let end = self.store.next(cpu, part).context("cannot read the event store")?;
            if end == *next {
                continue;
            }
            let copied = self.store.copy(cpu, part, *next..u64::MAX, usize::MAX);
            let copied = copied.context("cannot read the event store")?;
            fullness = fullness.max((end - *next) as f64 / copied.capacity.max(1) as f64);
            *next = capture.add(cpu, part, copied.stretch());
        }
        for (cpu, lost) in (0..).zip(&mut self.lost) {
            let before = std::mem::replace(lost, self.store.lost(cpu));
            capture.lost(cpu, lost.saturating_sub(before), before_ns, now_ns);
        }
        Ok(fullness)
    }
}
