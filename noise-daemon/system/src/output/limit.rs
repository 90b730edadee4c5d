//! The limit on the size of files that a process is given (`ulimit -f`).

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};
use signal_hook::consts::SIGXFSZ;

/// Makes a write beyond the limit an error that can be reported, in place of the end of this process. Programs that it
/// starts are ended as ever.
pub fn outlive_limit() {
    // Ignored, the signal would be ignored in programs that are started, too. Where it cannot be handled, all is as before.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)));
}

/// An error of writing, with what the system's words for it do not say.
pub fn explained(error: io::Error) -> io::Error {
    if error.raw_os_error() != Some(libc::EFBIG) {
        return error;
    }
    match getrlimit(Resource::RLIMIT_FSIZE) {
        Ok((most, _)) if most != RLIM_INFINITY => io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!(
                "this process may write files of at most {most} bytes: raise the limit (ulimit -f, LimitFSIZE=)"
            ),
        ),
        _ => error,
    }
}
