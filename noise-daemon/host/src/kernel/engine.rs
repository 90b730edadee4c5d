//! Loading, attaching and detaching the programs, and how each hook fares.

use std::collections::BTreeMap;
use std::os::fd::AsFd as _;
use std::sync::Arc;

use aya::maps::Map;
use aya::programs::raw_trace_point::RawTracePointLink;
use aya::programs::tp_btf::BtfTracePointLink;
use aya::programs::{Program, ProgramError};
use aya::{Btf, Ebpf, VerifierLogLevel};
use noise_common::MARKER_MAP;
use noise_common::hooks::{Attach, HOOKS, Hook};
use noise_common::signals::{SIGNALS, Signal, SignalInfo};
use noise_common::store::{Class, Layout};
use noise_system::memory::give_back;

use super::controls::{Controls, Measured};
use super::hook::{HookState, HookStatus};
use super::loader::loader;
use super::order::ends_first;
use super::room::LockedMemory;
use super::{
    EventStore, Facts, KernelBtf, KernelError, Lockdown, RecorderSize, SignalState, Sizes,
    ensure_room, has_own_users, lockdown, missing_capabilities, signal_state,
};

const EVENTS_MAP: &str = "NOISE_EVENTS";
/// What threads do that are in system calls.
const CALLS_MAP: &str = "NOISE_CALLS";
/// Why a signal is not measured though it could be.
const SWITCHED_OFF: &str = "switched off by the configuration";

/// The programs that are loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ObjectKind {
    #[default]
    Measuring,
    /// The programs that report what interrupts CPUs, event by event.
    Watching,
    /// Empty programs on the same hooks, for the benchmarks.
    #[cfg(feature = "bench")]
    Empty,
}

/// An object file with the alignment that its parser needs.
#[repr(C, align(32))]
struct AlignedObject<T: ?Sized>(T);

static MEASURING: &AlignedObject<[u8]> =
    &AlignedObject(*include_bytes!(concat!(env!("OUT_DIR"), "/noise-programs")));
static WATCHING: &AlignedObject<[u8]> =
    &AlignedObject(*include_bytes!(concat!(env!("OUT_DIR"), "/watch-programs")));
#[cfg(feature = "bench")]
static EMPTY: &AlignedObject<[u8]> =
    &AlignedObject(*include_bytes!(concat!(env!("OUT_DIR"), "/empty-programs")));

impl ObjectKind {
    pub(super) fn bytes(self) -> &'static [u8] {
        match self {
            Self::Measuring => &MEASURING.0,
            Self::Watching => &WATCHING.0,
            #[cfg(feature = "bench")]
            Self::Empty => &EMPTY.0,
        }
    }

    /// The hooks of its programs, in table order.
    fn hooks(self) -> Vec<Hook> {
        let is_of = match self {
            Self::Watching => Hook::is_watched,
            _ => Hook::is_measured,
        };
        HOOKS.into_iter().filter(|hook| is_of(*hook)).collect()
    }
}

/// Debug records of the programs, through aya-log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DebugRecords {
    /// None: the verifier removes what would write them.
    #[default]
    Off,
    /// What could not be counted, and why.
    Drops,
    /// Windows that open as well.
    All,
}

impl DebugRecords {
    /// The level as aya-log's global variable has it: from 1 (error) to 5 (trace).
    const fn level(self) -> u8 {
        match self {
            Self::Off => 0,
            Self::Drops => 4,
            Self::All => 5,
        }
    }
}

/// Which hooks of an object are loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HookSet {
    /// Those that a daemon needs: to measure, and for the events of its flight recorder.
    #[default]
    Daemon,
    /// Those that write events of the classes that are measured, the ones on demand included.
    Recording,
    /// All, to see how they fare.
    All,
}

impl HookSet {
    /// Whether it has a hook, where events of these classes are written.
    fn has(self, hook: Hook, classes: &[Class]) -> bool {
        match self {
            Self::Daemon => !hook.is_on_demand(),
            Self::Recording => hook.class().is_some_and(|class| classes.contains(&class)),
            Self::All => true,
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    pub object: ObjectKind,
    /// What the programs log of their work.
    pub debug: DebugRecords,
    /// What is measured at first.
    pub measured: Measured,
    pub hooks: HookSet,
    /// The event store's size, which may turn out smaller where memory is short.
    pub recorder: RecorderSize,
    /// A process or thread that is counted apart from the others of its cgroup.
    pub watched: Option<u32>,
}

/// What the kernel counted of one hook's program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramStats {
    pub hook: Hook,
    /// Runs, where `kernel.bpf_stats_enabled` is on.
    pub runs: u64,
    pub run_ns: u64,
    /// Events not handled because the program was already running on that CPU.
    pub missed: u64,
}

#[expect(dead_code, reason = "held for its Drop, which detaches")]
enum BpfLink {
    TpBtf(BtfTracePointLink),
    RawTp(RawTracePointLink),
}

/// The loaded programs. Dropping it detaches all.
pub struct Engine {
    ebpf: Ebpf,
    facts: Facts,
    sizes: Sizes,
    layout: Layout,
    hooks: Vec<HookStatus>,
    links: BTreeMap<Hook, BpfLink>,
    controls: Option<Arc<Controls>>,
    measured: Measured,
}

impl Engine {
    /// Checks privileges and kernel, creates the maps and loads the programs.
    ///
    /// A hook that the kernel does not have or refuses is noted in [`Engine::hooks`]; the others go on.
    /// Errors: where nothing can be loaded at all; see [`KernelError`].
    pub fn load(options: &LoadOptions) -> Result<Self, KernelError> {
        let size = preflight(options.recorder)?;
        let sizes = Sizes::of_host().map_err(|error| KernelError::Refused(format!("{error:#}")))?;
        let locked = LockedMemory::lift();
        let mut size = locked.fitting(size, sizes)?;
        let (facts, btf) = {
            let btf = KernelBtf::read(KernelBtf::PATH.as_ref())?;
            let facts = Facts::learn(&btf)?;
            let tracepoints = btf.tracepoints(facts.arguments.keys().map(|hook| hook.tracepoint()));
            (facts, tracepoints?)
        };
        let (mut ebpf, layout) = loop {
            let layout = sizes.store(size);
            match load_object(options, &facts, sizes, layout) {
                // Other processes of the same user may have locked some of what the limit allows.
                Err(KernelError::Forbidden(_)) if locked.is_limited() && layout.events() > 0 => {
                    size = size.halved(sizes.cpus);
                }
                loaded => break (loaded?, layout),
            }
        };
        // The kernel needs most of all while it verifies the first program: what was free by then is
        // not kept on top.
        give_back();
        let mut hooks = Vec::with_capacity(HOOKS.len());
        let is_needed = |hook: &Hook| {
            // Without a store nothing happens there.
            (layout.events() > 0 || !hook.is_for_events())
                && options.hooks.has(*hook, &options.measured.events)
        };
        for hook in options.object.hooks().into_iter().filter(is_needed) {
            let state = if facts.arguments.contains_key(&hook) {
                load_hook(&mut ebpf, hook, &btf)
            } else {
                HookState::Absent
            };
            hooks.push(HookStatus { hook, state });
        }
        let mut engine = Self {
            controls: controls(&ebpf, layout)?,
            ebpf,
            facts,
            sizes,
            layout,
            hooks,
            links: BTreeMap::new(),
            measured: Measured::default(),
        };
        engine.measure(options.measured.clone());
        Ok(engine)
    }

    /// Switches signals on and off, and sets thresholds, while the programs run.
    pub fn measure(&mut self, measured: Measured) {
        if let Some(controls) = &self.controls {
            controls.apply(&measured);
        }
        self.measured = measured;
    }

    /// Signals that are not measured, and why.
    pub fn absent(&self) -> Vec<(Signal, String)> {
        let state = |info: &SignalInfo| match signal_state(info, &self.facts, &self.hooks) {
            SignalState::Absent(reason) => Some((info.signal, reason)),
            SignalState::Active if self.measured.measures(info.signal) => None,
            SignalState::Active => Some((info.signal, SWITCHED_OFF.to_owned())),
        };
        SIGNALS.iter().filter_map(state).collect()
    }

    /// Attaches every loaded hook that is not attached yet.
    /// Errors: [`KernelError::NothingAttached`] where not one could be.
    pub fn attach(&mut self) -> Result<(), KernelError> {
        for hook in self.order() {
            let found = self.hooks.iter_mut().find(|status| status.hook == hook);
            let Some(status) = found else { continue };
            let HookState::Loaded(attach) = status.state else { continue };
            status.state = match attach_hook(&mut self.ebpf, status.hook, attach) {
                Ok(link) => {
                    self.links.insert(status.hook, link);
                    HookState::Attached(attach)
                }
                Err(error) => HookState::Refused(one_line(&error)),
            };
        }
        if self.links.is_empty() {
            let first = self.hooks.iter().find_map(|status| match &status.state {
                HookState::Refused(reason) => Some(reason.clone()),
                _ => None,
            });
            return Err(KernelError::NothingAttached {
                first: first.unwrap_or_else(|| "the kernel has none of the tracepoints".to_owned()),
            });
        }
        Ok(())
    }

    /// The hooks in the order in which they are attached.
    fn order(&self) -> Vec<Hook> {
        let hooks: Vec<Hook> = self.hooks.iter().map(|status| status.hook).collect();
        ends_first(&hooks)
    }

    /// How each hook fares, in table order.
    pub fn hooks(&self) -> &[HookStatus] {
        &self.hooks
    }

    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The host's dimensions at load.
    pub fn sizes(&self) -> Sizes {
        self.sizes
    }

    /// Where the event store's parts lie; without any events where there is no store.
    pub fn recorder(&self) -> Layout {
        self.layout
    }

    /// The event store; `None` where there is none.
    /// Errors: where its memory cannot be had.
    pub fn event_store(&self) -> Result<Option<EventStore>, KernelError> {
        let Some(controls) = self.controls.as_ref() else { return Ok(None) };
        let Some(Map::Array(events)) = self.ebpf.map(EVENTS_MAP) else { return Ok(None) };
        if controls.layout().events() == 0 {
            return Ok(None);
        }
        let events = events.fd().as_fd().try_clone_to_owned();
        let store = events.and_then(|events| EventStore::new(events, Arc::clone(controls)));
        store.map(Some).map_err(|error| KernelError::Refused(error.to_string()))
    }

    /// Takes a map out of the object; `None` where it has no such map, or it was taken.
    pub fn take_map(&mut self, name: &str) -> Option<Map> {
        self.ebpf.take_map(name)
    }

    /// The object, for the reader of debug records.
    pub fn object_mut(&mut self) -> &mut Ebpf {
        &mut self.ebpf
    }

    /// Whether this thread may read from the kernel what is open here.
    pub fn is_readable(&self) -> bool {
        !self.program_stats().is_empty()
    }

    pub fn program_stats(&self) -> Vec<ProgramStats> {
        self.hooks.iter().filter_map(|status| self.stats(status)).collect()
    }

    /// What the kernel counted of one; `None` where it is not loaded, or the kernel does not say.
    pub fn stats_of(&self, hook: Hook) -> Option<ProgramStats> {
        self.stats(self.hooks.iter().find(|status| status.hook == hook)?)
    }

    fn stats(&self, status: &HookStatus) -> Option<ProgramStats> {
        let (HookState::Loaded(attach) | HookState::Attached(attach)) = status.state else {
            return None;
        };
        read_stats(status.hook, self.ebpf.program(status.hook.program(attach)?)?)
    }
}

/// The memory that says what the programs measure; `None` of an object that does not read it.
fn controls(ebpf: &Ebpf, layout: Layout) -> Result<Option<Arc<Controls>>, KernelError> {
    let Some(Map::Array(states)) = ebpf.map(MARKER_MAP) else { return Ok(None) };
    Controls::map(states.fd().as_fd(), layout)
        .map(|controls| Some(Arc::new(controls)))
        .map_err(|error| KernelError::Refused(format!("cannot map {MARKER_MAP}: {error}")))
}

/// Refuses early what can be known early, so that nothing is half-started; the size of the event store
/// for which there is memory.
fn preflight(recorder: RecorderSize) -> Result<RecorderSize, KernelError> {
    if has_own_users("/proc".as_ref()) {
        return Err(KernelError::OwnUsers);
    }
    let missing = missing_capabilities();
    if !missing.is_empty() {
        let names: Vec<String> = missing.iter().map(ToString::to_string).collect();
        return Err(KernelError::NotPermitted { missing: names.join(" and ") });
    }
    if lockdown("/sys".as_ref()) == Lockdown::Confidentiality {
        return Err(KernelError::Lockdown);
    }
    ensure_room(recorder)
}

fn load_object(
    options: &LoadOptions,
    facts: &Facts,
    sizes: Sizes,
    layout: Layout,
) -> Result<Ebpf, KernelError> {
    let log_level = options.debug.level();
    let maps = match options.object {
        ObjectKind::Watching => sizes.watching_maps(),
        _ => sizes.maps(options.debug != DebugRecords::Off),
    };
    let waits_mask = sizes.waits() - 1;
    let are_calls_recorded = options.measured.events.contains(&Class::Ipc);
    let calls = if are_calls_recorded { sizes.calls() } else { 1 };
    let calls_mask = calls - 1;
    let mut loader = loader();
    loader.verifier_log_level(VerifierLogLevel::STATS);
    if matches!(options.object, ObjectKind::Measuring | ObjectKind::Watching) {
        for (global, value) in &facts.globals {
            loader.override_global(global, value, false);
        }
        if let Some(watched) = &options.watched {
            loader.override_global("WATCHED_PID", watched, false);
        }
        loader.override_global("CPUS", &sizes.cpus, false);
        loader.override_global("WAITS_MASK", &waits_mask, false);
        loader.override_global("CALLS_MASK", &calls_mask, false);
        loader.override_global("AYA_LOG_LEVEL", &log_level, false);
        loader.map_max_entries(EVENTS_MAP, layout.entries().max(1));
        if options.object == ObjectKind::Measuring {
            loader.map_max_entries(CALLS_MAP, calls);
        }
        for map in &maps {
            loader.map_max_entries(map.name, map.max_entries);
        }
    }
    loader.load(options.object.bytes()).map_err(|error| match is_forbidden(&error) {
        true => KernelError::Forbidden(one_line(&error)),
        false => KernelError::Refused(one_line(&error)),
    })
}

/// Whether the kernel says that this process may not, whatever it is about.
fn is_forbidden(error: &(dyn std::error::Error + 'static)) -> bool {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.filter_map(|cause| cause.downcast_ref::<std::io::Error>()).any(|cause| {
        // A filter may answer either.
        matches!(cause.raw_os_error(), Some(libc::EPERM | libc::EACCES))
    })
}

fn load_hook(ebpf: &mut Ebpf, hook: Hook, btf: &Btf) -> HookState {
    let mut reasons = Vec::new();
    for attach in Attach::ORDER {
        let Some(name) = hook.program(attach) else { continue };
        let loaded = match ebpf.program_mut(name) {
            Some(Program::BtfTracePoint(program)) => program.load(hook.tracepoint(), btf),
            Some(Program::RawTracePoint(program)) => program.load(),
            _ => {
                reasons.push(format!("{name}: not in the object"));
                continue;
            }
        };
        match loaded {
            Ok(()) => return HookState::Loaded(attach),
            Err(error) => reasons.push(format!("{}: {}", attach.name(), one_line(&error))),
        }
    }
    HookState::Refused(reasons.join("; "))
}

fn attach_hook(ebpf: &mut Ebpf, hook: Hook, attach: Attach) -> Result<BpfLink, ProgramError> {
    match hook.program(attach).and_then(|name| ebpf.program_mut(name)) {
        Some(Program::BtfTracePoint(program)) => {
            let id = program.attach()?;
            Ok(BpfLink::TpBtf(program.take_link(id)?))
        }
        Some(Program::RawTracePoint(program)) => {
            let id = program.attach(hook.tracepoint())?;
            Ok(BpfLink::RawTp(program.take_link(id)?))
        }
        _ => Err(ProgramError::NotLoaded),
    }
}

fn read_stats(hook: Hook, program: &Program) -> Option<ProgramStats> {
    let fd = match program {
        Program::BtfTracePoint(program) => program.fd().ok()?,
        Program::RawTracePoint(program) => program.fd().ok()?,
        _ => return None,
    };
    let info = super::prog_info::read(fd.as_fd())?;
    Some(ProgramStats {
        hook,
        runs: info.run_cnt,
        run_ns: info.run_time_ns,
        missed: info.recursion_misses,
    })
}

/// An error with its causes on one line; a verifier's log is cut to its end, where the reason is.
fn one_line(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    // The verifier's statistics follow its reason.
    let statistic = |line: &str| {
        ["processed ", "verification time", "stack depth"]
            .iter()
            .any(|begin| line.starts_with(begin))
    };
    let lines: Vec<&str> =
        text.lines().map(str::trim).filter(|line| !line.is_empty() && !statistic(line)).collect();
    match lines.as_slice() {
        [head, .., tail] => format!("{head} … {tail}"),
        _ => lines.join(" "),
    }
}

/// Whether another `noised` has its maps on this host; `None` where that cannot be seen (listing
/// maps needs CAP_SYS_ADMIN).
pub fn other_daemon_runs() -> Option<bool> {
    for info in aya::maps::loaded_maps() {
        if info.ok()?.name_as_str() == Some(MARKER_MAP) {
            return Some(true);
        }
    }
    Some(false)
}

#[cfg(test)]
mod tests {
    use std::io;

    use aya::EbpfError;
    use aya::maps::MapError;

    use super::*;

    #[test]
    fn hooks_on_demand_are_for_recordings_of_their_class() {
        let (timer, switch) = (Hook::HrtimerEntry, Hook::SchedSwitch);
        for (set, hook, classes, has) in [
            (HookSet::Daemon, timer, &[Class::Sched, Class::Io][..], false),
            (HookSet::Daemon, switch, &[], true),
            (HookSet::Recording, timer, &[Class::Sched], true),
            (HookSet::Recording, timer, &[Class::Io], false),
            (HookSet::Recording, Hook::SchedWakeup, &[Class::Sched], false),
            (HookSet::All, timer, &[], true),
        ] {
            assert_eq!(set.has(hook, classes), has, "{set:?} {hook:?}");
        }
    }

    #[test]
    fn what_the_kernel_forbids_is_distinguished_from_what_it_cannot_do() {
        let refused = |number| {
            let io_error = io::Error::from_raw_os_error(number);
            EbpfError::MapError(MapError::CreateError { name: "A".to_owned(), io_error })
        };
        assert!(is_forbidden(&refused(libc::EPERM)) && is_forbidden(&refused(libc::EACCES)));
        assert!(!is_forbidden(&refused(libc::ENOMEM)) && !is_forbidden(&refused(libc::EINVAL)));
    }
}
