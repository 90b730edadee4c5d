//! IO: room for the stack of the first thread, and for memory. The kernel ends a process by a signal whose stack needs
//! more than its limit allows; other threads have stacks of their own size. A process that gets no memory ends itself so.

use anyhow::Context as _;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use noise_command::CommandError;

/// As much as other threads have, bytes.
const NEEDED: u64 = 2 << 20;
/// Address space: the program, its libraries, and some memory, MiB. Long recordings take more.
const ADDRESS_SPACE_MIB: u64 = 64;

/// Requires that there is room to run at all.
/// Errors: the limit that is too low.
pub fn ensure() -> Result<(), CommandError> {
    ensure_stack()?;
    let (allowed, _) = getrlimit(Resource::RLIMIT_AS)
        .context("cannot read the limit of the address space (ulimit -v)")?;
    Ok(ensure_address_space(allowed)?)
}

fn ensure_address_space(allowed: u64) -> anyhow::Result<()> {
    anyhow::ensure!(
        allowed >= ADDRESS_SPACE_MIB << 20,
        "the address space of this process is limited to {} MiB, and noised needs {ADDRESS_SPACE_MIB} for its memory: \
         raise the limit (ulimit -v, LimitAS=)",
        allowed >> 20
    );
    Ok(())
}

/// Raises the limit where it is too low. The kernel looks at it whenever the stack grows.
/// Errors: where it may not be raised.
fn ensure_stack() -> Result<(), CommandError> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_little_address_space_is_said() {
        for allowed in [64 << 20, 1 << 40, libc::RLIM_INFINITY] {
            ensure_address_space(allowed).unwrap();
        }
        let error = ensure_address_space(30_000 << 10).unwrap_err().to_string();
        let words = "limited to 29 MiB, and noised needs 64";
        assert!(error.contains(words) && error.contains("ulimit -v"), "{error}");
    }
}
