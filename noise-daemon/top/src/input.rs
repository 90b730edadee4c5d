//! PURE: what the keys mean.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::screens::{SCREENS, Screen};

/// Where to go in a table, a page or the help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Motion {
    Up,
    Down,
    /// As much as is seen up.
    PageUp,
    /// As much as is seen down.
    PageDown,
    First,
    Last,
}

/// What a key does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyCommand {
    Quit,
    /// To go back to where one came from.
    Back,
    /// To show the keys and the columns.
    Help,
    Next,
    Previous,
    Show(Screen),
    Move(Motion),
    /// Columns further to the right, or to the left.
    Pan(i8),
    /// What is behind the selected row.
    Open,
    /// To type a filter.
    Filter,
    /// To sort by the next column.
    SortNext,
    /// To sort by the column before.
    SortPrevious,
    /// To sort the other way round.
    SortReverse,
    /// To hold what is shown, or to go on.
    Pause,
    Slower,
    Faster,
    /// Sums and rates over another time.
    Span,
    /// Sums and rates from now on.
    Reset,
    /// What is shown, as a file.
    Export,
    /// To record, or to end it.
    Record,
    /// Frames further, or back, in a replay.
    Step(i64),
    /// The begin of a replay.
    Begin,
    /// The end of a replay.
    End,
    /// To type a time to go to in a replay.
    Time,
    /// To draw everything anew.
    Redraw,
    /// To leave the terminal to the shell for a while.
    Suspend,
}

/// More frames than a recording has.
const ALL: i64 = 1 << 40;

impl KeyCommand {
    /// How many frames of a replay it goes, if it does.
    pub fn steps(self) -> Option<i64> {
        match self {
            Self::Step(steps) => Some(steps),
            Self::Begin => Some(-ALL),
            Self::End => Some(ALL),
            _ => None,
        }
    }
}

/// What a key means where nothing is typed.
pub fn command(key: &KeyEvent, replay: bool) -> Option<KeyCommand> {
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return match key.code {
            KeyCode::Char('c') => Some(KeyCommand::Quit),
            KeyCode::Char('l') => Some(KeyCommand::Redraw),
            KeyCode::Char('z') => Some(KeyCommand::Suspend),
            KeyCode::Char('f') => Some(KeyCommand::Move(Motion::PageDown)),
            KeyCode::Char('b') => Some(KeyCommand::Move(Motion::PageUp)),
            _ => None,
        };
    }
    let far = if key.modifiers.contains(KeyModifiers::SHIFT) { 10 } else { 1 };
    Some(match key.code {
        KeyCode::Char('q') => KeyCommand::Quit,
        KeyCode::Esc | KeyCode::Backspace => KeyCommand::Back,
        KeyCode::Char('?' | 'h') | KeyCode::F(1) => KeyCommand::Help,
        KeyCode::Tab => KeyCommand::Next,
        KeyCode::BackTab => KeyCommand::Previous,
        KeyCode::Char(digit @ '1'..='8') => {
            let index = (digit as usize).checked_sub('1' as usize)?;
            KeyCommand::Show(SCREENS.get(index).copied()?)
        }
        KeyCode::Left if replay => KeyCommand::Step(-far),
        KeyCode::Right if replay => KeyCommand::Step(far),
        KeyCode::Home if replay => KeyCommand::Begin,
        KeyCode::End if replay => KeyCommand::End,
        KeyCode::Char('@') if replay => KeyCommand::Time,
        KeyCode::Left | KeyCode::Char('<') => KeyCommand::Pan(-1),
        KeyCode::Right | KeyCode::Char('>') => KeyCommand::Pan(1),
        KeyCode::Up | KeyCode::Char('k') => KeyCommand::Move(Motion::Up),
        KeyCode::Down | KeyCode::Char('j') => KeyCommand::Move(Motion::Down),
        KeyCode::PageUp => KeyCommand::Move(Motion::PageUp),
        KeyCode::PageDown => KeyCommand::Move(Motion::PageDown),
        KeyCode::Home | KeyCode::Char('g') => KeyCommand::Move(Motion::First),
        KeyCode::End | KeyCode::Char('G') => KeyCommand::Move(Motion::Last),
        KeyCode::Enter => KeyCommand::Open,
        KeyCode::Char('/') => KeyCommand::Filter,
        KeyCode::Char('s') => KeyCommand::SortNext,
        KeyCode::Char('a') => KeyCommand::SortPrevious,
        KeyCode::Char('S') => KeyCommand::SortReverse,
        KeyCode::Char(' ' | 'p') => KeyCommand::Pause,
        KeyCode::Char('+' | '=') => KeyCommand::Slower,
        KeyCode::Char('-') => KeyCommand::Faster,
        KeyCode::Char('t') => KeyCommand::Span,
        KeyCode::Char('r') => KeyCommand::Reset,
        KeyCode::Char('e') => KeyCommand::Export,
        KeyCode::Char('w') => KeyCommand::Record,
        _ => return None,
    })
}

/// The keys for the help: which, and what they do.
pub const KEYS: [(&str, &str); 16] = [
    ("Tab 1-8", "screens; Shift-Tab goes back"),
    ("↑ ↓ j k", "a row up, down; PgUp PgDn: as many as are seen"),
    ("Home End g G", "the first, the last row"),
    (
        "Enter",
        "what is behind the row: heatmap, causes, remedy; there: why, by the victim's last seconds",
    ),
    ("Esc", "back: from a page, the help, a filter"),
    ("/", "filter: rows with all words, none behind a !; Enter keeps, Esc drops it"),
    ("s a", "sort by the next column, by the one before"),
    ("S", "sort the other way round"),
    ("< >", "columns further to the left, to the right"),
    ("Space p", "hold what is shown; frames go on being taken and recorded"),
    ("+ -", "longer, shorter interval, 0.1 s to 60 s"),
    ("t", "rates and sums over the last 1, 5, 15, 60, 120 seconds; ends a reset"),
    ("r", "reset the counters: rates and sums from now on"),
    ("e", "write what is shown as JSON into the current directory"),
    ("w", "record the frames, or end it"),
    ("? h q", "this help; quit"),
];

/// The keys that a replay has besides.
pub const REPLAY_KEYS: [(&str, &str); 3] = [
    ("← →", "a frame back, on; with Shift ten"),
    ("Home End", "the begin, the end of the recording (rows: g G)"),
    ("@", "go to a time: 12:34, 12:34:56, 2026-01-31 12:34:56; +1m: ahead"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrows_seek_in_a_replay_and_pan_elsewhere() {
        let right = KeyEvent::new(KeyCode::Right, KeyModifiers::SHIFT);
        assert_eq!(command(&right, true), Some(KeyCommand::Step(10)));
        assert_eq!(command(&right, false), Some(KeyCommand::Pan(1)));
        let home = KeyEvent::from(KeyCode::Home);
        assert_eq!(command(&home, false), Some(KeyCommand::Move(Motion::First)));
        assert_eq!(command(&home, true), Some(KeyCommand::Begin));
    }

    #[test]
    fn control_c_quits_as_in_raw_mode_it_is_no_signal() {
        let key = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(command(&key, false), Some(KeyCommand::Quit));
    }
}
