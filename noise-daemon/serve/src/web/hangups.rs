//! Connections that this daemon ended before their clients were done, counted by reason.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::task::AbortHandle;

noise_common::named! {
    /// Why a connection is ended; where there is a choice, the first first.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum HangupReason all HANGUP_REASONS {
        /// No request comes over it, and others wait for a connection.
        Unused = "unused",
        /// It takes its answer slowly, or has taken one of events for long, and others wait.
        Slow = "slow",
        /// Its client exceeded a timeout: for TLS, a request or an answer.
        Late = "late",
    }
}

/// How many were ended, over all listeners that have it.
#[derive(Clone, Debug, Default)]
pub struct Hangups(Arc<[AtomicU64; HANGUP_REASONS.len()]>);

impl Hangups {
    pub fn count(&self, why: HangupReason) {
        self.0[why as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        HANGUP_REASONS
            .into_iter()
            .map(|why| (why.name(), self.0[why as usize].load(Ordering::Relaxed)))
    }
}

/// Ends the connection over which a request came: found in the extensions of each request.
#[derive(Clone, Debug)]
pub struct Hangup {
    pub connection: AbortHandle,
    pub hangups: Hangups,
}

impl Hangup {
    /// Whether it has not ended yet.
    pub fn is_open(&self) -> bool {
        !self.connection.is_finished()
    }

    pub fn end(&self, why: HangupReason) {
        if self.is_open() {
            self.hangups.count(why);
        }
        self.connection.abort();
    }

    /// Ends it, because its client takes its answer too slowly.
    pub fn too_slow(&self) {
        self.end(HangupReason::Slow);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_is_counted_once_by_its_reason() {
        let hangups = Hangups::default();
        hangups.count(HangupReason::Late);
        let task = tokio::spawn(std::future::pending::<()>());
        let hangup = Hangup { connection: task.abort_handle(), hangups: hangups.clone() };
        hangup.too_slow();
        assert!(task.await.unwrap_err().is_cancelled());
        // It has ended already.
        hangup.too_slow();
        assert_eq!(hangups.counts().collect::<Vec<_>>(), [("unused", 0), ("slow", 1), ("late", 1)]);
    }
}
