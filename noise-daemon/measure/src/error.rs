//! Why a machine cannot be measured.

use super::cpus::CpuError;
use super::osnoise::kernel::TracerError;
use super::placement::PlacementError;
use super::watcher::WatchError;

/// Why a measurement did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// The CPUs that were given.
    #[error(transparent)]
    Cpus(#[from] CpuError),
    /// A thread's place or priority.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    #[error(transparent)]
    Watch(#[from] WatchError),
    #[error(transparent)]
    Tracer(#[from] TracerError),
    #[error(transparent)]
    Failed(#[from] anyhow::Error),
}

impl MeasureError {
    /// Whether the CPUs that were given cannot be measured.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Cpus(CpuError::Offline { .. } | CpuError::NotAllowed { .. }))
    }

    /// Whether this kernel or these privileges cannot do it, as opposed to a failure.
    pub fn is_unsupported(&self) -> bool {
        match self {
            Self::Cpus(_) | Self::Failed(_) => false,
            Self::Placement(error) => error.is_unsupported(),
            Self::Watch(error) => error.is_unsupported(),
            Self::Tracer(error) => error.is_unsupported(),
        }
    }
}
