//! `ferrite bench multi`: transactions over several partitions. Accounts are spread over all of
//! them; transfers between two accounts keep their sum, which every read of all accounts must find.

use crate::calls::Calls;
use crate::error::{BenchError, BenchResult};
use crate::generator::{Intended, LoadOutcome, Workload, failure_outcome};
use crate::options::{MultiOptions, MultiWrite};
use crate::progress::with_progress;
use crate::random::FastRandom;
use crate::random::seed_or_random;
use crate::report::{LoadReport, grouped};
use crate::results::keep;
use crate::run::measure;
use crate::session::{Environment, Session};
use ferrite_client::Prepared;
use ferrite_client::event_loop::Response;
use ferrite_value::Value;

const DDL: &str = "
DROP PROCEDURE Total IF EXISTS;
DROP PROCEDURE Transfer IF EXISTS;
DROP PROCEDURE SetRate IF EXISTS;
DROP TABLE account IF EXISTS;
DROP TABLE rate IF EXISTS;
CREATE TABLE account (id BIGINT NOT NULL, balance BIGINT NOT NULL, PRIMARY KEY (id));
PARTITION TABLE account ON COLUMN id;
CREATE TABLE rate (id BIGINT NOT NULL, times BIGINT NOT NULL, PRIMARY KEY (id));
CREATE PROCEDURE Total AS SELECT COUNT(*), SUM(balance) FROM account;
CREATE PROCEDURE SetRate AS UPDATE rate SET times = times + 1 WHERE id = ?;
";

/// Apart from the others: it holds semicolons.
const TRANSFER: &str = "
CREATE PROCEDURE Transfer (amount BIGINT, one BIGINT, other BIGINT) AS BEGIN
  UPDATE account SET balance = balance - amount WHERE id = one;
  UPDATE account SET balance = balance + amount WHERE id = other;
END;
";

/// What each account begins with.
const BALANCE: i64 = 1_000;
/// Rows of the replicated table.
const RATES: u32 = 100;

pub fn run_multi(environment: &Environment, options: &MultiOptions) -> BenchResult<LoadReport> {
    let session = Session::open(environment, &options.target)?;
    prepare(&session, options.accounts)?;
    let seed = seed_or_random(options.seed);
    let make = |thread: usize| {
        MultiLoad::new(options.accounts, options.reads, options.write, seed.wrapping_add(1 + thread as u64))
    };
    let (result, mut report) = measure("multi", environment, &session, &options.load, make)?;
    let end = MultiEnd::read(&session)?;
    session.close()?;

    let mut tally = MultiTally::default();
    result.workloads.iter().for_each(|load| tally.merge(&load.tally));
    let MultiTally { reads, transfers, rates, .. } = tally;
    report.details = vec![
        ("reads of all accounts".to_string(), reads),
        ("transfers".to_string(), transfers),
        ("updates of a replicated table".to_string(), rates),
    ];
    let findings = findings(&tally, options.accounts, end);
    if !findings.is_empty() {
        return Err(BenchError::Wrong(findings));
    }
    if report.transactions == 0 {
        let why = report.first_failure.as_deref().unwrap_or("no call was answered");
        return Err(BenchError::Load(format!("not one call succeeded in the measured time: {why}")));
    }
    report.validated.push(format!(
        "{} reads found the sum of all accounts at {}, {} transfers kept it, {} updates of a replicated table are counted",
        grouped(reads),
        grouped(total_balance(options.accounts) as u64),
        grouped(transfers),
        grouped(rates),
    ));
    ferrite_io::out!("{}", report.text());
    keep(options.load.json.as_deref(), "multi", &report)?;
    Ok(report)
}

/// Tables and procedures anew, with all accounts.
pub(crate) fn prepare(session: &Session, accounts: u32) -> BenchResult<()> {
    session.run_statements(DDL)?;
    session.call("@AdHoc", (TRANSFER,))?;
    with_progress("writing the accounts", || {
        (0..accounts).try_for_each(|id| session.call("ACCOUNT.insert", (i64::from(id), BALANCE)).map(drop))
    })?;
    (0..RATES).try_for_each(|id| session.call("RATE.insert", (i64::from(id), 0i64)).map(drop))
}

fn total_balance(accounts: u32) -> i64 {
    i64::from(accounts) * BALANCE
}

/// What the tables hold after a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MultiEnd {
    balance: i64,
    times: i64,
}

impl MultiEnd {
    pub fn read(session: &Session) -> BenchResult<MultiEnd> {
        Ok(MultiEnd {
            balance: session.sum_partitions("SELECT SUM(balance) FROM account")?,
            times: session.query_number("SELECT SUM(times) FROM rate")?,
        })
    }
}

pub(crate) fn findings(tally: &MultiTally, accounts: u32, end: MultiEnd) -> Vec<String> {
    let expected = total_balance(accounts);
    let mut findings = Vec::new();
    let wrong = tally.wrong_answers;
    if wrong > 0 {
        findings.push(format!("{wrong} answers were wrong, a sum of all accounts that is not {expected} among them"));
    }
    if end.balance != expected {
        findings.push(format!("the accounts hold {} afterwards, not {expected}", end.balance));
    }
    if u64::try_from(end.times) != Ok(tally.rates) {
        findings.push(format!("the replicated table counts {} updates, {} were answered", end.times, tally.rates));
    }
    findings
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MultiTally {
    reads: u64,
    transfers: u64,
    rates: u64,
    wrong_answers: u64,
}

impl MultiTally {
    pub fn merge(&mut self, other: &MultiTally) {
        self.reads += other.reads;
        self.transfers += other.transfers;
        self.rates += other.rates;
        self.wrong_answers += other.wrong_answers;
    }
}

pub(crate) struct MultiLoad {
    total: Prepared,
    transfer: Prepared,
    set_rate: Prepared,
    random: FastRandom,
    accounts: u32,
    write: MultiWrite,
    /// Reads, of 2^32 calls.
    read_share: u64,
    pub tally: MultiTally,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum MultiNote {
    Read,
    Transfer,
    Rate,
}

impl MultiLoad {
    /// `reads` are calls in a hundred.
    pub fn new(accounts: u32, reads: f64, write: MultiWrite, seed: u64) -> MultiLoad {
        let procedure = |name| Prepared::new(name).expect("the name of the procedure is short");
        MultiLoad {
            total: procedure("Total"),
            transfer: procedure("Transfer"),
            set_rate: procedure("SetRate"),
            random: FastRandom::new(seed),
            accounts,
            write,
            read_share: (reads / 100.0 * 4_294_967_296.0) as u64,
            tally: MultiTally::default(),
        }
    }
}

impl Workload for MultiLoad {
    type Note = MultiNote;

    fn call(&mut self, calls: &mut Calls<'_, MultiNote>, call: Intended) {
        let written = if self.random.next_u64() >> 32 < self.read_share {
            calls.call(&self.total, &(), call.with(MultiNote::Read))
        } else {
            match self.write {
                MultiWrite::Transfer => {
                    let amount = i64::from(self.random.below(100));
                    let one = self.random.below(self.accounts);
                    let other = (one + 1 + self.random.below(self.accounts - 1)) % self.accounts;
                    let parameters = (amount, i64::from(one), i64::from(other));
                    calls.call(&self.transfer, &parameters, call.with(MultiNote::Transfer))
                }
                MultiWrite::Replicated => {
                    let id = i64::from(self.random.below(RATES));
                    calls.call(&self.set_rate, &(id,), call.with(MultiNote::Rate))
                }
            }
        };
        debug_assert!(written.is_ok(), "numbers fit into a frame");
    }

    fn completed(&mut self, note: MultiNote, response: &Response<'_>) -> LoadOutcome {
        if !response.is_success() {
            return failure_outcome(response);
        }
        let right = match note {
            MultiNote::Read => {
                let accounts = i64::from(self.accounts);
                let found = response.tables().next().and_then(Result::ok).and_then(|table| {
                    let row = table.rows().next()?.ok()?;
                    Some((row.get(0).ok()??, row.get(1).ok()??))
                });
                matches!(found, Some((Value::Integer(count), Value::Integer(sum)))
                    if count == accounts && sum == total_balance(self.accounts))
            }
            MultiNote::Transfer => true,
            MultiNote::Rate => response.scalar() == Some(1),
        };
        if !right {
            self.tally.wrong_answers += 1;
            return LoadOutcome::Failed;
        }
        match note {
            MultiNote::Read => self.tally.reads += 1,
            MultiNote::Transfer => self.tally.transfers += 1,
            MultiNote::Rate => self.tally.rates += 1,
        }
        LoadOutcome::Succeeded { payload_bytes: 0 }
    }

    fn lost(&mut self, _note: MultiNote) {}
}
