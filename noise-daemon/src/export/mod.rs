//! What the daemon shows to others: Prometheus metrics, a status page, and the server of both.

mod http;
mod metrics;
mod status;

pub use http::{Refresh, serve};
pub use metrics::{Process, render};
pub use status::page;
