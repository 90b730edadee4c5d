//! What a thread took up and answered of requests that other threads receive, in its order.

use crate::slices::SliceId;

/// A thread, and which of its answers.
pub type Stint = (u32, u32);

#[derive(Clone, Copy, Debug)]
pub enum StintItem {
    /// It took up a piece of work.
    Piece(SliceId),
    /// It answered a request that another thread received, or none that is known.
    Answer { request: SliceId, reader: u32, is_behind_loss: bool },
    /// It sleeps until there is more.
    Ends,
}

/// What a thread does for requests that other threads receive.
#[derive(Clone, Debug, Default)]
pub struct Stints {
    pub items: Vec<StintItem>,
    /// Answers so far, and on which connection the latest goes on.
    pub number: u32,
    pub answering: Option<u32>,
    /// It answered what others received.
    pub has_answered: bool,
    /// Events of it were lost, and since then it did not sleep in its queue.
    pub is_behind_loss: bool,
    /// Pieces of work that were for the request that the thread was woken for, and others.
    pub agreed: u32,
    pub disagreed: u32,
}

impl Stints {
    pub fn new(is_behind_loss: bool) -> Self {
        Self { is_behind_loss, ..Self::default() }
    }

    /// Events of the thread were lost.
    pub fn lose(&mut self) {
        self.ends();
        self.is_behind_loss = true;
    }

    pub fn ends(&mut self) {
        self.answering = None;
        if !matches!(self.items.last(), None | Some(StintItem::Ends)) {
            self.items.push(StintItem::Ends);
        }
    }
}
