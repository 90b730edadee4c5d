//! Clients that are refused for what they show of themselves, in the log: each with its reason once a minute, so that one
//! that tries without pause does not fill it.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::peer::Peer;

/// From one line to the next about the same.
const AGAIN: Duration = Duration::from_secs(60);
/// Lines in that time.
const MOST: usize = 32;

/// Those that were said of late.
#[derive(Debug, Default)]
pub struct Refusals(Mutex<VecDeque<(Peer, String, Instant)>>);

impl Refusals {
    /// Whether this is to be said now.
    pub fn is_news(&self, peer: Peer, why: &str, now: Instant) -> bool {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        said.retain(|(.., at)| now.saturating_duration_since(*at) < AGAIN);
        let is_known = said.iter().any(|(whose, what, _)| *whose == peer && what == why);
        if is_known || said.len() >= MOST {
            return false;
        }
        said.push_back((peer, why.to_owned(), now));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_said_once_a_minute_and_few_in_all() {
        let (refusals, now) = (Refusals::default(), Instant::now());
        let peer = |number: u8| Peer::at([10, 0, 0, number].into());
        assert!(refusals.is_news(peer(1), "old", now));
        assert!(!refusals.is_news(peer(1), "old", now + AGAIN / 2));
        assert!(refusals.is_news(peer(1), "unknown", now) && refusals.is_news(peer(2), "old", now));
        assert!(refusals.is_news(peer(1), "old", now + AGAIN));
        let many = (0..=255).filter(|number| refusals.is_news(peer(*number), "x", now + AGAIN));
        assert_eq!(many.count(), MOST - 1);
    }
}
