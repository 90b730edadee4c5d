//! Who has access over HTTP, and over what: the web file of Prometheus exporters, and the server that
//! keeps to it.

mod account;
mod address;
mod audience;
mod auth;
mod budget;
mod client_certificates;
mod connections;
mod file;
#[cfg(test)]
mod file_tests;
mod hangups;
mod hosts;
mod listen;
mod peer;
mod rate;
mod refusals;
mod reload;
mod secret;
mod serve;
#[cfg(test)]
mod serve_tests;
mod tls;
mod tls_file;
mod tls_words;
mod traffic;
mod validity;

pub use account::EVENTS_ROUTE;
pub use address::ListenAddress;
pub use audience::Audience;
pub use budget::Budget;
pub use file::WebFile;
pub use hangups::{Hangup, Hangups};
pub use hosts::{HostName, Hosts};
pub use listen::{ListenError, Listeners};
pub use peer::Peer;
pub use reload::Web;
pub use serve::{Costs, Listener, MarkCounts, serve};
