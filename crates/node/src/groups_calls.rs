//! Calls of partitions of several groups: what cannot be divided over groups is refused with the
//! reason, all others go to the sequencer, where this node leads the first group.

use crate::routes;
use crossbeam_channel::Sender;
use ferrite_base::{CatalogVersion, UserError, UserResult};
use ferrite_member::forward::Behind;
use ferrite_member::lots::{GroupsCall, LookUpAgain, MergeRule, SequencerNotice};
use ferrite_partition::lots::LotProgram;
use ferrite_partition::{Compiled, Reply, StoreSet};
use ferrite_plan::{Indivisible, Program, Share, Step, divide};
use ferrite_value::Value;
use ferrite_wire::invocation::Invocation;
use std::sync::Arc;
use std::time::Duration;

/// The way to the sequencer's thread.
#[derive(Clone)]
pub struct GroupsCalls(Option<Sender<SequencerNotice>>);

impl GroupsCalls {
    /// None: a node without others.
    pub fn new(sequencer: Option<Sender<SequencerNotice>>) -> GroupsCalls {
        GroupsCalls(sequencer)
    }

    /// Hands the call over; one answer comes. `body`: its frame's, which has been parsed before.
    /// `time_max`: by its own wish.
    ///
    /// # Errors
    /// Groups cannot run it together.
    #[allow(clippy::too_many_arguments, reason = "what a call is, once")]
    pub fn submit(
        &self,
        program: &Program,
        compiled: &Arc<Compiled>,
        stores: StoreSet,
        body: &[u8],
        time_max: Option<Duration>,
        reply: Reply,
        again: LookUpAgain,
    ) -> UserResult<()> {
        let merges = merges(program, compiled)?;
        let (named, parameters) = named(body)?;
        if self.0.is_none() {
            return Err(routes::not_here());
        }
        self.send(GroupsCall {
            program: named,
            catalog_version: compiled.catalog.version,
            parameters,
            stores,
            merges,
            is_read: program.read_only,
            time_max_millis: millis(time_max),
            reply,
            again,
            behind: Vec::new(),
        });
        Ok(())
    }

    /// Hands over rows, in a table's form, for a table that all groups have; one answer comes.
    /// `program`: what is run for each of them. `time_max`: by the call's own wish.
    pub fn load(
        &self,
        program: &Program,
        compiled: &Compiled,
        rows: &[u8],
        time_max: Option<Duration>,
        reply: Reply,
        again: LookUpAgain,
    ) {
        let load = LotProgram::Load(program.name.clone());
        self.everywhere(load, rows.to_vec(), compiled.catalog.version, time_max, reply, again);
    }

    /// Hands over a statement that changes the same rows in all groups, with its parameters; one
    /// answer comes. `body`: of a frame of `@AdHoc`. `again`: done instead where another schema
    /// than this one is in force.
    pub fn change_all(
        &self,
        body: &[u8],
        catalog_version: CatalogVersion,
        reply: Reply,
        again: LookUpAgain,
    ) -> UserResult<()> {
        let (program, parameters) = named(body)?;
        self.everywhere(program, parameters, catalog_version, None, reply, again);
        Ok(())
    }

    /// What every group does alike; the answer is that of any.
    fn everywhere(
        &self,
        program: LotProgram,
        parameters: Vec<u8>,
        catalog_version: CatalogVersion,
        time_max: Option<Duration>,
        reply: Reply,
        again: LookUpAgain,
    ) {
        self.send(GroupsCall {
            program,
            catalog_version,
            parameters,
            stores: StoreSet::All,
            merges: Box::new([MergeRule::First]),
            is_read: false,
            time_max_millis: millis(time_max),
            reply,
            again,
            behind: Vec::new(),
        });
    }

    /// To the sequencer; one answer comes.
    pub fn send(&self, call: GroupsCall) {
        let Some(sequencer) = &self.0 else { return call.refuse(&routes::not_here()) };
        if let Err(unsent) = sequencer.send(SequencerNotice::Call(Box::new(call)))
            && let SequencerNotice::Call(call) = unsent.0
        {
            // The server stops.
            call.refuse(&routes::not_here());
        }
    }

    /// Done when the calls that the sequencer has been given are answered, or are looked up again.
    pub fn behind(&self, mark: Arc<Behind>) {
        if let Some(sequencer) = &self.0 {
            // It has ended only when the server stops.
            let _ = sequencer.send(SequencerNotice::Behind(mark));
        }
    }
}

/// Longer than any limit is no limit of its own.
fn millis(time_max: Option<Duration>) -> u32 {
    time_max.map_or(0, |time| u32::try_from(time.as_millis()).unwrap_or(0))
}

/// How the groups' answers to each statement become one.
fn merges(program: &Program, compiled: &Compiled) -> UserResult<Box<[MergeRule]>> {
    let partitioned = |id| compiled.catalog.table(id).is_some_and(|table| table.is_partitioned());
    let shares = divide(program, &partitioned).map_err(|why| indivisible(program, &why))?;
    let rule = |(share, step): (&Share, &Step)| match step {
        Step::Execute { plan, .. } => MergeRule::of(share, plan),
        _ => unreachable!("a program that is divided is a list of statements"),
    };
    Ok(shares.iter().zip(&program.body).map(rule).collect())
}

/// What groups look up, and its parameters, of a frame's body.
fn named(body: &[u8]) -> UserResult<(LotProgram, Vec<u8>)> {
    let malformed = |_| UserError::internal("a call that was read before cannot be read");
    let invocation = Invocation::parse(body).map_err(|_| malformed(()))?;
    let mut parameters = Vec::new();
    if !invocation.procedure.starts_with("@AdHoc") {
        invocation.parameters.copy_to(&mut parameters);
        return Ok((LotProgram::Procedure(invocation.procedure.to_owned()), parameters));
    }
    let Ok(Some(Value::Text(text))) = invocation.parameters.nth(0) else { return Err(malformed(())) };
    invocation.parameters.without_first().map_err(|_| malformed(()))?.copy_to(&mut parameters);
    Ok((LotProgram::Text(text.to_owned()), parameters))
}

/// The answer to a call of several groups that they cannot run together.
#[cold]
fn indivisible(program: &Program, why: &Indivisible) -> UserError {
    let name = &program.name;
    let text = why.statement.and_then(|statement| {
        let text = &program.statements.get(usize::from(statement))?.text;
        Some(format!("statement {} of {name} (\"{}\")", statement + 1, shortened(text)))
    });
    let subject = text.unwrap_or_else(|| name.clone());
    let message = format!("{subject} needs partitions of several groups, which is not supported: {}", why.reason);
    UserError::compile("0A000", message).with_hint("call it with a key, so that one partition has all that it needs")
}

/// The first words of a statement.
fn shortened(text: &str) -> String {
    const CHARACTERS_MAX: usize = 60;
    let mut words: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if words.chars().count() > CHARACTERS_MAX {
        words = words.chars().take(CHARACTERS_MAX).collect();
        words.push_str("...");
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrite_wire::RequestWriter;

    fn body(procedure: &str, text: Option<&str>) -> Vec<u8> {
        let mut request = Vec::new();
        let mut call = RequestWriter::begin(&mut request, procedure, 7);
        if let Some(text) = text {
            call.parameter(&text);
        }
        call.parameter(&5_i64);
        call.finish().expect("a small call");
        request[4..].to_vec()
    }

    #[test]
    fn groups_look_up_what_the_caller_has_named() {
        let (program, parameters) = named(&body("Move", None)).expect("a call");
        assert_eq!(program, LotProgram::Procedure("Move".to_owned()));
        let (text, of_text) = named(&body("@AdHoc", Some("DELETE FROM t WHERE v = ?"))).expect("a call");
        assert_eq!(text, LotProgram::Text("DELETE FROM t WHERE v = ?".to_owned()));
        assert_eq!(parameters, of_text, "the text is not a parameter");
        assert!(named(&body("@AdHoc", None)).is_err(), "a number is not a text");
    }

    #[test]
    fn a_long_statement_is_named_by_its_first_words() {
        assert_eq!(shortened("SELECT\n   1"), "SELECT 1");
        let long = shortened(&"äö ".repeat(100));
        assert!(long.ends_with("...") && long.chars().count() == 63, "{long}");
    }
}
