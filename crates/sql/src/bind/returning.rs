//! RETURNING: what INSERT, UPSERT, UPDATE and DELETE answer of the rows that they changed.

use super::Binder;
use super::scope::Scope;
use ferrite_base::{UserError, UserResult};
use ferrite_catalog::Table;
use ferrite_expr::Expr;
use ferrite_plan::{OutputColumn, Returning};
use sqlparser::ast;

impl Binder<'_> {
    /// Binds RETURNING over a row of the changed table. What an UPDATE joins with is not in reach:
    /// its row is another's.
    pub fn returning(
        &mut self,
        table: &Table,
        alias: Option<&ast::TableAlias>,
        items: Option<&Vec<ast::SelectItem>>,
    ) -> UserResult<Option<Box<Returning>>> {
        let Some(items) = items else { return Ok(None) };
        let slot = self.plan.new_slot()?;
        self.push_scope(Scope::default());
        let bound = self.returning_in_scope(table, alias, items, slot);
        self.pop_scope();
        bound.map(Some)
    }

    fn returning_in_scope(
        &mut self,
        table: &Table,
        alias: Option<&ast::TableAlias>,
        items: &[ast::SelectItem],
        slot: u16,
    ) -> UserResult<Box<Returning>> {
        let columns = table.columns.iter().map(|column| (column.name.clone(), column.column_type.sql_type)).collect();
        self.enter_source(table.name.clone(), slot, columns, alias)?;
        self.note_migration(table);
        if let Some(scope) = self.scope() {
            scope.star = (0..table.columns.len()).map(|column| (0, column)).collect();
        }
        let outputs = self.projection(items)?;
        let mut returning = Returning { slot, columns: Vec::new(), output: Vec::new() };
        for output in outputs {
            let typed = output.typed;
            if typed.expr.any(&mut |inner| matches!(inner, Expr::Subquery { .. })) {
                return Err(UserError::not_supported("a subquery in RETURNING")
                    .with_hint("a SELECT beside the change in one procedure answers it in the same transaction"));
            }
            returning.columns.push(OutputColumn { name: output.name, sql_type: typed.decided_type() });
            returning.output.push(typed.expr);
        }
        Ok(Box::new(returning))
    }
}
