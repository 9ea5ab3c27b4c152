//! One answer of the answers of several groups, by the rules of `ferrite_plan::divide`.

use ferrite_base::{UserError, UserResult};
use ferrite_plan::{Plan, Share};
use ferrite_wire::{Table, table};

/// How the answers of a statement's shares become its answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MergeRule {
    /// One group's answer is the whole one: the first that there is.
    First,
    /// Numbers of rows are added.
    Sum,
    /// Rows follow one another, in the order of the groups.
    Append,
}

impl MergeRule {
    pub fn of(share: &Share, plan: &Plan) -> MergeRule {
        let returns = match plan {
            Plan::Insert(insert) => insert.returning.is_some(),
            Plan::Update(update) => update.returning.is_some(),
            Plan::Delete(delete) => delete.returning.is_some(),
            Plan::Query(_) | Plan::Truncate { .. } => false,
        };
        match share {
            Share::Owner { .. } | Share::Any | Share::Same => MergeRule::First,
            Share::Rows if returns => MergeRule::Append,
            Share::Rows => MergeRule::Sum,
        }
    }

    /// The statement's table of those of the groups, in their order. None: none has one.
    ///
    /// # Errors
    /// A group has answered with what is no such table.
    pub fn merge<'t>(self, mut tables: impl Iterator<Item = &'t [u8]>) -> UserResult<Option<Vec<u8>>> {
        let Some(first) = tables.next() else { return Ok(None) };
        let mut merged = first.to_vec();
        match self {
            MergeRule::First => {}
            MergeRule::Sum => {
                let mut sum = count_of(first)?;
                for table in tables {
                    sum = sum.checked_add(count_of(table)?).ok_or_else(unreadable)?;
                }
                merged.clear();
                table::write_modified_tuples(&mut merged, sum);
            }
            MergeRule::Append => {
                let mut rows = rows_of(first)?.count;
                let count_at = rows_of(first)?.count_at;
                for table in tables {
                    let more = rows_of(table)?;
                    rows = rows.checked_add(more.count).ok_or_else(unreadable)?;
                    merged.extend_from_slice(more.bytes);
                }
                let length = u32::try_from(merged.len() - LENGTH_BYTES).map_err(|_| unreadable())?;
                merged[..LENGTH_BYTES].copy_from_slice(&length.to_be_bytes());
                merged[count_at..count_at + LENGTH_BYTES].copy_from_slice(&rows.to_be_bytes());
            }
        }
        Ok(Some(merged))
    }
}

/// Of lengths and numbers of rows.
const LENGTH_BYTES: usize = 4;

#[cold]
fn unreadable() -> UserError {
    UserError::internal("a group's share of a statement has an answer that is no table")
}

fn u32_at(bytes: &[u8], at: usize) -> UserResult<u32> {
    let bytes = bytes.get(at..at + LENGTH_BYTES).ok_or_else(unreadable)?;
    Ok(u32::from_be_bytes(bytes.try_into().expect("four bytes")))
}

/// A table's body, behind its length.
fn body_of(table: &[u8]) -> UserResult<&[u8]> {
    let length = u32_at(table, 0)? as usize;
    table.get(LENGTH_BYTES..).filter(|body| body.len() == length).ok_or_else(unreadable)
}

fn count_of(table: &[u8]) -> UserResult<i64> {
    let table = Table::parse(body_of(table)?).map_err(|_| unreadable())?;
    table.scalar().ok_or_else(unreadable)
}

struct TableRows<'t> {
    count_at: usize,
    count: u32,
    bytes: &'t [u8],
}

fn rows_of(table: &[u8]) -> UserResult<TableRows<'_>> {
    let body = body_of(table)?;
    let parsed = Table::parse(body).map_err(|_| unreadable())?;
    let count_at = 2 * LENGTH_BYTES + u32_at(body, 0)? as usize;
    let bytes = table.get(count_at + LENGTH_BYTES..).ok_or_else(unreadable)?;
    Ok(TableRows { count_at, count: u32::try_from(parsed.row_count()).map_err(|_| unreadable())?, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrite_value::{SqlType, Value};
    use ferrite_wire::{TableHeader, TableWriter};

    fn modified(rows: i64) -> Vec<u8> {
        let mut table = Vec::new();
        table::write_modified_tuples(&mut table, rows);
        table
    }

    fn returned(values: &[i64]) -> Vec<u8> {
        let header = TableHeader::new([("K", SqlType::Bigint), ("V", SqlType::Varchar)]);
        let mut bytes = Vec::new();
        let mut writer = TableWriter::begin(&mut bytes, &header);
        for value in values {
            writer.row(&[Value::Integer(*value), Value::Text("x")]).expect("it is small");
        }
        writer.finish();
        bytes
    }

    fn merged(rule: MergeRule, tables: &[Vec<u8>]) -> UserResult<Option<Vec<u8>>> {
        rule.merge(tables.iter().map(Vec::as_slice))
    }

    #[test]
    fn numbers_of_rows_are_added_and_one_answer_is_the_whole_one() {
        assert_eq!(merged(MergeRule::Sum, &[modified(2), modified(0), modified(5)]), Ok(Some(modified(7))));
        assert_eq!(merged(MergeRule::First, &[modified(2), modified(2)]), Ok(Some(modified(2))));
        for rule in [MergeRule::First, MergeRule::Sum, MergeRule::Append] {
            assert_eq!(merged(rule, &[]), Ok(None));
            assert_eq!(merged(rule, &[modified(3)]), Ok(Some(modified(3))));
        }
    }

    #[test]
    fn returned_rows_follow_one_another() {
        let tables = [returned(&[1, 2]), returned(&[]), returned(&[3])];
        assert_eq!(merged(MergeRule::Append, &tables), Ok(Some(returned(&[1, 2, 3]))));
    }

    #[test]
    fn what_is_no_table_is_an_error() {
        let cut = returned(&[1])[..20].to_vec();
        for rule in [MergeRule::Sum, MergeRule::Append] {
            for bytes in [Vec::new(), vec![0; 3], vec![0, 0, 0, 0], cut.clone(), vec![255; 40]] {
                assert!(merged(rule, &[modified(1), bytes.clone()]).is_err(), "{rule:?} {bytes:?}");
                assert!(merged(rule, &[bytes, modified(1)]).is_err());
            }
        }
        assert!(merged(MergeRule::Sum, &[modified(i64::MAX), modified(1)]).is_err());
    }
}
