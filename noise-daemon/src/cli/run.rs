//! `noised run`: the daemon.

use std::ffi::OsString;
use std::io::{self, IsTerminal as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use aya_log::EbpfLogger;
use tokio::net::{TcpListener, UnixListener};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tracing_subscriber::EnvFilter;

use super::watching::Watching;
use crate::analysis::Settings;
use crate::collect::Collector;
use crate::config::{ConfigFile, Cpus, DEFAULT_ADDRESS, DEFAULT_THRESHOLD, LogLevel};
use crate::export::{LocalSocket, Refresh, Shown, SocketOptions, Viewer, router, serve};
use crate::kernel::{DebugRecords, Engine, HookState, KernelError, LoadOptions, other_daemon_runs};
use crate::measure::osnoise::{Duty, DutyOptions};
use crate::model::{Builder, Limits, Longest};
use crate::state::DEFAULT_DIRECTORY;
use crate::wire::Host;

/// How often the ring is drained and a sample taken when nobody asks.
const SAMPLE_EVERY: Duration = Duration::from_nanos(noise_common::WINDOW_NS);
/// Requests for a fresh model that may wait.
const PENDING_REFRESHES: usize = 64;

/// Arguments of `noised run`.
#[derive(Debug, clap::Args)]
pub struct RunArgs {
    /// Address and port of metrics and status page [default: 127.0.0.1:19435].
    #[arg(long = "web.listen-address", value_name = "ADDRESS:PORT")]
    listen_address: Option<SocketAddr>,
    /// Configuration file (TOML).
    #[arg(long = "config.file", value_name = "FILE")]
    config_file: Option<PathBuf>,
    /// Check the configuration and exit.
    #[arg(long = "config.check")]
    config_check: bool,
    /// Where past incidents are kept, so that they survive a restart; empty = nowhere [default:
    /// /var/lib/noised].
    #[arg(long = "state.directory", value_name = "DIRECTORY")]
    state_directory: Option<OsString>,
    /// Socket on which those who may use it are shown what is measured; empty = none [default:
    /// /run/noised/noised.sock].
    #[arg(long = "socket.path", value_name = "PATH")]
    socket_path: Option<OsString>,
    /// CPUs on which a thread measures the noise from the inside, for a hundredth of the time
    /// (0-3,8); empty = none [default: none].
    #[arg(long = "osnoise.cpus", value_name = "LIST")]
    osnoise_cpus: Option<Cpus>,
    /// Least severe level that is logged [default: info]; RUST_LOG overrides it.
    #[arg(long = "log.level", value_name = "LEVEL")]
    log_level: Option<LogLevel>,
}

/// Why the daemon did not start or did not go on.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Bad configuration: exit status 2.
    #[error("{0:#}")]
    Config(anyhow::Error),
    /// The kernel side.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// Anything else.
    #[error("{0:#}")]
    Failed(#[from] anyhow::Error),
}

/// Runs until SIGINT or SIGTERM.
///
/// # Errors
/// See [`RunError`]. Nothing is left attached.
pub fn run(args: &RunArgs) -> Result<(), RunError> {
    let file = match &args.config_file {
        Some(path) => ConfigFile::read(path).map_err(RunError::Config)?,
        None => ConfigFile::default(),
    };
    let address = args.listen_address.or(file.web.listen_address).unwrap_or(DEFAULT_ADDRESS);
    let level = args.log_level.or(file.log.level).unwrap_or(LogLevel::Info);
    let osnoise = file.osnoise.resolve(args.osnoise_cpus.clone()).map_err(RunError::Config)?;
    if args.config_check {
        println!("the configuration is valid");
        return Ok(());
    }
    start_logging(level);
    // One thread: a second one would be woken for every sample, to wake the first.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let directory = args.state_directory.as_ref().map(PathBuf::from).or(file.state.directory);
    let directory = directory.unwrap_or_else(|| PathBuf::from(DEFAULT_DIRECTORY));
    let threshold = file.outliers.threshold_microseconds.unwrap_or(DEFAULT_THRESHOLD);
    runtime.block_on(daemon(Plan {
        address,
        socket: file.socket.resolve(args.socket_path.as_ref().map(PathBuf::from)),
        level,
        limits: file.limits.resolve(),
        incidents: file.incidents,
        directory,
        outlier_us: threshold.0,
        osnoise,
    }))
}

/// What the daemon does, as flags and file say.
struct Plan {
    address: SocketAddr,
    socket: Option<SocketOptions>,
    level: LogLevel,
    limits: Limits,
    incidents: Settings,
    directory: PathBuf,
    outlier_us: u32,
    osnoise: Option<DutyOptions>,
}

/// Logs to standard error: in colour on a terminal, and with the part that speaks from debug on.
fn start_logging(level: LogLevel) {
    let filter =
        EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level.filter()));
    let colour = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(colour)
        .with_target(level.is_detailed())
        .init();
}

async fn daemon(plan: Plan) -> Result<(), RunError> {
    let Plan { address, socket, level, limits, incidents, directory, outlier_us, osnoise } = plan;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    // Bind before loading: where another daemon has the address, nothing is attached.
    let listener = TcpListener::bind(address).await.map_err(|error| {
        let hint = if error.kind() == io::ErrorKind::AddrInUse {
            " (is another noised running?); choose another with --web.listen-address"
        } else {
            ""
        };
        anyhow::anyhow!("cannot listen on {address}: {error}{hint}")
    })?;
    let other = another_daemon().await;
    let debug = match level {
        LogLevel::Trace => DebugRecords::All,
        LogLevel::Debug => DebugRecords::Drops,
        _ => DebugRecords::Off,
    };
    let mut engine = Engine::load(&LoadOptions { debug, outlier_us, ..LoadOptions::default() })?;
    if other {
        tracing::warn!("another noised measures on this host: the cost is now paid twice");
    }
    let logger = if level.is_detailed() { debug_records(&mut engine) } else { None };
    engine.attach()?;
    report(&engine);
    // SAFETY: no preconditions; gives back what parsing the type information took.
    unsafe { libc::malloc_trim(0) };
    let collector = Collector::new(engine)?;
    for (signal, reason) in collector.absent() {
        tracing::warn!(signal = signal.info().name, reason, "not measured");
    }
    let mut watching = Watching::start(incidents, &directory)?;
    let duty = osnoise.map(Duty::start).transpose()?;
    tracing::info!("listening on http://{address} (metrics at http://{address}/metrics)");
    let (refresh, asked) = mpsc::channel(PENDING_REFRESHES);
    let router = router(Refresh(refresh), Host::read(Path::new("/")));
    let (_socket, local) = local_socket(socket).await.unzip();
    tokio::select! {
        result = collect(collector, Builder::new(limits), asked, &mut watching, duty.as_ref()) => result?,
        () = serve(listener, router.clone()) => {}
        () = serve_local(local, router) => {}
        () = drain_debug_records(logger) => {}
        _ = interrupt.recv() => tracing::info!("SIGINT: detaching"),
        _ = terminate.recv() => tracing::info!("SIGTERM: detaching"),
    }
    watching.stop().await;
    Ok(())
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

async fn serve_local(listener: Option<UnixListener>, router: Router) {
    match listener {
        Some(listener) => serve(listener, router).await,
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

/// Samples by a timer, early where the ring runs full, and when asked.
async fn collect(
    mut collector: Collector,
    mut builder: Builder,
    mut asked: mpsc::Receiver<Viewer>,
    watching: &mut Watching,
    duty: Option<&Duty>,
) -> anyhow::Result<()> {
    let ring = collector.readiness()?;
    let mut longest = Longest::default();
    let mut timer = tokio::time::interval(SAMPLE_EVERY);
    timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        let mut waiting = Vec::new();
        tokio::select! {
            _ = timer.tick() => {
                let sample = builder.keep(collector.glance());
                longest.take(&sample);
                watching.take(&sample);
                continue;
            }
            ready = ring.readable() => {
                ready?.clear_ready();
                collector.drain();
                continue;
            }
            Some(viewer) = asked.recv() => {
                waiting.push(viewer);
                while let Ok(viewer) = asked.try_recv() {
                    waiting.push(viewer);
                }
            }
        }
        let mut sample = collector.sample();
        sample.noise = duty.map(Duty::noise).unwrap_or_default();
        let model = builder.advance(sample);
        let overview = watching.look(&model.sample);
        let shown = Arc::new(Shown { model, overview });
        for Viewer { reply, since_ns } in waiting {
            let mut shown = Arc::clone(&shown);
            if let Some(since_ns) = since_ns {
                let Shown { model, .. } = Arc::make_mut(&mut shown);
                longest.raise(Arc::make_mut(&mut model.sample), since_ns);
            }
            // A client that went away does not want its answer.
            let _ = reply.send(shown);
        }
        longest.take(&shown.model.sample);
    }
}

/// The reader of the programs' debug records.
fn debug_records(engine: &mut Engine) -> Option<EbpfLogger<&'static dyn tracing_log::log::Log>> {
    EbpfLogger::init(engine.object_mut())
        .inspect_err(|error| tracing::warn!(%error, "no debug records of the programs"))
        .ok()
}

async fn drain_debug_records(logger: Option<EbpfLogger<&'static dyn tracing_log::log::Log>>) {
    let Some(mut logger) = logger else { return std::future::pending().await };
    let mut timer = tokio::time::interval(SAMPLE_EVERY);
    loop {
        timer.tick().await;
        logger.flush();
    }
}
