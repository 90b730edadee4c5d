//! What the daemon shows to others: Prometheus metrics, a status page, incidents as JSON and in the
//! log, and the server of them.

mod api;
mod http;
mod log;
mod metrics;
mod status;

pub use api::{API_VERSION, IncidentsDocument, OutliersDocument};
pub use http::{Refresh, Shown, serve};
pub use log::log_event;
pub use metrics::{Process, render};
pub(crate) use status::duration;
pub use status::page;
