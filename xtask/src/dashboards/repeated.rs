//! Tests of recording rules that are the same for every histogram: written and worked out by hand for
//! the first signal, and repeated for the others.

use noise_common::signals::SIGNALS;

/// The tests of a file of rules, with the part of the first histogram repeated for every one.
pub fn repeated(text: &str) -> String {
    let metrics: Vec<&str> =
        SIGNALS.iter().filter(|info| info.is_delay()).map(|info| info.metric).collect();
    let lines: Vec<&str> = text.lines().collect();
    let mut written = Vec::new();
    let mut at = 0;
    while let Some(line) = lines.get(at) {
        match run(&lines[at..], &metrics) {
            Some((pattern, length)) => {
                let all = metrics.iter().flat_map(|metric| of(pattern, &metrics, metric));
                written.extend(all);
                at += length;
            }
            None => {
                written.push((*line).to_owned());
                at += 1;
            }
        }
    }
    written.iter().map(|line| format!("{line}\n")).collect()
}

/// The lines of the first histogram as another's.
fn of(pattern: &[&str], metrics: &[&str], metric: &str) -> Vec<String> {
    let first = metrics.first().copied().unwrap_or_default();
    pattern.iter().map(|line| line.replace(first, metric)).collect()
}

/// The lines of the first histogram, and the number of lines of all that follow each other, where
/// these begin here.
fn run<'a>(lines: &'a [&'a str], metrics: &[&str]) -> Option<(&'a [&'a str], usize)> {
    let names = |line: &&str, metric: &str| line.contains(metric);
    let (first, others) = metrics.split_first()?;
    if !names(lines.first()?, first) {
        return None;
    }
    let length = lines.iter().position(|line| others.iter().any(|metric| names(line, metric)))?;
    let pattern = lines.get(..length)?;
    let is_one =
        |chunk: &[&str]| metrics.iter().any(|metric| of(pattern, metrics, metric) == chunk);
    let count = lines.chunks_exact(length).take_while(|chunk| is_one(chunk)).count();
    (count > 1).then_some((pattern, count * length))
}

#[cfg(test)]
mod tests {
    use super::{SIGNALS, repeated};

    #[test]
    fn every_histogram_gets_the_lines_of_the_first_and_the_rest_stays() {
        let block = |metric: &str| format!("  - expr: 'sum({metric})'\n    value: 7\n");
        let delays = || SIGNALS.iter().filter(|info| info.is_delay());
        let first_two: String = delays().take(2).map(|info| block(info.metric)).collect();
        let all: String = delays().map(|info| block(info.metric)).collect();
        let around = |blocks: &str| format!("# head\n{blocks}tail: 1\n{blocks}");
        assert_eq!(repeated(&around(&first_two)), around(&all));
        assert_eq!(repeated(&around(&all)), around(&all));
        let own = format!("# head\n{}tail: 1\n", block("noised_steal_seconds_total"));
        assert_eq!(repeated(&own), own);
    }
}
