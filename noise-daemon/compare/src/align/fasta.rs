//! An alignment as aligned FASTA, of which other programs make pictures.
//!
//! Letters: the symbols, in the order that the caller names them in, are `A` to `Z`, `a` to `z`, `0` to `9`; a gap is `-`.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::{Alignment, Symbol};

const LETTERS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// Writes an alignment: for each sequence a line of `>` and its name, and a line of letters. The first of these lines
/// goes on with which letters are what, where readers of FASTA expect a description: `>fast_1 A running, B waiting_cpu`.
/// `symbols` are all symbols that there are, 62 at most, each with its name, in the order of their letters. White space in
/// names is written as `_`, so that a name ends where the description begins.
pub fn write(
    sequences: &[Vec<Symbol>],
    alignment: &Alignment,
    names: &[String],
    symbols: &[(Symbol, String)],
) -> String {
    let one_word = |name: &str| name.replace(char::is_whitespace, "_");
    let letters: BTreeMap<Symbol, char> =
        symbols.iter().map(|(symbol, _)| *symbol).zip(LETTERS.chars()).collect();
    let legend = symbols.iter().zip(LETTERS.chars());
    let legend = legend.map(|((_, name), letter)| format!("{letter} {}", one_word(name)));
    let mut description = format!(" {}", legend.collect::<Vec<_>>().join(", "));
    let mut text = String::new();
    let no_name = String::new();
    for (number, (row, sequence)) in alignment.rows.iter().zip(sequences).enumerate() {
        let name = names.get(number).unwrap_or(&no_name);
        // Writing to a string cannot fail.
        let _ = writeln!(text, ">{}{}", one_word(name), std::mem::take(&mut description));
        for index in row {
            let symbol = index.and_then(|index| sequence.get(index));
            text.push(symbol.and_then(|symbol| letters.get(symbol)).copied().unwrap_or('-'));
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::write;
    use crate::align::Alignment;

    #[test]
    fn symbols_are_a_letter_each() {
        let rows = vec![vec![Some(0), None, Some(1)], vec![Some(0), Some(1), Some(2)]];
        let text = write(
            &[vec![7, 9], vec![7, 8, 9]],
            &Alignment { rows },
            &["a".to_owned(), "b\nc".to_owned()],
            &[(7, "running".to_owned()), (8, "disk".to_owned()), (9, "timer".to_owned())],
        );
        assert_eq!(text, ">a A running, B disk, C timer\nA-C\n>b_c\nABC\n");
    }
}
