//! Where frames come from.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::wire::Frame;

/// What a source has to say.
pub enum News {
    /// The next frame.
    Frame(Arc<Frame>),
    /// Why none comes.
    Trouble(String),
}

/// Where frames come from.
pub trait Source: Send {
    /// What it is called.
    fn name(&self) -> String;
    /// Waits at most that long for news.
    fn poll(&mut self, timeout: Duration) -> Option<News>;
    /// How often frames shall come.
    fn set_interval(&mut self, interval: Duration);
    /// Where the replay is, if it is one.
    fn replay(&mut self) -> Option<&mut dyn Replay> {
        None
    }
}

/// A recording that is played.
pub trait Replay {
    /// Where it is.
    fn position(&self) -> Position;
    /// Goes so many frames on, or back; gives the frames of the two minutes before, oldest first.
    fn step(&mut self, steps: i64) -> Vec<Arc<Frame>>;
    /// Goes to a time; gives the frames of the two minutes before, oldest first.
    fn seek_to(&mut self, time: Timestamp) -> Vec<Arc<Frame>>;
}

/// A place in a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Of which frame, from 0.
    pub index: usize,
    /// How many there are.
    pub frames: usize,
    /// When it was taken.
    pub time: Timestamp,
}
