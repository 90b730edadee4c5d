//! The command whose run is recorded.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{self, Command, ExitCode, ExitStatus};
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use noise_command::CommandError;

use crate::marks::MARKS_VARIABLE;

/// How long its end may be unnoticed.
const PAUSE: Duration = Duration::from_millis(50);

/// What shells add to the number of the signal that ended a command.
const BY_SIGNAL: i32 = 128;

/// A command that runs.
#[derive(Debug)]
pub struct Child(process::Child);

impl Child {
    /// Starts it, and says in its environment where its marks go.
    /// Errors: where there is no such program, or it cannot be run.
    pub fn start(
        program: &OsString,
        arguments: &[OsString],
        marks: Option<PathBuf>,
    ) -> Result<Self, CommandError> {
        let mut command = Command::new(program);
        command.args(arguments).envs(marks.map(|path| (MARKS_VARIABLE, path)));
        let started = command.spawn();
        started
            .with_context(|| format!("cannot run {}", program.display()))
            .map(Self)
            .map_err(CommandError::usage)
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        // What cannot be asked is not there any more.
        !matches!(self.0.try_wait(), Ok(None))
    }

    /// Waits for its end; what it exited with. Once the user has ended the recording, it gets SIGTERM.
    /// Errors: where it cannot be waited for.
    pub fn wait(mut self, is_ended: impl Fn() -> bool) -> anyhow::Result<ExitCode> {
        let mut is_asked = false;
        loop {
            if let Some(status) = self.0.try_wait().context("cannot wait for the command")? {
                return Ok(ExitCode::from(code(status)));
            }
            if !is_asked
                && is_ended()
                && let Ok(id) = i32::try_from(self.0.id())
            {
                is_asked = true;
                // It may end by itself meanwhile.
                let _ = kill(Pid::from_raw(id), Signal::SIGTERM);
            }
            thread::sleep(PAUSE);
        }
    }
}

fn code(status: ExitStatus) -> u8 {
    let by_signal = || BY_SIGNAL + status.signal().unwrap_or(0);
    u8::try_from(status.code().unwrap_or_else(by_signal)).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(script: &str) -> Child {
        Child::start(&"sh".into(), &["-c".into(), script.into()], None).unwrap()
    }

    #[test]
    fn codes_are_those_of_shells() {
        let marks = ["-c".into(), "test \"$NOISED_MARKS\" = /x".into()];
        let child = Child::start(&"sh".into(), &marks, Some("/x".into())).unwrap();
        assert_eq!(child.wait(|| false).unwrap(), ExitCode::from(0));
        for (script, code) in [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 143)] {
            assert_eq!(run(script).wait(|| false).unwrap(), ExitCode::from(code), "{script}");
        }
        let begin = std::time::Instant::now();
        assert_eq!(run("sleep 60").wait(|| true).unwrap(), ExitCode::from(143));
        assert!(begin.elapsed().as_secs() < 30);
        // The recording may be over before the user ends it: the command gets one signal then.
        let folder = tempfile::tempdir().unwrap();
        let ready = folder.path().join("ready");
        let script = format!(
            "n=0; trap 'n=$((n+1))' TERM; : > {}; for i in 1 2 3 4 5 6; do sleep 0.1; done; exit $n",
            ready.display()
        );
        let child = run(&script);
        assert_eq!(child.wait(|| ready.exists()).unwrap(), ExitCode::from(1));
        let error = Child::start(&"/nonexistent/x".into(), &[], None).unwrap_err();
        assert!(
            error.to_string().starts_with("cannot run /nonexistent/x: No such file"),
            "{error}"
        );
    }
}
