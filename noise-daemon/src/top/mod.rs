//! `noised top`: the view that people keep open.
//!
//! PURE but for [`term`](self) things: frames come in, and what is on the screen is a function of
//! them and of the keys that were pressed. Each screen makes a [`Table`] or blocks of a [`Page`];
//! the application sorts, filters, exports and draws them all alike.

pub mod history;
pub mod page;
pub mod source;
pub mod sources;
pub mod table;

pub use history::{History, Span, Step};
pub use page::{Block, Heatmap, Page};
pub use source::{News, Position, Replay, Source};
pub use table::{Align, Cell, Column, Row, Table, Tone};
