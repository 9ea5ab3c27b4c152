//! Errors that follow from the schema, such as a name that is not there: when one is the answer
//! (docs/decisions/0126-errors-of-an-earlier-schema.md).
//!
//! Where a cluster has several groups, a node looks calls up in the schema of the groups that it
//! hosts. As long as their copies are behind, as after a restart, that is an earlier one than
//! clients know.
//!
//! Invariant: a client gets such an error only from the first group's version of the schema, and
//! only once it is known that the node which found it then led the first group. A schema change is
//! acknowledged after that group has made it, so no error is due to the lack of one that was
//! acknowledged before the call.

use crate::connection::trusted_elsewhere;
use crate::message::SystemJob;
use crate::submit::Submit;
use ferrite_base::{CatalogVersion, ErrorKind, UserError};
use ferrite_group::FIRST_GROUP;
use ferrite_partition::{AnswerBatch, Compiled, Reply};
use ferrite_wire::response;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum LookupVerdict {
    /// The error is the answer.
    Final,
    /// Another version of the schema is in force here meanwhile.
    LookUpAgain,
    /// The node that leads the first group looks it up.
    PassOn,
    /// Another node has passed the call on, or the schema in force here is not the first group's.
    NotExecuted,
}

/// What is known of the node, and of the call, when there is an error.
#[derive(Clone, Copy)]
struct FailedLookup {
    leads_first: bool,
    is_of_other_node: bool,
    /// The schema that the error follows from.
    version: CatalogVersion,
    in_force: CatalogVersion,
    /// None: the node does not host the first group.
    of_first: Option<CatalogVersion>,
}

impl FailedLookup {
    fn verdict(self) -> LookupVerdict {
        match () {
            () if !self.leads_first && self.is_of_other_node => LookupVerdict::NotExecuted,
            () if !self.leads_first => LookupVerdict::PassOn,
            () if self.version != self.in_force => LookupVerdict::LookUpAgain,
            () if self.of_first.is_none_or(|of_first| self.version < of_first) => LookupVerdict::NotExecuted,
            () => LookupVerdict::Final,
        }
    }
}

/// Whether another schema may admit a call that failed in this way before it was executed.
fn follows_from_schema(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::Compile
            | ErrorKind::ConstraintViolation
            | ErrorKind::Mispartitioned
            | ErrorKind::Parameters
            | ErrorKind::Sql
            | ErrorKind::UnknownProcedure
    )
}

impl Submit {
    /// Answers a call that was not handed over because of this error. `compiled`: what it was
    /// looked up in. `body`: its frame's.
    #[cold]
    pub fn refuse_call(&self, compiled: &Compiled, body: &[u8], reply: &Reply, error: &UserError) {
        let several = self.has_several_groups();
        if error.kind() == ErrorKind::Unavailable || several && !follows_from_schema(error.kind()) {
            return reply.refuse(error);
        }
        let is_of_other_node = trusted_elsewhere(reply.connection).is_some();
        let version = compiled.catalog.version;
        let of_first = || self.schemas.of(FIRST_GROUP).map(|first| first.catalog.version);
        let found = FailedLookup {
            leads_first: !several || self.leads_first(is_of_other_node),
            is_of_other_node,
            version,
            in_force: self.compiled.load().catalog.version,
            of_first: if several { of_first() } else { Some(version) },
        };
        match found.verdict() {
            LookupVerdict::Final => {
                let mut answers = AnswerBatch::default();
                response::write_error(&mut answers.bytes, reply.handle, error);
                answers.finish_answer(reply.connection);
                self.answer(reply, answers);
            }
            // The system thread has ended only when the server stops.
            LookupVerdict::LookUpAgain => {
                drop(self.system.send(SystemJob::Call { body: body.to_vec(), reply: reply.clone() }))
            }
            LookupVerdict::PassOn => {
                if let Err(error) = self.pass_on(FIRST_GROUP, body, false, reply) {
                    reply.refuse(&error);
                }
            }
            LookupVerdict::NotExecuted => reply.refuse(&is_behind()),
        }
    }
}

#[cold]
fn is_behind() -> UserError {
    UserError::not_started("this node may lack a schema change that other nodes have made").with_hint("call again")
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERSION: CatalogVersion = CatalogVersion(5);
    const LEADER: FailedLookup = FailedLookup {
        leads_first: true,
        is_of_other_node: false,
        version: VERSION,
        in_force: VERSION,
        of_first: Some(VERSION),
    };

    #[test]
    fn only_the_first_group_s_version_gives_errors() {
        assert_eq!(LEADER.verdict(), LookupVerdict::Final);
        assert_eq!(FailedLookup { is_of_other_node: true, ..LEADER }.verdict(), LookupVerdict::Final);
        let later = CatalogVersion(6);
        assert_eq!(
            FailedLookup { of_first: Some(later), ..LEADER }.verdict(),
            LookupVerdict::NotExecuted,
            "another group is behind"
        );
        assert_eq!(
            FailedLookup { in_force: later, of_first: Some(later), ..LEADER }.verdict(),
            LookupVerdict::LookUpAgain
        );
        assert_eq!(FailedLookup { of_first: None, ..LEADER }.verdict(), LookupVerdict::NotExecuted);
        let copy = FailedLookup { leads_first: false, ..LEADER };
        assert_eq!(copy.verdict(), LookupVerdict::PassOn);
        assert_eq!(FailedLookup { in_force: later, ..copy }.verdict(), LookupVerdict::PassOn);
        assert_eq!(
            FailedLookup { is_of_other_node: true, ..copy }.verdict(),
            LookupVerdict::NotExecuted,
            "no call goes further"
        );
    }

    #[test]
    fn what_no_schema_admits_is_not_looked_up_again() {
        for kind in [ErrorKind::Permission, ErrorKind::Limit, ErrorKind::Internal, ErrorKind::OutcomeUnknown] {
            assert!(!follows_from_schema(kind), "{kind:?}");
        }
        for kind in [ErrorKind::Compile, ErrorKind::UnknownProcedure, ErrorKind::Parameters] {
            assert!(follows_from_schema(kind), "{kind:?}");
        }
    }
}
