//! What measured noise does to a bulk-synchronous program on many nodes. PURE.
//!
//! On every CPU of a node runs one process. In each phase every process computes for the
//! *granularity* g, then all of all nodes wait for the slowest. The *slowdown* is the expected time
//! by which a phase is longer than g, over g: 0.25 = a quarter longer, 25 = twenty-six times as long.
//!
//! The delay of one phase on one CPU is defined in [`lane`](self::lane), from the whole length of
//! each detour: the undisturbed pass of the measuring loop that it includes (tens of ns) is not
//! taken off, against thresholds of a microsecond it is negligible, and overheads stay those of the
//! report. A node is as late as its slowest CPU, at the same measured time: what hits several CPUs
//! of a node at once is counted once. Between nodes there are two extremes:
//!
//! - *independent*: each node draws a start of its own from the measurement; the expected largest
//!   of N delays is computed exactly from their distribution. Two kinds of start are shown, see
//!   [`Start`]: which applies depends on what sets the moment of a phase's begin.
//! - *co-scheduled*: all nodes are hit at the same moment (synchronised clocks, gang scheduling);
//!   then the number of nodes does not matter.

#![cfg_attr(not(test), deny(clippy::disallowed_types))]

mod forecast;
mod lane;
mod node;
mod periodic;
mod play;
mod ranking;
mod spread;
mod trace;
#[cfg(test)]
mod trace_tests;

pub use forecast::{Forecast, ForecastRow, PlayedRow, Question, Scaled, of_noise, of_periodic};
pub use node::{Node, Start};
pub use periodic::Periodic;
pub use play::{Game, Played, drawn, in_time};
pub use ranking::{Ranked, Ranking, rank};
pub use trace::{Noise, Trace, TraceError};
