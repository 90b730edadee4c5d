//! `noised completions`: what a shell needs to complete this command line.

use clap::{Command, CommandFactory as _};
use clap_complete::Shell;
use noise_command::output;

use super::Cli;

/// Arguments of `noised completions`.
#[derive(Debug, clap::Args)]
pub struct CompletionsArgs {
    /// The shell.
    shell: Shell,
}

/// Errors: where standard output cannot take it.
pub fn run(args: &CompletionsArgs) -> anyhow::Result<()> {
    output::print_own(&String::from_utf8_lossy(&script(args.shell)))
}

fn script(shell: Shell) -> Vec<u8> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut offered(&Cli::command()), "noised", &mut text);
    text
}

/// The command without what the help hides, which `clap_complete` would offer.
fn offered(command: &Command) -> Command {
    Command::new(command.get_name().to_owned())
        .about(command.get_about().cloned().unwrap_or_default())
        .version(command.get_version().unwrap_or_default().to_owned())
        .propagate_version(command.is_propagate_version_set())
        .args(command.get_arguments().filter(|argument| !argument.is_hide_set()).cloned())
        .groups(command.get_groups().cloned())
        .subcommands(command.get_subcommands().filter(|inner| !inner.is_hide_set()).map(offered))
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;
    use crate::config::REMOVED;

    #[test]
    fn every_shell_knows_commands_and_options() {
        for shell in Shell::value_variants() {
            let script = String::from_utf8(script(*shell)).unwrap();
            for word in ["incidents", "osnoise", "config.file", "detour"] {
                assert!(script.contains(word), "{shell}: {word}");
            }
        }
    }
    #[test]
    fn what_the_help_hides_is_not_offered() {
        for shell in Shell::value_variants() {
            let script = String::from_utf8(script(*shell)).unwrap();
            for path in REMOVED {
                assert!(!script.contains(path), "{shell}: {path}");
            }
        }
    }
}
