//! INSERT, UPSERT, UPDATE, DELETE, TRUNCATE.

use super::digits::Digits;
use super::folding::Folding;
use super::literal::constant_as;
use super::ordering::{OrderItem, is_null, order_item};
use super::proposals::{Proposal, Types};
use super::scope::{Scope, object_name};
use super::types::{Typed, can_store};
use super::{Binder, place, suggest};
use ferrite_base::{UserError, UserResult};
use ferrite_catalog::{Column, Table, TableKind, ViewOutput};
use ferrite_expr::Expr;
use ferrite_plan::Adoption;
use ferrite_plan::walk::{conjunction, split_conjunction};
use ferrite_plan::{Access, Delete, Insert, InsertSource, Plan, Select, Source, Update};
use ferrite_value::{ColumnType, OwnedValue, SqlType};
use sqlparser::ast;
use std::sync::Arc;

impl Binder<'_> {
    pub(super) fn changeable_table(&self, name: &str, verb: &str) -> UserResult<Arc<Table>> {
        if self.catalog.plain_views.contains_key(name) {
            return Err(UserError::compile("42809", format!("view {name} cannot be {verb}"))
                .with_hint("it is computed when it is read; change the tables that it reads"));
        }
        let table = self.table_named(name)?;
        match table.kind {
            TableKind::Table => Ok(table),
            TableKind::Stream if verb == "inserted into" => Ok(table),
            TableKind::Stream => Err(UserError::compile("42809", format!("stream {name} cannot be {verb}"))),
            TableKind::View => self.changeable_view(table, verb),
        }
    }

    /// A view of a table follows that; of a view of a stream, which has no rows to follow, rows can
    /// be changed and deleted.
    fn changeable_view(&self, table: Arc<Table>, verb: &str) -> UserResult<Arc<Table>> {
        let Table { name, view, .. } = &*table;
        let refused =
            |hint: String| Err(UserError::compile("42809", format!("view {name} cannot be {verb}")).with_hint(hint));
        let source = view.as_ref().and_then(|view| Some((view, self.catalog.table(view.source)?)));
        let Some((view, source)) = source else { return refused("change the tables that it reads".to_owned()) };
        if source.kind != TableKind::Stream {
            return refused(format!("change the table that it is a view of: {}", source.name));
        }
        match verb {
            "inserted into" => refused(format!("insert into the stream {}, and the view follows", source.name)),
            "truncated" => refused(format!("DELETE FROM {name} removes its rows")),
            "deleted from" if view.group_by.is_empty() => {
                refused("it has no GROUP BY, and always one row: UPDATE changes that".to_owned())
            }
            "updated" if table.partitioned_without_column => refused(format!(
                "each partition has a part of each of its rows; group it by the partitioning column of {}",
                source.name
            )),
            _ => Ok(table),
        }
    }

    pub(super) fn insert(&mut self, insert: &ast::Insert, upsert: bool) -> UserResult<Plan> {
        let verb = if upsert { "UPSERT" } else { "INSERT" };
        let refused = [
            (insert.or.is_some() || insert.ignore || insert.replace_into || insert.overwrite, "a conflict clause"),
            (insert.on.is_some(), "ON CONFLICT"),
            (insert.output.is_some(), "OUTPUT"),
            (insert.table_alias.is_some() || insert.insert_alias.is_some(), "an alias"),
            (!insert.assignments.is_empty(), "SET"),
            (insert.partitioned.is_some() || !insert.after_columns.is_empty(), "PARTITION"),
            (!insert.multi_table_into_clauses.is_empty(), "several tables"),
        ];
        if let Some((_, clause)) = refused.into_iter().find(|(present, _)| *present) {
            let error = UserError::not_supported(format!("{clause} in {verb}"));
            return Err(match clause {
                "ON CONFLICT" | "a conflict clause" => {
                    error.with_hint("UPSERT INTO inserts the row, or updates the one with its primary key")
                }
                "OUTPUT" => error.with_hint("write RETURNING at the end"),
                _ => error,
            });
        }
        let ast::TableObject::TableName(name) = &insert.table else {
            return Err(UserError::not_supported(format!("{verb} into anything but a table")));
        };
        let table = self.changeable_table(&object_name(name)?, "inserted into")?;
        let assigned = target_columns(&table, &insert.columns)?;
        if upsert {
            check_upsert(&table, &assigned)?;
        }
        let Some(source) = &insert.source else {
            return Err(UserError::syntax(format!("{verb} needs VALUES or a query")));
        };
        let plain = source.order_by.is_none() && source.limit_clause.is_none() && source.with.is_none();
        let mut plan = match source.body.as_ref() {
            ast::SetExpr::Values(values) if plain => self.insert_values(&table, assigned, values, upsert)?,
            _ => self.insert_query(&table, assigned, source, upsert)?,
        };
        plan.returning = self.returning(&table, None, insert.returning.as_ref())?;
        Ok(Plan::Insert(plan))
    }

    fn insert_values(
        &mut self,
        table: &Arc<Table>,
        assigned: Vec<u16>,
        values: &ast::Values,
        upsert: bool,
    ) -> UserResult<Insert> {
        let slot = self.plan.new_slot()?;
        let mut rows = Vec::with_capacity(values.rows.len());
        for row in &values.rows {
            rows.push(self.value_row(table, &assigned, &row.content, upsert)?);
        }
        let mut rows = rows.into_iter();
        let Some(row) = rows.next() else { return Err(UserError::syntax("VALUES without a row")) };
        let source = InsertSource::Values { more: rows.collect() };
        Ok(Insert { table: table.id, source, row, upsert, assigned, slot, returning: None })
    }

    /// One full-width row: given values in their places, defaults elsewhere.
    fn value_row(
        &mut self,
        table: &Table,
        assigned: &[u16],
        values: &[ast::Expr],
        upsert: bool,
    ) -> UserResult<Vec<Expr>> {
        if values.len() != assigned.len() {
            return Err(width_mismatch(table, assigned.len(), values.len()));
        }
        let mut row = default_row(table, assigned, upsert)?;
        for (position, value) in assigned.iter().zip(values) {
            let column = &table.columns[usize::from(*position)];
            row[usize::from(*position)] = if is_default(value) {
                column.default.clone().unwrap_or_else(Expr::null)
            } else {
                let typed = self.expression(value)?;
                self.stored(typed, column, table).map_err(|error| place::at(error, value))?
            };
        }
        Ok(row)
    }

    fn insert_query(
        &mut self,
        table: &Arc<Table>,
        assigned: Vec<u16>,
        source: &ast::Query,
        upsert: bool,
    ) -> UserResult<Insert> {
        let (query, _) = self.in_frame(|binder| binder.query(source))?;
        if query.columns.len() != assigned.len() {
            return Err(width_mismatch(table, assigned.len(), query.columns.len()));
        }
        let slot = self.plan.new_slot()?;
        self.note_columns_of(slot, &query);
        let mut row = default_row(table, &assigned, upsert)?;
        for (output, position) in assigned.iter().enumerate() {
            let column = &table.columns[usize::from(*position)];
            let sql_type = self.output_type(&query, output);
            let typed = Typed::of(Expr::column(slot, output as u16), sql_type);
            row[usize::from(*position)] = self.stored(typed, column, table)?;
        }
        let source = InsertSource::Query(Box::new(query));
        Ok(Insert { table: table.id, source, row, upsert, assigned, slot, returning: None })
    }

    /// A value as the column stores it: of its kind; constants also within its range.
    pub fn stored(&mut self, mut typed: Typed, column: &Column, table: &Table) -> UserResult<Expr> {
        let to = column.column_type;
        // It is rounded where it is stored, with errors that name the column.
        let adoption = if to.sql_type.is_integer() { Adoption::Stored } else { Adoption::Fixed };
        let takes = Types::that(|from| can_store(from, to.sql_type));
        let mut proposal = Proposal::of(to.without_declaration(), adoption).taking(takes);
        if to.sql_type == SqlType::Varchar {
            proposal = proposal.converting();
        }
        self.propose(&mut typed, proposal);
        let Some(from) = typed.sql_type else { return Ok(typed.expr) };
        if typed.constant().is_some() {
            return stored_constant(&typed, &to, &column.name, &table.name).map(Expr::Constant);
        }
        if from.same_kind(to.sql_type) {
            return Ok(typed.expr);
        }
        if !can_store(from, to.sql_type) {
            return Err(UserError::compile(
                "42804",
                format!("a {from} value cannot be stored in column {} of type {}", column.name, to.sql_type),
            )
            .with_hint("use CAST"));
        }
        self.folding.convert_stored(typed.expr, from, to.sql_type)
    }

    pub(super) fn update(&mut self, update: &ast::Update) -> UserResult<Plan> {
        let refused = [
            (!update.table.joins.is_empty(), "a join before SET"),
            (update.output.is_some(), "OUTPUT in UPDATE"),
            (!update.order_by.is_empty() || update.limit.is_some(), "ORDER BY and LIMIT in UPDATE"),
            (update.or.is_some(), "a conflict clause in UPDATE"),
        ];
        if let Some((_, clause)) = refused.into_iter().find(|(present, _)| *present) {
            let error = UserError::not_supported(clause);
            return Err(match clause {
                "a join before SET" => error.with_hint("write UPDATE t SET c = s.c FROM s WHERE t.id = s.id"),
                "OUTPUT in UPDATE" => error.with_hint("write RETURNING at the end"),
                "ORDER BY and LIMIT in UPDATE" => {
                    error.with_hint("choose the rows in a subquery: WHERE key IN (SELECT key ... ORDER BY ... LIMIT n)")
                }
                _ => error,
            });
        }
        let (table, slot) = self.enter_target(&update.table.relation, "updated")?;
        let result = self.update_in_scope(update, &table, slot);
        self.leave_target();
        let mut plan = result?;
        plan.returning = self.returning(&table, alias_of(&update.table.relation), update.returning.as_ref())?;
        Ok(Plan::Update(plan))
    }

    fn update_in_scope(&mut self, update: &ast::Update, table: &Arc<Table>, slot: u16) -> UserResult<Update> {
        let mut conjuncts = Vec::new();
        let joined = match &update.from {
            None => Vec::new(),
            Some(ast::UpdateTableFromKind::BeforeSet(from) | ast::UpdateTableFromKind::AfterSet(from)) => {
                self.bind_from(from, &mut conjuncts)?
            }
        };
        let mut assignments: Vec<(u16, Expr)> = Vec::with_capacity(update.assignments.len());
        for assignment in &update.assignments {
            let ast::AssignmentTarget::ColumnName(name) = &assignment.target else {
                return Err(UserError::not_supported("SET of several columns at once"));
            };
            let written = name;
            let name = match name.0.as_slice() {
                [_, ast::ObjectNamePart::Identifier(column)] => super::scope::fold_name(column),
                _ => object_name(name)?,
            };
            let position = table
                .column_named(&name)
                .ok_or_else(|| place::at_name(suggest::unknown_column_of(table, &name), written))?;
            if assignments.iter().any(|(other, _)| *other == position) {
                return Err(UserError::compile("42701", format!("column {name} is assigned twice")).about(name));
            }
            if table.partition_column == Some(position) {
                return Err(UserError::compile(
                    "0A000",
                    format!("partitioning column {name} of table {} cannot be updated", table.name),
                )
                .about(name)
                .with_hint("delete the row and insert it with the new value"));
            }
            if is_group(table, position) {
                return Err(UserError::compile(
                    "0A000",
                    format!("column {name} of view {} cannot be updated", table.name),
                )
                .about(name)
                .with_hint(
                    "the view is grouped by it: delete the row, and the next one in the stream begins another",
                ));
            }
            let column = &table.columns[usize::from(position)];
            let value = if is_default(&assignment.value) {
                column.default.clone().unwrap_or_else(Expr::null)
            } else {
                let value = &assignment.value;
                let typed = self.expression(value)?;
                self.stored(typed, column, table).map_err(|error| place::at(error, value))?
            };
            assignments.push((position, value));
        }
        conjuncts.append(&mut self.where_clause(update.selection.as_ref())?);
        let access = Access::Scan;
        let filter = conjunction(conjuncts);
        let joined = joined_block(joined);
        Ok(Update { table: table.id, slot, access, filter, joined, assignments, returning: None })
    }

    pub(super) fn delete(
        &mut self,
        delete: &ast::Delete,
        offset: Option<&ast::Expr>,
        migrate: bool,
    ) -> UserResult<Plan> {
        let verb = if migrate { "MIGRATE" } else { "DELETE" };
        let refused = [
            (delete.output.is_some(), "OUTPUT", "write RETURNING at the end"),
            (!delete.tables.is_empty(), "tables before FROM", "write DELETE FROM t USING s WHERE t.id = s.id"),
            (migrate && delete.using.is_some(), "USING", "choose the rows with WHERE, which may have subqueries"),
            (migrate && delete.returning.is_some(), "RETURNING", "leave it out"),
            (migrate && (!delete.order_by.is_empty() || delete.limit.is_some()), "LIMIT", "choose the rows with WHERE"),
        ];
        if let Some((_, clause, hint)) = refused.into_iter().find(|(present, ..)| *present) {
            return Err(UserError::not_supported(format!("{clause} in {verb}")).with_hint(hint));
        }
        let (ast::FromTable::WithFromKeyword(from) | ast::FromTable::WithoutKeyword(from)) = &delete.from;
        let [from] = from.as_slice() else { return Err(UserError::not_supported("DELETE from several tables")) };
        if !from.joins.is_empty() {
            return Err(UserError::not_supported("a join in DELETE")
                .with_hint("use a subquery: DELETE FROM t WHERE key IN (SELECT ...)"));
        }
        let (table, slot) = self.enter_target(&from.relation, "deleted from")?;
        let result = self.delete_in_scope(delete, offset, &table, slot);
        self.leave_target();
        let mut plan = result?;
        plan.returning = self.returning(&table, alias_of(&from.relation), delete.returning.as_ref())?;
        plan.migrate = migrate;
        if migrate && !table.export.as_ref().is_some_and(|export| export.migrate) {
            return Err(UserError::compile(
                "42809",
                format!("the rows of table {} have nowhere to migrate to", table.name),
            )
            .with_hint("MIGRATE is for tables that are declared with MIGRATE TO TARGET"));
        }
        Ok(Plan::Delete(plan))
    }

    fn delete_in_scope(
        &mut self,
        delete: &ast::Delete,
        offset: Option<&ast::Expr>,
        table: &Arc<Table>,
        slot: u16,
    ) -> UserResult<Delete> {
        let mut conjuncts = Vec::new();
        let joined = match &delete.using {
            None => Vec::new(),
            Some(using) => self.bind_from(using, &mut conjuncts)?,
        };
        let mut order_by = Vec::with_capacity(delete.order_by.len());
        for item in &delete.order_by {
            let OrderItem { expr, descending, nulls_apart } = order_item(item)?;
            let expr = self.expression(expr)?.expr;
            if nulls_apart {
                order_by.push((is_null(expr.clone()), descending));
            }
            order_by.push((expr, descending));
        }
        let limit = delete.limit.as_ref().map(|limit| self.row_count("LIMIT", limit)).transpose()?;
        let offset = offset.map(|offset| self.row_count("OFFSET", offset)).transpose()?;
        if order_by.is_empty() && (limit.is_some() || offset.is_some()) {
            return Err(UserError::compile("42601", "DELETE with LIMIT or OFFSET needs ORDER BY")
                .with_hint("which rows go must not be left open: DELETE FROM t ORDER BY key LIMIT n"));
        }
        if !order_by.is_empty() && limit.is_none() && offset.is_none() {
            return Err(UserError::compile("42601", "DELETE with ORDER BY needs LIMIT or OFFSET"));
        }
        if !joined.is_empty() && !order_by.is_empty() {
            return Err(UserError::not_supported("ORDER BY and LIMIT in DELETE with USING")
                .with_hint("choose the rows in a subquery: WHERE key IN (SELECT key ... ORDER BY ... LIMIT n)"));
        }
        conjuncts.append(&mut self.where_clause(delete.selection.as_ref())?);
        check_whole_groups(table, slot, &conjuncts, limit.is_some() || offset.is_some() || !joined.is_empty())?;
        let access = Access::Scan;
        let filter = conjunction(conjuncts);
        let joined = joined_block(joined);
        let returning = None;
        let migrate = false;
        let table = table.id;
        Ok(Delete { table, slot, access, filter, order_by, limit, offset, joined, returning, migrate })
    }

    fn where_clause(&mut self, selection: Option<&ast::Expr>) -> UserResult<Vec<Expr>> {
        let mut conjuncts = Vec::new();
        if let Some(selection) = selection {
            split_conjunction(self.condition(selection)?, &mut conjuncts);
        }
        Ok(conjuncts)
    }

    /// The table of UPDATE or DELETE, with its columns in reach.
    fn enter_target(&mut self, factor: &ast::TableFactor, verb: &str) -> UserResult<(Arc<Table>, u16)> {
        let ast::TableFactor::Table { name, alias, args: None, .. } = factor else {
            return Err(UserError::not_supported("this kind of table here"));
        };
        let table = self.changeable_table(&object_name(name)?, verb)?;
        let slot = self.plan.new_slot()?;
        self.push_scope(Scope::default());
        let columns = table.columns.iter().map(|column| (column.name.clone(), column.column_type.sql_type)).collect();
        if let Err(error) = self.enter_source(table.name.clone(), slot, columns, alias.as_ref()) {
            self.leave_target();
            return Err(error);
        }
        self.note_migration(&table);
        Ok((table, slot))
    }

    fn leave_target(&mut self) {
        self.pop_scope();
    }
}

/// FROM of an UPDATE and USING of a DELETE. Their conditions are among those of the statement.
fn joined_block(sources: Vec<Source>) -> Option<Box<Select>> {
    let filter = None;
    let aggregation = None;
    let windowing = None;
    let distinct = false;
    let output = Vec::new();
    (!sources.is_empty()).then(|| Box::new(Select { sources, filter, aggregation, windowing, distinct, output }))
}

/// Whether it is a view's column that shows what the view is grouped by.
fn is_group(table: &Table, column: u16) -> bool {
    let output = table.view.as_ref().and_then(|view| view.outputs.get(usize::from(column)));
    matches!(output, Some(ViewOutput::Group(_)))
}

/// Where each partition has a part of each row of a view, rows can be told apart by their groups
/// only.
fn check_whole_groups(table: &Table, slot: u16, conjuncts: &[Expr], limited: bool) -> UserResult<()> {
    if !table.partitioned_without_column {
        return Ok(());
    }
    let of_part = |expr: &Expr| match expr {
        Expr::Column { slot: of, column } => *of == slot && !is_group(table, *column),
        Expr::Subquery { .. } => true,
        _ => false,
    };
    if !limited && !conjuncts.iter().any(|conjunct| conjunct.any(&mut |part| of_part(part))) {
        return Ok(());
    }
    Err(UserError::compile("0A000", format!("rows of view {} can be deleted by its GROUP BY columns only", table.name))
        .with_hint("each partition has a part of each row; group the view by the partitioning column of its stream"))
}

fn alias_of(factor: &ast::TableFactor) -> Option<&ast::TableAlias> {
    match factor {
        ast::TableFactor::Table { alias, .. } => alias.as_ref(),
        _ => None,
    }
}

/// A constant as a column of type `to` stores it.
pub(crate) fn stored_constant(
    typed: &Typed,
    column_type: &ColumnType,
    column: &str,
    table: &str,
) -> UserResult<OwnedValue> {
    let from = typed.decided_type();
    let to = column_type.sql_type;
    let value = typed.constant().ok_or_else(not_a_constant)?;
    if *value == OwnedValue::Null {
        return Ok(OwnedValue::Null);
    }
    let digits = match value {
        OwnedValue::Text(text) if to.is_integer() || to == SqlType::Decimal => Digits::of_text(text),
        _ => typed.digits.clone(),
    };
    if let Some(digits) = digits.filter(|_| can_store(from, to)) {
        return digits.stored(column_type);
    }
    let converted = if from.same_kind(to) {
        value.clone()
    } else if !(can_store(from, to) || (from == SqlType::Varbinary && to.is_integer())) {
        return Err(UserError::compile(
            "42804",
            format!("a {from} value cannot be stored in column {column} of type {to}"),
        ));
    } else if from == SqlType::Varchar && to.is_integer() {
        // Published schemas have defaults such as '0 '.
        let OwnedValue::Text(text) = value else { return Err(UserError::internal("text is text")) };
        let trimmed = Typed::new(Expr::Constant(OwnedValue::Text(text.trim().into())), from);
        constant_of(constant_as(trimmed, to)?)?
    } else if from == SqlType::Varbinary && to.is_integer() {
        constant_of(constant_as(Typed::new(Expr::Constant(value.clone()), from), to)?)?
    } else {
        constant_of(Folding::entire().convert_stored(Expr::Constant(value.clone()), from, to)?)?
    };
    let converted = match (&converted, to.is_integer()) {
        (OwnedValue::Decimal(_), true) => {
            constant_of(Folding::entire().convert_stored(Expr::Constant(converted), SqlType::Decimal, to)?)?
        }
        _ => converted,
    };
    if let (OwnedValue::Integer(number), Some((least, most))) = (&converted, to.integer_range())
        && !(least..=most).contains(number)
    {
        return Err(UserError::compile(
            "22003",
            format!("Constant value overflows/underflows {to} type. for column '{column}' in the table '{table}'"),
        ));
    }
    Ok(converted)
}

fn constant_of(expr: Expr) -> UserResult<OwnedValue> {
    match expr {
        Expr::Constant(value) => Ok(value),
        _ => Err(not_a_constant()),
    }
}

#[cold]
fn not_a_constant() -> UserError {
    UserError::internal("a constant was expected")
}

fn is_default(expr: &ast::Expr) -> bool {
    matches!(expr, ast::Expr::Identifier(ident) if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("DEFAULT"))
}

fn width_mismatch(table: &Table, wanted: usize, given: usize) -> UserError {
    UserError::compile(
        "42601",
        format!("row column count mismatch: {wanted} columns of {} and {given} values", table.name),
    )
    .with_hint(format!("name the columns that the values are for: INSERT INTO {} (...) VALUES (...)", table.name))
}

/// The columns that INSERT names, or all.
fn target_columns(table: &Table, names: &[ast::ObjectName]) -> UserResult<Vec<u16>> {
    if names.is_empty() {
        return Ok((0..table.columns.len() as u16).collect());
    }
    let mut positions = Vec::with_capacity(names.len());
    for written in names {
        let name = object_name(written)?;
        let position = table
            .column_named(&name)
            .ok_or_else(|| place::at_name(suggest::unknown_column_of(table, &name), written))?;
        if positions.contains(&position) {
            return Err(UserError::compile("42701", format!("column {name} is named twice")).about(name));
        }
        positions.push(position);
    }
    Ok(positions)
}

fn check_upsert(table: &Table, assigned: &[u16]) -> UserResult<()> {
    let Some(key) = table.primary_key_index() else {
        return Err(UserError::compile(
            "0A000",
            format!("Unsupported UPSERT table without primary key: {}", table.name),
        ));
    };
    let columns = key.key_columns().unwrap_or_default();
    let column = |position: u16| &table.columns[usize::from(position)];
    match columns.iter().find(|position| !assigned.contains(position) && column(**position).default.is_none()) {
        None => Ok(()),
        Some(missing) => Err(UserError::compile(
            "42601",
            format!("UPSERT must name primary key column {}, which has no default", column(*missing).name),
        )),
    }
}

/// Defaults for all columns. A column that gets no value and must have one is an error already
/// here; but not in an UPSERT, which may find the row there.
fn default_row(table: &Table, assigned: &[u16], upsert: bool) -> UserResult<Vec<Expr>> {
    let mut row = Vec::with_capacity(table.columns.len());
    for (position, column) in table.columns.iter().enumerate() {
        if !upsert && column.default.is_none() && !column.nullable && !assigned.contains(&(position as u16)) {
            return Err(UserError::compile(
                "23502",
                format!("Column {} has no default and is not nullable.", column.name),
            ));
        }
        row.push(column.default.clone().unwrap_or_else(Expr::null));
    }
    Ok(row)
}
