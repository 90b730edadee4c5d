//! IO: room for the stack of the first thread. The kernel ends a process by a signal that needs more than its limit
//! allows; other threads have stacks of their own size.

use anyhow::Context as _;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use noise_command::CommandError;

/// As much as other threads have, bytes.
const NEEDED: u64 = 2 << 20;

/// Raises the limit where it is too low. The kernel looks at it whenever the stack grows.
/// Errors: where it may not be raised.
pub fn ensure() -> Result<(), CommandError> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_STACK)
        .context("cannot read the limit of the stack (ulimit -s)")?;
    if soft >= NEEDED || setrlimit(Resource::RLIMIT_STACK, NEEDED, hard.max(NEEDED)).is_ok() {
        return Ok(());
    }
    Err(anyhow::Error::msg(sentence(hard)).into())
}

fn sentence(hard: u64) -> String {
    format!(
        "the stack of this process is limited to {} KiB, and noised needs {}: raise the limit (ulimit -s, LimitSTACK=)",
        hard >> 10,
        NEEDED >> 10
    )
}
