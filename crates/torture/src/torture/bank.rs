//! A bank under torture: transfers within a branch (one partition) and between branches (several)
//! keep the sum of all accounts and leave a row each, so that every account can be recomputed from
//! the rows that are there.
//!
//! Reads see all partitions at one moment: the sum, or how many transfers there are, which are at
//! least those that were acknowledged before. In a cluster half of them ask a certain node.

use crate::torture::drive::{Calls, Ended, Fate, Load, WAITING_AT_NODE_MAX};
use crate::torture::lane::Cut;
use crate::torture::scan::{self, GroupLayout};
use ferrite_bench::error::BenchResult;
use ferrite_bench::random::FastRandom;
use ferrite_bench::session::Session;
use ferrite_client::{OwnedResponse, Prepared};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering;

const TABLES: &str = "
CREATE TABLE torture_account (
  branch BIGINT NOT NULL, number INTEGER NOT NULL, balance BIGINT NOT NULL, PRIMARY KEY (branch, number)
);
PARTITION TABLE torture_account ON COLUMN branch;
CREATE TABLE torture_transfer (
  branch BIGINT NOT NULL, id BIGINT NOT NULL, source INTEGER NOT NULL, to_branch BIGINT NOT NULL, target INTEGER NOT NULL,
  amount BIGINT NOT NULL, PRIMARY KEY (branch, id)
);
PARTITION TABLE torture_transfer ON COLUMN branch;
";
const VIEWS: &str = "
CREATE VIEW torture_branch (branch, accounts, balance) AS
  SELECT branch, COUNT(*), SUM(balance) FROM torture_account GROUP BY branch;
CREATE VIEW torture_turnover (branch, transfers, amount) AS
  SELECT branch, COUNT(*), SUM(amount) FROM torture_transfer GROUP BY branch;
";
const WITHIN: &str = "
CREATE PROCEDURE torture_within (at_branch BIGINT, transfer BIGINT, from_account INTEGER, to_account INTEGER, moved BIGINT)
  PARTITION ON TABLE torture_account COLUMN branch
AS BEGIN
  DECLARE has BIGINT;
  INSERT INTO torture_transfer (branch, id, source, to_branch, target, amount)
    VALUES (at_branch, transfer, from_account, at_branch, to_account, moved);
  UPDATE torture_account SET balance = balance + moved WHERE branch = at_branch AND number = to_account;
  UPDATE torture_account SET balance = balance - moved WHERE branch = at_branch AND number = from_account;
  SELECT balance INTO has FROM torture_account WHERE branch = at_branch AND number = from_account;
  IF has < 0 THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not enough'; END IF;
  RETURN transfer;
END;
";
/// Where there is one group, a procedure may decide by what it has read.
const ACROSS: &str = "
CREATE PROCEDURE torture_across (
  from_branch BIGINT, transfer BIGINT, from_account INTEGER, into_branch BIGINT, to_account INTEGER, moved BIGINT
)
AS BEGIN
  DECLARE has BIGINT;
  INSERT INTO torture_transfer (branch, id, source, to_branch, target, amount)
    VALUES (from_branch, transfer, from_account, into_branch, to_account, moved);
  UPDATE torture_account SET balance = balance + moved WHERE branch = into_branch AND number = to_account;
  UPDATE torture_account SET balance = balance - moved WHERE branch = from_branch AND number = from_account;
  SELECT balance INTO has FROM torture_account WHERE branch = from_branch AND number = from_account;
  IF has < 0 THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not enough'; END IF;
  RETURN transfer;
END;
CREATE PROCEDURE torture_sum AS SELECT SUM(balance) FROM torture_account;
CREATE PROCEDURE torture_transfers AS SELECT COUNT(*) FROM torture_transfer;
";
/// Where there are several, it is a list of statements: one that an account cannot pay divides by
/// zero. Parameters: the transfer; amount, branch and account to; the same from.
const ACROSS_GROUPS: &str = "
CREATE PROCEDURE torture_across AS BEGIN
  INSERT INTO torture_transfer (branch, id, source, to_branch, target, amount) VALUES (?, ?, ?, ?, ?, ?);
  UPDATE torture_account SET balance = balance + ? WHERE branch = ? AND number = ?;
  UPDATE torture_account SET balance = balance - CAST(? AS BIGINT) / (CASE WHEN balance < ? THEN 0 ELSE 1 END)
    WHERE branch = ? AND number = ?;
END;
";

/// The scans of the check.
const TRANSFERS: &str = "SELECT id, branch, source, to_branch, target, amount FROM torture_transfer";
const ACCOUNTS: &str = "SELECT branch, number, balance FROM torture_account";
const BRANCH_VIEW: &str = "SELECT branch, accounts, balance FROM torture_branch";
const TURNOVER_VIEW: &str = "SELECT branch, transfers, amount FROM torture_turnover";

const BRANCHES: u32 = 12;
const ACCOUNTS_PER_BRANCH: u32 = 8;
const BALANCE_FIRST: i64 = 1_000;
const SUM: i64 = BRANCHES as i64 * ACCOUNTS_PER_BRANCH as i64 * BALANCE_FIRST;
/// Amounts below this; some are more than the account has.
const AMOUNT_MAX: u32 = 400;
/// Of a hundred calls this many read, and of a hundred transfers this many go to
/// another branch.
const READS_PERCENT: u32 = 3;
const ACROSS_PERCENT: u32 = 40;
const CALLS_MAX: u32 = 12_000;
const ROWS_MAX: usize = 20_000;

/// Branch and number.
type Account = (i64, i64);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Transfer {
    source: Account,
    target: Account,
    amount: i64,
}

pub struct Bank {
    layout: GroupLayout,
    within: Prepared,
    across: Prepared,
    sum: Prepared,
    count: Prepared,
    random: FastRandom,
    /// Balances before all transfers that are kept.
    balances: BTreeMap<Account, i64>,
    /// Those that are there, by what was found last.
    kept: HashMap<i64, Transfer>,
    /// Those of this round: what was sent when, and when it was acknowledged.
    made: HashMap<i64, (Transfer, u64, Option<u64>)>,
    refused: HashMap<i64, Transfer>,
    /// Transfers that whoever reads from now on must see: those before this round, and those of it
    /// that are acknowledged or were counted.
    floor: i64,
    /// Those before this round, and those of it that are acknowledged.
    acknowledged: i64,
    next_id: i64,
    calls_left: u32,
}

/// The token of a sum. Transfers have their ids.
const READ: u64 = 0;
/// In the token of a count, whose other bits are the floor when it was sent.
const IS_COUNT: u64 = 1 << 63;

impl Bank {
    pub fn new(session: &Session, layout: GroupLayout) -> BenchResult<Bank> {
        create(session, layout)?;
        let mut balances = BTreeMap::new();
        for branch in 0..i64::from(BRANCHES) {
            for number in 0..ACCOUNTS_PER_BRANCH as i32 {
                session.call("TORTURE_ACCOUNT.insert", (branch, number, BALANCE_FIRST))?;
                balances.insert((branch, i64::from(number)), BALANCE_FIRST);
            }
        }
        let prepared = |name| Prepared::new(name).expect("a short name");
        Ok(Bank {
            layout,
            within: prepared("torture_within"),
            across: prepared("torture_across"),
            sum: prepared("torture_sum"),
            count: prepared("torture_transfers"),
            random: FastRandom::new(0),
            balances,
            kept: HashMap::new(),
            made: HashMap::new(),
            refused: HashMap::new(),
            floor: 0,
            acknowledged: 0,
            next_id: 0,
            calls_left: 0,
        })
    }

    fn account(&mut self, branch: i64) -> Account {
        (branch, i64::from(self.random.below(ACCOUNTS_PER_BRANCH)))
    }

    fn branch(&mut self) -> i64 {
        i64::from(self.random.below(BRANCHES))
    }
}

impl Bank {
    fn read(&mut self, calls: &mut Calls) {
        let nodes = calls.nodes() as u32;
        let asks = nodes > 0 && self.random.below(2) == 0 && calls.outstanding_at_nodes() < WAITING_AT_NODE_MAX;
        let node = asks.then(|| self.random.below(nodes) as usize);
        if self.random.below(2) == 0 {
            calls.call_at(node, &self.sum, (), READ);
        } else {
            calls.call_at(node, &self.count, (), IS_COUNT | self.floor as u64);
        }
    }

    fn read_ended(&mut self, ended: Ended, cut: &mut Cut) {
        let asked = ended.node.map_or_else(String::new, |node| format!(" at node {}", node + 1));
        let found = match ended.fate {
            Fate::Acknowledged(response) => sum(&response),
            Fate::Refused(text) => return cut.finding(format!("bank: a read{asked} was refused: {text}")),
            Fate::NotSent | Fate::Unknown => return,
        };
        if ended.token == READ {
            if found != Some(SUM) {
                cut.finding(format!("bank: all accounts together had {found:?}{asked}, not {SUM}"));
            }
            return;
        }
        let floor = (ended.token & !IS_COUNT) as i64;
        let all = (self.kept.len() + self.made.len()) as i64;
        match counted(floor, all, found) {
            Ok(count) => self.floor = self.floor.max(count),
            Err(what) => cut.finding(format!("bank: {what}{asked}")),
        }
    }
}

/// Tables, views and procedures.
fn create(session: &Session, layout: GroupLayout) -> BenchResult<()> {
    match layout {
        GroupLayout::OneGroup => {
            session.run_statements(&[TABLES, VIEWS, WITHIN, ACROSS].concat())?;
        }
        GroupLayout::SeveralGroups => {
            let of_each = |what: &str, table: &str| -> String {
                let of_one = |branch| format!("  SELECT {what} FROM {table} WHERE branch = {branch};\n");
                (0..BRANCHES).map(of_one).collect()
            };
            let reads = format!(
                "CREATE PROCEDURE torture_sum AS BEGIN\n{}END;\nCREATE PROCEDURE torture_transfers AS BEGIN\n{}END;\n",
                of_each("SUM(balance)", "torture_account"),
                of_each("COUNT(*)", "torture_transfer")
            );
            session.run_statements(&[TABLES, VIEWS, WITHIN, ACROSS_GROUPS, &reads].concat())?;
        }
    }
    Ok(())
}

/// Of the numbers in all tables: one, or one for each branch.
fn sum(response: &OwnedResponse) -> Option<i64> {
    let numbers = response.tables.iter().map(|table| table.scalar());
    numbers.collect::<Option<Vec<i64>>>().filter(|numbers| !numbers.is_empty()).map(|numbers| numbers.iter().sum())
}

/// Judges a count of transfers of which `floor` were known when it was asked for, and of which no
/// more than `all` were made. What it has seen, later ones must see.
fn counted(floor: i64, all: i64, found: Option<i64>) -> Result<i64, String> {
    let found = found.ok_or_else(|| "there is no count of transfers".to_string())?;
    if found < floor {
        return Err(format!("{floor} transfers were known, and {found} are counted later"));
    }
    if found > all {
        return Err(format!("{found} transfers are counted, and {all} at most were made"));
    }
    Ok(found)
}

impl Load for Bank {
    fn name(&self) -> &'static str {
        "bank"
    }

    fn outstanding_max(&self) -> usize {
        60
    }

    fn begin(&mut self, random: FastRandom) {
        self.random = random;
        self.calls_left = CALLS_MAX;
        self.acknowledged = self.kept.len() as i64;
        self.floor = self.acknowledged;
    }

    fn asks_each_node(&self) -> bool {
        true
    }

    fn call(&mut self, calls: &mut Calls) -> bool {
        if self.calls_left == 0 {
            return false;
        }
        self.calls_left -= 1;
        if self.random.below(100) < READS_PERCENT || calls.control().only_reads.load(Ordering::Relaxed) {
            self.read(calls);
            return true;
        }
        self.next_id += 1;
        let id = self.next_id;
        let across = self.random.below(100) < ACROSS_PERCENT;
        let from = self.branch();
        let amount = i64::from(self.random.below(AMOUNT_MAX));
        let to = if across { self.branch() } else { from };
        let source = self.account(from);
        let target = self.account(to);
        let from_account = source.1 as i32;
        let to_account = target.1 as i32;
        let sent = if across && self.layout == GroupLayout::SeveralGroups {
            calls.call(&self.across, across_groups(id, &Transfer { source, target, amount }), id as u64)
        } else if across {
            calls.call(&self.across, (from, id, from_account, to, to_account, amount), id as u64)
        } else {
            calls.call(&self.within, (from, id, from_account, to_account, amount), id as u64)
        };
        self.made.insert(id, (Transfer { source, target, amount }, sent, None));
        true
    }

    fn ended(&mut self, ended: Ended, cut: &mut Cut) {
        if ended.token == READ || ended.token & IS_COUNT != 0 {
            return self.read_ended(ended, cut);
        }
        let id = ended.token as i64;
        match ended.fate {
            Fate::Acknowledged(response) => {
                let is_list = response.tables.len() > 1;
                // Of a list of statements: each has changed one row.
                if !is_list && response.scalar() != Some(id) || is_list && sum(&response) != Some(3) {
                    cut.finding(format!("bank: transfer {id} was answered {:?}", response.scalar()));
                }
                self.made.get_mut(&id).expect("a transfer was made").2 = Some(ended.at);
                self.acknowledged += 1;
                self.floor = self.floor.max(self.acknowledged);
            }
            Fate::Refused(text) => {
                if !text.contains("not enough") && !text.contains("division by zero") {
                    cut.finding(format!("bank: transfer {id} was refused: {text}"));
                }
                let (transfer, ..) = self.made.remove(&id).expect("a transfer was made");
                self.refused.insert(id, transfer);
            }
            Fate::NotSent => {
                let (transfer, ..) = self.made.remove(&id).expect("a transfer was made");
                self.refused.insert(id, transfer);
            }
            Fate::Unknown => {}
        }
    }

    fn calls_of_a_round(&self) -> u32 {
        CALLS_MAX
    }

    fn check(&mut self, session: &Session, cut: &mut Cut) -> BenchResult<()> {
        let mut there = HashMap::new();
        let mut turnover: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
        for row in scan::numbers(session, self.layout, TRANSFERS)? {
            let [id, branch, source, to_branch, target, amount] = row[..] else { continue };
            let transfer = Transfer { source: (branch, source), target: (to_branch, target), amount };
            if there.insert(id, transfer).is_some() {
                cut.finding(format!("bank: transfer {id} is there twice"));
            }
            let sums = turnover.entry(branch).or_default();
            *sums = (sums.0 + 1, sums.1 + amount);
            let known = self.kept.get(&id).or(self.made.get(&id).map(|(transfer, ..)| transfer));
            if known != Some(&transfer) {
                let refused = if self.refused.contains_key(&id) { ", and it was refused" } else { "" };
                cut.finding(format!("bank: {transfer:?} is there as {id}, known is {known:?}{refused}"));
            }
        }
        if let Some(id) = self.kept.keys().find(|id| !there.contains_key(id)) {
            cut.finding(format!("bank: transfer {id}, which an earlier check has seen, is gone"));
        }
        for (id, (_, sent, acknowledged)) in self.made.drain() {
            match (there.contains_key(&id), acknowledged) {
                (true, _) => cut.survived(sent, || format!("bank: transfer {id}")),
                (false, Some(at)) => cut.lost(at, || format!("bank: transfer {id}")),
                (false, None) => {}
            }
        }
        self.refused.clear();
        self.kept = there;
        self.check_balances(session, &turnover, cut)?;
        if self.kept.len() > ROWS_MAX {
            session.query("DELETE FROM torture_transfer")?;
            cut.changed = true;
            self.balances = self.expected_balances();
            self.kept.clear();
        }
        Ok(())
    }
}

impl Bank {
    fn expected_balances(&self) -> BTreeMap<Account, i64> {
        let mut balances = self.balances.clone();
        for transfer in self.kept.values() {
            *balances.entry(transfer.source).or_default() -= transfer.amount;
            *balances.entry(transfer.target).or_default() += transfer.amount;
        }
        balances
    }

    fn check_balances(
        &self,
        session: &Session,
        turnover: &BTreeMap<i64, (i64, i64)>,
        cut: &mut Cut,
    ) -> BenchResult<()> {
        let rows = scan::numbers(session, self.layout, ACCOUNTS)?;
        let found: BTreeMap<Account, i64> = rows.iter().map(|row| ((row[0], row[1]), row[2])).collect();
        let expected = self.expected_balances();
        if found != expected || rows.len() != expected.len() {
            let differs = |account: &&Account| found.get(*account) != expected.get(*account);
            let account = expected.keys().chain(found.keys()).find(differs);
            cut.finding(format!(
                "bank: the accounts are not what the transfers lead to: {account:?} has {:?}, not {:?}",
                account.and_then(|account| found.get(account)),
                account.and_then(|account| expected.get(account)),
            ));
        }
        let sum: i64 = found.values().sum();
        if sum != SUM {
            cut.finding(format!("bank: all accounts together have {sum}, not {SUM}"));
        }
        let mut branches: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
        for ((branch, _), balance) in &found {
            let sums = branches.entry(*branch).or_default();
            *sums = (sums.0 + 1, sums.1 + balance);
        }
        for (view, expected) in [(BRANCH_VIEW, &branches), (TURNOVER_VIEW, turnover)] {
            let rows = scan::numbers(session, self.layout, view)?;
            let found: BTreeMap<i64, (i64, i64)> = rows.iter().map(|row| (row[0], (row[1], row[2]))).collect();
            if found != *expected || rows.len() != expected.len() {
                cut.finding(format!("bank: {}: {rows:?}, a scan says {expected:?}", view));
            }
        }
        Ok(())
    }
}

/// The parameters of a transfer that is a list of statements.
fn across_groups(id: i64, transfer: &Transfer) -> [i64; 13] {
    let Transfer { source, target, amount } = *transfer;
    let row = [source.0, id, source.1, target.0, target.1, amount];
    let changes = [amount, target.0, target.1, amount, amount, source.0, source.1];
    std::array::from_fn(|place| if place < row.len() { row[place] } else { changes[place - row.len()] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_has_what_was_known_before_and_nothing_that_was_not_made() {
        for (found, is_right) in [(Some(4), false), (Some(5), true), (Some(7), true), (Some(8), false), (None, false)] {
            assert_eq!(counted(5, 7, found).is_ok(), is_right, "{found:?}");
        }
    }
}
