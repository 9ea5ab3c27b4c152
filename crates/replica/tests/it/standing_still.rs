//! What keeps a group from going on though everybody answers.

use ferrite_base::{Epoch, GroupId, Position};
use ferrite_replica::group::{
    Effect, Envelope, Group, GroupConfiguration, Mark, Member, Message, Proposal, Remembered, Timing,
};

const TIMING: Timing = Timing::DEFAULT;

fn members() -> (Member, Member) {
    (Member::new(1, 1), Member::new(2, 1))
}

/// A leader whose other member has the epoch's start.
fn leader() -> Group {
    let (one, other) = members();
    let mut leader = Group::new(GroupId(0), one, TIMING, Remembered::default());
    leader.configured(GroupConfiguration::new(Epoch(1), one, vec![one, other], Vec::new()), 0);
    let start = leader.end();
    leader.written(start);
    acked(&mut leader, start, 0);
    assert!(leader.is_open());
    leader
}

fn acked(leader: &mut Group, durable: Mark, now: u64) {
    let message = Message::Acked { durable, compares: true, round: 0 };
    leader.handle_message(Envelope { from: members().1, epoch: Epoch(leader.end().epoch.0), message }, now);
}

fn proposals(leader: &mut Group) -> Vec<Proposal> {
    let effects = leader.take_effects().into_iter();
    effects.filter_map(|effect| if let Effect::Propose(proposal) = effect { Some(proposal) } else { None }).collect()
}

/// Ticks and answers until `until`, in steps shorter than what counts as standing still.
fn goes_on(leader: &mut Group, from: u64, until: u64, durable: Mark) -> Vec<Proposal> {
    let mut now = from;
    while now < until {
        now += TIMING.heartbeat;
        acked(leader, durable, now);
        leader.tick(now);
    }
    proposals(leader)
}

#[test]
fn a_member_that_answers_but_makes_nothing_durable_is_left_out() {
    let mut leader = leader();
    let start = leader.end();
    assert!(goes_on(&mut leader, 0, 3 * TIMING.stall, start).is_empty(), "it lacks nothing");
    let header = leader.append(7, 10).expect("it leads");
    leader.written(header.mark);
    let now = 3 * TIMING.stall;
    assert!(goes_on(&mut leader, now, now + TIMING.stall / 2, start).is_empty());
    let left = goes_on(&mut leader, now, now + 2 * TIMING.stall, start);
    assert_eq!(left.first().map(|proposal| proposal.members.clone()), Some(vec![members().0]));
}

/// An entry a second is appended; the member has made durable what is older than `lag` seconds, and
/// so something more each time. Who is to stay at the end, if anybody is to leave.
fn behind_by(lag: usize) -> Option<Vec<Member>> {
    const SECOND: u64 = 1_000_000_000;
    let mut leader = leader();
    let mut marks = vec![leader.end()];
    for second in 0..60 {
        let header = leader.append(7, 10).expect("it leads");
        leader.written(header.mark);
        marks.push(header.mark);
        let durable = marks[marks.len().saturating_sub(1 + lag)];
        let left = goes_on(&mut leader, second * SECOND, (second + 1) * SECOND, durable);
        if let Some(proposal) = left.into_iter().next() {
            return Some(proposal.members);
        }
    }
    None
}

#[test]
fn a_member_that_stays_slow_is_left_out_though_it_goes_on() {
    let seconds = (TIMING.stall / 1_000_000_000) as usize;
    assert_eq!(behind_by(seconds - 2), None);
    assert_eq!(behind_by(seconds + 2), Some(vec![members().0]));
}

/// What the leader says of its own log, and what it proposes.
fn own_log(leader: &mut Group) -> (Vec<bool>, usize) {
    let effects = leader.take_effects();
    let said =
        |effect: &Effect| if let Effect::StandsStill(stands_still) = effect { Some(*stands_still) } else { None };
    let proposed = effects.iter().filter(|effect| matches!(effect, Effect::Propose(_))).count();
    (effects.iter().filter_map(said).collect(), proposed)
}

#[test]
fn a_leader_whose_own_log_stands_still_says_so_until_it_moves() {
    let mut leader = leader();
    let header = leader.append(7, 10).expect("it leads");
    // Nobody makes anything durable any more, as where all have one disk: the leader blames nobody.
    let (start, mut now) = (Mark { position: Position(1), chain: 0, epoch: Epoch(1) }, 0);
    let mut go_on = |leader: &mut Group, time: u64| {
        let until = now + time;
        while now < until {
            now += TIMING.heartbeat;
            let message = Message::Acked { durable: start, compares: false, round: 0 };
            leader.handle_message(Envelope { from: members().1, epoch: Epoch(1), message }, now);
            leader.tick(now);
        }
        own_log(leader)
    };
    assert_eq!(go_on(&mut leader, TIMING.stall - TIMING.heartbeat), (vec![], 0));
    assert_eq!(go_on(&mut leader, 2 * TIMING.stall), (vec![true], 0), "once");
    leader.written(header.mark);
    assert_eq!(go_on(&mut leader, TIMING.heartbeat).0, [false]);
    // A leader without others has nobody who could lead.
    leader.configured(GroupConfiguration::new(Epoch(2), members().0, vec![members().0], Vec::new()), 0);
    assert_eq!(go_on(&mut leader, 2 * TIMING.stall).0, []);
}

#[test]
fn a_node_whose_log_stands_still_becomes_no_member() {
    let mut leader = leader();
    let (one, other) = members();
    let start = leader.end();
    leader.configured(GroupConfiguration::new(Epoch(2), one, vec![one], Vec::new()), 0);
    let alone = leader.end();
    leader.written(alone);
    leader.learner(other, 0);
    leader.take_effects();
    assert!(goes_on(&mut leader, 0, TIMING.stall, start).is_empty(), "it lacks an entry, and has made none durable");
    // As soon as its log moves, it is taken.
    let taken = goes_on(&mut leader, TIMING.stall, TIMING.stall + 2 * TIMING.propose, alone);
    assert_eq!(taken.first().map(|proposal| proposal.members.clone()), Some(vec![one, other]));
}

#[test]
fn a_promise_that_could_not_be_written_is_asked_for_again() {
    let (one, _) = members();
    let mut group = Group::new(GroupId(0), one, TIMING, Remembered::default());
    for _ in 0..2 {
        group.seal(Epoch(3));
        assert!(matches!(group.take_effects()[..], [Effect::Promise(Epoch(3))]));
    }
    group.promised(Epoch(3));
    assert!(matches!(group.take_effects()[..], [Effect::Sealed(_)]));
}

#[test]
fn a_log_that_has_caught_up_is_intact_again() {
    let (one, other) = members();
    let leader = leader();
    let configuration = leader.configuration().expect("it leads").clone();
    let mut leader = Group::new(GroupId(0), one, TIMING, Remembered::default());
    leader.configured(configuration.clone(), 0);
    let header = leader.take_effects().into_iter().find_map(|effect| match effect {
        Effect::Start { header, .. } => Some(header),
        _ => None,
    });
    let header = header.expect("an epoch has its first entry");
    let mut member = Group::new(GroupId(0), other, TIMING, Remembered::default());
    member.configured(configuration, 0);
    let append = |commit| Message::Append { previous: Mark::ORIGIN, entries: vec![header], commit, round: 1 };
    let sealed = |member: &mut Group, epoch| {
        member.seal(epoch);
        member.promised(epoch);
        member.take_effects().into_iter().find_map(|effect| match effect {
            Effect::Sealed(sealed) => Some(sealed.intact),
            _ => None,
        })
    };
    member.handle_message(Envelope { from: one, epoch: Epoch(1), message: append(Position(0)) }, 0);
    member.written(header.mark);
    assert_eq!(sealed(&mut member, Epoch(2)), Some(false), "the start may not be committed");
    let mut member = Group::new(GroupId(0), other, TIMING, Remembered::default());
    member.configured(leader.configuration().expect("it leads").clone(), 0);
    member.handle_message(Envelope { from: one, epoch: Epoch(1), message: append(Position(1)) }, 0);
    member.written(header.mark);
    assert_eq!(sealed(&mut member, Epoch(2)), Some(true));
}

#[test]
fn an_answer_to_a_question_that_was_not_asked_counts_for_nothing() {
    let mut leader = leader();
    let end = leader.end();
    let round = leader.read().expect("it leads");
    let message = Message::Acked { durable: end, compares: true, round: u64::MAX };
    leader.handle_message(Envelope { from: members().1, epoch: Epoch(1), message }, 0);
    leader.tick(0);
    let confirmed = leader.take_effects().into_iter().any(|effect| matches!(effect, Effect::Confirmed(_)));
    assert!(!confirmed, "round {round} was not answered");
}

#[test]
fn a_leader_sleeps_until_its_next_heartbeat_and_a_follower_for_ever() {
    let (one, other) = members();
    let follower = Group::new(GroupId(0), other, TIMING, Remembered::default());
    assert_eq!(follower.next_tick(5), None);
    let mut leader = Group::new(GroupId(0), one, TIMING, Remembered::default());
    leader.configured(GroupConfiguration::new(Epoch(1), one, vec![one, other], Vec::new()), 0);
    assert_eq!(leader.next_tick(5), Some(5), "the member is asked again until the epoch is open");
    let mut leader = self::leader();
    let now = TIMING.heartbeat;
    leader.tick(now);
    leader.take_effects();
    assert_eq!(leader.next_tick(now + 1), Some(now + TIMING.heartbeat));
    leader.tick(now + TIMING.heartbeat - 1);
    assert!(leader.take_effects().is_empty(), "nothing is done before");
    assert_eq!(leader.next_tick(now + 3 * TIMING.heartbeat), Some(now + 3 * TIMING.heartbeat), "late");
    leader.append(7, 10).expect("it leads");
    assert_eq!(leader.next_tick(now + 1), Some(now + 1), "an entry is to be sent");
}

#[test]
fn a_leader_that_has_resigned_leads_again_in_a_later_epoch_only() {
    let mut leader = leader();
    let (one, other) = members();
    let header = leader.append(7, 10).expect("it leads");
    let silent = TIMING.failure;
    for now in (0..silent).step_by(TIMING.heartbeat as usize) {
        leader.tick(now);
        assert!(!leader.is_unanswered(silent, now));
    }
    assert!(leader.is_unanswered(silent, silent));
    leader.take_effects();
    assert_eq!(leader.resign(), Some(Epoch(1)));
    assert_eq!(leader.take_effects(), [Effect::Deposed { commit: Position(1) }]);
    assert!(!leader.is_leading() && !leader.is_unanswered(silent, silent) && !leader.may_use_lease());
    assert_eq!((leader.resign(), leader.append(7, 10), leader.read()), (None, None, None));
    // What comes late commits nothing, and the same configuration makes it no leader.
    leader.written(header.mark);
    acked(&mut leader, header.mark, silent);
    leader.configured(GroupConfiguration::new(Epoch(1), one, vec![one, other], Vec::new()), silent);
    leader.tick(silent);
    assert!(leader.take_effects().iter().all(|effect| matches!(effect, Effect::Send { .. })));
    assert_eq!(leader.commit(), Position(1));
    leader.configured(GroupConfiguration::new(Epoch(2), one, vec![one, other], Vec::new()), silent);
    assert!(leader.is_leading());
}
