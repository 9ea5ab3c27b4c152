//! Procedures outside of transactions whose classes are written in Rust, in the place of a JVM:
//! each call brings a script that says what its stages do. `Script` is a compound one, `Rests` is
//! not: its stages rest until there is any answer or they are rung for.
//!
//! Stages are separated by `|`, what one of them does by `;`: `end NUMBER`, `abort WORDS`,
//! `fail WORDS`, `wait NAME` (until a test opens it), `ring NAME` (the waker, when a test opens
//! it), `rung` (the waker, at once), and everything else is a call: a procedure and its parameter,
//! a number or a text. A call that ends answers with the statuses of all answers that it was given
//! as its application's text.

use crate::common::PATIENCE;
use crate::in_rust;
use crate::jar::jar;
use ferrite_base::{ErrorKind, UserError, UserResult};
use ferrite_catalog::base64;
use ferrite_plan::Parameter;
use ferrite_plan::external::{
    self, Answer, AnsweredAs, Compound, Description, Ended, QueuedCall, RoutineBody, RuntimeHandle, Stage, Stages,
};
use ferrite_value::{ColumnType, SqlType, Value};
use ferrite_wire::{ParameterSet, Response, table};
use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

/// The names that were opened, and the stages that have begun: which script's, and which.
#[derive(Default)]
struct Seen {
    open: BTreeSet<String>,
    begun: Vec<(String, usize)>,
}

static SEEN: Mutex<Seen> = Mutex::new(Seen { open: BTreeSet::new(), begun: Vec::new() });
static CHANGED: Condvar = Condvar::new();

fn seen() -> MutexGuard<'static, Seen> {
    SEEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lets the stages go on that wait for `name`.
pub fn open(name: &str) {
    seen().open.insert(name.to_owned());
    CHANGED.notify_all();
}

/// How often this stage of this script has begun.
pub fn begun(script: &str, stage: usize) -> usize {
    seen().begun.iter().filter(|(of, number)| of == script && *number == stage).count()
}

/// Who runs them.
pub fn runtime() -> RuntimeHandle {
    in_rust::runtime(describe)
}

/// The statement that loads the classes, and those that make the procedures `Script` and `Rests` of
/// them.
pub fn schema() -> [String; 3] {
    let load =
        format!("LOAD CLASSES '{}'", base64::encode(&jar(&["a/Script.class", "a/Rests.class", "a/Plain.class"])));
    let [script, rests] = ["CREATE COMPOUND PROCEDURE FROM CLASS a.Script", "CREATE PROCEDURE FROM CLASS a.Rests"];
    [load, script.to_owned(), rests.to_owned()]
}

fn describe(class: &str) -> UserResult<Description> {
    let body = match class {
        "a.Script" => RoutineBody::Compound(Arc::new(Script { rests: false })),
        "a.Rests" => RoutineBody::NonTransactional(Arc::new(Script { rests: true })),
        _ => RoutineBody::Transaction(Arc::new(Plain)),
    };
    let column_type = ColumnType::unbounded(SqlType::Varchar);
    let parameters = vec![Parameter { name: None, column_type, array: false, table: false }];
    Ok(Description { parameters, statements: Vec::new(), partition_info: None, texts: false, body })
}

/// A transaction that does nothing.
#[derive(Debug)]
struct Plain;

impl external::Body for Plain {
    fn call(&self, _: &mut dyn external::Host, _: &[Value<'_>]) -> UserResult<()> {
        Ok(())
    }
}

#[derive(Debug)]
struct Script {
    rests: bool,
}

impl Compound for Script {
    fn begin(&self, parameters: &[Value<'_>], _: usize, waker: &Waker) -> UserResult<Box<dyn Stages>> {
        let [Value::Text(text)] = parameters else { panic!("{parameters:?}") };
        let (text, waker) = ((*text).to_owned(), waker.clone());
        Ok(Box::new(Running { text, next: 0, statuses: Vec::new(), last: None, rests: self.rests, waker }))
    }
}

struct Running {
    text: String,
    next: usize,
    statuses: Vec<String>,
    last: Option<AnsweredAs>,
    rests: bool,
    waker: Waker,
}

fn wait_until_open(name: &str) {
    let (opened, timeout) = CHANGED
        .wait_timeout_while(seen(), PATIENCE, |seen| !seen.open.contains(name))
        .unwrap_or_else(PoisonError::into_inner);
    drop(opened);
    assert!(!timeout.timed_out(), "nobody has opened {name}");
}

impl Stages for Running {
    fn next(&mut self, answers: &[Answer]) -> UserResult<Stage> {
        for answer in answers {
            let response = Response::parse(&answer.body).expect("an answer is a response");
            self.statuses.push(match response.scalar() {
                Some(number) => format!("{}:{number}", response.status_code),
                None => response.status_code.to_string(),
            });
            self.last = Some(AnsweredAs {
                status: response.status_code,
                text: response.status_text.unwrap_or_default().to_owned(),
                code: response.code.unwrap_or_default().to_owned(),
            });
        }
        seen().begun.push((self.text.clone(), self.next));
        CHANGED.notify_all();
        let stage = self.text.split('|').nth(self.next).expect("the last stage ends").to_owned();
        self.next += 1;
        let mut calls = Vec::new();
        for part in stage.split(';').filter(|part| !part.trim().is_empty()) {
            let (word, rest) = part.trim().split_once(' ').unwrap_or((part.trim(), ""));
            match word {
                "end" => {
                    let mut tables = Vec::new();
                    table::write_scalar_table(&mut tables, rest.parse().expect("a number"));
                    return Ok(Stage::End(Ended {
                        answered: None,
                        status: Some(7),
                        text: Some(self.statuses.join(" ")),
                        tables,
                    }));
                }
                "pass" => return Ok(Stage::End(Ended { answered: self.last.take(), ..Ended::default() })),
                "abort" => return Err(UserError::new(ErrorKind::CompoundAbort, "45000", rest.to_owned())),
                "fail" => return Err(UserError::new(ErrorKind::Internal, "38000", rest.to_owned())),
                "wait" => wait_until_open(rest),
                "rung" => self.waker.wake_by_ref(),
                "ring" => {
                    let (name, waker) = (rest.to_owned(), self.waker.clone());
                    std::thread::spawn(move || {
                        wait_until_open(&name);
                        waker.wake();
                    });
                }
                procedure => {
                    let mut parameters = Vec::new();
                    match rest.parse::<i64>() {
                        Ok(number) => (number,).write_set(&mut parameters),
                        Err(_) => (rest,).write_set(&mut parameters),
                    }
                    .expect("one parameter");
                    calls.push(QueuedCall { procedure: procedure.to_owned(), partition: None, parameters });
                }
            }
        }
        Ok(if self.rests { Stage::Rests(calls) } else { Stage::Calls(calls) })
    }
}
