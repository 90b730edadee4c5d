//! The osnoise workload, as the kernel's tracer has it: on every chosen CPU a thread that watches the
//! clock for `runtime` of every `period`. What it could have run but did not is noise; the programs
//! report who took it.

mod crew;
mod duty;
pub mod kernel;
mod log;
mod period;
mod tables;
mod tally;

pub use crew::{OsnoiseOptions, run};
pub use duty::{Duty, DutyOptions};
pub use log::lines;
pub use period::{Counts, PeriodReport};
pub use tables::{histogram, json, sources, top};
pub use tally::{CpuTally, HistogramShape, SourceTally, Tally};
