//! What was found: slices, edges, sketches, and true latencies.
//!
//! *True latency*, exactly. A slice's dependents are the slices that it waited for: those from which something came back
//! into it. Where an edge leads into a slice S that goes on, the chain of causes before it is gone back: the slice that
//! the edge comes from, the one that caused that, and so on. If S is on this chain, all that lie between are dependents of
//! S, since the work that S asked for went through all of them. A request that S's own thread sent and that was answered
//! is a dependent, too. What S caused and never heard of again (a line of a log, a message to a queue) is none, as S did
//! not wait for it. The true latency of S is its length without the *union* of its dependents' times, cut to its own:
//! what two of them did at the same time counts once, and what a dependent did after S counts for nothing. The same holds
//! for each of the dependents with its own, so that in a tree of nested requests all true latencies sum up to the whole.

use foldhash::HashMap;

use crate::counts::SketchCounts;
use crate::follow::NamedOwner;
use crate::marker::{Marker, MarkerRule};
use crate::slices::{Edge, Ended, Key, Long, NONE, Slice, SliceId, State, Store};
use crate::tallies::{Profiles, UNKNOWN};
use crate::whole::{Sketch, Wholes};

/// How far causes are gone back.
const MAX_CHAIN: usize = 256;

#[derive(Clone, Debug, Default)]
pub struct System {
    /// Slices, by when they began to be known; a slice's number is its place.
    pub slices: Vec<Slice>,
    /// Edges between them, each pair once per rule.
    pub edges: Vec<Edge>,
    /// For each slice its sketch: the smallest number of a slice in that.
    pub sketches: Vec<SliceId>,
    /// The same as wholes, once [clusters](crate::cluster::cluster) were looked for.
    pub wholes: Wholes,
    pub keys: Vec<Key>,
    pub profiles: Profiles,
    pub threads: Vec<NamedOwner>,
    pub counts: SketchCounts,
    /// The time of the first and of the last event, nanoseconds since the epoch.
    pub span: (u64, u64),
}

impl System {
    /// Makes it of all that was followed.
    pub(crate) fn new(
        store: Store,
        threads: Vec<NamedOwner>,
        mut counts: SketchCounts,
        span: Option<(u64, u64)>,
    ) -> Self {
        let Store { slices, edges, keys, profiles, corrected, .. } = store;
        let (mut slices, places) = kept(slices);
        let mut edges = valid(edges, (&places, &corrected), &slices, &mut counts);
        drop(places);
        for edge in &edges {
            if edge.opens
                && let Some(slice) = slices.get_mut(edge.to as usize)
                && slice.cause == NONE
            {
                slice.cause = edge.from;
            }
        }
        true_latencies(&mut slices, &mut edges);
        let sketches = sketches(slices.len(), &edges);
        counts.calls_left_out =
            slices.iter().filter(|slice| slice.profile == UNKNOWN).count() as u64;
        let span = span.unwrap_or_default();
        let wholes = Wholes::default();
        let mut system =
            Self { slices, edges, sketches, wholes, keys, profiles, threads, counts, span };
        let unassigned = system.slices.iter().filter(|slice| system.is_unassigned(slice));
        system.counts.unassigned = unassigned.count() as u64;
        system
    }

    /// The work from others that a call was made in.
    fn piece(&self, call: &Slice) -> Option<&Slice> {
        self.slice(call.cause).filter(|piece| {
            piece.is_asked && piece.thread == call.thread && piece.marker != call.marker
        })
    }

    /// Whether it is an answered call of a thread that had requests to work on.
    pub fn is_call_of_server(&self, slice: &Slice) -> bool {
        matches!(slice.marker, Marker::Send(_))
            && slice.ended == Ended::Explicit
            && (slice.is_asked || self.piece(slice).is_some())
    }

    /// Whether it is such a call, and nothing says for which request it was made.
    pub fn is_unassigned(&self, slice: &Slice) -> bool {
        let is_of_none = match self.piece(slice) {
            Some(piece) => piece.cause == NONE,
            None => slice.cause == NONE,
        };
        is_of_none && self.is_call_of_server(slice)
    }

    pub fn slice(&self, id: SliceId) -> Option<&Slice> {
        self.slices.get(id as usize)
    }

    pub fn thread(&self, slice: &Slice) -> Option<&NamedOwner> {
        self.threads.get(slice.thread as usize)
    }

    pub fn key(&self, slice: &Slice) -> &Key {
        self.keys.get(slice.key as usize).unwrap_or(&Key::Other)
    }

    /// The sketch that a slice is of, as a whole.
    pub fn whole(&self, id: SliceId) -> Option<&Sketch> {
        self.wholes.get(*self.sketches.get(id as usize)?)
    }

    /// The marker of the slice with which a sketch begins.
    pub fn marker_of(&self, sketch: &Sketch) -> Option<Marker> {
        self.slice(sketch.first).map(|slice| slice.marker)
    }

    /// The sketch of a slice: its slices, and the edges within it.
    pub fn sketch(&self, id: SliceId) -> (Vec<SliceId>, Vec<Edge>) {
        let sketch = |id: SliceId| self.sketches.get(id as usize);
        let own = sketch(id);
        let slices = (0..self.slices.len() as SliceId).filter(|id| sketch(*id) == own).collect();
        let is_own = |edge: &&Edge| edge.joins && sketch(edge.from) == own;
        (slices, self.edges.iter().filter(is_own).copied().collect())
    }

    /// Each slice of some with those that it waited for, by the edges between them.
    pub fn waits(&self, edges: &[Edge]) -> Vec<(SliceId, SliceId)> {
        let mut edges = edges.to_vec();
        dependents(&self.slices, edges.iter_mut())
    }
}

/// The slices that are whole, and the new place of each.
fn kept(slices: Long<Slice>) -> (Vec<Slice>, Vec<SliceId>) {
    let mut places: Vec<SliceId> = Vec::with_capacity(slices.len());
    let mut count = 0;
    for slice in slices.iter() {
        let is_kept = slice.state == State::Kept;
        places.push(if is_kept { count } else { NONE });
        count += SliceId::from(is_kept);
    }
    for (id, slice) in slices.iter().enumerate() {
        if let State::Merged(into) = slice.state {
            let place = places.get(into as usize).copied().unwrap_or(NONE);
            if let Some(own) = places.get_mut(id) {
                *own = place;
            }
        }
    }
    let mut all = Vec::with_capacity(count as usize);
    all.extend(
        slices
            .drain()
            .filter(|slice| slice.state == State::Kept)
            .map(|slice| Slice { cause: NONE, ..slice }),
    );
    (all, places)
}

/// Edges whose cause and effect lie within the slices, each pair once per rule.
fn valid(
    edges: Long<Edge>,
    (places, corrected): (&[SliceId], &HashMap<SliceId, SliceId>),
    slices: &[Slice],
    counts: &mut SketchCounts,
) -> Vec<Edge> {
    let place = |id: SliceId| places.get(id as usize).copied().filter(|place| *place != NONE);
    let holds = |id: SliceId, at_ns: u64| {
        slices.get(id as usize).is_some_and(|slice| (slice.from_ns..=slice.to_ns).contains(&at_ns))
    };
    let mut all: Vec<Edge> = Vec::with_capacity(edges.len());
    for mut edge in edges.drain() {
        let is_wrong = |cause: &SliceId| *cause != edge.from;
        if edge.opens && corrected.get(&edge.to).is_some_and(is_wrong) {
            // Who woke a thread did so, whatever that took up.
            if edge.rule == MarkerRule::Thread {
                continue;
            }
            edge.opens = false;
        }
        let (Some(from), Some(to)) = (place(edge.from), place(edge.to)) else { continue };
        if from == to {
            continue;
        }
        // A connection that was handed on begins later for who uses it.
        let is_within = edge.rule == MarkerRule::Connection
            || (holds(from, edge.sent_ns) && holds(to, edge.received_ns));
        match is_within {
            true => all.push(Edge { from, to, ..edge }),
            false => counts.outside += 1,
        }
    }
    all.sort_unstable_by_key(|edge| (edge.from, edge.to, edge.rule, edge.sent_ns));
    all.dedup_by(|later, first| {
        let is_same = (later.from, later.to, later.rule) == (first.from, first.to, first.rule);
        if is_same {
            first.bytes = first.bytes.saturating_add(later.bytes);
            first.woke |= later.woke;
            first.opens |= later.opens;
        }
        is_same
    });
    all.shrink_to_fit();
    all
}

/// Each slice with those that it waited for; and which edges go back to what they came from.
fn dependents<'e>(
    slices: &[Slice],
    edges: impl Iterator<Item = &'e mut Edge>,
) -> Vec<(SliceId, SliceId)> {
    let cause = |id: SliceId| slices.get(id as usize).map_or(NONE, |slice| slice.cause);
    let mut pairs: Vec<(SliceId, SliceId)> = Vec::new();
    let mut chain: Vec<SliceId> = Vec::new();
    for edge in edges {
        edge.joins = edge.opens;
        if edge.opens {
            let asks = |slice: &Slice| {
                slice.ended == Ended::Explicit && matches!(slice.marker, Marker::Send(_))
            };
            if edge.rule == MarkerRule::Thread && slices.get(edge.to as usize).is_some_and(asks) {
                pairs.push((edge.from, edge.to));
            }
            continue;
        }
        chain.clear();
        let mut slice = edge.from;
        while slice != NONE && slice != edge.to && chain.len() < MAX_CHAIN {
            chain.push(slice);
            slice = cause(slice);
        }
        if slice == edge.to {
            edge.joins = true;
            pairs.extend(chain.iter().map(|dependent| (edge.to, *dependent)));
        }
    }
    pairs.sort_unstable();
    pairs.dedup();
    pairs
}

fn true_latencies(slices: &mut [Slice], edges: &mut [Edge]) {
    let pairs = dependents(slices, edges.iter_mut());
    for slice in slices.iter_mut() {
        slice.true_latency_ns = slice.latency_ns();
    }
    let mut times: Vec<(u64, u64)> = Vec::new();
    for group in pairs.chunk_by(|one, other| one.0 == other.0) {
        let Some((id, _)) = group.first() else { continue };
        let Some(&Slice { from_ns, to_ns, .. }) = slices.get(*id as usize) else { continue };
        times.clear();
        let dependents = group.iter().filter_map(|(_, id)| slices.get(*id as usize));
        let cut = |slice: &Slice| (slice.from_ns.max(from_ns), slice.to_ns.min(to_ns));
        times.extend(dependents.map(cut).filter(|(from, to)| from < to));
        let all_ns = union(&mut times);
        if let Some(slice) = slices.get_mut(*id as usize) {
            slice.true_latency_ns = slice.latency_ns().saturating_sub(all_ns);
        }
    }
}

/// How long it is that at least one of these times lasts.
fn union(times: &mut [(u64, u64)]) -> u64 {
    times.sort_unstable();
    let (mut all_ns, mut end) = (0, 0);
    for (from, to) in times.iter() {
        let from = (*from).max(end);
        if *to > from {
            all_ns += to - from;
            end = *to;
        }
    }
    all_ns
}

/// For each slice the smallest one that it is joined with.
fn sketches(count: usize, edges: &[Edge]) -> Vec<SliceId> {
    let mut first: Vec<SliceId> = (0..count as SliceId).collect();
    for edge in edges.iter().filter(|edge| edge.joins) {
        let (one, other) = (root(&mut first, edge.from), root(&mut first, edge.to));
        let (small, large) = (one.min(other), one.max(other));
        if let Some(place) = first.get_mut(large as usize) {
            *place = small;
        }
    }
    for id in 0..count as SliceId {
        let smallest = root(&mut first, id);
        if let Some(place) = first.get_mut(id as usize) {
            *place = smallest;
        }
    }
    first
}

fn root(first: &mut [SliceId], mut id: SliceId) -> SliceId {
    while let Some(&next) = first.get(id as usize)
        && next != id
    {
        // Halves the way for those that come after.
        let after = first.get(next as usize).copied().unwrap_or(next);
        if let Some(place) = first.get_mut(id as usize) {
            *place = after;
        }
        id = after;
    }
    id
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop, prop_assert_eq, proptest};

    use super::*;
    use crate::tallies::Idle;

    #[test]
    fn what_caused_a_slice_is_what_was_found_last() {
        let mut store = Store::default();
        for _ in 0..4 {
            let id = store.open(Marker::Pipe, 0, 0, 0);
            store.close(id, Ended::Implicit, 9, &Idle::default(), Vec::new());
        }
        let opening = |rule, from| Edge { opens: true, ..Edge::new(rule, (from, 1), (3, 2), 0) };
        // Two posted it, and the first one seemed to be its cause.
        store.edge(opening(MarkerRule::Bytes, 1));
        store.edge(opening(MarkerRule::Bytes, 0));
        store.undo(1, 3);
        store.edge(opening(MarkerRule::Answer, 2));
        let system = System::new(store, Vec::new(), SketchCounts::default(), None);
        assert_eq!(system.slice(3).map(|slice| slice.cause), Some(2));
        let opens: Vec<bool> = system.edges.iter().map(|edge| edge.opens).collect();
        assert_eq!(opens, [false, false, true]);
    }

    proptest! {
        #[test]
        fn a_union_counts_each_moment_once(
            times in prop::collection::vec((0..100u64, 0..30u64), 0..20),
        ) {
            let mut times: Vec<_> = times.iter().map(|(from, long)| (*from, from + long)).collect();
            let is_in = |at: &u64| times.iter().any(|(from, to)| (*from..*to).contains(at));
            let expected = (0..200).filter(is_in).count() as u64;
            prop_assert_eq!(union(&mut times), expected);
        }

        #[test]
        fn sketches_are_what_edges_connect(
            edges in prop::collection::vec((0..40u32, 0..40u32), 0..60),
        ) {
            let edge = |(from, to): &(u32, u32)| Edge {
                joins: true,
                ..Edge::new(MarkerRule::Bytes, (*from, 0), (*to, 0), 0)
            };
            let all: Vec<Edge> = edges.iter().map(edge).collect();
            // By spreading the smallest number until nothing changes.
            let mut expected: Vec<u32> = (0..40).collect();
            for _ in 0..40 {
                for (one, other) in &edges {
                    let least = expected[*one as usize].min(expected[*other as usize]);
                    expected[*one as usize] = least;
                    expected[*other as usize] = least;
                }
            }
            prop_assert_eq!(sketches(40, &all), expected);
        }
    }
}
