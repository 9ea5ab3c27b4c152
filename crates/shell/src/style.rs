//! Colours, where they are wanted, and whether they are.

use crate::options::Colour;
use std::io::IsTerminal;

/// How text is marked for the eye. Without colours all of it is plain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Style {
    pub colours: bool,
}

impl Style {
    pub const PLAIN: Style = Style { colours: false };

    pub fn choose(wanted: Colour, terminal: &impl IsTerminal) -> Style {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|value| value == "dumb");
        Style {
            colours: match wanted {
                Colour::Always => true,
                Colour::Never => false,
                Colour::Auto => terminal.is_terminal() && !refused && !dumb,
            },
        }
    }

    fn wrap(self, code: &str, text: &str) -> String {
        if self.colours { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    pub fn error(self, text: &str) -> String {
        self.wrap("1;31", text)
    }

    pub fn hint(self, text: &str) -> String {
        self.wrap("36", text)
    }

    pub fn faint(self, text: &str) -> String {
        self.wrap("2", text)
    }

    pub fn heading(self, text: &str) -> String {
        self.wrap("1", text)
    }

    pub fn keyword(self, text: &str) -> String {
        self.wrap("34", text)
    }

    pub fn text(self, text: &str) -> String {
        self.wrap("32", text)
    }

    pub fn number(self, text: &str) -> String {
        self.wrap("35", text)
    }

    pub fn command(self, text: &str) -> String {
        self.wrap("33", text)
    }
}
