//! Sets of loaded programs whose links are made and closed together.
//!
//! All programs, the daemon's as well as those of other tools, are attached by the same few system
//! calls here, so that no set is favoured.

use std::cell::RefCell;
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd};
use std::rc::Rc;

use anyhow::{Context as _, Result, bail};
use aya::maps::{MapData, RingBuf};
use noise_common::hooks::Attach;
use noise_common::signals::SIGNALS;
use noise_common::store::Class;
use noise_common::store::event::USUAL_CLASSES;
use noise_host::kernel::{
    Engine, HookSet, HookState, LoadOptions, Measured, ObjectKind, RecorderSize,
};

use crate::bpf;

const RAW_TRACEPOINT_OPEN: u32 = 17;
const PERF_TYPE_TRACEPOINT: u64 = 2;
const PERF_FLAG_FD_CLOEXEC: libc::c_long = 8;
const PERF_EVENT_IOC_SET_BPF: u64 = 0x4004_2408;

/// The daemon's ring buffer of closed windows.
const RING: &str = "NOISE_RING";

/// How a program is attached.
#[derive(Clone, Debug)]
pub enum Way {
    /// `tp_btf`: the program itself names its tracepoint.
    Typed,
    /// `raw_tp`, to the tracepoint of this name.
    Raw(CString),
    /// Classic tracepoint, through a perf event of this id.
    Event(u64),
}

impl Way {
    /// Its usual name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Typed => "tp_btf",
            Self::Raw(_) => "raw_tp",
            Self::Event(_) => "tracepoint",
        }
    }
}

/// A loaded program and where it belongs.
#[derive(Debug)]
pub struct Probe {
    /// The tracepoint.
    pub hook: String,
    /// How it is attached.
    pub way: Way,
    /// The kernel's number for the program.
    pub id: u32,
    /// Keeps it loaded.
    pub program: OwnedFd,
}

impl Probe {
    /// Attaches it until the result is closed.
    fn attach(&self) -> Result<OwnedFd> {
        match &self.way {
            Way::Typed => self.open_raw_tracepoint(0),
            Way::Raw(tracepoint) => self.open_raw_tracepoint(tracepoint.as_ptr() as u64),
            Way::Event(id) => self.open_event(*id),
        }
        .with_context(|| format!("attaching to {} as {}", self.hook, self.way.name()))
    }

    fn open_raw_tracepoint(&self, name: u64) -> io::Result<OwnedFd> {
        let mut attributes = [0_u64; 16];
        attributes[0] = name;
        attributes[1] = u64::from(self.program.as_raw_fd().cast_unsigned());
        let link = bpf::bpf(RAW_TRACEPOINT_OPEN, &mut attributes)?;
        // SAFETY: a descriptor that was just opened and that nothing else owns.
        Ok(unsafe { OwnedFd::from_raw_fd(link) })
    }

    fn open_event(&self, id: u64) -> io::Result<OwnedFd> {
        // `struct perf_event_attr`: type and size in one word, then config, sample_period.
        let mut attributes = [0_u64; 16];
        attributes[0] = PERF_TYPE_TRACEPOINT | (size_of_val(&attributes) as u64) << 32;
        attributes[1] = id;
        attributes[2] = 1;
        // On CPU 0, as other tools do; the program runs on every CPU all the same.
        let (pid, cpu, group) = (-1_i64, 0_i64, -1_i64);
        // SAFETY: the attributes are read during the call only.
        let event = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                attributes.as_ptr(),
                pid,
                cpu,
                group,
                PERF_FLAG_FD_CLOEXEC,
            )
        };
        if event < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a descriptor that was just opened and that nothing else owns.
        let event = unsafe { OwnedFd::from_raw_fd(event as i32) };
        let program = self.program.as_raw_fd();
        // SAFETY: no memory argument.
        if unsafe { libc::ioctl(event.as_raw_fd(), PERF_EVENT_IOC_SET_BPF, program) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(event)
    }
}

/// The id of a classic tracepoint, from tracefs.
pub fn event_id(category: &str, name: &str) -> Result<u64> {
    ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"]
        .iter()
        .find_map(|root| fs::read_to_string(format!("{root}/events/{category}/{name}/id")).ok())
        .and_then(|text| text.trim().parse().ok())
        .with_context(|| format!("tracefs has no event {category}:{name}"))
}

/// Programs that are attached and detached together.
pub struct ProbeSet {
    /// Its name in results.
    pub name: String,
    /// Its programs; exits behind entries.
    pub probes: Vec<Rc<Probe>>,
    ring: Option<RefCell<RingBuf<MapData>>>,
}

/// The programs of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Programs {
    /// Empty ones on the same hooks.
    Empty,
    /// The daemon's, as it loads them usually.
    Noised,
    /// The daemon's, without the flight recorder.
    NoRecorder,
    /// Those of a recording with programs of its own, of one class of events.
    Recording(Class),
}

impl Programs {
    fn options(self) -> LoadOptions {
        match self {
            Self::Empty => LoadOptions { object: ObjectKind::Empty, ..LoadOptions::default() },
            Self::NoRecorder => LoadOptions::default(),
            Self::Recording(class) => LoadOptions {
                recorder: RecorderSize { per_cpu: 8 << 20, all: 64 << 20 },
                measured: Measured {
                    off: SIGNALS.iter().map(|info| info.signal).collect(),
                    events: vec![class],
                    ..Measured::default()
                },
                hooks: HookSet::Recording,
                ..LoadOptions::default()
            },
            Self::Noised => LoadOptions {
                recorder: RecorderSize { per_cpu: 1 << 20, all: 64 << 20 },
                measured: Measured { events: USUAL_CLASSES.to_vec(), ..Measured::default() },
                ..LoadOptions::default()
            },
        }
    }
}

/// What is attached; detached when dropped.
pub struct Attached(
    #[expect(dead_code, reason = "held for its Drop, which detaches")] Vec<OwnedFd>,
);

impl ProbeSet {
    /// A set of these programs.
    pub fn new(name: String, probes: Vec<Rc<Probe>>) -> Self {
        Self { name, probes, ring: None }
    }

    /// Loads the daemon's programs, or empty ones on the same hooks.
    ///
    /// `hooks` leaves out all others, if it is not empty.
    ///
    /// Errors: if they cannot be loaded, or a hook of that name cannot.
    pub fn load(name: String, programs: Programs, hooks: &[String]) -> Result<Self> {
        let mut engine = Engine::load(&programs.options())?;
        let states = engine.hooks().to_vec();
        let mut probes = Vec::new();
        for status in states {
            let HookState::Loaded(attach) = status.state else { continue };
            let hook = status.hook.tracepoint();
            if !hooks.is_empty() && !hooks.iter().any(|wanted| wanted == hook) {
                continue;
            }
            let name = status.hook.program(attach);
            let program = name
                .and_then(|name| engine.object_mut().program(name))
                .with_context(|| format!("the object has no program for {hook}"))?;
            probes.push(Rc::new(Probe {
                hook: hook.to_owned(),
                way: match attach {
                    Attach::TpBtf => Way::Typed,
                    Attach::RawTp => Way::Raw(CString::new(hook)?),
                },
                id: program.info()?.id(),
                program: program.fd()?.as_fd().try_clone_to_owned()?,
            }));
        }
        if probes.is_empty() {
            bail!("not one of the hooks asked for could be loaded for the set {name}");
        }
        // The programs keep their maps; the engine has no further part in it.
        let ring = match engine.take_map(RING) {
            Some(map) => Some(RefCell::new(RingBuf::try_from(map)?)),
            None => None,
        };
        Ok(Self { name, probes, ring })
    }

    /// Attaches all.
    ///
    /// Ends of intervals come before their beginnings and go after them: a beginning whose end is
    /// not seen would leave the programs believing that it lasts.
    pub fn attach(&self) -> Result<Attached> {
        let mut links =
            self.probes.iter().rev().map(|probe| probe.attach()).collect::<Result<Vec<_>>>()?;
        links.reverse();
        Ok(Attached(links))
    }

    /// Takes what lies in the ring buffer, as the daemon does, so that it never fills up.
    pub fn drain(&self) {
        if let Some(ring) = &self.ring {
            let mut ring = ring.borrow_mut();
            while ring.next().is_some() {}
        }
    }
}
