//! Calls that change the schema: statements, classes, and tables whose contents change places. The
//! coordinators of all groups make the changes.

use super::{Handled, System};
use crate::connection::{is_admin, trusted_elsewhere};
use crate::groups_change::ChangeRequest;
use crate::routes;
use ferrite_base::{GroupId, SqlLimits, UserError, UserResult};
use ferrite_partition::coordinator::Job;
use ferrite_partition::{Compiled, Reply};
use ferrite_value::Value;
use std::sync::Arc;
use std::time::Duration;

impl System {
    /// One that a client asks for, so within the time that is set.
    pub(super) fn change_schema(&self, text: String, limits: SqlLimits, reply: &Reply) {
        let time_max = Duration::from_secs(self.settings.schema_seconds);
        if self.submit.has_several_groups() {
            let calls = self.submit.groups_calls.clone();
            let compiled = Arc::clone(&self.submit.compiled);
            let version = Box::new(move || compiled.load().catalog.version);
            let request = ChangeRequest { calls, version, text, limits, time_max, reply: reply.clone() };
            return self.changes.submit(request);
        }
        let job = Job::Schema { text, limits, time_max: Some(time_max), reply: reply.clone() };
        // One that is not here has answered.
        let _ = self.submit.routes.to_coordinator(job);
    }

    /// `@FollowSchema(group, version, text)`: the node that leads the first group tells a group to
    /// make a change that the first one has made; without the text, it asks for a change that the
    /// group has made.
    pub(super) fn follow_schema(&self, parameters: &[Value<'_>], reply: &Reply) -> UserResult<Handled> {
        if trusted_elsewhere(reply.connection) != Some(true) {
            return Err(UserError::parameters("@FollowSchema is what the nodes of a cluster call each other by"));
        }
        let (group, version, text) = match parameters {
            [Value::Integer(group), Value::Integer(version)] => (group, version, None),
            [Value::Integer(group), Value::Integer(version), Value::Text(text)] => (group, version, Some(*text)),
            _ => return Err(UserError::parameters("@FollowSchema takes a group, a version, and a schema change")),
        };
        let table = self.submit.routes.table();
        let group = u32::try_from(*group).ok().and_then(|group| table.place_of(GroupId(group)));
        let group = group.ok_or_else(routes::not_here)?;
        let version = *version as u64;
        let reply = reply.clone();
        let job = match text {
            Some(text) => Job::FollowSchema { version, text: text.to_owned(), reply },
            None => Job::TellChange { version, reply },
        };
        // One that is not here has answered.
        let _ = table.to_coordinator(group, job);
        Ok(Handled::PassedOn)
    }

    /// The contents of two tables change places: a schema change, since it is the names that move.
    pub(super) fn swap_tables(
        &self,
        parameters: &[Value<'_>],
        compiled: &Compiled,
        reply: &Reply,
    ) -> UserResult<Handled> {
        let [Value::Text(one), Value::Text(other)] = parameters else {
            return Err(UserError::parameters("@SwapTables takes the names of two tables"));
        };
        self.submit.mode.admit(false, is_admin(reply.connection))?;
        let name = |name: &str| {
            let tables = &compiled.catalog.tables;
            let found = tables.get(name).or_else(|| tables.get(&name.to_uppercase()));
            found.map(|table| table.name.replace('"', "\"\"")).ok_or_else(|| UserError::unknown_table(name))
        };
        let text = format!("SWAP TABLE \"{}\" WITH \"{}\"", name(one)?, name(other)?);
        self.change_schema(text, SqlLimits::CEILING, reply);
        Ok(Handled::PassedOn)
    }

    /// `@UpdateClasses(jar, patterns)`: what the patterns mean goes, then the jar's classes come.
    /// One schema change, refused as a whole when a procedure does not fit its class any more.
    pub(super) fn update_classes(&self, parameters: &[Value<'_>], reply: &Reply) -> UserResult<Handled> {
        let (jar, patterns) = match parameters {
            [jar @ (Value::Bytes(_) | Value::Null)] => (jar, ""),
            [jar @ (Value::Bytes(_) | Value::Null), Value::Null] => (jar, ""),
            [jar @ (Value::Bytes(_) | Value::Null), Value::Text(patterns)] => (jar, *patterns),
            _ => {
                return Err(UserError::parameters(
                    "@UpdateClasses takes the bytes of a jar, or NULL, and patterns of class names to remove, or NULL",
                ));
            }
        };
        if patterns.contains(['\'', ';']) {
            return Err(UserError::parameters("a pattern of class names consists of names, dots, * and **"));
        }
        self.submit.mode.admit(false, is_admin(reply.connection))?;
        let mut text = String::new();
        if !patterns.trim().is_empty() {
            text.push_str(&format!("REMOVE CLASSES '{}';\n", patterns.trim()));
        }
        if let Value::Bytes(jar) = jar {
            text.push_str(&format!("LOAD CLASSES '{}';\n", ferrite_catalog::base64::encode(jar)));
        }
        if text.is_empty() {
            return Err(UserError::parameters("@UpdateClasses was given neither a jar nor patterns of class names"));
        }
        self.change_schema(text, SqlLimits::CEILING, reply);
        Ok(Handled::PassedOn)
    }
}
