//! What is wrong with a command that was typed.

/// A command line that makes no sense, and what to do about it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadCommand {
    pub message: String,
    pub hint: Option<String>,
}

impl BadCommand {
    pub fn new(message: impl Into<String>) -> BadCommand {
        BadCommand { message: message.into(), hint: None }
    }

    pub fn with_hint(mut self, hint: impl Into<String>) -> BadCommand {
        self.hint = Some(hint.into());
        self
    }
}
