//! The library of `noised`: each stage of the data path is a module, and arrows run one way,
//! `kernel -> collect -> model -> export`.

pub mod kernel;
