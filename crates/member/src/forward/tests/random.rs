//! Random steps on both sides, and hostile messages: each call has one answer, and it is true.

use super::*;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Call(u64),
    Send,
    /// One message arrives at that leader, or comes from it.
    Arrive(u32),
    Return(u32),
    Answer(u32),
    Lead(Option<u32>),
    Lose,
    Cancel(u64, bool),
    Wait,
}

fn step() -> impl Strategy<Value = Step> {
    let node = || 2u32..4;
    prop_oneof![
        6 => (0u64..4).prop_map(Step::Call),
        6 => Just(Step::Send),
        5 => node().prop_map(Step::Arrive),
        5 => node().prop_map(Step::Return),
        5 => node().prop_map(Step::Answer),
        1 => proptest::option::of(node()).prop_map(Step::Lead),
        1 => Just(Step::Lose),
        1 => (0u64..4, any::<bool>()).prop_map(|(connection, gone)| Step::Cancel(connection, gone)),
        1 => Just(Step::Wait),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Whatever happens, each call is answered once, is executed once at most, and its answer is
    /// true.
    #[test]
    fn each_call_has_one_answer_and_it_is_true(steps in proptest::collection::vec(step(), 1..120)) {
        let mut here = Here::new();
        let mut leaders = [Leader::default(), Leader::default()];
        // Of leaders, on the way here.
        let ways = [Queues::default(), Queues::default()];
        let (mut handle, mut made, mut destination) = (0, BTreeMap::new(), Some(2));
        let mut executed = BTreeSet::new();
        let index = |node: u32| node as usize - 2;
        let lose = |here: &mut Here, leaders: &mut [Leader; 2]| {
            here.link.0.lock().unwrap().messages.clear();
            for node in [2, 3] {
                ways[index(node)].0.lock().unwrap().messages.clear();
                here.window.lost(NodeId(node));
                let Leader { received, execute } = &mut leaders[index(node)];
                received.lost(HERE, execute);
            }
        };
        for step in steps {
            match step {
                Step::Call(connection) => {
                    handle += 1;
                    made.insert(handle, connection);
                    here.window.push(batch(&here.answers, &[(connection, handle)], 0), here.now);
                }
                Step::Send => here.send(),
                Step::Arrive(node) => {
                    if let Some((_, message)) = here.link.next(NodeId(node)) {
                        let Leader { received, execute } = &mut leaders[index(node)];
                        let gives_back = Taking::GiveBack(Epoch(here.epoch + 1));
                        let taking = if destination == Some(node) { Taking::Execute } else { gives_back };
                        received.calls((HERE, START), &message, taking, execute).unwrap();
                    }
                }
                Step::Return(node) => {
                    leaders[index(node)].received.send(&ways[index(node)]);
                    if let Some((_, message)) = ways[index(node)].next(HERE) {
                        here.window.answers(NodeId(node), &message, here.now).unwrap();
                    }
                }
                Step::Answer(node) => {
                    if let Some((_, handle)) = leaders[index(node)].answer() {
                        prop_assert!(executed.insert(handle), "executed twice: {handle}");
                    }
                }
                Step::Lead(node) => {
                    destination = node;
                    here.epoch += 1;
                    here.window.lead(node.map(leader), false, Epoch(here.epoch), here.now);
                }
                Step::Lose => lose(&mut here, &mut leaders),
                Step::Cancel(connection, gone) => {
                    let cancel = if gone { Cancel::Gone } else { Cancel::Calls { handle: None, until_micros: 0 } };
                    here.window.cancel(connection, cancel, &cancelled());
                }
                Step::Wait => here.now += FORWARD_WAIT / 3,
            }
        }
        lose(&mut here, &mut leaders);
        here.window.end();
        for leader in &mut leaders {
            while let Some((_, handle)) = leader.answer() {
                prop_assert!(executed.insert(handle), "executed twice: {handle}");
            }
            prop_assert_eq!((leader.received.remote_count(), leader.execute.calls_held), (0, 0));
        }
        let mut answered = BTreeMap::new();
        for (connection, handle, status) in here.answers.take() {
            prop_assert_eq!(made.get(&handle), Some(&connection));
            prop_assert!(answered.insert(handle, status).is_none(), "answered twice: {}", handle);
        }
        prop_assert_eq!(answered.len(), made.len());
        for (handle, status) in answered {
            match status {
                DONE => prop_assert!(executed.contains(&handle), "done, but never executed: {handle}"),
                UNKNOWN => {}
                _ => prop_assert!(!executed.contains(&handle), "refused, but executed: {handle}"),
            }
        }
    }

    #[test]
    fn hostile_messages_harm_nobody(
        messages in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..60), 1..20),
        number in 0u32..3,
    ) {
        let (mut here, mut there) = (Here::new(), Leader::default());
        here.call(&[(7, 1)]);
        for bytes in messages {
            let mut message = Vec::new();
            batch::begin_calls(&mut message, Header { group: FIRST_GROUP, session: 0, number }, Epoch(1));
            message.extend_from_slice(&bytes);
            for message in [&message, &bytes] {
                let Leader { received, execute } = &mut there;
                let _ = received.calls((HERE, START), message, Taking::GiveBack(Epoch(2)), execute);
                let _ = here.window.answers(NodeId(2), message, here.now);
            }
        }
        here.window.lost(NodeId(2));
        prop_assert_eq!(here.answers.take(), [(7, 1, UNKNOWN)]);
    }
}
