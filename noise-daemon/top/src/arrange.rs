//! PURE: which rows of a table are shown, and in which order.

use std::cmp::Ordering;

use super::table::{Cell, Column, Table, TableRow, Tone};

/// By which column, and whether the other way round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sort {
    pub column: usize,
    /// Numbers the smallest first, names from the end.
    pub reversed: bool,
}

/// What a row must say to be shown: every word, in any cell, in any case; none of those behind a
/// `!`. `victim:web` is about one column alone, which it names as the screen or its key has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    wanted: Vec<String>,
    unwanted: Vec<String>,
}

impl Filter {
    /// As it is typed.
    pub fn new(text: &str) -> Self {
        let mut filter = Self::default();
        for word in text.to_lowercase().split_whitespace() {
            match word.strip_prefix('!') {
                // A `!` alone is a word that is still being typed.
                Some("") => {}
                Some(word) => filter.unwanted.push(word.to_owned()),
                None => filter.wanted.push(word.to_owned()),
            }
        }
        filter
    }

    /// Whether it shows a row of a table with these columns.
    pub fn keeps(&self, columns: &[Column], row: &TableRow) -> bool {
        if self.wanted.is_empty() && self.unwanted.is_empty() {
            return true;
        }
        let cells: Vec<Option<String>> = row.cells.iter().map(words).collect();
        let has = |cell: &Option<String>, word: &str| {
            cell.as_ref().is_some_and(|cell| cell.contains(word))
        };
        let says = |word: &String| match of_column(columns, word) {
            Some((index, word)) => cells.get(index).is_some_and(|cell| has(cell, word)),
            None => cells.iter().any(|cell| has(cell, word)),
        };
        self.wanted.iter().all(says) && !self.unwanted.iter().any(says)
    }
}

/// The index of the column that a word is about, and the rest of the word. Names have colons, too.
fn of_column<'a>(columns: &[Column], word: &'a str) -> Option<(usize, &'a str)> {
    let (name, rest) = word.split_once(':')?;
    let named = |column: &Column| column.key == name || column.title.to_lowercase() == name;
    Some((columns.iter().position(named)?, rest))
}

fn words(cell: &Cell) -> Option<String> {
    match cell {
        Cell::Text(text) | Cell::Number { text, .. } => Some(text.to_lowercase()),
        Cell::Named { name, notes } => Some(Cell::words(name, notes).to_lowercase()),
        Cell::Share(_) | Cell::Spark(_) => None,
    }
}

/// What a cell sorts by.
enum Rank<'a> {
    Number(f64),
    Name(&'a str),
    Nothing,
}

fn rank(row: &TableRow, column: usize) -> Rank<'_> {
    let number = |value: f64| if value.is_nan() { Rank::Nothing } else { Rank::Number(value) };
    match row.cells.get(column) {
        Some(Cell::Number { value: Some(value), .. } | Cell::Share(value)) => number(*value),
        Some(Cell::Spark(values)) => number(values.iter().sum()),
        Some(Cell::Text(name) | Cell::Named { name, .. }) if !name.is_empty() => Rank::Name(name),
        _ => Rank::Nothing,
    }
}

/// Numbers the largest first, then names, at the end what says nothing, however it is sorted.
fn compare(a: &Rank<'_>, b: &Rank<'_>, reversed: bool) -> Ordering {
    let turned = |order: Ordering| if reversed { order.reverse() } else { order };
    match (a, b) {
        (Rank::Number(a), Rank::Number(b)) => turned(b.total_cmp(a)),
        (Rank::Name(a), Rank::Name(b)) => turned(by_name(a, b)),
        (Rank::Nothing, Rank::Nothing) => Ordering::Equal,
        (Rank::Number(_), _) | (Rank::Name(_), Rank::Nothing) => Ordering::Less,
        (_, Rank::Number(_)) | (Rank::Nothing, Rank::Name(_)) => Ordering::Greater,
    }
}

/// Names in order, their numbers by value: `vda2` before `vda10`.
fn by_name(a: &str, b: &str) -> Ordering {
    let (mut left, mut right) = (a, b);
    loop {
        match (left.chars().next(), right.chars().next()) {
            (None, None) => return a.cmp(b),
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some(x), Some(y)) if x.is_ascii_digit() && y.is_ascii_digit() => {
                let (ours, rest) = digits(left);
                let (theirs, others) = digits(right);
                let order = ours.len().cmp(&theirs.len()).then_with(|| ours.cmp(theirs));
                if order != Ordering::Equal {
                    return order;
                }
                (left, right) = (rest, others);
            }
            (Some(x), Some(y)) if x != y => return x.cmp(&y),
            (Some(x), Some(y)) => {
                left = left.get(x.len_utf8()..).unwrap_or_default();
                right = right.get(y.len_utf8()..).unwrap_or_default();
            }
        }
    }
}

/// The number at the beginning, without leading zeros, and what follows it.
fn digits(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, rest) = text.split_at(end);
    (number.trim_start_matches('0'), rest)
}

/// Indices of the rows that are shown, in order. In a table's own order, rows that are an alarm come first. Equal rows stand
/// by key, so that they keep their places from frame to frame.
pub fn arrange(table: &Table, filter: &Filter, sort: Sort) -> Vec<usize> {
    let kept = table.rows.iter().enumerate().filter(|(_, row)| filter.keeps(&table.columns, row));
    let is_own = sort.column == table.sorted_by && !sort.reversed;
    let is_later = |row: &TableRow| is_own && row.tone != Tone::Alarm;
    let mut ranked: Vec<_> =
        kept.map(|(index, row)| (row, rank(row, sort.column), index)).collect();
    ranked.sort_by(|(one, a, _), (other, b, _)| {
        is_later(one)
            .cmp(&is_later(other))
            .then_with(|| compare(a, b, sort.reversed))
            .then_with(|| by_name(&one.key, &other.key))
    });
    ranked.into_iter().map(|(.., index)| index).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tone;

    fn table(rows: &[(&str, Option<f64>)]) -> Table {
        let row = |(name, value): &(&str, Option<f64>)| TableRow {
            key: (*name).to_owned(),
            cells: vec![
                Cell::Text((*name).to_owned()),
                Cell::Number { text: format!("{value:?}"), value: *value },
            ],
            tone: Tone::Plain,
        };
        Table { rows: rows.iter().map(row).collect(), ..Table::default() }
    }

    fn names(table: &Table, filter: &str, column: usize, reversed: bool) -> Vec<String> {
        let order = arrange(table, &Filter::new(filter), Sort { column, reversed });
        order.into_iter().map(|index| table.rows[index].key.clone()).collect()
    }

    #[test]
    fn numbers_are_sorted_the_largest_first_and_what_is_missing_is_last_either_way() {
        let table =
            table(&[("a", None), ("b", Some(1.0)), ("c", Some(f64::NAN)), ("d", Some(2.0))]);
        assert_eq!(names(&table, "", 1, false), ["d", "b", "a", "c"]);
        assert_eq!(names(&table, "", 1, true), ["b", "d", "a", "c"]);
    }

    #[test]
    fn an_alarm_is_first_in_the_tables_own_order_alone() {
        let mut table = table(&[("a", Some(3.0)), ("b", Some(1.0)), ("c", Some(2.0))]);
        table.sorted_by = 1;
        table.rows[1].tone = Tone::Alarm;
        assert_eq!(names(&table, "", 1, false), ["b", "a", "c"]);
        assert_eq!(names(&table, "", 1, true), ["b", "c", "a"]);
        assert_eq!(names(&table, "", 0, false), ["a", "b", "c"]);
    }

    #[test]
    fn names_are_sorted_by_the_numbers_in_them() {
        let table = table(&[("vda10", None), ("vda2", None), ("vda", None), ("nvme0", None)]);
        assert_eq!(names(&table, "", 0, false), ["nvme0", "vda", "vda2", "vda10"]);
        assert_eq!(names(&table, "", 0, true), ["vda10", "vda2", "vda", "nvme0"]);
    }

    #[test]
    fn a_filter_wants_all_words_in_any_case_and_none_behind_an_exclamation_mark() {
        let table = table(&[("Web.slice", Some(1.0)), ("web.service", None), ("db", None)]);
        assert_eq!(names(&table, "WEB", 0, false), ["Web.slice", "web.service"]);
        assert_eq!(names(&table, "web !slice", 0, false), ["web.service"]);
        assert_eq!(names(&table, "web 1.0", 0, false), ["Web.slice"]);
        assert_eq!(names(&table, "!", 0, false).len(), 3);
    }

    #[test]
    fn a_word_can_be_about_one_column() {
        let column = |title, key| Column {
            title,
            key,
            align: crate::Align::Left,
            width: 5,
            grows: false,
            help: "",
        };
        let row = |victim: &str, culprit: &str| TableRow {
            key: format!("{victim} {culprit}"),
            cells: vec![
                Cell::Text(victim.to_owned()),
                Cell::Named { name: culprit.to_owned(), notes: vec![] },
            ],
            tone: Tone::Plain,
        };
        let table = Table {
            columns: vec![column("victim", "victim"), column("Main Culprit", "culprit")],
            rows: vec![row("web", "db"), row("db", "web"), row("docker:0123", "db")],
            ..Table::default()
        };
        let shown = |filter| names(&table, filter, 0, false);
        assert_eq!(shown("victim:web"), ["web db"]);
        assert_eq!(shown("culprit:WEB"), ["db web"]);
        assert_eq!(shown("!culprit:db"), ["db web"]);
        assert_eq!(shown("culprit:db !victim:docker:"), ["web db"]);
        // A name with a colon is a word as any other.
        assert_eq!(shown("docker:0123"), ["docker:0123 db"]);
        assert_eq!(shown("victim:"), ["db web", "docker:0123 db", "web db"]);
    }
}
