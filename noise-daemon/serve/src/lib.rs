//! What the daemon shows to others: Prometheus metrics, a status page, incidents as JSON and in the
//! log, frames, and the server of them.

#![cfg_attr(not(test), deny(clippy::disallowed_macros, clippy::disallowed_methods))]

mod accept;
mod answers;
mod api;
mod encoding;
mod events;
mod http;
mod kept;
mod log;
#[cfg(test)]
mod made;
mod metrics;
mod packer;
mod reload;
mod socket;
mod status;
mod turns;
pub mod victim;
pub mod web;

#[cfg(test)]
mod audience_tests;
#[cfg(test)]
mod recall_tests;

pub use api::{API_VERSION, IncidentEvent, IncidentsDocument, OutliersDocument};
pub use events::{EventPieces, EventSource, with_events};
pub use http::{PathSource, Refresh, ShownPages, Viewer, router};
pub use kept::{MOST_TRACES, TraceSource, with_traces};
pub use log::log_event;
pub use metrics::{Format, Process, render};
pub use reload::{RELOAD_ROUTE, Refused, ReloadDocument, with_reload};
pub use socket::{LocalSocket, SocketOptions, ensure_own_folder, ensure_place, local_sockets_of};
pub use status::page;
pub use turns::{Turn, Turns};
pub use web::{
    Budget, Costs, Hangups, HostName, Hosts, ListenAddress, ListenError, Listener, Listeners,
    MarkCounts, Peer, Web, WebFile, serve,
};
