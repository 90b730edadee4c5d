//! PURE: colours, or none.

use ratatui::style::{Color, Modifier, Style};

use crate::Tone;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Theme {
    /// Whether there are colours; modifiers there are always.
    pub colour: bool,
}

impl Theme {
    fn coloured(self, colour: Color) -> Style {
        if self.colour { Style::new().fg(colour) } else { Style::new() }
    }

    /// Of rows, cells and lines.
    pub fn tone(self, tone: Tone) -> Style {
        match tone {
            Tone::Plain => Style::new(),
            Tone::Dim => Style::new().add_modifier(Modifier::DIM),
            Tone::Strong => self.coloured(Color::Yellow).add_modifier(Modifier::BOLD),
            Tone::Alarm if self.colour => self.coloured(Color::Red).add_modifier(Modifier::BOLD),
            Tone::Alarm => Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED),
        }
    }

    /// A mark that must not be overlooked.
    pub fn mark(self, tone: Tone) -> Style {
        self.tone(tone).add_modifier(Modifier::REVERSED)
    }

    pub fn title(self) -> Style {
        self.coloured(Color::Cyan).add_modifier(Modifier::BOLD)
    }

    pub fn heading(self) -> Style {
        Style::new().add_modifier(Modifier::UNDERLINED | Modifier::BOLD)
    }

    /// Of what is chosen, on top of its own.
    pub fn selected(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    pub fn key(self) -> Style {
        self.coloured(Color::Cyan).add_modifier(Modifier::BOLD)
    }

    /// Of bars and lines over time.
    pub fn bar(self) -> Style {
        self.coloured(Color::Green)
    }

    /// A count's block in a heatmap, by its heat from 0 to 1.
    pub fn heat(self, heat: f64) -> (char, Style) {
        const STEPS: [(char, Color); 7] = [
            ('░', Color::Blue),
            ('▒', Color::Blue),
            ('▒', Color::Cyan),
            ('▓', Color::Green),
            ('▓', Color::Yellow),
            ('█', Color::LightRed),
            ('█', Color::Red),
        ];
        let step = ((heat * STEPS.len() as f64) as usize).min(STEPS.len() - 1);
        let (block, colour) = STEPS[step];
        (block, self.coloured(colour))
    }
}
