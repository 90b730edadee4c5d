//! What an analysis found as CSV: a folder with a file for each table.

use std::fmt::{self, Write as _};
use std::path::Path;

use noise_system::output::{FILE_MODE, Target};

use super::export::{folder, place_in, refuse_inside};

/// What is ready is written in pieces of this length.
const PIECE_BYTES: usize = 64 << 10;

/// The file of a table.
#[derive(Debug)]
pub struct TableFile {
    target: Target,
    rows: String,
}

impl TableFile {
    /// Errors: where it cannot be written.
    pub fn row(&mut self, cells: fmt::Arguments<'_>) -> anyhow::Result<()> {
        // Writing into a text cannot fail.
        let _ = writeln!(self.rows, "{cells}");
        if self.rows.len() >= PIECE_BYTES {
            self.target.write(self.rows.as_bytes())?;
            self.rows.clear();
        }
        Ok(())
    }
}

/// Writes tables about a recording into a folder, each by its name and the names of its columns. They get their names
/// once all are complete.
/// Errors: where they cannot be written.
pub fn write<const N: usize>(
    recording: &Path,
    to: &Path,
    tables: [(&str, &str); N],
    fill: impl FnOnce(&mut [TableFile; N]) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let own = folder(to)?;
    let written = (|| {
        refuse_inside(recording, &own, own.path())?;
        let begin = |(name, columns): (&str, &str)| -> anyhow::Result<TableFile> {
            let target = place_in(&own, &format!("{name}.csv"))?.begin(FILE_MODE)?;
            Ok(TableFile { target, rows: format!("{columns}\n") })
        };
        let begun: Vec<TableFile> = tables.into_iter().map(begin).collect::<Result<_, _>>()?;
        let Ok(mut begun) = <[TableFile; N]>::try_from(begun) else { return Ok(()) };
        fill(&mut begun)?;
        begun.into_iter().try_for_each(|mut file| {
            file.target.write(file.rows.as_bytes())?;
            Ok(file.target.keep()?)
        })
    })();
    if written.is_err() {
        let _ = own.discard();
    }
    written
}

/// A number that may be missing.
pub fn or_nothing(number: Option<impl fmt::Display>) -> String {
    number.map_or_else(String::new, |number| number.to_string())
}
