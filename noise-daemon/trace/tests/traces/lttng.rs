//! What lttng-analyses prints of a trace.

use std::path::Path;

use serde_json::Value;

use super::packages::PACKAGES;

/// More rows than there are.
pub const ALL: &str = "--limit=1000000000";

const BINDINGS: &str = "/usr/lib/python3/dist-packages/babeltrace";

/// The tables of an analysis, with the names of their kinds.
pub struct Tables(Vec<(String, Value)>);

/// Number, sum and largest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    pub count: u64,
    /// Of all of them, ns.
    pub sum_ns: u64,
    /// Of the longest, ns.
    pub max_ns: u64,
}

impl Tables {
    /// Runs an analysis of a trace whose folder is called `kernel`: there it asks for the tracer's version.
    pub fn of(kernel: &Path, analysis: &str, options: &[&str]) -> Result<Self, String> {
        if !Path::new(BINDINGS).is_dir() {
            return Err(
                "there is no babeltrace for Python; it comes with: apt-get install python3-babeltrace"
                    .to_owned(),
            );
        }
        let path = kernel.to_str().unwrap();
        let arguments = [&[analysis, "--skip-validation"], options, &[path]].concat();
        let mut printed = PACKAGES.run(include_str!("python/analyses.py"), &arguments)?;
        assert!(printed.get("error-message").is_none(), "{printed}");
        let results = printed["results"].as_array_mut().unwrap();
        let table = |result: &mut Value| {
            let class = &result["class"];
            let class = class.get("inherit").unwrap_or(class).as_str().unwrap().to_owned();
            (class, result["data"].take())
        };
        Ok(Self(results.iter_mut().map(table).collect()))
    }

    /// The rows of all tables of a kind.
    pub fn rows(&self, class: &str) -> impl Iterator<Item = &Value> {
        let Self(tables) = self;
        let tables = tables.iter().filter(move |(found, _)| found == class);
        tables.flat_map(|(_, rows)| rows.as_array().unwrap())
    }
}

pub fn value(row: &Value, column: usize) -> u64 {
    row[column]["value"].as_u64().unwrap()
}

pub fn tid(row: &Value, column: usize) -> i32 {
    i32::try_from(row[column]["tid"].as_i64().unwrap()).unwrap()
}

/// Number, sum and largest, from a column on; the sum from the mean.
pub fn spread(row: &Value, first: usize) -> Row {
    let count = value(row, first);
    let mean_ns = row[first + 2]["value"].as_f64().unwrap();
    let sum_ns = (mean_ns * count as f64).round() as u64;
    Row { count, sum_ns, max_ns: value(row, first + 3) }
}
