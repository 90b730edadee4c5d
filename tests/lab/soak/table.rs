//! A soak as a table.

use super::Reading;

const MIB: f64 = 1_048_576.0;

/// The first line.
pub fn heading() -> String {
    format!(
        "{:>7} {:>8} {:>8} {:>7} {:>4} {:>7} {:>5} {:>8} {:>7} {:>7} {:>9} {:>11}  disturbance",
        "at s",
        "RSS MiB",
        "peak",
        "CPU s",
        "fds",
        "threads",
        "maps",
        "entries",
        "page kB",
        "series",
        "dropped",
        "switches"
    )
}

/// The line of a reading.
pub fn row(reading: &Reading) -> String {
    let Reading { footprint, .. } = reading;
    let line = format!(
        "{:>7.0} {:>8.2} {:>8.2} {:>7.2} {:>4} {:>7} {:>5} {:>8} {:>7.0} {:>7} {:>9.0} {:>11.0}  {}",
        reading.at_seconds,
        footprint.resident_bytes as f64 / MIB,
        footprint.peak_bytes as f64 / MIB,
        footprint.cpu_seconds,
        footprint.descriptors,
        footprint.threads,
        reading.maps,
        reading.entries,
        reading.page_bytes as f64 / 1000.0,
        reading.series,
        reading.dropped,
        reading.switches,
        reading.disturbance,
    );
    line.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::{Reading, heading, row};

    #[test]
    fn columns_stand_below_their_names() {
        let reading = Reading { at_seconds: 10.0, disturbance: "stopped", ..Reading::default() };
        let (heading, row) = (heading(), row(&reading));
        assert_eq!(heading.find("disturbance"), row.find("stopped"));
        assert_eq!(heading.find("at s").map(|at| at + 4), row.find("10").map(|at| at + 2));
    }
}
