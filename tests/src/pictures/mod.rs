//! Dashboards as pages that a browser draws: no Grafana, the same panels, places and units.
//!
//! Graphs are SVG, the rest is HTML. What matters is that people can judge a dashboard by it: that no
//! panel is empty, and that titles, legends and units say what they should.

#![cfg(feature = "pictures")]

mod graph;
mod page;
mod unit;

pub use page::page;
