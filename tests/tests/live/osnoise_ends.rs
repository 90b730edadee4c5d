//! How measuring ends, how it refuses to begin, and that it leaves nothing behind.

use std::fs;
use std::io::{Read as _, Seek as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use noise_tests::bpf;
use noise_tests::daemon::{Outcome, binary, capture, run, run_noised};
use noise_tests::ftrace::Recording;
use noise_tests::ftrace::blind::keep_sight;
use noise_tests::group::{Group, Hierarchy};
use noise_tests::measuring::{Measuring, array, number, of_cpu};
use noise_tests::pairing::runs::runs;
use noise_tests::task::cpus;
use serde_json::Value;

use crate::lifecycle::{PublicCopy, ensure_refused};
use crate::osnoise::{CPU, planter, planter_name, two_cpus};
use crate::{Impossible, Test};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("without_privileges", without_privileges),
    ("a_cpu_that_is_not_there", a_cpu_that_is_not_there),
    ("a_cpu_out_of_reach", a_cpu_out_of_reach),
    ("what_makes_no_sense", what_makes_no_sense),
    ("a_deadline_is_refused", a_deadline_is_refused),
    ("no_more_threads", no_more_threads),
    ("one_cpu_only", one_cpu_only),
    ("killed", killed),
    ("interrupted", interrupted),
    ("a_gap_ends_it", a_gap_ends_it),
    ("noise_in_sum_ends_it", noise_in_sum_ends_it),
];

/// Both commands that watch CPUs, short.
const COMMANDS: [&[&str]; 2] =
    [&["osnoise", "--duration", "200ms"], &["bench", "detour", "--duration", "200ms"]];

/// Runs what is refused, and requires that it says so and leaves nothing.
fn ensure_refused_clean(command: Command, code: i32, words: &[&str]) -> Result<()> {
    let before = bpf::program_ids()?;
    let outcome = run(command)?;
    ensure_refused(&outcome, code, words)?;
    ensure!(outcome.stdout.is_empty(), "a refusal with a result: {}", outcome.stdout);
    let lines = outcome.stderr.trim().lines().count();
    ensure!(lines == 1, "{lines} lines instead of one: {}", outcome.stderr);
    ensure_nothing_left(&before.into_iter().collect::<Vec<_>>())
}

/// Requires that every loaded program is held by a process, and that no process runs this binary.
fn ensure_nothing_left(before: &[u32]) -> Result<()> {
    let binary = binary()?;
    for entry in fs::read_dir("/proc")? {
        let path = entry?.path();
        // Kernel threads, and processes that are not ours, cannot be looked at.
        let Ok(program) = fs::read_link(path.join("exe")) else { continue };
        let parent = fs::read_to_string(path.join("stat")).unwrap_or_default();
        let parent = parent.rsplit_once(')').and_then(|(_, rest)| rest.split(' ').nth(2));
        let ours = parent.is_some_and(|pid| pid == std::process::id().to_string());
        ensure!(program != binary || !ours, "{} goes on", path.display());
    }
    bpf::ensure_none_left(&before.iter().copied().collect())
}

fn noised(arguments: &[&str]) -> Result<Command> {
    let mut command = Command::new(binary()?);
    command.args(arguments);
    Ok(command)
}

fn without_privileges() -> Result<()> {
    let copy = PublicCopy::new()?;
    for command in COMMANDS {
        ensure_refused_clean(copy.as_unprivileged(command), 3, &["CAP_BPF"])?;
    }
    Ok(())
}

fn a_cpu_that_is_not_there() -> Result<()> {
    for command in COMMANDS {
        let command = noised(&[command, &["--cpus", "0,1000"]].concat())?;
        ensure_refused_clean(command, 2, &["CPU 1000 is not online", "--cpus"])?;
    }
    let elsewhere = ["osnoise", "--duration", "200ms", "--housekeeping", "1000"];
    ensure_refused_clean(noised(&elsewhere)?, 2, &["--housekeeping", "1000"])?;
    Ok(())
}

fn a_cpu_out_of_reach() -> Result<()> {
    two_cpus()?;
    let (cpu, words) = (CPU.to_string(), [&*format!("not run on CPU {CPU}"), "allows 0"]);
    for command in COMMANDS {
        let mut bound = Command::new("taskset");
        bound.args(["-c", "0"]).arg(binary()?).args(command).args(["--cpus", &cpu]);
        ensure_refused_clean(bound, 2, &words)?;
    }
    let group = Group::new("cpuset", &[Hierarchy::Cpuset])?;
    ensure!(group.allow_cpus("0")?, Impossible("this host keeps no group to CPUs".into()));
    for command in COMMANDS {
        let mut bound = noised(&[command, &["--cpus", &cpu]].concat())?;
        group.admit(&mut bound)?;
        ensure_refused_clean(bound, 2, &words)?;
    }
    Ok(())
}

fn what_makes_no_sense() -> Result<()> {
    let period = ["osnoise", "--period", "100ms", "--runtime", "200ms"];
    ensure_refused_clean(noised(&period)?, 2, &["200ms", "100ms", "--period"])?;
    for arguments in [
        &["osnoise", "--duration", "0s"][..],
        &["osnoise", "--cpus", "1-0"],
        &["osnoise", "--priority", "f:100"],
        &["osnoise", "--on-threshold", "nothing"],
        &["bench", "detour", "--threshold", "0x"],
        &["bench", "detour", "--json", "--csv"],
    ] {
        let outcome = run_noised(arguments)?;
        ensure_refused(&outcome, 2, &[arguments[arguments.len() - 2]])?;
    }
    Ok(())
}

/// The kernel takes no thread with a deadline that is bound to one of several CPUs.
fn a_deadline_is_refused() -> Result<()> {
    two_cpus()?;
    let admission = fs::read_to_string("/proc/sys/kernel/sched_rt_runtime_us")?;
    ensure!(admission.trim() != "-1", Impossible("this host admits every deadline".into()));
    for command in COMMANDS {
        let command = noised(&[command, &["--priority", "d:900us:1ms"]].concat())?;
        ensure_refused_clean(command, 3, &["SCHED_DEADLINE", "cpuset"])?;
    }
    Ok(())
}

/// Where one of the measuring threads cannot be started, those that were do not wait for it.
fn no_more_threads() -> Result<()> {
    two_cpus()?;
    let group = Group::new("few", &[Hierarchy::Pids])?;
    // The first thread, and one that measures.
    ensure!(group.limit_tasks(2)?, Impossible("this host counts no group's tasks".into()));
    for command in COMMANDS {
        let mut limited = noised(&[command, &["--cpus", "0,1"]].concat())?;
        group.admit(&mut limited)?;
        ensure_refused_clean(limited, 1, &["cannot start a thread"])?;
    }
    Ok(())
}

fn one_cpu_only() -> Result<()> {
    for command in [&["osnoise", "--duration", "1s"][..], &["bench", "detour", "--duration", "1s"]]
    {
        let before = bpf::program_ids()?;
        let mut bound = Command::new("taskset");
        bound.args(["-c", "0"]).arg(binary()?).args(command).arg("--json");
        let Outcome { code, stdout, stderr } = run(bound)?;
        ensure!(code == 0 && stderr.is_empty(), "exit code {code}: {stderr}");
        let report: Value = serde_json::from_str(&stdout)?;
        ensure!(array(&report, "cpus")?.len() == 1, "other CPUs: {stdout}");
        let part = of_cpu(&report, 0)?;
        let measured = number(part, "runtime_ns").or_else(|_| number(part, "duration_ns"))?;
        println!("{command:?} measured {measured} ns");
        // All of the time, or what the collecting thread left of it.
        ensure!(measured > 300_000_000, "only {measured} ns of a second");
        ensure_nothing_left(&before.into_iter().collect::<Vec<_>>())?;
    }
    Ok(())
}

/// Starts each command with real-time priority, and requires that its end by a signal leaves nothing.
fn ends_clean(signal: i32, ended: fn(std::process::ExitStatus) -> bool) -> Result<()> {
    let cpu = u32::from(cpus() > 1);
    for command in [&["osnoise"][..], &["bench", "detour", "--duration", "1m"]] {
        let wanted = ["--cpus", &cpu.to_string(), "--priority", "f:3"];
        let mut measuring = Measuring::start(cpu, &[command, &wanted].concat())?;
        let programs = bpf::programs_of(measuring.process.pid())?;
        ensure!(!programs.is_empty(), "it holds no BPF program");
        let policy = policy_of(measuring.thread)?;
        ensure!(policy == libc::SCHED_FIFO, "it measures with policy {policy}");
        measuring.process.signal(signal)?;
        let status = measuring.process.wait()?;
        ensure!(ended(status), "{command:?} ended with {status}");
        let thread = format!("/proc/{}", measuring.thread);
        ensure!(!Path::new(&thread).exists(), "the measuring thread goes on");
        bpf::wait_until_gone(programs.into_keys())?;
        ensure_nothing_left(&bpf::program_ids()?.into_iter().collect::<Vec<_>>())?;
    }
    Ok(())
}

fn policy_of(thread: i32) -> Result<i32> {
    // SAFETY: no memory argument.
    let policy = unsafe { libc::sched_getscheduler(thread) };
    ensure!(policy >= 0, "sched_getscheduler: {}", std::io::Error::last_os_error());
    Ok(policy)
}

fn killed() -> Result<()> {
    ends_clean(libc::SIGKILL, |status| status.signal() == Some(libc::SIGKILL))
}

fn interrupted() -> Result<()> {
    ends_clean(libc::SIGINT, |status| status.code() == Some(0))
}

/// Shorter than one of the planter's runs, ns.
const HARDLY_NS: u64 = 50_000_000;

/// Measures with a priority at which only a planter takes the CPU for long, until a threshold
/// ends it. Real-time threads as a whole are held up for 50 ms of every second at most. Returns also how
/// long by ftrace the planter ran in the last sample of the record. Where it had hardly run by then,
/// it was somebody else with real-time priority.
fn until_threshold(arguments: &[&str], (run_us, period_us): (u64, u64)) -> Result<(Outcome, u64)> {
    let cpu = CPU.to_string();
    let first = ["osnoise", "--cpus", &cpu, "--housekeeping", "0", "--priority", "f:5"];
    // While real-time threads are held up the CPU would idle, and ftrace may not see how it goes on.
    let _sight = keep_sight()?;
    let recording = Recording::start(&["sched:sched_switch"], 8)?;
    let measuring = Measuring::start(CPU, &[&first[..], arguments].concat())?;
    let programs = bpf::programs_of(measuring.process.pid())?;
    let worker = planter(run_us, period_us, 20)?;
    let pid = worker.pid();
    let outcome = measuring.outcome()?;
    drop(worker);
    let trace = recording.stop()?;
    println!("{}{}", outcome.stdout, outcome.stderr);
    ensure!(outcome.code == 4, "exit code {}: {}", outcome.code, outcome.stderr);
    bpf::wait_until_gone(programs.into_keys())?;
    let record = format!("{}{}", outcome.stdout, outcome.stderr);
    let last = record.lines().rfind(|line| line.contains("sample_threshold: "));
    let (start_ns, end_ns) = ends_ns(last.context("the record has no sample")?)?;
    let runs = runs(&trace.events).samples;
    let own: Vec<_> = runs.iter().filter(|run| run.pid == pid && run.end_ns <= end_ns).collect();
    let ran_ns: u64 = own.iter().map(|run| run.value_ns).sum();
    let inside = own.iter().filter(|run| run.end_ns >= start_ns);
    let inside_ns = inside.map(|run| run.value_ns).sum();
    println!(
        "by ftrace, the planter had run for {ran_ns} ns, {inside_ns} ns of them in the last sample"
    );
    ensure!(
        ran_ns >= HARDLY_NS,
        "the recording is inconclusive: the planter had run for {ran_ns} ns only"
    );
    Ok((outcome, inside_ns))
}

/// When the sample of a line began and ended.
fn ends_ns(line: &str) -> Result<(u64, u64)> {
    let number = |name: &str| -> Result<&str> {
        let (_, rest) = line.split_once(name).with_context(|| format!("no{name}in {line:?}"))?;
        rest.split(' ').next().context("a line that is cut off")
    };
    let (seconds, rest) = number(" start ")?.split_once('.').context("no fraction of a second")?;
    let start_ns = seconds.parse::<u64>()? * 1_000_000_000 + rest.parse::<u64>()?;
    Ok((start_ns, start_ns + number(" duration ")?.parse::<u64>()?))
}

fn a_gap_ends_it() -> Result<()> {
    two_cpus()?;
    let mut file = capture()?;
    let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
    let command = format!(
        "shell,command=(echo cpu $NOISED_CPU; grep Cpus_allowed_list /proc/self/status; \
         grep ^policy /proc/self/sched) > {path}"
    );
    let actions = ["--on-threshold", "dump", "--on-threshold", &command];
    let arguments = [&["--stop", "200ms"], &actions[..]].concat();
    let (outcome, ran_ns) = until_threshold(&arguments, (300_000, 600_000))?;
    let record = outcome.stdout.split_once("stopped by a single gap of").context("no record")?.1;
    let mut lines = record.lines().rev();
    let sample = lines.next().context("an empty record")?;
    ensure!(sample.contains("sample_threshold: "), "the record ends with {sample:?}");
    let named = format!("thread_noise: {}:", planter_name());
    // The kernel lets other threads in between for up to 50 ms, so that the planter may have several.
    let parts = lines.take_while(|line| !line.contains("sample_threshold: "));
    let parts: Vec<_> = parts.filter(|line| line.contains(&named)).collect();
    ensure!(!parts.is_empty(), "the last sample does not name the planter");
    let duration = |line: &str| -> Result<u64> {
        let (_, rest) = line.split_once(" duration ").context("no duration")?;
        Ok(rest.split(' ').next().context("no duration")?.parse()?)
    };
    let part: u64 = parts.into_iter().map(duration).sum::<Result<_>>()?;
    let whole = duration(sample)?;
    println!("the planter has {part} of {whole} ns, by ftrace {ran_ns}");
    // Stamps of threads are far apart; what differs by more is missing or somebody else's.
    ensure!(
        part.abs_diff(ran_ns) * 20 <= ran_ns,
        "the planter has {part} ns, by ftrace {ran_ns} ns"
    );
    let mut text = String::new();
    file.rewind()?;
    file.read_to_string(&mut text)?;
    let own = fs::read_to_string("/proc/self/status")?;
    let allowed =
        own.lines().find(|line| line.starts_with("Cpus_allowed_list")).context("no list")?;
    println!("{text}");
    ensure!(text.starts_with(&format!("cpu {CPU}\n")), "the command saw {text:?}");
    ensure!(text.contains(allowed), "the command was bound to other CPUs than {allowed}: {text:?}");
    ensure!(!text.contains("policy") || text.trim_end().ends_with(" 0"), "real-time: {text:?}");
    Ok(())
}

fn noise_in_sum_ends_it() -> Result<()> {
    two_cpus()?;
    let command = "shell,command=echo the command ran";
    let actions = ["--json", "--on-threshold", "dump", "--on-threshold", command];
    let arguments = [&["--stop-total", "150ms"], &actions[..]].concat();
    let (outcome, _) = until_threshold(&arguments, (60_000, 120_000))?;
    let report: Value = serde_json::from_str(&outcome.stdout).context("the output is no JSON")?;
    let noise_ns = number(of_cpu(&report, CPU)?, "max_noise_ns")?;
    ensure!(noise_ns >= 150_000_000, "{noise_ns} ns of noise ended it");
    let record = &outcome.stderr;
    ensure!(record.contains("noise in one period of"), "the record lacks the reason: {record}");
    ensure!(record.contains(&format!("thread_noise: {}:", planter_name())), "no planter: {record}");
    ensure!(record.contains("the command ran"), "the command did not run: {record}");
    Ok(())
}
