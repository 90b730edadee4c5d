//! What the requests of a connection are paid from: large answers, those with kernel events, have a budget of their own,
//! so that what others ask for does not wait for them.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};

use super::budget::{Budget, Pace};
use super::peer::Peer;

/// Where the flight recorder is asked for events.
pub const EVENTS_ROUTE: &str = "/api/v1/events";
/// What the routes of events that are kept end with.
const TRACE: &str = "/trace";

/// What one connection is paid from.
pub struct ConnectionAccount {
    budget: Budget,
    events: Budget,
    /// Set once it asked for events: from then on all of it is paid from their budget, as what it still sends is of them.
    reads_events: AtomicBool,
}

impl ConnectionAccount {
    pub fn new(budget: Budget, events: Budget) -> Self {
        Self { budget, events, reads_events: AtomicBool::new(false) }
    }

    fn budget(&self) -> &Budget {
        if self.reads_events.load(Ordering::Relaxed) { &self.events } else { &self.budget }
    }

    /// Waits for the turn of a request; those of root and of the daemon's user wait for none.
    pub async fn turn_to_answer(&self, path: &str, peer: Peer, pace: Pace) {
        if path == EVENTS_ROUTE || path.ends_with(TRACE) {
            self.reads_events.store(true, Ordering::Relaxed);
        }
        if !peer.is_trusted() {
            self.budget().turn_to_answer(pace).await;
        }
    }

    /// A future that does all that a connection needs.
    pub async fn spending(&self, mut work: Pin<Box<impl Future<Output = ()>>>) {
        poll_fn(|context| {
            // What it asks for meanwhile is known only then.
            let (done, cost) = Budget::cost(|| work.as_mut().poll(context));
            self.budget().charge(cost);
            done
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    const OTHER: Peer = Peer::User(Some(u32::MAX));

    /// How long an answer waits where so much was spent that it has to.
    async fn waits(account: &ConnectionAccount, path: &str, peer: Peer) -> Duration {
        let begin = Instant::now();
        account.turn_to_answer(path, peer, Pace::Patient).await;
        begin.elapsed()
    }

    #[tokio::test]
    async fn root_and_other_answers_wait_for_no_reader_of_events() {
        let (budget, events) = (Budget::default(), Budget::default());
        events.charge(Duration::from_millis(3_060));
        let account = || ConnectionAccount::new(budget.clone(), events.clone());
        let short = Duration::from_millis(50);
        assert!(waits(&account(), "/-/ready", OTHER).await < short);
        for path in [EVENTS_ROUTE, "/api/v1/incidents/7/trace"] {
            assert!(waits(&account(), path, Peer::User(Some(0))).await < short);
        }
        let reader = account();
        assert!(waits(&reader, EVENTS_ROUTE, OTHER).await > short);
        budget.charge(Duration::from_millis(3_060));
        assert!(waits(&account(), "/-/ready", Peer::User(Some(0))).await < short);
        assert!(waits(&account(), "/-/ready", OTHER).await > short);
    }

    #[tokio::test]
    async fn all_of_a_connection_that_read_events_is_paid_from_their_budget() {
        let account = ConnectionAccount::new(Budget::default(), Budget::default());
        let asked = async {
            account.turn_to_answer(EVENTS_ROUTE, OTHER, Pace::Patient).await;
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_millis(20) {}
            account.turn_to_answer("/metrics", OTHER, Pace::Hasty).await;
        };
        account.spending(Box::pin(asked)).await;
        assert!(account.budget.taken() < Duration::from_millis(1));
        assert!(account.events.taken() > Duration::ZERO);
    }
}
