//! `noised top`: the view that people keep open.
//!
//! PURE but for [`term`](self) things: frames come in, and what is on the screen is a function of
//! them and of the keys that were pressed. Each screen makes a [`Table`] or blocks of a [`Page`];
//! the application sorts, filters, exports and draws them all alike.

pub mod heat;
pub mod history;
pub mod look;
pub mod page;
pub mod pairs;
pub mod screens;
pub mod table;
pub mod units;

#[cfg(test)]
mod generated;

pub use history::{History, Span, Step};
pub use look::Look;
pub use page::{Block, Heatmap, Page};
pub use table::{Align, Cell, Column, Row, Table, Tone};
