//! PURE: what is wrong with a file, all at once, each with its line.

use std::collections::BTreeMap;
use std::path::Path;

use noise_text::clean::{brief, quoted};

/// Most mistakes that one message lists.
const MOST: usize = 20;

/// What is wrong with a file: where, and what.
#[derive(Debug, Default)]
pub struct Mistakes(Vec<(usize, String)>);

/// The number of the line in which a place is, from 0 on.
fn line_of(text: &str, at: usize) -> usize {
    text.get(..at).unwrap_or_default().matches('\n').count()
}

impl Mistakes {
    pub fn add(&mut self, at: usize, message: &str) {
        self.0.push((at, brief(message)));
    }

    pub fn count(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes what makes lines unreadable, one for each. A line that cannot be read is reported as
    /// unreadable alone: what the parser made of it is a guess.
    pub fn add_unreadable(&mut self, text: &str, places: impl Iterator<Item = (usize, String)>) {
        let ends: Vec<usize> = text.match_indices('\n').map(|(at, _)| at).collect();
        // There may be as many of either as the file has bytes.
        let line = |at: usize| ends.partition_point(|end| *end < at);
        let mut unreadable: BTreeMap<usize, (usize, String)> = BTreeMap::new();
        for (at, message) in places {
            unreadable.entry(line(at)).or_insert((at, message));
        }
        self.0.retain(|(at, _)| !unreadable.contains_key(&line(*at)));
        unreadable.into_values().for_each(|(at, message)| self.add(at, &message));
    }

    /// An error that has each on a line of its own, in the order of the file; if there is any. Errors: that one.
    pub fn end(mut self, text: &str, name: &Path) -> anyhow::Result<()> {
        self.0.sort();
        self.0.dedup();
        let wrong = |(at, message): &(usize, String)| {
            let line = line_of(text, *at);
            let source = quoted(text.lines().nth(line).unwrap_or_default().trim());
            format!("{}, line {} (`{source}`): {message}", name.display(), line + 1)
        };
        let mut lines: Vec<String> = self.0.iter().take(MOST).map(wrong).collect();
        match self.0.len() {
            0 => return Ok(()),
            1 => {}
            count => lines.insert(0, format!("{count} mistakes in {}:", name.display())),
        }
        if let Some(more) = self.0.len().checked_sub(MOST).filter(|more| *more > 0) {
            lines.push(format!("and {more} more"));
        }
        anyhow::bail!(lines.join("\n"))
    }
}
