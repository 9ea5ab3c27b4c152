//! Views that are computed when they are read: a query with a name, bound where it is read like a
//! derived table.
//!
//! Owns what such a view may be, and what its text comes to mean when the schema changes. A view's
//! text knows nothing of what is around it: neither names nor variables. Each `*` is written out
//! when the view is made, so that its columns stay what they were.

use super::Binder;
use super::projection::implied_name;
use crate::parse::cursor::parse_with;
use crate::parse::statement::CreateView;
use crate::parse::tokens::{self, Lexeme};
use crate::planner::context::Reach;
use ferrite_base::limits::{STATEMENT_VIEW_BYTES_MAX, STATEMENT_VIEWS_MAX, VIEW_EXPANSIONS_MAX, VIEW_NESTING_MAX};
use ferrite_base::{UserError, UserResult};
use ferrite_catalog::{Catalog, Change, Parsed, PlainView, TableKind};
use ferrite_plan::{Query, Source};
use ferrite_value::SqlType;
use sqlparser::ast;
use sqlparser::keywords::ALL_KEYWORDS;
use sqlparser::tokenizer::Location;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The plain views in what is being bound.
#[derive(Default)]
pub(crate) struct Views {
    /// How deep in views what is being bound stands.
    depth: usize,
    /// Views so far, each place counted.
    count: usize,
    bytes: usize,
    /// Of a view's definition, what is asked of it later.
    met: Option<Box<Met>>,
}

/// What the definition of a view has met.
#[derive(Default)]
struct Met {
    /// Tables and views, also inside other views.
    reads: BTreeSet<String>,
    /// What each name in the view's own text means, in the order in which they were looked up.
    names: Vec<String>,
    stars: Vec<Star>,
}

/// A `*` in a view's text, and the columns that it stands for.
struct Star {
    start: Location,
    end: Location,
    columns: String,
}

impl Views {
    fn enter(&mut self, bytes: usize) -> UserResult<()> {
        self.count += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        let too_many = match self.met {
            _ if self.depth == VIEW_NESTING_MAX => {
                format!("views are nested more than {VIEW_NESTING_MAX} deep")
            }
            Some(_) if self.count > VIEW_EXPANSIONS_MAX => {
                format!("the view is made of more than {VIEW_EXPANSIONS_MAX} views when it is written out")
            }
            None if self.count > STATEMENT_VIEWS_MAX => {
                format!("more than {STATEMENT_VIEWS_MAX} views are read when they are written out")
            }
            None if self.bytes > STATEMENT_VIEW_BYTES_MAX => {
                format!(
                    "the views that are read have more than {STATEMENT_VIEW_BYTES_MAX} bytes when they are written out"
                )
            }
            _ => {
                self.depth += 1;
                return Ok(());
            }
        };
        Err(UserError::limit(too_many)
            .with_detail("a view that is computed when it is read counts for each place where it stands")
            .with_hint("read tables or materialized views in place of some of them"))
    }

    pub fn reads(&mut self, name: &str) {
        if let Some(met) = &mut self.met {
            met.reads.insert(name.to_owned());
        }
    }

    /// A name in a view's own text has a meaning, which `meaning` tells.
    pub fn name_means(&mut self, meaning: impl FnOnce() -> String) {
        if let (1, Some(met)) = (self.depth, &mut self.met) {
            met.names.push(meaning());
        }
    }
}

/// CREATE VIEW of a query that cannot be kept up as rows change, for `reason`.
pub(crate) fn instead(
    catalog: &Catalog,
    view: &CreateView,
    reason: UserError,
    warnings: &mut Vec<String>,
) -> UserResult<Change> {
    let CreateView { name, query, text, .. } = view;
    match definition(catalog, query, text) {
        // What is wrong with the query is wrong in either form; but only views that are kept up can
        // be of streams.
        Err(error) if error.message().ends_with("cannot be queried") => return Err(reason),
        Err(error) => return Err(error),
        Ok(_) if view.materialized => {
            return Err(reason.with_hint("CREATE VIEW makes a view that is computed when it is read"));
        }
        Ok(_) => {}
    }
    let mut text = text.clone();
    let mut parsed = parsed(&text)?;
    let mut found = definition(catalog, &parsed, &text)?;
    if !found.met.stars.is_empty() {
        text = written_out(&text, &found.met.stars)?;
        parsed = self::parsed(&text)?;
        found = definition(catalog, &parsed, &text)?;
    }
    let columns = match &view.columns {
        Some(columns) => columns.clone(),
        None => implied_columns(name, &parsed, &found).map_err(|error| {
            error.with_detail(format!("it would be computed when it is read: {}", why(name, &reason)))
        })?,
    };
    check_columns(name, &columns, found.columns.len())?;
    warnings.push(format!("view {name} is computed when it is read: {}", why(name, &reason)));
    let view = PlainView { name: name.clone(), columns, text, reads: found.met.reads, parsed: Parsed::new(parsed) };
    Ok(Change::CreatePlainView { view })
}

/// The reason in words about views of its kind.
fn why(name: &str, reason: &UserError) -> String {
    let message = reason.message().trim_end_matches('.');
    match message.strip_prefix(&format!("Materialized view \"{name}\" ")) {
        Some(rest) => format!("a materialized view {rest}"),
        None => message.to_owned(),
    }
}

fn implied_columns(name: &str, query: &ast::Query, found: &Definition) -> UserResult<Vec<String>> {
    if let Some(position) = unnamed(&query.body) {
        return Err(UserError::ddl("42601", format!("column {} of view {name} has no name", position + 1))
            .with_hint("name it with AS, or all of them: CREATE VIEW v (a, b, ...) AS ..."));
    }
    Ok(found.columns.iter().map(|(name, _)| name.clone()).collect())
}

/// The first output column that has no name.
fn unnamed(mut body: &ast::SetExpr) -> Option<usize> {
    loop {
        body = match body {
            ast::SetExpr::SetOperation { left, .. } => left,
            ast::SetExpr::Query(query) => &query.body,
            ast::SetExpr::Select(select) => {
                let unnamed = |item: &ast::SelectItem| match item {
                    ast::SelectItem::UnnamedExpr(expr) => implied_name(expr).is_none(),
                    _ => false,
                };
                return select.projection.iter().position(unnamed);
            }
            ast::SetExpr::Values(_) => return Some(0),
            _ => return None,
        }
    }
}

fn check_columns(view: &str, names: &[String], count: usize) -> UserResult<()> {
    if names.len() != count {
        let message = format!("view {view} names {} columns, but its query has {count}", names.len());
        return Err(UserError::ddl("42601", message));
    }
    match names.iter().enumerate().find(|(position, name)| names[..*position].contains(name)) {
        Some((_, name)) => Err(UserError::ddl("42701", format!("object name already exists: {name}"))
            .about(name.as_str())
            .with_hint("give each column a name of its own: CREATE VIEW v (a, b, ...) AS ...")),
        None => Ok(()),
    }
}

fn parsed(text: &str) -> UserResult<ast::Query> {
    let query = parse_with(&tokens::lex(text)?, &mut 0, |parser| parser.parse_query())?;
    Ok(*query)
}

/// The text with the columns of each star in its place.
fn written_out(text: &str, stars: &[Star]) -> UserResult<String> {
    let lexemes = tokens::lex(text)?;
    let place = |found: Option<&Lexeme>| {
        found.map(|lexeme| (lexeme.start, lexeme.end)).ok_or_else(|| UserError::internal("a * that is not in its text"))
    };
    let mut places = Vec::with_capacity(stars.len());
    for star in stars {
        let (start, _) = place(lexemes.iter().find(|lexeme| lexeme.token.span.start == star.start))?;
        let (_, end) = place(lexemes.iter().find(|lexeme| lexeme.token.span.end == star.end))?;
        places.push((start, end, &star.columns));
    }
    places.sort_unstable();
    // What is bound in several places is met several times.
    places.dedup_by_key(|(start, _, _)| *start);
    let mut out = String::with_capacity(text.len() * 2);
    let mut next = 0;
    for (start, end, columns) in places {
        out.push_str(text.get(next..start).unwrap_or_default());
        out.push_str(columns);
        next = end;
    }
    out.push_str(text.get(next..).unwrap_or_default());
    Ok(out)
}

/// A name as it must be written to be read as it is.
fn quoted(name: &str) -> String {
    let plain = name.starts_with(|first: char| first.is_ascii_uppercase())
        && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
        && ALL_KEYWORDS.binary_search(&name).is_err();
    if plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

struct Definition {
    columns: Vec<(String, SqlType)>,
    met: Met,
}

/// Binds a view's query on its own, as deep as where a statement reads it.
fn definition(catalog: &Catalog, query: &ast::Query, text: &str) -> UserResult<Definition> {
    let mut binder = Binder::new(catalog, Reach::All);
    binder.views.met = Some(Box::default());
    let bound = binder.deeper(|binder| binder.deeper(|binder| binder.view_query(query, text)))?;
    let columns = bound.columns.into_iter().map(|column| (column.name, column.sql_type)).collect();
    Ok(Definition { columns, met: binder.views.met.map(|met| *met).unwrap_or_default() })
}

fn definition_of(catalog: &Catalog, view: &PlainView) -> UserResult<Definition> {
    let mut found = definition(catalog, query_of(view)?, &view.text)?;
    check_columns(&view.name, &view.columns, found.columns.len())?;
    for ((name, _), given) in found.columns.iter_mut().zip(&view.columns) {
        name.clone_from(given);
    }
    Ok(found)
}

fn query_of(view: &PlainView) -> UserResult<&ast::Query> {
    view.parsed.get::<ast::Query>().ok_or_else(|| UserError::internal("a view that was not parsed"))
}

/// What a plain view shows under this catalog: its columns, with their types.
pub fn view_columns(catalog: &Catalog, view: &PlainView) -> UserResult<Vec<(String, SqlType)>> {
    Ok(definition_of(catalog, view)?.columns)
}

/// Whether all plain views of the catalog behind a change still mean what they did before it.
pub fn check_views(before: &Catalog, after: &Catalog) -> UserResult<()> {
    let functions = before.functions.len() != after.functions.len()
        || before
            .functions
            .iter()
            .any(|(name, function)| after.functions.get(name).is_none_or(|other| !Arc::ptr_eq(function, other)));
    for view in after.plain_views.values() {
        let old = before.plain_views.get(&view.name).filter(|old| Arc::ptr_eq(old, view));
        let unchanged = |name: &String| match (before.tables.get(name), after.tables.get(name)) {
            (Some(table), Some(other)) => Arc::ptr_eq(table, other),
            _ => before
                .plain_views
                .get(name)
                .is_some_and(|view| after.plain_views.get(name).is_some_and(|other| Arc::ptr_eq(view, other))),
        };
        if old.is_some() && !functions && view.reads.iter().all(unchanged) {
            continue;
        }
        let misfit = |error: UserError| {
            UserError::ddl("2BP01", format!("dependent objects exist: view {} ({})", view.name, error.message()))
                .about(view.name.as_str())
                .with_hint("drop the view, and create it again after the change; all of it can be one text")
        };
        let now = definition_of(after, view).map_err(misfit)?;
        let was = old.and_then(|old| definition_of(before, old).ok());
        if was.is_some_and(|was| was.met.names != now.met.names) {
            return Err(misfit(UserError::ddl("42702", "a name in it would mean another column")));
        }
    }
    Ok(())
}

/// The change, and the end of the plain views that do not fit what it leaves.
pub(crate) fn without_misfits(catalog: &Catalog, change: Change) -> UserResult<Change> {
    if catalog.plain_views.is_empty() {
        return Ok(change);
    }
    let next = catalog.apply(&change)?.0;
    let mut changes = vec![change];
    let misfits = next.plain_views.values().filter(|view| definition_of(&next, view).is_err());
    for view in misfits.filter(|view| definition_of(catalog, view).is_ok()) {
        let name = view.name.clone();
        let kind = TableKind::View;
        changes.push(Change::DropTable { name, if_exists: true, cascade: true, kind });
    }
    Ok(Change::Several(changes))
}

impl Binder<'_> {
    pub(super) fn plain_view_source(&mut self, name: &str, alias: Option<&ast::TableAlias>) -> UserResult<Source> {
        let view = self.catalog.plain_views.get(name).ok_or_else(|| UserError::unknown_table(name))?;
        self.views.reads(name);
        let bound = query_of(view).and_then(|query| self.view_query(query, &view.text));
        // A place in the view's text is none in the statement that reads it.
        let mut query = bound.map_err(|error| match error.kind() {
            ferrite_base::ErrorKind::Limit => error,
            _ => error.moved(|_| None).in_context(format_args!("view {name}")),
        })?;
        check_columns(name, &view.columns, query.columns.len())?;
        for (column, given) in query.columns.iter_mut().zip(&view.columns) {
            column.name.clone_from(given);
        }
        query.view = Some(name.into());
        self.derived_source(query, false, name.to_owned(), alias)
    }

    fn view_query(&mut self, query: &ast::Query, text: &str) -> UserResult<Query> {
        self.views.enter(text.len())?;
        let bound = self.apart(|binder| binder.subquery_body(query));
        self.views.depth -= 1;
        Ok(bound?.0)
    }

    /// Binds what knows nothing of what is around it: no names in reach, no variables.
    fn apart<T>(&mut self, bind: impl FnOnce(&mut Self) -> UserResult<T>) -> UserResult<T> {
        let scopes = std::mem::take(&mut self.scopes);
        let frames = std::mem::take(&mut self.frames);
        let arguments = std::mem::take(&mut self.arguments);
        let common_names = std::mem::take(&mut self.common_names);
        let variables = std::mem::take(&mut self.variables);
        let common_bound = self.common_bound;
        let streams_allowed = self.streams_allowed;
        self.streams_allowed = false;
        let result = bind(self);
        (self.scopes, self.frames, self.common_names, self.variables) = (scopes, frames, common_names, variables);
        self.arguments = arguments;
        (self.common_bound, self.streams_allowed) = (common_bound, streams_allowed);
        result
    }

    /// A `*` of a SELECT, which stands between these places; with a qualifier only that source's.
    pub(super) fn note_star(&mut self, start: Location, end: Location, qualifier: Option<&str>) {
        if self.views.depth != 1 || self.views.met.is_none() || start.line == 0 {
            return;
        }
        let Some(scope) = self.scope() else { return };
        let mut columns = Vec::new();
        let mut add = |source: &super::scope::ScopeSource, position: usize| {
            let column = quoted(&source.columns[position].name);
            // What a join by USING makes of both sides has no qualifier.
            let alone = source.name.is_empty() || qualifier.is_none() && source.columns[position].merged_with.is_some();
            columns.push(if alone { column } else { format!("{}.{column}", quoted(&source.name)) });
        };
        match qualifier {
            None => scope.star.iter().for_each(|(source, position)| add(&scope.sources[*source], *position)),
            Some(wanted) => {
                for source in scope.sources.iter().filter(|source| source.name == wanted) {
                    (0..source.columns.len()).for_each(|position| add(source, position));
                }
            }
        }
        let columns = columns.join(", ");
        if let Some(met) = &mut self.views.met {
            met.stars.push(Star { start, end, columns });
        }
    }
}
