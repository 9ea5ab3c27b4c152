//! What a statement or command does: calls, prints, and decides whether to go on.

mod copying;

use crate::bad_command::BadCommand;
use crate::command::{self, Command, Expanded};
use crate::lexer::{self, Token};
use crate::names::{Names, TableKind};
use crate::options::{ConnectionOptions, Format};
use crate::output::{self, Output};
use crate::render::{self, Look};
use crate::report::{self, Asked};
use crate::script::{Item, Piece, ScriptReader};
use crate::session::{Failure, Session, text};
use crate::style::Style;
use crate::{arguments, describe, source, suggest};
use ferrite_client::OwnedResponse;
use ferrite_value::{OwnedValue, SqlType, temporal::DisplayTimestamp};
use ferrite_wire::OwnedTable;
use ferrite_wire::status::APPLICATION_STATUS_NOT_SET;
use std::cell::RefCell;
use std::fmt::Write as _;
use std::io::{self, BufRead, Write};
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Files that may include each other before it must be a circle.
const INCLUDES_MAX: usize = 32;

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

    fn print(&mut self, response: &OwnedResponse, timing: Option<String>) -> Result<(), Trouble> {
        let several = response.tables.len() > 1;
        let mut rows = 0;
        for (number, table) in response.tables.iter().enumerate() {
            // Counts of changed rows stand below each other.
            if number > 0 && (self.settings.look.format != Format::Aligned || single_number(table).is_none()) {
                self.separate()?;
            }
            rows += self.print_answer(table, if several { None } else { timing.as_deref() })?;
        }
        if response.tables.len() != 1
            && let Some(timing) = &timing
        {
            let plural = if response.tables.len() == 1 { "" } else { "s" };
            self.remark(&format!("({} table{plural}, {}, {timing})", response.tables.len(), rows_text(rows)))?;
        }
        if response.application_status != APPLICATION_STATUS_NOT_SET || response.application_status_text.is_some() {
            let words = response.application_status_text.as_deref().unwrap_or_default();
            self.remark(
                format!("application status {}: {words}", response.application_status).trim_end_matches([':', ' ']),
            )?;
        }
        Ok(())
    }

    fn separate(&mut self) -> io::Result<()> {
        writeln!(self.out)
    }

    /// A line about results, which only people want.
    fn remark(&mut self, line: &str) -> io::Result<()> {
        if self.settings.look.format != Format::Aligned {
            return Ok(());
        }
        let style = self.look().style;
        writeln!(self.out, "{}", style.faint(line))
    }

    /// How results look where they go now.
    fn look(&self) -> Look {
        let style = if self.out.is_file() { Style::PLAIN } else { self.settings.look.style };
        Look { style, ..self.settings.look.clone() }
    }

    /// The number of rows that the table stands for.
    fn print_answer(&mut self, table: &OwnedTable, timing: Option<&str>) -> Result<usize, Trouble> {
        let tail = timing.map(|timing| format!(", {timing}")).unwrap_or_default();
        let for_people = self.settings.look.format == Format::Aligned;
        if let Some((name, number)) = single_number(table)
            && (name == "modified_tuples" || (for_people && (name == "STATUS" || name.is_empty())))
        {
            let (words, rows) = match name {
                "modified_tuples" => (format!("{} changed", rows_text(number as usize)), number as usize),
                "STATUS" if number == 0 => ("done".to_owned(), 0),
                "STATUS" => (format!("status {number}"), 0),
                _ => (format!("returned {number}"), 0),
            };
            self.remark(&format!("({words}{tail})"))?;
            return Ok(rows);
        }
        if for_people && table.columns.last().is_some_and(|(name, _)| name == "EXECUTION_PLAN") {
            table.rows.iter().try_for_each(|row| self.print_plan(row))?;
            return Ok(0);
        }
        self.print_table(table)?;
        self.remark(&format!("({}{tail})", rows_text(table.rows.len())))?;
        Ok(table.rows.len())
    }

    /// A plan, below what it is the plan of.
    fn print_plan(&mut self, row: &[OwnedValue]) -> io::Result<()> {
        let Some((OwnedValue::Text(plan), of)) = row.split_last() else { return Ok(()) };
        let of: Vec<_> = of
            .iter()
            .filter_map(|cell| match cell {
                OwnedValue::Text(words) if !words.is_empty() => Some(render::printable(words)),
                _ => None,
            })
            .collect();
        let indent = if of.is_empty() { "" } else { "  " };
        if !of.is_empty() {
            writeln!(self.out, "{}", of.join(": "))?;
        }
        plan.trim_end().lines().try_for_each(|line| writeln!(self.out, "{indent}{}", render::printable(line)))
    }

    fn print_table(&mut self, table: &OwnedTable) -> io::Result<()> {
        let look = self.look();
        self.print_as(table, look)
    }

    /// A table of `describe`. People see nothing where there is nothing: `<null>` would look like a
    /// default that somebody chose.
    fn print_described(&mut self, table: &OwnedTable) -> io::Result<()> {
        let look = Look { null: String::new(), ..self.look() };
        self.print_as(table, look)
    }

    fn print_as(&mut self, table: &OwnedTable, mut look: Look) -> io::Result<()> {
        look.expanded = match self.settings.expanded {
            Expanded::On => true,
            Expanded::Off => false,
            Expanded::Auto => terminal_columns().is_some_and(|columns| render::aligned_width(table, &look) > columns),
        };
        render::write_table(&mut self.out, table, &look)
    }

    fn command(&mut self, line: &str, rest: &mut ScriptReader<impl BufRead>) -> Done {
        match command::parse(line)? {
            Command::Quit => return Ok(Flow::Quit),
            Command::Help(about) => self.help(about.as_deref())?,
            Command::Tables => self.list(|names| describe::tables(names, |kind| kind != TableKind::View))?,
            Command::Views => self.list(|names| describe::tables(names, |kind| kind == TableKind::View))?,
            Command::Indexes(of) => self.list(|names| describe::indexes(names, of.as_deref()))?,
            Command::Procedures => self.list(|names| describe::procedures(names, false))?,
            Command::Describe(None) => {
                self.list(|names| describe::tables(names, |_| true))?;
                self.separate()?;
                self.list(|names| describe::procedures(names, false))?;
            }
            Command::Describe(Some(name)) => return self.describe(&name),
            Command::Streams => self.list(|names| describe::tables(names, |kind| kind == TableKind::Stream))?,
            Command::Catalog(selector) => return self.call("@SystemCatalog", &[text(selector)], Way::Other),
            Command::Timing(wanted) => {
                self.settings.timing = wanted.unwrap_or(!self.settings.timing);
                self.say(&format!("timing is {}", on_off(self.settings.timing)));
            }
            Command::Expanded(wanted) => {
                let toggled = if self.settings.expanded == Expanded::On { Expanded::Off } else { Expanded::On };
                self.settings.expanded = wanted.unwrap_or(toggled);
                self.say(match self.settings.expanded {
                    Expanded::On => "one line per value",
                    Expanded::Off => "one line per row",
                    Expanded::Auto => "one line per value where rows are wider than the terminal",
                });
            }
            Command::Format(name) => match Format::from_name(&name) {
                Some(format) => self.settings.look.format = format,
                None => {
                    let bad = BadCommand::new(format!("there is no format {name}"));
                    let known = ["aligned", "csv", "json", "markdown"];
                    return Err(match suggest::nearest(&name, known.into_iter()) {
                        Some(near) => bad.with_hint(format!("did you mean {near}?")),
                        None => bad.with_hint("aligned, csv, json or markdown"),
                    }
                    .into());
                }
            },
            Command::Watch(seconds) => return self.watch(seconds),
            Command::Include(path) => return self.include(&path),
            Command::Batch(path) => {
                let batch = source::read_text(Path::new(&path)).map_err(|error| cannot_read(&path, &error))?;
                return self.call("@AdHoc", &[text(&batch)], Way::Other);
            }
            Command::Output(path) => {
                let shown = path.clone().unwrap_or_default();
                self.out
                    .redirect(path.as_deref())
                    .map_err(|error| BadCommand::new(format!("cannot write to {shown}: {error}")))?;
            }
            Command::Copy(copy) => return self.copy(copy, rest),
            Command::ExplainProcedure(name) => return self.call("@ExplainProc", &[text(&name)], Way::Other),
            Command::ExplainView(name) => return self.call("@ExplainView", &[text(&name)], Way::Other),
            Command::LoadClasses(path) => {
                let jar = std::fs::read(&path).map_err(|error| cannot_read(&path, &error))?;
                return self.call("@UpdateClasses", &[OwnedValue::Bytes(jar.into()), OwnedValue::Null], Way::Other);
            }
            Command::RemoveClasses(pattern) => {
                return self.call("@UpdateClasses", &[OwnedValue::Null, text(&pattern)], Way::Other);
            }
            Command::History => {
                let mut listed = String::new();
                for (number, statement) in self.history.iter().enumerate() {
                    writeln!(listed, "{:5}  {}", number + 1, statement.replace('\n', "\n       "))
                        .expect("writing to a String does not fail");
                }
                self.out.write_all(listed.as_bytes())?;
            }
            Command::Recall(number) => match number.checked_sub(1).and_then(|index| self.history.get(index)) {
                Some(statement) => self.recalled = Some(statement.clone()),
                None => {
                    return Err(BadCommand::new(format!("there is no statement {number}"))
                        .with_hint("\\s lists them")
                        .into());
                }
            },
            Command::Echo(line) => writeln!(self.out, "{line}")?,
            Command::EchoError(line) => ferrite_io::errln!("{line}"),
        }
        Ok(Flow::Go)
    }

    /// What a setting is now: to people only.
    fn say(&self, words: &str) {
        if self.settings.look.format == Format::Aligned {
            ferrite_io::errln!("{words}");
        }
    }

    fn list(&mut self, make: impl Fn(&Names) -> OwnedTable) -> Result<(), Trouble> {
        let names = self.fresh_names()?;
        let table = make(&names.borrow());
        self.print_described(&table)?;
        self.remark(&format!("({})", rows_text(table.rows.len())))?;
        Ok(())
    }

    fn describe(&mut self, name: &str) -> Done {
        let names = self.fresh_names()?;
        let sections = describe::describe(&names.borrow(), name).map_err(|near| {
            let bad = BadCommand::new(format!("there is no table, view or procedure {name}"));
            match near {
                Some(near) => bad.with_hint(format!("did you mean {near}?")),
                None => bad.with_hint("\\d lists what there is"),
            }
        })?;
        for (number, (heading, table)) in sections.iter().enumerate() {
            if number > 0 {
                self.separate()?;
            }
            if !heading.is_empty() {
                self.remark(heading)?;
            }
            self.print_described(table)?;
        }
        Ok(Flow::Go)
    }

    fn watch(&mut self, seconds: f64) -> Done {
        let Some(statement) = self.last.clone() else {
            return Err(BadCommand::new("there is no statement to watch yet").into());
        };
        loop {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as i64);
            let shown = DisplayTimestamp(now).to_string();
            self.remark(&format!("{} UTC, every {seconds} s", &shown[..19]))?;
            match self.statement(&statement) {
                Ok(_) => {}
                // That is how one leaves.
                Err(Trouble::Call(Failure::Interrupted | Failure::Cancelled)) => return Ok(Flow::Go),
                Err(trouble) => return Err(trouble),
            }
            self.out.flush()?;
            if self.session.pause(Duration::from_secs_f64(seconds)) {
                self.session.interrupts().forget();
                return Ok(Flow::Go);
            }
            self.separate()?;
        }
    }

    fn include(&mut self, path: &str) -> Done {
        if self.includes >= INCLUDES_MAX {
            return Err(
                BadCommand::new(format!("{path}: files include each other more than {INCLUDES_MAX} deep")).into()
            );
        }
        let reader = source::open(Path::new(path)).map_err(|error| cannot_read(path, &error))?;
        self.includes += 1;
        let flow = self.run_script(reader, Some(path));
        self.includes -= 1;
        match flow {
            Flow::Failed => Err(Trouble::Said),
            // `exit` in a file ends the program, as in sqlcmd.
            flow => Ok(flow),
        }
    }

    fn help(&mut self, about: Option<&str>) -> io::Result<()> {
        let style = self.look().style;
        let mut listed = String::new();
        let mut push = |list: &[(&str, &str, &str)]| {
            for (name, arguments, what) in list {
                let wanted =
                    about.is_none_or(|about| name.trim_start_matches('\\').starts_with(about.trim_start_matches('\\')));
                if wanted {
                    let usage = format!("{name} {arguments}");
                    let fill = " ".repeat(44usize.saturating_sub(usage.len()));
                    writeln!(listed, "  {}{fill} {what}", style.command(&usage))
                        .expect("writing to a String does not fail");
                }
            }
        };
        push(command::BACKSLASH);
        push(command::WORDS);
        writeln!(
            self.out,
            "Statements end with ; and may take several lines. Tab completes, Ctrl-C cancels, Ctrl-D leaves."
        )?;
        self.out.write_all(listed.as_bytes())
    }
}

fn cannot_read(path: &str, error: &io::Error) -> BadCommand {
    BadCommand::new(source::cannot_read(Path::new(path), error))
}

fn on_off(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

pub fn rows_text(rows: usize) -> String {
    if rows == 1 { "1 row".to_owned() } else { format!("{rows} rows") }
}

fn single_number(table: &OwnedTable) -> Option<(&str, i64)> {
    match (table.columns.as_slice(), table.rows.as_slice()) {
        ([(name, SqlType::Bigint)], [row]) => match row.as_slice() {
            [OwnedValue::Integer(number)] => Some((name, *number)),
            _ => None,
        },
        _ => None,
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

fn terminal_columns() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}
