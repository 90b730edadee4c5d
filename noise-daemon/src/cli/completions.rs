//! `noised completions`: what a shell needs to complete this command line.

use clap::CommandFactory as _;
use clap_complete::Shell;
use noise_command::output;

use super::Cli;

/// Arguments of `noised completions`.
#[derive(Debug, clap::Args)]
pub struct CompletionsArgs {
    /// The shell.
    shell: Shell,
}

/// Prints the script.
/// Errors: where standard output cannot take it.
pub fn run(args: &CompletionsArgs) -> anyhow::Result<()> {
    output::print_own(&String::from_utf8_lossy(&script(args.shell)))
}

fn script(shell: Shell) -> Vec<u8> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "noised", &mut text);
    text
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    #[test]
    fn every_shell_knows_commands_and_options() {
        for shell in Shell::value_variants() {
            let script = String::from_utf8(script(*shell)).unwrap();
            for word in ["incidents", "osnoise", "config.file", "detour"] {
                assert!(script.contains(word), "{shell}: {word}");
            }
        }
    }
}
