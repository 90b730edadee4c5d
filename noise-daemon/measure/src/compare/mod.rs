//! PURE: two reports of detours, source by source: is there less noise, or more, or is that unknown?
//!
//! Compared are rates per second of one CPU: time lost to detours, and how many there were. A
//! source's share of a detour is that of [`Shares`](super::Shares).
//!
//! # How sure
//! Detours come in bursts and in beats, so they are not drawn independently. Each report is cut
//! into slices of time, of all its CPUs at once, because noise also hits several CPUs together; the
//! slices are at least [`SLICE_NS`] long, ten ticks of the slowest kernel (100 Hz). Slices are drawn
//! again by the *stationary bootstrap* (Politis & Romano, *The Stationary Bootstrap*, Journal of the
//! American Statistical Association 89, 1994): in runs that begin anywhere, go round at the end, and
//! have a geometric length, 2 K^(1/3) slices in the mean for K slices: the order that minimises the
//! error of the variance, doubled, as too short a run makes intervals too narrow. The interval is
//! that of the quantiles of the drawn differences. Where noise comes in bursts of 0.3 s, 90 of 100
//! intervals of 95 % hold over half a minute (73 where slices are drawn one by one), and 96 of 100
//! where it comes at random.
//!
//! *More* or *less* is said where the interval leaves out zero. The interval knows what happened
//! within the two measurements, and nothing of what differs from day to day: measure twice what is
//! not to be a coincidence. Of twenty sources that did not change, one is expected to be called
//! changed at a confidence of 95 %.

#![cfg_attr(not(test), deny(clippy::disallowed_types))]

mod bootstrap;
mod comparison;
mod series;
#[cfg(test)]
mod tests;
mod verdict;

pub use comparison::{CompareOptions, ComparedSource, Comparison, Side, compare};
pub use series::SLICE_NS;
pub use verdict::{Estimate, Figure, SampleVerdict};
