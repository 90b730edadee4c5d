//! The library of `noised`: each stage of the data path is a module, and arrows run one way,
//! `kernel -> collect -> model -> export`.

pub mod analysis;
#[cfg(test)]
#[path = "../../tests/src/chance.rs"]
mod chance;
pub mod clean;
pub mod cli;
pub mod collect;
pub mod config;
pub mod confine;
pub mod cpulist;
pub mod export;
pub mod files;
pub mod kernel;
pub mod measure;
pub mod memory;
pub mod model;
pub mod nearest;
pub mod pipeline;
pub mod procfs;
pub mod resolve;
pub mod state;
pub mod top;
pub mod wire;
pub mod worker;
