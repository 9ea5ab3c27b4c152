//! One program for all texts of a shape: literals become parameters, where that changes nothing.
//!
//! A `?` is not a literal: its type comes from its context, a constant's comes from itself;
//! constants are folded, matched with indexes and select lists, refused when they do not fit. So a
//! template is never trusted, it is proven: the text is compiled as it is written and with
//! parameters, and both programs must be equal once the parameters are replaced by the constants
//! that the literals mean. Literals for which that fails stay in the text. So do those on whose
//! value the order of a join depends: it must be the same whether such a bound leaves all rows or
//! none.

use crate::compile::adhoc;
use crate::parameterize::Literal;
use crate::parse;
use crate::planner::estimate::Statistics;
use bumpalo::Bump;
use ferrite_base::{TableId, UserResult};
use ferrite_catalog::Catalog;
use ferrite_expr::Expr;
use ferrite_plan::{Program, Routing, SnapshotPlan};
use ferrite_value::{OwnedValue, SqlType};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt::Write;

/// Literals are tried one by one up to here; a text with more of them is parameterized as a whole
/// or not at all.
const TRIED_SINGLY_MAX: usize = 24;

#[derive(Debug)]
pub struct Template {
    pub program: Program,
    /// Where each parameter of the program comes from.
    pub arguments: Box<[Argument]>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Argument {
    /// The next one of the caller's parameters.
    Given,
    /// A literal of the text, as a value of this type.
    Literal { number: u16, sql_type: SqlType },
}

/// A template for `text` with as many of its `literals` parameterized as can be, and which these
/// are. `exact` is the text's program, compiled as it is written.
pub fn find_template(
    catalog: &Catalog,
    statistics: &dyn Statistics,
    text: &str,
    literals: &[Literal],
    exact: &Program,
) -> Option<(Template, Vec<bool>)> {
    let all = vec![true; literals.len()];
    if let Some(template) = template(catalog, statistics, text, literals, &all, exact) {
        return Some((template, all));
    }
    if literals.len() > TRIED_SINGLY_MAX {
        return None;
    }
    let mut fit = vec![false; literals.len()];
    let mut alone = fit.clone();
    for number in 0..literals.len() {
        alone[number] = true;
        fit[number] = template(catalog, statistics, text, literals, &alone, exact).is_some();
        alone[number] = false;
    }
    template(catalog, statistics, text, literals, &fit, exact).map(|template| (template, fit))
}

/// The template with those literals parameterized that `parameterized` marks, if it does what
/// `exact` does.
pub fn template(
    catalog: &Catalog,
    statistics: &dyn Statistics,
    text: &str,
    literals: &[Literal],
    parameterized: &[bool],
    exact: &Program,
) -> Option<Template> {
    let bounds = Bounds::new(statistics, None);
    let (mut program, sources) = compile(catalog, &bounds, text, literals, parameterized)?.ok()?;
    if program.parameters.len() != sources.len() || program.parameters.iter().any(|parameter| parameter.array) {
        return exact_without_literals(program, &sources, exact);
    }
    let arena = Bump::new();
    let mut arguments = Vec::with_capacity(sources.len());
    let mut given = 0;
    // What stands for each parameter when the literals are put back.
    let mut replacements = Vec::with_capacity(sources.len());
    for (source, parameter) in sources.iter().zip(&program.parameters) {
        match source {
            None => {
                let wanted = exact.parameters.get(given)?;
                if wanted.column_type != parameter.column_type || wanted.array != parameter.array {
                    return None;
                }
                replacements.push(format!("{:?}", Expr::Parameter(given as u16)));
                arguments.push(Argument::Given);
                given += 1;
            }
            Some(number) => {
                let sql_type = parameter.column_type.sql_type;
                let value = literals[*number].as_parameter(text, sql_type, &arena)?;
                replacements.push(format!("{:?}", Expr::Constant(crate::bind::types::owned(&value))));
                arguments.push(Argument::Literal { number: *number as u16, sql_type });
            }
        }
    }
    let own = described(&program);
    if given != exact.parameters.len() || put_back(&own, &replacements)? != described(exact) {
        return None;
    }
    let is_literal = |parameter: &u16| sources.get(usize::from(*parameter)).is_some_and(Option::is_some);
    for parameter in bounds.asked.into_inner().into_iter().filter(is_literal) {
        for part in [0.0, 1.0] {
            let bounds = Bounds::new(statistics, Some((parameter, part)));
            let (other, _) = compile(catalog, &bounds, text, literals, parameterized)?.ok()?;
            if described(&other) != own {
                return None;
            }
        }
    }
    let given: Vec<bool> = sources.iter().map(Option::is_none).collect();
    program.as_template(&given);
    Some(Template { program, arguments: arguments.into() })
}

/// Statistics, with what a bound leaves that is one of the parameters. Notes which parameters it is
/// asked about.
struct Bounds<'s> {
    statistics: &'s dyn Statistics,
    assumed: Option<(u16, f64)>,
    asked: RefCell<BTreeSet<u16>>,
}

impl Bounds<'_> {
    fn new(statistics: &dyn Statistics, assumed: Option<(u16, f64)>) -> Bounds<'_> {
        Bounds { statistics, assumed, asked: RefCell::default() }
    }
}

impl Statistics for Bounds<'_> {
    fn rows(&self, table: TableId) -> Option<u64> {
        self.statistics.rows(table)
    }

    fn partitions(&self) -> u64 {
        self.statistics.partitions()
    }

    fn part_between(
        &self,
        table: TableId,
        column: u16,
        lower: Option<&OwnedValue>,
        upper: Option<&OwnedValue>,
    ) -> Option<f64> {
        self.statistics.part_between(table, column, lower, upper)
    }

    fn part_by_parameter(&self, parameter: u16) -> Option<f64> {
        self.asked.borrow_mut().insert(parameter);
        self.assumed.filter(|(assumed, _)| *assumed == parameter).map(|(_, part)| part)
    }
}

/// A text without parameterized literals is its own template, array parameters and all.
fn exact_without_literals(program: Program, sources: &[Option<usize>], exact: &Program) -> Option<Template> {
    let equal = sources.iter().all(Option::is_none)
        && program.parameters.len() == sources.len()
        && described(&program) == described(exact);
    equal.then(|| Template { program, arguments: sources.iter().map(|_| Argument::Given).collect() })
}

/// Compiles `text` with parameters for the parameterized literals. Says for each parameter which
/// literal it was; None for one of the caller's. None as a whole when the tokens are not where the
/// literals are.
#[allow(clippy::type_complexity, reason = "a name would say no more")]
fn compile(
    catalog: &Catalog,
    statistics: &dyn Statistics,
    text: &str,
    literals: &[Literal],
    parameterized: &[bool],
) -> Option<UserResult<(Program, Vec<Option<usize>>)>> {
    let spans = literals
        .iter()
        .enumerate()
        .filter(|(number, _)| parameterized[*number])
        .map(|(number, literal)| (number, literal.span(), literal.is_negative()));
    let (statements, sources) = match parse::parse_parameterized(text, spans)? {
        Ok(parsed) => parsed,
        Err(error) => return Some(Err(error)),
    };
    Some(adhoc::compile_counted(catalog, statistics, &statements, sources.len()).map(|program| (program, sources)))
}

/// All that a program does, in words. What is derived with `Debug` shows every field, so that what
/// plans learn to say later is compared too.
fn described(program: &Program) -> String {
    let Program {
        name: _,
        parameters: _,
        registers,
        slots,
        subqueries,
        common_tables,
        body,
        read_only,
        snapshot_plan,
        routing,
        statements: _,
        external: _,
        variants: _,
    } = program;
    let on_snapshots = match snapshot_plan {
        SnapshotPlan::None => String::new(),
        SnapshotPlan::Same => "same".to_owned(),
        SnapshotPlan::Other(other) => described(other),
    };
    let mut out = String::new();
    let written = match routing {
        // A key that is a parameter here is a constant there.
        Routing::Parameter { index, sql_type } => write!(out, "key {:?} {sql_type:?}", Expr::Parameter(*index)),
        Routing::Constant { value, sql_type } => write!(out, "key {value:?} {sql_type:?}"),
        other => write!(out, "{other:?}"),
    };
    written
        .and_then(|()| {
            write!(out, "|{registers:?}|{slots}|{subqueries:?}|{common_tables:?}|{read_only}|{body:?}|{on_snapshots}")
        })
        .expect("writing to a string does not fail");
    out
}

/// The description with every parameter replaced.
fn put_back(description: &str, replacements: &[String]) -> Option<String> {
    const PARAMETER: &str = "Parameter(";
    let mut out = String::with_capacity(description.len());
    let mut rest = description;
    while let Some(at) = rest.find(PARAMETER) {
        out.push_str(&rest[..at]);
        rest = &rest[at + PARAMETER.len()..];
        let end = rest.find(')')?;
        let number: usize = rest[..end].parse().ok()?;
        out.push_str(replacements.get(number)?);
        rest = &rest[end + 1..];
    }
    out.push_str(rest);
    Some(out)
}
