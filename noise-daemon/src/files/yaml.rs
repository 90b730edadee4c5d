//! PURE: mistakes in YAML files that people write, each as one sentence with its line.

use std::path::Path;

use serde_saphyr::{Error, Location, Spanned};

use super::brief;

/// What is wrong, and where.
#[derive(Debug)]
pub struct Wrong {
    /// The line, counted from 1, where it is known.
    pub line: Option<u64>,
    /// What is wrong there.
    pub message: String,
}

impl Wrong {
    /// At a value of the file.
    pub fn at<T>(value: &Spanned<T>, message: String) -> Self {
        Self { line: Some(value.referenced.line()), message }
    }

    /// As a sentence that names the file.
    pub fn within(self, name: &Path) -> anyhow::Error {
        let (line, message) = (self.line, brief(&self.message));
        match line.filter(|line| *line > 0) {
            Some(line) => anyhow::anyhow!("{}, line {line}: {message}", name.display()),
            None => anyhow::anyhow!("{}: {message}", name.display()),
        }
    }
}

/// The parser's error in our words: one line, with the name that was probably meant.
pub fn told(error: &Error) -> Wrong {
    let error = error.without_snippet();
    let message = match error {
        Error::SerdeUnknownField { field, expected, .. } => {
            format!("unknown key `{field}`: {}", meant(field, expected))
        }
        Error::DuplicateMappingKey { key, .. } => match key {
            Some(key) => format!("`{key}` is there twice"),
            None => "a key is there twice".to_owned(),
        },
        error => {
            let text = error.to_string();
            // The place is told by us.
            let text = match error.location() {
                Some(place) => text.strip_suffix(&suffix(place)).unwrap_or(&text),
                None => &text,
            };
            text.lines().map(str::trim).collect::<Vec<_>>().join(", ")
        }
    };
    Wrong { line: error.location().map(|place| place.line()), message }
}

fn suffix(place: Location) -> String {
    format!(" at line {}, column {}", place.line(), place.column())
}

/// Which of the known names was probably meant.
pub fn meant(found: &str, known: &[&str]) -> String {
    let likeness = |name: &str| strsim::jaro_winkler(&found.to_lowercase(), &name.to_lowercase());
    let nearest = known.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    match nearest.filter(|name| likeness(name) > 0.8) {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None => format!("expected one of {}", known.join(", ")),
    }
}
