//! An alignment as aligned FASTA, of which other programs make pictures.
//!
//! Letters: the first 62 symbols, in the order that the caller names them in, are `A` to `Z`, `a` to `z`, `0` to `9`; a gap
//! is `-`. Where there are more, all symbols are that many letters long that suffice (`AA`, `AB`, …, `A9`, `BA`, …), and so are gaps,
//! so that columns stay below each other.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::{Alignment, Symbol};

const LETTERS: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// The letters of a symbol by its place among all of them, in as many letters as are given.
fn letters(mut place: usize, width: usize) -> String {
    let mut letters = vec!['-'; width];
    for letter in letters.iter_mut().rev() {
        *letter = LETTERS[place % LETTERS.len()].into();
        place /= LETTERS.len();
    }
    letters.into_iter().collect()
}

/// How many letters each of so many symbols takes.
fn width(symbols: usize) -> usize {
    let mut width = 1;
    let mut words = LETTERS.len();
    while words < symbols {
        words = words.saturating_mul(LETTERS.len());
        width += 1;
    }
    width
}

/// Writes an alignment: for each sequence a line of `>` and its name, and a line of letters. The first of these lines
/// goes on with which letters are what, where readers of FASTA expect a description: `>fast_1 A running, B waiting_cpu`.
/// `symbols` are all symbols that there are, each with its name, in the order of their letters; a symbol that is not
/// among them is written as `?`. White space in names is written as `_`, so that a name ends where the description begins.
pub fn write(
    sequences: &[Vec<Symbol>],
    alignment: &Alignment,
    names: &[String],
    symbols: &[(Symbol, String)],
) -> String {
    let width = width(symbols.len());
    let one_word = |name: &str| name.replace(char::is_whitespace, "_");
    let places: BTreeMap<Symbol, String> = symbols
        .iter()
        .zip(0..)
        .map(|((symbol, _), place)| (*symbol, letters(place, width)))
        .collect();
    let legend = symbols
        .iter()
        .zip(0..)
        .map(|((_, name), place)| format!("{} {}", letters(place, width), one_word(name)));
    let mut description = format!(" {}", legend.collect::<Vec<_>>().join(", "));
    let mut text = String::new();
    let (gap, unknown) = ("-".repeat(width), "?".repeat(width));
    let no_name = String::new();
    for (number, (row, sequence)) in alignment.rows.iter().zip(sequences).enumerate() {
        let name = names.get(number).unwrap_or(&no_name);
        // Writing to a string cannot fail.
        let _ = writeln!(text, ">{}{}", one_word(name), std::mem::take(&mut description));
        for index in row {
            let symbol = index.and_then(|index| sequence.get(index));
            text.push_str(symbol.map_or(&gap, |symbol| places.get(symbol).unwrap_or(&unknown)));
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{letters, width, write};
    use crate::align::Alignment;

    #[test]
    fn few_symbols_are_a_letter_each() {
        let rows = vec![vec![Some(0), None, Some(1)], vec![Some(0), Some(1), Some(2)]];
        let text = write(
            &[vec![7, 9], vec![7, 8, 5]],
            &Alignment { rows },
            &["a".to_owned(), "b\nc".to_owned()],
            &[(7, "running".to_owned()), (8, "disk".to_owned()), (9, "timer".to_owned())],
        );
        assert_eq!(text, ">a A running, B disk, C timer\nA-C\n>b_c\nAB?\n");
    }

    #[test]
    fn many_symbols_are_equally_long() {
        assert_eq!([width(0), width(62), width(63), width(3844), width(3845)], [1, 1, 2, 2, 3]);
        assert_eq!(letters(61, 1), "9");
        assert_eq!([letters(0, 2), letters(61, 2), letters(62, 2)], ["AA", "A9", "BA"]);
        let symbols: Vec<(u32, String)> =
            (0..63).map(|state| (state, format!("s{state}"))).collect();
        let rows = vec![vec![Some(0), None, Some(1)]];
        let text = write(&[vec![62, 0]], &Alignment { rows }, &[], &symbols);
        assert!(text.starts_with("> AA s0, AB s1, "), "{text}");
        assert!(text.ends_with(", BA s62\nBA--AA\n"), "{text}");
    }
}
