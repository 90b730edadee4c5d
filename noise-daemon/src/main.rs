//! `noised`: parses the command line, runs the command, and exits with its code.

#![cfg_attr(not(test), deny(clippy::disallowed_macros, clippy::disallowed_methods))]

use std::ffi::OsString;
use std::process::ExitCode;

use noise_text::clean::{clean, is_harmful};
use noise_text::nearest::nearest;

use clap::error::{ContextKind, ContextValue};
use clap::{ColorChoice, CommandFactory as _, FromArgMatches as _};
use noise_command::output;
use noise_command::terminal::Terminal;
use noise_daemon::cli::{Cli, limits};
use noise_system::output::outlive_limit;

/// The command line. A mistake in it is quoted: where an argument (a file of that name, say) would act
/// on the terminal, or make a line of its own, without colours and cleaned.
fn parsed() -> Result<Cli, ExitCode> {
    let has_colours = Terminal::of_output().has_colours || Terminal::of_errors().has_colours;
    let colours = if has_colours { ColorChoice::Auto } else { ColorChoice::Never };
    let command = Cli::command().color(colours);
    let matched = command.try_get_matches().and_then(|found| Cli::from_arg_matches(&found));
    matched.map_err(|error| {
        let error = suggesting(error);
        let is_plain = |argument: OsString| {
            argument.to_str().is_some_and(|argument| !argument.contains(is_harmful))
        };
        if std::env::args_os().all(is_plain) {
            error.exit();
        }
        let arguments =
            std::env::args_os().map(|argument| clean(&argument.to_string_lossy()).into_owned());
        let quoting = Cli::command().try_get_matches_from(arguments).err();
        let error = quoting.map_or(error, suggesting);
        output::note(&error.render().to_string());
        ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
    })
}

/// Names the command that was probably meant, where the parser finds none.
fn suggesting(mut error: clap::Error) -> clap::Error {
    let written = match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(written)) => written.clone(),
        _ => return error,
    };
    if error.get(ContextKind::SuggestedSubcommand).is_none() {
        let mut command = Cli::command();
        let is_before = |argument: &OsString| *argument != *written;
        for argument in std::env::args_os().take_while(is_before) {
            if let Some(inner) = command.find_subcommand(&argument) {
                command = inner.clone();
            }
        }
        if let Some(meant) = nearest(&written, command.get_subcommands().map(|it| it.get_name())) {
            let meant = ContextValue::Strings(vec![meant.to_owned()]);
            error.insert(ContextKind::SuggestedSubcommand, meant);
        }
    }
    error
}

fn main() -> ExitCode {
    // Before anything else takes some of it.
    if let Err(error) = limits::ensure() {
        error.complain();
        return error.exit.into();
    }
    outlive_limit();
    let cli = match parsed() {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    match cli.command.run() {
        Ok(exit) => exit,
        Err(error) => {
            error.complain();
            error.exit.into()
        }
    }
}
