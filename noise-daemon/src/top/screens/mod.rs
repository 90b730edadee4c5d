//! The screens: each a table, and what one of its rows opens, as pure functions of the history.

mod cells;
pub mod cpu;
pub mod irq;
pub mod overview;
mod recent;
mod tally;
mod totals;
