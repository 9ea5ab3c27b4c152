//! Runs scripts piece by piece: calls what a statement asks for, reports errors, and decides
//! whether the script continues.
//!
//! What commands do is in `commands.rs`, how answers are printed in `printing.rs`.

mod commands;
mod copying;
mod printing;

use crate::bad_command::BadCommand;
use crate::command::Expanded;
use crate::lexer::{self, Token};
use crate::names::Names;
use crate::options::{ConnectionOptions, Format};
use crate::output::{self, Output};
use crate::render::{self, Look};
use crate::report::{self, Asked};
use crate::script::{Item, Piece, ScriptReader};
use crate::session::{Failure, Session, text};
use crate::style::Style;
use crate::{arguments, source};
use ferrite_client::OwnedResponse;
use ferrite_value::OwnedValue;
use std::cell::RefCell;
use std::io::{self, BufRead, Write};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

/// What becomes of the script after one of its pieces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flow {
    Go,
    /// Something failed, and has been reported.
    Failed,
    Quit,
}

/// How the shell was asked to behave.
#[derive(Clone, Debug)]
pub struct Settings {
    pub look: Look,
    pub expanded: Expanded,
    pub timing: bool,
    /// Errors do not end a script.
    pub go_on: bool,
    /// For errors, which go to standard error.
    pub error_style: Style,
}

pub struct Shell {
    session: Session,
    connection: ConnectionOptions,
    settings: Settings,
    out: Output,
    /// Shared with the prompt's completion.
    pub names: Rc<RefCell<Names>>,
    names_fresh: bool,
    last: Option<String>,
    includes: usize,
    /// Whether anything has failed so far.
    pub failed: bool,
    /// For `\s` and `recall`; the prompt keeps them.
    pub history: Vec<String>,
    /// What the next prompt begins with.
    pub recalled: Option<String>,
}

/// What a piece may come to before it is reported.
enum Trouble {
    Bad(BadCommand),
    Call(Failure),
    Output(io::Error),
    /// Reported already.
    Said,
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Trouble {
        Trouble::Call(failure)
    }
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Trouble {
        Trouble::Output(error)
    }
}

impl From<BadCommand> for Trouble {
    fn from(bad: BadCommand) -> Trouble {
        Trouble::Bad(bad)
    }
}

type Done = Result<Flow, Trouble>;

/// How a statement reached the server: what the timing line asks about.
enum Way<'s> {
    AdHoc(&'s str),
    Procedure(&'s str),
    Other,
}

impl Shell {
    pub fn new(session: Session, connection: ConnectionOptions, settings: Settings) -> Shell {
        let out = Output::new(session.interrupts().clone());
        Shell {
            session,
            connection,
            settings,
            out,
            names: Rc::default(),
            names_fresh: false,
            last: None,
            includes: 0,
            failed: false,
            history: Vec::new(),
            recalled: None,
        }
    }

    pub fn session(&mut self) -> &mut Session {
        &mut self.session
    }

    /// Runs a script to its end, or to its first error. `source` is what errors call it.
    pub fn run_script(&mut self, reader: impl BufRead, source: Option<&str>) -> Flow {
        let mut reader = ScriptReader::new(reader);
        let mut failed = false;
        loop {
            let piece = match reader.next_piece() {
                Ok(Some(piece)) => piece,
                Ok(None) => return if failed { Flow::Failed } else { Flow::Go },
                Err(error) => {
                    self.complain(&format!("cannot read {}: {error}", source.unwrap_or("the statements")), None);
                    self.failed = true;
                    return Flow::Failed;
                }
            };
            match self.run_piece(&piece, source, &mut reader) {
                Flow::Go => {}
                Flow::Failed if self.settings.go_on => failed = true,
                end => return end,
            }
        }
    }

    /// Runs one piece and reports what goes wrong with it.
    pub fn run_piece(&mut self, piece: &Piece, source: Option<&str>, rest: &mut ScriptReader<impl BufRead>) -> Flow {
        let (statement, done) = match &piece.item {
            Item::Statement(statement) => (statement.as_str(), self.statement(statement)),
            Item::Batch(batch) => (batch.as_str(), self.call("@AdHoc", &[text(batch)], Way::Other)),
            Item::Command(line) => ("", self.command(line, rest)),
        };
        let done = done.and_then(|flow| self.out.flush().map(|()| flow).map_err(Trouble::from));
        let place = source.map(|source| format!("{source}:{}", piece.line));
        let flow = self.outcome(done, statement, place);
        self.failed |= flow == Flow::Failed;
        flow
    }

    /// What came of a piece, told to the user where it is an error.
    fn outcome(&mut self, done: Done, statement: &str, place: Option<String>) -> Flow {
        match done {
            Ok(flow) => flow,
            Err(Trouble::Said) => Flow::Failed,
            Err(Trouble::Output(error)) if output::is_closed(&error) => Flow::Quit,
            Err(Trouble::Output(_)) if self.session.interrupts().seen() => {
                self.session.interrupts().forget();
                ferrite_io::errln!("");
                Flow::Failed
            }
            Err(Trouble::Output(error)) => {
                self.complain(&format!("cannot write the result: {error}"), None);
                Flow::Failed
            }
            Err(Trouble::Bad(bad)) => {
                let place = place.map(|place| format!("{place}: ")).unwrap_or_default();
                ferrite_io::err!("{place}");
                self.complain(&bad.message, bad.hint.as_deref());
                Flow::Failed
            }
            Err(Trouble::Call(failure)) => {
                self.report(&failure, statement, place.as_deref());
                Flow::Failed
            }
        }
    }

    fn complain(&self, message: &str, hint: Option<&str>) {
        let style = self.settings.error_style;
        ferrite_io::errln!("{} {message}", style.error("error:"));
        if let Some(hint) = hint {
            ferrite_io::errln!("{} {hint}", style.hint("hint:"));
        }
    }

    fn report(&mut self, failure: &Failure, statement: &str, place: Option<&str>) {
        // A name may have come or gone by somebody else's doing.
        if matches!(failure, Failure::Call(error) if error.response().is_some()) {
            self.refresh_names();
        }
        let asked = Asked { statement, code: failure.code(), place };
        if self.settings.look.format == Format::Json {
            ferrite_io::err!("{}", report::report_json(&failure.to_string(), &asked, failure.outcome()));
            return;
        }
        let names = self.names.borrow();
        ferrite_io::err!("{}", report::report(&failure.to_string(), &asked, Some(&names), self.settings.error_style));
    }

    /// Reads the catalog again if it may have changed. Without an answer the old names stay.
    pub fn refresh_names(&mut self) {
        if !self.names_fresh
            && let Ok(names) = Names::read(&mut self.session)
        {
            *self.names.borrow_mut() = names;
            self.names_fresh = true;
        }
    }

    fn fresh_names(&mut self) -> Result<Rc<RefCell<Names>>, Trouble> {
        *self.names.borrow_mut() = Names::read(&mut self.session)?;
        self.names_fresh = true;
        Ok(Rc::clone(&self.names))
    }

    fn statement(&mut self, statement: &str) -> Done {
        if statement.is_empty() {
            return Ok(Flow::Go);
        }
        let tokens: Vec<Token> = lexer::tokens(statement).filter(|token| !token.is_filler()).take(2).collect();
        let word = tokens.first().map(|token| token.text(statement).to_ascii_uppercase()).unwrap_or_default();
        let done = match word.as_str() {
            "EXEC" | "EXECUTE" => {
                let (procedure, values) = arguments::parse(statement).map_err(BadCommand::new)?;
                self.call(&procedure, &values, Way::Procedure(&procedure))
            }
            "EXPLAIN" if !tokens.get(1).is_some_and(|second| second.is_word(statement, "ANALYZE")) => {
                let explained = statement[tokens[0].end..].trim_start();
                self.call("@Explain", &[text(explained)], Way::Other)
            }
            "EXPLAINJSON" | "QUERYSTATS" => {
                let procedure = if word == "QUERYSTATS" { "@QueryStats" } else { "@ExplainJSON" };
                self.call(procedure, &[text(statement[tokens[0].end..].trim_start())], Way::Other)
            }
            _ => self.call("@AdHoc", &[text(statement)], Way::AdHoc(statement)),
        };
        self.last = Some(statement.to_owned());
        done
    }

    /// Calls, prints, and says how long it took.
    fn call(&mut self, procedure: &str, values: &[OwnedValue], way: Way<'_>) -> Done {
        let answer = self.session.call(procedure, values)?;
        let changes_schema = match way {
            Way::AdHoc(statement) => is_schema_change(statement),
            _ => matches!(procedure, "@UpdateClasses" | "@SwapTables" | "@AdHoc"),
        };
        if changes_schema {
            self.names_fresh = false;
        }
        self.warn(procedure, &answer.response)?;
        let timing = if self.settings.timing { Some(self.timing(answer.elapsed, &way)) } else { None };
        self.print(&answer.response, timing)?;
        Ok(Flow::Go)
    }

    /// What an answer says beside its tables. Of statements that is what was read and does nothing.
    fn warn(&mut self, procedure: &str, response: &OwnedResponse) -> io::Result<()> {
        let Some(words) = response.status_text.as_deref().filter(|words| !words.is_empty()) else { return Ok(()) };
        let is_warning = matches!(procedure, "@AdHoc" | "@UpdateClasses" | "@SwapTables" | "@UpdateLogging");
        if !is_warning {
            return words.lines().try_for_each(|line| self.remark(&render::printable(line)));
        }
        for line in words.lines() {
            ferrite_io::errln!("{} {}", self.settings.error_style.hint("warning:"), render::printable(line));
        }
        Ok(())
    }

    /// `1.234 ms, single-partition`.
    fn timing(&mut self, elapsed: Duration, way: &Way<'_>) -> String {
        let milliseconds = elapsed.as_secs_f64() * 1e3;
        let mut timing = if milliseconds < 1000.0 {
            format!("{milliseconds:.3} ms")
        } else {
            format!("{:.3} s", milliseconds / 1e3)
        };
        let plan = match way {
            Way::AdHoc(statement) if has_plan(statement) => self.first_plan("@Explain", statement),
            Way::Procedure(name) if !name.starts_with('@') => self.first_plan("@ExplainProc", name),
            _ => None,
        };
        let reach = plan.as_deref().and_then(|plan| {
            ["single-partition", "multi-partition"].into_iter().find(|reach| plan.trim_start().starts_with(reach))
        });
        if let Some(reach) = reach {
            timing.push_str(", ");
            timing.push_str(reach);
        }
        timing
    }

    fn first_plan(&mut self, procedure: &str, about: &str) -> Option<String> {
        let response = self.session.ask(procedure, &[text(about)]).ok()?;
        let table = response.tables.first()?;
        match table.rows.first()?.get(table.column_index("EXECUTION_PLAN")?)? {
            OwnedValue::Text(plan) => Some(plan.to_string()),
            _ => None,
        }
    }
}

fn first_word(statement: &str) -> String {
    let first = lexer::tokens(statement).find(|token| !token.is_filler());
    first.map(|token| token.text(statement).to_ascii_uppercase()).unwrap_or_default()
}

fn is_schema_change(statement: &str) -> bool {
    ["CREATE", "DROP", "ALTER", "PARTITION", "REPLICATE", "DR"].contains(&first_word(statement).as_str())
}

fn has_plan(statement: &str) -> bool {
    let words = ["SELECT", "INSERT", "UPSERT", "UPDATE", "DELETE", "WITH", "TRUNCATE", "(", "VALUES", "MIGRATE"];
    words.contains(&first_word(statement).as_str())
}

fn cannot_read(path: &str, error: &io::Error) -> BadCommand {
    BadCommand::new(source::cannot_read(Path::new(path), error))
}
