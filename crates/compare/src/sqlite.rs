//! SQLite: a library, not a server. It is Debian's own, loaded at run time, and used as its users
//! do: prepared statements within this process, one transaction at a time, write-ahead log. No call
//! crosses a socket or a process, so its figures hold the caller's work too.

use super::load::{Job, JobNote};
use super::peer::Peer;
use super::pipeline::{Clock, Driven, Moment, Plan, record};
use super::system::RunDirectory;
use ferrite_bench::error::{BenchError, BenchResult};
use ferrite_bench::generator::LoadOutcome;
use libloading::Library;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const LIBRARY: &str = "libsqlite3.so.0";

const OK: c_int = 0;
const ROW: c_int = 100;
const DONE: c_int = 101;
/// Read, write, create; used by one thread only, so without SQLite's own locks.
const OPEN: c_int = 0x2 | 0x4 | 0x8000;

const SCHEMA: &str = "
CREATE TABLE contestants (contestant_number INTEGER PRIMARY KEY, contestant_name TEXT NOT NULL);
CREATE TABLE area_code_state (area_code INTEGER PRIMARY KEY, state TEXT NOT NULL);
CREATE TABLE votes (phone_number INTEGER NOT NULL, state TEXT NOT NULL, contestant_number INTEGER NOT NULL);
CREATE INDEX votes_phone ON votes (phone_number);
CREATE TABLE store (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
";

type Database = *mut c_void;
type Raw = *mut c_void;

/// The functions of the library that are used here, by their documented types.
struct Functions {
    open: unsafe extern "C" fn(*const c_char, *mut Database, c_int, *const c_char) -> c_int,
    close: unsafe extern "C" fn(Database) -> c_int,
    exec: unsafe extern "C" fn(Database, *const c_char, *mut c_void, *mut c_void, *mut *mut c_char) -> c_int,
    prepare: unsafe extern "C" fn(Database, *const c_char, c_int, *mut Raw, *mut *const c_char) -> c_int,
    bind_integer: unsafe extern "C" fn(Raw, c_int, i64) -> c_int,
    bind_text: unsafe extern "C" fn(Raw, c_int, *const c_char, c_int, isize) -> c_int,
    bind_blob: unsafe extern "C" fn(Raw, c_int, *const c_void, c_int, isize) -> c_int,
    step: unsafe extern "C" fn(Raw) -> c_int,
    reset: unsafe extern "C" fn(Raw) -> c_int,
    column_integer: unsafe extern "C" fn(Raw, c_int) -> i64,
    column_blob: unsafe extern "C" fn(Raw, c_int) -> *const c_void,
    column_bytes: unsafe extern "C" fn(Raw, c_int) -> c_int,
    finalize: unsafe extern "C" fn(Raw) -> c_int,
    message: unsafe extern "C" fn(Database) -> *const c_char,
    version: unsafe extern "C" fn() -> *const c_char,
    /// Keeps the functions where they are. Last, so that it goes last.
    _library: Library,
}

impl Functions {
    fn load() -> Option<Functions> {
        // SAFETY: SQLite's initialisers only set up its own tables; the names and types are those
        // of its documentation, which promises them for all versions 3; the library lives as long
        // as the pointers.
        unsafe {
            let library = Library::new(LIBRARY).ok()?;
            macro_rules! find {
                ($name:literal) => {
                    *library.get(concat!($name, "\0").as_bytes()).ok()?
                };
            }
            Some(Functions {
                open: find!("sqlite3_open_v2"),
                close: find!("sqlite3_close_v2"),
                exec: find!("sqlite3_exec"),
                prepare: find!("sqlite3_prepare_v2"),
                bind_integer: find!("sqlite3_bind_int64"),
                bind_text: find!("sqlite3_bind_text"),
                bind_blob: find!("sqlite3_bind_blob"),
                step: find!("sqlite3_step"),
                reset: find!("sqlite3_reset"),
                column_integer: find!("sqlite3_column_int64"),
                column_blob: find!("sqlite3_column_blob"),
                column_bytes: find!("sqlite3_column_bytes"),
                finalize: find!("sqlite3_finalize"),
                message: find!("sqlite3_errmsg"),
                version: find!("sqlite3_libversion"),
                _library: library,
            })
        }
    }
}

pub struct Sqlite {
    functions: Functions,
    database: Database,
    _place: RunDirectory,
}

/// A value bound to a parameter, or read from a column.
enum Bound<'v> {
    Integer(i64),
    Text(&'v [u8]),
    Blob(&'v [u8]),
}

/// A prepared statement. Freed by its owner before the database is closed.
#[derive(Clone, Copy)]
struct Statement(Raw);

impl Sqlite {
    pub fn missing() -> Option<&'static str> {
        Functions::load().is_none().then_some("libsqlite3-0")
    }

    pub fn start(place: RunDirectory, settings: &[(&str, &str)]) -> BenchResult<Sqlite> {
        let functions = Functions::load().ok_or_else(|| BenchError::Load(format!("there is no {LIBRARY}")))?;
        let file = place.path().join("data.sqlite");
        let file = CString::new(file.as_os_str().as_encoded_bytes())
            .map_err(|_| BenchError::Load("the directory has a zero byte in its name".to_string()))?;
        let mut database = null_mut();
        // SAFETY: the name ends with a zero, and the place for the handle is ours.
        let code = unsafe { (functions.open)(file.as_ptr(), &mut database, OPEN, std::ptr::null()) };
        let sqlite = Sqlite { functions, database, _place: place };
        if code != OK {
            return Err(sqlite.error("opening the database"));
        }
        sqlite.execute("PRAGMA journal_mode = WAL")?;
        for (name, value) in settings {
            sqlite.execute(&format!("PRAGMA {name} = {value}"))?;
        }
        sqlite.execute(SCHEMA)?;
        Ok(sqlite)
    }

    pub fn version(&self) -> String {
        // SAFETY: it is a constant text of the library.
        let text = unsafe { CStr::from_ptr((self.functions.version)()) };
        format!("SQLite {}", text.to_string_lossy())
    }

    fn error(&self, doing: &str) -> BenchError {
        if self.database.is_null() {
            return BenchError::Load(format!("SQLite, {doing}: no memory"));
        }
        // SAFETY: the database is open, and the text is copied before anything else is done with
        // it.
        let text = unsafe { CStr::from_ptr((self.functions.message)(self.database)) }.to_string_lossy().into_owned();
        BenchError::Load(format!("SQLite, {doing}: {text}"))
    }

    fn execute(&self, sql: &str) -> BenchResult<()> {
        let text = CString::new(sql).expect("our statements have no zero bytes");
        // SAFETY: the text ends with a zero; no callback and no place for a message are given,
        // which is allowed.
        let code = unsafe { (self.functions.exec)(self.database, text.as_ptr(), null_mut(), null_mut(), null_mut()) };
        if code == OK { Ok(()) } else { Err(self.error(sql.trim().lines().next().unwrap_or_default())) }
    }

    fn prepare_statement(&self, sql: &str) -> BenchResult<Statement> {
        let mut statement = null_mut();
        // SAFETY: the length of the text is given; the place for the statement is ours.
        let code = unsafe {
            let length = sql.len() as c_int;
            (self.functions.prepare)(self.database, sql.as_ptr().cast(), length, &mut statement, null_mut())
        };
        if code == OK { Ok(Statement(statement)) } else { Err(self.error(sql)) }
    }

    /// Runs a statement to its end. Returns what `read` makes of its first row, if there is one.
    fn run<R>(
        &self,
        statement: Statement,
        values: &[Bound<'_>],
        read: impl FnOnce(&Functions, Raw) -> R,
    ) -> BenchResult<Option<R>> {
        let functions = &self.functions;
        // SAFETY: the statement is of this database and not freed; values outlive the call, at
        // whose end it is reset, so that SQLite need not copy them (the destructor 0 says that they
        // stay).
        unsafe {
            for (place, value) in values.iter().enumerate() {
                let place = place as c_int + 1;
                let code = match value {
                    Bound::Integer(value) => (functions.bind_integer)(statement.0, place, *value),
                    Bound::Text(text) => {
                        (functions.bind_text)(statement.0, place, text.as_ptr().cast(), text.len() as c_int, 0)
                    }
                    Bound::Blob(blob) => {
                        (functions.bind_blob)(statement.0, place, blob.as_ptr().cast(), blob.len() as c_int, 0)
                    }
                };
                if code != OK {
                    return Err(self.error("binding a value"));
                }
            }
            let mut found = None;
            let mut code = (functions.step)(statement.0);
            if code == ROW {
                found = Some(read(functions, statement.0));
                while code == ROW {
                    code = (functions.step)(statement.0);
                }
            }
            let reset = (functions.reset)(statement.0);
            if code != DONE || reset != OK { Err(self.error("running a statement")) } else { Ok(found) }
        }
    }

    fn number(&self, statement: Statement, values: &[Bound<'_>]) -> BenchResult<Option<i64>> {
        // SAFETY: called on a row, whose first column there always is.
        self.run(statement, values, |functions, row| unsafe { (functions.column_integer)(row, 0) })
    }
}

impl Peer for Sqlite {
    fn prepare(&mut self, job: &mut Job) -> BenchResult<()> {
        if job.votes() {
            self.execute("DELETE FROM votes; DELETE FROM contestants; DELETE FROM area_code_state;")?;
            for (number, name) in job.contestants() {
                self.execute(&format!("INSERT INTO contestants VALUES ({number}, '{name}')"))?;
            }
            let areas: Vec<String> = job.areas().iter().map(|(code, state)| format!("({code}, '{state}')")).collect();
            return self.execute(&format!("INSERT INTO area_code_state VALUES {}", areas.join(", ")));
        }
        self.execute("DELETE FROM store")?;
        let mut statements = Statements::new(self, false)?;
        self.execute("BEGIN")?;
        for key in 0..job.keys() {
            statements.write(job, key)?;
        }
        statements.free();
        self.execute("COMMIT")
    }

    fn count(&self, job: &Job) -> BenchResult<i64> {
        let table = if job.votes() { "votes" } else { "store" };
        let statement = self.prepare_statement(&format!("SELECT count(*) FROM {table}"))?;
        let count = self.number(statement, &[]);
        // SAFETY: it is not used afterwards.
        unsafe { (self.functions.finalize)(statement.0) };
        Ok(count?.unwrap_or(0))
    }

    /// One call after the other. There is no server whose time could be told.
    fn drive(
        &self,
        job: &mut Job,
        plan: Plan,
        stop: &AtomicBool,
        mut watch: impl FnMut(Moment, Option<Duration>),
    ) -> BenchResult<Driven> {
        let mut watch = |moment| watch(moment, None);
        let mut statements = Statements::new(self, job.votes())?;
        let mut clock = Clock::new(plan);
        let mut before = Instant::now();
        while before < clock.end && !stop.load(Ordering::Relaxed) {
            clock.advance(before, &mut watch);
            let outcome = statements.call(job)?;
            let now = Instant::now();
            record(&mut clock.current, now.duration_since(before), outcome);
            before = now;
        }
        clock.advance(before, &mut watch);
        clock.finish(before, &mut watch);
        statements.free();
        Ok(clock.driven())
    }
}

impl Drop for Sqlite {
    fn drop(&mut self) {
        // SAFETY: nothing uses the database afterwards; statements that an error left are freed
        // with it.
        unsafe { (self.functions.close)(self.database) };
    }
}

/// The prepared statements of a workload.
struct Statements<'s> {
    sqlite: &'s Sqlite,
    prepared: Vec<Statement>,
}

// Their places.
const BEGIN: usize = 0;
const COMMIT: usize = 1;
const CONTESTANT: usize = 2;
const VOTES: usize = 3;
const STATE: usize = 4;
const INSERT: usize = 5;
const GET: usize = 0;
const PUT: usize = 1;

impl<'s> Statements<'s> {
    fn new(sqlite: &'s Sqlite, votes: bool) -> BenchResult<Statements<'s>> {
        let texts: &[&str] = if votes {
            &[
                "BEGIN IMMEDIATE",
                "COMMIT",
                "SELECT 1 FROM contestants WHERE contestant_number = ?",
                "SELECT count(*) FROM votes WHERE phone_number = ?",
                "SELECT state FROM area_code_state WHERE area_code = ?",
                "INSERT INTO votes VALUES (?, ?, ?)",
            ]
        } else {
            &[
                "SELECT value FROM store WHERE key = ?",
                "INSERT INTO store VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            ]
        };
        let prepared = texts.iter().map(|text| sqlite.prepare_statement(text)).collect::<BenchResult<_>>()?;
        Ok(Statements { sqlite, prepared })
    }

    fn call(&mut self, job: &mut Job) -> BenchResult<LoadOutcome> {
        if job.votes() {
            let (phone, contestant, limit) = job.next_vote();
            self.number(BEGIN, &[])?;
            let answer = self.vote(phone, contestant, limit)?;
            self.number(COMMIT, &[])?;
            return Ok(job.voted(answer));
        }
        match job.next_key() {
            (JobNote::Read, key) => {
                let sqlite = self.sqlite;
                let get = self.prepared[GET];
                let length = job.with_pair(key, |key, _| {
                    // SAFETY: called on a row; the value is there until the next step. Reading it
                    // makes SQLite fetch all of it.
                    sqlite.run(get, &[Bound::Text(key)], |functions, row| unsafe {
                        let value = (functions.column_blob)(row, 0);
                        if value.is_null() { 0 } else { (functions.column_bytes)(row, 0) as usize }
                    })
                })?;
                Ok(job.was_read(length.unwrap_or(0)))
            }
            (_, key) => {
                self.write(job, key)?;
                Ok(job.was_written())
            }
        }
    }

    fn vote(&self, phone: i64, contestant: i32, limit: i64) -> BenchResult<i64> {
        let contestant = i64::from(contestant);
        if self.number(CONTESTANT, &[Bound::Integer(contestant)])?.is_none() {
            return Ok(1);
        }
        if self.number(VOTES, &[Bound::Integer(phone)])?.unwrap_or(0) >= limit {
            return Ok(2);
        }
        let area = [Bound::Integer(phone / 10_000_000)];
        // SAFETY: called on a row with a text of two letters, copied before the next step.
        let state = self.sqlite.run(self.prepared[STATE], &area, |functions, row| unsafe {
            let text = (functions.column_blob)(row, 0);
            let length = (functions.column_bytes)(row, 0);
            let mut state = *b"XX";
            if !text.is_null() && length == 2 {
                state.copy_from_slice(std::slice::from_raw_parts(text.cast(), 2));
            }
            state
        })?;
        let state = state.unwrap_or(*b"XX");
        self.number(INSERT, &[Bound::Integer(phone), Bound::Text(&state), Bound::Integer(contestant)])?;
        Ok(0)
    }

    fn write(&mut self, job: &mut Job, key: u32) -> BenchResult<()> {
        let sqlite = self.sqlite;
        let put = self.prepared[PUT];
        job.with_pair(key, |key, value| sqlite.number(put, &[Bound::Text(key), Bound::Blob(value)])).map(drop)
    }

    fn number(&self, place: usize, values: &[Bound<'_>]) -> BenchResult<Option<i64>> {
        self.sqlite.number(self.prepared[place], values)
    }

    fn free(self) {
        for statement in &self.prepared {
            // SAFETY: nothing uses it afterwards.
            unsafe { (self.sqlite.functions.finalize)(statement.0) };
        }
    }
}
