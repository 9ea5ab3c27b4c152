//! Statement after statement against the catalog that those before it have left, as a server does
//! it; but one that is refused is written down, and the next one comes.
//!
//! Owns the catalog and the findings. An error that is only the consequence of an earlier one is
//! not told as another: a statement that needs what was refused is not judged. Starts a JVM when
//! procedures are classes, and knows nothing of rows.

use super::names::{excerpt, made_by, mentioned};
use ferrite_base::{SqlLimits, TextPosition, UserError, UserResult};
use ferrite_catalog::{Catalog, Change, PlainView, Procedure, references};
use ferrite_partition::{Compiled, schema, task_check};
use ferrite_plan::Program;
use ferrite_plan::external::{Description, Library, RuntimeHandle};
use ferrite_shell::command::{self, Command};
use ferrite_shell::script::{Item, pieces};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// How deep files may name files.
const FILES_NESTED_MAX: usize = 8;
/// What the shell carries out by itself or sends as a call of a procedure.
const NOT_SQL: [&str; 6] = ["EXEC", "EXECUTE", "EXPLAIN", "EXPLAINJSON", "QUERYSTATS", "SHOW"];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Severity {
    Refused,
    /// It needs what was refused.
    NotJudged,
    Warning,
}

impl Severity {
    pub fn word(self) -> &'static str {
        match self {
            Severity::Refused => "refused",
            Severity::NotJudged => "not judged",
            Severity::Warning => "warning",
        }
    }
}

#[derive(Clone, Debug)]
pub struct Finding {
    pub file: String,
    pub place: Option<TextPosition>,
    pub severity: Severity,
    /// Its beginning.
    pub statement: Option<String>,
    pub message: String,
    pub detail: Option<String>,
    pub hint: Option<String>,
}

/// What was found, in the order of the text.
pub struct Found {
    pub findings: Vec<Finding>,
    pub statements: usize,
    pub classes: usize,
}

impl Found {
    pub fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|finding| finding.severity == severity).count()
    }
}

/// A statement where it stands.
#[derive(Clone, Copy)]
struct Source<'t> {
    file: &'t str,
    text: &'t str,
    start: TextPosition,
}

/// A procedure whose class is looked into when its batch is at its end: a server, too, compiles it
/// with all that the batch makes.
struct Waiting {
    procedure: String,
    file: String,
    text: String,
    start: TextPosition,
}

/// Where something was refused.
struct Lost {
    file: String,
    place: TextPosition,
}

pub struct Engine {
    catalog: Catalog,
    limits: SqlLimits,
    findings: Vec<Finding>,
    statements: usize,
    /// What would be there if its statement had been taken, in upper case.
    lost: BTreeMap<String, Lost>,
    /// Where procedures and tasks were made.
    made: BTreeMap<String, Lost>,
    /// Who looks into the classes; None: nobody.
    java: Option<RuntimeHandle>,
    /// Why they could not be, told once.
    no_java: Option<UserError>,
    changes_rows: Option<Lost>,
    /// Where tables and views were made that an index would help, and the statement.
    slow: BTreeMap<String, (Lost, String)>,
    /// Batches that have begun, one in the other.
    batches: usize,
    waiting: Vec<Waiting>,
}

impl Engine {
    pub fn new(java: Option<RuntimeHandle>) -> Engine {
        Engine {
            catalog: Catalog::default(),
            limits: ferrite_base::Settings::default().sql,
            findings: Vec::new(),
            statements: 0,
            lost: BTreeMap::new(),
            made: BTreeMap::new(),
            java,
            no_java: None,
            changes_rows: None,
            slow: BTreeMap::new(),
            batches: 0,
            waiting: Vec::new(),
        }
    }

    /// Loads a jar.
    pub fn jar(&mut self, name: &str, jar: &[u8]) {
        let before = &self.catalog;
        let load = Change::LoadClasses { jar: jar.into() };
        let loaded =
            before.apply(&load).and_then(|(loaded, _)| loaded.classes.check_unpacked(&before.classes).map(|()| loaded));
        match loaded {
            Ok(loaded) => self.catalog = loaded,
            Err(error) => self.report(Severity::Refused, name, None, None, &error),
        }
    }

    /// A schema file, or a script.
    pub fn script(&mut self, path: &Path, text: &str) {
        self.file(path, text, 0);
    }

    fn file(&mut self, path: &Path, text: &str, nested: usize) {
        let name = path.display().to_string();
        self.pieces(path, &name, text, 1, nested);
    }

    fn pieces(&mut self, path: &Path, name: &str, text: &str, first_line: usize, nested: usize) {
        let lines: Vec<&str> = text.lines().collect();
        for piece in pieces(text) {
            let begins = lines.get(piece.line - 1).copied().unwrap_or_default();
            let line = first_line + piece.line - 1;
            match &piece.item {
                Item::Statement(statement) => {
                    let head = statement.lines().next().unwrap_or_default();
                    let column = begins.find(head).map_or(1, |at| begins[..at].chars().count() + 1);
                    let start = TextPosition { line: line as u64, column: column as u64 };
                    self.statement(Source { file: name, text: statement, start });
                }
                Item::Batch(batch) => self.batch(|engine| engine.pieces(path, name, batch, line + 1, nested)),
                Item::Command(command) => self.command(path, name, command, line, nested),
            }
        }
    }

    fn batch(&mut self, statements: impl FnOnce(&mut Engine)) {
        self.batches += 1;
        statements(self);
        self.batches -= 1;
        if self.batches > 0 {
            return;
        }
        let mut classes = Classes::default();
        for Waiting { procedure, file, text, start } in std::mem::take(&mut self.waiting) {
            let Some(procedure) = self.catalog.procedure_named(&procedure).cloned() else { continue };
            let Some(class) = &procedure.class else { continue };
            for error in self.class_problems(&mut classes, &procedure, class) {
                self.refuse(Source { file: &file, text: &text, start }, &error, false);
            }
        }
    }

    /// What a script tells the shell to do: other files, and classes.
    fn command(&mut self, path: &Path, name: &str, line_text: &str, line: usize, nested: usize) {
        let place = TextPosition { line: line as u64, column: 1 };
        let beside = |named: &str| {
            let folder = path.parent().unwrap_or(Path::new(""));
            [folder.join(named), named.into()].into_iter().find(|path| path.is_file())
        };
        let parsed = command::parse(line_text);
        let whole = matches!(parsed, Ok(Command::Batch(_)));
        match parsed {
            Ok(Command::Include(file) | Command::Batch(file)) => match beside(&file) {
                Some(_) if nested == FILES_NESTED_MAX => {
                    let error = UserError::syntax(format!("{file}: files name files more than {nested} times"));
                    self.report(Severity::Refused, name, Some(place), None, &error);
                }
                Some(found) => match std::fs::read_to_string(&found) {
                    Ok(text) if whole => self.batch(|engine| engine.file(&found, &text, nested + 1)),
                    Ok(text) => self.file(&found, &text, nested + 1),
                    Err(error) => {
                        let error = UserError::syntax(format!("cannot read {file}: {error}"));
                        self.report(Severity::Refused, name, Some(place), None, &error);
                    }
                },
                None => {
                    let error = UserError::syntax(format!("there is no file {file}"));
                    self.report(Severity::Refused, name, Some(place), None, &error);
                }
            },
            Ok(Command::LoadClasses(file)) => match beside(&file).and_then(|path| std::fs::read(path).ok()) {
                Some(jar) => self.jar(&file, &jar),
                // It was named already, if there are classes.
                None if !self.catalog.classes.is_empty() => {}
                None => {
                    let error = UserError::syntax(format!("there is no file {file}, and no jar was named"))
                        .with_hint("name the jar behind the schema: ferrite check SCHEMA.sql APP.jar");
                    self.report(Severity::Warning, name, Some(place), None, &error);
                }
            },
            Ok(Command::RemoveClasses(pattern)) if !pattern.contains(['\'', ';']) => {
                self.statement(Source { file: name, text: &format!("REMOVE CLASSES '{pattern}'"), start: place });
            }
            // Printing, listing and the like.
            _ => {}
        }
    }

    fn statement(&mut self, source: Source<'_>) {
        let first = source.text.split_whitespace().next().unwrap_or_default().to_uppercase();
        if NOT_SQL.contains(&&*first) {
            return;
        }
        self.statements += 1;
        let statements = match ferrite_sql::parse_batch(source.text) {
            Ok(statements) => statements,
            Err(error) => return self.refuse(source, &error, true),
        };
        for statement in &statements {
            let outcome = if statement.is_ddl() {
                self.change_schema(source, statement)
            } else {
                let lost = || Lost { file: source.file.to_owned(), place: source.start };
                self.changes_rows.get_or_insert_with(lost);
                let alone = std::slice::from_ref(statement);
                ferrite_sql::compile_adhoc(&self.catalog, alone, statement.parameters()).map(drop)
            };
            if let Err(error) = outcome {
                self.refuse(source, &error, false);
            }
        }
    }

    /// The catalog behind the statement becomes the catalog.
    fn change_schema(&mut self, source: Source<'_>, statement: &ferrite_sql::Statement) -> UserResult<()> {
        let step = schema::step(&self.catalog, statement, &self.limits)?;
        for warning in step.warnings {
            self.warn(source.file, Some(source.start), Some(excerpt(source.text)), warning);
        }
        let before = std::mem::replace(&mut self.catalog, step.catalog);
        for name in ferrite_sql::missing_indexes(&self.catalog).into_keys() {
            let made = || (Lost { file: source.file.to_owned(), place: source.start }, excerpt(source.text));
            self.slow.entry(name).or_insert_with(made);
        }
        for task in self.catalog.tasks.keys().filter(|name| !before.tasks.contains_key(*name)) {
            self.made.insert(task.clone(), Lost { file: source.file.to_owned(), place: source.start });
        }
        for view in self.catalog.plain_views.keys().filter(|name| !before.plain_views.contains_key(*name)) {
            let made = Lost { file: source.file.to_owned(), place: source.start };
            self.made.insert(format!("view {view}"), made);
        }
        let mut classes = Classes::default();
        let procedures: Vec<Arc<Procedure>> = self.catalog.procedures.values().cloned().collect();
        for procedure in procedures {
            if before.procedure_named(&procedure.name).is_some_and(|known| Arc::ptr_eq(known, &procedure)) {
                continue;
            }
            self.made.insert(procedure.name.clone(), Lost { file: source.file.to_owned(), place: source.start });
            let Some(class) = &procedure.class else { continue };
            if self.batches == 0 {
                for error in self.class_problems(&mut classes, &procedure, class) {
                    self.refuse(source, &error, false);
                }
            } else if self.waiting.iter().all(|waiting| waiting.procedure != procedure.name) {
                self.waiting.push(Waiting {
                    procedure: procedure.name.clone(),
                    file: source.file.to_owned(),
                    text: source.text.to_owned(),
                    start: source.start,
                });
            }
        }
        if let Some(java) = &self.java {
            for function in
                self.catalog.functions.values().filter(|function| !before.functions.contains_key(&function.name))
            {
                match classes.library(java, &self.catalog) {
                    Ok(library) => match library.function(function) {
                        Ok(code) => function.link(code),
                        Err(error) => {
                            let error = error.in_context(format_args!("function {}", function.name));
                            return Err(error);
                        }
                    },
                    Err(error) => drop(self.no_java.get_or_insert(error)),
                }
            }
        }
        Ok(())
    }

    /// What is wrong with a procedure's class: with itself, or with each of its statements.
    fn class_problems(&mut self, classes: &mut Classes, procedure: &Procedure, class: &str) -> Vec<UserError> {
        let Some(java) = &self.java else {
            return Vec::new();
        };
        let library = match classes.library(java, &self.catalog) {
            Ok(library) => library,
            Err(error) => {
                self.no_java.get_or_insert(error);
                return Vec::new();
            }
        };
        let description = match library.describe(class) {
            Ok(description) => description,
            Err(error) => return vec![error],
        };
        let alone = |statements: &[(String, String)]| -> UserResult<Program> {
            let description = Description { statements: statements.to_vec(), ..description.clone() };
            ferrite_sql::compile_class(&self.catalog, procedure, &description)
        };
        // Without statements first: what is wrong with the procedure itself would be told for each
        // of them.
        if let Err(error) = alone(&[]) {
            return vec![error];
        }
        let each = description.statements.iter().map(|statement| alone(std::slice::from_ref(statement)));
        // Their places are in other texts than the schema's.
        each.filter_map(Result::err).map(|error| error.moved(|_| None)).collect()
    }

    /// `unread`: the statement could not even be read.
    fn refuse(&mut self, source: Source<'_>, error: &UserError, unread: bool) {
        let made = made_by(source.text);
        let lost = |name: &String| self.lost.get(name).filter(|_| !made.contains(name));
        let subject =
            error.subject().map(|subject| subject.rsplit([' ', '.']).next().unwrap_or(subject).to_uppercase());
        let needs = subject
            .filter(|name| lost(name).is_some())
            .or_else(|| mentioned(error.message()).find(|name| lost(name).is_some()))
            .filter(|_| !unread && error.message().contains("not found"));
        match needs {
            Some(name) => {
                let Lost { file, place } = &self.lost[&name];
                let words = format!("it needs {name}, which was refused ({file}:{})", place.line);
                let error = UserError::syntax(words);
                self.report(Severity::NotJudged, source.file, Some(source.start), Some(excerpt(source.text)), &error);
            }
            None => {
                let place = error.place().map_or(source.start, |place| place.after(source.start));
                self.report(Severity::Refused, source.file, Some(place), Some(excerpt(source.text)), error);
            }
        }
        for name in made {
            let lost = Lost { file: source.file.to_owned(), place: source.start };
            self.lost.entry(name).or_insert(lost);
        }
    }

    fn warn(&mut self, file: &str, place: Option<TextPosition>, statement: Option<String>, message: String) {
        let finding = Finding {
            file: file.to_owned(),
            place,
            severity: Severity::Warning,
            statement,
            message,
            detail: None,
            hint: None,
        };
        self.findings.push(finding);
    }

    fn report(
        &mut self,
        severity: Severity,
        file: &str,
        place: Option<TextPosition>,
        statement: Option<String>,
        error: &UserError,
    ) {
        self.findings.push(Finding {
            file: file.to_owned(),
            place,
            severity,
            statement,
            message: error.message().to_owned(),
            detail: error.detail().map(str::to_owned),
            hint: error.hint().map(str::to_owned),
        });
    }

    /// Whether procedures take what their tasks give them. Those whose class was not looked into
    /// take anything.
    fn check_tasks(&mut self) {
        if self.catalog.tasks.is_empty() {
            return;
        }
        // What a JVM would be started for has been looked at already, or shall not be.
        let mut catalog = self.catalog.clone();
        catalog.functions.clear();
        let of_classes = |procedure: &Arc<Procedure>| procedure.class.is_some();
        catalog.procedures.retain(|_, procedure| !of_classes(procedure));
        let Ok(compiled) = Compiled::recovered(Arc::new(catalog), &Default::default()) else { return };
        for (task, error) in task_check::misfits(&compiled) {
            let made = self.made.get(&task).map(|made| (made.file.clone(), made.place));
            let (file, place) = made.unzip();
            let reason = error.message().strip_prefix("VOLTDB ERROR: ").unwrap_or(error.message());
            let error = UserError::syntax(format!("task {task}: {reason}"))
                .with_hint("the values after WITH are the procedure's parameters, in their order");
            self.report(Severity::Refused, &file.unwrap_or_default(), place, None, &error);
        }
    }

    /// What shows only when all is there.
    pub fn finish(mut self) -> Found {
        let procedures: Vec<Arc<Procedure>> = self.catalog.procedures.values().cloned().collect();
        for procedure in procedures.iter().filter(|procedure| procedure.class.is_none()) {
            if let Err(error) = ferrite_sql::compile_procedure(&self.catalog, procedure) {
                let made = self.made.get(&procedure.name).map(|made| (made.file.clone(), made.place));
                let (file, place) = made.unzip();
                let error = error
                    .moved(|_| None)
                    .in_context(format_args!("procedure {} does not fit what comes after it", procedure.name));
                self.report(Severity::Refused, &file.unwrap_or_default(), place, None, &error);
            }
        }
        let views: Vec<Arc<PlainView>> = self.catalog.plain_views.values().cloned().collect();
        for view in views {
            if let Err(error) = ferrite_sql::view_columns(&self.catalog, &view) {
                let error = error
                    .moved(|_| None)
                    .in_context(format_args!("view {} does not fit what comes after it", view.name));
                let made = self.made.get(&format!("view {}", view.name));
                let (file, place) = made.map(|made| (made.file.clone(), made.place)).unzip();
                self.report(Severity::Refused, &file.unwrap_or_default(), place, None, &error);
            }
        }
        self.check_tasks();
        let classes = self.catalog.classes.class_names().count();
        let named: BTreeSet<String> = procedures
            .iter()
            .filter_map(|procedure| procedure.class.clone())
            .chain(self.catalog.functions.values().map(|function| function.class.clone()))
            .collect();
        for warning in references::missing(&self.catalog, named, true) {
            self.warn("classes", None, None, warning);
        }
        for (name, advice) in ferrite_sql::missing_indexes(&self.catalog) {
            if let Some((Lost { file, place }, statement)) = self.slow.remove(&name) {
                self.warn(&file, Some(place), Some(statement), advice);
            }
        }
        if let Some(error) = self.no_java.take() {
            let error = error.in_context("the SQL in Java procedures was not looked at");
            self.report(Severity::Warning, "classes", None, None, &error);
        }
        if let Some(Lost { file, place }) = self.changes_rows.take() {
            let error = UserError::syntax("--schema accepts DDL only").with_hint("run the script with ferrite sql -f");
            self.report(Severity::Warning, &file, Some(place), None, &error);
        }
        Found { findings: self.findings, statements: self.statements, classes }
    }
}

/// The loaded classes, once they are needed.
#[derive(Default)]
struct Classes(Option<Arc<dyn Library>>);

impl Classes {
    fn library(&mut self, java: &RuntimeHandle, catalog: &Catalog) -> UserResult<Arc<dyn Library>> {
        if let Some(library) = &self.0 {
            return Ok(Arc::clone(library));
        }
        Ok(Arc::clone(self.0.insert(java.load(&catalog.classes)?)))
    }
}
