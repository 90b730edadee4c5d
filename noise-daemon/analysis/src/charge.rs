//! PURE: a charge of an amount of delay to who caused it.

use noise_common::charge::Cause;

use super::name::Name;

/// Part of the delays of a window, charged to who caused it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Charge {
    pub culprit: Name,
    pub cause: Cause,
    pub charged_ns: u64,
}
