//! PURE: what is wrong with a file, all at once, each with its line.

use std::collections::BTreeMap;
use std::path::Path;

use noise_command::Lines;
use noise_text::clean::{brief, clean, quoted};

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
        let name = name.display().to_string();
        let name = clean(&name);
        let wrong = |(at, message): &(usize, String)| {
            let line = line_of(text, *at);
            let source = quoted(text.lines().nth(line).unwrap_or_default().trim());
            format!("{name}, line {} (`{source}`): {message}", line + 1)
        };
        let mut lines: Vec<String> = self.0.iter().take(MOST).map(wrong).collect();
        match self.0.len() {
            0 => return Ok(()),
            1 => {}
            count => lines.insert(0, format!("{count} mistakes in {name}:")),
        }
        if let Some(more) = self.0.len().checked_sub(MOST).filter(|more| *more > 0) {
            lines.push(format!("and {more} more"));
        }
        Err(Lines(lines).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mistake_has_a_line_and_the_name_of_the_file_none() {
        let mut mistakes = Mistakes::default();
        mistakes.add(0, "one");
        mistakes.add(2, "other");
        let error = mistakes.end("a\nb", Path::new("x\nnoised: all is well")).unwrap_err();
        assert!(error.is::<Lines>());
        let said = error.to_string();
        let name = "x\\x0anoised: all is well";
        let expected = [
            format!("2 mistakes in {name}:"),
            format!("{name}, line 1 (`a`): one"),
            format!("{name}, line 2 (`b`): other"),
        ];
        assert_eq!(said.lines().collect::<Vec<_>>(), expected);
    }
}
