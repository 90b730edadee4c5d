//! `noised check`: what this kernel offers.

mod advice;
mod recorder;
mod unseen;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use advice::{Caller, advice, privileges};
use noise_client::connect::{host_socket, socket};
use noise_client::frame;
use noise_command::CommandError;
use noise_command::output;
use noise_common::signals::{SIGNALS, SignalInfo};
use noise_host::kernel::{
    Engine, HookSet, HookState, HookStatus, KernelBtf, LoadOptions, Lockdown, MapSize, Sight,
    SignalState, Sizes, has_own_users, lockdown, missing_capabilities, signal_state,
};
use noise_host::resolve::cgroup::{CgroupLayout, Explained, Hierarchies, Mounts};
use noise_keep::state::{DEFAULT_DIRECTORY, demand};
use noise_model::{MOST_TREND_BYTES, TRENDS_NS};
use noise_system::procfs;
use recorder::Recorders;
use serde::Serialize;
use serde_json::json;
use unseen::Unseen;

use crate::cli::connect::unanswered;
use crate::cli::watching::now_s;
use crate::config::RecorderSection;
use crate::confine::{filters_system_calls, landlock, reader, without};

/// Arguments of `noised check`.
#[derive(Debug, clap::Args)]
pub struct CheckArgs {
    /// Ask the daemon at this socket what its flight recorder holds [default: the one of this host].
    #[arg(long, value_name = "SOCKET", value_parser = socket)]
    connect: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// What scripts read. Keys of what is not known here are absent.
#[derive(Serialize)]
struct CheckReport {
    kernel: String,
    btf: bool,
    missing_capabilities: Vec<String>,
    user_namespace: bool,
    lockdown: Lockdown,
    cgroup: &'static str,
    cgroup_hierarchies: Explained,
    missing_cgroup_hierarchies: Vec<&'static str>,
    history_seconds: u64,
    history_most_bytes: usize,
    #[serde(flatten)]
    memory: Option<MemoryReport>,
    unseen: Unseen,
    #[serde(flatten)]
    landlock: Landlock,
    seccomp: bool,
    threads: Sight,
    #[serde(flatten)]
    programs: Option<ProgramsReport>,
    works: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// What maps take, and the flight recorder.
#[derive(Default, Serialize)]
struct MemoryReport {
    cpus: u32,
    pid_max: u32,
    map_bytes: u64,
    map_bytes_by_pid: u64,
    maps: Vec<MapSize>,
    recorder_bytes: u64,
    recorder_events_per_cpu: u32,
    recorder: Recorders,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Landlock {
    /// Its version; 0 = this kernel has none.
    Landlock(u32),
    /// Why it fails though this kernel has it.
    LandlockRefused(String),
}

/// What is known once the programs are attached.
#[derive(Serialize)]
struct ProgramsReport {
    reads_maps_unprivileged: bool,
    kept_capability: Option<String>,
    hooks: Vec<HookLine>,
    recording_hooks: Vec<HookLine>,
    calls_lack: Vec<&'static str>,
    signals: Vec<SignalLine>,
}

#[derive(Serialize)]
struct HookLine {
    hook: &'static str,
    state: &'static str,
    detail: String,
}

#[derive(Serialize)]
struct SignalLine {
    signal: &'static str,
    measured: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

impl From<&HookStatus> for HookLine {
    fn from(status: &HookStatus) -> Self {
        let (state, detail) = match &status.state {
            HookState::Loaded(attach) | HookState::Attached(attach) => ("ok", attach.name()),
            HookState::Absent => ("absent", "this kernel has no such tracepoint"),
            HookState::Refused(reason) => ("refused", reason.as_str()),
        };
        Self { hook: status.hook.tracepoint(), state, detail: detail.to_owned() }
    }
}

impl ProgramsReport {
    fn of(engine: &Engine) -> Self {
        let readable = without(|| engine.is_readable()).ok().flatten().unwrap_or(false);
        let hooks = |on_demand: bool| {
            let those = engine.hooks().iter().filter(|it| it.hook.is_on_demand() == on_demand);
            those.map(HookLine::from).collect()
        };
        let signal = |info: &'static SignalInfo| {
            let reason = match signal_state(info, engine.facts(), engine.hooks()) {
                SignalState::Active => None,
                SignalState::Absent(reason) => Some(reason),
            };
            SignalLine { signal: info.name, measured: reason.is_none(), reason }
        };
        Self {
            reads_maps_unprivileged: readable,
            kept_capability: (!readable).then(|| reader().to_string()),
            hooks: hooks(false),
            recording_hooks: hooks(true),
            calls_lack: engine.facts().missing_of_calls(),
            signals: SIGNALS.iter().map(signal).collect(),
        }
    }
}

/// Runs the command; `Ok(())` where noised can work here.
/// Errors: why it cannot.
pub fn run(args: &CheckArgs) -> Result<(), CommandError> {
    // Before programs of our own fill rings.
    let asked = frame(&args.connect.clone().unwrap_or_else(host_socket));
    let asked = match (asked, &args.connect) {
        (Err(fault), Some(_)) => return Err(unanswered(fault)),
        (asked, _) => asked,
    };
    let capabilities = missing_capabilities();
    let mounts = Mounts::of_process();
    let hierarchies = Hierarchies::of(&mounts);
    let remembered = demand(Path::new(DEFAULT_DIRECTORY)).busiest(now_s());
    let size = RecorderSection::default().size(remembered);
    let memory = Sizes::of_host().ok().map(|sizes| {
        let (map_bytes, map_bytes_by_pid) = sizes.total_bytes(false);
        let recorder = sizes.store(size);
        MemoryReport {
            cpus: sizes.cpus,
            pid_max: sizes.pids,
            map_bytes,
            map_bytes_by_pid,
            maps: sizes.maps(false),
            recorder_bytes: recorder.bytes(),
            recorder_events_per_cpu: recorder.events(),
            recorder: Recorders::of(&asked, recorder, remembered.is_some()),
        }
    });
    // The flight recorder has hooks of its own.
    let options = LoadOptions { recorder: size, hooks: HookSet::All, ..LoadOptions::default() };
    let outcome = Engine::load(&options).and_then(|mut engine| {
        engine.attach()?;
        Ok(engine)
    });
    let programs = outcome.as_ref().ok().map(ProgramsReport::of);
    let error = outcome.err();
    let kernel = procfs::text("/proc/sys/kernel/osrelease").unwrap_or_default();
    let report = CheckReport {
        kernel: kernel.trim().to_owned(),
        btf: Path::new(KernelBtf::PATH).exists(),
        missing_capabilities: capabilities.iter().map(ToString::to_string).collect(),
        user_namespace: has_own_users(Path::new("/proc")),
        lockdown: lockdown(Path::new("/sys")),
        cgroup: mounts.layout().map_or("none", CgroupLayout::name),
        cgroup_hierarchies: hierarchies.explained(),
        missing_cgroup_hierarchies: hierarchies.missing(),
        history_seconds: TRENDS_NS / 1_000_000_000,
        history_most_bytes: MOST_TREND_BYTES,
        memory,
        unseen: Unseen::of(Path::new("/sys")),
        landlock: landlock().map_or_else(Landlock::LandlockRefused, Landlock::Landlock),
        seccomp: filters_system_calls(),
        threads: without(|| Sight::of(Path::new("/proc"))).ok().flatten().unwrap_or(Sight::Hidden),
        programs,
        works: error.is_none(),
        error: error.as_ref().map(ToString::to_string),
    };
    let printed = if args.json {
        output::print_json(&format!("{:#}\n", json!(report)))
    } else {
        let privileges = privileges(&capabilities, error.as_ref());
        let mut page = human(&report, &privileges, hierarchies.trouble());
        if let Some(error) = &error {
            page.push_str(&advice(error, &Caller::of_process()));
        }
        output::print(&page)
    };
    error.map_or(Ok(()), |error| Err(error.into())).and(printed.map_err(Into::into))
}

/// What the daemon gives up once it measures, as far as this kernel can take it.
fn confinement(report: &CheckReport) -> String {
    let capabilities = match report.programs.as_ref().map(|programs| &programs.kept_capability) {
        Some(Some(kept)) => format!("{kept} kept (this kernel demands it for reading BPF maps)"),
        Some(None) => "all capabilities dropped".to_owned(),
        None => "capabilities unknown".to_owned(),
    };
    // What Landlock does not do here, the filter of system calls does alone.
    let files = match &report.landlock {
        Landlock::LandlockRefused(why) => format!("files not confined ({why})"),
        Landlock::Landlock(0) => "files not confined (no Landlock)".to_owned(),
        Landlock::Landlock(abi @ 1..=3) => {
            format!("files confined, ports and signals not (Landlock {abi})")
        }
        Landlock::Landlock(abi @ 4..=5) => {
            format!("files and ports confined, signals not (Landlock {abi})")
        }
        Landlock::Landlock(abi) => format!("files, ports and signals confined (Landlock {abi})"),
    };
    let calls = if report.seccomp { "confined" } else { "not confined (no seccomp)" };
    format!("{capabilities}, {files}, system calls {calls}")
}

fn human(report: &CheckReport, privileges: &str, trouble: Option<String>) -> String {
    let mut page = String::new();
    let unknown = MemoryReport::default();
    let memory = report.memory.as_ref().unwrap_or(&unknown);
    let mib = |bytes: u64| bytes as f64 / (1024.0 * 1024.0);
    let _ = writeln!(page, "kernel       {}", report.kernel);
    let _ = writeln!(page, "BTF          {}", if report.btf { "present" } else { "missing" });
    let _ = writeln!(page, "privileges   {privileges}");
    let _ = writeln!(page, "lockdown     {}", format!("{:?}", report.lockdown).to_lowercase());
    let _ = writeln!(page, "cgroups      {}", report.cgroup);
    for line in report.cgroup_hierarchies.to_string().lines() {
        let _ = writeln!(page, "             {line}");
    }
    if let Some(trouble) = trouble {
        let _ = writeln!(page, "             {trouble}");
    }
    let _ = writeln!(page, "threads      {}", report.threads.trouble().unwrap_or("can be named"));
    let _ = writeln!(page, "confinement  {}", confinement(report));
    let _ = writeln!(
        page,
        "maps         {:.1} MiB for {} CPUs, of which {:.1} MiB for {} pids",
        mib(memory.map_bytes),
        memory.cpus,
        mib(memory.map_bytes_by_pid),
        memory.pid_max
    );
    for (at, line) in memory.recorder.page().lines().enumerate() {
        let _ = writeln!(page, "{:13}{line}", if at == 0 { "recorder" } else { "" });
    }
    let _ = writeln!(
        page,
        "history      {} minutes of what signals and victims lost, in at most {:.0} MiB",
        report.history_seconds / 60,
        mib(report.history_most_bytes as u64)
    );
    if let Some(programs) = &report.programs {
        for (hooks, title) in [
            (&programs.hooks, "hooks"),
            (&programs.recording_hooks, "hooks that only a recording attaches"),
        ] {
            let _ = writeln!(page, "\n{title} ({})", hooks.len());
            for HookLine { hook, state, detail } in hooks {
                let _ = writeln!(page, "  {hook:28} {state:8} {detail}");
            }
        }
        if !programs.calls_lack.is_empty() {
            let lacks = programs.calls_lack.join(", ");
            let _ = writeln!(page, "  events of system calls are without {lacks}");
        }
        let _ = writeln!(page, "\nsignals ({})", SIGNALS.len());
        for SignalLine { signal, measured, reason } in &programs.signals {
            let state = if *measured { "measured" } else { "absent" };
            let reason = reason.as_deref().unwrap_or_default();
            let _ = writeln!(page, "  {signal:28} {state:8} {reason}");
        }
    }
    let unseen = report.unseen.page();
    if !unseen.is_empty() {
        let _ = write!(page, "\nlimits of the disks and interfaces here\n{unseen}");
    }
    let works = if report.works { "noised can work here." } else { "noised cannot work here." };
    let _ = writeln!(page, "\n{works}");
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use noise_common::hooks::Hook;

    fn report(memory: Option<MemoryReport>, programs: Option<ProgramsReport>) -> CheckReport {
        let hierarchies = Hierarchies::default();
        let works = programs.is_some();
        CheckReport {
            kernel: "6.1.0".to_owned(),
            btf: true,
            missing_capabilities: vec!["CAP_BPF".to_owned()],
            user_namespace: false,
            lockdown: Lockdown::Integrity,
            cgroup: "v2",
            cgroup_hierarchies: hierarchies.explained(),
            missing_cgroup_hierarchies: hierarchies.missing(),
            history_seconds: 900,
            history_most_bytes: 4 << 20,
            memory,
            unseen: Unseen::default(),
            landlock: Landlock::Landlock(7),
            seccomp: true,
            threads: Sight::Whole,
            programs,
            works,
            error: (!works).then(|| "forbidden".to_owned()),
        }
    }

    fn programs(kept_capability: Option<String>) -> ProgramsReport {
        let hook = |state| HookLine::from(&HookStatus { hook: Hook::SchedSwitch, state });
        let signal = |signal, reason: Option<&str>| SignalLine {
            signal,
            measured: reason.is_none(),
            reason: reason.map(str::to_owned),
        };
        ProgramsReport {
            reads_maps_unprivileged: kept_capability.is_none(),
            kept_capability,
            hooks: vec![hook(HookState::Absent)],
            recording_hooks: vec![hook(HookState::Refused("why".to_owned()))],
            calls_lack: vec!["ports", "inodes"],
            signals: vec![signal("one", None), signal("other", Some("no field"))],
        }
    }

    fn memory() -> MemoryReport {
        MemoryReport {
            cpus: 2,
            pid_max: 32_768,
            map_bytes: 3 << 20,
            map_bytes_by_pid: 1 << 19,
            maps: vec![MapSize { name: "MAP", max_entries: 2, bytes: 8 }],
            recorder_bytes: 64,
            recorder_events_per_cpu: 1,
            recorder: Recorders::default(),
        }
    }

    #[test]
    fn documents_and_pages_are_as_they_were() {
        let refused = Landlock::LandlockRefused("EPERM".to_owned());
        let bare = CheckReport { landlock: refused, ..report(None, None) };
        let hierarchies = json!({
            "requests": null, "sockets": null, "tasks": [], "why": "no cgroup hierarchy is mounted here",
        });
        let unseen = json!({
            "disks_without_requests": [], "program_interfaces": [], "threaded_interfaces": [],
        });
        let mut expected = json!({
            "btf": true, "cgroup": "v2", "cgroup_hierarchies": hierarchies, "error": "forbidden",
            "history_most_bytes": 4_194_304, "history_seconds": 900, "kernel": "6.1.0",
            "landlock_refused": "EPERM", "lockdown": "integrity", "missing_capabilities": ["CAP_BPF"],
            "missing_cgroup_hierarchies": ["tasks", "requests", "sockets"], "seccomp": true,
            "threads": "whole", "unseen": unseen, "user_namespace": false, "works": false,
        });
        assert_eq!(json!(bare), expected);
        let more = json!({
            "calls_lack": ["ports", "inodes"], "cpus": 2,
            "hooks": [{"detail": "this kernel has no such tracepoint", "hook": "sched_switch", "state": "absent"}],
            "kept_capability": null, "landlock": 7, "map_bytes": 3_145_728, "map_bytes_by_pid": 524_288,
            "maps": [{"bytes": 8, "max_entries": 2, "name": "MAP"}], "pid_max": 32_768,
            "reads_maps_unprivileged": true,
            "recorder": {
                "is_remembered": false, "now": null, "start_bytes": 0, "start_events_per_cpu": 0,
            },
            "recorder_bytes": 64, "recorder_events_per_cpu": 1,
            "recording_hooks": [{"detail": "why", "hook": "sched_switch", "state": "refused"}],
            "signals": [
                {"measured": true, "signal": "one"},
                {"measured": false, "reason": "no field", "signal": "other"},
            ],
            "works": true,
        });
        let expected_map = expected.as_object_mut().unwrap();
        expected_map.retain(|key, _| !["error", "landlock_refused"].contains(&key.as_str()));
        expected_map.extend(more.as_object().unwrap().clone());
        let whole = report(Some(memory()), Some(programs(None)));
        assert_eq!(json!(whole), expected);
        let signals = SIGNALS.len();
        assert_eq!(
            human(&whole, "sufficient", Some("mount it".to_owned())),
            format!(
                "kernel       6.1.0\n\
             BTF          present\n\
             privileges   sufficient\n\
             lockdown     integrity\n\
             cgroups      v2\n\
             \x20            tasks by none: no cgroup hierarchy is mounted here\n\
             \x20            block requests by none, sockets by none\n\
             \x20            mount it\n\
             threads      can be named\n\
             confinement  all capabilities dropped, files, ports and signals confined (Landlock 7), system calls confined\n\
             maps         3.0 MiB for 2 CPUs, of which 0.5 MiB for 32768 pids\n\
             recorder     \n\
             \x20            a start makes it 0.0 MiB (0 KiB for each CPU), more where the first 2 s after a start show \
             that it is needed, unless [recorder] says otherwise\n\
             history      15 minutes of what signals and victims lost, in at most 4 MiB\n\
             \nhooks (1)\n\
             \x20 sched_switch                 absent   this kernel has no such tracepoint\n\
             \nhooks that only a recording attaches (1)\n\
             \x20 sched_switch                 refused  why\n\
             \x20 events of system calls are without ports, inodes\n\
             \nsignals ({signals})\n\
             \x20 one                          measured \n\
             \x20 other                        absent   no field\n\
             \nnoised can work here.\n"
            )
        );
        let page = human(&bare, "", None);
        assert!(
            page.contains("confinement  capabilities unknown, files not confined (EPERM), system")
        );
        assert!(page.contains("maps         0.0 MiB for 0 CPUs, of which 0.0 MiB for 0 pids\n"));
        assert!(page.ends_with("in at most 4 MiB\n\nnoised cannot work here.\n"));
    }

    #[test]
    fn a_host_without_hierarchies_is_reported_so() {
        let page = |hierarchies: Hierarchies| {
            let cgroup_hierarchies = hierarchies.explained();
            let report = CheckReport { cgroup_hierarchies, ..report(None, None) };
            human(&report, "", hierarchies.trouble())
        };
        let words = "no cgroup hierarchy was found for tasks, requests, sockets";
        assert!(page(Hierarchies::default()).contains(words));
        let root = Some(PathBuf::from("/sys/fs/cgroup"));
        let all = Hierarchies {
            tasks: root.clone(),
            io: root.clone(),
            sockets: root,
            ..Hierarchies::default()
        };
        assert!(!page(all).contains("no cgroup hierarchy"));
    }

    #[test]
    fn a_daemon_that_was_named_has_to_answer() {
        let folder = tempfile::tempdir().unwrap();
        let connect = Some(folder.path().join("none.sock"));
        let error = run(&CheckArgs { connect, json: true }).unwrap_err();
        assert!(error.to_string().contains("none.sock") && error.to_string().contains("--connect"));
    }

    #[test]
    fn what_is_not_confined_is_named() {
        let said = |landlock: Landlock| {
            confinement(&CheckReport { landlock, ..report(None, Some(programs(None))) })
        };
        let line = |version: u32| said(Landlock::Landlock(version));
        assert!(line(0).contains("files not confined (no Landlock)"));
        let said = said(Landlock::LandlockRefused("an outer sandbox refuses it".to_owned()));
        assert!(said.contains("files not confined (an outer sandbox refuses it)"), "{said}");
        assert!(said.ends_with("system calls confined"), "{said}");
        assert!(line(2).contains("ports and signals not (Landlock 2)"));
        assert!(line(5).contains("files and ports confined, signals not"));
        assert_eq!(
            line(7),
            "all capabilities dropped, files, ports and signals confined (Landlock 7), system calls confined"
        );
    }
}
