//! TSDL, the language in which a CTF 1.8 trace says how its bytes are laid out.

mod parse;
pub mod tree;

pub use parse::{is_endless, parse};

#[cfg(test)]
mod tests;
