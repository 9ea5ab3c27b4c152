//! Compound procedures whose classes are written in Rust, in the place of a JVM: each call brings a script that says what its stages do.
//!
//! Stages are separated by `|`, what one of them does by `;`: `end NUMBER`, `abort WORDS`, `fail WORDS`, `wait NAME` (until a test opens
//! it), and everything else is a call: a procedure and its parameter, a number or a text. A call that ends answers with the statuses of all
//! answers that it was given as its application's text.

use crate::jar::jar;
use ferrite_base::{ErrorKind, UserError, UserResult};
use ferrite_catalog::{Classes, base64};
use ferrite_expr::{Code, UserFunction};
use ferrite_sql::foreign::{
    self, Compound, Description, Ended, ForeignBody, Library, QueuedCall, Runtime, Stage, Stages,
};
use ferrite_sql::plan::Parameter;
use ferrite_value::{ColumnType, SqlType, Value};
use ferrite_wire::{ParameterSet, Response, table};
use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub const PATIENCE: Duration = Duration::from_secs(60);

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

pub fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "in vain for {what}");
        std::thread::yield_now();
    }
}

/// The statement that loads the class, and the one that makes the procedure `Script` of it.
pub fn schema() -> [String; 2] {
    foreign::install(Box::new(InRust));
    let load = format!("LOAD CLASSES '{}'", base64::encode(&jar(&["a/Script.class", "a/Plain.class"])));
    [load, "CREATE COMPOUND PROCEDURE FROM CLASS a.Script".to_owned()]
}

struct InRust;

impl Runtime for InRust {
    fn load(&self, _: &Classes) -> UserResult<Arc<dyn Library>> {
        Ok(Arc::new(InRust))
    }
}

impl Library for InRust {
    fn function(&self, function: &UserFunction) -> UserResult<Arc<dyn Code>> {
        Err(UserError::not_found(&function.class))
    }

    fn describe(&self, class: &str) -> UserResult<Description> {
        let body = match class {
            "a.Script" => ForeignBody::Compound(Arc::new(Script)),
            _ => ForeignBody::Transaction(Arc::new(Plain)),
        };
        let column_type = ColumnType::unbounded(SqlType::Varchar);
        let parameters = vec![Parameter { name: None, column_type, array: false, table: false }];
        Ok(Description { parameters, statements: Vec::new(), partition_info: None, body })
    }
}

/// A transaction that does nothing.
#[derive(Debug)]
struct Plain;

impl foreign::Body for Plain {
    fn call(&self, _: &mut dyn foreign::Host, _: &[Value<'_>]) -> UserResult<()> {
        Ok(())
    }
}

#[derive(Debug)]
struct Script;

impl Compound for Script {
    fn begin(&self, parameters: &[Value<'_>], _: usize) -> UserResult<Box<dyn Stages>> {
        let [Value::Text(text)] = parameters else { panic!("{parameters:?}") };
        Ok(Box::new(Running { text: (*text).to_owned(), next: 0, statuses: Vec::new() }))
    }
}

struct Running {
    text: String,
    next: usize,
    statuses: Vec<String>,
}

impl Stages for Running {
    fn next(&mut self, answers: &[(Vec<u8>, u64)]) -> UserResult<Stage> {
        for (body, _) in answers {
            let response = Response::parse(body).expect("an answer is a response");
            self.statuses.push(match response.scalar() {
                Some(number) => format!("{}:{number}", response.status_code),
                None => response.status_code.to_string(),
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
                    return Ok(Stage::End(Ended { status: Some(7), text: Some(self.statuses.join(" ")), tables }));
                }
                "abort" => return Err(UserError::new(ErrorKind::CompoundAbort, "45000", rest.to_owned())),
                "fail" => return Err(UserError::new(ErrorKind::Internal, "38000", rest.to_owned())),
                "wait" => {
                    let (opened, timeout) = CHANGED
                        .wait_timeout_while(seen(), PATIENCE, |seen| !seen.open.contains(rest))
                        .unwrap_or_else(PoisonError::into_inner);
                    drop(opened);
                    assert!(!timeout.timed_out(), "nobody has opened {rest}");
                }
                procedure => {
                    let mut parameters = Vec::new();
                    match rest.parse::<i64>() {
                        Ok(number) => (number,).write_set(&mut parameters),
                        Err(_) => (rest,).write_set(&mut parameters),
                    }
                    .expect("one parameter");
                    calls.push(QueuedCall { procedure: procedure.to_owned(), parameters });
                }
            }
        }
        Ok(Stage::Calls(calls))
    }
}
