//! Tables as aligned text.

use std::fmt::Write as _;

/// Columns aligned: words to the left, numbers to the right. The first row is the head.
pub fn align(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let column = |index: usize| rows.iter().filter_map(move |row| row.get(index));
    let widths: Vec<usize> = (0..columns)
        .map(|index| column(index).map(|cell| cell.chars().count()).max().unwrap_or_default())
        .collect();
    let numeric: Vec<bool> = (0..columns)
        .map(|index| {
            column(index).skip(1).all(|cell| cell.starts_with(|c: char| "+-0123456789".contains(c)))
        })
        .collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for ((cell, width), numeric) in row.iter().zip(&widths).zip(&numeric) {
            // Writing to a string cannot fail.
            let _ = if *numeric {
                write!(line, "{cell:>width$}  ")
            } else {
                write!(line, "{cell:<width$}  ")
            };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::align;

    #[test]
    fn words_go_left_and_numbers_right() {
        let row = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
        let text = align(&[row(["set", "ns"]), row(["empty", "+5"]), row(["a", "-105"])]);
        assert_eq!(text, "set      ns\nempty    +5\na      -105\n");
    }
}
