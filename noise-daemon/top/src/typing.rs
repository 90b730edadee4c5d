//! PURE: a line that is being typed.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use noise_text::times::Moment;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// More is not taken.
const LONGEST: usize = 200;

/// What a line is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Rows that are shown.
    Filter,
    /// A time to go to; of the day only, next to this one.
    Time {
        /// Where the replay is.
        near: Timestamp,
    },
}

/// What a key made of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypedKey {
    More,
    /// It is as it shall be.
    Kept,
    /// It shall be forgotten.
    Dropped,
    /// The person wants to end.
    Quit,
}

/// A line that is being typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Typing {
    pub purpose: Purpose,
    pub text: String,
}

impl Typing {
    /// Begins with a text.
    pub fn new(purpose: Purpose, text: &str) -> Self {
        Self { purpose, text: text.to_owned() }
    }

    pub fn take(&mut self, key: &KeyEvent) -> TypedKey {
        if key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) {
            match key.code {
                KeyCode::Char('c') => return TypedKey::Quit,
                KeyCode::Char('u') => self.text.clear(),
                KeyCode::Char('w') => {
                    let kept = self.text.trim_end().rfind(' ').map_or(0, |space| space + 1);
                    self.text.truncate(kept);
                }
                KeyCode::Char('h') => drop(self.text.pop()),
                _ => {}
            }
            return TypedKey::More;
        }
        match key.code {
            KeyCode::Enter => return TypedKey::Kept,
            KeyCode::Esc => return TypedKey::Dropped,
            KeyCode::Backspace => drop(self.text.pop()),
            KeyCode::Char(c) if !c.is_control() && self.text.chars().count() < LONGEST => {
                self.text.push(c);
            }
            _ => {}
        }
        TypedKey::More
    }
}

/// A time as it is typed: of the day only, the one next to `near`; with a plus, so much after it.
pub fn time_of(text: &str, near: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
    let moment = Moment::of_recording(text).ok()?;
    // A few digits are the begin of a time of the day.
    let is_begun = matches!(moment, Moment::Number(whole, _) if whole < 1_000_000_000);
    if is_begun {
        return None;
    }
    let begin_ns = u64::try_from(near.as_nanosecond()).ok()?;
    let time_ns = moment.in_recording(begin_ns, &near.to_zoned(zone.clone()));
    Timestamp::from_nanosecond(i128::from(time_ns)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_the_day_is_next_to_that_of_the_replay() {
        let near: Timestamp = "2026-03-04T05:06:07Z".parse().unwrap();
        let day = |text| time_of(text, near, &TimeZone::UTC).map(|time| time.to_string());
        assert_eq!(day("12:34").as_deref(), Some("2026-03-04T12:34:00Z"));
        assert_eq!(day(" 12:34:56 ").as_deref(), Some("2026-03-04T12:34:56Z"));
        assert_eq!(day("2026-01-31T12:34:56Z").as_deref(), Some("2026-01-31T12:34:56Z"));
        assert_eq!(day("2026-01-31 12:34:56").as_deref(), Some("2026-01-31T12:34:56Z"));
        assert_eq!(day("+1m").as_deref(), Some("2026-03-04T05:07:07Z"));
        assert_eq!(day("06:46:53 +01:00").as_deref(), Some("2026-03-04T05:46:53Z"));
        let east = TimeZone::posix("<+03>-3").unwrap();
        let there = time_of("08:10", near, &east).map(|time| time.to_string());
        assert_eq!(there.as_deref(), Some("2026-03-04T05:10:00Z"));
        for nonsense in ["", ":", "99:99", "x", "12", "1:2:3:4", "-"] {
            assert_eq!(day(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn words_and_lines_can_be_taken_back() {
        let mut typing = Typing::new(Purpose::Filter, "web slice");
        let control = |c| KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL);
        assert_eq!(typing.take(&control('w')), TypedKey::More);
        assert_eq!(typing.text, "web ");
        typing.take(&KeyEvent::from(KeyCode::Char('ä')));
        typing.take(&KeyEvent::from(KeyCode::Backspace));
        assert_eq!(typing.text, "web ");
        typing.take(&control('u'));
        assert_eq!(typing.text, "");
        assert_eq!(typing.take(&KeyEvent::from(KeyCode::Esc)), TypedKey::Dropped);
    }
}
