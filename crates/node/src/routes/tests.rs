use super::*;
use crossbeam_channel::{Receiver, unbounded};
use ferrite_base::ProcedureId;
use ferrite_catalog::Catalog;
use ferrite_partition::{AnswerBatch, CallHeader, Compiled, Mailbox};
use ferrite_wire::{Response, frame};
use std::sync::Mutex;

const SECOND: GroupId = GroupId(1);

/// Partitions 0 and 2 are the first group's, 1 and 3 the second's.
const GROUPS: [GroupId; 4] = [FIRST_GROUP, SECOND, FIRST_GROUP, SECOND];

struct Ends {
    partitions: Vec<Receiver<Event>>,
    jobs: Receiver<Job>,
}

fn map() -> GroupMap {
    GroupMap::new(GROUPS.to_vec()).expect("groups without gaps")
}

fn group(id: GroupId) -> (GroupWays, Ends) {
    let (coordinator, jobs) = unbounded();
    let of = map().partitions_of(id).expect("it has partitions");
    let (senders, inboxes) = of.ids().map(|_| unbounded()).unzip();
    (GroupWays { partitions: GroupInboxes::new(of, senders), coordinator }, Ends { partitions: inboxes, jobs })
}

#[derive(Default)]
struct Answers(Mutex<Vec<(u64, i64, String)>>);

impl Mailbox for Answers {
    fn deliver(&self, answers: AnswerBatch) {
        let (_, body) = frame::split(&answers.bytes).unwrap().expect("one answer");
        let response = Response::parse(body).unwrap();
        let text = response.status_text.unwrap_or_default().to_owned();
        self.0.lock().unwrap().push((answers.runs[0].connection, response.handle, text));
    }
}

fn calls(mailbox: &Arc<Answers>, handles: &[i64]) -> Event {
    let call = |handle: &i64| CallHeader {
        connection: 7,
        handle: *handle,
        procedure: ProcedureId(0),
        parameters_start: 0,
        parameters_end: 0,
        drop_first_parameter: false,
    };
    let compiled = Compiled::new(Arc::new(Catalog::default()), &Default::default()).expect("an empty schema compiles");
    Event::Calls(CallBatch {
        compiled: Arc::new(compiled),
        mailbox: Arc::<Answers>::clone(mailbox),
        calls: handles.iter().map(call).collect(),
        bytes: Vec::new(),
        answers: Vec::new(),
        cached: None,
        sent_micros: 1,
    })
}

#[test]
fn partitions_are_counted_over_the_cluster_and_begin_and_end_with_their_group() {
    let routes = Routes::new(&map());
    assert_eq!((routes.partition_count(), routes.table().hosted().count()), (4, 0));
    let (inboxes, second) = group(SECOND);
    routes.begin(inboxes);
    let before = routes.kept_table();
    assert_eq!(before.hosted().collect::<Vec<_>>(), [PartitionId(1), PartitionId(3)]);
    assert_eq!(before.hosted_groups().collect::<Vec<_>>(), [SECOND]);
    routes.to_partition(PartitionId(3), Event::Wake).expect("it is here");
    assert!(second.partitions[0].is_empty() && second.partitions[1].len() == 1, "the second of its group");
    routes.to_partition(PartitionId(2), Event::Wake).expect_err("another node has it");
    routes.to_partition(PartitionId(4), Event::Wake).expect_err("no node has it");
    routes.to_coordinator(Job::Stop).expect_err("the first group is not here");
    let (inboxes, first) = group(FIRST_GROUP);
    routes.begin(inboxes);
    routes.to_coordinator(Job::Stop).expect("it is now");
    assert_eq!((first.jobs.len(), routes.table().hosted().count()), (1, 4));
    routes.end(SECOND);
    assert_eq!(routes.table().hosted().collect::<Vec<_>>(), [PartitionId(0), PartitionId(2)]);
    assert!(!routes.table().rests(PartitionId(1)) && routes.table().ways_of(SECOND).is_none());
    // A thread in the midst of its turn has the table of before, and the group's threads run yet.
    before.to_partition(PartitionId(1), Event::Wake).expect("it reads its inbox to the end");
    let (again, _ends) = group(SECOND);
    routes.begin(again);
    assert!(routes.table().is_here(PartitionId(1)), "it may come back");
}

#[test]
fn calls_of_a_partition_that_is_not_here_are_answered() {
    let routes = Routes::new(&map());
    let (inboxes, ends) = group(SECOND);
    routes.begin(inboxes);
    let answers = Arc::<Answers>::default();
    let heard = || std::mem::take(&mut *answers.0.lock().unwrap());
    routes.to_partition(PartitionId(0), calls(&answers, &[1, 2])).expect_err("it is not here");
    let said = heard();
    assert_eq!(said.iter().map(|(connection, handle, _)| (*connection, *handle)).collect::<Vec<_>>(), [(7, 1), (7, 2)]);
    assert!(said[0].2.contains("does not host the partition"), "{said:?}");
    routes.to_partition(PartitionId(1), calls(&answers, &[3])).expect("it is here");
    assert!(heard().is_empty());
    // Its threads have ended since this turn's table was read.
    let table = routes.kept_table();
    routes.end(SECOND);
    drop(ends);
    table.to_partition(PartitionId(1), calls(&answers, &[4])).expect_err("no thread reads it");
    assert_eq!(heard().len(), 1);
    let reply = Reply { mailbox: Arc::<Answers>::clone(&answers), connection: 7, handle: 5, sent_micros: 1 };
    routes.to_coordinator(Job::Quiesce(reply)).expect_err("it is not here");
    assert_eq!(heard()[0].1, 5);
}

#[test]
fn partitions_of_several_groups_have_no_coordinator_in_common() {
    let table = RouteTable::new(&map());
    let only = |partitions: &[u32]| StoreSet::Only(partitions.iter().copied().map(PartitionId).collect());
    assert_eq!(table.group_of_all(&only(&[1, 3])), table.place_of(SECOND));
    assert_eq!(table.group_of_all(&only(&[0])), Some(0));
    assert_eq!([table.group_of_all(&only(&[0, 1])), table.group_of_all(&StoreSet::All)], [None; 2]);
    let one = RouteTable::new(&GroupMap::single(3));
    assert_eq!([one.group_of_all(&only(&[0, 2])), one.group_of_all(&StoreSet::All)], [Some(0); 2]);
}

#[test]
#[should_panic(expected = "a group begins once")]
fn a_group_begins_once() {
    let routes = Routes::new(&map());
    routes.begin(group(SECOND).0);
    routes.begin(group(SECOND).0);
}
