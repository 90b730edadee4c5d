//! The library of `noised`.
