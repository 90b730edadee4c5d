//! Generated families: what became of one path in some executions.

use noise_compare::align::Symbol;

use crate::judge::Tallies;
use crate::others;

const FAMILIES: u64 = 250;
const LONGEST: usize = 300;

/// Numbers that look drawn, the same for the same seed: `SplitMix64` (Steele, Lea and Flood, 2014).
pub struct Draw(pub u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// From 0 to below 1.
    pub fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// One of so many.
    pub fn below(&mut self, bound: usize) -> usize {
        ((self.share() * bound as f64) as usize).min(bound.saturating_sub(1))
    }

    /// From `low` to `high`, as often below twice a number as above.
    fn size(&mut self, low: usize, high: usize) -> usize {
        let (low, high) = (low as f64, high as f64 + 1.0);
        (low * (high / low).powf(self.share())) as usize
    }

    fn symbols(&mut self, count: usize, kinds: usize) -> Vec<Symbol> {
        (0..count).map(|_| self.below(kinds) as Symbol).collect()
    }

    /// A sequence in which, on its way from an ancestor, symbols became others, and runs were added, lost and doubled.
    pub fn descendant(&mut self, ancestor: &[Symbol], kinds: usize, rate: f64) -> Vec<Symbol> {
        let mut sequence = Vec::with_capacity(ancestor.len());
        let mut place = 0;
        while let Some(symbol) = ancestor.get(place) {
            place += 1;
            let what = self.share() / rate;
            if what < 0.6 {
                sequence.push(self.below(kinds) as Symbol);
                continue;
            }
            if (0.75..0.9).contains(&what) {
                place += self.below(6);
                continue;
            }
            sequence.push(*symbol);
            if (0.6..0.75).contains(&what) {
                let run = 1 + self.below(6);
                sequence.extend(self.symbols(run, kinds));
            } else if what < 1.0 {
                let begin = sequence.len().saturating_sub(1 + self.below(6));
                sequence.extend_from_within(begin..);
            }
        }
        sequence.truncate(LONGEST);
        if sequence.is_empty() {
            sequence.push(0);
        }
        sequence
    }
}

/// Families of 5 to 40 sequences of 20 to 300 symbols of 4 to 12 kinds; every fifth one of 20 to 60 kinds.
pub fn family(seed: u64) -> Vec<Vec<Symbol>> {
    let mut draw = Draw(seed);
    let kinds = if seed % 5 == 4 { draw.size(20, 60) } else { 4 + draw.below(9) };
    let (count, length) = (draw.size(5, 40), draw.size(20, LONGEST));
    let rate = 0.02 + 0.33 * draw.share();
    let ancestor = draw.symbols(length, kinds);
    (0..count).map(|_| draw.descendant(&ancestor, kinds, rate)).collect()
}

/// Compares every `step`-th of them with the others, or says why that cannot be done.
pub fn compared(step: usize) -> Result<String, String> {
    if let Some(reason) = others::missing() {
        return Err(reason);
    }
    let mut tallies = Tallies::new(&others::ALL);
    for seed in (0..FAMILIES).step_by(step) {
        tallies.compare(&format!("family-{seed}"), &family(seed));
    }
    Ok(tallies.judged())
}
