//! The shell's own commands: what each does, settings, lists, `describe`, `watch`, included files,
//! help.
//!
//! Their spelling is in `command.rs`; `\copy` is in `copying.rs`.

use super::printing::rows_text;
use super::{Done, Flow, Shell, Trouble, Way, cannot_read};
use crate::bad_command::BadCommand;
use crate::command::{self, Command, Expanded};
use crate::names::{Names, TableKind};
use crate::options::Format;
use crate::script::ScriptReader;
use crate::session::{Failure, text};
use crate::{describe, source, suggest};
use ferrite_value::{OwnedValue, temporal::DisplayTimestamp};
use ferrite_wire::OwnedTable;
use std::fmt::Write as _;
use std::io::{self, BufRead, Write};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Files that may include each other before it must be a circle.
const INCLUDES_MAX: usize = 32;

impl Shell {
    pub(super) fn command(&mut self, line: &str, rest: &mut ScriptReader<impl BufRead>) -> Done {
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
            Command::Format(name) => self.set_format(&name)?,
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
            Command::History => self.list_history()?,
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

    fn set_format(&mut self, name: &str) -> Result<(), BadCommand> {
        match Format::from_name(name) {
            Some(format) => {
                self.settings.look.format = format;
                Ok(())
            }
            None => {
                let bad = BadCommand::new(format!("there is no format {name}"));
                let known = ["aligned", "csv", "json", "markdown"];
                Err(match suggest::nearest(name, known.into_iter()) {
                    Some(near) => bad.with_hint(format!("did you mean {near}?")),
                    None => bad.with_hint("aligned, csv, json or markdown"),
                })
            }
        }
    }

    fn list_history(&mut self) -> io::Result<()> {
        let mut listed = String::new();
        for (number, statement) in self.history.iter().enumerate() {
            writeln!(listed, "{:5}  {}", number + 1, statement.replace('\n', "\n       "))
                .expect("writing to a String does not fail");
        }
        self.out.write_all(listed.as_bytes())
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
        let style = self.current_look().style;
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

fn on_off(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}
