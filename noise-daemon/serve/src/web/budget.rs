//! A budget of CPU time for answering, over all clients: one that sends the next request at once
//! would otherwise take a whole CPU, and be the noise that is measured here.
//!
//! Charged is the CPU time of the thread that serves: connections, documents and the samples for them.
//! In the long run answering gets [`SHARE`] of one CPU. What exceeds it is delayed, first come first
//! served, and none is refused. Two limits keep scrapers out of this: a connection whose next request
//! comes at once is delayed as soon as [`BURST`] has been spent beyond the share; new connections, and
//! those that paused since their last answer, only from [`LARGE_BURST`] on, which a thousand scrapers at
//! once do not reach.
//!
//! Limits that libraries have (tower, governor) count requests or those under way; none measures what a request
//! costs.

use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};

/// Part of one CPU that answering may take for long.
const SHARE: f64 = 0.1;
/// CPU time that connections without pauses between requests may spend beyond that.
const BURST: Duration = Duration::from_millis(500);
/// CPU time that may be spent beyond it in all.
const LARGE_BURST: Duration = Duration::from_secs(3);
const LONGEST: Duration = Duration::from_secs(5);
/// How long a connection waits at least where its client is known only afterwards: so many cost less than the share.
const MOMENT: Duration = Duration::from_millis(1);

/// When a request of a connection comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// For the first time, or after a pause.
    Patient,
    /// As soon as it was answered.
    Hasty,
}

impl Pace {
    fn burst(self) -> Duration {
        match self {
            Self::Patient => LARGE_BURST,
            Self::Hasty => BURST,
        }
    }
}

/// What was taken and is not paid back yet.
#[derive(Debug)]
struct CpuDebt {
    taken: Duration,
    at: Instant,
}

impl CpuDebt {
    fn settle(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.at);
        self.taken = self.taken.saturating_sub(passed.mul_f64(SHARE));
        self.at = now;
    }

    fn charge(&mut self, cost: Duration, now: Instant) {
        self.settle(now);
        self.taken = (self.taken + cost).min(LARGE_BURST + LONGEST.mul_f64(SHARE));
    }

    /// How long to wait until more may be taken.
    fn wait(&mut self, pace: Pace, now: Instant) -> Duration {
        self.settle(now);
        self.taken.saturating_sub(pace.burst()).div_f64(SHARE)
    }
}

struct CpuBudget {
    account: Mutex<CpuDebt>,
    /// Whose turn it is, of each pace.
    turns: [tokio::sync::Mutex<()>; 2],
    delayed: AtomicU64,
}

/// The budget of all that answers.
#[derive(Clone)]
pub struct Budget(Arc<CpuBudget>);

impl Default for Budget {
    fn default() -> Self {
        let account = CpuDebt { taken: Duration::ZERO, at: Instant::now() };
        Self(Arc::new(CpuBudget {
            account: Mutex::new(account),
            turns: Default::default(),
            delayed: AtomicU64::new(0),
        }))
    }
}

impl Budget {
    /// Waits for the turn of a new connection.
    pub async fn turn_to_accept(&self) {
        self.turn(Pace::Patient).await;
    }

    /// Waits a moment before a connection is accepted whose client may be one that waits for no turn.
    pub async fn moment_to_accept(&self) {
        if self.wait(Pace::Patient) > Duration::ZERO {
            tokio::time::sleep(MOMENT).await;
        }
    }

    /// Waits for the turn of a request.
    pub async fn turn_to_answer(&self, pace: Pace) {
        if self.turn(pace).await {
            self.0.delayed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits for a turn, and says whether that took any time.
    async fn turn(&self, pace: Pace) -> bool {
        let begin = Instant::now();
        let is_delayed = self.wait(pace) > Duration::ZERO;
        let _turn = self.0.turns[pace as usize].lock().await;
        loop {
            let left = LONGEST.saturating_sub(begin.elapsed());
            let wait = self.wait(pace).min(left);
            if wait.is_zero() {
                return is_delayed;
            }
            tokio::time::sleep(wait).await;
        }
    }

    /// Requests that had to wait so far.
    pub fn delayed(&self) -> u64 {
        self.0.delayed.load(Ordering::Relaxed)
    }

    /// Does something for clients.
    pub fn spend<T>(&self, work: impl FnOnce() -> T) -> T {
        let (done, cost) = Self::cost(work);
        self.charge(cost);
        done
    }

    /// Does something, and says what it took of a CPU.
    pub fn cost<T>(work: impl FnOnce() -> T) -> (T, Duration) {
        let before = cpu_time();
        let done = work();
        (done, cpu_time().saturating_sub(before))
    }

    /// Takes what something took of a CPU.
    pub fn charge(&self, cost: Duration) {
        self.account(|account, now| account.charge(cost, now));
    }

    /// What was taken and is not paid back yet.
    #[cfg(test)]
    pub fn taken(&self) -> Duration {
        self.account(|account, _| account.taken)
    }

    /// A future that does something for clients.
    pub fn spending<F: Future>(&self, work: F) -> impl Future<Output = F::Output> + use<F> {
        let (budget, mut work) = (self.clone(), Box::pin(work));
        poll_fn(move |context| budget.spend(|| work.as_mut().poll(context)))
    }

    fn wait(&self, pace: Pace) -> Duration {
        self.account(|account, now| account.wait(pace, now))
    }

    fn account<T>(&self, act: impl FnOnce(&mut CpuDebt, Instant) -> T) -> T {
        let mut account = self.0.account.lock().unwrap_or_else(PoisonError::into_inner);
        act(&mut account, Instant::now())
    }
}

/// What this thread has had of a CPU: time in which others had it is not charged to clients.
fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account() -> (CpuDebt, Instant) {
        let at = Instant::now();
        (CpuDebt { taken: Duration::ZERO, at }, at)
    }

    #[test]
    fn who_asks_without_pause_gets_the_share() {
        let (mut account, start) = account();
        let (cost, mut now, mut taken) = (Duration::from_millis(2), start, Duration::ZERO);
        while now < start + Duration::from_secs(60) {
            now += account.wait(Pace::Hasty, now);
            account.charge(cost, now + cost);
            now += cost;
            taken += cost;
        }
        let expected = Duration::from_secs(60).mul_f64(SHARE) + BURST;
        assert!(
            taken <= expected + 2 * cost && taken + Duration::from_millis(100) > expected,
            "{taken:?}"
        );
    }

    #[test]
    fn scrapers_do_not_wait() {
        let (mut account, start) = account();
        // Five servers that scrape each second, at once, beside clients without a pause.
        for second in 0..600 {
            let now = start + Duration::from_secs(second);
            while account.wait(Pace::Hasty, now) < Duration::from_millis(500) {
                account.charge(Duration::from_millis(5), now);
            }
            for _ in 0..5 {
                assert_eq!(account.wait(Pace::Patient, now), Duration::ZERO);
                account.charge(Duration::from_millis(5), now);
            }
        }
    }

    #[test]
    fn no_turn_is_further_away_than_the_longest() {
        let (mut account, start) = account();
        for _ in 0..100 {
            account.charge(Duration::from_secs(10), start);
        }
        let wait = account.wait(Pace::Patient, start);
        assert!(wait > LONGEST / 2 && wait <= LONGEST + Duration::from_millis(1), "{wait:?}");
    }

    #[tokio::test]
    async fn work_is_charged_and_sleep_is_not() {
        let budget = Budget::default();
        budget.spending(tokio::time::sleep(Duration::from_millis(50))).await;
        let taken = || budget.taken();
        assert!(taken() < Duration::from_millis(10));
        budget.spend(|| {
            let begin = cpu_time();
            while cpu_time() - begin < BURST + Duration::from_millis(20) {}
        });
        assert!(taken() > BURST);
        budget.turn_to_answer(Pace::Patient).await;
        assert_eq!(budget.delayed(), 0);
        // More than a second's worth, which no stall of this machine pays back.
        budget.charge(Duration::from_millis(130));
        budget.turn_to_answer(Pace::Hasty).await;
        assert_eq!(budget.delayed(), 1);
    }
}
