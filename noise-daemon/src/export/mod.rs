//! What the daemon shows to others: Prometheus metrics, a status page, incidents as JSON and in the
//! log, frames, and the server of them.

mod answers;
mod api;
mod encoding;
mod http;
mod log;
mod metrics;
mod socket;
mod status;
pub mod web;

pub use api::{API_VERSION, IncidentsDocument, OutliersDocument};
pub use http::{Refresh, Shown, Viewer, router};
pub use log::log_event;
pub use metrics::{Process, render};
pub use socket::{LocalSocket, SocketOptions};
pub(crate) use status::duration;
pub use status::page;
pub use web::{
    Budget, Costs, Hangups, HostName, Hosts, Listener, Peer, Web, WebClient, WebFile, listen, serve,
};
