//! The two sides of executions: of recordings of each, or of one recording that is split by time or by the keys of marks.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{anyhow, bail};
use jiff::Zoned;
use noise_command::CommandError;
use noise_command::output::Painted;
use noise_compare::comparison::CompareError;
use noise_compare::side::{Incomplete, Side};
use noise_paths::document::{Delimiters, PathsDocument, Traced, not_followed, not_traced};
use noise_text::times::Moment;
use noise_trace::damage::Damage;
use noise_trace::ftrace::UnreadLines;
use noise_trace::reach::Reach;
use noise_trace::summary::UnreadDocument;
use serde::Serialize;

use crate::asked::Asking;
use crate::found::found;
use crate::recording::Recording;

/// Where both sides come from.
pub enum Origin<'a> {
    /// Recordings of normal executions, and of the sample.
    Recordings([Vec<PathBuf>; 2]),
    /// One, before and after a time.
    Time(&'a Path, &'a Moment),
    /// One, of which those are the sample whose marks have one of these keys.
    Keys(&'a Path, &'a [String]),
}

impl Origin<'_> {
    /// Why two sides cannot be compared, and what to do.
    pub fn explained(&self, error: CompareError) -> anyhow::Error {
        let CompareError::Empty(set) = error else { return error.into() };
        let why = match (self, set) {
            (Self::Recordings(_), _) => {
                "name executions that the recordings of both have (--execution)"
            }
            (Self::Time(..), "normal") => "none ends before --split, give a later time",
            (Self::Time(..), _) => "none begins after --split, give an earlier time",
            (Self::Keys(..), "normal") => "all have such a key (--sample-key)",
            (Self::Keys(..), _) => "none has such a key (--sample-key)",
        };
        anyhow!("{error}: {why}")
    }
}

/// One recording twice would differ from itself in nothing, and so seem to show that recordings do not.
/// Errors: that a side has one twice.
fn each_once(paths: &[PathBuf]) -> anyhow::Result<()> {
    let mut seen = BTreeSet::new();
    for path in paths {
        if !seen.insert(path.canonicalize().unwrap_or_else(|_| path.clone())) {
            bail!("{} is given twice for one side: give each recording once", path.display());
        }
    }
    Ok(())
}

#[derive(Default)]
pub struct Sets {
    pub normal: Side,
    /// Those that are held against them.
    pub sample: Side,
    /// Executions on both sides of the time at which a recording is split.
    pub across: usize,
    /// What is missing in each recording, by its number in the sides.
    pub recordings: Vec<ComparedRecording>,
    /// What of recordings could not be read.
    pub damage: Vec<(PathBuf, Damage)>,
}

/// What is missing in a recording whose executions are compared.
#[derive(Debug, Serialize)]
pub struct ComparedRecording {
    pub recording: String,
    pub discarded: u64,
    /// CPUs that are not known from its begin to its end.
    #[serde(flatten)]
    pub reach: Reach,
    /// Executions whose paths are left out.
    pub left_out: u64,
    /// Sleeps on the paths of the others that were not followed to their end.
    pub cut: u64,
    /// Processes whose begin or end it does not have, which are left out: their set has whole ones of the same name.
    pub cut_off: usize,
    /// Such processes of a set that has no others, which are compared as far as it has them.
    pub clipped: usize,
    pub delimiters: Vec<Delimiters>,
    #[serde(skip)]
    pub unread_lines: Option<UnreadLines>,
    /// What of it could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unread: Option<UnreadDocument>,
}

impl Sets {
    /// Errors: what was not found, or cannot be read.
    pub fn read(asking: &Asking, origin: &Origin<'_>) -> Result<Self, CommandError> {
        let mut sets = Self::default();
        match origin {
            Origin::Recordings([normal, sample]) => {
                each_once(normal)?;
                each_once(sample)?;
                let of = |sample: bool| move |path| (sample, path);
                let paths: Vec<(bool, &PathBuf)> =
                    normal.iter().map(of(false)).chain(sample.iter().map(of(true))).collect();
                // What is no recording is said before any is read.
                let open = |(_, path): &(bool, &PathBuf)| Recording::open(path);
                let opened: Vec<Recording> = paths.iter().map(open).collect::<Result<_, _>>()?;
                for (number, ((is_sample, path), recording)) in
                    paths.into_iter().zip(&opened).enumerate()
                {
                    let executions = sets.one(asking, path, recording)?;
                    let side = if is_sample { &mut sets.sample } else { &mut sets.normal };
                    side.add(number, executions);
                }
            }
            Origin::Time(path, moment) => {
                let recording = Recording::open(path)?;
                let time_ns = moment.in_recording(recording.first_ns(), &Zoned::now());
                for traced in sets.one(asking, path, &recording)? {
                    match (traced.to_ns <= time_ns, traced.from_ns >= time_ns) {
                        (true, _) => sets.normal.add(0, [traced]),
                        (_, true) => sets.sample.add(0, [traced]),
                        (false, false) => sets.across += 1,
                    }
                }
            }
            Origin::Keys(path, keys) => {
                let recording = Recording::open(path)?;
                let is_asked = |traced: &Traced| {
                    traced.key.as_ref().is_some_and(|key| keys.iter().any(|it| is_key(it, key)))
                };
                for traced in sets.one(asking, path, &recording)? {
                    let side = if is_asked(&traced) { &mut sets.sample } else { &mut sets.normal };
                    side.add(0, [traced]);
                }
            }
        }
        for side in [&mut sets.normal, &mut sets.sample] {
            for (recording, incomplete) in side.keep_whole() {
                if let Some(missing) = sets.recordings.get_mut(recording) {
                    missing.count(incomplete);
                }
            }
        }
        Ok(sets)
    }

    /// The executions of a recording, which gets the next number.
    fn one(
        &mut self,
        asking: &Asking,
        path: &Path,
        recording: &Recording,
    ) -> Result<Vec<Traced>, CommandError> {
        let (executions, missing, damage) = ComparedRecording::all(asking, path, recording)?;
        self.recordings.push(missing);
        self.damage.push((path.to_owned(), damage));
        Ok(executions)
    }

    /// What to know of them, for people.
    pub fn notes(&self) -> Painted {
        let mut page = Painted::default();
        for note in self.recordings.iter().flat_map(ComparedRecording::notes) {
            page.plain(&format!("{note}\n"));
        }
        if self.across > 0 {
            let across = self.across;
            page.plain(&format!(
                "{across} executions are in neither set: they began before --split and ended after it\n"
            ));
        }
        if !page.is_empty() {
            page.plain("\n");
        }
        page
    }
}

impl ComparedRecording {
    /// The executions of a recording that are one side, what is missing in it, and what of it could not be read.
    /// Errors: what was not found, or cannot be read.
    pub fn read(
        asking: &Asking,
        path: &Path,
        recording: &Recording,
    ) -> Result<(Side, Self, Damage), CommandError> {
        let (executions, mut missing, damage) = Self::all(asking, path, recording)?;
        let mut side = Side::default();
        side.add(0, executions);
        side.keep_whole().into_values().for_each(|incomplete| missing.count(incomplete));
        Ok((side, missing, damage))
    }

    const fn count(&mut self, incomplete: Incomplete) {
        self.cut_off += incomplete.cut_off;
        self.clipped += incomplete.clipped;
    }

    /// All executions of a recording, with what is missing in it and what of it could not be read.
    fn all(
        asking: &Asking,
        path: &Path,
        recording: &Recording,
    ) -> Result<(Vec<Traced>, Self, Damage), CommandError> {
        let (document, damages) = found(asking, recording, &[], None)
            .map_err(|error| CommandError::from(error).context(path.display().to_string()))?;
        let PathsDocument {
            executions,
            left_out,
            discarded,
            reach,
            delimiters,
            unread_lines,
            unread,
        } = document;
        let recording = path.display().to_string();
        let (cut_off, clipped) = (0, 0);
        let cut = executions.iter().fold(0_u64, |sum, traced| sum.saturating_add(traced.cut));
        let missing = Self {
            recording,
            discarded,
            reach,
            left_out,
            cut,
            cut_off,
            clipped,
            delimiters,
            unread_lines,
            unread,
        };
        Ok((executions, missing, Damage::of_all(&damages)))
    }

    /// What to know of it, for people.
    pub fn notes(&self) -> Vec<String> {
        let (path, mut notes) = (&self.recording, Vec::new());
        if let Some(unread) = &self.unread_lines {
            notes.push(format!("{path}: {unread}"));
        }
        if !self.reach.is_whole() {
            notes.push(format!("{path}: {}", self.reach));
        }
        if self.discarded > 0 {
            notes.push(format!("{path}: {} events were lost while recording", self.discarded));
        }
        if self.left_out > 0 {
            notes.push(format!("{path}: {}", not_traced(self.left_out)));
        }
        if self.cut > 0 {
            notes.push(format!("{path}: {}", not_followed(self.cut)));
        }
        for (count, what) in [
            (self.cut_off, "processes that are left out"),
            (
                self.clipped,
                "processes of which a part is compared, because their set has no whole one of that name",
            ),
        ] {
            if count > 0 {
                notes.push(format!(
                    "{path}: {what}: {count}: begin or end is outside of the recording or of the time that is asked for"
                ));
            }
        }
        for delimiters in &self.delimiters {
            let rows = delimiters.tally.rows().into_iter().filter(|(count, _)| *count > 0);
            let rows =
                rows.map(|(count, what)| format!("{path}: {}: {count} {what}", delimiters.name));
            notes.extend(rows);
        }
        notes
    }
}

/// Whether a key is the one that is asked for, or begins as it does before its `*`.
fn is_key(asked: &str, key: &str) -> bool {
    match asked.strip_suffix('*') {
        Some(begin) => key.starts_with(begin),
        None => asked == key,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_the_rest_of_a_key() {
        assert!(is_key("slow-*", "slow-3") && is_key("slow-*", "slow-") && is_key("7", "7"));
        assert!(!is_key("slow-*", "slow") && !is_key("7", "77") && is_key("*", ""));
    }
}
