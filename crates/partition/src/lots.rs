//! What a lot has a group run, and what the group answers: the bytes that `ferrite_multi` carries
//! as *work* and *result* (docs/format/lots.md). And the way of a group's messages to other nodes.
//!
//! A call is named, not compiled: every group looks the program up in its own catalog, divides it
//! by the same rule (`ferrite_plan::divide`), and runs its share of each statement. Invariants: a
//! result has an answer for each call up to the first that failed, and none behind it; a call that
//! ran has a table or none for each statement of its program.

use ferrite_base::bytes::{ReadFault, Reader};
use ferrite_base::error::is_code;
use ferrite_base::limits::{LENDING_CALLS_MAX, STATEMENTS_CEILING};
use ferrite_base::{CatalogVersion, Epoch, GroupId, SqlLimits, UserError};
use ferrite_multi::{Ledger, ToAgent, ToSequencer};
use ferrite_wire::{Status, failure};
use sha2::{Digest, Sha256};

/// The way of a group's agent to other parties, which may be on other nodes. What is lost on the
/// way stays lost; neither function waits for another party.
pub trait LotLinks: Send + Sync {
    /// From the agent of `from`, which leads in that epoch.
    fn to_sequencer(&self, from: GroupId, epoch: Epoch, message: ToSequencer);
    /// To the agent of another group, wherever that is led.
    fn to_agent(&self, from: GroupId, to: GroupId, message: ToAgent);
}

/// What a group's stream says of lots, with the changes of the parts that are in doubt.
pub type LotLedger = Ledger<Vec<u8>>;

/// The part of a lot that one group runs in one go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LotWork {
    /// NOW for all of them, in microseconds since 1970: the same in every group.
    pub time_micros: i64,
    /// Bytes of the answers of all of them together. A call whose answer has no room there is to be
    /// run in a lot of its own.
    pub answers_max: u32,
    /// At most [`LENDING_CALLS_MAX`].
    pub calls: Vec<LotCall>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LotCall {
    pub program: LotProgram,
    /// That the call was divided with. A group with another one refuses it as stale.
    pub catalog_version: CatalogVersion,
    /// The parameter set as it is on the wire; of an ad hoc text without the text; of a schema
    /// change the limits of its text ([`limits_bytes`]); of a load the rows, a table without its
    /// length.
    pub parameters: Vec<u8>,
    /// This group runs the statements that one group is to run, whichever.
    pub is_first: bool,
    /// How long it may execute, in milliseconds, by its own wish; 0: as long as any.
    pub time_max_millis: u32,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LotProgram {
    /// A procedure of the catalog, by its name.
    Procedure(String),
    /// Ad hoc statements.
    Text(String),
    /// The schema change that the group has checked last, by the name of its text
    /// ([`change_name`]), in a lot of its own, of all partitions.
    Change(String),
    /// Whether the group can make a schema change, as far as that is no matter of rows. No
    /// partition is held for it.
    Check(String),
    /// A procedure that inserts or upserts a row into a table that all groups have, by its name,
    /// for each row of a table, all of them in one call.
    Load(String),
    /// The moment of a backup, under that name, in a lot of its own, of all partitions.
    Cut(String),
    /// A step of making replicated tables equal ([`crate::equalize`]), by its name; the parameters
    /// say which. In a lot of its own, of all partitions.
    Equalize(String),
}

/// Places in what a group answers that has made a schema change: the table of success, the table
/// with the number of rows that have changed places, and words for the caller, which are no table.
pub const CHANGE_WORDS: usize = 2;

impl LotProgram {
    /// A name, or a text.
    pub fn text(&self) -> &str {
        match self {
            LotProgram::Procedure(text)
            | LotProgram::Text(text)
            | LotProgram::Change(text)
            | LotProgram::Check(text)
            | LotProgram::Load(text)
            | LotProgram::Cut(text)
            | LotProgram::Equalize(text) => text,
        }
    }
}

/// Of each call, in their order, up to the first that failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LotResult(pub Vec<LotAnswer>);

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LotAnswer {
    /// By statement: the table as it is on the wire, its length in front. None: this group has no
    /// share of the statement.
    Ran(Vec<Option<Vec<u8>>>),
    Failed(LotFailure),
}

/// Why a call failed in a group. What it saw there is committed when this is said.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LotFailure {
    pub verdict: FailureVerdict,
    pub status: Status,
    /// SQLSTATE or one of ours.
    pub code: String,
    /// The whole status text.
    pub text: String,
}

/// What becomes of a call that has failed in a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FailureVerdict {
    /// The failure is its answer.
    Fails,
    /// It is looked up again: the group has another catalog version.
    LookUp,
    /// It is run again, as the first of its lot: what earlier calls changed made it fail.
    First,
    /// It is run again in a lot of its own: its answer is too large beside others'.
    Alone,
}

impl FailureVerdict {
    const ALL: [FailureVerdict; 4] =
        [FailureVerdict::Fails, FailureVerdict::LookUp, FailureVerdict::First, FailureVerdict::Alone];
}

impl LotFailure {
    pub fn of(error: &UserError) -> LotFailure {
        let status = failure::status(error.kind());
        let verdict = FailureVerdict::Fails;
        LotFailure { verdict, status, code: error.code().to_owned(), text: failure::text(error) }
    }
}

impl LotResult {
    /// All calls ran.
    pub fn is_success(&self) -> bool {
        !self.0.iter().any(|answer| matches!(answer, LotAnswer::Failed(_)))
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_count(&mut out, self.0.len());
        for answer in &self.0 {
            match answer {
                LotAnswer::Ran(tables) => {
                    out.push(0);
                    put_count(&mut out, tables.len());
                    for table in tables {
                        out.push(u8::from(table.is_some()));
                        if let Some(table) = table {
                            put_bytes(&mut out, table);
                        }
                    }
                }
                LotAnswer::Failed(LotFailure { verdict, status, code, text }) => {
                    out.push(1);
                    out.push(*verdict as u8);
                    out.push(status.code().to_le_bytes()[0]);
                    assert!(is_code(code), "{code} is a SQLSTATE");
                    out.extend_from_slice(code.as_bytes());
                    put_bytes(&mut out, text.as_bytes());
                }
            }
        }
        out
    }

    /// # Errors
    /// No group writes this.
    pub fn decode(bytes: &[u8]) -> Result<LotResult, ReadFault> {
        let from = &mut Reader::<ReadFault>::new(bytes);
        let answers = from.list(LENDING_CALLS_MAX, read_answer)?;
        from.end()?;
        let behind = answers.split_last().map_or(&[][..], |(_, before)| before);
        if behind.iter().any(|answer| matches!(answer, LotAnswer::Failed(_))) {
            return Err(ReadFault::Malformed("a call of a lot follows one that failed"));
        }
        Ok(LotResult(answers))
    }
}

impl LotWork {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(&self.time_micros.to_le_bytes());
        out.extend_from_slice(&self.answers_max.to_le_bytes());
        put_count(&mut out, self.calls.len());
        for LotCall { program, catalog_version, parameters, is_first, time_max_millis } in &self.calls {
            out.push(match program {
                LotProgram::Procedure(_) => 0,
                LotProgram::Text(_) => 1,
                LotProgram::Change(_) => 2,
                LotProgram::Check(_) => 3,
                LotProgram::Load(_) => 4,
                LotProgram::Cut(_) => 5,
                LotProgram::Equalize(_) => 6,
            });
            put_bytes(&mut out, program.text().as_bytes());
            out.extend_from_slice(&catalog_version.0.to_le_bytes());
            out.push(u8::from(*is_first));
            out.extend_from_slice(&time_max_millis.to_le_bytes());
            put_bytes(&mut out, parameters);
        }
        out
    }

    /// # Errors
    /// No sequencer writes this.
    pub fn decode(bytes: &[u8]) -> Result<LotWork, ReadFault> {
        let from = &mut Reader::<ReadFault>::new(bytes);
        let time_micros = from.i64()?;
        let answers_max = from.u32()?;
        let calls = from.list(LENDING_CALLS_MAX, read_call)?;
        from.end()?;
        Ok(LotWork { time_micros, answers_max, calls })
    }
}

/// The name of a schema change's text: its hash, in hexadecimal digits. A change that a group has
/// checked travels by it, since it can have the bytes of JARs.
pub fn change_name(text: &str) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The limits of a schema change's text, for all groups those of the node that takes it.
pub fn limits_bytes(limits: &SqlLimits) -> Vec<u8> {
    let SqlLimits { value_bytes, row_bytes, statement_bytes, statements, parameters } = *limits;
    let all = [value_bytes, row_bytes, statement_bytes, statements, parameters];
    all.iter().flat_map(|limit| (*limit as u64).to_le_bytes()).collect()
}

/// # Errors
/// No sequencer writes this.
pub fn limits_of(bytes: &[u8]) -> Result<SqlLimits, ReadFault> {
    let from = &mut Reader::<ReadFault>::new(bytes);
    let mut next = || {
        let limit = from.u64()?;
        usize::try_from(limit).map_err(|_| ReadFault::Malformed("a limit is too large"))
    };
    let value_bytes = next()?;
    let row_bytes = next()?;
    let statement_bytes = next()?;
    let statements = next()?;
    let parameters = next()?;
    from.end()?;
    Ok(SqlLimits { value_bytes, row_bytes, statement_bytes, statements, parameters })
}

/// Of a code.
const CODE_BYTES: usize = 5;

pub(crate) fn put_count(out: &mut Vec<u8>, count: usize) {
    out.extend_from_slice(&u32::try_from(count).expect("fewer than 2^32").to_le_bytes());
}

pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_count(out, bytes.len());
    out.extend_from_slice(bytes);
}

pub(crate) fn read_bytes<'b>(from: &mut Reader<'b>) -> Result<&'b [u8], ReadFault> {
    let length = from.u32()?;
    from.bytes(length as usize)
}

fn read_text(from: &mut Reader<'_>) -> Result<String, ReadFault> {
    let length = from.u32()?;
    from.text(length as usize).map(str::to_owned)
}

fn read_call(from: &mut Reader<'_>) -> Result<LotCall, ReadFault> {
    let kind = from.u8()?;
    let text = read_text(from)?;
    let program = match kind {
        0 => LotProgram::Procedure(text),
        1 => LotProgram::Text(text),
        2 => LotProgram::Change(text),
        3 => LotProgram::Check(text),
        4 => LotProgram::Load(text),
        5 => LotProgram::Cut(text),
        6 => LotProgram::Equalize(text),
        _ => return Err(ReadFault::Malformed("a call of a lot is of an unknown kind")),
    };
    let catalog_version = CatalogVersion(from.u64()?);
    let is_first = from.flag()?;
    let time_max_millis = from.u32()?;
    Ok(LotCall { program, catalog_version, is_first, time_max_millis, parameters: read_bytes(from)?.to_vec() })
}

fn read_answer(from: &mut Reader<'_>) -> Result<LotAnswer, ReadFault> {
    match from.u8()? {
        0 => {
            let tables = from.list(STATEMENTS_CEILING, |from| {
                Ok(if from.flag()? { Some(read_bytes(from)?.to_vec()) } else { None })
            })?;
            Ok(LotAnswer::Ran(tables))
        }
        1 => read_failure(from).map(LotAnswer::Failed),
        _ => Err(ReadFault::Malformed("an answer of a lot is of an unknown kind")),
    }
}

fn read_failure(from: &mut Reader<'_>) -> Result<LotFailure, ReadFault> {
    let verdict = FailureVerdict::ALL.get(usize::from(from.u8()?)).copied();
    let verdict = verdict.ok_or(ReadFault::Malformed("a call has failed in an unknown way"))?;
    let status = Status::from_code(i8::from_le_bytes([from.u8()?])).filter(|status| *status != Status::Success);
    let status = status.ok_or(ReadFault::Malformed("a failure has a status that is none"))?;
    let code = from.text(CODE_BYTES)?;
    if !is_code(code) {
        return Err(ReadFault::Malformed("a failure has a code that is none"));
    }
    Ok(LotFailure { verdict, status, code: code.to_owned(), text: read_text(from)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work() -> LotWork {
        let call = |program, is_first| LotCall {
            program,
            catalog_version: CatalogVersion(7),
            parameters: vec![0, 1, 3, 9],
            is_first,
            time_max_millis: 6,
        };
        let procedure = LotProgram::Procedure("Move".to_owned());
        let text = LotProgram::Text("DELETE FROM t".to_owned());
        let change = LotProgram::Change(change_name("DROP TABLE t"));
        let check = LotProgram::Check(String::new());
        let load = LotProgram::Load("T.upsert".to_owned());
        let cut = LotProgram::Cut("monday".to_owned());
        let equalize = LotProgram::Equalize("compare".to_owned());
        LotWork {
            time_micros: -2,
            answers_max: 9,
            calls: vec![
                call(procedure, true),
                call(text, false),
                call(change, true),
                call(check, false),
                call(load, true),
                call(cut, false),
                call(equalize, false),
            ],
        }
    }

    fn result() -> LotResult {
        let failure = LotFailure {
            verdict: FailureVerdict::LookUp,
            status: Status::GracefulFailure,
            code: "23505".to_owned(),
            text: "a key is there".to_owned(),
        };
        LotResult(vec![LotAnswer::Ran(vec![Some(vec![0, 0, 0, 0]), None]), LotAnswer::Failed(failure)])
    }

    #[test]
    fn what_is_written_is_read() {
        let bytes = work().encode();
        assert_eq!(LotWork::decode(&bytes), Ok(work()));
        assert!((0..bytes.len()).all(|end| LotWork::decode(&bytes[..end]).is_err()));
        assert_eq!(LotWork::decode(&[&bytes[..], &[0]].concat()), Err(ReadFault::LeftOver));
        let bytes = result().encode();
        assert_eq!(LotResult::decode(&bytes), Ok(result()));
        assert!((0..bytes.len()).all(|end| LotResult::decode(&bytes[..end]).is_err()));
        assert!(!result().is_success() && LotResult(Vec::new()).is_success());
    }

    #[test]
    fn the_bytes_stay_as_they_are() {
        let expected = [
            &(-2i64).to_le_bytes()[..],
            &[9, 0, 0, 0],
            &[7, 0, 0, 0],
            &[0, 4, 0, 0, 0],
            b"Move",
            &[7, 0, 0, 0, 0, 0, 0, 0, 1, 6, 0, 0, 0, 4, 0, 0, 0, 0, 1, 3, 9],
            &[1, 13, 0, 0, 0],
            b"DELETE FROM t",
            &[7, 0, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 4, 0, 0, 0, 0, 1, 3, 9],
            &[2, 64, 0, 0, 0],
            b"e058bc4b452a34063746ce6280b7dcba601bec0c851a6eb28e874df4cce055c1",
            &[7, 0, 0, 0, 0, 0, 0, 0, 1, 6, 0, 0, 0, 4, 0, 0, 0, 0, 1, 3, 9],
            &[3, 0, 0, 0, 0],
            &[7, 0, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 4, 0, 0, 0, 0, 1, 3, 9],
            &[4, 8, 0, 0, 0],
            b"T.upsert",
            &[7, 0, 0, 0, 0, 0, 0, 0, 1, 6, 0, 0, 0, 4, 0, 0, 0, 0, 1, 3, 9],
            &[5, 6, 0, 0, 0],
            b"monday",
            &[7, 0, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 4, 0, 0, 0, 0, 1, 3, 9],
            &[6, 7, 0, 0, 0],
            b"compare",
            &[7, 0, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 4, 0, 0, 0, 0, 1, 3, 9],
        ];
        assert_eq!(work().encode(), expected.concat());
        let expected = [
            &[2, 0, 0, 0][..],
            &[0, 2, 0, 0, 0, 1, 4, 0, 0, 0, 0, 0, 0, 0, 0],
            &[1, 1, 0xfe],
            b"23505",
            &[14, 0, 0, 0],
            b"a key is there",
        ];
        assert_eq!(result().encode(), expected.concat());
    }

    #[test]
    fn the_limits_of_a_schema_change_are_read() {
        let bytes = limits_bytes(&SqlLimits::CEILING);
        assert_eq!(limits_of(&bytes), Ok(SqlLimits::CEILING));
        assert!((0..bytes.len()).all(|end| limits_of(&bytes[..end]).is_err()));
        assert_eq!(limits_of(&[&bytes[..], &[0]].concat()), Err(ReadFault::LeftOver));
    }

    #[test]
    fn nothing_follows_a_call_that_failed() {
        let LotResult(mut answers) = result();
        answers.rotate_right(1);
        let bytes = LotResult(answers).encode();
        assert_eq!(LotResult::decode(&bytes), Err(ReadFault::Malformed("a call of a lot follows one that failed")));
    }

    #[test]
    fn hostile_bytes_are_errors() {
        let mut state = 1u64;
        let mut next = move |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 33) as usize) % below
        };
        for _ in 0..100_000 {
            let mut bytes = if next(2) == 0 { work().encode() } else { result().encode() };
            for _ in 0..1 + next(4) {
                let at = next(bytes.len());
                bytes[at] = [0, 1, 0xff, next(256) as u8][next(4)];
            }
            bytes.truncate(1 + next(bytes.len()));
            let _ = LotWork::decode(&bytes);
            let _ = LotResult::decode(&bytes);
        }
    }
}
