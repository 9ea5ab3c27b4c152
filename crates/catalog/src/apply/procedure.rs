//! Procedures and roles.

use super::{Draft, already_exists, check, depended_on, invalid};
use crate::objects::{Procedure, ProcedurePartitioning};
use ferrite_base::limits::{PARAMETERS_CEILING, PROCEDURES_MAX, ROLES_MAX};
use ferrite_base::{TableId, UserError, UserResult};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What a role can be given, in the order in which it is shown (wire-protocol 12.11), with what
/// each implies.
const PERMISSIONS: [(&str, &[&str]); 7] = [
    ("admin", &["defaultproc", "defaultprocread", "sql", "sqlread", "allproc", "compoundproc"]),
    ("defaultproc", &["defaultprocread"]),
    ("defaultprocread", &[]),
    ("sql", &["sqlread", "defaultproc", "defaultprocread"]),
    ("sqlread", &["defaultprocread"]),
    ("allproc", &[]),
    ("compoundproc", &[]),
];
/// Older words for some of them.
const PERMISSION_ALIASES: [(&str, &str); 2] = [("sysproc", "admin"), ("adhoc", "sql")];

impl Draft {
    pub(super) fn create_procedure(&mut self, procedure: &Procedure) -> UserResult<()> {
        let name = &procedure.name;
        check::identifier(name)?;
        if name.starts_with('@') {
            return Err(invalid(format!("the name {name} begins with @, as only those of system procedures do")));
        }
        if self.catalog.procedure_named(name).is_some() {
            return Err(already_exists(name));
        }
        if self.catalog.procedures.len() >= PROCEDURES_MAX {
            return Err(UserError::limit(format!("limit of {PROCEDURES_MAX} procedures reached")));
        }
        if let Some(parameters) = &procedure.parameters {
            if parameters.len() > PARAMETERS_CEILING {
                return Err(UserError::limit(format!(
                    "the procedure {name} has {} parameters, more than {PARAMETERS_CEILING}",
                    parameters.len()
                )));
            }
            let mut names = BTreeSet::new();
            if let Some((repeated, _)) = parameters.iter().find(|(parameter, _)| !names.insert(parameter)) {
                return Err(already_exists(repeated));
            }
        }
        if procedure.compound && (procedure.directed || procedure.partitioning.is_some() || procedure.class.is_none()) {
            return Err(invalid(format!(
                "the compound procedure {name} must be a class, and cannot be DIRECTED or PARTITIONED"
            )));
        }
        if let Some(partitioning) = &procedure.partitioning {
            if procedure.directed {
                return Err(invalid(format!("the procedure {name} cannot be both DIRECTED and PARTITIONED")));
            }
            self.check_partitioning(procedure, partitioning)?;
        }
        for role in &procedure.allow_roles {
            if self.catalog.permissions_of(role).is_none() {
                return Err(UserError::ddl_not_found(format!("role {role}")));
            }
        }
        self.catalog.procedures.insert(name.to_uppercase(), Arc::new(procedure.clone()));
        Ok(())
    }

    pub(super) fn partition_procedure(&mut self, name: &str, partitioning: &ProcedurePartitioning) -> UserResult<()> {
        let mut procedure = match self.catalog.procedure_named(name) {
            Some(procedure) => Procedure::clone(procedure),
            None => return Err(UserError::unknown_routine(name).in_ddl()),
        };
        if procedure.directed {
            return Err(invalid(format!("the procedure {name} is DIRECTED and cannot be partitioned")));
        }
        if procedure.compound {
            return Err(invalid(format!("the procedure {name} is COMPOUND and cannot be partitioned")));
        }
        self.check_partitioning(&procedure, partitioning)?;
        procedure.partitioning = Some(partitioning.clone());
        self.catalog.procedures.insert(name.to_uppercase(), Arc::new(procedure));
        Ok(())
    }

    fn check_partitioning(&self, procedure: &Procedure, partitioning: &ProcedurePartitioning) -> UserResult<()> {
        let name = &procedure.name;
        let table = self.table(partitioning.table)?;
        if table.partition_column != Some(partitioning.column) {
            let column = table.columns.get(partitioning.column as usize).map_or("?", |column| &column.name);
            let hint = match table.partition_column {
                Some(column) => format!("{} is partitioned on {}", table.name, table.columns[column as usize].name),
                None => format!("{} is not partitioned: PARTITION TABLE {0} ON COLUMN ... first", table.name),
            };
            return Err(invalid(format!(
                "the procedure {name} is to be partitioned on {}.{column}, which is not a partitioning column",
                table.name
            ))
            .with_hint(hint));
        }
        if let Some(parameters) = &procedure.parameters
            && partitioning.parameter as usize >= parameters.len()
        {
            return Err(invalid(format!(
                "the procedure {name} has {} parameters; its partitioning parameter cannot be number {} (from 0)",
                parameters.len(),
                partitioning.parameter
            )));
        }
        Ok(())
    }

    pub(super) fn drop_procedure(&mut self, name: &str, if_exists: bool) -> UserResult<()> {
        match self.catalog.procedures.remove(&name.to_uppercase()) {
            None if !if_exists => Err(UserError::unknown_routine(name).in_ddl()),
            _ => Ok(()),
        }
    }

    /// Names of the procedures that are partitioned on a table.
    pub(super) fn procedures_on(&self, table: TableId) -> Vec<String> {
        let on_table = |procedure: &&Arc<Procedure>| {
            procedure.partitioning.as_ref().is_some_and(|partitioning| partitioning.table == table)
        };
        self.catalog.procedures.values().filter(on_table).map(|procedure| procedure.name.clone()).collect()
    }

    /// Names of roles and permissions ignore case and are kept in lower case; implied permissions
    /// are kept too.
    pub(super) fn create_role(&mut self, name: &str, permissions: &[String]) -> UserResult<()> {
        check::identifier(name)?;
        if self.catalog.permissions_of(name).is_some() {
            return Err(already_exists(name));
        }
        if self.catalog.roles.len() >= ROLES_MAX {
            return Err(UserError::limit(format!("limit of {ROLES_MAX} roles reached")));
        }
        let mut given = BTreeSet::new();
        for permission in permissions {
            let lower = permission.to_lowercase();
            let word = PERMISSION_ALIASES.iter().find(|(alias, _)| *alias == lower).map_or(&*lower, |(_, word)| word);
            let Some((word, implied)) = PERMISSIONS.iter().find(|(known, _)| *known == word) else {
                let known: Vec<&str> = PERMISSIONS.iter().map(|(known, _)| *known).collect();
                return Err(invalid(format!("{permission} is not a permission"))
                    .with_hint(format!("the permissions are {}", known.join(", "))));
            };
            given.insert(*word);
            given.extend(*implied);
        }
        let in_order = PERMISSIONS.iter().filter(|(word, _)| given.contains(word));
        let permissions = in_order.map(|(word, _)| (*word).to_owned()).collect();
        self.catalog.roles.insert(name.to_lowercase(), permissions);
        Ok(())
    }

    pub(super) fn drop_role(&mut self, name: &str, if_exists: bool) -> UserResult<()> {
        let role = name.to_lowercase();
        if !self.catalog.roles.contains_key(&role) {
            return if if_exists { Ok(()) } else { Err(UserError::unknown_routine(name).in_ddl()) };
        }
        let user = self
            .catalog
            .procedures
            .values()
            .find(|procedure| procedure.allow_roles.iter().any(|allowed| allowed.to_lowercase() == role));
        if let Some(procedure) = user {
            return Err(depended_on(format!("the role {name} is allowed to call the procedure {}", procedure.name)));
        }
        self.catalog.roles.remove(&role);
        Ok(())
    }
}
