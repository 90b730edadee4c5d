//! IO: what the terminal behind a stream can do: the one place that decides where escape sequences may go.

#![allow(clippy::disallowed_methods, reason = "it asks what they are, and writes nothing")]

use std::ffi::OsStr;
use std::io::{self, IsTerminal};

/// How many columns the terminal behind standard output has; `None` where that is none, or does not say.
pub fn output_columns() -> Option<usize> {
    terminal_size::terminal_size_of(io::stdout()).map(|(columns, _)| usize::from(columns.0))
}

/// What a stream leads to. The default is a file or a pipe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terminal {
    /// It is a terminal.
    pub is_there: bool,
    /// It obeys sequences that move the cursor and clear lines.
    pub can_redraw: bool,
    /// It shows colours, and the user has nothing against them.
    pub has_colours: bool,
}

impl Terminal {
    pub fn of_output() -> Self {
        Self::of(&io::stdout())
    }

    pub fn of_errors() -> Self {
        Self::of(&io::stderr())
    }

    /// For a view that keys control: behind standard output, while standard input is a terminal too.
    pub fn of_view() -> Self {
        if io::stdin().is_terminal() { Self::of_output() } else { Self::default() }
    }

    fn of(stream: &impl IsTerminal) -> Self {
        let [term, no_color] = ["TERM", "NO_COLOR"].map(std::env::var_os);
        Self::decide(stream.is_terminal(), term.as_deref(), no_color.as_deref())
    }

    /// By `TERM` and `NO_COLOR`; an empty variable counts as none.
    fn decide(is_there: bool, term: Option<&OsStr>, no_color: Option<&OsStr>) -> Self {
        let is_said = |value: &&OsStr| !value.is_empty();
        let can_redraw = is_there && term.filter(is_said).is_some_and(|term| term != "dumb");
        let has_colours = can_redraw && no_color.filter(is_said).is_none();
        Self { is_there, can_redraw, has_colours }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_go_where_they_are_obeyed() {
        let of = |is_there, term: Option<&str>, no_color: Option<&str>| {
            let decided =
                Terminal::decide(is_there, term.map(OsStr::new), no_color.map(OsStr::new));
            assert_eq!(decided.is_there, is_there);
            (decided.can_redraw, decided.has_colours)
        };
        assert_eq!(of(true, Some("xterm-256color"), None), (true, true));
        assert_eq!(of(true, Some("xterm"), Some("")), (true, true));
        assert_eq!(of(true, Some("xterm"), Some("1")), (true, false));
        for term in [None, Some(""), Some("dumb")] {
            assert_eq!(of(true, term, None), (false, false), "{term:?}");
        }
        assert_eq!(of(false, Some("xterm"), None), (false, false));
    }
}
