//! What a program was compiled from, kept beside it for parameters of other types.

use super::adhoc;
use super::procedure;
use crate::parse::statement::Statement;
use crate::planner::context::Reach;
use ferrite_base::{UserError, UserResult};
use ferrite_catalog::{Catalog, Procedure};
use ferrite_plan::{Presets, Program, Recompile};
use std::sync::Arc;

#[derive(Debug)]
pub struct OfProcedure(pub Procedure);

impl Recompile for OfProcedure {
    fn reaches_all(&self) -> bool {
        false
    }

    fn compile(&self, _: &Program, catalog: &Catalog, presets: &Presets, _: bool) -> UserResult<Program> {
        procedure::compile_with(catalog, &self.0, presets)
    }
}

#[derive(Debug)]
pub struct OfStatements(pub Arc<[Statement]>, pub Reach);

impl Recompile for OfStatements {
    fn reaches_all(&self) -> bool {
        true
    }

    fn compile(
        &self,
        program: &Program,
        catalog: &Catalog,
        presets: &Presets,
        everywhere: bool,
    ) -> UserResult<Program> {
        let OfStatements(statements, reach) = self;
        if everywhere {
            return adhoc::compile_with(catalog, statements, presets, Reach::All);
        }
        let variant = adhoc::compile_with(catalog, statements, presets, *reach)?;
        if *reach == Reach::Local && variant.routing != program.routing {
            return Err(UserError::internal("the variant reaches other partitions than it is called on"));
        }
        Ok(variant)
    }
}
