//! `noised top`: the view that people keep open.
//!
//! PURE but for [`live`], [`watching`] and [`term`]: frames come in, and what is on the screen is a function of
//! them and of the keys that were pressed. Each screen makes a [`Table`] or blocks of a [`Page`];
//! the application sorts, filters, exports and draws them all alike.

#![cfg_attr(not(test), deny(clippy::disallowed_macros, clippy::disallowed_methods))]

pub mod app;
pub mod arrange;
pub mod columns;
pub mod draw;
pub mod export;
pub mod heat;
pub mod history;
pub mod input;
pub mod live;
pub mod look;
pub mod page;
pub mod pairs;
pub mod screens;
pub mod services;
pub mod table;
mod term;
pub mod text;
pub mod typing;
pub mod view;
pub mod watching;

#[cfg(test)]
mod app_tests;
#[cfg(test)]
mod draw_tests;
#[cfg(test)]
mod generated;
#[cfg(test)]
mod recorded_tests;
#[cfg(test)]
mod sampled;

pub use history::History;
pub use look::ScreenLook;
pub use page::{Block, Heatmap, Page};
pub use screens::{SCREENS, Screen};
pub use table::{Align, Cell, Column, Table, TableRow, Tone};
