//! The screens: each a table, and what one of its rows opens, as pure functions of the history.

mod cells;
pub mod cpu;
pub mod disk_net;
pub mod incidents;
pub mod irq;
#[cfg(test)]
mod made;
pub mod overview;
mod recent;
mod tally;
mod totals;
pub mod who;
