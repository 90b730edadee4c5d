//! PURE: how a hook fares.

use noise_common::hooks::{Attach, Hook};

/// How one hook fares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookState {
    Loaded(Attach),
    Attached(Attach),
    /// This kernel has no such tracepoint.
    Absent,
    /// The kernel refused it; its words.
    Refused(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookStatus {
    pub hook: Hook,
    pub state: HookState,
}

impl HookStatus {
    /// Whether its program runs.
    pub fn is_attached(&self) -> bool {
        matches!(self.state, HookState::Attached(_))
    }
}
