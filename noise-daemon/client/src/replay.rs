//! A recording as a source of frames, which can be moved in time.

use std::mem;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::ensure;
use jiff::{SignedDuration, Timestamp};
use noise_model::SharedNames;
use noise_wire::{FileError, Frame, Recording};

use crate::source::{FrameSource, News, Position, Replay};

/// How far back a move shows what came before.
const BEFORE: SignedDuration = SignedDuration::from_secs(120);
/// Most frames that a move shows.
const MOST: usize = 1_200;
/// No more once they take so much memory.
const MOST_BYTES: usize = 1 << 30;

/// Frames of a recording, one each interval.
#[derive(Debug)]
pub struct ReplaySource {
    name: String,
    recording: Recording,
    names: SharedNames,
    interval: Duration,
    position: Position,
    /// Index of the next frame.
    next: usize,
    due: Instant,
    /// Why the frame that a move led to is not shown, until that is said.
    trouble: Option<String>,
    /// Whether it was said, since the last move, what is wrong with the end.
    is_warned: bool,
}

impl ReplaySource {
    /// Errors: where it cannot be read, or has no frame.
    pub fn open(path: &Path, interval: Duration) -> anyhow::Result<Self> {
        let recording = Recording::open(path)?;
        ensure!(!recording.is_empty(), "{} has no frames", path.display());
        let position = Position { index: 0, frames: recording.len() };
        Ok(Self {
            name: path.display().to_string(),
            recording,
            names: SharedNames::default(),
            interval,
            position,
            next: 0,
            due: Instant::now(),
            trouble: None,
            is_warned: false,
        })
    }

    /// A frame, and how much memory it takes.
    fn read(&mut self, index: usize) -> Result<(Arc<Frame>, usize), FileError> {
        let (mut frame, bytes) = self.recording.measured(index)?;
        frame.share_names(&mut self.names);
        Ok((Arc::new(frame), bytes))
    }

    /// The time of the last frame up to an index that can be read.
    fn time_of(&mut self, index: usize) -> Option<Timestamp> {
        (0..=index).rev().find_map(|index| self.read(index).ok()).map(|(frame, _)| frame.time)
    }

    fn move_to(&mut self, index: usize) -> Vec<Arc<Frame>> {
        let mut frames: Vec<Arc<Frame>> = Vec::new();
        let mut bytes = 0;
        (self.trouble, self.is_warned) = (None, false);
        for earlier in (0..=index).rev() {
            if frames.len() >= MOST || bytes >= MOST_BYTES {
                break;
            }
            let (frame, of_frame) = match self.read(earlier) {
                Ok(read) => read,
                // One that is damaged is as one that was not recorded.
                Err(error) => {
                    if earlier == index {
                        self.trouble = Some(error.to_string());
                    }
                    continue;
                }
            };
            bytes += of_frame;
            let newest = frames.first().map_or(frame.time, |newest| newest.time);
            if newest.duration_since(frame.time) > BEFORE {
                break;
            }
            frames.push(frame);
        }
        frames.reverse();
        self.position.index = index;
        self.next = index + 1;
        self.due = Instant::now() + self.interval;
        frames
    }
}

impl Replay for ReplaySource {
    fn position(&self) -> Position {
        self.position
    }

    fn step(&mut self, steps: i64) -> Vec<Arc<Frame>> {
        let distance = usize::try_from(steps.unsigned_abs()).unwrap_or(usize::MAX);
        let index = match steps < 0 {
            true => self.position.index.saturating_sub(distance),
            false => self.position.index.saturating_add(distance),
        };
        self.move_to(index.min(self.position.frames.saturating_sub(1)))
    }

    fn seek_to(&mut self, time: Timestamp) -> Vec<Arc<Frame>> {
        let (mut from, mut to) = (0, self.position.frames);
        while from < to {
            let middle = from + (to - from) / 2;
            match self.time_of(middle) {
                Some(other) if other > time => to = middle,
                _ => from = middle + 1,
            }
        }
        self.move_to(from.saturating_sub(1))
    }

    fn trouble(&mut self) -> Option<String> {
        if let Some(trouble) = self.trouble.take() {
            return Some(trouble);
        }
        let at_end = self.next >= self.position.frames && !mem::replace(&mut self.is_warned, true);
        self.recording.warning().filter(|_| at_end)
    }
}

impl FrameSource for ReplaySource {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn poll(&mut self, timeout: Duration) -> Option<News> {
        if let Some(trouble) = self.trouble() {
            return Some(News::Trouble(trouble));
        }
        if self.next >= self.position.frames {
            return None;
        }
        let now = Instant::now();
        if self.due > now + timeout {
            thread::sleep(timeout);
            return None;
        }
        thread::sleep(self.due.saturating_duration_since(now));
        self.due = Instant::now() + self.interval;
        let index = self.next;
        self.next += 1;
        self.position.index = index;
        match self.read(index) {
            Ok((frame, _)) => Some(News::Frame(frame)),
            Err(error) => Some(News::Trouble(error.to_string())),
        }
    }

    fn set_interval(&mut self, interval: Duration) {
        self.interval = interval;
        self.due = self.due.min(Instant::now() + interval);
    }

    fn replay(&mut self) -> Option<&mut dyn Replay> {
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use noise_wire::Recorder;
    use noise_wire::sampled::{host, small};

    use super::*;

    const MOMENT: Duration = Duration::from_millis(1);

    fn recorded(times: impl IntoIterator<Item = i64>) -> (tempfile::TempDir, std::path::PathBuf) {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("frames");
        let mut recorder = Recorder::open(&path, &host()).unwrap();
        times.into_iter().for_each(|time| recorder.append(&small(time)).unwrap());
        (root, path)
    }

    fn seconds(frames: &[Arc<Frame>]) -> Vec<i64> {
        frames.iter().map(|frame| frame.time.as_second()).collect()
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    #[test]
    fn frames_come_one_after_the_other_up_to_the_end() {
        let (_root, path) = recorded(1..4);
        let mut source = ReplaySource::open(&path, MOMENT).unwrap();
        for second in 1..4 {
            let news = source.poll(Duration::from_secs(5));
            assert_eq!(news, Some(News::Frame(Arc::new(small(second)))));
        }
        assert_eq!(source.position(), Position { index: 2, frames: 3 });
        assert_eq!(source.poll(MOMENT), None);
        assert!(source.replay().is_some());
        assert_eq!(seconds(&source.step(-1)), [1, 2]);
        assert_eq!(source.poll(Duration::from_secs(5)), Some(News::Frame(Arc::new(small(3)))));
    }

    #[test]
    fn an_interval_lies_between_frames() {
        let (_root, path) = recorded(1..4);
        let mut source = ReplaySource::open(&path, Duration::from_secs(3600)).unwrap();
        assert!(source.poll(MOMENT).is_some());
        assert_eq!(source.poll(MOMENT), None);
        source.set_interval(MOMENT);
        assert!(source.poll(Duration::from_secs(5)).is_some());
    }

    #[test]
    fn moves_show_the_two_minutes_before() {
        let (_root, path) = recorded(1000..1500);
        let mut source = ReplaySource::open(&path, MOMENT).unwrap();
        let frames = source.step(300);
        assert_eq!(seconds(&frames), (1180..=1300).collect::<Vec<_>>());
        assert_eq!(source.position(), Position { index: 300, frames: 500 });
        assert_eq!(seconds(&source.step(-300)), [1000]);
        assert_eq!(seconds(&source.step(i64::MIN)), [1000]);
        assert_eq!(seconds(&source.step(i64::MAX)).last(), Some(&1499));
        for (time, found) in [(1200, 1200), (0, 1000), (99_999, 1499)] {
            assert_eq!(seconds(&source.seek_to(at(time))).last(), Some(&found));
        }
        let between = at(1200).checked_add(SignedDuration::from_millis(500)).unwrap();
        assert_eq!(seconds(&source.seek_to(between)).last(), Some(&1200));
    }

    #[test]
    fn damaged_frames_are_reported_and_passed_over() {
        let (_root, path) = recorded(1..6);
        let mut bytes = std::fs::read(&path).unwrap();
        let length = bytes.len();
        // The last record is torn, the third has a wrong bit.
        bytes.truncate(length - 1);
        let (_other, two) = recorded(1..3);
        bytes[std::fs::metadata(two).unwrap().len() as usize + 30] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        let mut source = ReplaySource::open(&path, MOMENT).unwrap();
        let said = |source: &mut ReplaySource| -> Vec<Result<i64, String>> {
            let all = std::iter::from_fn(|| source.poll(Duration::from_secs(5)));
            let news = |news| match news {
                News::Frame(frame) => Ok(frame.time.as_second()),
                News::Trouble(why) => Err(why),
            };
            all.map(news).collect()
        };
        let place = path.display();
        let damaged =
            Err(format!("frame 3 of {place}: the frame is damaged (its check sum is wrong)"));
        let cut_off = Err(format!("{place} was cut off: it is shown up to frame 4"));
        // What is wrong with the end is said there: another frame would hide it.
        assert_eq!(said(&mut source), [Ok(1), Ok(2), damaged.clone(), Ok(4), cut_off.clone()]);
        assert_eq!(source.step(0).len(), 3);
        assert_eq!(said(&mut source), std::slice::from_ref(&cut_off));
        assert_eq!(seconds(&source.step(-1)), [1, 2]);
        assert_eq!(said(&mut source), [damaged, Ok(4), cut_off]);
        assert_eq!(seconds(&source.seek_to(at(99))).last(), Some(&4));
        // One that is stepped through says it at once, and once.
        assert!(source.trouble().is_some_and(|why| why.contains("was cut off")));
        assert_eq!(source.trouble(), None);
        source.step(-1);
        assert!(source.trouble().is_some_and(|why| why.contains("is damaged")));
        assert_eq!(source.trouble(), None);
        // Both, where the last frame is damaged.
        let mut bytes = std::fs::read(&path).unwrap();
        let last = bytes.len() - 10;
        bytes[last] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        let mut source = ReplaySource::open(&path, MOMENT).unwrap();
        source.step(i64::MAX);
        let said: Vec<String> = std::iter::from_fn(|| source.trouble()).collect();
        assert!(said.last().is_some_and(|why| why.contains("was cut off")), "{said:?}");
    }

    #[test]
    fn a_recording_without_frames_is_refused() {
        let (_root, path) = recorded([]);
        let error = ReplaySource::open(&path, MOMENT).unwrap_err().to_string();
        assert!(error.contains("no frames"), "{error}");
        let error = ReplaySource::open(Path::new("/nonexistent"), MOMENT).unwrap_err().to_string();
        assert!(error.contains("/nonexistent"), "{error}");
    }
}
