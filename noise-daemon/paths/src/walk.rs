//! The bounded backward walk: of each sleep, what its waker did meanwhile takes its place.
//!
//! Going backward from the wake-up, running, waiting for a CPU and what a device or a timer explains are
//! copied; a sleep that another worker ended is replaced in the same way, never before the begin of the one
//! around it. Where a worker's history ends within the sleep, the walk goes back to the latest place on its
//! way where another worker acted on it (who created it, who sent it a packet), and follows that one instead.
//! What is left is unknown.
//!
//! The work is bounded: see [`Bounds`].

use std::collections::HashMap;

use crate::graph::{Graph, LinkOrigin, NO_CPU, Point, PointPlace, WorkerId};
use crate::path::{Awaited, Path, Step, Why};
use crate::state::State;
use crate::via::ViaId;

/// How far a walk goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    pub depth: u32,
    /// Points that it looks at to replace sleeps.
    pub points: u64,
}

impl Default for Bounds {
    /// A chain of 256 workers that wait for each other is longer than any that one can read; sixteen million
    /// points are looked at in about a second.
    fn default() -> Self {
        Self { depth: 256, points: 1 << 24 }
    }
}

/// Several walks one after the other, which are bounded together: at most 2^26 points.
pub struct Walks {
    left: u64,
}

impl Default for Walks {
    fn default() -> Self {
        Self::of(1 << 26)
    }
}

impl Walks {
    /// So many points at most.
    pub fn of(points: u64) -> Self {
        Self { left: points }
    }

    /// Whether none is left: the next one would follow no sleep.
    pub fn is_spent(&self) -> bool {
        self.left == 0
    }

    /// The next [`walk`].
    pub fn walk(&mut self, graph: &Graph, id: WorkerId, from_ns: u64, to_ns: u64) -> Option<Path> {
        self.walk_within(graph, id, (from_ns, to_ns), Bounds::default().points)
    }

    /// The same of a part of a path, which has so many points left.
    pub fn walk_within(
        &mut self,
        graph: &Graph,
        id: WorkerId,
        (from_ns, to_ns): (u64, u64),
        left: u64,
    ) -> Option<Path> {
        let bounds = Bounds { points: left.min(self.left), ..Bounds::default() };
        let path = walk(graph, id, from_ns, to_ns, bounds)?;
        self.left = self.left.saturating_sub(path.looked_at);
        Some(path)
    }
}

/// The critical path of a worker between two times, as far as the graph has points of it: the path begins and
/// ends with its first and last point where the times lie outside. A sleep that lasts beyond the end is replaced
/// by what its waker did up to then. `None` where the worker has no time in that span.
pub fn walk(graph: &Graph, id: WorkerId, from_ns: u64, to_ns: u64, bounds: Bounds) -> Option<Path> {
    let worker = graph.get(id)?;
    let (first_ns, last_ns) = worker.span()?;
    let (from_ns, to_ns) = (from_ns.max(first_ns), to_ns.min(last_ns));
    if to_ns < from_ns {
        return None;
    }
    let mut path = Path::default();
    let first = worker.last_until(from_ns)?;
    let mut search = SleepReplacement { graph, left: bounds.points, depth: bounds.depth, cut: 0 };
    for number in first.saturating_add(1)..worker.numbers().end {
        let (Some(before), Some(point)) = (worker.point(number - 1), worker.point(number)) else {
            continue;
        };
        if before.time_ns >= to_ns {
            break;
        }
        let begin_ns = before.time_ns.max(from_ns);
        let place = PointPlace { worker: id, number };
        let cuts = search.cut;
        let steps = match point.state.is_some_and(State::is_replaced) {
            true => search.resolve(place, point, begin_ns, OUTERMOST),
            false => Vec::new(),
        };
        if steps.is_empty() {
            let cut = (search.cut > cuts).then_some(Why::Cut);
            path.steps.push(stay(id, point, (begin_ns, point.time_ns), OUTERMOST, cut));
        } else {
            join(&mut path.steps, id, begin_ns, steps);
        }
    }
    (path.cut, path.looked_at) = (search.cut, bounds.points.saturating_sub(search.left));
    end(&mut path.steps, id, to_ns);
    if path.steps.is_empty() {
        // A moment: there is nothing to replace.
        return None;
    }
    Some(path)
}

/// Cuts off what lies after the end, and goes back to the worker where that is within one of its sleeps.
fn end(steps: &mut Vec<Step>, id: WorkerId, end_ns: u64) {
    let is_beyond = |step: &Step| step.span().1 > end_ns && step.span().0 >= end_ns;
    while steps.last().is_some_and(is_beyond) {
        steps.pop();
    }
    let Some(last) = steps.last_mut() else { return };
    let (Step::Stay { to_ns, .. } | Step::Go { to_ns, .. }) = last;
    *to_ns = (*to_ns).min(end_ns);
    let last = last.last();
    if last != id {
        let (from, to) = (last, id);
        steps.push(jump(from, to, end_ns));
    }
}

/// The path goes from one worker to another in no time, without an action.
fn jump(from: WorkerId, to: WorkerId, at_ns: u64) -> Step {
    Step::Go { from, to, from_ns: at_ns, to_ns: at_ns, action: None, via: ViaId::default() }
}

/// How many sleeps lie around what a walk is at, and who sleeps in the innermost of them.
type Inside = (u32, Option<Awaited>);
const OUTERMOST: Inside = (0, None);

/// A part of a worker's time, as its graph has it.
fn stay(
    worker: WorkerId,
    point: &Point,
    (from_ns, to_ns): (u64, u64),
    (depth, awaited): Inside,
    cut: Option<Why>,
) -> Step {
    let state = point.state.unwrap_or(State::Unknown);
    let why = match state {
        State::Unknown => Some(Why::NoHistory),
        _ if state.is_replaced() => Some(cut.unwrap_or(Why::NoWaker)),
        _ => None,
    };
    let Point { cpu, through, .. } = *point;
    Step::Stay { worker, from_ns, to_ns, state, cpu, through, awaited, why, depth }
}

/// Appends what replaces a sleep, the latest first, with a step to whom it begins with and between those that
/// do not follow on each other.
fn join(steps: &mut Vec<Step>, sleeper: WorkerId, begin_ns: u64, replacement: Vec<Step>) {
    let mut at = (sleeper, begin_ns);
    for step in replacement.into_iter().rev() {
        if step.first() != at.0 {
            let (from, to) = (at.0, step.first());
            steps.push(jump(from, to, at.1));
        }
        at = (step.last(), step.span().1);
        steps.push(step);
    }
}

struct SleepReplacement<'g> {
    graph: &'g Graph,
    /// Points that may still be looked at.
    left: u64,
    depth: u32,
    /// Sleeps that were left as they are because of a bound.
    cut: u64,
}

impl SleepReplacement<'_> {
    /// What the waker of a sleep did from `bound_ns` on until it woke the sleeper, the latest first. Nothing
    /// where no waker is known, or a bound is reached.
    fn resolve(
        &mut self,
        place: PointPlace,
        point: &Point,
        bound_ns: u64,
        around: Inside,
    ) -> Vec<Step> {
        let (depth, _) = around;
        let Some(link) = point.link else { return Vec::new() };
        if link.from.worker == place.worker {
            // Its own doing: what it is says what the sleep was.
            let state = Some(link.action.state());
            let labelled = Point { state, ..*point };
            return vec![stay(place.worker, &labelled, (bound_ns, point.time_ns), around, None)];
        }
        if depth >= self.depth || self.left == 0 {
            self.cut = self.cut.saturating_add(1);
            return Vec::new();
        }
        let mut steps = vec![go(link, place, point.time_ns, bound_ns)];
        let inside_of = |link: LinkOrigin, to: PointPlace| {
            let LinkOrigin { action, via, .. } = link;
            (depth + 1, Some(Awaited { by: to.worker, action, via }))
        };
        let mut inside_here = inside_of(link, place);
        // Where a link could be followed instead, with the number of steps up to there.
        let mut turns: Vec<(LinkOrigin, PointPlace, u64, usize)> = Vec::new();
        // Up to which point of a worker all that could be followed instead led nowhere.
        let mut dead: HashMap<WorkerId, u32> = HashMap::new();
        let mut here = link.from;
        let mut here_ns = link.time_ns;
        let mut entry = here;
        let mut why = Why::NoHistory;
        while here_ns > bound_ns {
            if self.left == 0 {
                self.cut = self.cut.saturating_add(1);
                why = Why::Cut;
                break;
            }
            self.left -= 1;
            let is_dead = dead.get(&here.worker).is_some_and(|until| here.number <= *until);
            if let Some((link, to, to_ns, length)) = turns.pop_if(|_| is_dead) {
                bury(&mut dead, entry);
                steps.truncate(length);
                steps.push(go(link, to, to_ns, bound_ns));
                (here, here_ns, entry) = (link.from, link.time_ns, link.from);
                inside_here = inside_of(link, to);
                continue;
            }
            let now = self.graph.point(here);
            let before = here.number.checked_sub(1);
            let before = before.map(|number| PointPlace { worker: here.worker, number });
            let since = before.and_then(|place| Some((place, self.graph.point(place)?)));
            let is_sleep = now.and_then(|now| now.state).is_some_and(State::is_replaced);
            if let Some(link) = now.and_then(|now| now.link).filter(|_| !is_sleep && !is_dead) {
                turns.push((link, here, here_ns, steps.len()));
            }
            let edge = now.filter(|now| now.state.is_some()).zip(since);
            if let Some((now, (before, since))) = edge {
                let begin_ns = since.time_ns.max(bound_ns);
                let cuts = self.cut;
                let inside = match is_sleep {
                    true => self.resolve(here, now, begin_ns, inside_here),
                    false => Vec::new(),
                };
                if inside.is_empty() {
                    let cut = (self.cut > cuts).then_some(Why::Cut);
                    steps.push(stay(here.worker, now, (begin_ns, here_ns), inside_here, cut));
                } else {
                    steps.extend(inside);
                }
                (here, here_ns) = (before, begin_ns);
            } else if let Some((link, to, to_ns, length)) = turns.pop() {
                bury(&mut dead, entry);
                steps.truncate(length);
                steps.push(go(link, to, to_ns, bound_ns));
                (here, here_ns, entry) = (link.from, link.time_ns, link.from);
                inside_here = inside_of(link, to);
            } else {
                break;
            }
        }
        if here_ns > bound_ns {
            steps.push(Step::Stay {
                worker: here.worker,
                from_ns: bound_ns,
                to_ns: here_ns,
                state: State::Unknown,
                cpu: NO_CPU,
                through: None,
                awaited: inside_here.1,
                why: Some(why),
                depth: depth + 1,
            });
        }
        steps
    }
}

/// Nothing leads on from a worker up to that point.
fn bury(dead: &mut HashMap<WorkerId, u32>, entry: PointPlace) {
    let until = dead.entry(entry.worker).or_default();
    *until = entry.number.max(*until);
}

/// A link as a step, not before the bound.
fn go(link: LinkOrigin, to: PointPlace, to_ns: u64, bound_ns: u64) -> Step {
    let from_ns = link.time_ns.max(bound_ns);
    let LinkOrigin { from, action, via, .. } = link;
    Step::Go { from: from.worker, to: to.worker, from_ns, to_ns, action: Some(action), via }
}

#[cfg(test)]
mod tests {
    use noise_trace::event::Comm;

    use super::*;
    use crate::graph::Who;
    use crate::state::Action;
    use crate::via::Via;

    const TURNS: u64 = 100;
    const END_NS: u64 = 20 * TURNS;

    /// A worker that sleeps until the end, and of those that might have woken it nothing is known but who woke them.
    fn unknown() -> (Graph, WorkerId) {
        let mut graph = Graph::default();
        let mut add = |tid| graph.add(Who::Thread { machine: 0, tid }, Comm::default());
        let (sleeper, one, other) = (add(1), add(2), add(3));
        graph.append(sleeper, 0, None, NO_CPU);
        // Each time the other one.
        let mut place: Option<PointPlace> = None;
        for turn in 1..=2 * TURNS {
            let worker = if turn % 2 == 0 { one } else { other };
            let next = graph.append(worker, 10 * turn, Some(State::Unknown), NO_CPU);
            if let Some(place) = place.filter(|_| turn > 2) {
                graph.link(place, next, Action::Wakes, Via::default());
            }
            place = Some(next);
        }
        let woken = graph.append(sleeper, END_NS, Some(State::Blocked), NO_CPU);
        graph.link(place.unwrap(), woken, Action::Wakes, Via::default());
        (graph, sleeper)
    }

    #[test]
    fn ways_that_lead_nowhere_are_gone_once() {
        let (graph, sleeper) = unknown();
        let bounds = Bounds { points: 10 * TURNS, ..Bounds::default() };
        let path = walk(&graph, sleeper, 0, END_NS, bounds).unwrap();
        assert_eq!(path.fault(sleeper, 0, END_NS), None);
        assert_eq!(path.cut, 0);
    }

    #[test]
    fn walks_are_bounded_together() {
        let (graph, sleeper) = unknown();
        let once = walk(&graph, sleeper, 0, END_NS, Bounds::default()).unwrap().looked_at;
        assert!(once > TURNS, "{once}");
        let mut walks = Walks::of(2 * once + 1);
        let mut walk = || {
            let path = walks.walk(&graph, sleeper, 0, END_NS).unwrap();
            (path.cut, path.looked_at, walks.is_spent())
        };
        let found: Vec<_> = (0..3).map(|_| walk()).collect();
        assert_eq!(found, [(0, once, false), (0, once, false), (1, 1, true)]);
    }
}
