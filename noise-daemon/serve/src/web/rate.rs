//! How often requests may come. tower's limit delays what exceeds it, where other exporters answer 429.

use std::time::Instant;

use super::file::Rate;

/// A bucket of requests that may pass; it starts full.
#[derive(Debug)]
pub struct Bucket {
    rate: Rate,
    held: f64,
    filled: Instant,
}

impl Bucket {
    pub fn new(rate: Rate, now: Instant) -> Self {
        Self { rate, held: f64::from(rate.burst), filled: now }
    }

    /// Whether one more request may pass.
    pub fn take(&mut self, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.filled);
        let gained = passed.as_secs_f64() / self.rate.interval.as_secs_f64();
        self.held = (self.held + gained).min(f64::from(self.rate.burst));
        self.filled = now;
        let passes = self.held >= 1.0;
        if passes {
            self.held -= 1.0;
        }
        passes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_burst_passes_and_then_one_each_interval() {
        let start = Instant::now();
        let rate = Rate { interval: Duration::from_secs(2), burst: 3 };
        let mut bucket = Bucket::new(rate, start);
        let passing = |bucket: &mut Bucket, seconds| {
            let now = start + Duration::from_millis((seconds * 1000.0) as u64);
            (0..10).filter(|_| bucket.take(now)).count()
        };
        assert_eq!(passing(&mut bucket, 0.0), 3);
        assert_eq!(passing(&mut bucket, 1.9), 0);
        assert_eq!(passing(&mut bucket, 2.1), 1);
        assert_eq!(passing(&mut bucket, 4.2), 1);
        assert_eq!(passing(&mut bucket, 100.0), 3);
    }
}
