//! `noised run`: the daemon. Everything that needs privileges is done first, then they are given up.

mod daemon;
mod loading;
mod logging;
mod places;
mod service;

use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use clap::builder::{OsStringValueParser, TypedValueParser};
use nix::sys::stat::{Mode, umask};
use noise_analysis::Stops;
use noise_client::connect::DEFAULT_FILE;
use noise_client::{Fault, ask_socket};
use noise_command::CommandError;
use noise_command::output;
use noise_host::collect::Collector;
use noise_host::kernel::{
    DebugRecords, Engine, HookState, LoadOptions, Sight, ensure_room, monotonic_ns,
    other_daemon_runs,
};
use noise_host::resolve::cgroup::{Hierarchies, LISTED, READ};
use noise_host::resolve::read_host;
use noise_keep::THREADS_AT_ONCE;
use noise_keep::state::{Keeper, StatePlace, demand};
use noise_measure::osnoise::Duty;
use noise_model::{Builder, Longest, Reload};
use noise_record::marks::{Marks, SharedMarks, lock, take, with_marks};
use noise_serve::victim::with_victims;
use noise_serve::{
    Costs, ListenError, Listeners, LocalSocket, RELOAD_ROUTE, Refresh, Refused, ReloadDocument,
    SocketOptions, Web, local_sockets_of, router, serve, with_events, with_reload, with_traces,
};
use noise_system::output::HeldFolder;
use noise_system::worker::ensure_threads;
use tokio::net::{UnixDatagram, UnixListener};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use self::daemon::{ConfigSource, Daemon};
use self::loading::{DebugReader, Loaded, load as load_programs};
use self::logging::Log;
use self::places::{ensure_usable, socket_folder, state_folder};
use self::service::Service;
use super::watching::{Watching, now_s};
use crate::config::{Config, Flags, LogLevel, load};
use crate::confine::{Confined, Extent, Rest, confine, out_of_reach, reader, seen_once, without};
use crate::pipeline::{Beat, Pipeline, SAMPLE_EVERY};
use crate::recorder;

/// Requests for a fresh model that may wait.
const PENDING_REFRESHES: usize = 64;
/// Questions about victims that may wait.
const PENDING_INQUIRIES: usize = 4;

/// How long a daemon may take that reads its configuration.
const RELOAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Arguments of `noised run`.
#[derive(Debug, clap::Args)]
pub struct RunArgs {
    /// Configuration file (TOML); empty = none [default: /etc/noised/noised.toml, if there is one].
    #[arg(long = "config.file", value_name = "FILE", value_parser = path_or_none())]
    config_file: Option<PathBuf>,
    /// Check the configuration and exit.
    #[arg(long = "config.check")]
    config_check: bool,
    /// Also fail if the running daemon refused it with its latest reload: the daemon that systemd names (MAINPID), else the one
    /// at the configured socket.
    #[arg(long = "config.reloaded", requires = "config_check")]
    config_reloaded: bool,
    #[command(flatten)]
    flags: Flags,
}

/// A path that may be empty.
fn path_or_none() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().map(PathBuf::from)
}

/// Runs until SIGINT or SIGTERM.
/// Nothing is left attached.
pub fn run(args: &RunArgs) -> Result<(), CommandError> {
    // What this process makes stays its own to read and write, whatever the umask that it was given.
    let given = umask(Mode::S_IRWXG | Mode::S_IRWXO);
    umask(given & (Mode::S_IRWXG | Mode::S_IRWXO));
    // One that is there now has to be there when it is read again: what vanishes is a mistake then,
    // and does not bring back the usual values.
    let usual = Path::new(DEFAULT_FILE);
    let there = || usual.exists().then(|| usual.to_owned());
    let config_file = args.config_file.clone().or_else(there);
    let configured = load(config_file.as_deref(), &args.flags).map_err(CommandError::usage)?;
    let removed = configured.warning();
    let config = configured.config;
    let file = &config.web.config.file;
    let file = (!file.as_os_str().is_empty()).then_some(file.as_path());
    let web = Web::open(file).map_err(CommandError::usage)?;
    ensure_usable(&config).map_err(CommandError::usage)?;
    if args.config_check {
        for warning in removed.into_iter().chain(web.warnings()) {
            output::complain(&format!("warning: {warning}"));
        }
        if args.config_reloaded {
            let main = std::env::var("MAINPID").ok().and_then(|pid| pid.parse().ok());
            ensure_taken(running_socket(main, &config))?;
        }
        let _ = output::show("the configuration is valid\n");
        return Ok(());
    }
    // The runtime panics where it finds no descriptors.
    ensure_room(config.recorder.size(None))?;
    ensure_threads(threads(&config, &web))?;
    let log = Log::start(config.log.level);
    if let Some(warning) = removed {
        tracing::warn!("{warning}");
    }
    // One thread: a second one would be woken for every sample, to wake the first.
    let runtime = noise_client::runtime().context("cannot start the runtime")?;
    let source = ConfigSource { file: config_file, flags: args.flags.clone() };
    runtime.block_on(daemon(config, source, log, web))
}

/// The local socket of the running daemon, which systemd names to what reloads it: the configuration may name another one
/// by now, which is in force from the next start on. Where the daemon is not named or has no socket: the configured one.
fn running_socket(main: Option<u32>, config: &Config) -> Option<PathBuf> {
    let running = main.and_then(|pid| local_sockets_of(pid).into_iter().next());
    running.or_else(|| config.socket.options().map(|options| options.path))
}

/// Requires that the daemon at a local socket did not refuse its latest reload. Behind the signal, the daemon reads its
/// configuration before it answers; where no daemon can be asked, only its log says what came of the reload.
/// Errors: why it was refused.
fn ensure_taken(socket: Option<PathBuf>) -> anyhow::Result<()> {
    let unknown = |why: &str| {
        output::complain(&format!("{why}: whether it took the configuration is said in its log"));
        Ok(())
    };
    let Some(path) = socket else {
        return unknown("the daemon has no local socket");
    };
    let place = path.display();
    let answer = match ask_socket(&path, RELOAD_ROUTE, RELOAD_TIMEOUT) {
        Ok(answer) => answer,
        Err(Fault::Absent { .. }) => return unknown(&format!("no noised answers at {place}")),
        Err(fault) => return Err(fault.into()),
    };
    if answer.status == 404 {
        return unknown(&format!("the noised at {place} is older"));
    }
    anyhow::ensure!(
        answer.status == 200,
        Fault::Status { place: place.to_string(), status: answer.status }
    );
    let document: ReloadDocument = serde_json::from_slice(&answer.body)
        .with_context(|| format!("{place} did not answer as noised does"))?;
    document.refused.map_or(Ok(()), |why| {
        Err(anyhow::anyhow!("the running daemon refused it and goes on as before: {why}"))
    })
}

async fn daemon(
    config: Config,
    source: ConfigSource,
    log: Log,
    web: Web,
) -> Result<(), CommandError> {
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let hangup = signal(SignalKind::hangup()).context("cannot listen for SIGHUP")?;
    // Bind before loading: where another daemon has the address, nothing is attached.
    let listeners = Listeners::bind(&config.web.listen_address).map_err(cannot_listen)?;
    let listening = listeners.addresses().context("cannot read the listening address")?;
    let other = another_daemon().await;
    let level = config.log.level;
    let debug = match level {
        LogLevel::Trace => DebugRecords::All,
        LogLevel::Debug => DebugRecords::Drops,
        _ => DebugRecords::Off,
    };
    let options = LoadOptions { debug, measured: config.measured(), ..LoadOptions::default() };
    // What else has its name later is not opened.
    let state = state_folder(&config).and_then(|folder| Keeper::hold(&folder));
    let remembered = state.as_ref().map(StatePlace::path);
    let remembered = remembered.and_then(|folder| demand(&folder).busiest(now_s()));
    let loaded = tokio::select! {
        loaded = load_programs(options, &config.recorder, remembered, level.is_detailed()) => loaded?,
        _ = interrupt.recv() => return Ok(()),
        _ = terminate.recv() => return Ok(()),
    };
    let Loaded { engine, logger, wanted, measured } = loaded;
    if other {
        tracing::warn!("another noised is attached on this host: overhead doubles");
    }
    report(&engine);
    let sizes = engine.sizes();
    if let Some(trouble) = recorder::shortened(sizes, wanted, engine.recorder()) {
        tracing::warn!("{trouble}");
    }
    let readable = without(|| engine.is_readable()).context("cannot start a thread")?;
    let readable = readable.unwrap_or(false);
    let collector = Collector::new(engine)?;
    for (signal, reason) in collector.absent() {
        tracing::warn!(signal = signal.info().name, reason, "not measured");
    }
    let mut watching = Watching::start(config.incidents.clone(), state.clone())?;
    let prepared = config.osnoise.duty().and_then(|options| Duty::prepare(&options));
    // What parsing the type information took.
    noise_system::memory::give_back();
    let beat = Beat::every(SAMPLE_EVERY).context("cannot create the sampling timer")?;
    let (_socket, local) = local_socket(config.socket.options()).await.unzip();
    let (marks, readiness) = mark_socket(&config).unzip();
    // The socket of the service manager has to be connected by then.
    let service = Service::of_environment();
    let hierarchies = collector.hierarchies().clone();
    if config.privileges.drop {
        let socket = socket_folder(&config).and_then(|folder| HeldFolder::find(&folder).ok()?);
        let rest = Rest {
            write: state.iter().map(StatePlace::path).collect(),
            remove: socket.iter().map(HeldFolder::by_descriptor).collect(),
            kept: (!readable).then(reader),
            ..rest(&source, &web, &hierarchies)
        };
        report_lost(&rest);
        report_confined(&confine(&rest)?);
    }
    if let Some(trouble) = Sight::of(Path::new("/proc")).trouble() {
        tracing::warn!("{trouble}");
    }
    if let Some(trouble) = hierarchies.trouble() {
        tracing::warn!("{trouble}");
    }
    // What this thread has is what is left.
    web.begin()?;
    let duty = prepared.map(Duty::start).transpose()?;
    let scheme = if web.is_tls() { "https" } else { "http" };
    for address in &listening {
        let url = format!("{scheme}://{address}");
        tracing::info!("listening on {url} (metrics at {url}/metrics)");
    }
    let (refresh, asked) = mpsc::channel(PENDING_REFRESHES);
    web.warn();
    let listening: Vec<IpAddr> = listening.iter().map(SocketAddr::ip).collect();
    web.set_hosts(config.web.hosts(&listening));
    let costs = Costs::default();
    let host = read_host(Path::new("/"));
    if let Some(marks) = &marks {
        lock(marks).show(Arc::clone(&costs.marks));
    }
    let events = collector.event_store().map(recorder::source);
    let events = events.map(|events| with_marks(events, marks.clone()));
    let bounds = config.state.bounds();
    if let Some(store) = collector.event_store() {
        watching.measure(store, measured);
    }
    let latest = collector.event_store().zip(events.clone());
    let latest = latest.map(|(store, events)| recorder::latest(store, events, bounds.bytes));
    let keeping = watching.keep(latest, bounds);
    let (paths, traces) = keeping.map(|keeping| (keeping.paths(), keeping.traces())).unzip();
    let router = router(Refresh(refresh), host, web.clone(), costs.clone(), monotonic_ns(), paths);
    let (inquire, inquiries) = mpsc::channel(PENDING_INQUIRIES);
    let local_router = with_victims(router.clone(), inquire);
    let refused = Refused::default();
    let local_router = with_reload(local_router, refused.clone());
    let local_router = with_traces(with_events(local_router, events), traces);
    let mut pipeline = Pipeline::new(collector, beat)?;
    pipeline.describe_cgroups(config.names.labels);
    let metrics = pipeline.subscribe(Builder::new(config.limits.limits()));
    let watching = pipeline.subscribe(watching);
    let longest = pipeline.subscribe(Longest::default());
    let stops = pipeline.subscribe(Stops::default());
    let reload = Reload { failed: false, read_at_s: now_s() };
    let served = web.clone();
    let mut daemon = Daemon {
        pipeline,
        sizes,
        metrics,
        watching,
        longest,
        stops,
        duty,
        web,
        log,
        service,
        listening,
        source,
        config,
        reload,
        refused,
        budget: costs.budget.clone(),
    };
    // What loading took is not used again.
    noise_system::memory::give_back_program();
    tokio::select! {
        result = daemon.work(asked, inquiries, hangup) => result?,
        () = serve(listeners, router, served, costs.clone()) => {}
        () = serve_local(local, local_router, costs.beside()) => {}
        () = drain_debug_records(logger) => {}
        () = take_marks(marks.zip(readiness)) => {}
        _ = interrupt.recv() => tracing::info!("SIGINT: detaching"),
        _ = terminate.recv() => tracing::info!("SIGTERM: detaching"),
    }
    daemon.service.stopping();
    daemon.watching.current().stop();
    Ok(())
}

/// Why there is no server, and what to do about it.
fn cannot_listen(error: ListenError) -> anyhow::Error {
    let hint = match &error {
        ListenError::Bind(_, reason) if reason.kind() == io::ErrorKind::AddrInUse => {
            " (is another noised running?); choose another with --web.listen-address"
        }
        ListenError::Bind(_, reason) if reason.kind() == io::ErrorKind::AddrNotAvailable => {
            ": no interface of this host has it; choose another with --web.listen-address"
        }
        ListenError::Bind(..) => "",
        ListenError::Unresolved(..) => {
            ": correct --web.listen-address, or name an address such as 127.0.0.1:19435"
        }
    };
    anyhow::anyhow!("{error}{hint}")
}

/// Threads that the daemon has at most beside the first: those that write the state, keep events of incidents
/// and send them, those that verify passwords, those that measure from the inside, one that reads command lines, and
/// before them one that looks what it may.
fn threads(config: &Config, web: &Web) -> usize {
    let has_state = !config.state.directory.as_os_str().is_empty();
    // Without a recorder, what was kept is still sent and removed.
    let writes = if has_state { 1 + THREADS_AT_ONCE } else { 0 };
    let verifies = usize::from(web.may_ask_for_passwords());
    let duty = config.osnoise.duty();
    let measure = duty.map_or(0, |duty| 1 + duty.cpus.iter().count());
    // What looks what the daemon may has ended before command lines are read.
    1 + writes + verifies + measure
}

/// Folders of /sys that are read. The others show what the kernel traces and how it is made.
const SYSFS: [&str; 5] = ["/sys/block", "/sys/class", "/sys/dev", "/sys/devices", "/sys/fs/cgroup"];

/// What the daemon reads once it measures.
fn rest(source: &ConfigSource, web: &Web, hierarchies: &Hierarchies) -> Rest {
    let mut read_again = web.files();
    let file = source.file.clone().unwrap_or_else(|| DEFAULT_FILE.into());
    // An empty path is none.
    read_again.extend(Some(file).filter(|file| !file.as_os_str().is_empty()));
    let read = ["/proc"].into_iter().chain(SYSFS).map(PathBuf::from);
    let read = read.chain(hierarchies.roots().cloned());
    let read = read.chain(READ.map(PathBuf::from)).collect();
    let list = LISTED.map(PathBuf::from).to_vec();
    Rest { read, list, read_again, ..Rest::default() }
}

/// Says which files only privileges can reach.
fn report_lost(rest: &Rest) {
    for path in seen_once(rest) {
        tracing::warn!(
            path = %path.display(),
            "lies in the root folder, which is out of reach once privileges are dropped: another file of this \
             name is not read until restart; put it into a folder of its own"
        );
    }
    for path in out_of_reach(rest) {
        // A folder that is held is named as it is called now.
        let path =
            fs::read_link(&path).ok().filter(|_| path.starts_with("/proc/self/fd")).unwrap_or(path);
        tracing::warn!(
            path = %path.display(),
            "out of reach once privileges are dropped, so what changes there is lost: give it to the \
             user or group that noised runs as"
        );
    }
}

/// Says what could not be given up.
fn report_confined(confined: &Confined) {
    let Confined { kept, files, system_calls } = confined;
    if let Some(kept) = kept {
        tracing::warn!("{kept} is kept: this kernel demands it for reading BPF maps");
    }
    for (what, extent) in [("files, ports and signals", files), ("system calls", system_calls)] {
        match extent {
            Extent::Whole => tracing::debug!("{what}: {extent}"),
            Extent::Part | Extent::Not(_) => tracing::info!("{what}: {extent}"),
            Extent::Refused(_) => tracing::warn!("{what}: {extent}"),
        }
    }
}

/// The local socket, where there shall be one and can be.
async fn local_socket(options: Option<SocketOptions>) -> Option<(LocalSocket, UnixListener)> {
    let options = options?;
    let path = options.path.display();
    match LocalSocket::bind(&options).await {
        Ok(socket) => {
            tracing::debug!(%path, "listening");
            Some(socket)
        }
        Err(error) => {
            tracing::warn!(
                %path, %error,
                "no local socket: `noised top` cannot look here without privileges; choose another \
                 path with --socket.path"
            );
            None
        }
    }
}

/// The socket of marks, where there shall be one and can be. They are read with the flight recorder.
fn mark_socket(config: &Config) -> Option<(SharedMarks, UnixDatagram)> {
    let options = config.socket.marks().filter(|_| config.recorder.enabled)?;
    let path = options.path.display();
    let made = Marks::bind(&options).and_then(|marks| Ok((marks.readiness()?, marks)));
    match made {
        Ok((readiness, marks)) => {
            tracing::debug!(%path, "taking marks");
            Some((Arc::new(Mutex::new(marks)), readiness))
        }
        Err(error) => {
            tracing::warn!(
                %path, %error,
                "no socket for marks: choose another path with --socket.path, or none with --socket.marks=false"
            );
            None
        }
    }
}

/// Takes marks as long as that is possible.
async fn take_marks(marks: Option<(SharedMarks, UnixDatagram)>) {
    let Some((marks, readiness)) = marks else { return std::future::pending().await };
    if let Err(error) = take(&marks, &readiness).await {
        tracing::error!(%error, "cannot wait for marks: none are taken any more");
        std::future::pending().await
    }
}

async fn serve_local(listener: Option<UnixListener>, router: Router, costs: Costs) {
    match listener {
        Some(listener) => serve(listener, router, Web::plain(), costs).await,
        None => std::future::pending().await,
    }
}

/// Whether another daemon measures on this host. The kernel frees the maps of one that just ended
/// a little later, so what is seen once may be gone a moment after.
async fn another_daemon() -> bool {
    for _ in 0..10 {
        if other_daemon_runs() != Some(true) {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    true
}

/// Logs how the hooks fare.
fn report(engine: &Engine) {
    let mut absent = Vec::new();
    for status in engine.hooks() {
        let hook = status.hook.tracepoint();
        match &status.state {
            HookState::Attached(attach) => tracing::debug!(hook, by = attach.name(), "attached"),
            HookState::Loaded(_) => tracing::warn!(hook, "not attached"),
            HookState::Absent => absent.push(hook),
            HookState::Refused(reason) => tracing::warn!(hook, reason, "cannot attach"),
        }
    }
    let attached = engine.hooks().iter().filter(|status| status.is_attached()).count();
    tracing::info!("{attached} of {} hooks attached", engine.hooks().len());
    if !absent.is_empty() {
        tracing::info!("tracepoints that this kernel does not have: {}", absent.join(", "));
    }
}

async fn drain_debug_records(logger: Option<DebugReader>) {
    let Some(mut logger) = logger else { return std::future::pending().await };
    let mut timer = tokio::time::interval(SAMPLE_EVERY);
    loop {
        timer.tick().await;
        logger.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_reload_is_asked_for_at_the_socket_of_the_running_daemon() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let mut config = Config::default();
        config.socket.path = path("old.sock");
        let (_socket, _listener) =
            LocalSocket::bind(&config.socket.options().unwrap()).await.unwrap();
        config.socket.path = path("new.sock");
        let own = Some(std::process::id());
        assert_eq!(running_socket(own, &config), Some(path("old.sock")));
        assert_eq!(running_socket(Some(1), &config), Some(path("new.sock")));
        config.socket.path = PathBuf::new();
        assert_eq!(running_socket(own, &config), Some(path("old.sock")));
        assert_eq!(running_socket(None, &config), None);
    }
}
