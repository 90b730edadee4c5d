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
use noise_common::signals::SIGNALS;
use noise_host::kernel::{
    Engine, HookSet, HookState, HookStatus, KernelBtf, LoadOptions, Lockdown, Sight, SignalState,
    Sizes, has_own_users, lockdown, missing_capabilities, signal_state,
};
use noise_host::resolve::cgroup::{CgroupLayout, Hierarchies, Mounts};
use noise_keep::state::{DEFAULT_DIRECTORY, demand};
use noise_model::{MOST_TREND_BYTES, TRENDS_NS};
use noise_system::procfs;
use recorder::Recorders;
use serde_json::{Value, json};
use unseen::Unseen;

use crate::cli::connect::unanswered;
use crate::config::RecorderSection;
use crate::confine::{filters_system_calls, landlock_abi, reader, refused, without};

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

fn hook_line(status: &HookStatus) -> Value {
    let (state, detail) = match &status.state {
        HookState::Loaded(attach) | HookState::Attached(attach) => ("ok", attach.name()),
        HookState::Absent => ("absent", "this kernel has no such tracepoint"),
        HookState::Refused(reason) => ("refused", reason.as_str()),
    };
    json!({"hook": status.hook.tracepoint(), "state": state, "detail": detail})
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
    let mut report = serde_json::Map::new();
    let kernel = procfs::text("/proc/sys/kernel/osrelease").unwrap_or_default();
    let capabilities = missing_capabilities();
    let missing: Vec<String> = capabilities.iter().map(ToString::to_string).collect();
    let mounts = Mounts::of_process();
    let mode = lockdown(Path::new("/sys"));
    report.insert("kernel".into(), json!(kernel.trim()));
    report.insert("btf".into(), json!(Path::new(KernelBtf::PATH).exists()));
    report.insert("missing_capabilities".into(), json!(missing));
    report.insert("user_namespace".into(), json!(has_own_users(Path::new("/proc"))));
    report.insert("lockdown".into(), json!(mode));
    report.insert("cgroup".into(), json!(mounts.layout().map_or("none", CgroupLayout::name)));
    let hierarchies = Hierarchies::of(&mounts);
    report.insert("cgroup_hierarchies".into(), json!(hierarchies.explained()));
    report.insert("missing_cgroup_hierarchies".into(), json!(hierarchies.missing()));
    report.insert("history_seconds".into(), json!(TRENDS_NS / 1_000_000_000));
    report.insert("history_most_bytes".into(), json!(MOST_TREND_BYTES));
    let remembered = demand(Path::new(DEFAULT_DIRECTORY)).busiest();
    let size = RecorderSection::default().size(remembered);
    let mut recorders = Recorders::default();
    if let Ok(sizes) = Sizes::of_host() {
        let (total, by_pid) = sizes.total_bytes(false);
        let recorder = sizes.store(size);
        report.insert("cpus".into(), json!(sizes.cpus));
        report.insert("pid_max".into(), json!(sizes.pids));
        report.insert("map_bytes".into(), json!(total));
        report.insert("map_bytes_by_pid".into(), json!(by_pid));
        report.insert("maps".into(), json!(sizes.maps(false)));
        report.insert("recorder_bytes".into(), json!(recorder.bytes()));
        report.insert("recorder_events_per_cpu".into(), json!(recorder.events()));
        recorders = Recorders::of(&asked, recorder, remembered.is_some());
        report.insert("recorder".into(), json!(recorders));
    }
    // The flight recorder has hooks of its own.
    let options = LoadOptions { recorder: size, hooks: HookSet::All, ..LoadOptions::default() };
    let outcome = Engine::load(&options).and_then(|mut engine| {
        engine.attach()?;
        Ok(engine)
    });
    let unseen = Unseen::of(Path::new("/sys"));
    report.insert("unseen".into(), json!(unseen));
    match landlock_abi() {
        Ok(abi) => report.insert("landlock".into(), json!(abi)),
        Err(error) => report.insert("landlock_refused".into(), json!(refused(&error))),
    };
    report.insert("seccomp".into(), json!(filters_system_calls()));
    let sight = without(|| Sight::of(Path::new("/proc"))).ok().flatten().unwrap_or(Sight::Hidden);
    report.insert("threads".into(), json!(sight));
    if let Ok(engine) = &outcome {
        let readable = without(|| engine.is_readable()).ok().flatten().unwrap_or(false);
        report.insert("reads_maps_unprivileged".into(), json!(readable));
        let kept = (!readable).then(|| reader().to_string());
        report.insert("kept_capability".into(), json!(kept));
        let hooks = |on_demand: bool| -> Vec<Value> {
            let those = engine.hooks().iter().filter(|it| it.hook.is_on_demand() == on_demand);
            those.map(hook_line).collect()
        };
        let signals: Vec<Value> = SIGNALS
            .iter()
            .map(|info| match signal_state(info, engine.facts(), engine.hooks()) {
                SignalState::Active => json!({"signal": info.name, "measured": true}),
                SignalState::Absent(reason) => {
                    json!({"signal": info.name, "measured": false, "reason": reason})
                }
            })
            .collect();
        report.insert("hooks".into(), json!(hooks(false)));
        report.insert("recording_hooks".into(), json!(hooks(true)));
        report.insert("calls_lack".into(), json!(engine.facts().missing_of_calls()));
        report.insert("signals".into(), json!(signals));
    }
    let error = outcome.err();
    report.insert("works".into(), json!(error.is_none()));
    if let Some(error) = &error {
        report.insert("error".into(), json!(error.to_string()));
    }
    // A reader that went away has seen enough.
    if args.json {
        let _ = output::show_json(&format!("{:#}\n", Value::Object(report)));
    } else {
        let privileges = privileges(&capabilities, error.as_ref());
        let mut page =
            human(&report, mode, sight, &privileges, &hierarchies, (&recorders, &unseen));
        if let Some(error) = &error {
            page.push_str(&advice(error, &Caller::of_process()));
        }
        let _ = output::show(&page);
    }
    error.map_or(Ok(()), |error| Err(error.into()))
}

/// What the daemon gives up once it measures, as far as this kernel can take it.
fn confinement(report: &serde_json::Map<String, Value>) -> String {
    let is = |key: &str| report.get(key).and_then(Value::as_bool) == Some(true);
    let capabilities = match report.get("kept_capability") {
        Some(Value::String(kept)) => {
            format!("{kept} kept (this kernel demands it for reading BPF maps)")
        }
        Some(_) => "all capabilities dropped".to_owned(),
        None => "capabilities unknown".to_owned(),
    };
    // What Landlock does not do here, the filter of system calls does alone.
    let refused = report.get("landlock_refused").and_then(Value::as_str);
    let files = match report.get("landlock").and_then(Value::as_u64) {
        None if refused.is_some() => {
            format!("files not confined ({})", refused.unwrap_or_default())
        }
        Some(0) | None => "files not confined (no Landlock)".to_owned(),
        Some(abi @ 1..=3) => format!("files confined, ports and signals not (Landlock {abi})"),
        Some(abi @ 4..=5) => format!("files and ports confined, signals not (Landlock {abi})"),
        Some(abi) => format!("files, ports and signals confined (Landlock {abi})"),
    };
    let calls = if is("seccomp") { "confined" } else { "not confined (no seccomp)" };
    format!("{capabilities}, {files}, system calls {calls}")
}

fn human(
    report: &serde_json::Map<String, Value>,
    mode: Lockdown,
    sight: Sight,
    privileges: &str,
    hierarchies: &Hierarchies,
    (recorders, unseen): (&Recorders, &Unseen),
) -> String {
    let mut page = String::new();
    let text = |key: &str| match report.get(key) {
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
        None => "unknown".to_owned(),
    };
    let number = |key: &str| report.get(key).and_then(Value::as_u64).unwrap_or(0);
    let mib = |key: &str| number(key) as f64 / (1024.0 * 1024.0);
    let works = report.get("works").and_then(Value::as_bool) == Some(true);
    let _ = writeln!(page, "kernel       {}", text("kernel"));
    let _ = writeln!(
        page,
        "BTF          {}",
        if text("btf") == "true" { "present" } else { "missing" }
    );
    let _ = writeln!(page, "privileges   {privileges}");
    let _ = writeln!(page, "lockdown     {}", format!("{mode:?}").to_lowercase());
    let _ = writeln!(page, "cgroups      {}", text("cgroup"));
    for line in hierarchies.explained().to_string().lines() {
        let _ = writeln!(page, "             {line}");
    }
    if let Some(trouble) = hierarchies.trouble() {
        let _ = writeln!(page, "             {trouble}");
    }
    let _ = writeln!(page, "threads      {}", sight.trouble().unwrap_or("can be named"));
    let _ = writeln!(page, "confinement  {}", confinement(report));
    let _ = writeln!(
        page,
        "maps         {:.1} MiB for {} CPUs, of which {:.1} MiB for {} pids",
        mib("map_bytes"),
        number("cpus"),
        mib("map_bytes_by_pid"),
        number("pid_max")
    );
    for (at, line) in recorders.page().lines().enumerate() {
        let _ = writeln!(page, "{:13}{line}", if at == 0 { "recorder" } else { "" });
    }
    let _ = writeln!(
        page,
        "history      {} minutes of what signals and victims lost, in at most {:.0} MiB",
        number("history_seconds") / 60,
        mib("history_most_bytes")
    );
    for (key, title) in
        [("hooks", "hooks"), ("recording_hooks", "hooks that only a recording attaches")]
    {
        let Some(hooks) = report.get(key).and_then(Value::as_array) else { continue };
        let _ = writeln!(page, "\n{title} ({})", hooks.len());
        for hook in hooks {
            let of = |key: &str| hook.get(key).and_then(Value::as_str).unwrap_or_default();
            let _ = writeln!(page, "  {:28} {:8} {}", of("hook"), of("state"), of("detail"));
        }
    }
    let lacks = report.get("calls_lack").and_then(Value::as_array).into_iter().flatten();
    let lacks: Vec<_> = lacks.filter_map(Value::as_str).collect();
    if !lacks.is_empty() {
        let _ = writeln!(page, "  events of system calls are without {}", lacks.join(", "));
    }
    if let Some(signals) = report.get("signals").and_then(Value::as_array) {
        let _ = writeln!(page, "\nsignals ({})", SIGNALS.len());
        for signal in signals {
            let of = |key: &str| signal.get(key).and_then(Value::as_str).unwrap_or_default();
            let measured = signal.get("measured").and_then(Value::as_bool) == Some(true);
            let state = if measured { "measured" } else { "absent" };
            let _ = writeln!(page, "  {:28} {state:8} {}", of("signal"), of("reason"));
        }
    }
    let unseen = unseen.page();
    if !unseen.is_empty() {
        let _ = write!(page, "\nlimits of the disks and interfaces here\n{unseen}");
    }
    let _ = writeln!(
        page,
        "\n{}",
        if works { "noised can work here." } else { "noised cannot work here." }
    );
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_without_hierarchies_is_reported_so() {
        let page = |hierarchies: &Hierarchies| {
            human(
                &serde_json::Map::new(),
                Lockdown::None,
                Sight::Whole,
                "",
                hierarchies,
                (&Recorders::default(), &Unseen::default()),
            )
        };
        let words = "no cgroup hierarchy was found for tasks, requests, sockets";
        assert!(page(&Hierarchies::default()).contains(words));
        let root = Some(PathBuf::from("/sys/fs/cgroup"));
        let all = Hierarchies {
            tasks: root.clone(),
            io: root.clone(),
            sockets: root,
            ..Hierarchies::default()
        };
        assert!(!page(&all).contains("no cgroup hierarchy"));
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
        let line = |landlock: u32| {
            let report = json!({"landlock": landlock, "seccomp": true, "kept_capability": null});
            confinement(report.as_object().unwrap())
        };
        assert!(line(0).contains("files not confined (no Landlock)"));
        let why = refused(&std::io::Error::from_raw_os_error(libc::EPERM));
        let report = json!({"landlock_refused": why, "seccomp": true, "kept_capability": null});
        let said = confinement(report.as_object().unwrap());
        assert!(said.contains("files not confined (an outer sandbox refuses Landlock"), "{said}");
        assert!(said.ends_with("system calls confined"), "{said}");
        assert!(line(2).contains("ports and signals not (Landlock 2)"));
        assert!(line(5).contains("files and ports confined, signals not"));
        assert_eq!(
            line(7),
            "all capabilities dropped, files, ports and signals confined (Landlock 7), system calls confined"
        );
    }
}
