//! Where frames come from, as the view sees it.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use noise_wire::Frame;

/// What a source has to say.
#[derive(Clone, Debug, PartialEq)]
pub enum News {
    Frame(Arc<Frame>),
    /// Why there are no frames, in a sentence. It holds until the next frame, or the next trouble.
    Trouble(String),
}

/// Where frames come from.
pub trait FrameSource: Send {
    /// What it is, for the header.
    fn name(&self) -> String;
    /// Waits at most that long for news; not at the end of a recording, where there are none.
    fn poll(&mut self, timeout: Duration) -> Option<News>;
    /// How often frames shall come.
    fn set_interval(&mut self, interval: Duration);
    /// Where the replay is, if it is one.
    fn replay(&mut self) -> Option<&mut dyn Replay> {
        None
    }
}

/// A source that can be moved in time. It goes on as long as it is polled.
///
/// Each move returns the frames of the two minutes before the new position, oldest first; the last
/// of them is the one at the new position. What cannot be read is missing, and is news where it is the one at that
/// position.
pub trait Replay {
    fn position(&self) -> Position;
    /// Moves by so many frames, back where negative; not beyond the first and the last.
    fn step(&mut self, steps: i64) -> Vec<Arc<Frame>>;
    /// Moves to the last frame that is not younger.
    fn seek_to(&mut self, time: Timestamp) -> Vec<Arc<Frame>>;
    /// What cannot be read where it is now, once.
    fn trouble(&mut self) -> Option<String>;
}

/// Where a replay is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Index of the frame that was shown last.
    pub index: usize,
    /// How many there are.
    pub frames: usize,
}
