//! `@SnapshotSave` with a path, where a cluster has several groups: each group's leader writes its
//! partitions' files, this node the manifest (`ferrite_backup::groups`).
//!
//! In CSV each leader writes one file for each table and group, and the schema stands for the
//! manifest (`ferrite_backup::groups_csv`).
//!
//! The node that leads the first group has all groups take what they show at one moment, by a lot,
//! and then calls each group's leader by `@BackupGroup`. Invariants:
//!
//! - nothing is written before the lot has succeeded: then what the groups took is committed;
//! - the manifest is written when every group has answered with the files of its partitions;
//! - files of a backup that fails are removed by the leaders that have written them, and no others.

use super::answers::{AnswerRows, RowsAnswer, in_one_line, malformed, of_group, outcome};
use super::{Backups, HOST, by_table, request_failed, saved_table, spawn};
use crate::connection::of_compound;
use crate::routes;
use crate::submit::Submit;
use crossbeam_channel::{Sender, bounded, unbounded};
use ferrite_backup::groups::{self, GroupsBackup, PartFile, Schema};
use ferrite_backup::groups_csv;
use ferrite_backup::request::{self, Format};
use ferrite_base::leader_change::reason_of_unknown;
use ferrite_base::{Epoch, ErrorKind, GroupId, PartitionId, Sequence, UserError, UserResult};
use ferrite_group::FIRST_GROUP;
use ferrite_io::{Clock, Random, SystemClock, SystemRandom};
use ferrite_member::lots::GroupsCall;
use ferrite_notice::Notice;
use ferrite_partition::coordinator::{GroupCut, Job};
use ferrite_partition::lots::LotProgram;
use ferrite_partition::{AnswerBatch, Mailbox, Reply, StoreSet};
use ferrite_snapshot::RowsFile;
use ferrite_system::result::{SystemTable, cells};
use ferrite_value::SqlType::{Bigint, Integer};
use ferrite_value::{OwnedValue, Value};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// The call by which a group does its part; only nodes make it.
pub const OF_GROUP: &str = "@BackupGroup";
/// What is asked of it: its files, to forget what it took, to remove its files.
const WRITE: i64 = 1;
const FORGET: i64 = 2;
const REMOVE: i64 = 3;
/// How long groups may have different schemas.
const SCHEMAS_DIFFER_MAX: Duration = Duration::from_secs(5);

/// One backup on its way.
struct GroupsSave {
    node: Arc<Backups>,
    submit: Arc<Submit>,
    request: request::Save,
    /// As the caller said it.
    asked: Vec<OwnedValue>,
    backup: GroupsBackup,
}

/// A backup that is complete.
struct DoneSave {
    bytes: u64,
    written: Vec<WrittenPart>,
    /// About files on other machines.
    words: String,
}

/// What became of a lot.
enum CutAnswer {
    Over(UserResult<()>),
    /// Another schema was in force.
    Again,
}

struct CutAnswers(Sender<CutAnswer>);

/// A file, and the node that has written it.
#[derive(Clone, PartialEq, Eq, Debug)]
struct WrittenPart {
    host_id: i64,
    host_name: String,
    file: PartFile,
}

impl Mailbox for CutAnswers {
    fn deliver(&self, answers: AnswerBatch) {
        let over = answers.first().ok_or_else(malformed).and_then(|answer| outcome(&answer));
        // The caller waits for it.
        let _ = self.0.send(CutAnswer::Over(over));
    }
}

/// The files that a leader has written.
fn part_of(rows: &AnswerRows) -> UserResult<Vec<WrittenPart>> {
    rows.iter().map(|row| written_of(row).ok_or_else(malformed)).collect()
}

fn written_of(row: &[OwnedValue]) -> Option<WrittenPart> {
    let [OwnedValue::Integer(host_id), OwnedValue::Text(host_name), numbers @ ..] = row else { return None };
    let number = |value: &OwnedValue| match value {
        OwnedValue::Integer(number) => Some(*number as u64),
        _ => None,
    };
    let numbers: Vec<u64> = numbers.iter().map(number).collect::<Option<_>>()?;
    let [partition, epoch, sequence, bytes, blocks, checksum, rows] = numbers[..] else { return None };
    let file = RowsFile {
        epoch: Epoch(epoch),
        sequence: Sequence(sequence),
        bytes,
        blocks: u32::try_from(blocks).ok()?,
        checksum: u32::try_from(checksum).ok()?,
        rows,
    };
    let partition = PartitionId(u32::try_from(partition).ok()?);
    Some(WrittenPart { host_id: *host_id, host_name: host_name.to_string(), file: (partition, file) })
}

fn table_of(written: &[WrittenPart]) -> SystemTable {
    let numbers = ["EPOCH", "SEQUENCE", "BYTES", "BLOCKS", "CHECKSUM", "ROWS"].map(|name| (name, Bigint));
    let columns: Vec<_> = HOST.into_iter().chain([("SITE_ID", Integer)]).chain(numbers).collect();
    let mut table = SystemTable::new(&columns);
    for WrittenPart { host_id, host_name, file: (partition, file) } in written {
        let RowsFile { epoch, sequence, bytes, blocks, checksum, rows } = *file;
        table.row(cells![
            *host_id,
            host_name,
            i64::from(partition.0),
            epoch.0 as i64,
            sequence.0 as i64,
            bytes as i64,
            i64::from(blocks),
            i64::from(checksum),
            rows as i64
        ]);
    }
    table
}

/// What groups know the backup by.
fn name_of(identity: [u8; 16]) -> String {
    identity.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn identity_of(name: &str) -> Option<[u8; 16]> {
    u128::from_str_radix(name, 16).ok().filter(|_| name.len() == 32).map(u128::to_be_bytes)
}

/// What the group has taken under that name.
fn cut_of(submit: &Submit, group: GroupId, name: &str) -> UserResult<GroupCut> {
    let (to, cut) = bounded(1);
    let table = submit.routes.table();
    let place = table.place_of(group).ok_or_else(routes::not_here)?;
    let job = Job::GiveCut { name: name.to_owned(), to };
    table.to_coordinator(place, job).map_err(|_| routes::not_here())?;
    drop(table);
    cut.recv().map_err(|_| {
        UserError::parameters("the group is led by another node than at the moment of the backup")
            .with_hint("try again")
    })
}

/// Answers `@SnapshotSave`, from a thread of its own.
pub fn save(node: &Arc<Backups>, submit: &Arc<Submit>, parameters: &[Value<'_>], reply: &Reply) -> UserResult<()> {
    let request = match request::save(parameters, &node.identity.backups) {
        Ok(request) => request,
        Err(error) => {
            super::answer(reply, &Ok(vec![request_failed(node, &error)]));
            return Ok(());
        }
    };
    let mut identity = [0; 16];
    SystemRandom.fill(&mut identity);
    let save = GroupsSave {
        node: Arc::clone(node),
        submit: Arc::clone(submit),
        request,
        asked: parameters.iter().map(Value::to_owned_value).collect(),
        backup: GroupsBackup { identity, partitions: submit.routes.partition_count() as u32 },
    };
    let reply = reply.clone();
    spawn(move || save.run(&reply))
}

impl GroupsSave {
    fn run(self, reply: &Reply) {
        let node = &self.node;
        let begun = node.turn.acquire().and_then(|turn| {
            groups::check(&self.submit.compiled.load().catalog, &node.disk, &self.request)?;
            let cut = self.moment().inspect_err(|_| self.forget_all())?;
            let schema = Schema::of(&cut, &self.request).inspect_err(|_| self.forget_all())?;
            Ok((turn, cut, schema))
        });
        let (turn, cut, schema) = match begun {
            Ok(begun) => begun,
            Err(error) => return super::answer(reply, &Ok(vec![request_failed(node, &error)])),
        };
        node.turn.begun(&self.request);
        if !self.request.block {
            super::answer(reply, &Ok(vec![by_table(node, &schema.tables(&self.request))]));
        }
        let result = self.write(cut, schema);
        if let Err(error) = &result {
            ferrite_io::notify(Notice::BackupFailed { reason: error.to_string() });
        }
        node.turn.ended(&result.as_ref().map(|done| done.bytes).map_err(UserError::clone));
        // A client that has its answer may begin the next at once.
        drop(turn);
        if self.request.block {
            self.answer_waiting(reply, &result);
        }
    }

    /// Has all groups take what they show at one moment; what the first one took.
    fn moment(&self) -> UserResult<GroupCut> {
        let name = name_of(self.backup.identity);
        let until = Instant::now() + SCHEMAS_DIFFER_MAX;
        loop {
            let (to, heard) = unbounded();
            let mailbox = Arc::new(CutAnswers(to.clone()));
            let sent_micros = SystemClock.wall_micros();
            self.submit.groups_calls.send(GroupsCall {
                program: LotProgram::Cut(name.clone()),
                catalog_version: self.submit.compiled.load().catalog.version,
                parameters: Vec::new(),
                stores: StoreSet::All,
                merges: Box::default(),
                is_read: true,
                time_max_millis: 0,
                reply: Reply { mailbox, connection: of_compound(true), handle: 0, sent_micros },
                again: Box::new(move || drop(to.send(CutAnswer::Again))),
                behind: Vec::new(),
            });
            match heard.recv() {
                Ok(CutAnswer::Over(outcome)) => outcome.map_err(only_reason)?,
                Ok(CutAnswer::Again) if Instant::now() < until => continue,
                Ok(CutAnswer::Again) => {
                    return Err(UserError::parameters("the groups have different schemas").with_hint("try again"));
                }
                // Dropped with the call.
                Err(_) => return Err(UserError::parameters("the server stops")),
            }
            return cut_of(&self.submit, FIRST_GROUP, &name);
        }
    }

    fn others(&self) -> Vec<GroupId> {
        self.submit.routes.table().groups().filter(|group| *group != FIRST_GROUP).collect()
    }

    /// `fingerprint`: what all groups' files have in common.
    fn ask(&self, group: GroupId, what: i64, fingerprint: u32, to: &Sender<(GroupId, UserResult<AnswerRows>)>) {
        let name = name_of(self.backup.identity);
        let mut parameters = vec![Value::Text(&name), Value::Integer(i64::from(fingerprint)), Value::Integer(what)];
        parameters.extend(self.asked.iter().map(OwnedValue::as_value));
        let mailbox = Arc::new(RowsAnswer(group, to.clone()));
        self.submit.call_leader(OF_GROUP, group, &parameters, mailbox, SystemClock.wall_micros());
    }

    /// Has every group drop what it took. No answer is awaited.
    fn forget_all(&self) {
        let to = unbounded().0;
        self.others().into_iter().for_each(|group| self.ask(group, FORGET, 0, &to));
        drop(cut_of(&self.submit, FIRST_GROUP, &name_of(self.backup.identity)));
    }

    /// How many bytes, and which node has written what.
    fn write(&self, cut: GroupCut, schema: Schema) -> UserResult<DoneSave> {
        let GroupsSave { node, request, backup, .. } = self;
        let (to, heard) = unbounded();
        let mut missing = self.others();
        let fingerprint = schema.fingerprint();
        missing.iter().for_each(|group| self.ask(*group, WRITE, fingerprint, &to));
        drop(to);
        let mut done = Vec::new();
        let mut written = Vec::new();
        let mut failed = None;
        let names = schema.csv_names(request, self.submit.routes.table().groups());
        match node.write_group(FIRST_GROUP, request, *backup, cut) {
            Ok(files) => {
                done.push(FIRST_GROUP);
                written.extend(node.written(files));
            }
            Err(error) => failed = Some(of_group(FIRST_GROUP, error)),
        }
        for (group, part) in heard {
            missing.retain(|other| *other != group);
            match part.and_then(|rows| part_of(&rows)) {
                Ok(files) => {
                    done.push(group);
                    written.extend(files);
                }
                Err(error) => failed = failed.or(Some(of_group(group, perhaps_written(error)))),
            }
        }
        let unheard = missing.first().map(|group| of_group(*group, UserError::parameters("it has not answered")));
        let result = match failed.or(unheard) {
            Some(error) => Err(error),
            None => {
                let files = written.iter().map(|of| of.file).collect();
                schema.commit(&node.disk, request, backup, files, &names)
            }
        };
        if result.is_err() {
            self.remove(&done);
        }
        result.map(|bytes| DoneSave { bytes, words: self.words(&written, names), written })
    }

    /// Has what these groups have written removed.
    fn remove(&self, done: &[GroupId]) {
        let (to, heard) = unbounded();
        for group in done {
            match *group {
                FIRST_GROUP => self.node.remove_group(&self.submit, FIRST_GROUP, &self.request, self.backup),
                group => self.ask(group, REMOVE, 0, &to),
            }
        }
        drop(to);
        heard.into_iter().for_each(drop);
    }

    /// A row for each partition.
    fn answer_waiting(&self, reply: &Reply, result: &UserResult<DoneSave>) {
        let node = &self.node;
        let mut table = saved_table();
        let words = result.as_ref().map_or("", |done| &done.words);
        match result {
            Ok(DoneSave { written, .. }) => {
                let mut rows: Vec<&WrittenPart> = written.iter().collect();
                rows.sort_by_key(|of| of.file.0);
                for WrittenPart { host_id, host_name, file: (partition, _) } in rows {
                    table.row(cells![*host_id, host_name, i64::from(partition.0), "SUCCESS", ""]);
                }
            }
            Err(error) => {
                let host = node.identity.host_name.as_str();
                let words = in_one_line(error);
                for partition in 0..self.backup.partitions {
                    table.row(cells![node.identity.host_id, host, i64::from(partition), "FAILURE", words.as_str()]);
                }
            }
        }
        super::answer_with_words(reply, Ok((vec![table], words.to_owned())));
    }

    /// About files that are not on this machine. `names`: of all files in CSV.
    fn words(&self, written: &[WrittenPart], names: Vec<String>) -> String {
        let GroupsSave { node, request, backup, .. } = self;
        if request.format == Format::Csv {
            let away = groups_csv::elsewhere(&node.disk, &request.dir, names);
            return if away.is_empty() {
                String::new()
            } else {
                format!("these files are on other nodes, in the same directory: {}", away.join(", "))
            };
        }
        let files: Vec<PartFile> = written.iter().map(|of| of.file).collect();
        let elsewhere = groups::elsewhere(&node.disk, request, backup, &files);
        if elsewhere.is_empty() {
            return String::new();
        }
        let partitions: Vec<String> = elsewhere.iter().map(PartitionId::to_string).collect();
        let place = node.place().unwrap_or_default();
        format!(
            "the files of partitions {} are on other nodes, in the same directory: these nodes can restore the backup as it is; \
             for others, copy the files next to the manifest on {place}",
            partitions.join(", ")
        )
    }
}

/// Of a call that changes nothing, only why it has failed.
fn only_reason(error: UserError) -> UserError {
    match reason_of_unknown(error.message()).map(str::to_owned) {
        Some(reason) => UserError::parameters(reason),
        None => error,
    }
}

/// The same of a call that writes files.
fn perhaps_written(error: UserError) -> UserError {
    match error.kind() {
        ErrorKind::OutcomeUnknown => only_reason(error).with_hint(
            "files of this backup may be left on that node; once it runs again, @SnapshotDelete removes them",
        ),
        _ => error,
    }
}

impl Backups {
    /// Writes what a group that this node leads has.
    fn write_group(
        &self,
        group: GroupId,
        request: &request::Save,
        backup: GroupsBackup,
        cut: GroupCut,
    ) -> UserResult<Vec<PartFile>> {
        if request.format == Format::Native {
            return groups::write_part(&self.disk, request, &backup, cut);
        }
        let part = groups_csv::write_part(&self.disk, request, group, group == FIRST_GROUP, &cut)?;
        let mut bytes = part.bytes;
        self.csv_written.lock().unwrap_or_else(PoisonError::into_inner).insert(group, (backup.identity, part.paths));
        let file = |partition| {
            let bytes = std::mem::take(&mut bytes);
            (partition, RowsFile { epoch: Epoch(0), sequence: Sequence(0), bytes, blocks: 0, checksum: 0, rows: 0 })
        };
        Ok(cut.partitions.into_iter().map(file).collect())
    }

    /// Removes what this node has written of a group for a backup that does not come to be.
    fn remove_group(&self, submit: &Submit, group: GroupId, request: &request::Save, backup: GroupsBackup) {
        let mut written = self.csv_written.lock().unwrap_or_else(PoisonError::into_inner);
        if written.get(&group).is_some_and(|(identity, _)| *identity == backup.identity)
            && let Some((_, paths)) = written.remove(&group)
        {
            groups_csv::remove(&self.disk, &paths);
        }
        drop(written);
        if request.format == Format::Native {
            let table = submit.routes.kept_table();
            groups::remove_part(&self.disk, request, &backup, table.partitions_of(group));
        }
    }

    fn written(&self, files: Vec<PartFile>) -> Vec<WrittenPart> {
        let host_id = i64::from(self.identity.host_id);
        let host_name = &self.identity.host_name;
        files.into_iter().map(|file| WrittenPart { host_id, host_name: host_name.clone(), file }).collect()
    }
}

/// `@BackupGroup(group, name, fingerprint, what, ...)`, with the parameters of `@SnapshotSave`
/// behind: this node, which leads the group, does its part.
pub fn part(node: &Arc<Backups>, submit: &Arc<Submit>, parameters: &[Value<'_>], reply: &Reply) -> UserResult<()> {
    let unknown = || UserError::parameters("@BackupGroup takes a group and what is asked of it");
    let [Value::Integer(group), Value::Text(name), Value::Integer(fingerprint), Value::Integer(what), asked @ ..] =
        parameters
    else {
        return Err(unknown());
    };
    let request = request::save(asked, &node.identity.backups)?;
    let group = GroupId(u32::try_from(*group).map_err(|_| unknown())?);
    let identity = identity_of(name).ok_or_else(unknown)?;
    let backup = GroupsBackup { identity, partitions: submit.routes.partition_count() as u32 };
    let node = Arc::clone(node);
    let submit = Arc::clone(submit);
    let reply = reply.clone();
    let name = (*name).to_owned();
    let what = *what;
    let fingerprint = *fingerprint;
    spawn(move || {
        let done = match what {
            WRITE => cut_of(&submit, group, &name).and_then(|cut| {
                if i64::from(groups::fingerprint(&cut)) != fingerprint {
                    let words = "what it took is of another moment or another schema than what the first group took";
                    return Err(UserError::parameters(words).with_hint("try again"));
                }
                node.write_group(group, &request, backup, cut)
            }),
            FORGET => {
                drop(cut_of(&submit, group, &name));
                Ok(Vec::new())
            }
            REMOVE => {
                node.remove_group(&submit, group, &request, backup);
                Ok(Vec::new())
            }
            _ => Err(unknown()),
        };
        super::answer(&reply, &done.map(|files| vec![table_of(&node.written(files))]));
    })
}

#[cfg(test)]
mod tests {
    use super::super::answers::rows_of;
    use super::*;
    use ferrite_system::result::write_response;

    #[test]
    fn what_a_leader_has_written_comes_back_as_it_was() {
        let file =
            RowsFile { epoch: Epoch(3), sequence: Sequence(1 << 40), bytes: 5, blocks: 6, checksum: u32::MAX, rows: 8 };
        let written = vec![WrittenPart { host_id: 2, host_name: "db2".to_owned(), file: (PartitionId(4), file) }];
        let answered = |result: UserResult<Vec<SystemTable>>| {
            let mut answers = AnswerBatch::default();
            write_response(&mut answers.bytes, 1, &result);
            rows_of(&answers).and_then(|rows| part_of(&rows))
        };
        assert_eq!(answered(Ok(vec![table_of(&written)])).expect("well-formed"), written);
        let failed = answered(Err(UserError::parameters("no room")));
        assert!(failed.expect_err("a failure").message().contains("no room"));
        assert_eq!(answered(Ok(vec![SystemTable::new(&[("A", Bigint)])])).expect("no rows"), []);
        assert!(written_of(&[OwnedValue::Integer(1)]).is_none());
    }

    #[test]
    fn an_identity_is_known_by_its_digits() {
        let identity = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255];
        assert_eq!(identity_of(&name_of(identity)), Some(identity));
        for name in ["", "0", "x", &"0".repeat(33)] {
            assert_eq!(identity_of(name), None, "{name}");
        }
    }
}
