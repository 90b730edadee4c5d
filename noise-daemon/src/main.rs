//! `noised`: parses the command line, runs the command, and turns errors into exit codes:
//! 0 fine, 1 failed, 2 usage, 3 this kernel or these privileges cannot do it, 4 a measurement ended
//! by its threshold.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser as _;
use noise_daemon::clean::is_harmful;
use noise_daemon::cli::{
    Cli, Command, bench, check, completions, incidents, man, osnoise, output, run, top,
};
use noise_daemon::kernel::KernelError;
use noise_daemon::measure::error::Failure;

fn kernel_exit(error: &KernelError) -> ExitCode {
    ExitCode::from(if error.is_unsupported() { 3 } else { 1 })
}

/// The command line. A mistake in it is quoted: where an argument (a file of that name, say) would act
/// on the terminal, without colours and cleaned.
fn parsed() -> Result<Cli, ExitCode> {
    Cli::try_parse().map_err(|error| {
        let is_plain = |argument: OsString| {
            argument.to_str().is_some_and(|argument| !argument.contains(is_harmful))
        };
        if std::env::args_os().all(is_plain) {
            error.exit();
        }
        output::note(&error.render().to_string());
        ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
    })
}

fn main() -> ExitCode {
    let cli = match parsed() {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    let (message, code) = match cli.command {
        Command::Run(args) => match run::run(&args) {
            Ok(()) => return ExitCode::SUCCESS,
            Err(error) => {
                let code = match &error {
                    run::RunError::Config(_) => ExitCode::from(2),
                    run::RunError::Kernel(error) => kernel_exit(error),
                    run::RunError::Failed(_) => ExitCode::FAILURE,
                };
                (error.to_string(), code)
            }
        },
        Command::Top(args) => match top::run(&args) {
            Ok(()) => return ExitCode::SUCCESS,
            Err(error) => {
                let code = match &error {
                    top::TopError::NoSource(_) => ExitCode::from(3),
                    top::TopError::Kernel(error) => kernel_exit(error),
                    top::TopError::Failed(_) => ExitCode::FAILURE,
                };
                (error.to_string(), code)
            }
        },
        Command::Check(args) => match check::run(&args) {
            Ok(()) => return ExitCode::SUCCESS,
            Err(error) => (error.to_string(), kernel_exit(&error)),
        },
        Command::Osnoise(args) => match osnoise::run(&args) {
            Ok(osnoise::Ended::Regularly) => return ExitCode::SUCCESS,
            Ok(osnoise::Ended::ByThreshold) => return ExitCode::from(4),
            Err(error) => {
                let code = match error.failure() {
                    Failure::Usage => ExitCode::from(2),
                    Failure::Unsupported => ExitCode::from(3),
                    Failure::Failed => ExitCode::FAILURE,
                };
                (error.to_string(), code)
            }
        },
        Command::Bench(args) => match bench::run(&args) {
            Ok(()) => return ExitCode::SUCCESS,
            Err(error) => {
                let code = match &error {
                    bench::BenchError::Usage(_) => ExitCode::from(2),
                    bench::BenchError::Unsupported(_) => ExitCode::from(3),
                    bench::BenchError::Failed(_) => ExitCode::FAILURE,
                };
                (error.to_string(), code)
            }
        },
        Command::Incidents(args) => match incidents::run(&args) {
            Ok(()) => return ExitCode::SUCCESS,
            Err(error) => (format!("{error:#}"), ExitCode::FAILURE),
        },
        Command::Completions(args) => match completions::run(&args) {
            Ok(()) => return ExitCode::SUCCESS,
            Err(error) => (format!("{error:#}"), ExitCode::FAILURE),
        },
        Command::Man(args) => match man::run(&args) {
            Ok(()) => return ExitCode::SUCCESS,
            Err(error) => (format!("{error:#}"), ExitCode::FAILURE),
        },
    };
    output::complain(&message);
    code
}
