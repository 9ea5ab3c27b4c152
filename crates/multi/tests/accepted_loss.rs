//! A group whose loss was accepted goes on with a stream that lacks its end: perhaps the outcome of
//! a part that it has. The other participants have forgotten how the lot ended.

use ferrite_base::{Epoch, GroupId};
use ferrite_multi::{Agent, AgentEffect, Ledger, LotId, Outcome, Record, Resolution, Settled, ToAgent};
use std::collections::BTreeMap;

const HERE: GroupId = GroupId(1);
const OTHER: GroupId = GroupId(2);
const ORDER: Epoch = Epoch(3);

fn lot(number: u64) -> LotId {
    LotId { epoch: ORDER, number }
}

fn up_to(number: u64) -> Settled {
    Settled { numbers: BTreeMap::from([(ORDER, number)]), ..Settled::default() }
}

/// A stream that obeys the sequencer of epoch 3 and has a part of lot 5.
fn prepared() -> Ledger<()> {
    let mut ledger = Ledger::default();
    let participants = vec![HERE, OTHER];
    for record in [
        Record::Ordered { epoch: ORDER, settled: Settled::default() },
        Record::Prepared { lot: lot(5), settled: up_to(4), participants, redo: () },
    ] {
        ledger.apply(record).expect("a stream may have it");
    }
    ledger
}

/// What the agent appends, in its stream, too.
fn append(agent: &mut Agent, stream: &mut Ledger<()>) -> Vec<Record<()>> {
    let appended = |effect| match effect {
        AgentEffect::Append(record) => Some(record),
        _ => None,
    };
    let records: Vec<Record<()>> = agent.effects().into_iter().filter_map(appended).collect();
    for record in &records {
        stream.apply(record.clone()).expect("the stream does not contradict itself");
    }
    records
}

#[test]
fn a_part_whose_outcome_all_others_have_forgotten_counts() {
    let mut stream = prepared();
    let mut agent = Agent::new(HERE, Epoch(9), &stream);
    agent.tick(0);
    assert!(!agent.is_settled() && append(&mut agent, &mut stream).is_empty());
    agent.receive(ToAgent::Settled(up_to(7)), 1);
    assert!(agent.is_settled());
    let records = append(&mut agent, &mut stream);
    assert!(matches!(records[..], [Record::Decided { outcome: Outcome::Committed, .. }]), "{records:?}");
    agent.decided(lot(5));
    // The next sequencer's record says of all these lots that they are settled.
    agent.receive(ToAgent::Settled(up_to(8)), 2);
    agent.receive(ToAgent::NewOrder { epoch: Epoch(4) }, 3);
    assert_eq!(append(&mut agent, &mut stream).len(), 1);
    assert!(stream.settled().covers(lot(5)) && stream.outcomes().is_empty());
}

#[test]
fn who_has_forgotten_an_outcome_says_that_it_is_settled() {
    let mut agent = Agent::new(OTHER, Epoch(2), &Ledger::<()>::default());
    agent.receive(ToAgent::Settled(up_to(7)), 0);
    agent.effects();
    agent.receive(ToAgent::Resolve { lot: lot(5), asks: Some(HERE) }, 1);
    let answers = agent.effects();
    let is_said = |effect: &AgentEffect| matches!(effect, AgentEffect::ToAgent { group: HERE, message: ToAgent::Settled(settled) } if settled.covers(lot(5)));
    assert!(answers.len() == 1 && is_said(&answers[0]), "{answers:?}");
    // A lot that is not settled is refused, as ever.
    agent.receive(ToAgent::Resolve { lot: lot(8), asks: Some(HERE) }, 2);
    agent.refused(lot(8));
    let verdict = agent.effects().pop();
    assert!(
        matches!(
            verdict,
            Some(AgentEffect::ToAgent { message: ToAgent::Verdict { verdict: Resolution::Aborted, .. }, .. })
        ),
        "{verdict:?}"
    );
}
