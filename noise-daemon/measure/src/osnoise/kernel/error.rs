//! Why the kernel's tracer does not measure.

use std::io;
use std::path::PathBuf;

/// Why the kernel's tracer does not measure.
#[derive(Debug, thiserror::Error)]
pub enum TracerError {
    /// There is no tracefs to be seen.
    #[error(
        "tracefs is not mounted at {0}, and the kernel's osnoise tracer is driven through it: mount it \
         (mount -t tracefs tracefs {0}), or measure with `--backend noised`"
    )]
    NotMounted(PathBuf),
    /// There is one, but not for this user.
    #[error(
        "this process may not use tracefs at {0}, through which the kernel's osnoise tracer is driven: \
         run it as root"
    )]
    Forbidden(PathBuf),
    /// The kernel does not have it.
    #[error(
        "this kernel has no osnoise tracer (it is built without CONFIG_OSNOISE_TRACER): measure with \
         `--backend noised`, which works on any kernel"
    )]
    Absent,
    /// Kernels before 5.17.
    #[error(
        "this kernel's osnoise tracer works in no private trace instance (kernels do from 5.17): \
         measure with `--backend noised`"
    )]
    NoInstances,
    /// The file of options, or one of them, is missing.
    #[error(
        "this kernel's osnoise tracer has no {option}: leave {flag} out, or use a newer kernel"
    )]
    NoOption {
        option: &'static str,
        /// The argument that needs it.
        flag: &'static str,
    },
    /// Another program uses a tracer of which there can be only one.
    #[error(
        "the {tracer} tracer is in use at {place}, and there can be only one of osnoise and timerlat on \
         a machine: {hint}"
    )]
    Busy { tracer: String, place: PathBuf, hint: String },
    /// Another program switched our tracing off.
    #[error("another program switched tracing off in {0}: start again")]
    SwitchedOff(PathBuf),
    /// The threads do not show.
    #[error(
        "the kernel started no thread osnoise/{0} that can be seen from here: run it on the host, or in \
         a container with the host's pids"
    )]
    NoThread(u32),
    /// A file of tracefs.
    #[error("cannot {doing} {path}: {reason}")]
    File {
        doing: &'static str,
        path: PathBuf,
        /// What came of it.
        reason: io::Error,
    },
}

impl TracerError {
    /// Whether this kernel or these privileges cannot do it, as opposed to a failure.
    pub fn is_unsupported(&self) -> bool {
        match self {
            Self::NotMounted(_)
            | Self::Forbidden(_)
            | Self::Absent
            | Self::NoInstances
            | Self::NoOption { .. }
            | Self::NoThread(_) => true,
            Self::Busy { .. } | Self::SwitchedOff(_) => false,
            Self::File { reason, .. } => reason.kind() == io::ErrorKind::PermissionDenied,
        }
    }
}
