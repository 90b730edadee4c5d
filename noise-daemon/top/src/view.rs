//! PURE: what the view remembers of one screen: its selection, its order, its filter.

use super::arrange::{Filter, Sort, arrange};
use super::input::Motion;
use super::table::{Table, TableRow};

/// One screen as it was left.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct View {
    /// The column that the person chose; none = the table's own.
    pub sort: Option<Sort>,
    /// As it was typed.
    pub filter: String,
    /// First row that is seen.
    pub offset: usize,
    /// First column that is seen.
    pub pan: usize,
    /// Key of the selected row; none = the first, whichever it is.
    selected: Option<String>,
    /// Where it was when it was last seen.
    at: usize,
}

/// A table as it is looked at: its rows in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ShownTable {
    /// What the screen made.
    pub table: Table,
    /// Indices of its rows that are shown, in order.
    pub order: Vec<usize>,
    pub sort: Sort,
}

impl ShownTable {
    /// The rows that are shown, in order.
    pub fn rows(&self) -> impl Iterator<Item = &TableRow> {
        self.order.iter().filter_map(|index| self.table.rows.get(*index))
    }

    pub fn row(&self, at: usize) -> Option<&TableRow> {
        self.order.get(at).and_then(|index| self.table.rows.get(*index))
    }
}

impl View {
    /// Puts a table into the order of this view.
    pub fn arrange(&mut self, table: Table) -> ShownTable {
        let own = Sort { column: table.sorted_by, reversed: false };
        let known = |sort: &Sort| sort.column < table.columns.len();
        let sort = self.sort.filter(known).unwrap_or(own);
        let order = arrange(&table, &Filter::new(&self.filter), sort);
        let shown = ShownTable { table, order, sort };
        self.offset = self.offset.min(shown.order.len());
        self.find(&shown);
        shown
    }

    /// Keeps the selection on its row, or in its place where the row is gone.
    fn find(&mut self, shown: &ShownTable) {
        let Some(key) = &self.selected else {
            self.at = 0;
            return;
        };
        match shown.rows().position(|row| row.key == *key) {
            Some(at) => self.at = at,
            None => self.select(self.at.min(shown.order.len().saturating_sub(1)), shown),
        }
    }

    fn select(&mut self, at: usize, shown: &ShownTable) {
        self.at = at;
        self.selected = shown.row(at).map(|row| row.key.clone());
    }

    /// Where the selection is, if there is any row.
    pub fn selected(&self, shown: &ShownTable) -> Option<usize> {
        let last = shown.order.len().checked_sub(1)?;
        Some(self.at.min(last))
    }

    /// Moves the selection; a page is so many rows.
    pub fn go(&mut self, motion: Motion, page: usize, shown: &ShownTable) {
        let Some(last) = shown.order.len().checked_sub(1) else { return };
        let at = moved(self.at.min(last), motion, page, last);
        self.select(at, shown);
        if motion == Motion::First {
            // To the first row, whichever will be it.
            self.selected = None;
        }
    }

    /// Sorts by the column so many further, round.
    pub fn sort_further(&mut self, columns: isize, shown: &ShownTable) {
        let count = shown.table.columns.len();
        if let Some(column) = shown.sort.column.checked_add_signed(columns + count as isize)
            && count > 0
        {
            self.sort = Some(Sort { column: column % count, reversed: false });
        }
    }

    pub fn sort_reversed(&mut self, shown: &ShownTable) {
        self.sort = Some(Sort { reversed: !shown.sort.reversed, ..shown.sort });
    }

    /// Sees to it that the selection is among the rows that are seen.
    pub fn scroll(&mut self, height: usize, shown: &ShownTable) {
        let at = self.selected(shown).unwrap_or(0);
        let most = shown.order.len().saturating_sub(height);
        let least = (at + 1).saturating_sub(height);
        self.offset = self.offset.clamp(least, at.max(least)).min(most);
    }
}

/// A place after a motion, from 0 to the last.
pub fn moved(at: usize, motion: Motion, page: usize, last: usize) -> usize {
    let to = match motion {
        Motion::Up => at.saturating_sub(1),
        Motion::Down => at.saturating_add(1),
        Motion::PageUp => at.saturating_sub(page.max(1)),
        Motion::PageDown => at.saturating_add(page.max(1)),
        Motion::First => 0,
        Motion::Last => last,
    };
    to.min(last)
}
