//! PURE: rows of text in columns.

/// Between columns.
const GAP: &str = "  ";

/// The rows, each a line: the first column to the left, numbers to the right, and what comes from
/// column `text_from` on to the left again. Columns are as wide as what is in them.
pub fn grid(rows: &[Vec<String>], text_from: usize) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let line = |row: &Vec<String>| {
        let cells =
            row.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| {
                match column == 0 || column >= text_from {
                    true => format!("{cell:<width$}"),
                    false => format!("{cell:>width$}"),
                }
            });
        cells.collect::<Vec<_>>().join(GAP).trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_by_characters() {
        let row = |cells: &[&str]| cells.iter().map(|&cell| cell.to_owned()).collect();
        let rows = [row(&["a", "5 µs", "x"]), row(&["long", "100 µs", "longer"]), row(&["b"])];
        assert_eq!(grid(&rows, 2), "a       5 µs  x\nlong  100 µs  longer\nb\n");
        assert_eq!(grid(&[], 0), "");
    }
}
