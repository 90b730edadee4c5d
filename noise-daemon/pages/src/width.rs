//! IO: how wide a page is.

use noise_command::terminal::output_columns;

/// Columns of a page where there is no terminal; and how few and how many it has on one.
const USUAL_COLUMNS: usize = 120;
const LEAST_COLUMNS: usize = 60;
const MOST_COLUMNS: usize = 400;

/// How wide a page is.
pub fn columns() -> usize {
    output_columns().map_or(USUAL_COLUMNS, |columns| columns.clamp(LEAST_COLUMNS, MOST_COLUMNS))
}
