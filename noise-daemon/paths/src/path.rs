//! A critical path: what a span of time was spent on, worker by worker, without a gap.

use std::collections::{BTreeMap, BTreeSet};

use crate::graph::WorkerId;
use crate::state::{Action, State};
use crate::via::ViaId;

/// Why nothing better is known of a part of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Why {
    /// A sleep that no worker is known to have ended.
    NoWaker,
    /// The trace has nothing of the worker before the part's end.
    NoHistory,
    /// A bound of depth or work was reached: see [`Bounds`](crate::walk::Bounds).
    Cut,
}

/// Who waits for a worker, in a sleep that this one ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Awaited {
    pub by: WorkerId,
    /// How the one acts on the other in the end.
    pub action: Action,
    pub via: ViaId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A worker is in a state.
    Stay {
        worker: WorkerId,
        /// From then on, in nanoseconds.
        from_ns: u64,
        to_ns: u64,
        state: State,
        /// On which CPU, [`NO_CPU`](crate::graph::NO_CPU) where on none.
        cpu: u32,
        /// The worker that handled the interrupt which ended a sleep.
        through: Option<WorkerId>,
        /// Who waits for the worker meanwhile.
        awaited: Option<Awaited>,
        /// Why nothing better is known.
        why: Option<Why>,
        /// How many sleeps lie around it, each of another worker than the one inside.
        depth: u32,
    },
    /// The path goes from one worker to another, in no time or while a packet is on its way.
    Go {
        from: WorkerId,
        to: WorkerId,
        /// From then on, in nanoseconds.
        from_ns: u64,
        to_ns: u64,
        /// How the one acts on the other; `None` where the path goes to who will wake a worker that begins to
        /// sleep, and where it ends within such a sleep.
        action: Option<Action>,
        via: ViaId,
    },
}

impl Step {
    /// From when until when, in nanoseconds.
    pub const fn span(&self) -> (u64, u64) {
        match self {
            Self::Stay { from_ns, to_ns, .. } | Self::Go { from_ns, to_ns, .. } => {
                (*from_ns, *to_ns)
            }
        }
    }

    /// Both as one, where the next one goes on with the same.
    fn joined(&self, next: &Self) -> Option<Self> {
        let (Self::Stay { to_ns, .. }, Self::Stay { to_ns: next_ns, from_ns: begin_ns, .. }) =
            (*self, *next)
        else {
            return None;
        };
        let mut joined = *next;
        if let (Self::Stay { from_ns, .. }, Self::Stay { from_ns: since_ns, .. }) =
            (&mut joined, self)
        {
            *from_ns = *since_ns;
        }
        let mut longer = *self;
        if let Self::Stay { to_ns, .. } = &mut longer {
            *to_ns = next_ns;
        }
        (longer == joined && to_ns == begin_ns).then_some(joined)
    }

    pub const fn first(&self) -> WorkerId {
        match self {
            Self::Stay { worker, .. } => *worker,
            Self::Go { from, .. } => *from,
        }
    }

    pub const fn last(&self) -> WorkerId {
        match self {
            Self::Stay { worker, .. } => *worker,
            Self::Go { to, .. } => *to,
        }
    }

    /// The worker that handled the interrupt which ended a sleep.
    pub const fn through(&self) -> Option<WorkerId> {
        match self {
            Self::Stay { through, .. } => *through,
            Self::Go { .. } => None,
        }
    }

    pub const fn ns(&self) -> u64 {
        let (from_ns, to_ns) = self.span();
        to_ns.saturating_sub(from_ns)
    }

    pub fn state(&self) -> State {
        match self {
            Self::Stay { state, .. } => *state,
            Self::Go { action, .. } => action.map_or(State::Unknown, Action::state),
        }
    }
}

/// The critical path of a worker's span.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// From the begin of the span to its end. Each begins where and with whom the one before ended.
    pub steps: Vec<Step>,
    /// Sleeps that were left as they are because a bound of depth or work was reached.
    pub cut: u64,
    /// Points that the walk looked at to replace sleeps.
    pub looked_at: u64,
}

impl Path {
    /// From when until when, in nanoseconds.
    pub fn span(&self) -> Option<(u64, u64)> {
        Some((self.steps.first()?.span().0, self.steps.last()?.span().1))
    }

    /// Appends what follows on it: steps that take time, equal neighbours as one.
    pub fn go_on(&mut self, more: Self) {
        self.cut = self.cut.saturating_add(more.cut);
        self.looked_at = self.looked_at.saturating_add(more.looked_at);
        for step in more.steps.into_iter().filter(|step| step.ns() > 0) {
            match self.steps.last_mut().and_then(|last| last.joined(&step)) {
                Some(joined) => {
                    self.steps.pop();
                    self.steps.push(joined);
                }
                None => self.steps.push(step),
            }
        }
    }

    /// Time by state, in nanoseconds; sums to the span.
    pub fn totals(&self) -> BTreeMap<State, u64> {
        let mut totals: BTreeMap<State, u64> = BTreeMap::new();
        for step in self.steps.iter().filter(|step| step.ns() > 0) {
            let total = totals.entry(step.state()).or_default();
            *total = total.saturating_add(step.ns());
        }
        totals
    }

    pub fn workers(&self) -> BTreeSet<WorkerId> {
        self.steps.iter().flat_map(|step| [step.first(), step.last()]).collect()
    }

    /// What is wrong with it as the path of a worker's span: a gap, an overlap, a jump to another worker, time
    /// outside. A path of [`walk`](crate::walk::walk) has no fault.
    pub fn fault(&self, worker: WorkerId, from_ns: u64, to_ns: u64) -> Option<String> {
        let mut at = (worker, from_ns);
        for step in &self.steps {
            let (begin_ns, end_ns) = step.span();
            if (step.first(), begin_ns) != at || end_ns < begin_ns {
                return Some(format!("{step:?} does not follow on {at:?}"));
            }
            at = (step.last(), end_ns);
        }
        let is_whole = at == (worker, to_ns);
        (!is_whole).then(|| format!("it ends with {at:?}, not {:?}", (worker, to_ns)))
    }
}
