//! The documentation's table of signals.

use noise_common::signals::{SignalInfo, in_reading_order};

/// The page that says what each signal measures.
pub const PATH: &str = "docs/signals.md";

const TEXT: &str = include_str!("../../../docs/signals.md");

/// Above the rows of the table.
const HEAD: &str = "| signal | from → to | labels |\n|---|---|---|\n";

/// The page, with the table as the signals' rows have it.
pub fn page() -> String {
    let rows: String = in_reading_order().map(row).collect();
    let Some((before, rest)) = TEXT.split_once(HEAD) else {
        return format!("{TEXT}\n{HEAD}{rows}");
    };
    let after: String =
        rest.split_inclusive('\n').skip_while(|line| line.starts_with('|')).collect();
    format!("{before}{HEAD}{rows}{after}")
}

fn row(info: &SignalInfo) -> String {
    let labels: Vec<String> = info.labels.iter().map(|label| format!("`{label}`")).collect();
    let labels = match info.values {
        "" => labels.join(", "),
        values => format!("{}: {values}", labels.join(", ")),
    };
    let space = if labels.is_empty() { "" } else { " " };
    format!("| `{}` | {} |{space}{labels} |\n", info.name, info.between)
}

#[cfg(test)]
mod tests {
    use super::{TEXT, page};
    use noise_common::signals::SIGNALS;

    #[test]
    fn every_signal_has_a_row_and_the_rest_of_the_page_stays() {
        let page = page();
        for info in &SIGNALS {
            let begin = format!("| `{}` | {} |", info.name, info.between);
            assert_eq!(page.lines().filter(|line| line.starts_with(&begin)).count(), 1, "{begin}");
        }
        let of = |text: &str| -> Vec<String> {
            text.lines().filter(|line| !line.starts_with("| `")).map(str::to_owned).collect()
        };
        assert_eq!(of(&page), of(TEXT));
    }
}
