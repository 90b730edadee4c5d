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
pub enum Command {
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

impl Command {
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
pub fn command(key: &KeyEvent, replay: bool) -> Option<Command> {
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return match key.code {
            KeyCode::Char('c') => Some(Command::Quit),
            KeyCode::Char('l') => Some(Command::Redraw),
            KeyCode::Char('z') => Some(Command::Suspend),
            KeyCode::Char('f') => Some(Command::Move(Motion::PageDown)),
            KeyCode::Char('b') => Some(Command::Move(Motion::PageUp)),
            _ => None,
        };
    }
    let far = if key.modifiers.contains(KeyModifiers::SHIFT) { 10 } else { 1 };
    Some(match key.code {
        KeyCode::Char('q') => Command::Quit,
        KeyCode::Esc | KeyCode::Backspace => Command::Back,
        KeyCode::Char('?' | 'h') | KeyCode::F(1) => Command::Help,
        KeyCode::Tab => Command::Next,
        KeyCode::BackTab => Command::Previous,
        KeyCode::Char(digit @ '1'..='8') => {
            let index = (digit as usize).checked_sub('1' as usize)?;
            Command::Show(SCREENS.get(index).copied()?)
        }
        KeyCode::Left if replay => Command::Step(-far),
        KeyCode::Right if replay => Command::Step(far),
        KeyCode::Home if replay => Command::Begin,
        KeyCode::End if replay => Command::End,
        KeyCode::Char('@') if replay => Command::Time,
        KeyCode::Left | KeyCode::Char('<') => Command::Pan(-1),
        KeyCode::Right | KeyCode::Char('>') => Command::Pan(1),
        KeyCode::Up | KeyCode::Char('k') => Command::Move(Motion::Up),
        KeyCode::Down | KeyCode::Char('j') => Command::Move(Motion::Down),
        KeyCode::PageUp => Command::Move(Motion::PageUp),
        KeyCode::PageDown => Command::Move(Motion::PageDown),
        KeyCode::Home | KeyCode::Char('g') => Command::Move(Motion::First),
        KeyCode::End | KeyCode::Char('G') => Command::Move(Motion::Last),
        KeyCode::Enter => Command::Open,
        KeyCode::Char('/') => Command::Filter,
        KeyCode::Char('s') => Command::SortNext,
        KeyCode::Char('a') => Command::SortPrevious,
        KeyCode::Char('S') => Command::SortReverse,
        KeyCode::Char(' ' | 'p') => Command::Pause,
        KeyCode::Char('+' | '=') => Command::Slower,
        KeyCode::Char('-') => Command::Faster,
        KeyCode::Char('t') => Command::Span,
        KeyCode::Char('r') => Command::Reset,
        KeyCode::Char('e') => Command::Export,
        KeyCode::Char('w') => Command::Record,
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
        assert_eq!(command(&right, true), Some(Command::Step(10)));
        assert_eq!(command(&right, false), Some(Command::Pan(1)));
        let home = KeyEvent::from(KeyCode::Home);
        assert_eq!(command(&home, false), Some(Command::Move(Motion::First)));
        assert_eq!(command(&home, true), Some(Command::Begin));
    }

    #[test]
    fn control_c_quits_as_in_raw_mode_it_is_no_signal() {
        let key = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(command(&key, false), Some(Command::Quit));
    }
}
