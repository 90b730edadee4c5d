//! Random numbers for tests: the same for the same seed.

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};

/// A generator of the distributions that noise has.
#[derive(Debug)]
pub struct Random(Xoshiro256PlusPlus);

impl Random {
    /// Begins at a seed.
    pub fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// From 0 up to, but without, 1.
    pub fn uniform(&mut self) -> f64 {
        self.0.random()
    }

    /// Of an exponential distribution of mean 1.
    pub fn exponential(&mut self) -> f64 {
        -(1.0 - self.uniform()).ln()
    }

    /// Of a normal distribution of mean 0 and deviation 1 (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        let length = (2.0 * self.exponential()).sqrt();
        length * (std::f64::consts::TAU * self.uniform()).cos()
    }
}
