//! News between the thread that gets them and the one that shows them.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::source::News;

/// News that wait; the oldest give way. A view that is late wants the newest.
const MOST: usize = 4;

/// News that were not looked at yet.
#[derive(Debug, Default)]
pub struct Mailbox {
    news: Mutex<VecDeque<News>>,
    came: Condvar,
}

impl Mailbox {
    pub fn put(&self, news: News) {
        let mut waiting = self.news.lock().unwrap_or_else(PoisonError::into_inner);
        while waiting.len() >= MOST {
            waiting.pop_front();
        }
        waiting.push_back(news);
        self.came.notify_one();
    }

    /// Takes the oldest; waits for one at most that long.
    pub fn take(&self, timeout: Duration) -> Option<News> {
        let waiting = self.news.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.came.wait_timeout_while(waiting, timeout, |news| news.is_empty());
        waited.unwrap_or_else(PoisonError::into_inner).0.pop_front()
    }
}
