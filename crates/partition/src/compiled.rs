//! One catalog version with everything compiled against it: what a call's name resolves to.

use crate::prefetch::{self, Prefetch};
use ferrite_base::{ProcedureId, UserError, UserResult, earlier};
use ferrite_catalog::{Catalog, Procedure};
use ferrite_plan::external::{Library, RuntimeHandle};
use ferrite_plan::{Program, is_short};
use std::collections::HashMap;
use std::fmt::{self, Write};
use std::hash::{DefaultHasher, Hasher};
use std::sync::{Arc, OnceLock};

/// Immutable; shared by network threads, partitions and the coordinator.
pub struct Compiled {
    pub catalog: Arc<Catalog>,
    /// Loads its classes, and those of the versions to come.
    runtime: RuntimeHandle,
    programs: Vec<Arc<Program>>,
    /// For each program, the look-ups that can be seen coming.
    prefetches: Vec<Vec<Prefetch>>,
    /// For each program, whether its calls are certainly short.
    short: Vec<bool>,
    /// Declared procedures, by exact name.
    exact: HashMap<String, ProcedureId>,
    /// Default procedures (`TABLE.insert`), by upper-cased name.
    defaults: HashMap<String, ProcedureId>,
    /// A hash of the catalog, once it is asked for.
    fingerprint: OnceLock<u64>,
}

/// Hashes what is written.
#[derive(Default)]
struct TextHasher(DefaultHasher);

impl Write for TextHasher {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

/// Whether both are the same version of the same schema. Each group of a node compiles its own; a
/// call that was routed by one group's is the same call for another.
#[inline]
pub fn is_same_schema(one: &Arc<Compiled>, other: &Arc<Compiled>) -> bool {
    Arc::ptr_eq(one, other) || one.catalog.version == other.catalog.version && have_same_catalog(one, other)
}

#[cold]
fn have_same_catalog(one: &Compiled, other: &Compiled) -> bool {
    one.fingerprint() == other.fingerprint()
}

impl Compiled {
    /// Compiles every procedure of `catalog`. Fails with the names of the procedures that do not
    /// fit it.
    pub fn new(catalog: Arc<Catalog>, runtime: &RuntimeHandle) -> UserResult<Compiled> {
        Self::compile(catalog, runtime, None, false)
    }

    /// [`Compiled::new`] of the next version after this one. Procedures that stay as they are were
    /// accepted before.
    pub fn next(&self, catalog: Arc<Catalog>) -> UserResult<Compiled> {
        Self::compile(catalog, &self.runtime, Some(&self.catalog), false)
    }

    /// [`Compiled::new`] for a database that is opened: a procedure that does not compile, or whose
    /// Java class cannot be loaded here (no JDK, say), does not keep the data shut; its calls are
    /// answered with the reason.
    pub fn recovered(catalog: Arc<Catalog>, runtime: &RuntimeHandle) -> UserResult<Compiled> {
        let before = Arc::clone(&catalog);
        Self::compile(catalog, runtime, Some(&before), true)
    }

    /// [`Compiled::new`] of a version after this one that was accepted elsewhere: a procedure that
    /// cannot be had here does not hold up the data.
    pub(crate) fn accepted(&self, catalog: Arc<Catalog>) -> UserResult<Compiled> {
        Self::recovered(catalog, &self.runtime)
    }

    fn compile(
        catalog: Arc<Catalog>,
        runtime: &RuntimeHandle,
        before: Option<&Catalog>,
        recovered: bool,
    ) -> UserResult<Compiled> {
        let mut compiled = Compiled {
            catalog,
            runtime: runtime.clone(),
            programs: Vec::new(),
            prefetches: Vec::new(),
            short: Vec::new(),
            exact: HashMap::new(),
            defaults: HashMap::new(),
            fingerprint: OnceLock::new(),
        };
        let mut misfits: Vec<&str> = Vec::new();
        let mut first_error = None;
        let catalog = compiled.catalog.clone();
        let mut library = Loader { catalog: &catalog, runtime, library: None };
        for function in catalog.functions.values().filter(|function| !function.is_linked()) {
            let code = library.loaded().and_then(|library| library.function(function));
            match code {
                Ok(code) => function.link(code),
                Err(error) if recovered => function.cannot_be_linked(error),
                Err(error) => return Err(error.in_context(format_args!("function {}", function.name))),
            }
        }
        for procedure in catalog.procedures.values() {
            let known = before.and_then(|before| before.procedure_named(&procedure.name));
            let accepted = known.is_some_and(|known| Arc::ptr_eq(known, procedure));
            let mut compile = || match &procedure.class {
                None => ferrite_sql::compile_procedure(&catalog, procedure),
                Some(class) => compile_class(&catalog, procedure, class, &mut library),
            };
            let mut program = compile();
            if program.is_err() && accepted {
                // Its text may have constants that are refused today.
                program = earlier::with(compile).or(program);
            }
            match program {
                Err(error) if recovered => {
                    let id = compiled.add(ferrite_sql::broken_class(procedure, error));
                    compiled.exact.insert(procedure.name.clone(), id);
                }
                Ok(program) => {
                    let id = compiled.add(program);
                    compiled.exact.insert(procedure.name.clone(), id);
                }
                Err(error) => {
                    misfits.push(&procedure.name);
                    first_error.get_or_insert(error);
                }
            }
        }
        if let Some(error) = first_error {
            let word = if misfits.len() == 1 { "procedure" } else { "procedures" };
            // Its place is one in the procedure, not in what the caller sent.
            let error = error.moved(|_| None);
            return Err(error.in_context(format_args!("{word} {}", misfits.join(", "))));
        }
        for program in ferrite_sql::default_procedures(&compiled.catalog) {
            let folded = program.name.to_uppercase();
            let id = compiled.add(program);
            compiled.defaults.insert(folded, id);
        }
        Ok(compiled)
    }

    fn add(&mut self, program: Program) -> ProcedureId {
        let id = ProcedureId(self.programs.len() as u32);
        self.prefetches.push(prefetch::prefetches(&program, &self.catalog));
        self.short.push(is_short(&program, &self.catalog));
        self.programs.push(Arc::new(program));
        id
    }

    fn fingerprint(&self) -> u64 {
        *self.fingerprint.get_or_init(|| {
            let mut hasher = TextHasher::default();
            // Shows every field.
            write!(hasher, "{:?}", self.catalog).expect("every text can be hashed");
            hasher.0.finish()
        })
    }

    pub fn program(&self, id: ProcedureId) -> &Arc<Program> {
        &self.programs[id.index()]
    }

    /// Whether each call of the program is short, if its parameters have the declared types.
    pub fn is_short(&self, id: ProcedureId) -> bool {
        self.short[id.index()]
    }

    /// What the calls of each program are known to look up, by their numbers.
    pub(crate) fn prefetches(&self) -> &[Vec<Prefetch>] {
        &self.prefetches
    }

    /// In the order of their numbers.
    pub(crate) fn programs(&self) -> impl Iterator<Item = &Arc<Program>> {
        self.programs.iter()
    }

    /// Declared procedures match exactly, default procedures without regard to case (wire-protocol
    /// 12).
    pub fn find(&self, name: &str) -> Option<ProcedureId> {
        if let Some(id) = self.exact.get(name) {
            return Some(*id);
        }
        if name.contains('.') { self.defaults.get(&name.to_uppercase()).copied() } else { None }
    }

    /// The program by that name, or the protocol's answer for an unknown one.
    pub fn require(&self, name: &str) -> UserResult<ProcedureId> {
        self.find(name).ok_or_else(|| ferrite_wire::failure::unknown_procedure(name))
    }

    /// All programs that clients can call, sorted by name.
    pub fn programs_by_name(&self) -> Vec<&Arc<Program>> {
        let mut programs: Vec<_> = self.programs.iter().collect();
        programs.sort_by(|a, b| a.name.cmp(&b.name));
        programs
    }
}

fn compile_class(
    catalog: &Catalog,
    procedure: &Procedure,
    class: &str,
    library: &mut Loader<'_>,
) -> UserResult<Program> {
    if !catalog.classes.has_class(class) {
        return Err(UserError::ddl("42704", format!("class {class} is not among the loaded classes"))
            .with_hint("drop the procedure first, or leave its class in the jar"));
    }
    ferrite_sql::compile_class(catalog, procedure, &library.loaded()?.describe(class)?)
}

/// The classes are loaded when the first procedure or function needs them.
struct Loader<'c> {
    catalog: &'c Catalog,
    runtime: &'c RuntimeHandle,
    library: Option<Arc<dyn Library>>,
}

impl Loader<'_> {
    fn loaded(&mut self) -> UserResult<&Arc<dyn Library>> {
        match &mut self.library {
            Some(library) => Ok(library),
            library => Ok(library.insert(self.runtime.load(&self.catalog.classes)?)),
        }
    }
}
