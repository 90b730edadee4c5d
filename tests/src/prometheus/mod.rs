//! A real Prometheus beside the daemon, the dashboards of `deploy/grafana` as Grafana would ask
//! them, and a bustle in which every signal moves.

mod bustle;
mod dashboard;
mod selector;
mod server;

pub use bustle::{Bustle, CONFIGURATION, DISTURBED, QUIET};
pub use dashboard::{Choices, Dashboard, Panel, Query, Variable, dashboards};
pub use selector::{Selector, selectors};
pub use server::{Series, Server};
