//! Distances of sequences that are not aligned yet: what share of their words they do not have in common.
//!
//! Edgar (Nucleic Acids Research 32:380, 2004) counts words of six amino acids. Here a word is so long that a sequence of
//! middle length has about one that equals it by chance: ln(length) / entropy of the symbols, rounded, between 1 and 8.
//! Shorter words are shared by all, longer ones by none that differ.

const MAX_WORD: usize = 8;

/// How long words are, for some sequences of `symbols` different ones.
pub fn length(sequences: &[&[u32]], symbols: usize) -> usize {
    let mut counts = vec![0.0_f64; symbols];
    for symbol in sequences.iter().copied().flatten() {
        counts[*symbol as usize] += 1.0;
    }
    let total: f64 = counts.iter().sum();
    let share = |count: &f64| count / total;
    let entropy: f64 =
        counts.iter().filter(|count| **count > 0.0).map(share).map(|p| -p * p.ln()).sum();
    let mut lengths: Vec<usize> = sequences.iter().map(|sequence| sequence.len()).collect();
    lengths.sort_unstable();
    let middle = lengths.get(lengths.len() / 2).copied().unwrap_or(1).max(1) as f64;
    // Of one symbol alone the quotient is infinite, or no number, and the longest words are taken.
    let words = (middle.ln() / entropy).round();
    // So that a word fits into 64 bits.
    let fits = 63 / symbols.max(2).next_power_of_two().ilog2() as usize;
    let longest = MAX_WORD.min(fits.max(1));
    if words.is_finite() { (words as usize).clamp(1, longest) } else { longest }
}

/// The words of a sequence, in order of size.
pub fn sorted(sequence: &[u32], symbols: usize, length: usize) -> Vec<u64> {
    let base = symbols.max(2) as u64;
    let word =
        |word: &[u32]| word.iter().fold(0_u64, |sum, symbol| sum * base + u64::from(*symbol));
    let mut words: Vec<u64> = sequence.windows(length).map(word).collect();
    words.sort_unstable();
    words
}

/// From 0, of the same words, to 1, of none in common: one less the common ones' share of those of the
/// shorter sequence, each as often as both have it. 1 where one is shorter than a word.
pub fn distance(a: &[u64], b: &[u64]) -> f64 {
    let fewer = a.len().min(b.len());
    if fewer == 0 {
        return 1.0;
    }
    let (mut x, mut y, mut common) = (0, 0, 0_usize);
    while let (Some(one), Some(other)) = (a.get(x), b.get(y)) {
        common += usize::from(one == other);
        x += usize::from(one <= other);
        y += usize::from(other <= one);
    }
    1.0 - common as f64 / fewer as f64
}

#[cfg(test)]
mod tests {
    use super::{distance, length, sorted};

    #[test]
    fn words_are_as_long_as_chance_asks_for() {
        // 256 symbols of 4 kinds, equally often: ln(256) / ln(4) = 4.
        let four: Vec<u32> = (0..256).map(|place| place % 4).collect();
        assert_eq!(length(&[&four], 4), 4);
        // Of 16 kinds: 2.
        let sixteen: Vec<u32> = (0..256).map(|place| place % 16).collect();
        assert_eq!(length(&[&sixteen], 16), 2);
        assert_eq!(length(&[&[0, 0, 0]], 1), 8);
        assert_eq!(length(&[&[0]], 1), 8);
        assert_eq!(length(&[], 0), 8);
        // A word of them still fits into 64 bits.
        let many: Vec<u32> = (0..4_000_000).collect();
        assert_eq!(length(&[&many], many.len()), 1);
    }

    #[test]
    fn common_words_are_counted_as_often_as_both_have_them() {
        // abab: ab ba ab; abba: ab bb ba. In common: ab once, ba once.
        let (a, b) = (sorted(&[0, 1, 0, 1], 2, 2), sorted(&[0, 1, 1, 0], 2, 2));
        assert!((distance(&a, &b) - 1.0 / 3.0).abs() < 1e-12);
        assert!((distance(&b, &a) - 1.0 / 3.0).abs() < 1e-12);
        assert!(distance(&a, &a).abs() < 1e-12);
        // A part of the other has all its words in common.
        let part = sorted(&[1, 0], 2, 2);
        assert!(distance(&a, &part).abs() < 1e-12);
        assert!((distance(&a, &sorted(&[0], 2, 2)) - 1.0).abs() < 1e-12);
        assert!((distance(&sorted(&[0, 0], 3, 2), &sorted(&[2, 2], 3, 2)) - 1.0).abs() < 1e-12);
    }
}
