//! PURE: mistakes in YAML files that people write, each as one sentence with its line.

use std::path::Path;

use noise_text::clean::brief;
use noise_text::nearest::meant;
use serde_saphyr::{Error, Location, Spanned};

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
pub fn worded(error: &Error) -> Wrong {
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
            // The line is named by `within`; the parser's own words for the place go.
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
