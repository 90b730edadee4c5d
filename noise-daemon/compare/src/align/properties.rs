//! What holds of every alignment.

use proptest::prelude::{Strategy, prop, proptest};
use proptest::{prop_assert, prop_assert_eq};

use super::{
    AlignSettings, Alignment, Gaps, MAX_LENGTH, MAX_SEQUENCES, Scoring, Symbol, align, sum_of_pairs,
};

fn aligned(sequences: &[Vec<Symbol>]) -> Alignment {
    align(sequences, &AlignSettings::default()).unwrap()
}

/// The first thing that is wrong with an alignment.
fn fault(sequences: &[Vec<Symbol>], alignment: &Alignment) -> Option<String> {
    if alignment.rows.len() != sequences.len() {
        return Some(format!("{} rows", alignment.rows.len()));
    }
    for (row, sequence) in alignment.rows.iter().zip(sequences) {
        if row.len() != alignment.columns() {
            return Some(format!("a row of {} columns", row.len()));
        }
        if !row.iter().flatten().copied().eq(0..sequence.len()) {
            return Some(format!("{row:?} is not {sequence:?}"));
        }
    }
    let mut columns = 0..alignment.columns();
    let empty = columns.find(|column| alignment.rows.iter().all(|row| row[*column].is_none()));
    empty.map(|column| format!("column {column} is empty"))
}

/// A family: an ancestor, and what became of it.
fn family() -> impl Strategy<Value = Vec<Vec<Symbol>>> {
    let edit = (0..40_usize, 0..4_u8, 0..5_u32, 1..5_usize);
    let edits = prop::collection::vec(edit, 0..6);
    let ancestor = prop::collection::vec(0..5_u32, 0..40);
    (ancestor, prop::collection::vec(edits, 0..7)).prop_map(|(ancestor, all)| {
        let edited = |edits: Vec<(usize, u8, u32, usize)>| {
            let mut sequence = ancestor.clone();
            for (place, kind, symbol, run) in edits {
                let place = place.min(sequence.len());
                let end = (place + run).min(sequence.len());
                match kind {
                    0 => sequence[place..end].fill(symbol),
                    1 => drop(sequence.drain(place..end)),
                    2 => drop(sequence.splice(place..place, vec![symbol; run])),
                    _ => drop(sequence.splice(place..place, sequence[place..end].to_vec())),
                }
            }
            sequence
        };
        all.into_iter().map(edited).collect()
    })
}

/// Scores with halved gaps at the ends, so that these differ from others.
fn scoring(sequences: &[Vec<Symbol>]) -> Scoring {
    let gaps = Gaps::default();
    Scoring::by_identity(sequences, Gaps { end_open: gaps.open / 2.0, ..gaps })
}

proptest! {
    #[test]
    fn rows_without_gaps_are_the_sequences(sequences in family()) {
        prop_assert_eq!(fault(&sequences, &aligned(&sequences)), None);
    }

    #[test]
    fn the_order_of_sequences_does_not_matter(
        (sequences, order) in family().prop_flat_map(|sequences| {
            let order: Vec<usize> = (0..sequences.len()).collect();
            (prop::strategy::Just(sequences), prop::strategy::Just(order).prop_shuffle())
        }),
    ) {
        let shuffled: Vec<_> = order.iter().map(|number| sequences[*number].clone()).collect();
        let rows = aligned(&sequences).rows;
        let expected: Vec<_> = order.iter().map(|number| rows[*number].clone()).collect();
        prop_assert_eq!(aligned(&shuffled).rows, expected);
    }

    #[test]
    fn refinement_never_lowers_the_score(sequences in family()) {
        let scoring = scoring(&sequences);
        let mut before = f64::NEG_INFINITY;
        for rounds in [0, 1, 2, 16] {
            let settings = AlignSettings { scoring: Some(scoring.clone()), rounds, ..AlignSettings::default() };
            let alignment = align(&sequences, &settings).unwrap();
            let score = sum_of_pairs(&sequences, &alignment, &scoring);
            prop_assert!(score >= before - 1e-9 * before.abs().max(1.0), "{} after {}", score, before);
            before = score;
        }
    }

    /// However little work is allowed, and so however narrow the bands are.
    #[test]
    fn little_work_gives_an_alignment_as_well(
        sequences in family(),
        times in 1..20_usize,
        max_cells in 0..400_000_u64,
    ) {
        let sequences: Vec<_> = sequences.iter().map(|sequence| sequence.repeat(times)).collect();
        let settings = AlignSettings { max_cells, ..AlignSettings::default() };
        let alignment = align(&sequences, &settings).unwrap();
        prop_assert_eq!(fault(&sequences, &alignment), None);
    }
}

#[test]
fn hard_cases() {
    let hundred = |sequence: fn(u32) -> Vec<Symbol>| (0..100).map(sequence).collect::<Vec<_>>();
    let cases: Vec<(Vec<Vec<Symbol>>, Option<usize>)> = vec![
        (vec![], Some(0)),
        (vec![vec![]], Some(0)),
        (vec![vec![], vec![]], Some(0)),
        (vec![vec![3]], Some(1)),
        (vec![vec![], vec![3, 4]], Some(2)),
        (vec![vec![3, 4, 5], vec![3, 4, 5]], Some(3)),
        (vec![vec![u32::MAX, 0], vec![u32::MAX]], Some(2)),
        // One symbol alone: as long as the longest.
        (vec![vec![1; 7], vec![1; 30], vec![1; 12]], Some(30)),
        (hundred(|_| (0..50).map(|place| place % 7).collect()), Some(50)),
        (
            hundred(|n| {
                (0..50).map(|place| if place == n % 50 { n % 9 } else { place % 7 }).collect()
            }),
            Some(50),
        ),
        // Nothing in common: long gaps are cheaper than pairs that differ.
        (vec![vec![1; 20], vec![2; 20], vec![3; 20]], Some(60)),
    ];
    for (sequences, columns) in cases {
        let alignment = aligned(&sequences);
        assert_eq!(fault(&sequences, &alignment), None, "{sequences:?}");
        assert!(columns.is_none_or(|columns| columns == alignment.columns()), "{alignment:?}");
    }
}

#[test]
fn what_is_missing_is_a_gap() {
    let path = |missing: std::ops::Range<usize>| {
        let mut path: Vec<Symbol> = (0..30).collect();
        drop(path.drain(missing));
        path
    };
    let sequences = [path(0..0), path(10..14), path(10..14), path(0..3), path(25..30)];
    let rows = aligned(&sequences).rows;
    let gaps = |row: &Vec<Option<usize>>| -> Vec<usize> {
        row.iter()
            .enumerate()
            .filter(|(_, index)| index.is_none())
            .map(|(column, _)| column)
            .collect()
    };
    assert!(gaps(&rows[0]).is_empty());
    assert_eq!(gaps(&rows[1]), [10, 11, 12, 13]);
    assert_eq!(gaps(&rows[2]), [10, 11, 12, 13]);
    assert_eq!(gaps(&rows[3]), [0, 1, 2]);
    assert_eq!(gaps(&rows[4]), [25, 26, 27, 28, 29]);
}

#[test]
fn too_much_is_refused_with_a_sentence() {
    let refused = |sequences: &[Vec<Symbol>]| {
        align(sequences, &AlignSettings::default()).unwrap_err().to_string()
    };
    assert_eq!(
        refused(&[vec![1], vec![1; 1_000_000]]),
        "sequence 2 has 1000000 symbols, and 100000 can be aligned: merge equal neighbours, or choose a shorter part"
    );
    assert_eq!(
        refused(&vec![vec![1]; MAX_SEQUENCES + 1]),
        "513 sequences are too many to align: choose 512 or fewer"
    );
    assert_eq!(
        refused(&vec![vec![1; MAX_LENGTH]; 42]),
        "the sequences have 4200000 symbols in all, and 4194304 can be aligned: choose fewer or shorter ones"
    );
}
