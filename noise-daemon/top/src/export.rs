//! PURE: what is shown, as JSON for scripts.
//!
//! `version` counts changes that break readers. Numbers are in the units that the columns' keys
//! name; `null` is where there is none.

use serde_json::{Map, Value, json};

use super::app::App;
use super::page::{Block, Heatmap, Page};
use super::screens::victims;
use super::table::{Cell, Table, TableRow};
use super::{History, Screen, ScreenLook};

/// Of the form of what is written.
const VERSION: u32 = 2;

fn cell(cell: &Cell) -> Value {
    match cell {
        Cell::Text(text) => json!(text),
        Cell::Named { name, notes } => json!(Cell::words(name, notes)),
        Cell::Number { value, .. } => json!(value.filter(|value| value.is_finite())),
        Cell::Share(share) => json!(share),
        Cell::Spark(values) => json!(values),
    }
}

fn row(table: &Table, row: &TableRow) -> Value {
    let cells = table.columns.iter().zip(&row.cells);
    Value::Object(cells.map(|(column, one)| (column.key.to_owned(), cell(one))).collect())
}

fn rows<'a>(table: &Table, shown: impl Iterator<Item = &'a TableRow>) -> Value {
    shown.map(|one| row(table, one)).collect()
}

fn heatmap(map: &Heatmap) -> Value {
    let seconds = |bound: &Option<u64>| bound.map(|ns| ns as f64 / 1e9);
    json!({
        "title": map.title,
        "bounds_seconds": map.bounds_ns.iter().map(seconds).collect::<Vec<_>>(),
        "window_seconds": map.window_seconds,
        "counts": map.windows,
    })
}

fn block(block: &Block) -> Value {
    match block {
        Block::Text(lines) => {
            json!({ "text": lines.iter().map(|(line, _)| line).collect::<Vec<_>>() })
        }
        Block::Lines(lines) => json!({ "text": lines }),
        Block::Table(table) => {
            json!({ "title": table.title, "rows": rows(table, table.rows.iter()) })
        }
        Block::Heatmap(map) => json!({ "heatmap": heatmap(map) }),
        Block::Graph { title, values, .. } => {
            json!({ "graph": { "title": title, "values": values } })
        }
    }
}

/// What is said of every export.
fn head(screen: Screen, history: &History, look: &ScreenLook) -> Map<String, Value> {
    let frame = history.latest();
    let head = [
        ("version", json!(VERSION)),
        ("screen", json!(screen.name())),
        ("time", json!(frame.map(|frame| frame.time.to_string()))),
        ("host", json!(frame.map(|frame| frame.host.name.as_str()))),
        ("seconds", json!(screen.covered(history, look))),
    ];
    head.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// Rows of a screen's table, in their order.
pub fn table<'a>(
    screen: Screen,
    history: &History,
    look: &ScreenLook,
    table: &Table,
    shown: impl Iterator<Item = &'a TableRow>,
) -> Value {
    let mut document = head(screen, history, look);
    let shown: Vec<&TableRow> = shown.collect();
    let mut written = rows(table, shown.iter().copied());
    match screen {
        Screen::Incidents => verdicts(history, look, &shown, &mut written),
        Screen::Victims => findings(history, look, &shown, &mut written),
        _ => {}
    }
    document.insert("rows".to_owned(), written);
    Value::Object(document)
}

/// Adds to the rows of incidents what each is, as `noised incidents --json` has it.
fn verdicts(history: &History, look: &ScreenLook, shown: &[&TableRow], written: &mut Value) {
    let Some(frame) = history.latest() else { return };
    let rows = written.as_array_mut().into_iter().flatten();
    for (row, value) in shown.iter().zip(rows.filter_map(Value::as_object_mut)) {
        let reports = &frame.overview.incidents;
        if let Some(report) = reports.iter().find(|report| report.id.to_string() == row.key) {
            value.insert("verdict".to_owned(), json!(report.verdict(&look.zone)));
        }
    }
}

/// Adds to the rows of victims what each suffers from, and has its label in the place of words for it.
fn findings(history: &History, look: &ScreenLook, shown: &[&TableRow], written: &mut Value) {
    let rows = written.as_array_mut().into_iter().flatten();
    for (row, value) in shown.iter().zip(rows.filter_map(Value::as_object_mut)) {
        value.insert("victim".to_owned(), json!(row.key));
        let findings = victims::findings(history, look, &row.key);
        value.insert("findings".to_owned(), json!(findings));
    }
}

pub fn page(screen: Screen, history: &History, look: &ScreenLook, page: &Page) -> Value {
    let mut document = head(screen, history, look);
    document.insert("title".to_owned(), json!(page.title));
    document.insert("blocks".to_owned(), page.blocks.iter().map(block).collect());
    Value::Object(document)
}

impl App {
    /// What is shown: the open page, or the table's rows as they are sorted and filtered.
    pub fn export(&self) -> Value {
        let (screen, history, look) = (self.screen(), self.history(), self.look());
        match &self.page {
            Some(opened) => page(screen, history, look, &opened.page),
            None => table(screen, history, look, &self.shown.table, self.shown.rows()),
        }
    }

    pub fn export_name(&self) -> String {
        let time = self.history().latest().map(|frame| frame.time).unwrap_or_default();
        format!("noised-{}-{}.json", self.screen().name(), time.strftime("%Y%m%dT%H%M%S%3fZ"))
    }
}
