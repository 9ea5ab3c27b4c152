//! Answers printed where output goes now: tables, counts, plans, and remarks that only people want.
//!
//! It does not know what was called.

use super::{Shell, Trouble};
use crate::command::Expanded;
use crate::options::Format;
use crate::render::{self, Look};
use crate::style::Style;
use ferrite_client::OwnedResponse;
use ferrite_value::{OwnedValue, SqlType};
use ferrite_wire::OwnedTable;
use ferrite_wire::status::APPLICATION_STATUS_NOT_SET;
use std::io::{self, Write};

impl Shell {
    pub(super) fn print(&mut self, response: &OwnedResponse, timing: Option<String>) -> Result<(), Trouble> {
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

    pub(super) fn separate(&mut self) -> io::Result<()> {
        writeln!(self.out)
    }

    /// A line about results, which only people want.
    pub(super) fn remark(&mut self, line: &str) -> io::Result<()> {
        if self.settings.look.format != Format::Aligned {
            return Ok(());
        }
        let style = self.current_look().style;
        writeln!(self.out, "{}", style.faint(line))
    }

    /// How results look where they go now.
    pub(super) fn current_look(&self) -> Look {
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
        let look = self.current_look();
        self.print_as(table, look)
    }

    /// A table of `describe`. People see nothing where there is nothing: `<null>` would look like a
    /// default that somebody chose.
    pub(super) fn print_described(&mut self, table: &OwnedTable) -> io::Result<()> {
        let look = Look { null: String::new(), ..self.current_look() };
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

fn terminal_columns() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}
