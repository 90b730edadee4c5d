//! The screens, each a pure function of the last minutes.

mod cells;
pub mod disk_net;
mod disk_net_page;
mod heat;
pub mod incidents;
mod incidents_page;
#[cfg(test)]
mod made;
mod recent;
pub mod who;
mod who_page;
