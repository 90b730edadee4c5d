//! PURE: tables as plain text, every column as wide as its widest cell.

use super::clean::clean;
use super::columns::{pad, width};

#[derive(Clone, Debug)]
pub struct Columns {
    /// How many of the first columns are names, which stand to the left.
    names: usize,
    rows: Vec<Vec<String>>,
}

impl Columns {
    /// A table with these headings; the first so many columns are names.
    pub fn new(names: usize, headings: &[&str]) -> Self {
        Self { names, rows: vec![headings.iter().map(|text| (*text).to_owned()).collect()] }
    }

    /// Adds a row. Names are cleaned, as their authors are not trusted: they must not control the terminal.
    pub fn push(&mut self, row: &[String]) {
        self.rows.push(row.iter().map(|text| clean(text).into_owned()).collect());
    }

    /// The table, each line ending with a newline.
    pub fn text(&self) -> String {
        aligned(&self.rows, self.names, usize::MAX)
    }
}

/// Rows as lines: the first `names` columns to the left, numbers to the right, and words from column
/// `words_from` on to the left again.
pub fn aligned(rows: &[Vec<String>], names: usize, words_from: usize) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widest =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|text| width(text)).max();
    let widths: Vec<usize> = (0..count).map(|column| widest(column).unwrap_or(0)).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (text, width))| {
            pad(text, *width, (names..words_from).contains(&column))
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_left_and_numbers_right() {
        let mut table = Columns::new(1, &["name", "n"]);
        table.push(&["a".into(), "1".into()]);
        table.push(&["longer\n".into(), "1234 µs".into()]);
        assert_eq!(
            table.text(),
            "name              n\n\
             a                 1\n\
             longer\\x0a  1234 µs\n"
        );
        let row = |cells: [&str; 3]| cells.map(ToOwned::to_owned).to_vec();
        let rows = [row(["a", "5 µs", "x"]), row(["long", "100 µs", "longer"])];
        assert_eq!(aligned(&rows, 1, 2), "a       5 µs  x\nlong  100 µs  longer\n");
        assert_eq!(aligned(&[], 1, 2), "");
    }
}
