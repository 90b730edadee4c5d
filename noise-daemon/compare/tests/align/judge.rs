//! Who aligned a family better.
//!
//! Scores have no zero of their own, so they are compared on the scale of Feng and Doolittle (Journal of Molecular Evolution
//! 25:351, 1987): 0 is what the sequences would score with their symbols shuffled, laid side by side from their
//! begin on; 1 is what each would score with itself. Anything that finds more than chance is above 0.

use noise_compare::align::{AlignSettings, Alignment, Gaps, Scoring, Symbol, align, sum_of_pairs};

use crate::others::{Command, side_by_side};

/// What the sequences are scored by: as they are by themselves, but for gaps at the ends, which cost half to open: so they do in
/// muscle, and nothing changes that.
pub fn scoring(sequences: &[Vec<Symbol>]) -> Scoring {
    let gaps = Gaps::default();
    Scoring::by_identity(sequences, Gaps { end_open: gaps.open / 2.0, ..gaps })
}

/// The scores of shuffled sequences and of each with itself.
fn range(sequences: &[Vec<Symbol>], scoring: &Scoring) -> (f64, f64) {
    let own = |sequence: &Vec<Symbol>| -> f64 {
        sequence.iter().map(|symbol| scoring.score(*symbol, *symbol)).sum()
    };
    let mut symbols: Vec<Symbol> = sequences.concat();
    symbols.sort_unstable();
    symbols.dedup();
    let share = |sequence: &Vec<Symbol>, symbol: Symbol| {
        let count = sequence.iter().filter(|other| **other == symbol).count();
        count as f64 / sequence.len().max(1) as f64
    };
    let shares: Vec<Vec<f64>> = sequences
        .iter()
        .map(|sequence| symbols.iter().map(|symbol| share(sequence, *symbol)).collect())
        .collect();
    let (mut random, mut identical) = (0.0, 0.0);
    for (number, a) in sequences.iter().enumerate() {
        for (other, b) in sequences.iter().enumerate().skip(number + 1) {
            identical += (own(a) + own(b)) / 2.0;
            let mut expected = 0.0;
            for (x, in_a) in symbols.iter().zip(&shares[number]) {
                for (y, in_b) in symbols.iter().zip(&shares[other]) {
                    expected += in_a * in_b * scoring.score(*x, *y);
                }
            }
            random += expected * a.len().min(b.len()) as f64;
            let (gaps, longer) = (scoring.gaps(), a.len().abs_diff(b.len()));
            if longer > 0 {
                random -= gaps.end_open + gaps.extend * (longer - 1) as f64;
            }
        }
    }
    (random, identical)
}

/// How our alignments compare with those of one other.
#[derive(Default)]
struct Tally {
    families: usize,
    at_least: usize,
    smallest: f64,
    sum: f64,
}

/// How they compare with all.
pub struct Tallies {
    commands: Vec<(Command, Tally)>,
}

impl Tallies {
    /// Nothing yet, against some.
    pub fn new(commands: &[Command]) -> Self {
        let start =
            |command: &Command| (*command, Tally { smallest: f64::INFINITY, ..Tally::default() });
        Self { commands: commands.iter().map(start).collect() }
    }

    /// Aligns a family, has all others do so who can, and compares.
    pub fn compare(&mut self, name: &str, sequences: &[Vec<Symbol>]) {
        let scoring = scoring(sequences);
        let settings = AlignSettings { scoring: Some(scoring.clone()), ..AlignSettings::default() };
        let ours = align(sequences, &settings).unwrap();
        let (random, identical) = range(sequences, &scoring);
        assert!(identical > random, "{name}");
        let score = |alignment: &Alignment| sum_of_pairs(sequences, alignment, &scoring);
        let our_score = score(&ours);
        let scale = |score: f64| (score - random) / (identical - random);
        for (command, tally) in &mut self.commands {
            let Some(theirs) = side_by_side(*command, name, sequences, &scoring) else { continue };
            let their_score = score(&theirs);
            let is_at_least = our_score >= their_score - 1e-9 * their_score.abs().max(1.0);
            tally.families += 1;
            tally.at_least += usize::from(is_at_least);
            // A score of chance or less is beaten by anything.
            let share = match scale(their_score) {
                theirs if theirs > 0.0 => scale(our_score) / theirs,
                _ if is_at_least => 1.0,
                _ => 0.0,
            };
            tally.smallest = tally.smallest.min(share);
            tally.sum += share;
            println!("{name} {command:?}: {our_score:.1}, theirs {their_score:.1}; {share:.4}");
        }
    }

    /// What came out, which is as it must be: at least as good on 95 of 100, and never below 0.98 of the other.
    pub fn judged(&self) -> String {
        let line = |(command, tally): &(Command, Tally)| {
            let Tally { families, at_least, smallest, sum } = tally;
            let mean = sum / *families as f64;
            let line = format!(
                "{command:?}: at least as good on {at_least} of {families}, smallest share {smallest:.4}, mean {mean:.4}"
            );
            assert!(*families > 0, "{line}");
            assert!(at_least * 100 >= families * 95, "{line}");
            assert!(*smallest >= 0.98, "{line}");
            line
        };
        self.commands.iter().map(line).collect::<Vec<_>>().join("\n")
    }
}
