//! WITH: common table expressions, also recursive ones.
//!
//! One that is used once is bound where it is used, like a derived table. One that is used several
//! times is computed once per execution of its statement, unless it refers to rows outside its
//! WITH.

use super::Binder;
use super::from::bound_source;
use super::ordering::Tail;
use super::scope::fold_name;
use ferrite_base::{UserError, UserResult, limits};
use ferrite_plan::{Input, OutputColumn, Query, QueryBody, SetOperator, Source};
use ferrite_value::SqlType;
use sqlparser::ast;
use std::rc::Rc;

/// A WITH of more tables than this computes each of them once.
const MERGED_TABLES_MAX: usize = 16;

/// A name that WITH has brought into reach.
#[derive(Clone)]
pub(crate) struct CommonName {
    name: String,
    definition: Definition,
    /// How many scopes were in reach at its WITH, and in the arguments of how many aggregates it
    /// stands.
    scopes: usize,
    arguments: usize,
}

#[derive(Clone)]
enum Definition {
    /// Bound anew at each use.
    Inline {
        table: Rc<ast::Cte>,
        recursive: bool,
    },
    Shared {
        table: u16,
        columns: Vec<(String, SqlType)>,
    },
    /// The recursion that is being bound; `frame` is the depth at which its step is.
    Working {
        slot: u16,
        columns: Vec<(String, SqlType)>,
        frame: usize,
        uses: usize,
    },
}

impl CommonName {
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Binder<'_> {
    /// Brings the tables of WITH into reach. The caller takes them out again.
    pub fn with_clause(&mut self, with: &ast::With, query: &ast::Query) -> UserResult<()> {
        if with.cte_tables.len() > limits::COMMON_TABLES_MAX {
            return Err(UserError::limit(format!("WITH has more than {} tables", limits::COMMON_TABLES_MAX)));
        }
        if self.common_names.is_empty() {
            self.common_bound = 0;
        }
        // Long chains would nest deeply if each were merged into the next.
        let merging = with.cte_tables.len() <= MERGED_TABLES_MAX;
        let text = query.to_string().to_uppercase();
        let first = self.common_names.len();
        for table in &with.cte_tables {
            let name = fold_name(&table.alias.name);
            if self.common_names[first..].iter().any(|other| other.name == name) {
                return Err(UserError::compile("42712", format!("WITH names {name} twice")));
            }
            if table.from.is_some() {
                return Err(UserError::not_supported("FROM in WITH"));
            }
            let recursive = with.recursive;
            let own = if recursive { uses(&name, &table.query.to_string().to_uppercase()) } else { 0 };
            // Its definition is one of the places where the name stands.
            let used = uses(&name, &text).saturating_sub(own + 1);
            let inline = Definition::Inline { table: Rc::new(table.clone()), recursive };
            let definition = if used == 1 && merging {
                inline
            } else {
                let (query, correlated) = self.common_body(table, recursive)?;
                if correlated { inline } else { self.shared(query)? }
            };
            let scopes = self.scope_depth();
            let arguments = self.arguments.len();
            self.common_names.push(CommonName { name, definition, scopes, arguments });
        }
        Ok(())
    }

    fn shared(&mut self, query: Query) -> UserResult<Definition> {
        let table = u16::try_from(self.plan.common_tables.len())
            .map_err(|_| UserError::limit("too many tables of WITH in one procedure"))?;
        let columns = query.columns.iter().map(|column| (column.name.clone(), column.sql_type)).collect();
        self.plan.common_tables.push(query);
        Ok(Definition::Shared { table, columns })
    }

    /// The innermost table of WITH that has the name.
    pub fn common_table_named(&self, name: &str) -> Option<usize> {
        self.common_names.iter().rposition(|common| common.name == name)
    }

    pub fn common_source(
        &mut self,
        position: usize,
        name: &str,
        alias: Option<&ast::TableAlias>,
    ) -> UserResult<Source> {
        let frames = self.frames.len();
        let common = &mut self.common_names[position];
        let scopes = common.scopes;
        let arguments = common.arguments;
        if let Definition::Working { uses, .. } = &mut common.definition {
            *uses += 1;
        }
        let (input, columns) = match common.definition.clone() {
            Definition::Inline { table, recursive } => {
                // It sees what was in reach at its WITH: outer scopes and the tables before it.
                let later = self.common_names.split_off(position);
                let bound = self.at_its_with(scopes, arguments, |binder| {
                    binder.deeper(|binder| binder.common_body(&table, recursive))
                });
                self.common_names.extend(later);
                let (query, correlated) = bound?;
                return self.derived_source(query, correlated, name.to_owned(), alias);
            }
            Definition::Shared { table, columns } => (Input::Common { table }, columns),
            Definition::Working { slot, columns, frame, .. } => {
                // What stands between changes from round to round.
                for between in (frame + 1)..frames {
                    self.frames[between].correlated = true;
                }
                (Input::Working { slot }, columns)
            }
        };
        let slot = self.plan.new_slot()?;
        match &input {
            Input::Working { slot: working } => self.note_columns_of_slot(slot, *working),
            Input::Common { table } => self.note_columns_of_common(slot, *table),
            _ => {}
        }
        self.enter_source(name.to_owned(), slot, columns, alias)?;
        Ok(bound_source(slot, input))
    }

    /// The query of one table of WITH, its columns renamed, and whether it refers to rows outside.
    fn common_body(&mut self, table: &ast::Cte, recursive: bool) -> UserResult<(Query, bool)> {
        let name = fold_name(&table.alias.name);
        // Those that refer to rows outside are bound for each use, and their uses multiply.
        self.common_bound += 1;
        if self.common_bound > limits::COMMON_TABLES_MAX {
            return Err(UserError::limit(format!(
                "tables of WITH are used in more than {} places",
                limits::COMMON_TABLES_MAX
            )));
        }
        let (mut query, correlated) = match table.query.body.as_ref() {
            ast::SetExpr::SetOperation { op: ast::SetOperator::Union, set_quantifier, left, right } if recursive => {
                let all = *set_quantifier == ast::SetQuantifier::All;
                self.in_frame(|binder| binder.with_recursion(table, &name, all, left, right))?
            }
            _ => self.subquery_body(&table.query)?,
        };
        rename(&name, &table.alias, &mut query.columns)?;
        Ok((query, correlated))
    }

    fn with_recursion(
        &mut self,
        table: &ast::Cte,
        name: &str,
        all: bool,
        first: &ast::SetExpr,
        step: &ast::SetExpr,
    ) -> UserResult<Query> {
        let names = self.common_names.len();
        if let Some(with) = &table.query.with {
            self.with_clause(with, &table.query)?;
        }
        let tail = self.tail(&table.query)?;
        let result =
            self.recursion(table, name, all, first, step).and_then(|query| self.finish_by_columns(query, tail));
        self.common_names.truncate(names);
        result
    }

    fn recursion(
        &mut self,
        table: &ast::Cte,
        name: &str,
        all: bool,
        first: &ast::SetExpr,
        step: &ast::SetExpr,
    ) -> UserResult<Query> {
        let mut first = self.deeper(|binder| binder.set_expr(first, Tail::default()))?;
        let written = first.columns.clone();
        rename(name, &table.alias, &mut first.columns)?;
        for column in &mut first.columns {
            // Integers compute as BIGINT, so those of later rounds are.
            if column.sql_type.is_integer() {
                column.sql_type = SqlType::Bigint;
            }
        }
        let columns = first.columns.iter().map(|column| (column.name.clone(), column.sql_type)).collect();
        let working = self.plan.new_slot()?;
        self.note_columns_of(working, &first);
        let definition = Definition::Working { slot: working, columns, frame: self.frames.len(), uses: 0 };
        let scopes = self.scope_depth();
        let arguments = self.arguments.len();
        let place = self.common_names.len();
        self.common_names.push(CommonName { name: name.to_owned(), definition, scopes, arguments });
        let bound = self.in_frame(|binder| binder.deeper(|binder| binder.set_expr(step, Tail::default())));
        let used = match self.common_names.get(place) {
            Some(CommonName { definition: Definition::Working { uses, .. }, .. }) => *uses,
            _ => 0,
        };
        self.common_names.truncate(place);
        let (mut step, _) = bound?;
        if used == 0 {
            first.columns = written;
            return self.combined(SetOperator::Union, all, first, step);
        }
        if used > 1 {
            return Err(UserError::compile(
                "42P19",
                format!("the recursive table {name} stands twice in its own query"),
            )
            .with_hint("a recursion may refer to itself once, in the part after UNION"));
        }
        if first.columns.len() != step.columns.len() {
            return Err(UserError::compile(
                "42601",
                "both sides of a set operation must have the same number of columns",
            ));
        }
        self.step_as_first(name, &first, &mut step)?;
        let columns = first.columns.clone();
        let first = Box::new(first);
        let step = Box::new(step);
        Ok(Query::of(QueryBody::Recursive { working, all, first, step }, columns))
    }

    /// The step of a recursive table returns columns of the types that its first part has.
    fn step_as_first(&mut self, name: &str, first: &Query, step: &mut Query) -> UserResult<()> {
        for position in 0..first.columns.len() {
            let common = self.common_output([first, &*step], position)?;
            let OutputColumn { name: column, sql_type } = &first.columns[position];
            let learned = common.filter(|_| self.is_open_output(first, position));
            let wanted = self.output_type(first, position).or(learned).unwrap_or(*sql_type);
            let given = step.columns[position].sql_type;
            if common.is_some_and(|common| !common.same_kind(wanted)) {
                return Err(UserError::compile(
                    "42804",
                    format!(
                        "column {column} of the recursive table {name} is {wanted} at first, and {given} in its step"
                    ),
                )
                .with_hint(format!("CAST it to {given} in the first part")));
            }
            self.cast_output(step, position, wanted)?;
        }
        Ok(())
    }
}

/// `WITH name (column, ...)`
fn rename(name: &str, alias: &ast::TableAlias, columns: &mut [OutputColumn]) -> UserResult<()> {
    if alias.columns.len() > columns.len() {
        return Err(UserError::compile(
            "42601",
            format!("{name} has {} columns, not {}", columns.len(), alias.columns.len()),
        ));
    }
    for (column, given) in columns.iter_mut().zip(&alias.columns) {
        column.name = fold_name(&given.name);
    }
    Ok(())
}

/// How often `name` stands in the text as a word that does not qualify another. At least as often
/// as it is used as a table: too high an answer only means that a table is computed once where it
/// could have been merged into its use.
fn uses(name: &str, text: &str) -> usize {
    let name = name.to_uppercase();
    let part_of_word = |character: char| character.is_alphanumeric() || character == '_' || character == '$';
    text.match_indices(&name)
        .filter(|(start, _)| {
            let before = text[..*start].chars().next_back();
            let mut after = text[start + name.len()..].chars();
            let next = match after.next() {
                Some('"') => after.next(),
                other => other,
            };
            !before.is_some_and(|before| part_of_word(before) || before == '.')
                && !next.is_some_and(|next| part_of_word(next) || next == '.')
        })
        .count()
}
