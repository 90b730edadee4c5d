//! `noised`.
fn main() {}
