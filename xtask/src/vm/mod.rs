//! `cargo xtask vm`: noised on Debian's kernels, in QEMU.
//!
//! The packages are downloaded and unpacked, never installed; the guest is a kernel with some of its
//! modules, busybox, noised, its live tests, and a script. All of it lies below `target/vm`. The
//! processor is emulated: what may be judged are names, counts and order, never times.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::cargo::{DAEMON, Workspace, named};
use crate::{lanes, setup, suite};

mod boot;
mod complaints;
mod debian;
mod elf;
mod initramfs;
mod modules;
mod outcome;
mod selection;
mod table;

use boot::Folder;
use complaints::Complaints;
use initramfs::Contents;
use outcome::Outcome;
use selection::{Extent, Selection};
use table::{Row, Verdict};

/// What runs in the guest.
#[derive(clap::Args)]
pub struct Arguments {
    /// Kernels: 5.10, 6.1, 6.12, 7 (the newest of them), also with -rt or -cloud [default: those of
    /// the scenario]
    #[arg(value_name = "KERNEL")]
    kernels: Vec<String>,
    /// A kernel to leave out; may be given more than once
    #[arg(long, value_name = "KERNEL")]
    skip: Vec<String>,
    /// A scenario of this task
    #[arg(long, value_name = "NAME", default_value = "matrix", conflicts_with = "script")]
    scenario: String,
    /// A shell script instead; /noised is the daemon
    #[arg(long, value_name = "FILE")]
    script: Option<PathBuf>,
    /// Of the live tests, only those that plant a known number of events
    #[arg(long)]
    quick: bool,
    /// Two small kernels, --quick; fails where one of them is not booted
    #[arg(long, conflicts_with_all = ["script", "scenario"])]
    ci: bool,
    /// Of the live tests, only those with this in their names
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Print the matrix as JSON
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
    /// Print the matrix as a table for docs/kernels.md
    #[arg(long)]
    markdown: bool,
}

/// A script with the kernels that it is made for.
struct Scenario {
    name: &'static str,
    kernels: &'static [&'static str],
    script: &'static str,
}

const MATRIX: Scenario = Scenario {
    name: "matrix",
    kernels: &[
        "5.10-cloud",
        "5.10",
        "6.1-cloud",
        "6.1",
        "6.1-rt",
        "6.12-cloud",
        "6.12",
        "6.12-rt",
        "7.2-cloud",
        "7-cloud",
        "7",
    ],
    script: include_str!("scenarios/matrix.sh"),
};

const OSNOISE: Scenario = Scenario {
    name: "osnoise",
    kernels: &["6.1-rt", "6.12-rt"],
    script: include_str!("scenarios/osnoise.sh"),
};

const SCENARIOS: [&Scenario; 2] = [&MATRIX, &OSNOISE];

/// Small packages, of the two versions that most hosts run.
const CI: [&str; 2] = ["6.1-cloud", "6.12-cloud"];

/// A guest that takes longer hangs. Emulation on a busy machine is slow, and some kernels have much
/// to run.
const LONGEST: Duration = Duration::from_secs(1500);

/// As [`LONGEST`], where a check of everything has to end in its time: four times what it takes.
const LONGEST_IN_CI: Duration = Duration::from_secs(640);

/// Boots every kernel; fails if one of them does.
pub fn run(workspace: &Workspace, arguments: &Arguments) -> Result<ExitCode> {
    let plan = Plan::new(arguments)?;
    boot::is_possible()?;
    let folder = Folder::take(workspace.target.join("vm"))?;
    setup::ensure(workspace)?;
    if plan.is_matrix {
        matrix(workspace, arguments, &plan, &folder)
    } else {
        scripted(workspace, &plan, &folder)
    }
}

/// What is to be run, and where.
struct Plan {
    kernels: Vec<String>,
    script: String,
    is_matrix: bool,
    longest: Duration,
}

impl Plan {
    fn new(arguments: &Arguments) -> Result<Self> {
        let (script, made_for, is_matrix) = match &arguments.script {
            Some(file) => {
                let script = fs::read_to_string(file)
                    .with_context(|| format!("cannot read the script {}", file.display()))?;
                (script, &[][..], false)
            }
            None => {
                let name = arguments.scenario.as_str();
                let Some(scenario) = SCENARIOS.iter().find(|scenario| scenario.name == name) else {
                    let known = SCENARIOS.map(|scenario| scenario.name).join(", ");
                    bail!("there is no scenario {name}; there are: {known}");
                };
                (scenario.script.to_owned(), scenario.kernels, name == MATRIX.name)
            }
        };
        let made_for = if arguments.ci { &CI } else { made_for };
        let mut kernels = arguments.kernels.clone();
        if kernels.is_empty() {
            kernels = made_for.iter().map(|&name| name.to_owned()).collect();
        }
        kernels.retain(|kernel| !arguments.skip.contains(kernel));
        if kernels.is_empty() {
            bail!("no kernel is left to boot; name one");
        }
        let longest = if arguments.ci { LONGEST_IN_CI } else { LONGEST };
        Ok(Self { kernels, script, is_matrix, longest })
    }
}

/// The daemon that the environment names, else one that is not optimised: times mean nothing there.
fn daemon(workspace: &Workspace) -> Result<PathBuf> {
    if std::env::var_os(DAEMON).is_some() {
        return workspace.noised_to_try();
    }
    named(workspace.build(&["build", "--package", "noise-daemon"])?, "noised")
}

/// A script that judges by itself.
fn scripted(workspace: &Workspace, plan: &Plan, folder: &Folder) -> Result<ExitCode> {
    let programs = [(daemon(workspace)?, "noised")];
    let contents = Contents { programs: &programs, script: &plan.script, arguments: "" };
    let archive = initramfs::build(&folder.path, &contents)?;
    let mut failed = 0;
    for name in &plan.kernels {
        println!("\nvm: {name}");
        let ended = debian::obtain(&folder.path, name)
            .and_then(|kernel| guest(folder, name, &kernel, &archive, plan.longest))
            .and_then(|ended| {
                print!("{}", ended.console);
                let faults = Complaints::among(&[&ended.console]).faults;
                ended.script?;
                ensure!(faults.is_empty(), "the kernel says {}", faults.join("; "));
                Ok(())
            });
        if let Err(error) = ended {
            eprintln!("vm: {name}: {error:#}");
            failed += 1;
        }
    }
    let all = plan.kernels.len();
    println!("\nvm: {} of {all} kernels passed", all - failed);
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn matrix(
    workspace: &Workspace,
    arguments: &Arguments,
    plan: &Plan,
    folder: &Folder,
) -> Result<ExitCode> {
    // Optimised, as it is shipped: emulation makes enough of it slow.
    let noised = workspace.noised_to_try()?;
    let (tests, helpers): (Vec<_>, Vec<_>) =
        suite::built(workspace, &[])?.into_iter().partition(|executable| executable.tests);
    let (live, rights) = (named(tests, "live")?, named(helpers, "noise-rights")?);
    let extent = if arguments.ci || arguments.quick { Extent::Quick } else { Extent::Whole };
    let Selection { arguments: for_tests, chosen, left_out } =
        selection::select(&live, extent, arguments.filter.as_deref())?;
    let programs = [(noised, "noised"), (live, "live"), (rights, "noise-rights")];
    let contents = Contents { programs: &programs, script: &plan.script, arguments: &for_tests };
    let archive = initramfs::build(&folder.path, &contents)?;
    // One thread of this host emulates a guest.
    let rows = lanes::each(&plan.kernels, |name| {
        eprintln!("vm: {name}: {} live tests", chosen.len());
        // A check of everything must not pass over kernels without a word.
        let is_wanted = arguments.ci || arguments.kernels.contains(name);
        let row = row(folder, name, &archive, is_wanted, plan.longest);
        match &row.verdict {
            Verdict::Ran(outcome) => eprintln!("vm: {name}: {} passed", outcome.tests.passed),
            Verdict::Skipped(reason) | Verdict::Broken(reason) => eprintln!("vm: {name}: {reason}"),
        }
        row
    });
    if arguments.json {
        println!("{:#}", table::json(&rows, &left_out));
    } else if arguments.markdown {
        print!("{}", table::markdown(&rows));
    } else {
        print!("\n{}", table::text(&rows, &left_out));
    }
    let is_good = rows.iter().all(|row| row.faults().is_empty());
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A kernel that cannot be had is a failure only where it was asked for.
fn row(folder: &Folder, name: &str, archive: &Path, is_wanted: bool, longest: Duration) -> Row {
    let begin = Instant::now();
    let kernel = folder.alone(|| debian::obtain(&folder.path, name));
    let verdict = match kernel {
        Err(error) if is_wanted => Verdict::Broken(format!("{error:#}")),
        Err(error) => Verdict::Skipped(format!("{error:#}")),
        Ok(kernel) => match guest(folder, name, &kernel, archive, longest) {
            Err(error) => Verdict::Broken(format!("{error:#}")),
            Ok(boot::Ended { script: Err(error), console, results }) => Verdict::Broken(format!(
                "{error:#}; last words: {}",
                last_words(&console, &results)
            )),
            Ok(ended) => Verdict::Ran(Box::new(Outcome::read(&ended.results, &ended.console))),
        },
    };
    Row { kernel: name.to_owned(), verdict, took: begin.elapsed() }
}

fn guest(
    folder: &Folder,
    name: &str,
    kernel: &debian::Kernel,
    archive: &Path,
    longest: Duration,
) -> Result<boot::Ended> {
    eprintln!("vm: {name} is {}", kernel.package);
    let whole = folder.alone(|| {
        let modules = modules::wanted(&kernel.modules)?;
        initramfs::with_modules(&folder.path, name, archive, &modules)
    })?;
    let ended = boot::boot(folder, name, &kernel.vmlinux, &whole, longest);
    fs::remove_file(&whole).with_context(|| format!("cannot remove {}", whole.display()))?;
    ended
}

/// The end of what a guest said before it broke off.
fn last_words(console: &str, results: &str) -> String {
    let last = |text: &str| text.trim_end().lines().last().unwrap_or("nothing").to_owned();
    format!("{} / {}", last(console), last(results))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::{Arguments, MATRIX, Plan};

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn plan(line: &[&str]) -> anyhow::Result<Plan> {
        Plan::new(&Line::try_parse_from([&["vm"], line].concat())?.arguments)
    }

    #[test]
    fn kernels_are_those_of_the_scenario_unless_named() -> anyhow::Result<()> {
        assert_eq!(plan(&[])?.kernels, MATRIX.kernels);
        assert_eq!(plan(&["6.1", "7-cloud"])?.kernels, ["6.1", "7-cloud"]);
        assert_eq!(plan(&["--scenario", "osnoise"])?.kernels, ["6.1-rt", "6.12-rt"]);
        assert_eq!(plan(&["--ci", "--skip", "6.1-cloud"])?.kernels, ["6.12-cloud"]);
        assert!(!plan(&["--skip", "7"])?.kernels.contains(&"7".to_owned()));
        assert!(plan(&["6.1", "--skip", "6.1"]).is_err());
        assert!(plan(&["--scenario", "none"]).is_err());
        assert!(plan(&["--ci", "--scenario", "osnoise"]).is_err());
        Ok(())
    }
}
