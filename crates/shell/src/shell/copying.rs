//! `\copy`: rows from a file or the script into a table, and a query's rows into a file.

use super::printing::rows_text;
use super::{Done, Flow, Shell, Trouble, cannot_read};
use crate::bad_command::BadCommand;
use crate::copy::{CopyCommand, CopyOptions, CopySource};
use crate::script::ScriptReader;
use crate::session::text;
use crate::{load, source};
use std::cell::Cell;
use std::io::{BufRead, Write};
use std::path::Path;

impl Shell {
    pub(super) fn copy(&mut self, copy: CopyCommand, rest: &mut ScriptReader<impl BufRead>) -> Done {
        match copy {
            CopyCommand::From { table, columns, source, options } => {
                let inline_mark = match &source {
                    CopySource::Inline(mark) => Some(mark.clone()),
                    CopySource::File(_) => None,
                };
                let ended = Cell::new(false);
                let done = self.copy_from(&table, columns, source, &options, rest, &ended);
                // What a failed copy has not read is data still, and no statements.
                if let Some(mark) = inline_mark.filter(|_| !ended.get()) {
                    let mut line = Vec::new();
                    while rest.next_line(&mut line)? && line.trim_ascii() != mark.as_bytes() {}
                }
                done
            }
            CopyCommand::To { query, target, options } => {
                let answer = self.session.call("@AdHoc", &[text(&query)])?;
                let Some(table) = answer.response.tables.first() else {
                    return Err(BadCommand::new("the query has no result to copy").into());
                };
                let mut written = Vec::new();
                load::write_copy(&mut written, table, &options).map_err(BadCommand::new)?;
                match &target {
                    Some(path) => {
                        source::write(Path::new(path), &written)
                            .map_err(|error| BadCommand::new(format!("cannot write {path}: {error}")))?;
                        self.remark(&format!("({} copied)", rows_text(table.rows.len())))?;
                    }
                    None => self.out.write_all(&written)?,
                }
                Ok(Flow::Go)
            }
        }
    }

    fn copy_from(
        &mut self,
        table: &str,
        columns: Option<Vec<String>>,
        source: CopySource,
        options: &CopyOptions,
        rest: &mut ScriptReader<impl BufRead>,
        inline_ended: &Cell<bool>,
    ) -> Done {
        let mut data = load::data_options(options).map_err(BadCommand::new)?;
        data.columns = columns;
        let interrupts = self.session.interrupts().clone();
        let input = match source {
            CopySource::File(path) => {
                load::Input::open(Path::new(&path)).map_err(|error| cannot_read(&path, &error))?
            }
            CopySource::Inline(mark) => load::Input::inline(rest, &mark, inline_ended),
        };
        let names = self.fresh_names()?;
        let ended = load::run(&self.connection, &names.borrow(), table, input, &data, &interrupts);
        self.print_load(ended)
    }

    fn print_load(&mut self, ended: Result<load::Loaded, load::LoadError>) -> Done {
        match ended {
            Ok(loaded) => {
                self.remark(&format!("({loaded})"))?;
                if loaded.rejected > 0 {
                    return Err(Trouble::Said);
                }
                Ok(Flow::Go)
            }
            Err(error) => Err(error.into_bad_command().into()),
        }
    }
}
