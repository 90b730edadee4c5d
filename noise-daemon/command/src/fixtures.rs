//! What tests of commands start with.

use std::ffi::OsString;

/// The arguments of a command, of these words.
pub fn parsed<A: clap::Args>(
    words: impl IntoIterator<Item = impl Into<OsString> + Clone>,
) -> Result<A, clap::Error> {
    let command = A::augment_args(clap::Command::new("noised").no_binary_name(true));
    A::from_arg_matches(&command.try_get_matches_from(words)?)
}
