//! The metrics and labels that a PromQL expression names.

/// A metric in an expression, with the labels that its braces name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Selector {
    /// Name of the metric.
    pub metric: String,
    /// Names of labels.
    pub labels: Vec<String>,
}

fn is_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_' || letter == ':'
}

/// Whether a word is a metric of ours or of a target, not a function, label or keyword.
fn is_metric(word: &str) -> bool {
    word.contains("noised_")
        || ["process_", "scrape_"].iter().any(|start| word.starts_with(start))
        || word == "up"
}

/// All metrics of an expression.
pub fn selectors(expr: &str) -> Vec<Selector> {
    let mut found = Vec::new();
    let mut rest = expr;
    while let Some(start) = rest.find(|letter| is_name(letter) || letter == '"') {
        rest = &rest[start..];
        if let Some(quoted) = rest.strip_prefix('"') {
            rest = quoted.find('"').map_or("", |end| &quoted[end + 1..]);
            continue;
        }
        let end = rest.find(|letter| !is_name(letter)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        rest = after;
        if !is_metric(word) {
            continue;
        }
        let mut labels = Vec::new();
        if let Some(inside) = after.strip_prefix('{') {
            let (named, behind) = braces(inside);
            (labels, rest) = (named, behind);
        }
        found.push(Selector { metric: word.to_owned(), labels });
    }
    found
}

/// The labels named up to the closing brace, and what is behind it.
fn braces(mut rest: &str) -> (Vec<String>, &str) {
    let mut labels = Vec::new();
    loop {
        rest = rest.trim_start_matches([',', ' ']);
        if let Some(behind) = rest.strip_prefix('}') {
            return (labels, behind);
        }
        let Some(end) = rest.find(|letter| !is_name(letter)) else { return (labels, "") };
        labels.push(rest[..end].to_owned());
        let Some(open) = rest.find('"') else { return (labels, "") };
        let Some(close) = rest[open + 1..].find('"') else { return (labels, "") };
        rest = &rest[open + 1 + close + 1..];
    }
}

#[cfg(test)]
mod tests {
    use super::selectors;

    #[test]
    fn metrics_and_their_labels_are_found() {
        let expr = r#"sum by (le) (rate(noised_a_bucket{job=~"a}b",cpu!="up"}[5m])) / on (job) up and job:noised_b:sum"#;
        let found: Vec<(String, Vec<String>)> =
            selectors(expr).into_iter().map(|one| (one.metric, one.labels)).collect();
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(
            found,
            [
                ("noised_a_bucket".to_owned(), owned(&["job", "cpu"])),
                ("up".to_owned(), Vec::new()),
                ("job:noised_b:sum".to_owned(), Vec::new()),
            ]
        );
    }
}
