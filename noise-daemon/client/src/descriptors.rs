//! IO: a runtime, where this process has the file descriptors that one takes. Without them tokio panics.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use nix::errno::Errno;
use tokio::runtime::{Builder, Runtime};

/// Those of a runtime and of one connection.
const NEEDED: usize = 7;

/// A runtime of this thread.
/// Errors: where there are too few descriptors for it.
pub fn runtime() -> io::Result<Runtime> {
    ensure_free(|| io::stdin().as_fd().try_clone_to_owned())?;
    Builder::new_current_thread().enable_all().build()
}

/// Opens what is needed, and closes it again.
fn ensure_free(mut open: impl FnMut() -> io::Result<OwnedFd>) -> io::Result<()> {
    let mut opened = Vec::new();
    while opened.len() < NEEDED {
        match open() {
            Ok(one) => opened.push(one),
            Err(error) if error.raw_os_error() == Some(Errno::EMFILE as i32) => {
                return Err(io::Error::other(format!(
                    "that needs {NEEDED} more file descriptors, and this process may open {}: raise the limit \
                     (ulimit -n, or LimitNOFILE= of the unit)",
                    opened.len()
                )));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_few_descriptors_are_said_before_a_runtime_takes_them() {
        let with = |mut free: usize| {
            ensure_free(|| {
                free = free.checked_sub(1).ok_or(io::Error::from(Errno::EMFILE))?;
                io::stdin().as_fd().try_clone_to_owned()
            })
        };
        assert!(with(NEEDED).is_ok());
        let error = with(3).unwrap_err().to_string();
        assert!(error.contains("may open 3: raise") && error.contains("ulimit -n"), "{error}");
    }
}
