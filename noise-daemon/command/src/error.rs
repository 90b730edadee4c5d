//! How a command ends: the exit codes that scripts rely on, and the error behind each.

use std::fmt;
use std::process::ExitCode;

use noise_host::kernel::KernelError;

use super::output;

/// What a command ends with; the same numbers for all commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    Fine = 0,
    Failed = 1,
    /// The command line or the configuration is wrong.
    Usage = 2,
    /// Not possible with this kernel or these privileges.
    Unsupported = 3,
    /// A measurement reached its threshold.
    Threshold = 4,
}

impl Exit {
    /// All, by their numbers.
    pub const ALL: [Self; 5] =
        [Self::Fine, Self::Failed, Self::Usage, Self::Unsupported, Self::Threshold];

    pub const fn code(self) -> u8 {
        self as u8
    }

    /// What it means, for the manual.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Fine => "Fine.",
            Self::Failed => "Failed.",
            Self::Usage => "The command line or the configuration is wrong.",
            Self::Unsupported => "This kernel or these privileges cannot do it.",
            Self::Threshold => "A measurement ended by its threshold.",
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// Why a command failed, and what it exits with. Prints as one sentence with all its causes.
#[derive(Debug)]
pub struct CommandError {
    /// What the command exits with.
    pub exit: Exit,
    pub source: anyhow::Error,
}

impl CommandError {
    /// The command line or the configuration is wrong.
    pub fn usage(error: impl Into<anyhow::Error>) -> Self {
        Self { exit: Exit::Usage, source: error.into() }
    }

    /// The same, with what it is about before it.
    pub fn context(self, about: String) -> Self {
        Self { exit: self.exit, source: self.source.context(about) }
    }

    /// As [`CommandError::usage`], with a sentence of the command's own.
    pub fn misused(sentence: impl Into<String>) -> Self {
        Self::usage(anyhow::Error::msg(sentence.into()))
    }

    /// Says it on standard error.
    pub fn complain(&self) {
        match self.source.is::<Lines>() {
            true => output::note(&format!("noised: {self}\n")),
            false => output::complain(&self.to_string()),
        }
    }
}

/// Sentences that each have a line of their own. What others named in them is to have none.
#[derive(Debug)]
pub struct Lines(pub Vec<String>);

impl fmt::Display for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("\n"))
    }
}

impl std::error::Error for Lines {}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#}", self.source)
    }
}

impl From<anyhow::Error> for CommandError {
    fn from(source: anyhow::Error) -> Self {
        Self { exit: Exit::Failed, source }
    }
}

impl From<KernelError> for CommandError {
    fn from(error: KernelError) -> Self {
        let exit = if error.is_unsupported() { Exit::Unsupported } else { Exit::Failed };
        Self { exit, source: error.into() }
    }
}

#[cfg(test)]
mod tests {
    use anyhow::{Context as _, anyhow};

    use super::*;

    fn ends(error: impl Into<CommandError>) -> (u8, String) {
        let error = error.into();
        (error.exit.code(), error.to_string())
    }

    #[test]
    fn exit_codes_are_those_of_the_manual() {
        for (number, exit) in (0_u8..).zip(Exit::ALL) {
            assert_eq!(exit.code(), number);
            assert!(exit.meaning().ends_with('.'));
        }
    }

    #[test]
    fn kernels_that_cannot_are_distinguished_from_failures() {
        assert_eq!(ends(KernelError::Lockdown).0, 3);
        assert_eq!(ends(KernelError::OwnUsers).0, 3);
        assert_eq!(ends(KernelError::Refused("E2BIG".to_owned())).0, 1);
    }

    #[test]
    fn causes_are_named_once_wherever_they_come_from() {
        let failed = || Err::<(), _>(anyhow!("cause")).context("outer").unwrap_err();
        let sentence = "outer: cause".to_owned();
        assert_eq!(ends(failed()), (1, sentence.clone()));
        assert_eq!(ends(CommandError::usage(failed())), (2, sentence));
    }
}
