//! Developer tasks of noised: `cargo xtask <task>`.
//!
//! A file for each task or a few of a kind; this one parses the arguments and hands over. The crate builds with nothing
//! but cargo and a C linker: whatever else the workspace needs, the `setup` task fetches, and the
//! tasks that build something run it first.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::cargo::Workspace;

mod cargo;
mod dashboards;
mod fuzz;
mod lab;
mod lanes;
mod libtest;
mod lint;
mod live;
mod needed;
mod package;
mod privilege;
mod run;
mod runs;
mod seeds;
mod setup;
mod suite;
mod test;
mod vm;

/// Developer tasks of noised.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Fetch what the build needs beyond cargo: toolchain components and bpf-linker
    Setup(setup::Arguments),
    /// Build noised and start it as root
    Run {
        /// Arguments of `noised run`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Build noised and open its view as root
    Top {
        /// Arguments of `noised top`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Run every test: those that need no privileges, then the live ones as root
    Test(test::Arguments),
    /// Fuzz all parsers of untrusted input
    Fuzz(fuzz::Arguments),
    /// Check the rules of this project that no compiler knows
    Lint,
    /// Measure what noised costs the work that it watches, or (`bench reading`) how fast it reads traces
    Bench {
        /// Arguments of the benchmark
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Plant a culprit (cpu, disk, network, irq) and show what noised says of it
    Scenario {
        /// The case, --seconds N, --json
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Plant what disturbs a service, and judge what noised says of it
    Drill {
        /// Names of drills, --list, --runs N, --minutes N, --as-shipped, --record, --json
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Write Grafana's dashboards and Prometheus's recording rules
    Dashboards,
    /// Keep noised under a mixed load for long, and show what it holds
    Soak {
        /// --minutes N, --every SECONDS, --growth MIB
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Test noised on Debian's kernels, in QEMU
    Vm(vm::Arguments),
    /// Make the Debian and RPM packages and the container image
    Package(package::Arguments),
}

fn main() -> ExitCode {
    dispatch(Arguments::parse().task).unwrap_or_else(|error| {
        eprintln!("xtask: {error:#}");
        ExitCode::FAILURE
    })
}

fn dispatch(task: Task) -> Result<ExitCode> {
    let workspace = Workspace::find()?;
    match task {
        Task::Setup(arguments) => setup::run(&workspace, &arguments),
        Task::Run { arguments } => run::run(&workspace, &arguments),
        Task::Top { arguments } => run::top(&workspace, &arguments),
        Task::Test(arguments) => test::run(&workspace, &arguments),
        Task::Fuzz(arguments) => fuzz::run(&workspace, &arguments),
        Task::Lint => lint::run(&workspace),
        Task::Bench { arguments } => lab::bench(&workspace, &arguments),
        Task::Scenario { arguments } => lab::run(&workspace, "noise-scenario", &arguments),
        Task::Drill { arguments } => lab::run(&workspace, "noise-drill", &arguments),
        Task::Dashboards => dashboards::run(&workspace),
        Task::Soak { arguments } => lab::run(&workspace, "noise-soak", &arguments),
        Task::Vm(arguments) => vm::run(&workspace, &arguments),
        Task::Package(arguments) => package::run(&workspace, &arguments),
    }
}
