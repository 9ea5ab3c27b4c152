//! Rows to the server: many calls on their way at once, their answers counted, refused rows written
//! down.
//!
//! Runs the client's event loop in the loading thread. Records are kept in the blocks in which they
//! were read until their answers are there, so that a refused one can be written as it came.

use super::input::{Chunk, Feed};
use super::progress::Progress;
use super::records::{Dialect, Field, Scanned};
use super::rejects::Rejects;
use super::rows::Mapping;
use crate::interrupt::Interrupts;
use bumpalo::Bump;
use ferrite_client::event_loop::Turn;
use ferrite_client::event_loop::{Connection, Handler, Links, Response};
use ferrite_client::{ClientError, ParameterSet, Prepared, Status};
use ferrite_value::Value;
use ferrite_wire::{EncodeError, Parameter};
use std::collections::VecDeque;
use std::time::Instant;

/// Rows that one turn of the loop reads: between two turns answers are taken.
const ROWS_PER_TURN: usize = 1024;
/// Blocks of records whose answers are not all there, beyond which reading waits.
const BLOCKS_MAX: usize = 256;

/// A record whose answer is awaited.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    block: u64,
    start: u32,
    end: u32,
    line: u64,
}

/// Records read together.
struct Block {
    bytes: Vec<u8>,
    outstanding: u32,
    /// Rows of the input before it, skipped ones included.
    rows_before: u64,
}

/// Why a load ended before its input did.
#[derive(Clone, Debug)]
pub enum Stop {
    Interrupted,
    TooManyErrors,
    Connection(ClientError),
    /// The server does not take rows any more, for reasons that are not this row's.
    Refused(String),
    Input(String),
    Rejects(String),
}

/// How a row is sent.
pub struct Target {
    /// `T.insert` or `T.upsert`.
    pub procedure: Prepared,
    pub adhoc: Prepared,
    /// `INSERT INTO T (A, B) VALUES `: for rows that a procedure's parameters cannot carry.
    pub statement: String,
}

/// Which of several addresses takes the rows.
#[derive(Debug)]
enum Route {
    /// None is up yet. Those that could not be reached.
    Wanted {
        failed: Vec<usize>,
    },
    By(usize),
}

pub struct Sender<'l> {
    pub feed: Feed<'l>,
    pub dialect: Dialect,
    pub mapping: Mapping,
    pub target: Target,
    /// How many addresses there are to connect to.
    pub addresses: usize,
    pub outstanding_max: usize,
    pub errors_max: u64,
    /// Rows still to be skipped.
    pub skip: u64,
    pub rejects: &'l mut Rejects,
    pub progress: &'l mut Progress,
    pub interrupts: &'l Interrupts,
    pub loaded: u64,
    pub stop: Option<Stop>,
    route: Route,
    blocks: VecDeque<Block>,
    /// Number of the oldest block kept.
    first_block: u64,
    /// Where in the newest block the next record begins.
    at: usize,
    line: u64,
    rows: u64,
    input_ended: bool,
    scanned_out: bool,
    outstanding: usize,
    fields: Vec<Field>,
    arena: Bump,
}

/// A row's values as parameters.
struct Row<'v>(&'v [Value<'v>]);

impl ParameterSet for Row<'_> {
    fn write_set(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        self.0.write_set(out)
    }
}

/// A statement and the values of its `?`.
struct Statement<'v> {
    text: &'v str,
    values: &'v [Value<'v>],
}

impl ParameterSet for Statement<'_> {
    fn write_set(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let count = i16::try_from(self.values.len() + 1).map_err(|_| EncodeError::TooMany)?;
        out.extend_from_slice(&count.to_be_bytes());
        self.text.write(out)?;
        self.values.iter().try_for_each(|value| value.write(out))
    }
}

impl<'l> Sender<'l> {
    #[allow(clippy::too_many_arguments, reason = "a load has this many parts, each named where it is made")]
    pub fn new(
        feed: Feed<'l>,
        first: Vec<u8>,
        dialect: Dialect,
        mapping: Mapping,
        target: Target,
        rejects: &'l mut Rejects,
        progress: &'l mut Progress,
        interrupts: &'l Interrupts,
    ) -> Sender<'l> {
        Sender {
            feed,
            dialect,
            mapping,
            target,
            addresses: 1,
            outstanding_max: 1,
            errors_max: 0,
            skip: 0,
            rejects,
            progress,
            interrupts,
            loaded: 0,
            stop: None,
            route: Route::Wanted { failed: Vec::new() },
            blocks: VecDeque::from([Block { bytes: first, outstanding: 0, rows_before: 0 }]),
            first_block: 0,
            at: 0,
            line: 1,
            rows: 0,
            input_ended: false,
            scanned_out: false,
            outstanding: 0,
            fields: Vec::new(),
            arena: Bump::new(),
        }
    }

    /// Starts behind what was looked at already: a header.
    pub fn begin_at(&mut self, at: usize, line: u64, input_ended: bool) {
        self.at = at;
        self.line = line;
        self.input_ended = input_ended;
    }

    /// All rows before this many have been answered.
    pub fn rows_settled(&self) -> u64 {
        let oldest = self.blocks.iter().find(|block| block.outstanding > 0);
        oldest.map_or(self.rows, |block| block.rows_before)
    }

    fn end(&mut self, stop: Stop) {
        self.stop.get_or_insert(stop);
    }

    fn reject(&mut self, line: u64, reason: &str, block: u64, start: usize, end: usize) {
        let block = &self.blocks[(block - self.first_block) as usize];
        if let Err(error) = self.rejects.write(line, reason, &block.bytes[start..end]) {
            let reason = format!("cannot write the rejected rows to {}: {error}", self.rejects.path().display());
            return self.end(Stop::Rejects(reason));
        }
        if self.rejects.count > self.errors_max {
            self.end(Stop::TooManyErrors);
        }
    }

    /// Gets more bytes behind what is left of the newest block. False when there are none now.
    fn refill(&mut self) -> bool {
        if self.blocks.len() >= BLOCKS_MAX {
            return false;
        }
        let newest = self.blocks.back().expect("there is always a block");
        let mut bytes = Vec::with_capacity(newest.bytes.len() - self.at + super::input::CHUNK_BYTES);
        bytes.extend_from_slice(&newest.bytes[self.at..]);
        match self.feed.next(&mut bytes) {
            Chunk::Bytes => {}
            Chunk::End => self.input_ended = true,
            Chunk::NotYet => return false,
            Chunk::Failed(error) => {
                self.end(Stop::Input(error));
                return false;
            }
        }
        self.blocks.push_back(Block { bytes, outstanding: 0, rows_before: self.rows });
        self.at = 0;
        self.forget_settled();
        true
    }

    fn forget_settled(&mut self) {
        while self.blocks.len() > 1 && self.blocks[0].outstanding == 0 {
            self.blocks.pop_front();
            self.first_block += 1;
        }
    }

    /// Reads and sends one row. False when there is none to be had now.
    fn send_row(&mut self, connection: &mut Connection<Sent>) -> bool {
        let number = self.first_block + self.blocks.len() as u64 - 1;
        let block = self.blocks.back_mut().expect("there is always a block");
        let start = self.at;
        let line = self.line;
        let (length, end, lines) = match self.dialect.scan(&block.bytes[start..], self.input_ended, &mut self.fields) {
            Scanned::Record { length, end, lines } => (length, end, lines),
            Scanned::Nothing { end } => {
                self.at += end;
                self.line += 1;
                return true;
            }
            Scanned::Bad { length, end, reason } => {
                self.at += end;
                self.line += 1;
                self.rows += 1;
                self.reject(line, reason, number, start, start + length);
                return true;
            }
            Scanned::More => return self.refill(),
            Scanned::End => {
                self.scanned_out = true;
                return false;
            }
        };
        self.at += end;
        self.line += lines;
        self.rows += 1;
        if self.skip > 0 {
            self.skip -= 1;
            return true;
        }
        self.arena.reset();
        let arena = &self.arena;
        let row = std::str::from_utf8(&block.bytes[start..start + length])
            .map_err(|_| "not UTF-8".to_owned())
            .and_then(|record| {
                if self.dialect.lines {
                    self.mapping.json_row(record, arena)
                } else {
                    self.mapping.row(record, &self.fields, arena)
                }
            });
        let sent = Sent { block: number, start: start as u32, end: (start + length) as u32, line };
        let called = row.and_then(|values| {
            if Mapping::literal_columns(&values) {
                let (text, rest) = with_literals(&self.target.statement, &values);
                connection.call(&self.target.adhoc, &Statement { text: &text, values: &rest }, sent)
            } else {
                connection.call(&self.target.procedure, &Row(&values), sent)
            }
            .map_err(|error| error.to_string())
        });
        match called {
            Ok(_) => {
                block.outstanding += 1;
                self.outstanding += 1;
            }
            Err(reason) => self.reject(line, &reason, number, start, start + length),
        }
        true
    }

    /// The connection that takes the rows: the first that is up, for the whole load. The others are
    /// not needed any more.
    fn connection<'c>(&mut self, links: &'c mut Links<Sent>) -> Option<&'c mut Connection<Sent>> {
        if let Route::Wanted { .. } = self.route {
            let (used, _) = links.next_up(links.len() - 1)?;
            self.route = Route::By(used);
            for link in (0..links.len()).filter(|link| *link != used) {
                links.retire(link);
            }
        }
        match self.route {
            Route::By(used) => links.get(used),
            Route::Wanted { .. } => None,
        }
    }

    fn settle(&mut self, sent: Sent) {
        self.outstanding -= 1;
        self.blocks[(sent.block - self.first_block) as usize].outstanding -= 1;
    }
}

/// The statement with `'\N'` where that text is meant, and `?` for the other values.
fn with_literals<'v>(statement: &str, values: &[Value<'v>]) -> (String, Vec<Value<'v>>) {
    let mut text = format!("{statement}(");
    let mut rest = Vec::new();
    for (column, value) in values.iter().enumerate() {
        text.push_str(if column > 0 { ", " } else { "" });
        match value {
            Value::Text("\\N") => text.push_str("'\\N'"),
            value => {
                text.push('?');
                rest.push(*value);
            }
        }
    }
    text.push(')');
    (text, rest)
}

impl Handler for Sender<'_> {
    type Context = Sent;

    fn turn(&mut self, links: &mut Links<Sent>, now: Instant) -> Turn {
        self.progress.show(now, self.loaded, self.rejects.count, self.feed.share());
        if self.interrupts.seen() {
            self.end(Stop::Interrupted);
        }
        if self.stop.is_some() {
            return Turn::Stop;
        }
        let Some(connection) = self.connection(links) else {
            return Turn::Wait(None);
        };
        self.forget_settled();
        for _ in 0..ROWS_PER_TURN {
            if self.outstanding >= self.outstanding_max {
                return Turn::Wait(None);
            }
            if !self.send_row(connection) {
                let over = self.scanned_out && self.outstanding == 0;
                return if over || self.stop.is_some() { Turn::Stop } else { Turn::Wait(None) };
            }
            if self.stop.is_some() {
                return Turn::Stop;
            }
        }
        Turn::Wait(Some(now))
    }

    fn response(&mut self, _: usize, sent: Sent, response: &Response<'_>, _: Instant) {
        if response.is_success() {
            self.loaded += 1;
        } else {
            let text = response.status_text.unwrap_or("the server refused the row without a reason").to_owned();
            match response.status() {
                Some(Status::GracefulFailure | Status::UserAbort | Status::UnexpectedFailure) => {
                    self.reject(sent.line, &text, sent.block, sent.start as usize, sent.end as usize);
                }
                _ => self.end(Stop::Refused(text)),
            }
        }
        self.settle(sent);
    }

    fn lost(&mut self, _: usize, _: Sent, reason: &ClientError) {
        // The block stays unsettled: whether the row is there is not known.
        self.end(Stop::Connection(reason.clone()));
    }

    fn disconnected(&mut self, link: usize, reason: &ClientError) {
        let ends = match &mut self.route {
            Route::Wanted { failed } => {
                if !failed.contains(&link) {
                    failed.push(link);
                }
                failed.len() == self.addresses
            }
            Route::By(used) => *used == link,
        };
        if ends {
            self.end(Stop::Connection(reason.clone()));
        }
    }
}

/// A table's name as a statement's beginning.
pub fn insert_statement<'n>(table: &str, columns: impl Iterator<Item = &'n str>, upsert: bool) -> String {
    let columns: Vec<String> = columns.map(crate::lexer::quoted).collect();
    let verb = if upsert { "UPSERT" } else { "INSERT" };
    format!("{verb} INTO {} ({}) VALUES ", crate::lexer::quoted(table), columns.join(", "))
}
