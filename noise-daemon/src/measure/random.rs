//! Random numbers for tests: the same for the same seed.

/// SplitMix64 (Steele, Lea and Flood 2014).
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    /// Begins at a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// From 0 up to, but without, 1.
    pub fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64
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
