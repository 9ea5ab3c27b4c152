//! The prompt: line editing with history, completion, colours, and lines that go on until a
//! statement ends.

use crate::complete::{self, KEYWORDS};
use crate::lexer::{self, Kind};
use crate::names::Names;
use crate::script;
use crate::style::Style;
use rustyline::completion::{Completer, FilenameCompleter};
use rustyline::error::ReadlineError;
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::Hinter;
use rustyline::history::{FileHistory, History, SearchDirection};
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{CompletionType, Config, Context, Helper};
use std::borrow::Cow;
use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;

/// Statements that the history file keeps.
const HISTORY_MAX: usize = 10_000;

/// What was typed.
pub enum Typed {
    Text(String),
    /// Ctrl-C: what stood there is dropped.
    Cancelled,
    /// Ctrl-D.
    End,
}

pub struct Editor {
    line: rustyline::Editor<Assistant, FileHistory>,
    history_path: Option<PathBuf>,
}

impl Editor {
    /// `names` is shared with the shell, which keeps it up to date.
    pub fn new(names: Rc<RefCell<Names>>, style: Style) -> rustyline::Result<Editor> {
        let config = Config::builder()
            .max_history_size(HISTORY_MAX)?
            .history_ignore_dups(true)?
            .history_ignore_space(true)
            .completion_type(CompletionType::List)
            .completion_show_all_if_ambiguous(true)
            .bracketed_paste(true)
            .build();
        let mut line = rustyline::Editor::with_config(config)?;
        line.set_helper(Some(Assistant { names, style, files: FilenameCompleter::new() }));
        let history_path = history_path();
        if let Some(path) = &history_path {
            // The first time there is none.
            let _ = line.load_history(path);
        }
        Ok(Editor { line, history_path })
    }

    pub fn read(&mut self, prompt: &str) -> rustyline::Result<Typed> {
        match self.line.readline(prompt) {
            Ok(text) => {
                if !text.trim().is_empty() {
                    self.line.add_history_entry(text.trim_end())?;
                    self.save();
                }
                Ok(Typed::Text(text))
            }
            Err(ReadlineError::Interrupted) => Ok(Typed::Cancelled),
            Err(ReadlineError::Eof) => Ok(Typed::End),
            Err(error) => Err(error),
        }
    }

    /// The same, beginning with a text that can be changed.
    pub fn read_again(&mut self, prompt: &str, text: &str) -> rustyline::Result<Typed> {
        match self.line.readline_with_initial(prompt, (text, "")) {
            Ok(text) => {
                self.line.add_history_entry(text.trim_end())?;
                self.save();
                Ok(Typed::Text(text))
            }
            Err(ReadlineError::Interrupted) => Ok(Typed::Cancelled),
            Err(ReadlineError::Eof) => Ok(Typed::End),
            Err(error) => Err(error),
        }
    }

    /// The statements typed so far, numbered from 1.
    pub fn history(&self) -> Vec<String> {
        let history = self.line.history();
        let get = |index| history.get(index, SearchDirection::Forward).ok().flatten();
        (0..history.len()).filter_map(get).map(|found| found.entry.into_owned()).collect()
    }

    fn save(&mut self) {
        // Another shell may have written meanwhile: appending keeps both. A full disk must not end
        // the session.
        if let Some(path) = &self.history_path {
            let _ = self.line.append_history(path);
        }
    }
}

/// `ferrite/sql_history` in the user's state directory, which is made if need be and is nobody
/// else's to read.
fn history_path() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    let directory = state.join("ferrite");
    std::fs::create_dir_all(&directory).ok()?;
    use std::os::unix::fs::PermissionsExt;
    let _ = std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(0o700));
    Some(directory.join("sql_history"))
}

/// What the line editor asks while something is typed.
struct Assistant {
    names: Rc<RefCell<Names>>,
    style: Style,
    files: FilenameCompleter,
}

impl Helper for Assistant {}

impl Hinter for Assistant {
    type Hint = String;
}

impl Completer for Assistant {
    type Candidate = String;

    fn complete(&self, line: &str, position: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        match complete::complete(line, position, &self.names.borrow()) {
            Some(found) => Ok((found.start, found.candidates)),
            None => {
                let (start, pairs) = self.files.complete_path(line, position)?;
                Ok((start, pairs.into_iter().map(|pair| pair.replacement).collect()))
            }
        }
    }
}

impl Validator for Assistant {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let open = script::is_open(context.input());
        Ok(if open { ValidationResult::Incomplete } else { ValidationResult::Valid(None) })
    }
}

impl Highlighter for Assistant {
    fn highlight<'l>(&self, line: &'l str, _: usize) -> Cow<'l, str> {
        if self.style.colours { Cow::Owned(highlighted(line, self.style)) } else { Cow::Borrowed(line) }
    }

    fn highlight_prompt<'b, 's: 'b, 'p: 'b>(&'s self, prompt: &'p str, _: bool) -> Cow<'b, str> {
        Cow::Owned(self.style.heading(prompt))
    }

    fn highlight_char(&self, _: &str, _: usize, kind: CmdKind) -> bool {
        self.style.colours && kind != CmdKind::MoveCursor
    }
}

/// A statement in colours.
pub fn highlighted(text: &str, style: Style) -> String {
    if text.trim_start().starts_with('\\') {
        let end = text
            .trim_start()
            .find(char::is_whitespace)
            .map_or(text.len(), |at| text.len() - text.trim_start().len() + at);
        return format!("{}{}", style.command(&text[..end]), &text[end..]);
    }
    let mut shown = String::with_capacity(text.len() * 2);
    let mut first = true;
    for token in lexer::tokens(text) {
        let own = token.text(text);
        let is_first = first && !token.is_filler();
        first &= token.is_filler();
        match token.kind {
            Kind::Word if KEYWORDS.binary_search(&own.to_ascii_uppercase().as_str()).is_ok() => {
                shown.push_str(&style.keyword(own));
            }
            Kind::Word if is_first && script::LINE_WORDS.contains(&own.to_ascii_lowercase().as_str()) => {
                shown.push_str(&style.command(own));
            }
            Kind::Text => shown.push_str(&style.text(own)),
            Kind::Number => shown.push_str(&style.number(own)),
            Kind::Comment => shown.push_str(&style.faint(own)),
            _ => shown.push_str(own),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keywords_are_in_order_for_the_search() {
        assert!(KEYWORDS.is_sorted());
    }

    #[test]
    fn colours_change_nothing_but_the_colour() {
        let style = Style { colours: true };
        for text in ["select 'a' -- b", "\\d votes", "show tables", "exec p 1.5, x'00'", ""] {
            let mut plain = String::new();
            let mut rest = highlighted(text, style);
            while let Some(at) = rest.find('\x1b') {
                plain.push_str(&rest[..at]);
                rest = rest[at..].split_once('m').expect("an escape ends with m").1.to_owned();
            }
            assert_eq!(plain + &rest, text);
        }
        assert_eq!(highlighted("select 1", Style::PLAIN), "select 1");
    }
}
