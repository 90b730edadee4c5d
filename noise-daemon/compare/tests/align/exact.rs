//! The best alignment of three sequences, by dynamic programming over all of them at once.

use noise_compare::align::{AlignSettings, Alignment, Gaps, Scoring, Symbol, align, sum_of_pairs};

use crate::families::Draw;
use crate::judge;

const PAIRS: [(usize, usize); 3] = [(0, 1), (0, 2), (1, 2)];
/// Per pair: whether the first has symbols that stand alone since the pair's last match, whether the second has,
/// and whether there was such a match.
const STATES: usize = 1 << 9;

/// The highest sum of pairs of any alignment. Its columns are made one by one; of those before it is enough to know, per
/// pair, what is in a state: what opening gaps costs beyond a further symbol is paid when a match, or the end, tells
/// whether they are at an end.
fn optimum(sequences: [&[Symbol]; 3], scoring: &Scoring) -> f64 {
    let lengths = sequences.map(<[Symbol]>::len);
    let places = lengths.iter().map(|length| length + 1).product::<usize>();
    let index = |at: [usize; 3]| (at[0] * (lengths[1] + 1) + at[1]) * (lengths[2] + 1) + at[2];
    let mut best = vec![f64::NEG_INFINITY; places * STATES];
    best[0] = 0.0;
    let gaps = scoring.gaps();
    let mut highest = f64::NEG_INFINITY;
    for x in 0..=lengths[0] {
        for y in 0..=lengths[1] {
            for z in 0..=lengths[2] {
                let at = [x, y, z];
                for state in 0..STATES {
                    let score = best[index(at) * STATES + state];
                    if score == f64::NEG_INFINITY {
                        continue;
                    }
                    if at == lengths {
                        let ends: f64 = (0..3).map(|pair| opened(state, pair, gaps, true)).sum();
                        highest = highest.max(score - ends);
                    }
                    for column in 1..8_usize {
                        let next = [0, 1, 2].map(|row| at[row] + (column >> row & 1));
                        if (0..3).any(|row| next[row] > lengths[row]) {
                            continue;
                        }
                        let (gain, state) = step(sequences, at, column, state, scoring);
                        let slot = &mut best[index(next) * STATES + state];
                        *slot = slot.max(score + gain);
                    }
                }
            }
        }
    }
    highest
}

/// What opening a pair's gaps costs beyond a further symbol.
fn opened(state: usize, pair: usize, gaps: &Gaps, is_last: bool) -> f64 {
    let state = state >> (3 * pair) & 7;
    let both = (state & 3).count_ones();
    let at_ends = both.min(u32::from(is_last) + u32::from(state & 4 == 0));
    f64::from(at_ends) * gaps.end_open + f64::from(both - at_ends) * gaps.open
        - f64::from(both) * gaps.extend
}

/// What one more column counts, and the state behind it.
fn step(
    sequences: [&[Symbol]; 3],
    at: [usize; 3],
    column: usize,
    state: usize,
    scoring: &Scoring,
) -> (f64, usize) {
    let gaps = scoring.gaps();
    let (mut gain, mut behind) = (0.0, state);
    for (pair, (a, b)) in PAIRS.into_iter().enumerate() {
        match (column >> a & 1, column >> b & 1) {
            (1, 1) => {
                gain += scoring.score(sequences[a][at[a]], sequences[b][at[b]]);
                gain -= opened(state, pair, gaps, false);
                behind = behind & !(7 << (3 * pair)) | 4 << (3 * pair);
            }
            (1, 0) => {
                gain -= gaps.extend;
                behind |= 1 << (3 * pair);
            }
            (0, 1) => {
                gain -= gaps.extend;
                behind |= 2 << (3 * pair);
            }
            _ => {}
        }
    }
    (gain, behind)
}

/// Of some short families of so many sequences, on how many the optimum was reached; the score is never above it.
fn reached(families: u64, count: usize, scoring: impl Fn(&[Vec<Symbol>]) -> Scoring) -> u64 {
    let mut reached = 0;
    for seed in 0..families {
        let mut draw = Draw(1000 + seed);
        let kinds = 3 + draw.below(6);
        let rate = 0.05 + 0.4 * draw.share();
        let ancestor: Vec<Symbol> =
            (0..4 + draw.below(9)).map(|_| draw.below(kinds) as Symbol).collect();
        let mut sequences: Vec<_> =
            (0..count).map(|_| draw.descendant(&ancestor, kinds, rate)).collect();
        sequences.iter_mut().for_each(|sequence| sequence.truncate(14));
        let scoring = scoring(&sequences);
        let settings = AlignSettings { scoring: Some(scoring.clone()), ..AlignSettings::default() };
        let alignment: Alignment = align(&sequences, &settings).unwrap();
        let score = sum_of_pairs(&sequences, &alignment, &scoring);
        let sequence = |number: usize| sequences.get(number).map_or(&[] as &[_], Vec::as_slice);
        let optimum = optimum([0, 1, 2].map(sequence), &scoring);
        // Where the third sequence is not there, its gaps in both pairs are.
        let alone = |sequence: &Vec<Symbol>| match sequence.len() {
            0 => 0.0,
            length => scoring.gaps().end_open + scoring.gaps().extend * (length - 1) as f64,
        };
        let missing = if count == 2 { sequences.iter().map(alone).sum() } else { 0.0 };
        let left = optimum + missing - score;
        assert!(left > -1e-9, "{sequences:?} {alignment:?}: {score} above {optimum}");
        reached += u64::from(left < 1e-9);
    }
    reached
}

/// Two sequences are always aligned as well as can be.
pub fn pairs() -> String {
    let own = |sequences: &[Vec<Symbol>]| Scoring::by_identity(sequences, Gaps::default());
    assert_eq!((reached(100, 2, own), reached(100, 2, judge::scoring)), (100, 100));
    "the optimum of 200 of 200 pairs".to_owned()
}

pub fn triples() -> String {
    let own = |sequences: &[Vec<Symbol>]| Scoring::by_identity(sequences, Gaps::default());
    let found = (reached(100, 3, own), reached(100, 3, judge::scoring));
    let found_line = format!("the optimum of {} of 200 triples", found.0 + found.1);
    assert!(found.0 >= 90 && found.1 >= 90, "{found_line}: {found:?}");
    found_line
}
