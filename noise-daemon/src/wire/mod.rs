//! Frames: what the daemon tells the terminal view, and what is recorded of it.

mod frame;

pub use frame::{Frame, Host};
