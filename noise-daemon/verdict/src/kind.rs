//! A verdict in a word.

use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Something held it up, more than usual or, where that is not known, at all.
    HeldUp,
    /// What held it up is as usual.
    AsUsual,
    /// Nothing held it up.
    Nothing,
    /// Nothing is known to be wrong: what its sleeps were for is not known, or it is, but not whether that is usual.
    Unknown,
}
