//! Waiting for what others bring about.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

/// Between two looks: a scrape takes a daemon time that it may need itself.
const PAUSE: Duration = Duration::from_millis(100);

/// Looks again and again until it is so.
/// Errors: if it is not within that time, or one cannot look.
pub fn wait_until(
    what: &str,
    within: Duration,
    mut is_so: impl FnMut() -> Result<bool>,
) -> Result<()> {
    let deadline = Instant::now() + within;
    while !is_so()? {
        ensure!(Instant::now() < deadline, "{what}: not within {within:?}");
        thread::sleep(PAUSE);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::wait_until;

    #[test]
    fn it_looks_until_it_is_so_and_no_longer_than_that() {
        let mut looks = 0;
        let third = || {
            looks += 1;
            Ok(looks == 3)
        };
        assert!(wait_until("the third look", Duration::from_secs(20), third).is_ok());
        assert_eq!(looks, 3);
        let never = wait_until("nothing", Duration::ZERO, || Ok(false));
        assert_eq!(never.unwrap_err().to_string(), "nothing: not within 0ns");
    }
}
