//! What a user's ^C means to a command that measures: end now, and report what was seen.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context as _;
use signal_hook::consts::{SIGINT, SIGTERM};

/// A flag that SIGINT and SIGTERM raise; the second one of them ends the process at once.
/// Errors: where the system refuses a handler.
pub fn flag() -> anyhow::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_default(signal, Arc::clone(&flag))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&flag)))
            .context("cannot listen for signals")?;
    }
    Ok(flag)
}
