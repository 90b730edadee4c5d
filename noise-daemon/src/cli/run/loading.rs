//! The programs, with a flight recorder that is as large as this host needs. Once privileges are given up no map can be
//! made, so its size is fixed before.

use std::time::Duration;

use aya_log::EbpfLogger;
use noise_host::kernel::{
    Engine, KernelError, LoadOptions, RecorderSize, ensure_room, monotonic_ns,
};
use noise_keep::demand::{Meter, PeakRate};

use crate::config::RecorderSection;

/// How long it is measured how fast rings fill, where nothing is remembered of that.
const MEASURED_FOR: Duration = Duration::from_secs(2);

/// The reader of the programs' debug records.
pub(super) type DebugReader = EbpfLogger<&'static dyn tracing_log::log::Log>;

pub(super) struct Loaded {
    pub engine: Engine,
    /// Where they are on.
    pub logger: Option<DebugReader>,
    /// The size of the flight recorder that was to be had.
    pub wanted: RecorderSize,
    /// What the busiest CPU wrote, bytes per second, where that was measured.
    pub measured: Option<u64>,
}

/// Loads and attaches. `remembered` is what the busiest CPU wrote before this start; where that is not known and the size
/// is not configured, it is measured, and a recorder that turns out to be too small is replaced with all programs.
/// Errors: those of [`Engine::load`].
pub(super) async fn load(
    options: LoadOptions,
    section: &RecorderSection,
    remembered: Option<PeakRate>,
    is_detailed: bool,
) -> Result<Loaded, KernelError> {
    let usual = section.size(remembered);
    let (engine, logger) =
        attached(&LoadOptions { recorder: usual, ..options.clone() }, is_detailed)?;
    let loaded = Loaded { engine, logger, wanted: usual, measured: None };
    if remembered.is_some() || !section.follows_host() {
        return Ok(loaded);
    }
    let Some(rate) = measured(&loaded.engine).await? else { return Ok(loaded) };
    // What runs is given up only where there is room for both at once: what it takes comes back later than it is wanted.
    let (sizes, measured, held) =
        (loaded.engine.sizes(), Some(rate), loaded.engine.recorder().events());
    let wanted = section.size(Some(PeakRate::measured(rate)));
    let larger = ensure_room(wanted).ok().filter(|larger| sizes.store(*larger).events() > held);
    // What fits is less than what is wanted where memory is limited, and that is to be said.
    let Some(larger) = larger else { return Ok(Loaded { wanted, measured, ..loaded }) };
    drop(loaded);
    match attached(&LoadOptions { recorder: larger, ..options.clone() }, is_detailed) {
        Ok((engine, logger)) => Ok(Loaded { engine, logger, wanted, measured }),
        Err(error) => {
            tracing::warn!(%error, "there is no larger flight recorder; going on with the usual one");
            let options = LoadOptions { recorder: usual, ..options };
            let (engine, logger) = attached(&options, is_detailed)?;
            Ok(Loaded { engine, logger, wanted: usual, measured })
        }
    }
}

fn attached(
    options: &LoadOptions,
    is_detailed: bool,
) -> Result<(Engine, Option<DebugReader>), KernelError> {
    let mut engine = Engine::load(options)?;
    let logger = if is_detailed { debug_records(&mut engine) } else { None };
    engine.attach()?;
    Ok((engine, logger))
}

/// What the busiest CPU writes, bytes per second; `None` where nothing is kept.
async fn measured(engine: &Engine) -> Result<Option<u64>, KernelError> {
    let Some(store) = engine.event_store()? else { return Ok(None) };
    let meter = Meter::new(monotonic_ns(), store.events());
    tokio::time::sleep(MEASURED_FOR).await;
    Ok(Some(meter.rate(monotonic_ns(), &store.events())))
}

fn debug_records(engine: &mut Engine) -> Option<DebugReader> {
    EbpfLogger::init(engine.object_mut())
        .inspect_err(|error| tracing::warn!(%error, "BPF debug log unavailable"))
        .ok()
}
