//! Events of a simulated machine through the builder of critical paths, whose memory must not grow with them.

use std::time::Instant;

use anyhow::Result;
use noise_paths::build::Builder;
use noise_trace::event::{Comm, Event, Packet, Task, TraceKind, Woken};
use noise_trace::state::LeftIn;
use serde::Serialize;

use crate::toll::Footprint;

/// CPUs of the machine.
const CPUS: u32 = 16;
/// Threads that live on, for each CPU.
const THREADS: u32 = 64;
/// Thread ids of those that end soon are given again from here on, as the kernel does.
const SHORT: i32 = 10_000;
const LAST: i32 = 32_768;
/// Time between two events.
const STEP_NS: u64 = 100;
/// How much of the past is kept.
const KEPT_NS: u64 = 10_000_000;
/// Events after which what is older is forgotten, as `noised trace critical-path` does.
const FORGET_EVENTS: u64 = 1 << 16;
/// Events after which memory has its size.
pub const WARM_EVENTS: u64 = 2_000_000;

/// What came out.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Simulated {
    /// Events.
    pub events: u64,
    /// Threads that were created.
    pub threads: u64,
    /// Threads and other workers that the graph has in the end.
    pub workers: usize,
    /// Points that it has of them.
    pub points: usize,
    /// Time that they took, seconds.
    pub seconds: f64,
    /// Resident memory after the first ones, bytes.
    pub before_bytes: u64,
    /// The most that it ever was, bytes.
    pub peak_bytes: u64,
}

struct Machine {
    builder: Builder,
    now_ns: u64,
    events: u64,
    threads: u64,
    random: u64,
    next_tid: i32,
    /// Who runs; 0 = the idle task.
    current: [i32; CPUS as usize],
    sleeps: Vec<bool>,
}

fn task(tid: i32) -> Task {
    Task { comm: Comm::new(b"simulated"), tid, prio: 120 }
}

impl Machine {
    fn new() -> Self {
        let sleeps = vec![true; (CPUS * THREADS) as usize];
        let (now_ns, random) = (1_000_000_000_000, 0x9e37_79b9_7f4a_7c15);
        Self {
            builder: Builder::default(),
            now_ns,
            events: 0,
            threads: 0,
            random,
            next_tid: SHORT,
            current: [0; CPUS as usize],
            sleeps,
        }
    }

    /// A number below `end` (xorshift).
    fn random(&mut self, end: u32) -> u32 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        ((self.random >> 32) % u64::from(end)) as u32
    }

    fn event(&mut self, cpu: u32, kind: TraceKind<'static>) {
        self.now_ns += STEP_NS;
        self.events += 1;
        self.builder.follow(&Event { time_ns: self.now_ns, cpu, kind });
        if self.events.is_multiple_of(FORGET_EVENTS) {
            self.builder.forget_before(self.now_ns - KEPT_NS);
        }
    }

    fn switch(&mut self, cpu: u32, next: i32, prev_state: i64) {
        let prev = std::mem::replace(&mut self.current[cpu as usize], next);
        let prev_state = LeftIn::of(prev_state);
        self.event(cpu, TraceKind::SchedSwitch { prev: task(prev), prev_state, next: task(next) });
    }

    fn wake(&mut self, cpu: u32) {
        let number = self.random(CPUS * THREADS);
        self.sleeps[number as usize] = false;
        let (task, target_cpu) = (task(number as i32 + 1), number % CPUS);
        self.event(cpu, TraceKind::SchedWaking(Woken { task, target_cpu }));
    }

    /// Another thread of this CPU runs, where one wants to.
    fn schedule(&mut self, cpu: u32) {
        let place = self.random(THREADS) * CPUS + cpu;
        let current = self.current[cpu as usize];
        let stays = self.random(4) == 0;
        if current > 0 {
            self.sleeps[current as usize - 1] = !stays;
        }
        let next = if self.sleeps[place as usize] { 0 } else { place as i32 + 1 };
        if next != current {
            self.switch(cpu, next, if stays || current == 0 { 0 } else { 1 });
        }
    }

    fn softirq(&mut self, cpu: u32, vec: u32, packet: Option<Packet<'static>>) {
        self.event(cpu, TraceKind::IrqHandlerEntry { irq: 40 + cpu, name: b"device" });
        self.event(cpu, TraceKind::IrqHandlerExit { irq: 40 + cpu, ret: 1 });
        self.event(cpu, TraceKind::SoftirqEntry { vec });
        if let Some(packet) = packet {
            self.event(cpu, TraceKind::NetifReceiveSkb(packet));
        }
        self.wake(cpu);
        self.event(cpu, TraceKind::SoftirqExit { vec });
    }

    /// A thread that creates another one, which ends soon.
    fn fork(&mut self, cpu: u32) {
        let parent = self.current[cpu as usize];
        if parent == 0 {
            return;
        }
        let child = self.next_tid;
        self.next_tid = if child + 1 < LAST { child + 1 } else { SHORT };
        self.threads += 1;
        self.event(
            cpu,
            TraceKind::SchedProcessFork {
                parent: task(parent),
                parent_pid: parent,
                child: task(child),
                child_pid: child,
            },
        );
        self.event(cpu, TraceKind::SchedWakeupNew(Woken { task: task(child), target_cpu: cpu }));
        self.switch(cpu, child, 0);
        self.event(cpu, TraceKind::SchedProcessExit(task(child)));
        self.switch(cpu, parent, 16);
    }

    fn step(&mut self) {
        let cpu = self.random(CPUS);
        match self.random(16) {
            0 => self.softirq(cpu, 4, None),
            1 => self.softirq(cpu, 1, None),
            2 => {
                let skb = u64::from(self.random(1 << 20));
                let packet = Packet { skb, len: 100, name: b"lo" };
                self.event(cpu, TraceKind::NetDevQueue(packet));
                self.softirq(cpu, 3, Some(packet));
            }
            3 => self.fork(cpu),
            _ => {
                self.wake(cpu);
                self.schedule(cpu);
            }
        }
    }
}

/// Lets so many events happen, and first those after which memory is looked at.
/// Errors: if the kernel does not say how much memory this program has.
pub fn run(warm_events: u64, events: u64) -> Result<Simulated> {
    let pid = std::process::id();
    let mut machine = Machine::new();
    let start = Instant::now();
    while machine.events < warm_events {
        machine.step();
    }
    let before_bytes = Footprint::of(pid)?.resident_bytes;
    while machine.events < events {
        machine.step();
    }
    Ok(Simulated {
        events: machine.events,
        threads: machine.threads,
        workers: machine.builder.graph().workers().count(),
        points: machine.builder.graph().points(),
        seconds: start.elapsed().as_secs_f64(),
        before_bytes,
        peak_bytes: Footprint::of(pid)?.peak_bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_does_not_grow_with_events() {
        // Other tests use memory of this process; the graph is what counts.
        let simulated = run(300_000, 900_000).unwrap();
        assert!(simulated.threads > 10_000, "{simulated:?}");
        assert!(simulated.workers < 8_000 && simulated.points < 500_000, "{simulated:?}");
    }
}
