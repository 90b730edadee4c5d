//! What a system knows of itself.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

/// A slice as it was.
#[derive(Clone, Debug)]
pub struct Slice {
    pub tid: i32,
    pub marker: &'static str,
    pub from_ns: u64,
    pub to_ns: u64,
    /// It ends with the other marker of a pair.
    pub explicit: bool,
    /// Those that it waited for.
    pub dependents: Vec<usize>,
}

#[derive(Debug, Default)]
pub struct Truth {
    pub slices: Vec<Slice>,
    pub edges: BTreeSet<(usize, usize)>,
    /// Threads that are in the call in which they slept.
    pub in_call: HashSet<usize>,
    pub ended: HashSet<usize>,
    pub pipe_bytes: HashMap<usize, VecDeque<u64>>,
    /// When the latest act was.
    pub last_act: u64,
}

impl Truth {
    pub fn slice(&mut self, tid: i32, marker: &'static str, from_ns: u64) -> usize {
        let slice =
            Slice { tid, marker, from_ns, to_ns: from_ns, explicit: true, dependents: Vec::new() };
        self.slices.push(slice);
        self.slices.len() - 1
    }

    pub fn edge(&mut self, from: usize, to: usize) {
        self.edges.insert((from, to));
    }

    /// A slice's true latency: the moments, of all between which something begins or ends, in which none of its
    /// dependents is under way.
    pub fn true_latency(&self, id: usize) -> u64 {
        let slice = &self.slices[id];
        let dependents: Vec<&Slice> = slice.dependents.iter().map(|id| &self.slices[*id]).collect();
        let mut moments: Vec<u64> = vec![slice.from_ns, slice.to_ns];
        for dependent in &dependents {
            moments.extend([dependent.from_ns, dependent.to_ns]);
        }
        moments.retain(|moment| (slice.from_ns..=slice.to_ns).contains(moment));
        moments.sort_unstable();
        moments.dedup();
        let is_own = |pair: &&[u64]| {
            !dependents.iter().any(|other| other.from_ns <= pair[0] && pair[1] <= other.to_ns)
        };
        moments.windows(2).filter(is_own).map(|pair| pair[1] - pair[0]).sum()
    }
}
