//! Distances of sequences that are aligned: how often a symbol became another one.
//!
//! Of the columns in which two rows have a symbol a share D differs; that so many were replaced, some of them
//! more than once or by the same, is -b ln(1 - D / b), where b is the share in which unrelated sequences would differ: one
//! less the sum of the squared frequencies (Tajima and Nei, Molecular Biology and Evolution 1:269, 1984). Kimura's formula, which
//! MUSCLE takes, is this fitted to twenty amino acids.

use super::group::GAP;

/// The distance of rows that differ as much as unrelated ones, or more, or have no column in common.
const FARTHEST: f64 = 10.0;

/// The share in which unrelated sequences differ, of symbols that occur so often.
pub fn unrelated(counts: &[f64]) -> f64 {
    let total: f64 = counts.iter().sum();
    1.0 - counts.iter().map(|count| (count / total).powi(2)).sum::<f64>()
}

/// How far two rows are from each other.
pub fn distance(a: &[u32], b: &[u32], unrelated: f64) -> f64 {
    let (mut both, mut other) = (0_u64, 0_u64);
    for (a, b) in a.iter().zip(b) {
        let is_both = *a != GAP && *b != GAP;
        both += u64::from(is_both);
        other += u64::from(is_both && a != b);
    }
    if both == 0 {
        return FARTHEST;
    }
    if other == 0 {
        return 0.0;
    }
    let left = 1.0 - other as f64 / both as f64 / unrelated;
    if left > 0.0 { (-unrelated * left.ln()).min(FARTHEST) } else { FARTHEST }
}

#[cfg(test)]
mod tests {
    use super::{FARTHEST, distance, unrelated};
    use crate::align::group::GAP;

    #[test]
    fn replaced_more_than_once() {
        // Four symbols, equally often: Jukes and Cantor's formula, -3/4 ln(1 - 4/3 D).
        let b = unrelated(&[5.0; 4]);
        assert!((b - 0.75).abs() < 1e-12);
        let far = distance(&[0, 1, 2, 3, GAP], &[0, 1, 2, 0, 1], b);
        assert!((far - -0.75 * (1.0_f64 - 4.0 / 3.0 * 0.25).ln()).abs() < 1e-12);
        assert!(distance(&[0, 1, GAP], &[0, 1, 2], b).abs() < 1e-12);
        assert!((distance(&[0, 0], &[1, 2], b) - FARTHEST).abs() < 1e-12);
        assert!((distance(&[0, GAP], &[GAP, 2], b) - FARTHEST).abs() < 1e-12);
    }

    #[test]
    fn one_symbol_alone_is_never_another() {
        assert!(distance(&[0, 0], &[0, 0], unrelated(&[4.0])).abs() < 1e-12);
    }
}
