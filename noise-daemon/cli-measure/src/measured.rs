//! How a command ends whose measurement failed.

use noise_command::{CommandError, Exit};
use noise_measure::error::MeasureError;

/// With the exit code that belongs to the reason.
pub fn measured(error: impl Into<MeasureError>) -> CommandError {
    let error = error.into();
    let exit = match &error {
        error if error.is_usage() => Exit::Usage,
        error if error.is_unsupported() => Exit::Unsupported,
        _ => Exit::Failed,
    };
    CommandError { exit, source: error.into() }
}

#[cfg(test)]
mod tests {
    use anyhow::{Context as _, anyhow};
    use noise_host::kernel::KernelError;
    use noise_measure::cpus::CpuError;
    use noise_measure::osnoise::kernel::TracerError;
    use noise_measure::watcher::WatchError;
    use noise_text::cpulist::CpuList;

    use super::*;

    fn ends(error: impl Into<MeasureError>) -> (u8, String) {
        let error = measured(error);
        (error.exit.code(), error.to_string())
    }

    #[test]
    fn kernels_that_cannot_are_distinguished_from_failures() {
        assert_eq!(ends(WatchError::OwnPids).0, 3);
        assert_eq!(ends(WatchError::from(KernelError::Lockdown)).0, 3);
        assert_eq!(ends(TracerError::Absent).0, 3);
        assert_eq!(ends(TracerError::SwitchedOff("/x".into())).0, 1);
    }

    #[test]
    fn cpus_that_cannot_be_had_are_a_mistake_of_the_command_line() {
        let cpus: CpuList = "3".parse().unwrap();
        let offline = CpuError::Offline { asked: cpus.clone(), online: cpus };
        assert_eq!(ends(offline).0, 2);
        assert_eq!(ends(CpuError::Unknown("why".to_owned())).0, 1);
    }

    #[test]
    fn causes_are_named_once_wherever_they_come_from() {
        let failed = || Err::<(), _>(anyhow!("cause")).context("outer").unwrap_err();
        let sentence = "outer: cause".to_owned();
        assert_eq!(ends(failed()), (1, sentence.clone()));
        assert_eq!(ends(WatchError::from(failed())), (1, sentence));
    }
}
