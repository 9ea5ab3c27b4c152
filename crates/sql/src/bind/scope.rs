//! Names in reach: columns of FROM, variables and parameters of a procedure, aliases of the SELECT
//! list.

use super::Binder;
use super::types::Typed;
use ferrite_base::{UserError, UserResult, earlier};
use ferrite_expr::{Aggregate, Expr};
use ferrite_plan::Window;
use ferrite_value::{ColumnType, SqlType};
use sqlparser::ast;

/// A name folded to upper case unless quoted.
pub(crate) fn fold_name(ident: &ast::Ident) -> String {
    match ident.quote_style {
        None => ident.value.to_uppercase(),
        Some(_) => ident.value.clone(),
    }
}

/// The single part of an object's name; schemas and catalogs there are none.
pub(crate) fn object_name(name: &ast::ObjectName) -> UserResult<String> {
    match name.0.as_slice() {
        [ast::ObjectNamePart::Identifier(ident)] => Ok(fold_name(ident)),
        _ => Err(UserError::unknown_table(name)),
    }
}

/// What a block is grouped by.
#[derive(Clone, Default)]
pub(crate) struct Groups {
    /// Each once.
    pub keys: Vec<Expr>,
    /// As [`ferrite_plan::Aggregation::sets`].
    pub sets: Vec<u64>,
    /// GROUP BY is there, though it may name nothing: `GROUP BY ()`.
    pub grouped: bool,
}

/// The window functions of a block while it is bound.
#[derive(Default)]
pub(crate) struct WindowScope {
    pub allowed: bool,
    /// The slot of the results, once there is one.
    pub slot: Option<u16>,
    pub windows: Vec<Window>,
    /// WINDOW name AS (...), in the order of the text.
    pub named: Vec<(String, ast::WindowSpec)>,
    pub results: u16,
}

/// What a FROM clause brings into reach.
#[derive(Default)]
pub(crate) struct Scope {
    pub sources: Vec<ScopeSource>,
    /// What `*` shows, in order: source and column.
    pub star: Vec<(usize, usize)>,
    /// Window functions may be called here, and are gathered.
    pub windows: WindowScope,
    /// In HAVING: what the block is grouped by. A column that is not in it yields to an alias of
    /// its name.
    pub having_groups: Option<Vec<Expr>>,
    /// Aggregates may be called here, and are gathered.
    pub aggregates: AggregateScope,
    /// Output names that ORDER BY, GROUP BY and HAVING may use where no column has the name.
    pub aliases: Vec<(String, Typed)>,
    /// Items of the SELECT list, by position, that are grouped by and bound already.
    pub grouped_items: Vec<(usize, Typed)>,
}

impl Scope {
    /// The names of the source and its column that an expression is.
    fn place_of(&self, column: &Expr) -> Option<(&str, &str)> {
        self.sources.iter().find_map(|source| {
            let position = (0..source.columns.len())
                .find(|position| source.unqualified(*position) == *column || source.column(*position) == *column)?;
            Some((source.name.as_str(), source.columns[position].name.as_str()))
        })
    }
}

#[derive(Clone, Debug)]
pub(crate) struct ScopeSource {
    pub name: String,
    pub slot: u16,
    /// Where its columns begin in the row of the slot.
    pub first_column: u16,
    pub columns: Vec<ScopeColumn>,
    /// A table with MIGRATE: its rows may be asked whether they are MIGRATING.
    pub migrates: bool,
}

impl ScopeSource {
    pub fn column(&self, position: usize) -> Expr {
        Expr::column(self.slot, self.first_column + position as u16)
    }

    /// What the column's name means without a qualifier.
    pub fn unqualified(&self, position: usize) -> Expr {
        self.columns[position].merged_with.clone().unwrap_or_else(|| self.column(position))
    }
}

#[derive(Clone, Debug)]
pub(crate) struct ScopeColumn {
    pub name: String,
    pub sql_type: SqlType,
    /// The side of JOIN ... USING that may be NULL: reached only by its qualified name.
    pub hidden: bool,
    /// What the name means without a qualifier after FULL JOIN ... USING: the side that is not
    /// NULL.
    pub merged_with: Option<Expr>,
}

impl ScopeColumn {
    pub fn new(name: String, sql_type: SqlType) -> ScopeColumn {
        ScopeColumn { name, sql_type, hidden: false, merged_with: None }
    }
}

#[derive(Default)]
pub(crate) struct AggregateScope {
    pub allowed: bool,
    /// The slot of the group's row, once there is one.
    pub slot: Option<u16>,
    /// Columns of the group's row before the aggregates.
    pub group_count: u16,
    /// What the block is grouped by.
    pub groups: Groups,
    pub found: Vec<Aggregate>,
    /// Subqueries, by their numbers, inside arguments.
    pub inside: Vec<std::ops::Range<usize>>,
}

/// Whose columns the argument of an aggregate names.
pub(crate) struct ArgumentColumns {
    /// Scopes that are in reach where the aggregate stands; the last is its block's.
    depth: usize,
    local: bool,
    outer: bool,
}

impl ArgumentColumns {
    pub fn of(depth: usize) -> ArgumentColumns {
        ArgumentColumns { depth, local: false, outer: false }
    }

    fn names(&mut self, scope: usize) {
        self.outer |= scope + 1 < self.depth;
        self.local |= scope + 1 == self.depth;
    }

    /// The standard has such an aggregate computed by the outer query.
    pub fn are_outer(&self) -> bool {
        self.outer && !self.local
    }
}

/// A parameter or variable of a procedure.
#[derive(Clone, Debug)]
pub(crate) struct Variable {
    pub name: String,
    /// The name of the FOR row that it is a column of.
    pub row: Option<String>,
    pub expr: Expr,
    pub column_type: ColumnType,
}

enum Found {
    Column { scope: usize, typed: Typed },
    Nothing,
}

impl Binder<'_> {
    pub fn push_scope(&mut self, scope: Scope) {
        self.scopes.push(scope);
    }

    /// How many scopes are in reach.
    pub fn scope_depth(&self) -> usize {
        self.scopes.len()
    }

    /// Takes all scopes but the outer `kept` out of reach, until they are shown again.
    pub fn hide_scopes(&mut self, kept: usize) -> Vec<Scope> {
        self.scopes.split_off(kept.min(self.scopes.len()))
    }

    pub fn show_scopes(&mut self, hidden: Vec<Scope>) {
        self.scopes.extend(hidden);
    }

    pub fn pop_scope(&mut self) -> Scope {
        self.scopes.pop().unwrap_or_default()
    }

    /// The innermost scope.
    pub fn scope(&mut self) -> Option<&mut Scope> {
        self.scopes.last_mut()
    }

    pub fn resolve(&mut self, qualifier: Option<&str>, name: &str) -> UserResult<Typed> {
        let found = self.resolve_column(qualifier, name)?;
        let variable = self.resolve_variable(qualifier, name)?;
        match (found, variable) {
            (Found::Column { .. }, Some(_)) if qualifier.is_none() => Err(UserError::compile(
                "42702",
                format!("ambiguous name {name}: it is a column here and a variable or parameter of the procedure"),
            )
            .with_hint(format!("qualify the column with its table's name, or rename the variable {name}"))),
            (Found::Column { scope, typed }, _) => {
                if let Some(alias) = self.alias_in_having(qualifier, name, scope, &typed.expr) {
                    return Ok(alias);
                }
                for frame in &mut self.frames {
                    frame.correlated |= scope < frame.first_scope;
                }
                self.arguments.iter_mut().for_each(|columns| columns.names(scope));
                let levels = self.scopes.len() - scope;
                self.views.name_means(|| format!("{levels} {name} {:?}", self.scopes[scope].place_of(&typed.expr)));
                Ok(typed)
            }
            (Found::Nothing, Some(variable)) => Ok(variable),
            (Found::Nothing, None) => self.resolve_alias(qualifier, name),
        }
    }

    fn resolve_column(&self, qualifier: Option<&str>, name: &str) -> UserResult<Found> {
        for (level, scope) in self.scopes.iter().enumerate().rev() {
            let mut found = Found::Nothing;
            let mut qualifier_known = false;
            for source in &scope.sources {
                if qualifier.is_some_and(|qualifier| qualifier != source.name) {
                    continue;
                }
                qualifier_known |= qualifier.is_some();
                let named = |column: &ScopeColumn| column.name == name && (qualifier.is_some() || !column.hidden);
                let Some(position) = source.columns.iter().position(named) else { continue };
                let again = !earlier::values() && source.columns[position + 1..].iter().any(named);
                if again {
                    return Err(UserError::compile("42702", format!("column reference {name} is ambiguous"))
                        .with_hint(format!("give the columns that are called {name} in {} other names", source.name)));
                }
                if matches!(found, Found::Column { .. }) {
                    return Err(UserError::compile("42702", format!("column reference {name} is ambiguous"))
                        .with_hint("qualify it with the table's name or alias"));
                }
                let expr = if qualifier.is_some() { source.column(position) } else { source.unqualified(position) };
                let typed = self.read(expr, source.columns[position].sql_type);
                found = Found::Column { scope: level, typed };
            }
            if matches!(found, Found::Column { .. }) {
                return Ok(found);
            }
            if qualifier_known {
                // An inner table hides an outer one of the same name.
                return Err(self.unknown_column(qualifier, name));
            }
        }
        Ok(Found::Nothing)
    }

    /// In HAVING a column that the block is not grouped by means nothing; an alias of its name
    /// does.
    fn alias_in_having(&self, qualifier: Option<&str>, name: &str, level: usize, column: &Expr) -> Option<Typed> {
        let scope = self.scopes.get(level)?;
        let groups = scope.having_groups.as_ref()?;
        let free = qualifier.is_none() && level + 1 == self.scopes.len() && scope.aggregates.allowed;
        if !free || groups.contains(column) {
            return None;
        }
        scope.aliases.iter().find(|(alias, _)| alias == name).map(|(_, typed)| typed.clone())
    }

    fn resolve_variable(&self, qualifier: Option<&str>, name: &str) -> UserResult<Option<Typed>> {
        let mut matching =
            self.variables.iter().rev().filter(|variable| {
                variable.name == name && (qualifier.is_none() || variable.row.as_deref() == qualifier)
            });
        Ok(matching.next().map(|variable| Typed::new(variable.expr.clone(), variable.column_type.sql_type)))
    }

    fn resolve_alias(&mut self, qualifier: Option<&str>, name: &str) -> UserResult<Typed> {
        let alias = match (qualifier, self.scopes.last()) {
            (None, Some(scope)) => scope.aliases.iter().find(|(alias, _)| alias == name),
            _ => None,
        };
        match (alias, qualifier) {
            (Some((_, typed)), _) => {
                let typed = typed.clone();
                self.note_columns(&typed.expr);
                Ok(typed)
            }
            (None, qualifier) => Err(self.unknown_column(qualifier, name)),
        }
    }

    /// The aggregates around an alias have the columns that it stands for.
    fn note_columns(&mut self, expr: &Expr) {
        if self.arguments.is_empty() {
            return;
        }
        if let Expr::Column { slot, .. } = expr {
            let has_slot = |scope: &Scope| scope.sources.iter().any(|source| source.slot == *slot);
            if let Some(scope) = self.scopes.iter().rposition(has_slot) {
                self.arguments.iter_mut().for_each(|columns| columns.names(scope));
            }
        }
        expr.for_each_operand(|operand| self.note_columns(operand));
    }

    /// Binds a definition of WITH where only the outer `scopes` are in reach. Its columns count as
    /// those of the aggregates in whose arguments its WITH stands, which are the outer `arguments`,
    /// and of no others.
    pub fn at_its_with<T>(&mut self, scopes: usize, arguments: usize, bind: impl FnOnce(&mut Self) -> T) -> T {
        let inner_scopes = self.hide_scopes(scopes);
        let inner_arguments = self.arguments.split_off(arguments.min(self.arguments.len()));
        let bound = bind(self);
        self.arguments.extend(inner_arguments);
        self.show_scopes(inner_scopes);
        bound
    }

    /// A column of the row that MIGRATING is about.
    pub fn migrating_rows(&mut self) -> UserResult<Expr> {
        for (level, scope) in self.scopes.iter().enumerate().rev() {
            let mut migrating = scope.sources.iter().filter(|source| source.migrates);
            match (migrating.next(), migrating.next()) {
                (Some(source), None) => {
                    let column = source.column(0);
                    for frame in &mut self.frames {
                        frame.correlated |= level < frame.first_scope;
                    }
                    self.arguments.iter_mut().for_each(|columns| columns.names(level));
                    return Ok(column);
                }
                (Some(one), Some(other)) => {
                    return Err(UserError::compile(
                        "42702",
                        format!("MIGRATING is ambiguous: rows of {} and of {} may migrate", one.name, other.name),
                    )
                    .with_hint("use a derived table for one of them"));
                }
                _ => {}
            }
        }
        Err(UserError::compile("42809", "MIGRATING is about rows of a table that is declared with MIGRATE TO")
            .with_hint("no table here is"))
    }

    /// The variable that SET, INTO or a loop assigns.
    pub fn register_named(&self, name: &str) -> UserResult<(u16, ColumnType)> {
        let variable = self.variables.iter().rev().find(|variable| variable.row.is_none() && variable.name == name);
        match variable {
            Some(Variable { expr: Expr::Register(register), column_type, .. }) => Ok((*register, *column_type)),
            Some(_) => Err(UserError::compile("42601", format!("{name} is a parameter and cannot be assigned"))
                .with_hint(format!("DECLARE a variable and assign that instead of {name}"))),
            None => Err(UserError::unknown_column(name).with_hint("variables are declared with DECLARE name TYPE;")),
        }
    }
}
