//! What to do where a daemon that the user named does not answer.

use anyhow::anyhow;
use noise_client::Fault;
use noise_command::{CommandError, Exit};

/// What to do where a daemon that the user named by its socket does not answer.
pub fn unanswered(fault: Fault) -> CommandError {
    match fault {
        Fault::Absent { place, reason } => {
            anyhow!("no noised answers at {place} ({reason}): start one, or leave --connect out")
                .into()
        }
        Fault::Denied { .. } => CommandError { exit: Exit::Unsupported, source: fault.into() },
        other => anyhow::Error::from(other).into(),
    }
}
