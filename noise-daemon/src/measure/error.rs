//! Why a machine cannot be measured.

use super::cpus::CpuError;
use super::osnoise::kernel::TracerError;
use super::placement::PlacementError;
use super::watcher::WatchError;

/// Why a measurement did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// The CPUs that were asked for.
    #[error(transparent)]
    Cpus(#[from] CpuError),
    /// A thread's place or priority.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// The programs.
    #[error(transparent)]
    Watch(#[from] WatchError),
    /// The kernel's tracer.
    #[error(transparent)]
    Tracer(#[from] TracerError),
    /// Anything else.
    #[error("{0:#}")]
    Failed(#[from] anyhow::Error),
}

/// What kind of failure it was, as exit codes tell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// What was asked for makes no sense here.
    Usage,
    /// This kernel or these privileges cannot do it.
    Unsupported,
    /// It failed.
    Failed,
}

impl MeasureError {
    /// The kind of failure.
    pub fn failure(&self) -> Failure {
        match self {
            Self::Cpus(CpuError::Unknown(_)) | Self::Failed(_) => Failure::Failed,
            Self::Cpus(_) => Failure::Usage,
            Self::Placement(error) if error.is_unsupported() => Failure::Unsupported,
            Self::Watch(error) if error.is_unsupported() => Failure::Unsupported,
            Self::Tracer(error) if error.is_unsupported() => Failure::Unsupported,
            Self::Placement(_) | Self::Watch(_) | Self::Tracer(_) => Failure::Failed,
        }
    }
}
