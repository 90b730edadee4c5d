//! Reports of detours for tests.

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};

use super::{
    Class, CpuDetours, DETOURS_FORMAT, DETOURS_VERSION, Detour, DetourPart, DetourReport, GapSource,
};

/// Noise of one source that comes at random.
#[derive(Clone, Debug)]
pub struct Random {
    /// The source; [`Class::Hardware`] leaves no part.
    pub source: GapSource,
    /// Events per second of a CPU, in the mean.
    pub rate: f64,
    /// Length of each, ns; its detour is 500 ns longer.
    pub length_ns: u64,
    /// Comes in bursts, at double the rate: on and off for this long in the mean; 0 = always on.
    pub burst_ns: u64,
}

pub fn source(class: Class, name: &str, id: u32) -> GapSource {
    GapSource { class, name: name.to_owned(), id }
}

/// A report of this many CPUs, of sources that come at random.
pub fn report(cpus: u32, duration_ns: u64, noise: &[Random], seed: u64) -> DetourReport {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let cpu = |cpu| CpuDetours {
        cpu,
        start_ns: 1_000_000_000,
        duration_ns,
        threshold_ns: 1_000,
        min_loop_ns: 20.0,
        resolution_ns: 1,
        passes: duration_ns / 20,
        detours: detours(duration_ns, noise, &mut random),
        lost_detours: 0,
        lost_events: 0,
    };
    DetourReport {
        format: DETOURS_FORMAT.to_owned(),
        version: DETOURS_VERSION,
        host: "node7".to_owned(),
        kernel: "6.12.0".to_owned(),
        started: jiff::Timestamp::constant(1_795_251_600, 0),
        sources: noise.iter().map(|noise| noise.source.clone()).collect(),
        cpus: (0..cpus).map(cpu).collect(),
    }
}

fn detours(duration_ns: u64, noise: &[Random], random: &mut Xoshiro256PlusPlus) -> Vec<Detour> {
    let mut events = Vec::new();
    for (place, noise) in noise.iter().enumerate() {
        let mut after = |mean_ns: f64| -(1.0 - random.random::<f64>()).ln() * mean_ns;
        let bursts = noise.burst_ns > 0;
        let apart_ns = 1e9 / if bursts { 2.0 * noise.rate } else { noise.rate };
        let (mut at, mut change, mut is_on) = (0.0, f64::INFINITY, true);
        if bursts {
            (change, is_on) = (after(noise.burst_ns as f64), after(1.0) > f64::ln(2.0));
        }
        loop {
            at += after(apart_ns);
            while at >= change {
                change += after(noise.burst_ns as f64);
                is_on = !is_on;
            }
            if at >= duration_ns as f64 {
                break;
            }
            if is_on {
                events.push((at as u64, place));
            }
        }
    }
    events.sort_unstable();
    let (mut detours, mut free_ns) = (Vec::new(), 0);
    for (at, source) in events {
        let Random { length_ns, source: GapSource { class, .. }, .. } = &noise[source];
        let (start_ns, duration_ns_of) = (at.max(free_ns), length_ns + 500);
        free_ns = start_ns + duration_ns_of;
        if free_ns > duration_ns {
            break;
        }
        let part = DetourPart { source, start_ns: start_ns + 250, duration_ns: *length_ns };
        let parts = if *class == Class::Hardware { Vec::new() } else { vec![part] };
        detours.push(Detour { start_ns, duration_ns: duration_ns_of, parts });
    }
    detours
}
